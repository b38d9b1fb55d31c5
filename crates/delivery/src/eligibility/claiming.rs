//! The frequency cap once more, in the transaction that claims.
//!
//! The gate counts what the send log has. What somebody else hands over at this very moment is in no log yet, but in the
//! rows of the ledger: so whoever is about to claim marketing mail asks them, and on PostgreSQL those who claim for the same
//! person do it one after the other. Where there is no cap nobody asks.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::json;
use tidings_sql::{DatabaseError, Dialect, Param, Row, Tx};

use super::rules::Cap;
use crate::links::Source;

/// Somebody who is to be claimed.
#[derive(Debug, Clone, Copy)]
pub struct Claiming<'a> {
    pub source: Source,
    pub contact: i64,
    pub email: &'a str,
}

/// What somebody has had within the window of the cap.
#[derive(Default)]
struct Had {
    /// When, the newest first. What nobody knows about is among it: he may have it.
    sent: Vec<Timestamp>,
    /// How many more are being handed over.
    open: usize,
}

/// Until when each of them waits, in their order; `None` for whoever can be claimed, and he counts for those after him. Each is
/// locked until the commit, in one order, before anything of the ledger is. The transaction must be one that sees what was
/// committed since it began (`write_committed`).
pub fn put_off(
    tx: &mut Tx<'_>,
    workspace: i64,
    cap: Cap,
    claiming: &[Claiming<'_>],
    now: Timestamp,
) -> Result<Vec<Option<Timestamp>>, DatabaseError> {
    if claiming.is_empty() {
        return Ok(Vec::new());
    }
    if tx.dialect() == Dialect::Postgres {
        query(tx, LOCK, &[Param::Int(workspace)], claiming)?;
    }
    let since = Param::from(cap.since(now));
    let rows = query(tx, HAD, &[Param::Int(workspace), since], claiming)?;
    let mut had = had(&rows, claiming)?;
    let waits = claiming.iter().map(|one| {
        let had = had.entry(one.email.to_owned()).or_default();
        let until = cap.waits(&had.sent, had.open, now);
        had.open += usize::from(until.is_none());
        until
    });
    Ok(waits.collect())
}

/// A row may be of a contact whose address is another's since, so both are locked.
const LOCK: &str = "SELECT l.id FROM leads l WHERE l.id = ANY (ARRAY(
                   SELECT given.contact FROM {given}
                   UNION SELECT i.lead_id FROM {given} JOIN channel_identities i ON i.id = (
                       SELECT one.id FROM channel_identities one
                       WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.email)))
               ORDER BY l.id FOR NO KEY UPDATE OF l";

/// What was handed over to these people, as whoever was merged into them too.
const HAD: &str = "WITH RECURSIVE own (lead) AS (
                   SELECT given.contact FROM {given}
                   UNION SELECT i.lead_id FROM {given} JOIN channel_identities i ON i.id = (
                       SELECT one.id FROM channel_identities one
                       WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.email)),
               person (lead) AS (
                   SELECT lead FROM own
                   UNION SELECT l.id FROM person p JOIN leads l ON l.merged_into_id = p.lead)
               SELECT r.email, COALESCE(r.logged_at, r.sent_at, r.handed_at), r.status, 'r', r.id
               FROM campaign_recipients r
               WHERE r.lead_id {person} AND r.email IS NOT NULL AND COALESCE(r.logged_at, r.sent_at, r.handed_at) > $2
                   AND (r.status IN ('claimed', 'sent', 'uncertain', 'delivered', 'complained')
                        OR COALESCE(r.logged_at, r.sent_at) IS NOT NULL)
               UNION ALL
               SELECT m.email, COALESCE(m.logged_at, m.sent_at, m.handed_at), m.status, 't', m.id
               FROM transactional_messages m
               WHERE m.lead_id {person} AND m.email IS NOT NULL AND m.kind = 'sequence'
                   AND COALESCE(m.logged_at, m.sent_at, m.handed_at) > $2
                   AND (m.status IN ('claimed', 'sent', 'uncertain', 'delivered', 'complained')
                        OR COALESCE(m.logged_at, m.sent_at) IS NOT NULL)";

fn had(rows: &[Row], claiming: &[Claiming<'_>]) -> Result<HashMap<String, Had>, DatabaseError> {
    // Who was faster with one of them has claimed that, and no other one.
    let own: HashSet<Source> = claiming.iter().map(|one| one.source).collect();
    let mut all: HashMap<String, Had> = HashMap::new();
    for row in rows {
        let source = match row.text(3)? {
            "r" => Source::Recipient(row.int(4)?),
            _ => Source::Transactional(row.int(4)?),
        };
        if own.contains(&source) {
            continue;
        }
        let had = all.entry(row.text(0)?.to_owned()).or_default();
        match row.text(2)? {
            "claimed" => had.open += 1,
            _ => had.sent.push(row.time(1)?),
        }
    }
    for had in all.values_mut() {
        had.sent.sort_unstable_by(|one, other| other.cmp(one));
    }
    Ok(all)
}

/// `{given}` stands for a table with the columns `contact` and `email`, and `{person}` for "is one of those people". To look
/// them up is said to PostgreSQL in so many words: of a join it may make a walk through the other table, and keep to it.
fn query(
    tx: &mut Tx<'_>,
    sql: &str,
    params: &[Param<'_>],
    claiming: &[Claiming<'_>],
) -> Result<Vec<Row>, DatabaseError> {
    let (mut params, place) = (params.to_vec(), params.len() + 1);
    match tx.dialect() {
        Dialect::Sqlite => {
            let pairs: Vec<_> =
                claiming.iter().map(|one| json!([one.contact, one.email])).collect();
            let pairs = json!(pairs).to_string();
            params.push(Param::Text(&pairs));
            tx.query(&on_sqlite(sql, place), &params)
        }
        Dialect::Postgres => {
            let contacts: Vec<_> = claiming.iter().map(|one| Some(one.contact)).collect();
            let emails: Vec<_> = claiming.iter().map(|one| Some(one.email)).collect();
            params.extend([Param::Ints(&contacts), Param::Texts(&emails)]);
            let next = place + 1;
            let table =
                format!("unnest(${place}::bigint[], ${next}::text[]) AS given (contact, email)");
            let sql = sql.replace("{given}", &table);
            tx.query(&sql.replace("{person}", "= ANY (ARRAY(SELECT lead FROM person))"), &params)
        }
    }
}

fn on_sqlite(sql: &str, place: usize) -> String {
    let table = format!(
        "(SELECT value ->> 0 AS contact, value ->> 1 AS email FROM json_each(${place})) AS given"
    );
    sql.replace("{given}", &table).replace("{person}", "IN (SELECT lead FROM person)")
}

#[cfg(test)]
mod tests {
    use tidings_sql::{Database, DatabaseError, Param};
    use tidings_testbed::Bed;

    use super::{Claiming, HAD, LOCK, on_sqlite, query};
    use crate::links::Source;

    /// Whatever it costs, it does not cost more with more people.
    #[tokio::test]
    async fn the_rows_of_a_person_are_looked_up() {
        let database = Database::memory().await.unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", on_sqlite(HAD, 3));
        let read = database.read(move |tx| {
            let rows = tx.query(&sql, &[Param::Int(1), Param::Int(1), Param::Text("[]")])?;
            rows.iter().map(|row| row.text(3).map(str::to_owned)).collect()
        });
        let plan: Result<Vec<String>, DatabaseError> = read.await;
        let plan = plan.unwrap().join("\n");
        let indexes =
            ["r USING INDEX campaign_recipients_lead", "m USING INDEX transactional_messages_lead"];
        for index in indexes {
            assert!(plan.contains(&format!("SEARCH {index}")), "{plan}");
        }
        assert!(plan.contains("SEARCH l USING") && !plan.contains("SCAN l"), "{plan}");
    }

    /// Those are right for any number of rows that are found by what is asked for: no table is walked through.
    #[tokio::test]
    async fn postgres_looks_them_up_too() {
        let bed = Bed::postgres().await;
        let explain = bed.access.database().write_committed(|tx| {
            let this =
                Claiming { source: Source::Recipient(1), contact: 1, email: "ada@example.org" };
            let mut plan = Vec::new();
            for (sql, params) in [(LOCK, vec![Param::Int(1)]), (HAD, vec![Param::Int(1); 2])] {
                let sql = format!("EXPLAIN (COSTS OFF) {sql}");
                for row in query(tx, &sql, &params, &[this])? {
                    plan.push(row.text(0)?.to_owned());
                }
            }
            Ok::<_, DatabaseError>(plan)
        });
        let plan = explain.await.unwrap();
        assert!(plan.iter().all(|line| !line.contains("Seq Scan")), "{}", plan.join("\n"));
        for (line, next) in plan.iter().zip(&plan[1..]) {
            assert!(
                !line.contains(" Scan using ") || next.contains("Index Cond"),
                "{line}\n{next}"
            );
        }
    }
}
