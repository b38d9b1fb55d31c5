//! `tidings webhooks`: whom we tell what happens, for operators.

mod shown;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, Limit};
use tidings_kernel::Workspace;
use tidings_webhooks::deliveries::{self, EndpointReplayError, ReplayError, Status};
use tidings_webhooks::endpoints::{
    self, Create, CreateError, Description, Endpoint, FindError, Update, UpdateError,
};
use tidings_webhooks::{DeliveryId, EndpointId, EndpointUrl, EventType, EventTypes, Targets};

use self::shown::{Shown, ShownAttempt, ShownDelivery, ShownDetails};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings webhooks create https://example.org/hooks --event email.bounced --event email.complained
  tidings webhooks test 3
  tidings webhooks deliveries 3 --status failed
  tidings webhooks replay-failed 3 --since 2026-07-01T00:00:00Z

What is told is signed as Standard Webhooks says; docs/webhooks.md shows how a receiver checks it.")]
pub(crate) struct WebhooksArgs {
    /// The workspace whose webhooks are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each answer out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Debug, Subcommand)]
enum WebhooksCommand {
    /// Print all webhooks, in the order in which they were made
    List,
    /// Make a webhook and print its secret, this once
    Create {
        /// Where to post to: https, on the public internet
        url: EndpointUrl,
        /// What it is told [default: everything]; give it several times for several types
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<EventType>,
        /// What it is for
        #[arg(long)]
        description: Option<Description>,
    },
    /// Print a webhook
    Show {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Change what a webhook is told, or where
    Update(UpdateArgs),
    /// Give a webhook a new secret and print it; the one before signs for a day more
    RotateSecret {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Tell a webhook nothing, until it is enabled again
    Disable {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Tell a webhook again what happens
    Enable {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Delete a webhook, for ever
    Delete {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Send a webhook an event that means nothing
    Test {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
    },
    /// Print what a webhook was told, the newest first
    Deliveries {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
        /// Only these: pending, delivered or failed
        #[arg(long)]
        status: Option<Status>,
        /// How many at most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=100))]
        limit: i64,
    },
    /// Print a delivery with what was told and each attempt
    Delivery {
        /// Its number
        #[arg(value_parser = delivery)]
        delivery: DeliveryId,
    },
    /// Make a delivery again, with the same webhook-id
    Replay {
        /// Its number
        #[arg(value_parser = delivery)]
        delivery: DeliveryId,
    },
    /// Make all deliveries of a webhook again that failed
    ReplayFailed {
        /// Its number
        #[arg(value_parser = endpoint)]
        webhook: EndpointId,
        /// Only those that were made since then
        #[arg(long, value_name = "TIME")]
        since: Timestamp,
    },
}

#[derive(Debug, Args)]
struct UpdateArgs {
    /// Its number
    #[arg(value_parser = endpoint)]
    webhook: EndpointId,
    /// Where to post to from now on
    #[arg(long)]
    url: Option<EndpointUrl>,
    /// What it is told from now on; give it several times for several types
    #[arg(long = "event", value_name = "TYPE", conflicts_with = "all_events")]
    events: Vec<EventType>,
    /// Tell it everything
    #[arg(long)]
    all_events: bool,
    /// What it is for
    #[arg(long, conflicts_with = "no_description")]
    description: Option<Description>,
    /// Take the description away
    #[arg(long)]
    no_description: bool,
}

#[derive(Serialize)]
struct Count {
    replayed: u64,
}

pub(crate) async fn run(args: WebhooksArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let targets = Targets::new(config.webhooks.allow_private);
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx, &targets).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(
    command: WebhooksCommand,
    open: &Open,
    cx: &Cx,
    targets: &Targets,
) -> Result<(), Failure> {
    use WebhooksCommand as Do;

    let shown = match command {
        Do::List => return list(open, cx).await,
        Do::Create { url, events, description } => {
            let create = Create { url, description, event_types: events.into_iter().collect() };
            let issued = endpoints::create(cx, targets, create).await.map_err(not_made)?;
            return print_issued(open, issued);
        }
        Do::RotateSecret { webhook } => {
            let issued = endpoints::rotate_secret(cx, webhook).await.map_err(no_webhook)?;
            return print_issued(open, issued);
        }
        Do::Show { webhook } => endpoints::find(cx, webhook).await.map_err(no_webhook)?,
        Do::Update(args) => update(args, cx, targets).await?,
        Do::Disable { webhook } => endpoints::disable(cx, webhook).await.map_err(no_webhook)?,
        Do::Enable { webhook } => endpoints::enable(cx, webhook).await.map_err(no_webhook)?,
        Do::Delete { webhook } => {
            endpoints::delete(cx, webhook).await.map_err(no_webhook)?;
            say(&format!("Webhook {webhook} is deleted."));
            return Ok(());
        }
        Do::Test { webhook } => {
            let made = deliveries::send_test(cx, webhook).await.map_err(not_replayed)?;
            say("It is on its way; `tidings webhooks delivery` shows what becomes of it.");
            return open.print(&ShownDelivery::from(made));
        }
        Do::Deliveries { webhook, status, limit } => {
            let limit = Limit::try_from(limit)?;
            let page = deliveries::list(cx, webhook, status, None, limit).await;
            let mut out = open.out();
            for delivery in page.map_err(no_webhook)?.items {
                out.json(&ShownDelivery::from(delivery))?;
            }
            return out.finish();
        }
        Do::Delivery { delivery } => {
            let details = deliveries::find(cx, delivery).await?;
            let payload = details.payload();
            let tried = details.attempts.into_iter().map(ShownAttempt::from).collect();
            let delivery = details.delivery.into();
            return open.print(&ShownDetails { delivery, payload, tried });
        }
        Do::Replay { delivery } => {
            let again = deliveries::replay(cx, delivery).await.map_err(not_again)?;
            return open.print(&ShownDelivery::from(again));
        }
        Do::ReplayFailed { webhook, since } => {
            return replay_failed(open, cx, webhook, since).await;
        }
    };
    open.print(&Shown::from(shown))
}

async fn update(args: UpdateArgs, cx: &Cx, targets: &Targets) -> Result<Endpoint, Failure> {
    let event_types = match (args.all_events, args.events.is_empty()) {
        (true, _) => Some(EventTypes::All),
        (false, false) => Some(args.events.into_iter().collect()),
        (false, true) => None,
    };
    let description = if args.no_description { Some(None) } else { args.description.map(Some) };
    let update = Update { url: args.url, description, event_types };
    let updated = endpoints::update(cx, targets, args.webhook, update).await;
    updated.map_err(|error| match error {
        UpdateError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        UpdateError::Target(_) => Failure::from(error).hint(ANYWHERE),
        UpdateError::Store(_) => error.into(),
    })
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = endpoints::list(cx, after, Limit::MAX).await?;
        for endpoint in page.items {
            out.json(&Shown::from(endpoint))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

/// A thousand at a time, until there are none left.
async fn replay_failed(
    open: &Open,
    cx: &Cx,
    webhook: EndpointId,
    since: Timestamp,
) -> Result<(), Failure> {
    let mut replayed = 0;
    loop {
        let done = deliveries::replay_failed(cx, webhook, since).await.map_err(not_replayed)?;
        replayed += done.count;
        if !done.more {
            return open.print(&Count { replayed });
        }
        say(&format!("{replayed} deliveries so far"));
    }
}

fn print_issued(open: &Open, issued: endpoints::Issued) -> Result<(), Failure> {
    say("The secret is shown only now.");
    let secret = Some(issued.secret.expose().to_owned());
    open.print(&Shown { secret, ..Shown::from(issued.endpoint) })
}

const WHERE_TO_LOOK: &str = "`tidings webhooks list --workspace …` shows those that there are";
const ANYWHERE: &str =
    "for development `--set webhooks.allow_private=true` lets webhooks lead anywhere";

fn not_made(error: CreateError) -> Failure {
    match error {
        CreateError::Target(_) => Failure::from(error).hint(ANYWHERE),
        CreateError::Full => Failure::from(error).hint("`tidings webhooks delete` makes room"),
        CreateError::Store(_) => error.into(),
    }
}

fn no_webhook(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        FindError::Store(_) => error.into(),
    }
}

fn not_replayed(error: EndpointReplayError) -> Failure {
    match error {
        EndpointReplayError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        EndpointReplayError::Disabled(id) => {
            Failure::from(error).hint(format!("`tidings webhooks enable {id}` enables it"))
        }
        EndpointReplayError::Store(_) => error.into(),
    }
}

fn not_again(error: ReplayError) -> Failure {
    match error {
        ReplayError::Pending(_) => {
            Failure::from(error).hint("`tidings webhooks delivery` shows when it is tried next")
        }
        ReplayError::Disabled(_) => {
            Failure::from(error).hint("`tidings webhooks enable` enables it")
        }
        ReplayError::Missing(_) | ReplayError::Forgotten(_) | ReplayError::Store(_) => error.into(),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number = text.parse::<i64>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "use the number that the list shows as id".to_owned())
}

fn endpoint(text: &str) -> Result<EndpointId, String> {
    number(text).map(EndpointId::from)
}

fn delivery(text: &str) -> Result<DeliveryId, String> {
    number(text).map(DeliveryId::from)
}
