//! Dead letters that name somebody: what was given up may say whom it was about.

use serde_json::Value;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

/// Deletes the dead letters of this workspace that name the address, and those that say of no workspace that they are its own.
/// Whoever wanted to send them again could not, since there is nobody any more.
pub(super) async fn clear(cx: &Cx, email: &EmailAddress) -> Result<(), DatabaseError> {
    let (within, email) = (cx.clone(), email.clone());
    cx.database().write_committed(move |tx| delete(tx, &within, &email)).await
}

fn delete(tx: &mut Tx<'_>, cx: &Cx, email: &EmailAddress) -> Result<(), DatabaseError> {
    let escaped = email.as_str().replace('!', "!!").replace('%', "!%").replace('_', "!_");
    let sql = "SELECT queue, id, body FROM dead_letters WHERE LOWER(body) LIKE $1 ESCAPE '!'";
    for row in &tx.query(sql, &[Param::Text(&format!("%{escaped}%"))])? {
        let body = row.text(2)?;
        if names(body, email.as_str()) && !is_of_another(body, cx) {
            let sql = "DELETE FROM dead_letters WHERE queue = $1 AND id = $2";
            tx.execute(sql, &[Param::Text(row.text(0)?), Param::Text(row.text(1)?)])?;
        }
    }
    Ok(())
}

/// Whether the address is there, and not only as the end or the beginning of a longer one.
fn names(body: &str, email: &str) -> bool {
    let body = body.to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || "._%+-".contains(c);
    body.match_indices(email).any(|(at, _)| {
        let mut before = body[..at].chars().rev();
        let mut after = body[at + email.len()..].chars();
        let longer_before = match (before.next(), before.next()) {
            // A line break or the like, as JSON writes it.
            (Some('n' | 'r' | 't'), Some('\\')) | (None, _) => false,
            (Some(c), _) => is_part(c),
        };
        let longer_after = match (after.next(), after.next()) {
            // The end of a sentence.
            (Some('.'), next) => next.is_some_and(char::is_alphanumeric),
            (Some(c), _) => is_part(c),
            (None, _) => false,
        };
        !longer_before && !longer_after
    })
}

fn is_of_another(body: &str, cx: &Cx) -> bool {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return false };
    let by_id = body["workspace_id"].as_i64().is_some_and(|id| id != cx.workspace_id().get());
    let name = body["workspace"].as_str();
    by_id || name.is_some_and(|name| name != cx.workspace().to_string())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn an_address_is_found_and_no_longer_one() {
        for (body, expected) in [
            (r#"{"email":"ada@example.org"}"#, true),
            (r#"{"email":"Ada@Example.org"}"#, true),
            (r#"{"Message":"{\"to\":[\"ada@example.org\"]}"}"#, true),
            (r"To:\nada@example.org\r\n", true),
            ("write to ada@example.org.", true),
            ("<ada@example.org>", true),
            ("ada@example.org", true),
            (r#"{"email":"lovelace.ada@example.org"}"#, false),
            (r#"{"email":"ada@example.org.uk"}"#, false),
            ("nada@example.org", false),
            ("", false),
        ] {
            assert_eq!(names(body, "ada@example.org"), expected, "{body}");
        }
    }
}
