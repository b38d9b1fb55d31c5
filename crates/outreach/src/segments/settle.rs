//! Looking at people again: what is known of them now, in which segments that puts them, and one transaction that
//! writes down what changed, with all that follows.
//!
//! Two workers can look at the same person at once, and the slower one may have read what is old. Each look has a number
//! (`segment_checks`); it is read before anything else, and whatever was found out is written only if it is still the
//! same. So the last to write has read the newest, whoever that is, and the loser looks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, StoreError};
use tidings_people::contacts::ContactId;
use tidings_people::segments::{look_again, send};
use tidings_sql::{Among, DatabaseError, Dialect, Param, Tx};

use super::store::{self, workspace};
use super::told::{self, Moved, Way};
use super::{Segment, SegmentId, State, walk};
use crate::audience::{self, Condition, Known, matches};

/// How often a look is begun again because somebody else was faster.
const ATTEMPTS: usize = 30;

/// A page of the walk over everybody that is done with the look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) segment: SegmentId,
    pub(super) rev: i64,
    pub(super) page: i64,
    /// Where the next page begins. `None` if that was the last one.
    pub(super) next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Done,
    /// The page was done by somebody else, or the segment has another condition by now.
    Overtaken,
}

/// Somebody, as he was read.
#[derive(Debug)]
struct Looked {
    id: i64,
    /// How often he was looked at before.
    checks: i64,
    /// `None` if he cannot be meant at all.
    known: Option<Known>,
}

/// Why nothing was written.
enum Stop {
    /// Somebody else wrote since it was read.
    Moved,
    Overtaken,
    Database(DatabaseError),
}

impl From<DatabaseError> for Stop {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Puts these people where they belong: into every segment of the workspace, or those of a page into the one that is
/// being built.
pub(super) async fn settle(
    cx: &Cx,
    contacts: &[ContactId],
    progress: Option<&Progress>,
) -> Result<Settled, StorageError> {
    let ids: BTreeSet<i64> = contacts.iter().map(|contact| contact.get()).collect();
    for _ in 0..ATTEMPTS {
        let (looks, segments) = load(cx, ids.clone(), progress.map(|step| step.segment)).await?;
        if segments.is_empty() {
            return Ok(Settled::Done);
        }
        if let Some(step) = progress
            && (segments[0].rev, segments[0].build_page) != (step.rev, step.page)
        {
            return Ok(Settled::Overtaken);
        }
        let looked = look(cx, &looks, &segments).await?;
        let (within, progress) = (cx.clone(), progress.cloned());
        let write = cx.database().write_committed(move |tx| {
            commit(tx, &within, (&looked, &segments), progress.as_ref())
        });
        match write.await {
            Ok(()) => return Ok(Settled::Done),
            Err(Stop::Overtaken) => return Ok(Settled::Overtaken),
            Err(Stop::Moved) => {}
            Err(Stop::Database(error)) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// The numbers of the looks, and the segments. They are read before what is known of anybody.
async fn load(
    cx: &Cx,
    ids: BTreeSet<i64>,
    only: Option<SegmentId>,
) -> Result<(BTreeMap<i64, i64>, Vec<Segment>), DatabaseError> {
    let within = cx.clone();
    let load = cx.database().read(move |tx| {
        let segments = match only {
            None => store::all(tx, &within)?,
            Some(id) => store::by_id(tx, &within, id)?.into_iter().collect(),
        };
        let asked: Vec<i64> = ids.iter().copied().collect();
        // Only people of this workspace are looked at, whoever sends the message.
        let sql = "SELECT l.id, c.checks FROM {given} CROSS JOIN leads l
                   LEFT JOIN segment_checks c ON c.lead_id = l.id
                   WHERE l.id = given.value AND l.workspace_id = $1";
        let rows = tx.query_among(sql, &[workspace(&within)], Among::Ints(&asked))?;
        let read = |row: &tidings_sql::Row| Ok((row.int(0)?, row.optional_int(1)?.unwrap_or(0)));
        let looks = rows.iter().map(read).collect::<Result<_, DatabaseError>>()?;
        Ok((looks, segments))
    });
    load.await
}

async fn look(
    cx: &Cx,
    looks: &BTreeMap<i64, i64>,
    segments: &[Segment],
) -> Result<Vec<Looked>, StorageError> {
    let contacts: Vec<ContactId> = looks.keys().copied().map(ContactId::from).collect();
    // Everything that any of them asks is read once.
    let conditions = segments.iter().map(|segment| segment.condition.clone()).collect();
    let known = audience::known(cx, &walk(Condition::Any(conditions)), &contacts).await?;
    let mut known: HashMap<i64, Known> =
        known.into_iter().map(|one| (one.lead_id.get(), one)).collect();
    let looked = looks.iter().map(|(id, checks)| Looked {
        id: *id,
        checks: *checks,
        known: known.remove(id),
    });
    Ok(looked.collect())
}

/// Rows are locked in one order by everybody: people by their ids, then segments by theirs.
fn commit(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (looked, segments): (&[Looked], &[Segment]),
    progress: Option<&Progress>,
) -> Result<(), Stop> {
    if !claim(tx, cx, looked)? {
        return Err(Stop::Moved);
    }
    come_back(tx, cx, looked, progress)?;
    let inside = rows_of(tx, looked)?;
    let mut moved = Vec::new();
    for segment in segments {
        let change = Change::of(segment, looked, &inside);
        let (entered, left) = change.write(tx, cx, segment)?;
        let by = (entered.len() as i64) - (left.len() as i64);
        match progress {
            Some(step) => go_on(tx, cx, segment, (step, by))?,
            None if by == 0 && entered.is_empty() => {}
            None => count(tx, segment, by)?,
        }
        if segment.is_told() {
            moved.extend(tellable(segment, (entered, Way::Entered), looked));
            moved.extend(tellable(segment, (left, Way::Left), looked));
        }
    }
    Ok(told::tell(tx, cx, &moved)?)
}

/// Takes the number of each look. `false` if somebody else wrote since one of them was read.
fn claim(tx: &mut Tx<'_>, cx: &Cx, looked: &[Looked]) -> Result<bool, DatabaseError> {
    if looked.is_empty() {
        return Ok(true);
    }
    let then = "ON CONFLICT (lead_id) DO UPDATE SET checks = excluded.checks
                WHERE segment_checks.checks = excluded.checks - 1 RETURNING lead_id";
    let insert = "INSERT INTO segment_checks (workspace_id, lead_id, checks)";
    let claimed = match tx.dialect() {
        Dialect::Sqlite => {
            let list: Vec<_> = looked.iter().map(|one| json!([one.id, one.checks + 1])).collect();
            let list = json!(list).to_string();
            let sql = format!(
                "{insert} SELECT $1, value ->> 0, value ->> 1 FROM json_each($2) WHERE true {then}"
            );
            tx.query(&sql, &[workspace(cx), Param::Text(&list)])?
        }
        Dialect::Postgres => {
            let ids: Vec<_> = looked.iter().map(|one| Some(one.id)).collect();
            let checks: Vec<_> = looked.iter().map(|one| Some(one.checks + 1)).collect();
            let sql = format!(
                "{insert} SELECT $1, id, checks
                 FROM unnest($2::bigint[], $3::bigint[]) AS looked (id, checks) ORDER BY id {then}"
            );
            tx.query(&sql, &[workspace(cx), Param::Ints(&ids), Param::Ints(&checks)])?
        }
    };
    Ok(claimed.len() == looked.len())
}

/// What is remembered may be for a while: then they are looked at when that is over. A page of a build has asked what one segment asks,
/// and so is no reason to forget what another one waits for.
fn come_back(
    tx: &mut Tx<'_>,
    cx: &Cx,
    looked: &[Looked],
    progress: Option<&Progress>,
) -> Result<(), DatabaseError> {
    let reason = progress.map_or_else(|| "all".to_owned(), |step| step.segment.to_string());
    let people = looked.iter().filter_map(|one| {
        let until = one.known.as_ref()?.facts.until?;
        Some((ContactId::from(one.id), until))
    });
    look_again(tx, cx, &reason, people)
}

/// In which segments they are, by segment.
fn rows_of(
    tx: &mut Tx<'_>,
    looked: &[Looked],
) -> Result<HashMap<i64, BTreeSet<i64>>, DatabaseError> {
    let sql = "SELECT m.segment_id, m.lead_id FROM {given} CROSS JOIN segment_members m
               WHERE m.lead_id = given.value";
    let ids: Vec<i64> = looked.iter().map(|one| one.id).collect();
    let mut inside: HashMap<i64, BTreeSet<i64>> = HashMap::new();
    for row in &tx.query_among(sql, &[], Among::Ints(&ids))? {
        inside.entry(row.int(0)?).or_default().insert(row.int(1)?);
    }
    Ok(inside)
}

/// Who has to get in, and who out.
struct Change {
    enter: Vec<i64>,
    leave: Vec<i64>,
}

impl Change {
    fn of(segment: &Segment, looked: &[Looked], inside: &HashMap<i64, BTreeSet<i64>>) -> Self {
        let inside = inside.get(&segment.id.get());
        let (mut enter, mut leave) = (Vec::new(), Vec::new());
        for one in looked {
            let is_in = inside.is_some_and(|rows| rows.contains(&one.id));
            let meant =
                one.known.as_ref().is_some_and(|known| matches(&segment.condition, &known.facts));
            match (is_in, meant) {
                (false, true) => enter.push(one.id),
                (true, false) => leave.push(one.id),
                (true, true) | (false, false) => {}
            }
        }
        Self { enter, leave }
    }

    /// Tells who really got in, and who out.
    fn write(
        &self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        segment: &Segment,
    ) -> Result<(Vec<i64>, Vec<i64>), DatabaseError> {
        let id = Param::Int(segment.id.get());
        let ids = |rows: Vec<tidings_sql::Row>| rows.iter().map(|row| row.int(0)).collect();
        let entered: Result<Vec<i64>, _> = if self.enter.is_empty() {
            Ok(Vec::new())
        } else {
            let sql = "INSERT INTO segment_members (workspace_id, segment_id, lead_id, entered_at)
                       SELECT $1, $2, value, $3 FROM {given} WHERE true
                       ON CONFLICT DO NOTHING RETURNING lead_id";
            let params = [workspace(cx), id, Param::from(cx.now())];
            ids(tx.query_among(sql, &params, Among::Ints(&self.enter))?)
        };
        let left: Result<Vec<i64>, _> = if self.leave.is_empty() {
            Ok(Vec::new())
        } else {
            let sql = "DELETE FROM segment_members WHERE segment_id = $1 AND lead_id {among}
                       RETURNING lead_id";
            ids(tx.query_among(sql, &[id], Among::Ints(&self.leave))?)
        };
        Ok((entered?, left?))
    }
}

/// Only if the segment is still the one that was read: with another condition, or live by now, it is looked at again.
fn count(tx: &mut Tx<'_>, segment: &Segment, by: i64) -> Result<(), Stop> {
    let sql = "UPDATE segments SET members = members + $2
               WHERE id = $1 AND rev = $3 AND state = $4 AND deleted_at IS NULL";
    let params = [
        Param::Int(segment.id.get()),
        Param::Int(by),
        Param::Int(segment.rev),
        Param::Text(segment.state.as_str()),
    ];
    if tx.execute(sql, &params)? == 0 { Err(Stop::Moved) } else { Ok(()) }
}

/// The page is done, with what it changed, and the next one follows.
fn go_on(
    tx: &mut Tx<'_>,
    cx: &Cx,
    segment: &Segment,
    (step, by): (&Progress, i64),
) -> Result<(), Stop> {
    let state = if step.next.is_some() { State::Building } else { State::Live };
    let sql = "UPDATE segments SET members = members + $2, build_cursor = $5, build_page = build_page + 1,
                   state = $6
               WHERE id = $1 AND rev = $3 AND build_page = $4 AND state = 'building' AND deleted_at IS NULL";
    let params = [
        Param::Int(segment.id.get()),
        Param::Int(by),
        Param::Int(step.rev),
        Param::Int(step.page),
        step.next.as_deref().map_or(Param::Null, Param::Text),
        Param::Text(state.as_str()),
    ];
    if tx.execute(sql, &params)? == 0 {
        return Err(Stop::Overtaken);
    }
    if step.next.is_some() {
        send(tx, cx, &store::build_message(cx, segment.id, (step.rev, step.page + 1)))?;
    }
    Ok(())
}

/// Who was erased or became part of another is not told of: there is nobody to tell it of.
fn tellable<'a>(
    segment: &'a Segment,
    (ids, way): (Vec<i64>, Way),
    looked: &'a [Looked],
) -> impl Iterator<Item = Moved<'a>> {
    let found = move |id: i64| looked.iter().find(|one| one.id == id);
    ids.into_iter().filter_map(found).filter_map(move |one| {
        let email: &EmailAddress = &one.known.as_ref()?.email;
        Some(Moved { segment, way, contact: one.id, email, number: one.checks + 1 })
    })
}

/// When a person entered a segment. `None` if he is not in it.
pub(super) fn entered_at(
    tx: &mut Tx<'_>,
    segment: SegmentId,
    contact: ContactId,
) -> Result<Option<Timestamp>, DatabaseError> {
    let sql = "SELECT entered_at FROM segment_members WHERE segment_id = $1 AND lead_id = $2";
    let rows = tx.query(sql, &[Param::Int(segment.get()), Param::Int(contact.get())])?;
    rows.first().map(|row| row.time(0)).transpose()
}
