//! The product as users run it: the binary, a folder of its own, and requests to its server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// Where its data are, and what it is told by the environment.
pub(crate) struct Product {
    folder: TempDir,
    program: PathBuf,
    environment: Vec<(String, String)>,
}

/// Ends with the value.
pub(crate) struct Server {
    child: Child,
    pub(crate) at: SocketAddr,
    pub(crate) api_key: String,
}

impl Product {
    /// Builds the binary, so that it is the one of these sources.
    pub(crate) fn build() -> anyhow::Result<PathBuf> {
        let build = ["build", "--release", "--quiet", "-p", "tidings-app"];
        ensure!(Command::new("cargo").args(build).status()?.success(), "it does not build");
        Ok(Path::new("target/release/tidings").canonicalize()?)
    }

    /// In a folder of its own, told these things by the environment.
    pub(crate) fn new(program: &Path, environment: &[(&str, String)]) -> anyhow::Result<Self> {
        let set = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        Ok(Self {
            // Not in /tmp, which may be memory.
            folder: tempfile::tempdir_in("target")?,
            program: program.to_owned(),
            environment: environment.iter().map(set).collect(),
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.folder.path()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and gives what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    pub(crate) fn serve(&self, api_key: String) -> anyhow::Result<Server> {
        let arguments = ["serve", "--listen", "127.0.0.1:0"];
        let mut child = self.command(&arguments).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("it has no stderr")?).lines();
        let at = loop {
            let line = lines.next().context("the server ended")??;
            if let Some((_, address)) = line.split_once("listening on http://") {
                let end = address.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
                break address[..end.unwrap_or(address.len())].parse()?;
            }
        };
        // What nobody reads would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Server { child, at, api_key })
    }
}

impl Server {
    /// Asks on a connection of its own, and gives the answer's JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect(self.at)?;
        stream.set_nodelay(true)?;
        let request = format!(
            "{method} {path} HTTP/1.0\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.api_key,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.get(9..10).context("no status")?;
        ensure!(status == "2", "{method} {path}: {head}\n{body}");
        Ok(if body.is_empty() { Value::Null } else { serde_json::from_str(body)? })
    }

    /// The most memory that it ever had, in megabytes.
    pub(crate) fn peak_megabytes(&self) -> anyhow::Result<f64> {
        self.megabytes("VmHWM:")
    }

    /// The memory that it has, in megabytes.
    pub(crate) fn resident_megabytes(&self) -> anyhow::Result<f64> {
        self.megabytes("VmRSS:")
    }

    /// The time of all processors that it has used.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, rest) = stat.rsplit_once(')').context("the system does not tell")?;
        let ticks: u64 =
            rest.split_whitespace().skip(11).take(2).map(|part| part.parse().unwrap_or(0)).sum();
        // A hundred a second, on every Linux that we know.
        Ok(Duration::from_millis(10 * ticks))
    }

    fn megabytes(&self, name: &str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes: f64 = line
            .and_then(|rest| rest.split_whitespace().next())
            .context("the system does not tell")?
            .parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
