//! The rows of segments.

use tidings_access::{Cx, Slug};
use tidings_jobs::contracts::{Contract as _, SegmentBuild};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::{Segment, SegmentId, State};
use crate::audience::Condition;

const SELECT: &str =
    "SELECT id, slug, name, CAST(condition AS TEXT), state, trigger_on_build, members, rev,
                             created_at, updated_at, build_cursor, build_page
                      FROM segments WHERE workspace_id = $1 AND deleted_at IS NULL";

/// All of a workspace, in the order of their ids. There are few.
pub(super) fn all(tx: &mut Tx<'_>, cx: &Cx) -> Result<Vec<Segment>, DatabaseError> {
    let rows = tx.query(&format!("{SELECT} ORDER BY id"), &[workspace(cx)])?;
    rows.iter().map(read).collect()
}

pub(super) fn by_slug(
    tx: &mut Tx<'_>,
    cx: &Cx,
    slug: &Slug,
) -> Result<Option<Segment>, DatabaseError> {
    let params = [workspace(cx), Param::Text(slug.as_str())];
    tx.query(&format!("{SELECT} AND slug = $2"), &params)?.first().map(read).transpose()
}

pub(super) fn by_id(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: SegmentId,
) -> Result<Option<Segment>, DatabaseError> {
    let params = [workspace(cx), Param::Int(id.get())];
    tx.query(&format!("{SELECT} AND id = $2"), &params)?.first().map(read).transpose()
}

/// The message that goes on with the walk over everybody, or with taking away what is left of a deleted segment.
pub(super) fn build_message(cx: &Cx, id: SegmentId, (rev, page): (i64, i64)) -> Outgoing {
    let (workspace, segment_id) = (cx.workspace().clone(), id.get());
    let build = SegmentBuild { workspace, segment_id, rev, page };
    let body = build.to_body().expect("ids and counts are positive");
    Outgoing::new(&queues::SEGMENT_PROCESSING, body)
}

pub(super) fn workspace(cx: &Cx) -> Param<'static> {
    Param::Int(cx.workspace_id().get())
}

fn read(row: &Row) -> Result<Segment, DatabaseError> {
    let condition: Condition = serde_json::from_str(row.text(3)?)
        .map_err(|_| DatabaseError::damaged(3, "the condition of a segment"))?;
    let state = match row.text(4)? {
        "building" => State::Building,
        "live" => State::Live,
        _ => return Err(DatabaseError::damaged(4, "the state of a segment")),
    };
    Ok(Segment {
        id: row.int(0)?.into(),
        slug: row.parsed(1, "a slug")?,
        name: row.parsed(2, "a display name")?,
        condition,
        state,
        trigger_on_build: row.int(5)? == 1,
        members: row.int(6)?.unsigned_abs(),
        rev: row.int(7)?,
        created_at: row.time(8)?,
        updated_at: row.time(9)?,
        build_cursor: row.optional_text(10)?.map(ToOwned::to_owned),
        build_page: row.int(11)?,
    })
}
