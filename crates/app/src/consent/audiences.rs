//! `tidings audiences`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_delivery::confirmation;
use tidings_people::consent::Line;
use tidings_people::consent::audiences::{self, Audience, Create, Update};

use super::{Within, no_audience};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings audiences list --workspace acme
  tidings audiences create news --name 'The news' --double-opt-in --confirm-template confirm/news
  tidings audiences update news --double-opt-in false")]
pub(crate) struct AudiencesArgs {
    #[command(flatten)]
    within: Within,
    #[command(subcommand)]
    command: AudiencesCommand,
}

#[derive(Debug, Subcommand)]
enum AudiencesCommand {
    /// Print all audiences, by slug
    List,
    /// Make an audience
    Create {
        /// Its name in URLs and commands: up to 40 lower-case letters, digits and hyphens
        slug: Slug,
        /// Its name for people [default: the slug]
        #[arg(long)]
        name: Option<DisplayName>,
        /// A new subscription counts only once it is confirmed
        #[arg(long)]
        double_opt_in: bool,
        /// The template of the mail that asks for the confirmation
        #[arg(long, value_name = "KEY")]
        confirm_template: Option<Line>,
    },
    /// Change an audience; what is not given stays as it is
    Update {
        /// The audience
        slug: Slug,
        /// Its name for people
        #[arg(long)]
        name: Option<DisplayName>,
        /// Whether a new subscription counts only once it is confirmed
        #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
        double_opt_in: Option<bool>,
        /// The template of the mail that asks for the confirmation
        #[arg(long, value_name = "KEY", conflicts_with = "no_confirm_template")]
        confirm_template: Option<Line>,
        /// Take the template away
        #[arg(long)]
        no_confirm_template: bool,
    },
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    slug: String,
    name: String,
    double_opt_in: bool,
    confirm_template_key: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub(crate) async fn run(args: AudiencesArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.within.pretty)).await?;
    let done = match open.inside(args.within.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: AudiencesCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let audience = match command {
        AudiencesCommand::List => return list(open, cx).await,
        AudiencesCommand::Create { slug, name, double_opt_in, confirm_template } => {
            let name = name.unwrap_or_else(|| DisplayName::from(&slug));
            confirming(cx, confirm_template.as_ref()).await?;
            let confirm_template_key = confirm_template;
            audiences::create(cx, Create { slug, name, double_opt_in, confirm_template_key })
                .await?
        }
        AudiencesCommand::Update {
            slug,
            name,
            double_opt_in,
            confirm_template,
            no_confirm_template,
        } => {
            confirming(cx, confirm_template.as_ref()).await?;
            let taken_away = no_confirm_template.then_some(None);
            let confirm_template_key = confirm_template.map(Some).or(taken_away);
            let update = Update { slug, name, double_opt_in, confirm_template_key };
            audiences::update(cx, update).await.map_err(no_audience)?
        }
    };
    open.print(&Shown::from(audience))
}

/// With a template that is not there, nobody could ever confirm.
async fn confirming(cx: &Cx, key: Option<&Line>) -> Result<(), Failure> {
    let Some(key) = key else { return Ok(()) };
    match confirmation::wrong_template(cx, key.as_str(), &BTreeSet::new()).await? {
        None => Ok(()),
        Some(wrong) => Err(Failure::usage(wrong).hint("`tidings templates put` makes one")),
    }
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = audiences::list(cx, after, Limit::MAX).await?;
        for audience in page.items {
            out.json(&Shown::from(audience))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

impl From<Audience> for Shown {
    fn from(audience: Audience) -> Self {
        Self {
            id: audience.id.get(),
            slug: audience.slug.to_string(),
            name: audience.name.to_string(),
            double_opt_in: audience.double_opt_in,
            confirm_template_key: audience.confirm_template_key.map(|key| key.to_string()),
            created_at: audience.created_at,
            updated_at: audience.updated_at,
        }
    }
}
