//! `tidings links`: the keys that sign the links of our mails, for operators. A secret is never shown.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::signing::{self, RevokeError, SigningKey, SigningKeys};

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings links list
  tidings links rotate
  tidings links revoke 1

Links in mails are signed, so that nobody can make or change one. The newest key signs; all older
ones still prove what they have signed, because a link in a mail works for years. Rotate from time
to time. When somebody else may have a key, rotate and then revoke it: whoever has it can make links
until it is revoked, and all links that it has signed die with it. Servers follow within a minute.")]
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
    /// Make a key worthless; links in mails that it has signed die, those to unsubscribe too
    Revoke {
        /// Its number, as the list shows it
        key: i64,
    },
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    /// Whether it signs new links.
    signs: bool,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
}

pub(crate) async fn run(args: LinksArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match args.command {
        LinksCommand::List => list(&open).await,
        LinksCommand::Rotate => rotate(&open).await,
        LinksCommand::Revoke { key } => revoke(&open, key).await,
    };
    open.close().await;
    done
}

async fn list(open: &Open) -> Result<(), Failure> {
    let database = open.access.database();
    // Makes the first one where no server has run yet.
    SigningKeys::load(database, open.access.now()).await?;
    let keys = signing::list(database).await?;
    let newest = keys.iter().rfind(|key| key.revoked_at.is_none()).map(|key| key.id);
    let mut out = open.out();
    for key in keys {
        out.json(&Shown { signs: Some(key.id) == newest, ..Shown::from(key) })?;
    }
    out.finish()
}

async fn rotate(open: &Open) -> Result<(), Failure> {
    let made = signing::rotate(open.access.database(), open.access.now()).await?;
    say("New links are signed with this key; servers follow within a minute.");
    open.print(&Shown::from(made))
}

async fn revoke(open: &Open, key: i64) -> Result<(), Failure> {
    let revoked = signing::revoke(open.access.database(), key, open.access.now()).await;
    let revoked = revoked.map_err(|error| match error {
        RevokeError::Missing(_) => {
            Failure::from(error).hint("`tidings links list` shows those that there are")
        }
        RevokeError::Only(_) => {
            Failure::from(error).hint("`tidings links rotate` makes another one first")
        }
        RevokeError::Store(_) => error.into(),
    })?;
    say(
        "Links that this key has signed are dead, in mails that were sent as well, and nobody can unsubscribe by \
         them any more; servers follow within a minute.",
    );
    open.print(&Shown { signs: false, ..Shown::from(revoked) })
}

impl From<SigningKey> for Shown {
    fn from(key: SigningKey) -> Self {
        let SigningKey { id, created_at, revoked_at } = key;
        Self { id, signs: true, created_at, revoked_at }
    }
}
