//! Which campaign somebody means, and what those are called that a campaign names by id.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use tidings_access::{ClientId, Cx};
use tidings_sql::{Among, DatabaseError, Param, Tx};

use super::draft::{self, Find, FindError};
use super::{Campaign, CampaignId, store};

/// What a campaign is called by those who want it: its number, its own key, or the key that was made from its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Id(CampaignId),
    Key(String),
}

#[derive(Debug, thiserror::Error)]
pub enum NameError {
    #[error("there is no campaign {0}")]
    Missing(Name),
    #[error("the campaign could not be reached")]
    Store(#[from] DatabaseError),
}

/// What audiences, topics and clients are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slugs {
    pub audiences: BTreeMap<i64, String>,
    pub topics: BTreeMap<i64, String>,
    pub clients: BTreeMap<i64, String>,
}

/// The campaign that is called so, with its bodies. A client sees no other client's.
pub async fn find(cx: &Cx, name: &Name, client: Option<ClientId>) -> Result<Campaign, NameError> {
    let missing = || NameError::Missing(name.clone());
    let by_id = |id| async move {
        match draft::get(cx, Find { id, client }).await {
            Ok(campaign) => Ok(campaign),
            Err(FindError::Missing(_)) => Err(missing()),
            Err(FindError::Store(error)) => Err(error.into()),
        }
    };
    match name {
        Name::Id(id) => by_id(*id).await,
        Name::Key(key) => match made_of(key) {
            // Whoever has a key of his own is not known by the other one.
            Some(id) => by_id(id).await.and_then(|found| match found.external_key {
                None => Ok(found),
                Some(_) => Err(missing()),
            }),
            None => draft::by_key(cx, key.clone(), client).await?.ok_or_else(missing),
        },
    }
}

/// What the audiences, topics and clients of these campaigns are called.
pub async fn slugs(cx: &Cx, campaigns: &[&Campaign]) -> Result<Slugs, DatabaseError> {
    let ids = |of: &dyn Fn(&Campaign) -> Option<i64>| -> Vec<i64> {
        let mut ids: Vec<i64> = campaigns.iter().filter_map(|one| of(one)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let audiences = ids(&|one| one.audience.map(|id| id.get()));
    let topics = ids(&|one| one.topic.map(|id| id.get()));
    let clients = ids(&|one| Some(one.client.get()));
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| {
        let mut named = |table: &str, ids: &[i64]| {
            if ids.is_empty() {
                return Ok(BTreeMap::new());
            }
            let sql =
                format!("SELECT id, slug FROM {table} WHERE workspace_id = $1 AND id {{among}}");
            let rows = tx.query_among(&sql, &[Param::Int(workspace)], Among::Ints(ids))?;
            let pair = |row: &tidings_sql::Row| Ok((row.int(0)?, row.text(1)?.to_owned()));
            rows.iter().map(pair).collect::<Result<_, DatabaseError>>()
        };
        Ok::<_, DatabaseError>(Slugs {
            audiences: named("audiences", &audiences)?,
            topics: named("topics", &topics)?,
            clients: named("clients", &clients)?,
        })
    });
    read.await
}

impl Slugs {
    pub fn audience(&self, campaign: &Campaign) -> Option<&str> {
        self.audiences.get(&campaign.audience?.get()).map(String::as_str)
    }

    pub fn topic(&self, campaign: &Campaign) -> Option<&str> {
        self.topics.get(&campaign.topic?.get()).map(String::as_str)
    }

    pub fn client(&self, campaign: &Campaign) -> &str {
        self.clients.get(&campaign.client.get()).map_or("", String::as_str)
    }
}

/// `campaign-55` is the campaign 55.
/// Whether the counters of a campaign are kept under this word, or would be.
pub fn is_taken(tx: &mut Tx<'_>, cx: &Cx, key: &str) -> Result<bool, DatabaseError> {
    Ok(made_of(key).is_some() || store::by_key(tx, cx, key)?.is_some())
}

fn made_of(key: &str) -> Option<CampaignId> {
    let id = key.strip_prefix("campaign-")?.parse::<i64>().ok()?;
    (id > 0).then(|| id.into())
}

impl FromStr for Name {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.parse::<i64>() {
            Ok(id) if id > 0 => Self::Id(id.into()),
            _ => Self::Key(text.to_owned()),
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Key(key) => f.write_str(key),
        }
    }
}
