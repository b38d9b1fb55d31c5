//! What a condition names and there is not. It could be made later, so it is no mistake of the condition as such.

use tidings_access::{Cx, Slug};
use tidings_sql::{Among, DatabaseError, Param};

use super::condition::Condition;

/// The audiences that a condition names and the workspace does not have.
pub async fn unknown_audiences(cx: &Cx, condition: &Condition) -> Result<Vec<Slug>, DatabaseError> {
    let mut named: Vec<Slug> = condition.audiences().into_iter().cloned().collect();
    named.sort();
    named.dedup();
    if named.is_empty() {
        return Ok(named);
    }
    let (workspace, asked) = (cx.workspace_id().get(), named.clone());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT slug FROM audiences WHERE workspace_id = $1 AND slug IN (SELECT value FROM {given})";
        let slugs: Vec<&str> = asked.iter().map(Slug::as_str).collect();
        let rows = tx.query_among(sql, &[Param::Int(workspace)], Among::Texts(&slugs))?;
        rows.iter().map(|row| row.parsed(0, "a slug")).collect::<Result<Vec<Slug>, _>>()
    });
    let there = read.await?;
    named.retain(|slug| !there.contains(slug));
    Ok(named)
}
