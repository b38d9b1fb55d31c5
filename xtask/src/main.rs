//! The project's own chores: `cargo xtask tidy` looks for what rustfmt and clippy cannot see.

mod tidy;

use anyhow::{bail, ensure};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        bail!("usage: cargo xtask tidy");
    }
    let findings = tidy::findings()?;
    ensure!(findings.is_empty(), "{} untidy places\n{}", findings.len(), findings.join("\n"));
    Ok(())
}
