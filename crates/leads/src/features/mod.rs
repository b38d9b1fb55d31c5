//! The numbers of a person, computed from his timeline: what he is worth, how often he was there, whether he still listens.
//!
//! An event changes the state of his features (`state`: totals, and a bucket for each day) once, in the transaction that
//! marks the event, and only the features that it touches are computed again (`take`). What changes by itself is computed
//! once a day for those who were active in the last 90 days, or lately before (`daily`). `rebuild` counts everything anew from the events, and
//! `as_of` tells what the features were at any moment, by the same functions.
//!
//! Here: which features there are (`registry`), how they are kept and who works on them. Not here: what was learned of a
//! person (`memory`), and who asks for features: audiences, sequences and templates read the item.

mod daily;
mod days;
mod kinds;
pub(crate) mod reading;
mod rebuild;
mod registry;
mod score;
mod state;
pub(crate) mod store;
mod take;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;
mod worker;

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Query, SortRange, Txn, Value, tables};

use crate::event::{self, StoredEvent};
use crate::identity;
pub use daily::{DAILY, schedule};
pub use rebuild::{Rebuilt, rebuild};
pub use registry::{ALL, Feature, by_time};
pub use score::Part;
use state::{State, day_of};
pub use take::{Taken, take};
pub use tidings_jobs::contracts::UpkeepTask;
pub use upkeep::{Progress, ask_for_rebuild, progress, rebuild_all, rebuild_message};
pub use worker::handler;
pub(crate) use worker::{in_trouble, whom_to_rebuild};

/// So many events are read at once.
const PAGE: usize = 500;

/// What is known in numbers of somebody.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    pub values: BTreeMap<String, Value>,
    /// What the score is made of.
    pub score: Vec<Value>,
    /// `None` if nothing has been computed yet.
    pub computed_at: Option<Timestamp>,
}

/// The features of whoever a timeline belongs to, as they were last computed. `None` if it belongs to nobody.
pub async fn get(cx: &Cx, lead_organization_id: &str) -> Result<Option<Features>, StorageError> {
    let Some(owner) = identity::owner(cx, lead_organization_id).await? else { return Ok(None) };
    let items = cx.items().await?;
    let item = items.get(&tables::FEATURE, &store::key(&owner.lead_organization_id)).await?;
    Ok(Some(item.map_or_else(Features::nothing, |item| store::shown(&item))))
}

/// What his features were, or would have been, at a moment: computed from all his events until then.
pub async fn as_of(
    cx: &Cx,
    lead_organization_id: &str,
    moment: Timestamp,
) -> Result<Option<Features>, StorageError> {
    let Some(owner) = identity::owner(cx, lead_organization_id).await? else { return Ok(None) };
    let (mut state, items) = (State::default(), cx.items().await?);
    // After every id of that moment: `$` comes after `#`.
    let until = format!("{}$", event::time(moment));
    for partition in &owner.partitions {
        let mut cursor = None;
        loop {
            let query = Query::new(&tables::EVENT, partition.as_str())
                .range(SortRange::Lt(until.clone()))
                .limit(PAGE)
                .after(cursor);
            let page = items.query(query).await?;
            for event in page.items.iter().filter_map(StoredEvent::from_item) {
                state.add(&event, day_of(moment));
            }
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    let mut values = BTreeMap::new();
    registry::compute(&mut values, ALL.iter(), &state, moment);
    let score = registry::explain(&state, moment).iter().map(Part::to_value).collect();
    Ok(Some(Features { values, score, computed_at: Some(moment) }))
}

/// Forgets the features of a timeline.
pub async fn erase(cx: &Cx, lead_organization_id: &str) -> Result<(), StorageError> {
    let key = store::key(lead_organization_id);
    cx.items().await?.delete(tidings_kernel::Delete::new(&tables::FEATURE, key)).await?;
    Ok(())
}

/// Where live segments are told: whatever changes somebody's features or memory passes through here, with the
/// transaction that changes it.
pub(crate) async fn changed(
    cx: &Cx,
    txn: Txn,
    lead_organization_ids: &[&str],
) -> Result<Txn, StorageError> {
    let checks = tidings_people::segments::to_check_partitions(cx, lead_organization_ids).await?;
    Ok(checks.into_iter().fold(txn, Txn::enqueue))
}

impl Features {
    /// Of somebody to whom nothing has happened yet.
    fn nothing() -> Self {
        let values = tidings_people::features::all_before_anything();
        Self { values, score: Vec::new(), computed_at: None }
    }
}
