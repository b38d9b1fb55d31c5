//! `tidings topics`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_people::consent::Line;
use tidings_people::consent::topics::{self, Create, FindError, Topic, Update};

use super::Within;
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings topics list --workspace acme
  tidings topics create tips --name Tips --description 'Once a week, what others found out'
  tidings topics update tips --name 'Tips and tricks'")]
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
