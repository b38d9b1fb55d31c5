//! Making, changing and deleting segments.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidings_access::{Change as Entry, Cx, DisplayName, Slug, StorageError};
use tidings_delivery::canonical;
use tidings_people::segments::send;
use tidings_sql::{DatabaseError, Param, Tx};

use super::show::FindError;
use super::store::{self, workspace};
use super::{Segment, State, build};
use crate::audience::{Condition, unknown_audiences, unknown_features};

/// So many segments a workspace can have: each is asked about everybody who changes.
pub const MAX_SEGMENTS: usize = 100;
/// So large a condition can be, as JSON: it is read with every look at somebody.
pub const MAX_CONDITION_BYTES: usize = 64 * 1024;
/// While there is no segment nobody says that he changes. Who asked just before the first one came is done by then, and so
/// the walk over everybody meets what he wrote.
const FIRST_BUILD_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq)]
pub struct Put {
    pub slug: Slug,
    /// Without one it is called by its slug, or keeps the name that it has.
    pub name: Option<DisplayName>,
    /// As it was written. It is read here, so that everything that is wrong is told at once.
    pub condition: Json,
    pub trigger_on_build: bool,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub field: String,
    pub message: String,
}

/// What a put did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    Changed,
    Unchanged,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the segment is not right: {}", joined(.0))]
    Wrong(Vec<Violation>),
    #[error("a workspace has at most {MAX_SEGMENTS} segments: delete one first")]
    TooMany,
    #[error("the segment could not be saved")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for PutError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn joined(violations: &[Violation]) -> String {
    let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
    told.join("; ")
}

/// Makes a segment, or gives one another name or condition. With a new condition everybody is looked at again, and those
/// who do not meet it any more are taken out at the end. Putting the same again changes nothing.
pub async fn put(cx: &Cx, cmd: Put) -> Result<(Segment, Change), PutError> {
    let condition = check(cx, &cmd.condition, &BTreeSet::new()).await?;
    let within = cx.clone();
    let write = cx.database().write(move |tx| match store::by_slug(tx, &within, &cmd.slug)? {
        Some(before) => change(tx, &within, &before, (&cmd, &condition)),
        None => make(tx, &within, &cmd, &condition),
    });
    write.await
}

/// What a put would do. These audiences will be there by then.
pub async fn compare(cx: &Cx, cmd: &Put, coming: &BTreeSet<Slug>) -> Result<Change, PutError> {
    let condition = check(cx, &cmd.condition, coming).await?;
    let (within, cmd) = (cx.clone(), cmd.clone());
    let read = cx.database().read(move |tx| {
        let before = store::by_slug(tx, &within, &cmd.slug)?;
        Ok(match before {
            None => Change::Created,
            Some(before) if is_same(&before, &cmd, &condition) => Change::Unchanged,
            Some(_) => Change::Changed,
        })
    });
    let read: Result<Change, DatabaseError> = read.await;
    Ok(read?)
}

/// Everybody is looked at again, with the condition that the segment has.
pub async fn rebuild(cx: &Cx, slug: Slug) -> Result<Segment, FindError> {
    let within = cx.clone();
    let write = cx.database().write(move |tx| {
        let before = store::by_slug(tx, &within, &slug)?;
        let before = before.ok_or_else(|| FindError::Missing(slug.clone()))?;
        // While it is walked with a condition that was never live, it still is none that was.
        let again = before.state == State::Live || before.is_walked_again();
        begin(tx, &within, &before, again.then_some(build::AGAIN))?;
        let after = store::by_id(tx, &within, before.id)?.ok_or(DatabaseError::NoRow)?;
        let entry = Entry::new("segment.rebuild", "segment", &slug);
        within.record_change(tx, &entry.between(told(&before), told(&after)))?;
        Ok(after)
    });
    write.await
}

/// From now on there is no such segment. Nobody leaves it by that.
pub async fn delete(cx: &Cx, slug: Slug) -> Result<(), FindError> {
    let within = cx.clone();
    let write = cx.database().write(move |tx| {
        let found = store::by_slug(tx, &within, &slug)?;
        let segment = found.ok_or_else(|| FindError::Missing(slug.clone()))?;
        let sql = "UPDATE segments SET deleted_at = $2, rev = rev + 1 WHERE id = $1";
        tx.execute(sql, &[Param::Int(segment.id.get()), Param::from(within.now())])?;
        let rest = store::build_message(&within, segment.id, (segment.rev + 1, 1));
        send(tx, &within, &rest)?;
        let entry = Entry::new("segment.delete", "segment", &slug).before(told(&segment));
        within.record_change(tx, &entry)?;
        Ok(())
    });
    write.await
}

async fn check(cx: &Cx, json: &Json, coming: &BTreeSet<Slug>) -> Result<Condition, PutError> {
    let wrong = |message: String| Violation { field: "condition".to_owned(), message };
    let condition = Condition::parse(json, "condition").map_err(|violations| {
        let told =
            |one: crate::audience::Violation| Violation { field: one.path, message: one.message };
        PutError::Wrong(violations.into_iter().map(told).collect())
    })?;
    let mut found = Vec::new();
    if !condition.segments().is_empty() {
        found.push(wrong("a segment cannot be made of segments".to_owned()));
    }
    if condition.to_json().to_string().len() > MAX_CONDITION_BYTES {
        found.push(wrong(format!("use at most {MAX_CONDITION_BYTES} bytes")));
    }
    found.extend(unknown_features(&condition).into_iter().map(wrong));
    let unknown = unknown_audiences(cx, &condition).await?;
    let unknown = unknown.iter().filter(|slug| !coming.contains(slug));
    found.extend(unknown.map(|slug| wrong(format!("there is no audience {slug}"))));
    if found.is_empty() { Ok(condition) } else { Err(PutError::Wrong(found)) }
}

fn make(
    tx: &mut Tx<'_>,
    cx: &Cx,
    cmd: &Put,
    condition: &Condition,
) -> Result<(Segment, Change), PutError> {
    let others = store::all(tx, cx)?.len();
    if others >= MAX_SEGMENTS {
        return Err(PutError::TooMany);
    }
    let sql = "INSERT INTO segments
                   (workspace_id, slug, name, condition, state, trigger_on_build, created_at, updated_at)
               VALUES ($1, $2, $3, $4, 'building', $5, $6, $6)
               ON CONFLICT DO NOTHING RETURNING id";
    let (name, json) = (called(cmd, None), condition.to_json().to_string());
    let params = [
        workspace(cx),
        Param::Text(cmd.slug.as_str()),
        Param::Text(name.as_str()),
        Param::Text(&json),
        Param::Int(cmd.trigger_on_build.into()),
        Param::from(cx.now()),
    ];
    let rows = tx.query(sql, &params)?;
    // Somebody else was faster, and a transaction that looks as if it ran alone runs again.
    let id = rows.first().ok_or(DatabaseError::Conflict)?.int(0)?.into();
    let mut first = store::build_message(cx, id, (1, 1));
    if others == 0 {
        first = first.delayed(FIRST_BUILD_AFTER);
    }
    send(tx, cx, &first)?;
    let made = store::by_id(tx, cx, id)?.ok_or(DatabaseError::NoRow)?;
    let entry = Entry::new("segment.create", "segment", &cmd.slug).after(told(&made));
    cx.record_change(tx, &entry)?;
    Ok((made, Change::Created))
}

fn change(
    tx: &mut Tx<'_>,
    cx: &Cx,
    before: &Segment,
    (cmd, condition): (&Put, &Condition),
) -> Result<(Segment, Change), PutError> {
    if is_same(before, cmd, condition) {
        return Ok((before.clone(), Change::Unchanged));
    }
    let name = called(cmd, Some(before));
    let sql =
        "UPDATE segments SET name = $2, condition = $3, trigger_on_build = $4, updated_at = $5
               WHERE id = $1";
    let json = condition.to_json().to_string();
    let params = [
        Param::Int(before.id.get()),
        Param::Text(name.as_str()),
        Param::Text(&json),
        Param::Int(cmd.trigger_on_build.into()),
        Param::from(cx.now()),
    ];
    tx.execute(sql, &params)?;
    if *condition != before.condition {
        begin(tx, cx, before, None)?;
    }
    let after = store::by_id(tx, cx, before.id)?.ok_or(DatabaseError::NoRow)?;
    let entry = Entry::new("segment.update", "segment", &cmd.slug);
    cx.record_change(tx, &entry.between(told(before), told(&after)))?;
    Ok((after, Change::Changed))
}

/// For the audit log. A condition can name people, so it is there as a hash.
fn told(segment: &Segment) -> Json {
    json!({
        "name": segment.name.as_str(),
        "condition_hash": canonical::hash(&segment.condition.to_json()),
        "trigger_on_build": segment.trigger_on_build,
        "rev": segment.rev,
    })
}

fn is_same(before: &Segment, cmd: &Put, condition: &Condition) -> bool {
    called(cmd, Some(before)) == before.name
        && cmd.trigger_on_build == before.trigger_on_build
        && *condition == before.condition
}

/// Whatever is under way for the condition before ends by itself.
fn begin(
    tx: &mut Tx<'_>,
    cx: &Cx,
    segment: &Segment,
    cursor: Option<&str>,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE segments SET state = $2, rev = $3, build_cursor = $5, build_page = 1, updated_at = $4
               WHERE id = $1";
    let rev = segment.rev + 1;
    let params = [
        Param::Int(segment.id.get()),
        Param::Text(State::Building.as_str()),
        Param::Int(rev),
        Param::from(cx.now()),
        cursor.map_or(Param::Null, Param::Text),
    ];
    tx.execute(sql, &params)?;
    send(tx, cx, &store::build_message(cx, segment.id, (rev, 1)))
}

fn called(cmd: &Put, before: Option<&Segment>) -> DisplayName {
    let kept = before.map(|segment| segment.name.clone());
    cmd.name.clone().or(kept).unwrap_or_else(|| DisplayName::from(&cmd.slug))
}
