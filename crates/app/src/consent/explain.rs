//! `tidings explain`.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, Slug};
use tidings_delivery::eligibility::{self, Checked, Kind, Outcome, Question, Reason};
use tidings_kernel::EmailAddress;
use tidings_people::consent::topics;

use super::topics::no_topic;
use super::{Within, the_audience, the_client};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings explain ada@example.org --kind transactional --client shop
  tidings explain ada@example.org --kind campaign --client shop --audience news --topic tips --pretty

It asks the function that decides when a message is sent, and changes nothing. An address that
nobody has is explained as well.")]
pub(crate) struct ExplainArgs {
    /// Whom the message would go to
    email: EmailAddress,
    /// What the message is: transactional, sequence, campaign or reminder
    #[arg(long)]
    kind: Kind,
    /// The application that would send it
    #[arg(long, value_name = "SLUG")]
    client: Slug,
    /// The audience that it goes to
    #[arg(long, value_name = "SLUG")]
    audience: Option<Slug>,
    /// What it is about
    #[arg(long, value_name = "SLUG")]
    topic: Option<Slug>,
    #[command(flatten)]
    within: Within,
}

#[derive(Serialize)]
struct Shown {
    verdict: &'static str,
    reason: Option<&'static str>,
    until: Option<Timestamp>,
    checks: Vec<ShownCheck>,
}

#[derive(Serialize)]
struct ShownCheck {
    check: &'static str,
    outcome: &'static str,
    reason: Option<&'static str>,
    until: Option<Timestamp>,
    fact: String,
}

pub(crate) async fn run(args: ExplainArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.within.pretty)).await?;
    let done = match open.inside(args.within.workspace.clone()).await {
        Ok(cx) => answer(args, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(args: ExplainArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let audience = match args.audience {
        Some(audience) => Some(the_audience(cx, audience).await?),
        None => None,
    };
    let topic = match args.topic {
        Some(topic) => Some(topics::find(cx, topic).await.map_err(no_topic)?.id),
        None => None,
    };
    let client = the_client(cx, args.client).await?;
    let question = Question { kind: args.kind, email: args.email, client, audience, topic };
    let told = eligibility::check(cx, &question).await?;
    open.print(&Shown {
        verdict: told.verdict.as_str(),
        reason: told.verdict.reason().map(Reason::as_str),
        until: told.verdict.until(),
        checks: told.checks.into_iter().map(Into::into).collect(),
    })
}

impl From<Checked> for ShownCheck {
    fn from(checked: Checked) -> Self {
        let (reason, until) = match checked.outcome {
            Outcome::Passed | Outcome::NotAsked => (None, None),
            Outcome::Stopped(reason) => (Some(reason.as_str()), None),
            Outcome::PutOff { reason, until } => (Some(reason.as_str()), Some(until)),
        };
        let (check, outcome) = (checked.check.as_str(), checked.outcome.as_str());
        Self { check, outcome, reason, until, fact: checked.fact }
    }
}
