//! `tidings topics`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_kernel::EmailAddress;
use tidings_people::consent::preferences::{self, Preferences, Switch};
use tidings_people::consent::topics::{self, Create, FindError, Topic, Update};
use tidings_people::consent::{Line, Whom};

use super::Within;
use super::subscriptions::{act, nobody};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings topics list --workspace acme
  tidings topics create tips --name Tips --description 'Once a week, what others found out'
  tidings topics update tips --name 'Tips and tricks'
  tidings topics of ada@example.org
  tidings topics switch ada@example.org --off tips --reason 'asked by phone'")]
pub(crate) struct TopicsArgs {
    #[command(flatten)]
    within: Within,
    #[command(subcommand)]
    command: TopicsCommand,
}

#[derive(Debug, Subcommand)]
enum TopicsCommand {
    /// Print all topics, by slug
    List,
    /// Make a topic
    Create {
        /// Its name in URLs and commands: up to 40 lower-case letters, digits and hyphens
        slug: Slug,
        /// Its name for people [default: the slug]
        #[arg(long)]
        name: Option<DisplayName>,
        /// What it is about, for those who decide whether they want it
        #[arg(long)]
        description: Option<Line>,
    },
    /// Change a topic; what is not given stays as it is
    Update {
        /// The topic
        slug: Slug,
        /// Its name for people
        #[arg(long)]
        name: Option<DisplayName>,
        /// What it is about
        #[arg(long)]
        description: Option<Line>,
    },
    /// Print what somebody wants of each topic
    Of {
        /// The person
        email: EmailAddress,
    },
    /// Switch topics on or off for somebody
    Switch {
        /// The person
        email: EmailAddress,
        /// A topic that is wanted from now on; can be given more than once
        #[arg(long, value_name = "TOPIC")]
        on: Vec<Slug>,
        /// A topic that is not; can be given more than once
        #[arg(long, value_name = "TOPIC")]
        off: Vec<Slug>,
        /// Why; needed to switch on again what was switched off
        #[arg(long)]
        reason: Option<Line>,
    },
}

#[derive(Serialize)]
struct Wanted {
    topic: String,
    on: bool,
    changed_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    slug: String,
    name: String,
    description: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub(crate) async fn run(args: TopicsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.within.pretty)).await?;
    let done = match open.inside(args.within.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: TopicsCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let topic = match command {
        TopicsCommand::List => return list(open, cx).await,
        TopicsCommand::Of { email } => {
            let found = preferences::show(cx, Whom::Email(email)).await?;
            return wanted(open, found.ok_or_else(nobody)?);
        }
        TopicsCommand::Switch { email, on, off, reason } => {
            let on = on.into_iter().map(|topic| (topic, true));
            let topics = on.chain(off.into_iter().map(|topic| (topic, false))).collect();
            let switch = Switch { whom: Whom::Email(email), topics, act: act(reason) };
            return wanted(open, preferences::switch(cx, switch).await?);
        }
        TopicsCommand::Create { slug, name, description } => {
            let name = name.unwrap_or_else(|| DisplayName::from(&slug));
            topics::create(cx, Create { slug, name, description }).await?
        }
        TopicsCommand::Update { slug, name, description } => {
            let update = Update { slug, name, description: description.map(Some) };
            topics::update(cx, update).await.map_err(no_topic)?
        }
    };
    open.print(&Shown::from(topic))
}

fn wanted(open: &Open, found: Preferences) -> Result<(), Failure> {
    let mut out = open.out();
    for one in found.topics {
        let topic = one.topic.slug.to_string();
        out.json(&Wanted { topic, on: one.on, changed_at: one.changed_at })?;
    }
    out.finish()
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = topics::list(cx, after, Limit::MAX).await?;
        for topic in page.items {
            out.json(&Shown::from(topic))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

pub(super) fn no_topic(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::from(error)
            .hint("`tidings topics list --workspace …` shows those that there are"),
        FindError::Store(_) => error.into(),
    }
}

impl From<Topic> for Shown {
    fn from(topic: Topic) -> Self {
        Self {
            id: topic.id.get(),
            slug: topic.slug.to_string(),
            name: topic.name.to_string(),
            description: topic.description.map(|text| text.to_string()),
            created_at: topic.created_at,
            updated_at: topic.updated_at,
        }
    }
}
