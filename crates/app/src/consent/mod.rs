//! `tidings audiences`, `topics`, `subscriptions`, `explain` and `settings`: what people agreed to, for operators.
//!
//! What is asked for is printed as JSON, one thing a line.

mod audiences;
mod explain;
mod settings;
mod subscriptions;
mod topics;

use clap::Args;
use tidings_access::clients::{self, FindError};
use tidings_access::{ClientId, Cx, Limit, Slug};
use tidings_kernel::Workspace;
use tidings_people::consent::AudienceId;
use tidings_people::consent::audiences::FindError as NoAudience;

use crate::failure::Failure;

pub(crate) use audiences::{AudiencesArgs, run as audiences};
pub(crate) use explain::{ExplainArgs, run as explain};
pub(crate) use settings::{SettingsArgs, run as settings};
pub(crate) use subscriptions::{SubscriptionsArgs, run as subscriptions};
pub(crate) use topics::{TopicsArgs, run as topics};

/// What all of these commands take.
#[derive(Debug, Args)]
pub(crate) struct Within {
    /// The workspace that is meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each answer out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
}

async fn the_audience(cx: &Cx, slug: Slug) -> Result<AudienceId, Failure> {
    let found = tidings_people::consent::audiences::find(cx, slug).await;
    Ok(found.map_err(no_audience)?.id)
}

fn no_audience(error: NoAudience) -> Failure {
    match error {
        NoAudience::Missing(_) => Failure::from(error)
            .hint("`tidings audiences list --workspace …` shows those that there are"),
        NoAudience::Store(_) => error.into(),
    }
}

pub(crate) async fn the_client(cx: &Cx, slug: Slug) -> Result<ClientId, Failure> {
    let found = clients::find(cx, slug).await.map_err(|error| match error {
        FindError::Missing(_) => Failure::from(error)
            .hint("`tidings clients list --workspace …` shows those that there are"),
        FindError::Store(_) => error.into(),
    });
    Ok(found?.id)
}

/// The client that was named, or else the only one that there is.
pub(crate) async fn an_only_client(
    cx: &Cx,
    named: Option<ClientId>,
) -> Result<Option<ClientId>, Failure> {
    if named.is_some() {
        return Ok(named);
    }
    let all = clients::list(cx, None, Limit::default()).await?.items;
    Ok(if let [only] = all.as_slice() { Some(only.id) } else { None })
}
