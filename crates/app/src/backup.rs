//! `tidings backup` and `restore`: the embedded database as one file.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use tidings_access::Change;
use tidings_outreach::campaigns::restored;
use tidings_sql::{BackupProgress, RestoreError};

use crate::config::{Config, Engine};
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidings backup tidings-$(date +%F).db
  tidings backup --force /mnt/backup/tidings.db

The copy is one moment's state, taken without stopping the server, and checked before it gets its
name. It holds everything, so only its owner can read it. PostgreSQL and AWS: see docs/backup.md.")]
pub(crate) struct BackupArgs {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidings restore tidings-2026-07-01.db
  tidings restore --force tidings-2026-07-01.db      replace the database that is there

The backup is checked first. Stop the server before: a database that is in use is left alone.")]
pub(crate) struct RestoreArgs {
    /// The backup to restore
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the database if there is one
    #[arg(long)]
    force: bool,
}

pub(crate) async fn back_up(args: &BackupArgs, config: &Config) -> Result<(), Failure> {
    refuse_other_engines(config)?;
    let from = &config.embedded.path;
    if !from.exists() {
        return Err(Failure::failed(format!("there is no database {}", from.display()))
            .hint("embedded.path says where it is"));
    }
    if is_same_file(from, &args.file) {
        return Err(Failure::usage("the backup would replace the database itself"));
    }
    if args.file.exists() && !args.force {
        return Err(Failure::usage(format!("{} is already there", args.file.display()))
            .hint("--force replaces it"));
    }
    let mut progress = Progress::new();
    let copied = tidings_sql::backup(from, &args.file, move |step| progress.show(step));
    copied.await.map_err(|error| {
        Failure::from(error).hint("is there room, and may this user write there?")
    })?;
    let size = std::fs::metadata(&args.file).context("the backup is gone")?.len();
    let shown = args.file.display();
    say(&format!("backed up {} to {shown} ({} KB, checked)", from.display(), size.div_ceil(1024)));
    Ok(())
}

pub(crate) async fn restore(args: &RestoreArgs, config: &Config) -> Result<(), Failure> {
    refuse_other_engines(config)?;
    let to = &config.embedded.path;
    if !args.file.exists() {
        return Err(Failure::usage(format!("there is no file {}", args.file.display())));
    }
    if is_same_file(to, &args.file) {
        return Err(Failure::usage("the backup is the database itself"));
    }
    if to.exists() && !args.force {
        return Err(Failure::usage(format!("the database {} is already there", to.display()))
            .hint("--force replaces it; `tidings backup` keeps a copy of it first"));
    }
    let replaced = to.exists();
    tidings_sql::restore(&args.file, to).map_err(|error| {
        let hint = match &error {
            RestoreError::InUse(_) => "stop `tidings serve` and other commands first",
            RestoreError::NotABackup(_) => "`tidings backup` makes one",
            RestoreError::Damaged(_) => "nothing was changed; take an older one",
            RestoreError::File { .. } | RestoreError::Copy(_) | RestoreError::Database(_) => {
                "is there room, and may this user write there?"
            }
        };
        Failure::from(error).hint(hint)
    })?;
    say(&format!("restored {} from {}", to.display(), args.file.display()));
    let open = Open::existing(config, layout(false)).await?;
    let settled = settle(&open, &args.file, replaced).await;
    open.close().await;
    settled
}

/// In the database that is there now: the one that was there before has no readers any more.
async fn settle(open: &Open, file: &Path, replaced: bool) -> Result<(), Failure> {
    let paused = restored::pause_all(&open.access).await;
    let paused = paused.context("it is restored, but campaigns under way could not be paused")?;
    if paused > 0 {
        say(&format!(
            "campaigns that were under way, and are paused now: {paused}; `tidings campaign list --status paused` shows them, and whoever resumes one \
             sends it again to those who have got it since the backup"
        ));
    }
    audit(open, file, replaced).await
}

async fn audit(open: &Open, file: &Path, replaced: bool) -> Result<(), Failure> {
    let size = std::fs::metadata(file).context("the backup is gone")?.len();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let told = json!({ "file": name, "bytes": size, "replaced": replaced });
    let change = Change::new("database.restore", "database", "embedded").after(told);
    let access = open.access.clone();
    let written = open.access.database().write(move |tx| access.record_change(tx, &change)).await;
    Ok(written.context("it is restored, but that is not in the audit log")?)
}

fn refuse_other_engines(config: &Config) -> Result<(), Failure> {
    let (engine, way) = match config.engine {
        Engine::Embedded => return Ok(()),
        Engine::Postgres => ("PostgreSQL", "pg_dump or point-in-time recovery"),
        Engine::Aws => ("AWS", "DynamoDB's point-in-time recovery"),
    };
    Err(Failure::usage(format!("{engine} has its own backups: use {way}"))
        .hint("docs/backup.md says how"))
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// A line on the terminal that counts up, and nothing where there is no terminal.
struct Progress {
    is_terminal: bool,
    shown_percent: Option<u64>,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), shown_percent: None }
    }

    fn show(&mut self, step: BackupProgress) {
        let percent = (step.copied_pages * 100).checked_div(step.total_pages).unwrap_or(100);
        if !self.is_terminal || self.shown_percent == Some(percent) {
            return;
        }
        self.shown_percent = Some(percent);
        let end = if percent == 100 { "; checking\n" } else { "" };
        drop(write!(stderr(), "\rcopied {percent} %{end}"));
    }
}
