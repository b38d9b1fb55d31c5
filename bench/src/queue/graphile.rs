//! graphile-worker on the same PostgreSQL: installed with npm, and run by the script beside this file.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Sizes;
use crate::postgres_server::PostgresServer;

/// The newest that runs on Node.js 20; 0.18 asks for 22.18.
const VERSION: &str = "0.17.3";
const SCRIPT: &str = include_str!("graphile.mjs");
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Graphile(Value);

/// The inner error tells why there is nothing to compare with.
pub(super) async fn measure(
    server: &PostgresServer,
    sizes: &Sizes,
) -> anyhow::Result<Result<Graphile, String>> {
    let url = server.new_database("graphile")?;
    let numbers = [sizes.jobs as u128, sizes.singles as u128, sizes.trickle.as_millis()];
    tokio::task::spawn_blocking(move || match install() {
        Ok(folder) => run(&folder, &url, numbers).map(Ok),
        Err(missing) => Ok(Err(format!("{missing:#}"))),
    })
    .await?
}

impl Graphile {
    /// With the best of its settings.
    pub(super) fn best(&self) -> f64 {
        self.settings().map(|row| number(row, "rate")).fold(0.0, f64::max)
    }

    /// With its batching off, as it is unless somebody turns it on.
    pub(super) fn unbatched(&self) -> f64 {
        self.settings().next().map_or(0.0, |row| number(row, "rate"))
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = String> {
        self.settings().map(|row| {
            format!(
                "| graphile-worker, {} | 1 | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
                row["label"].as_str().unwrap_or_default(),
                number(row, "added"),
                number(&self.0, "single"),
                number(row, "rate"),
                number(row, "p50"),
                number(row, "p99")
            )
        })
    }

    pub(super) fn about(&self) -> String {
        format!(
            "graphile-worker {} on Node.js {}: one process, which sends, too.",
            self.0["version"].as_str().unwrap_or_default(),
            self.0["node"].as_str().unwrap_or_default()
        )
    }

    fn settings(&self) -> impl Iterator<Item = &Value> {
        self.0["rows"].as_array().into_iter().flatten()
    }
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

fn install() -> anyhow::Result<PathBuf> {
    quiet(Command::new("node").arg("--version")).context("there is no Node.js")?;
    let folder = std::path::absolute("target/tools/graphile")?;
    let package = folder.join("node_modules/graphile-worker/package.json");
    let installed = std::fs::read_to_string(package).unwrap_or_default();
    if !installed.contains(&format!("\"version\": \"{VERSION}\"")) {
        std::fs::create_dir_all(&folder)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
        quiet(npm.arg(format!("graphile-worker@{VERSION}"))).context("npm could not install it")?;
    }
    std::fs::write(folder.join("bench.mjs"), SCRIPT)?;
    Ok(folder)
}

fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

fn run(folder: &Path, url: &str, numbers: [u128; 3]) -> anyhow::Result<Graphile> {
    let mut node = Command::new("node")
        .arg(folder.join("bench.mjs"))
        .arg(folder)
        .arg(url)
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = node.try_wait()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            node.kill()?;
            break node.wait()?;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut answer = String::new();
    node.stdout.take().context("it was piped")?.read_to_string(&mut answer)?;
    if !status.success() {
        bail!("the run of graphile-worker ended with {status}");
    }
    Ok(Graphile(serde_json::from_str(&answer).context("the run of graphile-worker said nothing")?))
}
