//! The walk over everybody for a condition that is new: one page, one commit, with the place where the next begins.
//!
//! First those whom the walk of the audience finds get in; then all who are in are looked at once more, and those who do not
//! meet the condition any more get out. A page only proposes: whom it names is looked at as anybody else is (`settle`), so
//! somebody who changes meanwhile is not put back. A page that was done is not done again, and one for an older
//! condition ends.

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Invalid, StoreError};
use tidings_people::contacts::ContactId;
use tidings_people::segments::send;
use tidings_sql::{DatabaseError, Param};

use super::settle::{Progress, Settled, settle};
use super::{Segment, SegmentId, State, store};
use crate::audience::{self, Found};

/// So many people are on a page.
const PAGE: usize = if cfg!(test) { 3 } else { 500 };
/// So many rows of a deleted segment are taken away at once, and so often before somebody else goes on.
const ROWS: i64 = if cfg!(test) { 2 } else { 1_000 };
const TURNS: usize = if cfg!(test) { 2 } else { 20 };

/// How the cursor of a segment begins while it is walked over everybody, and while those inside are looked at.
const FINDING: &str = "walk:";
const SWEEPING: &str = "sweep:";
/// And before that, if the condition was live before.
pub(super) const AGAIN: &str = "again:";

/// Does one page, if it is still to be done.
pub(super) async fn page(
    cx: &Cx,
    id: SegmentId,
    (rev, page): (i64, i64),
) -> Result<(), StorageError> {
    let within = cx.clone();
    let load = cx.database().read(move |tx| store::by_id(tx, &within, id));
    let found: Result<_, DatabaseError> = load.await;
    let Some(segment) = found? else { return clear(cx, id, rev).await };
    let is_due =
        segment.state == State::Building && (segment.rev, segment.build_page) == (rev, page);
    if !is_due {
        return Ok(());
    }
    let cursor = segment.build_cursor.as_deref();
    let again = cursor.and_then(|cursor| cursor.strip_prefix(AGAIN));
    let (contacts, next) = match again.or(cursor) {
        Some(cursor) if cursor.starts_with(SWEEPING) => {
            inside(cx, &segment, &cursor[SWEEPING.len()..]).await?
        }
        cursor => {
            let after = cursor.and_then(|cursor| cursor.strip_prefix(FINDING));
            let found = found_after(cx, &segment, after).await?;
            let contacts = found.contacts.iter().map(|member| member.lead_id).collect();
            let next = match found.next {
                Some(next) => format!("{FINDING}{next}"),
                None => format!("{SWEEPING}0"),
            };
            (contacts, Some(next))
        }
    };
    let next = next.map(|next| if again.is_some() { format!("{AGAIN}{next}") } else { next });
    let progress = Progress { segment: id, rev, page, next };
    match settle(cx, &contacts, Some(&progress)).await? {
        // Whoever was faster has told who goes on.
        Settled::Done | Settled::Overtaken => Ok(()),
    }
}

/// An erasure can change the list of addresses that a walk goes over. Then it begins again: who is in already stays.
async fn found_after(
    cx: &Cx,
    segment: &Segment,
    after: Option<&str>,
) -> Result<Found, StorageError> {
    let walk = segment.walk();
    match audience::page(cx, &walk, after, PAGE).await {
        Err(StorageError::Items(StoreError::Invalid(Invalid::BadCursor))) if after.is_some() => {
            audience::page(cx, &walk, None, PAGE).await
        }
        found => found,
    }
}

/// The next of those who are in, and where to go on.
async fn inside(
    cx: &Cx,
    segment: &Segment,
    after: &str,
) -> Result<(Vec<ContactId>, Option<String>), StorageError> {
    let (id, after) = (segment.id.get(), after.parse::<i64>().unwrap_or(0));
    let limit = PAGE as i64;
    let read = cx.database().read(move |tx| {
        let sql = "SELECT lead_id FROM segment_members
                   WHERE segment_id = $1 AND lead_id > $2 ORDER BY lead_id LIMIT $3";
        let rows = tx.query(sql, &[Param::Int(id), Param::Int(after), Param::Int(limit)])?;
        rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, DatabaseError>>()
    });
    let ids = read.await?;
    let last = ids.last().filter(|_| ids.len() == PAGE);
    let next = last.map(|last| format!("{SWEEPING}{last}"));
    Ok((ids.into_iter().map(ContactId::from).collect(), next))
}

/// Takes away what is left of a segment that was deleted, and at last its row.
async fn clear(cx: &Cx, id: SegmentId, rev: i64) -> Result<(), StorageError> {
    for turn in 1..=TURNS {
        let within = cx.clone();
        let write = cx.database().write_committed(move |tx| {
            let sql = "SELECT id FROM segments WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NOT NULL";
            let params = [store::workspace(&within), Param::Int(id.get())];
            if tx.query(sql, &params)?.is_empty() {
                return Ok(true);
            }
            let sql = "DELETE FROM segment_members WHERE segment_id = $1 AND lead_id IN (
                           SELECT lead_id FROM segment_members WHERE segment_id = $1
                           ORDER BY lead_id LIMIT $2)";
            let gone = tx.execute(sql, &[Param::Int(id.get()), Param::Int(ROWS)])?;
            let is_last = gone < ROWS.unsigned_abs();
            if is_last {
                tx.execute("DELETE FROM segments WHERE id = $1", &[Param::Int(id.get())])?;
            } else if turn == TURNS {
                send(tx, &within, &store::build_message(&within, id, (rev, 1)))?;
            }
            Ok::<_, DatabaseError>(is_last)
        });
        if write.await? {
            return Ok(());
        }
    }
    Ok(())
}
