//! Another campaign like one that there is: what it says and whom it means, as a draft with its own key.
//!
//! What was frozen at the start is not taken along: the other has the templates and the sender that are active when it
//! starts itself.

use serde_json::{Map, Value};
use tidings_access::Cx;
use tidings_sql::DatabaseError;

use super::draft::{self, Draft, DraftError, Drafted, Find, FindError};
use super::{Campaign, named, written};

/// Which campaign, and what is other about the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    pub campaign: Find,
    pub key: Option<String>,
    /// `None`: as the one before.
    pub name: Option<String>,
}

/// Writes a draft down that says the same. With a key, the same again finds the draft that it made before.
pub async fn duplicate(cx: &Cx, cmd: Duplicate) -> Result<Drafted, DraftError> {
    let campaign = draft::get(cx, cmd.campaign).await.map_err(|error| match error {
        FindError::Missing(id) => DraftError::Missing(id),
        FindError::Store(error) => error.into(),
    })?;
    let said = form(cx, &campaign).await?;
    let same = written::read(campaign.client, said).map_err(DraftError::Invalid)?;
    let name = cmd.name.unwrap_or_else(|| campaign.name.clone());
    draft::create(cx, Draft { key: cmd.key, name, ..same }).await
}

/// What a campaign says, as people write it, without what is its own: its key and its time.
pub async fn form(cx: &Cx, campaign: &Campaign) -> Result<Map<String, Value>, DatabaseError> {
    let slugs = named::slugs(cx, &[campaign]).await?;
    let mut said = written::write(campaign, (slugs.audience(campaign), slugs.topic(campaign)));
    for own in ["external_key", "scheduled_at", "local_time"] {
        said.remove(own);
    }
    Ok(said)
}
