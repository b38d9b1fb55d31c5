//! `tidings senders`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::clients::{self, FindError};
use tidings_access::{ClientId, Cx, DisplayName, Slug};
use tidings_delivery::senders::{self, Add, AddError, ChangeError, NewSender, SenderIdentity};
use tidings_kernel::{EmailAddress, Workspace};

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings senders add news --client shop --from news@example.org --name 'The shop'
  tidings senders list --client shop
  tidings senders default team --client shop
  tidings senders remove news --client shop

A message names a sender by its slug, never an address. Without a name it comes from the template's
sender, or from the client's default.")]
pub(crate) struct SendersArgs {
    /// The workspace of the client
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// The client whose senders are meant
    #[arg(
        long,
        global = true,
        value_name = "SLUG",
        default_value = "app",
        help_heading = "Common options"
    )]
    client: Slug,
    /// Lay each sender out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: SendersCommand,
}

#[derive(Debug, Subcommand)]
enum SendersCommand {
    /// Print all senders of a client, by slug
    List,
    /// Add one; the first one of a client is its default
    Add {
        /// What messages call it: up to 40 lower-case letters, digits and hyphens
        slug: Slug,
        /// The address in From
        #[arg(long, value_name = "ADDRESS")]
        from: EmailAddress,
        /// The name beside it
        #[arg(long)]
        name: Option<DisplayName>,
        /// Where answers go, if not to that address
        #[arg(long, value_name = "ADDRESS")]
        reply_to: Option<EmailAddress>,
        /// Make it the default
        #[arg(long)]
        default: bool,
    },
    /// Make one the sender of messages that name none
    Default {
        /// The sender
        slug: Slug,
    },
    /// Remove one that is not the default, or the last one
    Remove {
        /// The sender
        slug: Slug,
    },
}

#[derive(Serialize)]
struct Shown {
    slug: String,
    from_email: String,
    from_name: Option<String>,
    reply_to: Option<String>,
    default: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub(crate) async fn run(args: SendersArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => match clients::find(&cx, args.client).await {
            Ok(client) => answer(args.command, &open, &cx, client.id).await,
            Err(error) => Err(no_client(error)),
        },
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(
    command: SendersCommand,
    open: &Open,
    cx: &Cx,
    client: ClientId,
) -> Result<(), Failure> {
    let sender = match command {
        SendersCommand::List => {
            let mut out = open.out();
            for sender in senders::list(cx, client).await? {
                out.json(&Shown::from(sender))?;
            }
            return out.finish();
        }
        SendersCommand::Add { slug, from, name, reply_to, default } => {
            let sender = NewSender {
                slug,
                from_email: from,
                from_name: name,
                reply_to,
                is_default: default,
            };
            senders::add(cx, Add { client, sender }).await.map_err(not_added)?
        }
        SendersCommand::Default { slug } => {
            senders::set_default(cx, client, slug).await.map_err(not_changed)?
        }
        SendersCommand::Remove { slug } => {
            senders::remove(cx, client, slug).await.map_err(not_changed)?
        }
    };
    open.print(&Shown::from(sender))
}

const WHERE_TO_LOOK: &str = "`tidings senders list --client …` shows those that there are";

fn no_client(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::from(error)
            .hint("`tidings clients list --workspace …` shows those that there are; name one with --client"),
        FindError::Store(_) => error.into(),
    }
}

fn not_added(error: AddError) -> Failure {
    match error {
        AddError::Taken(_) | AddError::TooMany => Failure::from(error).hint(WHERE_TO_LOOK),
        AddError::Store(_) => error.into(),
    }
}

fn not_changed(error: ChangeError) -> Failure {
    match error {
        ChangeError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        ChangeError::IsDefault(_) => {
            Failure::from(error).hint("`tidings senders default SLUG --client …` does that")
        }
        ChangeError::Store(_) => error.into(),
    }
}

impl From<SenderIdentity> for Shown {
    fn from(sender: SenderIdentity) -> Self {
        Self {
            slug: sender.slug.to_string(),
            from_email: sender.from_email.to_string(),
            from_name: sender.from_name.map(|name| name.to_string()),
            reply_to: sender.reply_to.map(|address| address.to_string()),
            default: sender.is_default,
            created_at: sender.created_at,
            updated_at: sender.updated_at,
        }
    }
}
