//! `tidings keys`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde::Serialize;
use tidings_access::keys::{self, Create, CreateError, Granter, Key, PublicId, Rate, RevokeError};
use tidings_access::{Cx, DisplayName, Limit, Scope, Slug};
use tidings_kernel::Workspace;

use super::clients::no_client;
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings keys create --workspace acme --client shop --name live --scope send --scope read
  tidings keys create --client app --name ci --scope events --expires 90d --requests-per-second 5
  tidings keys list --workspace acme --client shop
  tidings keys revoke 4fR9aZkQ0b2X --workspace acme")]
pub(crate) struct KeysArgs {
    /// The workspace whose keys are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each key out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Print all keys of a client, in the order in which they were made
    List {
        /// The client
        #[arg(long, value_name = "SLUG")]
        client: Slug,
    },
    /// Make a key and print it, this once
    Create(CreateArgs),
    /// Refuse a key, for ever
    Revoke {
        /// The first part of the key, after tdg_
        public_id: PublicId,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The client that gets it
    #[arg(long, value_name = "SLUG")]
    client: Slug,
    /// What it is for; two keys of a client that work cannot have the same
    #[arg(long)]
    name: DisplayName,
    /// What it may do; give it several times for several scopes
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope_parser())]
    scopes: Vec<Scope>,
    /// How many requests a second it may make in the long run
    #[arg(long, value_name = "N", default_value_t = Rate::default().per_second().into())]
    requests_per_second: i64,
    /// How many requests it may make at once
    #[arg(long, value_name = "N", default_value_t = Rate::default().burst().into())]
    burst: i64,
    /// When it stops working: a time (2030-01-31T12:00:00Z) or from now on (90d, 12h)
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Expiry>,
}

#[derive(Debug, Clone, Copy)]
enum Expiry {
    At(Timestamp),
    In(SignedDuration),
}

#[derive(Serialize)]
struct Shown {
    /// Only when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    public_id: String,
    client: String,
    name: String,
    scopes: Vec<&'static str>,
    requests_per_second: u32,
    burst: u32,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    created_at: Timestamp,
}

pub(crate) async fn run(args: KeysArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: KeysCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match command {
        KeysCommand::List { client } => list(open, cx, client).await,
        KeysCommand::Create(args) => create(open, cx, args).await,
        KeysCommand::Revoke { public_id } => {
            let revoked = keys::revoke(cx, public_id).await.map_err(no_key)?;
            super::until_everybody_knows().await;
            open.print(&Shown::from(revoked))
        }
    }
}

async fn create(open: &Open, cx: &Cx, args: CreateArgs) -> Result<(), Failure> {
    let rate = Rate::new(args.requests_per_second, args.burst);
    let rate = rate.map_err(|error| {
        Failure::usage(format!("--requests-per-second and --burst make no rate: {error}"))
    })?;
    let expires_at = match args.expires {
        None => None,
        Some(Expiry::At(at)) => Some(at),
        Some(Expiry::In(time)) => Some(open.access.now().checked_add(time)?),
    };
    let create = Create {
        client: args.client,
        name: args.name,
        scopes: args.scopes.into_iter().collect(),
        rate,
        expires_at,
        granted_by: Granter::Operator,
    };
    let issued = keys::create(cx, create).await.map_err(not_made)?;
    say("The key is shown only now.");
    let key = Some(issued.api_key.expose());
    open.print(&Shown { key, ..Shown::from(issued.key) })
}

async fn list(open: &Open, cx: &Cx, client: Slug) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = keys::list(cx, client.clone(), after, Limit::MAX).await.map_err(no_client)?;
        for key in page.items {
            out.json(&Shown::from(key))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

fn not_made(error: CreateError) -> Failure {
    match error {
        CreateError::ClientMissing(_) => {
            Failure::from(error).hint("`tidings clients create` makes one")
        }
        CreateError::Taken { .. } => {
            Failure::from(error).hint("`tidings keys list --client …` shows those that there are")
        }
        CreateError::ExpiryPast => Failure::usage(error.to_string()),
        CreateError::Beyond(_) | CreateError::Excessive(_) | CreateError::Store(_) => error.into(),
    }
}

fn no_key(error: RevokeError) -> Failure {
    match error {
        RevokeError::Missing(_) => {
            Failure::from(error).hint("is it in another workspace? --workspace says which")
        }
        RevokeError::Store(_) => error.into(),
    }
}

/// Scopes as clap's possible values: the help lists them, and shells complete them.
fn scope_parser() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(Scope::as_str))
        .map(|word| word.parse().expect("it is one of the words"))
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if let Ok(at) = text.parse() {
        return Ok(Expiry::At(at));
    }
    let time = text.parse::<Span>().ok();
    let time = time.and_then(|time| time.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    time.map(Expiry::In).ok_or_else(|| "use 2030-01-31T12:00:00Z, 90d or 12h".to_owned())
}

impl From<Key> for Shown {
    fn from(key: Key) -> Self {
        Self {
            key: None,
            public_id: key.public_id.to_string(),
            client: key.client.to_string(),
            name: key.name.to_string(),
            scopes: key.scopes.iter().map(Scope::as_str).collect(),
            requests_per_second: key.rate.per_second(),
            burst: key.rate.burst(),
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
            created_at: key.created_at,
        }
    }
}
