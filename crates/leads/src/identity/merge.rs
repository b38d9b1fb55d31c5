//! Two leads who are one person, and back. One transaction of the relations each; what follows from it is enqueued in it.
//!
//! A lead who is merged stays as a row that says into whom. His identities and what he agreed to are the other one's from then
//! on, and each remembers where it is at home. His time zone is, if the other one has none. His events stay where they were stored, and are read with the others'.
//! Because only those who are merged into nobody can be merged, and nobody into two, they are always trees.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_access::{Change, Cx, StorageError, row_ids};
use tidings_jobs::contracts::{Contract as _, LeadEvent};
use tidings_kernel::{Outgoing, topics};
use tidings_people::consent::merged::{self, Apart};
use tidings_people::contacts::ContactId;
use tidings_people::segments;
use tidings_sql::{DatabaseError, Param, Row, Tx};
use tidings_webhooks::{Announcement, EventType};

use super::rules::MAX_MERGED;
use super::{store, zones};

row_ids! {
    MergeId
}

/// A merge, undone or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub id: MergeId,
    pub winner: ContactId,
    pub loser: ContactId,
    /// The event that named both. `None` if a person said so.
    pub event_id: Option<String>,
    /// Which identities came from him who went, by their rows, and whose they were.
    pub identities: Vec<Moved>,
    pub merged_at: Timestamp,
    pub undone_at: Option<Timestamp>,
}

/// An identity that came along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub identity: i64,
    pub from: i64,
}

/// What is ours of what is kept with a merge. What was said of consent is there too (`people::consent::merged`).
#[derive(Debug, Default, Serialize, Deserialize)]
struct Provenance {
    #[serde(default)]
    identities: Vec<Moved>,
    /// Whether the one who stays took over the time zone of the other one (`zones`).
    #[serde(default)]
    zone_taken: bool,
}

/// Of whom it was looked up whether items alone say that he left everything, and of whom they do. No transaction of the
/// relations can read items, so who is to be merged and was not looked at, is looked at first.
#[derive(Debug, Clone, Default)]
pub(super) struct Looked {
    at: Vec<ContactId>,
    marked: Vec<ContactId>,
}

/// Why nothing was written.
#[derive(Debug)]
pub(super) enum Stopped<E> {
    /// These two have to be looked at first.
    Unseen([ContactId; 2]),
    Failed(E),
}

impl<E: From<DatabaseError>> From<DatabaseError> for Stopped<E> {
    fn from(error: DatabaseError) -> Self {
        Self::Failed(error.into())
    }
}

impl Looked {
    pub(super) async fn look(&mut self, cx: &Cx, both: [ContactId; 2]) -> Result<(), StorageError> {
        for contact in both {
            if self.has(contact) {
                continue;
            }
            if merged::is_marked(cx, contact).await? {
                self.marked.push(contact);
            }
            self.at.push(contact);
        }
        Ok(())
    }

    fn has(&self, contact: ContactId) -> bool {
        self.at.contains(&contact)
    }
}

/// Why two leads are merged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why<'a> {
    Event(&'a str),
    Operator,
}

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("there is no contact {0}")]
    Missing(ContactId),
    #[error("contact {0} was erased")]
    Erased(ContactId),
    #[error("they are one contact already")]
    Same,
    #[error("one contact can be made of at most {MAX_MERGED}")]
    TooMany,
    #[error("the contacts could not be merged")]
    Store(#[from] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum UnmergeError {
    #[error("there is no merge {0}")]
    Missing(MergeId),
    #[error("contact {0} was erased, and cannot be taken apart any more")]
    Erased(ContactId),
    #[error("the contacts could not be taken apart")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for MergeError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

impl From<DatabaseError> for UnmergeError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// Says that two contacts are one person. The older one stays. Saying it of two who are one already is refused.
pub async fn merge(cx: &Cx, one: ContactId, other: ContactId) -> Result<Merge, MergeError> {
    let mut looked = Looked::default();
    loop {
        let (within, known) = (cx.clone(), looked.clone());
        let merge = cx.database().write(move |tx| try_merge(tx, &within, (one, other), &known));
        match merge.await {
            Ok(merge) => return Ok(merge),
            Err(Stopped::Unseen(both)) => looked.look(cx, both).await?,
            Err(Stopped::Failed(error)) => return Err(error),
        }
    }
}

fn try_merge(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (one, other): (ContactId, ContactId),
    looked: &Looked,
) -> Result<Merge, Stopped<MergeError>> {
    let mut roots = [0; 2];
    for (place, contact) in [one, other].into_iter().enumerate() {
        let root = store::root(tx, cx, contact.get())?;
        roots[place] = root.ok_or(Stopped::Failed(MergeError::Missing(contact)))?;
        if is_erased(tx, roots[place])? {
            return Err(Stopped::Failed(MergeError::Erased(contact)));
        }
    }
    let [one, other] = roots;
    if one == other {
        return Err(Stopped::Failed(MergeError::Same));
    }
    if store::family(tx, one)?.len() + store::family(tx, other)?.len() > MAX_MERGED {
        return Err(Stopped::Failed(MergeError::TooMany));
    }
    let (winner, loser) = store::older_first(tx, one, other)?;
    let id = merge_in(tx, cx, (winner, loser), (Why::Operator, looked));
    let id = id.map_err(|stopped| match stopped {
        Stopped::Unseen(both) => Stopped::Unseen(both),
        Stopped::Failed(error) => error.into(),
    })?;
    load(tx, cx, id)?.ok_or(Stopped::Failed(MergeError::Missing(winner)))
}

/// Takes two contacts apart again: each has the identities and the consent that he had, where nothing newer was said since.
/// Doing it again changes nothing.
pub async fn unmerge(cx: &Cx, id: MergeId) -> Result<Merge, UnmergeError> {
    let within = cx.clone();
    let unmerge = cx.database().write(move |tx| {
        let merge = load(tx, &within, id)?.ok_or(UnmergeError::Missing(id))?;
        if merge.undone_at.is_some() {
            return Ok(merge);
        }
        for contact in [merge.winner, merge.loser] {
            if is_erased(tx, contact.get())? {
                return Err(UnmergeError::Erased(contact));
            }
        }
        unmerge_in(tx, &within, &merge)?;
        load(tx, &within, id)?.ok_or(UnmergeError::Missing(id))
    });
    unmerge.await
}

/// All merges of a workspace, the newest first.
pub async fn merges(
    cx: &Cx,
    before: Option<MergeId>,
    limit: usize,
) -> Result<Vec<Merge>, DatabaseError> {
    let (workspace, limit) = (cx.workspace_id().get(), i64::try_from(limit).unwrap_or(i64::MAX));
    let list = cx.database().read(move |tx| {
        let sql = format!("{SELECT} WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        let before = Param::Int(before.map_or(i64::MAX, MergeId::get));
        let rows = tx.query(&sql, &[Param::Int(workspace), before, Param::Int(limit)])?;
        rows.iter().map(read).collect()
    });
    list.await
}

/// Both must be merged into nobody. The caller has asked whether it may be.
pub(super) fn merge_in(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (winner, loser): (ContactId, ContactId),
    (why, looked): (Why<'_>, &Looked),
) -> Result<MergeId, Stopped<DatabaseError>> {
    if !looked.has(winner) || !looked.has(loser) {
        return Err(Stopped::Unseen([winner, loser]));
    }
    let (workspace, now) = (Param::Int(cx.workspace_id().get()), Param::from(cx.now()));
    let (stays, goes) = (Param::Int(winner.get()), Param::Int(loser.get()));
    let sql = "UPDATE leads SET merged_into_id = $1, merged_at = $3, updated_at = $3
               WHERE id = $2 AND merged_into_id IS NULL";
    if tx.execute(sql, &[stays, goes, now])? == 0 {
        return Err(DatabaseError::Conflict.into());
    }
    let sql = "UPDATE channel_identities
               SET home_lead_id = coalesce(home_lead_id, lead_id), lead_id = $1
               WHERE lead_id = $2 RETURNING id, home_lead_id";
    let mut identities = Vec::new();
    for row in &tx.query(sql, &[stays, goes])? {
        identities.push(Moved { identity: row.int(0)?, from: row.int(1)? });
    }
    identities.sort_unstable_by_key(|moved| moved.identity);
    let zone_taken = zones::absorb(tx, cx, winner, loser)?;
    let provenance = Provenance { identities, zone_taken };
    let provenance =
        serde_json::to_string(&provenance).expect("numbers and times have a JSON form");
    let (cause, event) = match why {
        Why::Event(event) => ("event", Param::Text(event)),
        Why::Operator => ("operator", Param::Null),
    };
    let sql = "INSERT INTO lead_merges
                   (workspace_id, winner_id, loser_id, cause, event_id, provenance, merged_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";
    let params = [workspace, stays, goes, Param::Text(cause), event, Param::Text(&provenance), now];
    let rows = tx.query(sql, &params)?;
    let id = MergeId::from(rows.first().ok_or(DatabaseError::NoRow)?.int(0)?);
    merged::absorb(tx, cx, (winner, loser), &looked.marked)?;
    seen_by_both(tx, cx, winner, loser)?;
    store::resolve_flags(tx, cx, winner.get())?;
    let entry = Change::new("contact.merge", "contact", winner).between(
        json!({ "contacts": [winner.get(), loser.get()] }),
        json!({ "contacts": [winner.get()], "merged": loser.get(), "merge": id.get(), "cause": cause }),
    );
    cx.record_change(tx, &entry)?;
    tell(tx, cx, (id, winner, loser), EventType::ContactMerged)?;
    Ok(id)
}

fn unmerge_in(tx: &mut Tx<'_>, cx: &Cx, merge: &Merge) -> Result<(), DatabaseError> {
    let now = Param::from(cx.now());
    let from = store::root(tx, cx, merge.winner.get())?.ok_or(DatabaseError::NoRow)?;
    let loser = merge.loser.get();
    let sql = "UPDATE leads SET merged_into_id = NULL, merged_at = NULL, updated_at = $2
               WHERE id = $1 AND merged_into_id IS NOT NULL";
    if tx.execute(sql, &[Param::Int(loser), now])? == 0 {
        return Err(DatabaseError::Conflict);
    }
    let homes = store::family(tx, loser)?;
    for home in &homes {
        let sql = "UPDATE channel_identities SET lead_id = $2,
                       home_lead_id = CASE WHEN home_lead_id = $2 THEN NULL ELSE home_lead_id END
                   WHERE lead_id = $1 AND home_lead_id = $3";
        tx.execute(sql, &[Param::Int(from), Param::Int(loser), Param::Int(*home)])?;
    }
    merged::release(tx, cx, Apart { from: from.into(), winner: merge.winner, homes: &homes })?;
    let sql = "UPDATE lead_merges SET undone_at = $2 WHERE id = $1";
    tx.execute(sql, &[Param::Int(merge.id.get()), now])?;
    zones::release(tx, cx, merge)?;
    // While they were one, what was seen of those below him was noted of them and of the person, but not of him.
    store::partition(tx, cx, loser)?;
    for below in homes.iter().skip(1) {
        seen_by_both(tx, cx, merge.loser, (*below).into())?;
    }
    let entry = Change::new("contact.unmerge", "contact", from).between(
        json!({ "contacts": [from], "merged": loser, "merge": merge.id.get() }),
        json!({ "contacts": [from, loser] }),
    );
    cx.record_change(tx, &entry)?;
    tell(tx, cx, (merge.id, from.into(), merge.loser), EventType::ContactUnmerged)
}

/// What was seen of one was seen of the person.
fn seen_by_both(
    tx: &mut Tx<'_>,
    cx: &Cx,
    winner: ContactId,
    loser: ContactId,
) -> Result<(), DatabaseError> {
    let sql = "SELECT first_seen_at, last_seen_at FROM lead_organizations WHERE lead_id = $1";
    for row in &tx.query(sql, &[Param::Int(loser.get())])? {
        for at in [row.optional_time(0)?, row.optional_time(1)?].into_iter().flatten() {
            store::seen(tx, cx, winner.get(), at)?;
        }
    }
    Ok(())
}

/// Others are told, and what was derived of both is derived anew.
fn tell(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, winner, loser): (MergeId, ContactId, ContactId),
    event_type: EventType,
) -> Result<(), DatabaseError> {
    let data =
        json!({ "contact_id": winner.get(), "merged_id": loser.get(), "merge_id": id.get() });
    let serde_json::Value::Object(data) = data else { unreachable!("it is an object") };
    let (event_id, occurred_at) = (id.to_string(), cx.now());
    let news = Announcement { event_id, event_type, occurred_at, data };
    tidings_webhooks::announce(cx, tx, &news)?;
    segments::changed(tx, cx, &[winner, loser])?;
    for lead in [winner, loser] {
        let told = LeadEvent {
            workspace: cx.workspace().clone(),
            lead_organization_id: store::partition(tx, cx, lead.get())?.to_string(),
            event_id: format!("merge-{id}"),
            event_type: event_type.as_str().to_owned(),
            occurred_at: cx.now(),
            source: None,
            metadata: None,
        };
        let body = told.to_body().expect("every field is bounded");
        tx.enqueue(&Outgoing::publish(&topics::LEAD_EVENTS, body), cx.now())?;
    }
    Ok(())
}

const SELECT: &str =
    "SELECT id, winner_id, loser_id, event_id, CAST(provenance AS TEXT), merged_at, undone_at
                      FROM lead_merges";

fn load(tx: &mut Tx<'_>, cx: &Cx, id: MergeId) -> Result<Option<Merge>, DatabaseError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND id = $2");
    let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])?;
    rows.first().map(read).transpose()
}

fn read(row: &Row) -> Result<Merge, DatabaseError> {
    Ok(Merge {
        id: row.int(0)?.into(),
        winner: row.int(1)?.into(),
        loser: row.int(2)?.into(),
        event_id: row.optional_text(3)?.map(ToOwned::to_owned),
        identities: provenance(row.text(4)?)?.identities,
        merged_at: row.time(5)?,
        undone_at: row.optional_time(6)?,
    })
}

fn provenance(text: &str) -> Result<Provenance, DatabaseError> {
    serde_json::from_str(text).map_err(|_| DatabaseError::damaged(4, "the provenance of a merge"))
}

fn is_erased(tx: &mut Tx<'_>, lead: i64) -> Result<bool, DatabaseError> {
    let rows = tx.query("SELECT erased_at FROM leads WHERE id = $1", &[Param::Int(lead)])?;
    rows.first().map_or(Ok(false), |row| Ok(row.optional_int(0)?.is_some()))
}
