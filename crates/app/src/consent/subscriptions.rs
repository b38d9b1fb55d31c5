//! `tidings subscriptions`.

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{ClientId, Cx, Limit, Slug};
use tidings_delivery::confirmation::{Ask, Asked, ask_once_subscribed};
use tidings_delivery::links::Links;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{Messages, Status};
use tidings_kernel::EmailAddress;
use tidings_people::consent::proof::{self, Entry};
use tidings_people::consent::subscriptions::{
    self, Outcome, Resubscribe, Subscribe, Subscription, Unsubscribe,
};
use tidings_people::consent::{Act, By, Line, Proof, Scope, Whom};

use super::{Within, an_only_client, the_audience, the_client};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings subscriptions list ada@example.org --workspace acme
  tidings subscriptions subscribe ada@example.org --audience news --reason 'asked on the phone'
  tidings subscriptions unsubscribe ada@example.org --scope global --reason 'asked by letter'
  tidings subscriptions resubscribe ada@example.org --scope audience --audience news --reason 'asked on the phone'
  tidings subscriptions proof ada@example.org")]
pub(crate) struct SubscriptionsArgs {
    #[command(flatten)]
    within: Within,
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

#[derive(Debug, Subcommand)]
enum SubscriptionsCommand {
    /// Print what somebody is or was subscribed to
    List {
        /// The person
        email: EmailAddress,
    },
    /// Subscribe somebody, as an operator
    Subscribe {
        /// The person, who is made known if nobody has the address
        email: EmailAddress,
        /// To which audience
        #[arg(long, value_name = "SLUG")]
        audience: Slug,
        /// To the mail of one client only
        #[arg(long, value_name = "SLUG")]
        client: Option<Slug>,
        /// The person has confirmed it, and there is a proof
        #[arg(long)]
        confirmed: bool,
        /// Who sends the mail that asks for a confirmation [default: the client above, or the only one there is]
        #[arg(long, value_name = "SLUG")]
        confirm_as: Option<Slug>,
        /// Why; needed for somebody who has unsubscribed
        #[arg(long, value_name = "TEXT")]
        reason: Option<Line>,
    },
    /// Unsubscribe somebody
    Unsubscribe(ScopeArgs),
    /// Take an unsubscription back, as an operator with a reason
    Resubscribe(ScopeArgs),
    /// Print the proof of every change, the newest first
    Proof {
        /// The person
        email: EmailAddress,
    },
}

#[derive(Debug, Args)]
struct ScopeArgs {
    /// The person
    email: EmailAddress,
    /// How much
    #[arg(long)]
    scope: Reach,
    /// The audience that is meant, unless it is everything
    #[arg(long, value_name = "SLUG", required_if_eq_any([("scope", "audience"), ("scope", "client")]))]
    audience: Option<Slug>,
    /// The client that is meant, with scope client
    #[arg(long, value_name = "SLUG", required_if_eq("scope", "client"))]
    client: Option<Slug>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<Line>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Reach {
    /// One client's mail to an audience
    Client,
    /// All mail to an audience
    Audience,
    /// Everything that is not transactional
    Global,
}

pub(crate) async fn run(args: SubscriptionsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.within.pretty)).await?;
    let done = match open.inside(args.within.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx, config).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(
    command: SubscriptionsCommand,
    open: &Open,
    cx: &Cx,
    config: &Config,
) -> Result<(), Failure> {
    let outcome = match command {
        SubscriptionsCommand::List { email } => return list(open, cx, email).await,
        SubscriptionsCommand::Proof { email } => return proof(open, cx, email).await,
        SubscriptionsCommand::Subscribe {
            email,
            audience,
            client,
            confirmed,
            confirm_as,
            reason,
        } => {
            let audience = the_audience(cx, audience).await?;
            let client = match client {
                Some(client) => Some(the_client(cx, client).await?),
                None => None,
            };
            let asks = match confirm_as {
                Some(slug) => Some(the_client(cx, slug).await?),
                None => client,
            };
            let whom = Whom::Email(email);
            let asks = an_only_client(cx, asks).await?;
            let cmd = Subscribe { whom, audience, client, confirmed, act: act(reason) };
            let outcome = match asks {
                Some(asks) => subscriptions::subscribe_and_ask(cx, cmd, asks).await?,
                None => subscriptions::subscribe(cx, cmd).await?,
            };
            let confirmation = confirm(cx, config, asks, &outcome).await?;
            return open.print(&ShownOutcome { confirmation, ..outcome.into() });
        }
        SubscriptionsCommand::Unsubscribe(args) => {
            let (whom, scope, act) = meant(cx, args).await?;
            subscriptions::unsubscribe(cx, Unsubscribe { whom, scope, act }).await?
        }
        SubscriptionsCommand::Resubscribe(args) => {
            let (whom, scope, act) = meant(cx, args).await?;
            subscriptions::resubscribe(cx, Resubscribe { whom, scope, act }).await?
        }
    };
    open.print(&ShownOutcome::from(outcome))
}

/// Asks for the confirmation that is waited for, if one is. A running server sends the mail.
async fn confirm(
    cx: &Cx,
    config: &Config,
    asks: Option<ClientId>,
    outcome: &Outcome,
) -> Result<Option<ShownConfirmation>, Failure> {
    let (Some(waiting), Some(send)) = (&outcome.subscription, outcome.to_confirm) else {
        return Ok(None);
    };
    let Some(client) = asks else {
        let reason = "name the client that asks with --confirm-as".to_owned();
        return Ok(Some(ShownConfirmation { reason: Some(reason), ..shown("refused") }));
    };
    let links = Links::load(cx.database(), &config.http.public_url, cx.now()).await?;
    let messages = Messages::new(Templates::default());
    let ask = Ask { subscription: waiting.id, client, send };
    Ok(match ask_once_subscribed(cx, &messages, &links, ask).await? {
        Asked::Accepted(accepted) => Some(ShownConfirmation {
            message_id: Some(accepted.id.get()),
            reason: accepted.skip_reason,
            ..shown(if accepted.status == Status::Skipped { "skipped" } else { "queued" })
        }),
        Asked::TooMany { next } => {
            Some(ShownConfirmation { next_at: Some(next), ..shown("limited") })
        }
        Asked::ByClient => Some(shown("by_client")),
        Asked::Refused(error) => {
            Some(ShownConfirmation { reason: Some(error.to_string()), ..shown("refused") })
        }
        Asked::Over => None,
    })
}

fn shown(outcome: &'static str) -> ShownConfirmation {
    ShownConfirmation { outcome, message_id: None, reason: None, next_at: None }
}

async fn meant(cx: &Cx, args: ScopeArgs) -> Result<(Whom, Scope, Act), Failure> {
    let missing = || Failure::usage("this scope needs --audience, and --client for scope client");
    let audience = match args.audience {
        Some(audience) => Some(the_audience(cx, audience).await?),
        None => None,
    };
    let scope = match args.scope {
        Reach::Global => Scope::Global,
        Reach::Audience => Scope::Audience(audience.ok_or_else(missing)?),
        Reach::Client => {
            let client = the_client(cx, args.client.ok_or_else(missing)?).await?;
            Scope::Client(audience.ok_or_else(missing)?, client)
        }
    };
    Ok((Whom::Email(args.email), scope, act(args.reason)))
}

pub(super) fn act(reason: Option<Line>) -> Act {
    let source = "command line".parse().expect("it is a line");
    Act { by: By::Operator, source, reason, proof: Proof::default() }
}

async fn list(open: &Open, cx: &Cx, email: EmailAddress) -> Result<(), Failure> {
    let found = subscriptions::list(cx, Whom::Email(email)).await?.ok_or_else(nobody)?;
    let mut out = open.out();
    for subscription in found {
        out.json(&Shown::from(subscription))?;
    }
    out.finish()
}

async fn proof(open: &Open, cx: &Cx, email: EmailAddress) -> Result<(), Failure> {
    let mut out = open.out();
    let mut before = None;
    loop {
        let whom = Whom::Email(email.clone());
        let page = proof::list(cx, whom, before, Limit::MAX).await?.ok_or_else(nobody)?;
        for entry in page.items {
            out.json(&ShownEntry::from(entry))?;
        }
        before = page.next;
        if before.is_none() {
            return out.finish();
        }
    }
}

pub(super) fn nobody() -> Failure {
    Failure::failed("there is no contact with this address")
        .hint("`--workspace` says where to look")
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    audience: String,
    client: Option<String>,
    status: &'static str,
    source: Option<String>,
    verified_at: Option<Timestamp>,
    agreed_at: Option<Timestamp>,
    unsubscribed_at: Option<Timestamp>,
    unsubscribe_reason: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Serialize)]
struct ShownOutcome {
    contact_id: i64,
    subscription: Option<Shown>,
    unsubscribed_from_everything: bool,
    to_confirm: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation: Option<ShownConfirmation>,
    changed: bool,
}

/// What became of the mail that asks for a confirmation.
#[derive(Serialize)]
struct ShownConfirmation {
    outcome: &'static str,
    message_id: Option<i64>,
    reason: Option<String>,
    next_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct ShownEntry {
    id: i64,
    action: &'static str,
    by: &'static str,
    audience: Option<String>,
    client: Option<String>,
    topic: Option<String>,
    source: String,
    reason: Option<String>,
    ip: Option<String>,
    user_agent: Option<String>,
    text_version: Option<String>,
    happened_at: Timestamp,
}

impl From<Subscription> for Shown {
    fn from(subscription: Subscription) -> Self {
        Self {
            id: subscription.id.get(),
            audience: subscription.audience_slug.to_string(),
            client: subscription.client_slug.map(|slug| slug.to_string()),
            status: subscription.status.as_str(),
            source: subscription.source,
            verified_at: subscription.verified_at,
            agreed_at: subscription.agreed_at,
            unsubscribed_at: subscription.unsubscribed_at,
            unsubscribe_reason: subscription.unsubscribe_reason,
            created_at: subscription.created_at,
            updated_at: subscription.updated_at,
        }
    }
}

impl From<Outcome> for ShownOutcome {
    fn from(outcome: Outcome) -> Self {
        Self {
            contact_id: outcome.contact.get(),
            subscription: outcome.subscription.map(Into::into),
            unsubscribed_from_everything: outcome.left_everything,
            to_confirm: outcome.to_confirm.is_some(),
            confirmation: None,
            changed: outcome.changed,
        }
    }
}

impl From<Entry> for ShownEntry {
    fn from(entry: Entry) -> Self {
        let text = |slug: Option<Slug>| slug.map(|slug| slug.to_string());
        Self {
            id: entry.id.get(),
            action: entry.action.as_str(),
            by: entry.by.as_str(),
            audience: text(entry.audience),
            client: text(entry.client),
            topic: text(entry.topic),
            source: entry.source,
            reason: entry.reason,
            ip: entry.ip,
            user_agent: entry.user_agent,
            text_version: entry.text_version,
            happened_at: entry.happened_at,
        }
    }
}
