//! What a condition names and there is not. It could be made later, so it is no mistake of the condition as such.

use std::collections::BTreeSet;

use tidings_access::{Cx, Slug};
use tidings_people::features;
use tidings_sql::{Among, DatabaseError, Param};

use super::condition::{Condition, Subject};

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

/// Why there are not all the features that a condition names. What nobody computes is unknown of everybody: turned around, the
/// condition would mean them all.
pub fn unknown_features(condition: &Condition) -> BTreeSet<String> {
    let missing = |subject: &Subject| match subject {
        Subject::Feature(name) => features::missing(name),
        Subject::Attribute(_) | Subject::Memory { .. } => None,
    };
    condition.subjects().into_iter().filter_map(missing).collect()
}

/// What is named and not there, in words.
pub async fn unknown_names(cx: &Cx, condition: &Condition) -> Result<Vec<String>, DatabaseError> {
    let audiences = unknown_audiences(cx, condition).await?;
    let segments = unknown_segments(cx, condition).await?;
    let audiences = audiences.iter().map(|slug| format!("there is no audience {slug}"));
    let segments = segments.iter().map(|slug| format!("there is no segment {slug}"));
    Ok(audiences.chain(segments).chain(unknown_features(condition)).collect())
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
