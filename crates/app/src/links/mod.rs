//! `tidings links`: the keys that sign the links of our mails, for operators. A secret is never shown.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_delivery::links::{self, Links, SigningKey};

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings links list
  tidings links rotate

Links in mails are signed, so that nobody can make or change one. The newest key signs; all older ones
still prove what they have signed, because a link in a mail works for years. Rotate from time to time, and
when somebody may have seen the database: servers follow within a minute.")]
pub(crate) struct LinksArgs {
    /// Lay each key out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: LinksCommand,
}

#[derive(Debug, Subcommand)]
enum LinksCommand {
    /// Print the keys that sign links, oldest first; their secrets are not shown
    List,
    /// Make a key that signs from now on; older links stay good
    Rotate,
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    /// Whether it signs new links.
    signs: bool,
    created_at: Timestamp,
}

pub(crate) async fn run(args: LinksArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match args.command {
        LinksCommand::List => list(&open, config).await,
        LinksCommand::Rotate => rotate(&open).await,
    };
    open.close().await;
    done
}

async fn list(open: &Open, config: &Config) -> Result<(), Failure> {
    let database = open.access.database();
    // Makes the first one where no server has run yet.
    Links::load(database, &config.http.public_url, open.access.now()).await?;
    let keys = links::list(database).await?;
    let newest = keys.last().map(|key| key.id);
    let mut out = open.out();
    for key in keys {
        out.json(&Shown { signs: Some(key.id) == newest, ..Shown::from(key) })?;
    }
    out.finish()
}

async fn rotate(open: &Open) -> Result<(), Failure> {
    let made = links::rotate(open.access.database(), open.access.now()).await?;
    say("New links are signed with this key; servers follow within a minute.");
    open.print(&Shown::from(made))
}

impl From<SigningKey> for Shown {
    fn from(key: SigningKey) -> Self {
        Self { id: key.id, signs: true, created_at: key.created_at }
    }
}
