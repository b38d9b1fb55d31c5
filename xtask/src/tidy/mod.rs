//! Tidy: the house rules over every file and crate of the project, run as a test too.
//!
//! Here: reading the tree and applying the rules. Not here: the rules (`rules` for files, `layers` for crates).

mod layers;
mod rules;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// A file as git knows it, or would after `git add`.
struct File {
    /// From the project's root, with `/`.
    path: String,
    bytes: Vec<u8>,
}

impl File {
    /// The lines with their numbers; none in a binary file.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(str::from_utf8(&self.bytes).unwrap_or_default().lines())
    }
}

/// Every breach of a rule, as `file:line: what is wrong`.
pub(crate) fn findings() -> anyhow::Result<Vec<String>> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
    let mut findings: Vec<String> = files(root)?.iter().flat_map(rules::check).collect();

    let allowed =
        std::fs::read_to_string(root.join("layers.toml")).context("reading layers.toml")?;
    let metadata = run(root, env!("CARGO"), &["metadata", "--no-deps", "--format-version=1"])?;
    let packages = layers::packages(&serde_json::from_slice(&metadata)?)?;
    findings.extend(layers::check(&packages, &toml::from_str(&allowed)?));
    Ok(findings)
}

fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let listed =
        run(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut files = Vec::new();
    for path in String::from_utf8(listed)?.split_terminator('\0') {
        match std::fs::read(root.join(path)) {
            Ok(bytes) => files.push(File { path: path.to_owned(), bytes }),
            // Deleted, but still known to git.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("reading {path}")),
        }
    }
    Ok(files)
}

fn run(root: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("starting {program}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {complaint}", arguments.join(" "));
    Ok(output.stdout)
}
