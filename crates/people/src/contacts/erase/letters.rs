//! Dead letters that name somebody: what was given up may say whom it was about.

use serde_json::Value;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Row, Tx};

/// So many of those that may name him are looked at in one read. A body can have a quarter of a megabyte.
const PAGE: i64 = 20;

/// Where a dead letter is: its queue and its id there.
type Place = (String, String);

/// Deletes the dead letters of this workspace that name the address, and those that say of no workspace that they are its own.
/// Whoever wanted to send them again could not, since there is nobody any more.
pub(super) async fn clear(cx: &Cx, email: &EmailAddress) -> Result<(), DatabaseError> {
    let mut after = (String::new(), String::new());
    loop {
        let (within, wanted, from) = (cx.clone(), email.clone(), after);
        let look = cx.database().glance(move |tx| look(tx, &within, &wanted, &from));
        let (found, last) = look.await?;
        if !found.is_empty() {
            cx.database().write_committed(move |tx| delete(tx, &found)).await?;
        }
        match last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// Those of the next page that are to go, and where it ends unless it is the last.
fn look(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
    (queue, id): &Place,
) -> Result<(Vec<Place>, Option<Place>), DatabaseError> {
    let escaped = email.as_str().replace('!', "!!").replace('%', "!%").replace('_', "!_");
    let sql = "SELECT queue, id, body FROM dead_letters
               WHERE LOWER(body) LIKE $1 ESCAPE '!' AND (queue, id) > ($2, $3)
               ORDER BY queue, id LIMIT $4";
    let like = format!("%{escaped}%");
    let params = [Param::Text(&like), Param::Text(queue), Param::Text(id), Param::Int(PAGE)];
    let rows = tx.query(sql, &params)?;
    let place =
        |row: &Row| Ok::<_, DatabaseError>((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
    let mut found = Vec::new();
    for row in &rows {
        let body = row.text(2)?;
        if names(body, email.as_str()) && !is_of_another(body, cx) {
            found.push(place(row)?);
        }
    }
    let is_full = i64::try_from(rows.len()) == Ok(PAGE);
    let last = rows.last().filter(|_| is_full).map(place).transpose()?;
    Ok((found, last))
}

fn delete(tx: &mut Tx<'_>, places: &[Place]) -> Result<(), DatabaseError> {
    let sql = "DELETE FROM dead_letters WHERE queue = $1 AND id = $2";
    for (queue, id) in places {
        tx.execute(sql, &[Param::Text(queue), Param::Text(id)])?;
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
