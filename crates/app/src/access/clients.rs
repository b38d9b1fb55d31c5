//! `tidings clients`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::clients::{self, Client, Create, CreateError, FindError};
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings clients list --workspace acme
  tidings clients create shop --name 'The shop' --workspace acme
  tidings clients disable shop --workspace acme")]
pub(crate) struct ClientsArgs {
    /// The workspace whose clients are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each client out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// Print all clients, by slug
    List,
    /// Make a client
    Create {
        /// Its name in URLs and commands: up to 40 lower-case letters, digits and hyphens
        slug: Slug,
        /// Its name for people [default: the slug]
        #[arg(long)]
        name: Option<DisplayName>,
    },
    /// Refuse all keys of a client, until it is enabled again
    Disable {
        /// The client
        slug: Slug,
    },
    /// Take the keys of a client again
    Enable {
        /// The client
        slug: Slug,
    },
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    slug: String,
    name: String,
    disabled_at: Option<Timestamp>,
    created_at: Timestamp,
}

pub(crate) async fn run(args: ClientsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: ClientsCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let client = match command {
        ClientsCommand::List => return list(open, cx).await,
        ClientsCommand::Create { slug, name } => {
            let name = name.unwrap_or_else(|| DisplayName::from(&slug));
            clients::create(cx, Create { slug, name }).await.map_err(taken)?
        }
        ClientsCommand::Disable { slug } => {
            let disabled = clients::disable(cx, slug).await.map_err(no_client)?;
            super::until_everybody_knows().await;
            disabled
        }
        ClientsCommand::Enable { slug } => clients::enable(cx, slug).await.map_err(no_client)?,
    };
    open.print(&Shown::from(client))
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = clients::list(cx, after, Limit::MAX).await?;
        for client in page.items {
            out.json(&Shown::from(client))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

const WHERE_TO_LOOK: &str = "`tidings clients list --workspace …` shows those that there are";

fn taken(error: CreateError) -> Failure {
    match error {
        CreateError::Taken(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        CreateError::Store(_) => error.into(),
    }
}

pub(super) fn no_client(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        FindError::Store(_) => error.into(),
    }
}

impl From<Client> for Shown {
    fn from(client: Client) -> Self {
        Self {
            id: client.id.get(),
            slug: client.slug.to_string(),
            name: client.name.to_string(),
            disabled_at: client.disabled_at,
            created_at: client.created_at,
        }
    }
}
