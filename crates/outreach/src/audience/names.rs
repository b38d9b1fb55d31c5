//! What a condition names and there is not. It could be made later, so it is no mistake of the condition as such.

use tidings_access::{Cx, Slug};
use tidings_sql::{Among, DatabaseError, Param};

use super::condition::Condition;

/// The audiences that a condition names and the workspace does not have.
pub async fn unknown_audiences(cx: &Cx, condition: &Condition) -> Result<Vec<Slug>, DatabaseError> {
    let sql = "SELECT slug FROM audiences
               WHERE workspace_id = $1 AND slug IN (SELECT value FROM {given})";
    unknown(cx, condition.audiences(), sql).await
}

/// The segments that a condition names and the workspace does not have.
pub async fn unknown_segments(cx: &Cx, condition: &Condition) -> Result<Vec<Slug>, DatabaseError> {
    let sql = "SELECT slug FROM segments WHERE workspace_id = $1 AND deleted_at IS NULL
                   AND slug IN (SELECT value FROM {given})";
    unknown(cx, condition.segments(), sql).await
}

/// What is named and not there, in words.
pub async fn unknown_names(cx: &Cx, condition: &Condition) -> Result<Vec<String>, DatabaseError> {
    let audiences = unknown_audiences(cx, condition).await?;
    let segments = unknown_segments(cx, condition).await?;
    let audiences = audiences.iter().map(|slug| format!("there is no audience {slug}"));
    let segments = segments.iter().map(|slug| format!("there is no segment {slug}"));
    Ok(audiences.chain(segments).collect())
}

async fn unknown(
    cx: &Cx,
    named: Vec<&Slug>,
    sql: &'static str,
) -> Result<Vec<Slug>, DatabaseError> {
    let mut named: Vec<Slug> = named.into_iter().cloned().collect();
    named.sort();
    named.dedup();
    if named.is_empty() {
        return Ok(named);
    }
    let (workspace, asked) = (cx.workspace_id().get(), named.clone());
    let read = cx.database().read(move |tx| {
        let slugs: Vec<&str> = asked.iter().map(Slug::as_str).collect();
        let rows = tx.query_among(sql, &[Param::Int(workspace)], Among::Texts(&slugs))?;
        rows.iter().map(|row| row.parsed(0, "a slug")).collect::<Result<Vec<Slug>, _>>()
    });
    let there = read.await?;
    named.retain(|slug| !there.contains(slug));
    Ok(named)
}
