//! An erased person in the ledger: his own messages, and those of others that name him.
//!
//! What was sent stays as a fact, without the person and without the words. What was not is not sent any more. Which
//! messages of others name an address, as one who gets a copy, as the one to answer, in a header or in an idempotency key,
//! is in `message_addresses`, written with each message, so that nobody looks through all of them. Replies of his that were
//! passed on to others are found the same way: he is the one to answer. Campaigns can name people, too, in their filters.

use jiff::{Timestamp, ToSpan as _};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, ReminderStep, ReminderTask};
use tidings_kernel::{Condition, EmailAddress, Expect, Outgoing, Query, Update, queues, tables};
use tidings_sql::{DatabaseError, EnqueueError, Param, Row, Tx};

use super::quoted;
use crate::contacts::ContactId;
use crate::keys;
use crate::suppression::memory::Secret;

/// Stands in the filters of campaigns for whoever was erased: an address that nobody can have, as JSON.
const NOBODY: &str = "\"erased@erased.invalid\"";

/// What the idempotency keys of replies begin with that were passed on.
pub const FORWARD_KEY: &str = "forward:";
/// What idempotency keys begin with of which only a hash is left.
pub const ERASED_KEY: &str = "erased:";

/// So many rows are changed at once.
const ROWS: i64 = 500;
/// So many messages that name somebody are cleared at once: each by itself.
const MENTIONS: i64 = 100;
/// The send log moves a line on by less than this if its millisecond is taken.
const MOVED_MS: i64 = 200;

/// What idempotency keys are kept as when somebody is erased whose address is in them, beside each. It serves as well to tell a
/// repeat. Without those that can hold no address, and nothing if nobody was ever erased here.
pub fn erased_keys<'k>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    keys: &[&'k str],
) -> Result<Vec<(&'k str, String)>, DatabaseError> {
    let with_address: Vec<&str> = keys.iter().copied().filter(|key| key.contains('@')).collect();
    if with_address.is_empty() {
        return Ok(Vec::new());
    }
    let Some(secret) = Secret::find(tx, cx)? else { return Ok(Vec::new()) };
    Ok(with_address.into_iter().map(|key| (key, hashed(&secret, key))).collect())
}

fn hashed(secret: &Secret, key: &str) -> String {
    format!("{ERASED_KEY}{}", secret.hash_text(key))
}

/// His own messages, and what campaigns have for him.
pub(super) async fn clear_own(
    cx: &Cx,
    contact: ContactId,
    (secret, addresses): (&Secret, &[EmailAddress]),
) -> Result<(), DatabaseError> {
    clear_keys(cx, contact, (secret, addresses)).await?;
    let messages = format!(
        "{} WHERE id IN (SELECT id FROM transactional_messages WHERE lead_id = $1 AND email IS NOT NULL
                         ORDER BY id LIMIT $3)
         RETURNING id, reminder",
        clear_messages()
    );
    let recipients = format!(
        "UPDATE campaign_recipients SET {}
         WHERE id IN (SELECT id FROM campaign_recipients WHERE lead_id = $1 AND email IS NOT NULL
                      ORDER BY id LIMIT $3)
         RETURNING id, CAST(NULL AS TEXT)",
        ended("'pending', 'queued', 'claimed'", "skipped")
    );
    for sql in [messages, recipients] {
        loop {
            let (sql, within) = (sql.clone(), cx.clone());
            let clear = cx.database().write(move |tx| {
                let now = Param::Int(within.now().as_millisecond());
                let rows = tx.query(&sql, &[Param::Int(contact.get()), now, Param::Int(ROWS)])?;
                for row in &rows {
                    tell_reminder(tx, &within, (row.int(0)?, row.optional_text(1)?))?;
                }
                Ok(rows.len())
            });
            let cleared: Result<usize, DatabaseError> = clear.await;
            if cleared? == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// A message that is a reminder tells its draft what became of it.
fn tell_reminder(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (message, reminder): (i64, Option<&str>),
) -> Result<(), DatabaseError> {
    let Some(reminder) = reminder else { return Ok(()) };
    let mut step = ReminderStep::new(cx.workspace().clone(), ReminderTask::Outcome);
    step.draft = Some(reminder.to_owned());
    step.message_id = Some(message);
    let damaged = |error| DatabaseError::Statement(std::sync::Arc::new(error));
    let body = step.to_body().map_err(damaged)?;
    match tx.enqueue(&Outgoing::new(&queues::REMINDER_STEPS, body), cx.now()) {
        Ok(()) => Ok(()),
        Err(EnqueueError::Database(error)) => Err(error),
        Err(EnqueueError::Invalid(error)) => {
            Err(DatabaseError::Statement(std::sync::Arc::new(error)))
        }
    }
}

/// What was just handed to the provider nobody knows.
fn ended(waiting: &str, ended: &str) -> String {
    format!(
        "status = CASE WHEN status = 'claimed' AND handed_at IS NOT NULL THEN 'uncertain'
                       WHEN status IN ({waiting}) THEN '{ended}' ELSE status END,
         skip_reason = CASE WHEN status IN ({waiting}) AND NOT (status = 'claimed' AND handed_at IS NOT NULL)
                            THEN 'erased' ELSE skip_reason END,
         email = NULL, last_error = NULL, claimed_by = NULL, claimed_until = NULL, updated_at = $2"
    )
}

fn clear_messages() -> String {
    format!(
        "UPDATE transactional_messages
         SET {}, reply_to = NULL, subject = NULL, html_body = NULL, text_body = NULL, context = '{{}}', envelope = '{{}}',
             metadata = '{{}}', late_copies = NULL",
        ended("'queued', 'claimed'", "cancelled")
    )
}

/// The keys of his messages that hold an address of his; and whom else those messages name is not said any more.
async fn clear_keys(
    cx: &Cx,
    contact: ContactId,
    (secret, addresses): (&Secret, &[EmailAddress]),
) -> Result<(), DatabaseError> {
    let mut after = 0;
    loop {
        let (secret, addresses) = (secret.clone(), addresses.to_vec());
        let page = cx.database().write(move |tx| {
            let sql = "SELECT id, idempotency_key FROM transactional_messages
                       WHERE lead_id = $1 AND id > $2 ORDER BY id LIMIT $3";
            let (lead, from) = (Param::Int(contact.get()), Param::Int(after));
            let rows = tx.query(sql, &[lead, from, Param::Int(ROWS)])?;
            let Some(last) = rows.last() else { return Ok(None) };
            let last = last.int(0)?;
            for row in &rows {
                let key = row.text(1)?;
                if addresses.iter().any(|address| names(key, address)) {
                    replace_key(tx, row.int(0)?, &hashed(&secret, key))?;
                }
            }
            let sql = "DELETE FROM message_addresses WHERE message_id IN (
                           SELECT id FROM transactional_messages WHERE lead_id = $1 AND id > $2 AND id <= $3)";
            tx.execute(sql, &[lead, from, Param::Int(last)])?;
            Ok(Some(last))
        });
        let last: Result<Option<i64>, DatabaseError> = page.await;
        let Some(last) = last? else { return Ok(()) };
        after = last;
    }
}

fn replace_key(tx: &mut Tx<'_>, message: i64, key: &str) -> Result<(), DatabaseError> {
    let sql = "UPDATE transactional_messages SET idempotency_key = $2 WHERE id = $1";
    tx.execute(sql, &[Param::Int(message), Param::Text(key)]).map(drop)
}

/// Keys are ASCII, and people write addresses in any case.
fn names(text: &str, address: &EmailAddress) -> bool {
    text.to_lowercase().contains(address.as_str())
}

/// A message of somebody else that names him.
struct Mention {
    message: i64,
    forwarded: bool,
    email: Option<String>,
    logged_at: Option<Timestamp>,
}

/// The messages of others that name this address. Tells whether there were any.
pub(super) async fn clear_mentions(
    cx: &Cx,
    secret: &Secret,
    address: &EmailAddress,
) -> Result<bool, StorageError> {
    let mut any = false;
    loop {
        let found = mentions(cx, address).await?;
        if found.is_empty() {
            return Ok(any);
        }
        any = true;
        // The items first: once the rows are clean, nothing tells where they are.
        for mention in found.iter().filter(|mention| mention.forwarded) {
            clear_log(cx, mention).await?;
        }
        let (within, secret, address) = (cx.clone(), secret.clone(), address.clone());
        let clear = cx.database().write(move |tx| {
            for mention in &found {
                clear_mention(tx, &within, mention, (&secret, &address))?;
            }
            Ok(())
        });
        let cleared: Result<(), DatabaseError> = clear.await;
        cleared?;
    }
}

/// Campaigns and segments that mean people by their addresses mean nobody in the place of this one.
pub(super) async fn clear_filters(cx: &Cx, address: &EmailAddress) -> Result<(), DatabaseError> {
    for (table, column) in [("campaigns", "filter"), ("segments", "condition")] {
        clear_conditions(cx, address, (table, column)).await?;
    }
    Ok(())
}

async fn clear_conditions(
    cx: &Cx,
    address: &EmailAddress,
    (table, column): (&'static str, &'static str),
) -> Result<(), DatabaseError> {
    let mut after = 0;
    loop {
        let (within, address) = (cx.clone(), address.clone());
        let page = cx.database().write(move |tx| {
            let sql = format!(
                "SELECT id, CAST({column} AS TEXT) FROM {table}
                 WHERE workspace_id = $1 AND id > $2 AND CAST({column} AS TEXT) LIKE $3 ESCAPE '!'
                 ORDER BY id LIMIT $4"
            );
            let (workspace, named) = (Param::Int(within.workspace_id().get()), quoted(&address));
            let params = [workspace, Param::Int(after), Param::Text(&named), Param::Int(MENTIONS)];
            let rows = tx.query(&sql, &params)?;
            for row in &rows {
                let name = serde_json::Value::from(address.as_str()).to_string();
                let filter = row.text(1)?.replace(&name, NOBODY);
                let sql = format!("UPDATE {table} SET {column} = $2 WHERE id = $1");
                tx.execute(&sql, &[Param::Int(row.int(0)?), Param::Text(&filter)])?;
            }
            rows.last().map(|row| row.int(0)).transpose()
        });
        let last: Result<Option<i64>, DatabaseError> = page.await;
        let Some(last) = last? else { return Ok(()) };
        after = last;
    }
}

async fn mentions(cx: &Cx, address: &EmailAddress) -> Result<Vec<Mention>, DatabaseError> {
    let (workspace, address) = (cx.workspace_id().get(), address.clone());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT m.id, m.idempotency_key, m.email, m.logged_at FROM message_addresses a
                   JOIN transactional_messages m ON m.workspace_id = a.workspace_id AND m.id = a.message_id
                   WHERE a.workspace_id = $1 AND a.email = $2 ORDER BY a.message_id LIMIT $3";
        let params = [Param::Int(workspace), Param::Text(address.as_str()), Param::Int(MENTIONS)];
        let mention = |row: &Row| {
            Ok(Mention {
                message: row.int(0)?,
                forwarded: row.text(1)?.starts_with(FORWARD_KEY),
                email: row.optional_text(2)?.map(str::to_owned),
                logged_at: row.optional_time(3)?,
            })
        };
        tx.query(sql, &params)?.iter().map(mention).collect()
    });
    read.await
}

/// The send log of whoever the reply was passed on to has its subject.
async fn clear_log(cx: &Cx, mention: &Mention) -> Result<(), StorageError> {
    let email = mention.email.as_deref().and_then(|email| email.parse::<EmailAddress>().ok());
    let (Some(email), Some(at)) = (email, mention.logged_at) else { return Ok(()) };
    let until = at.saturating_add(MOVED_MS.milliseconds()).unwrap_or(at);
    let sort = |at| keys::sent(&email, at).sort.unwrap_or_default();
    let items = cx.items().await?;
    let query = Query::new(&tables::MAIN, keys::subscriber(&email));
    let page = items.query(query.between(sort(at), sort(until))).await?;
    let reference = format!("t-{}", mention.message);
    for item in page.items.iter().filter(|item| item.text("message") == Some(&reference)) {
        let key = tables::MAIN.key_of(item).map_err(tidings_kernel::StoreError::from)?;
        let same = Expect::That(Condition::eq("message", reference.as_str()));
        let update = Update::new(&tables::MAIN, key).set("subject", "").expect(same);
        match items.update(update).await {
            Ok(_) => {}
            Err(error) if error.is_condition_failed() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn clear_mention(
    tx: &mut Tx<'_>,
    cx: &Cx,
    mention: &Mention,
    (secret, address): (&Secret, &EmailAddress),
) -> Result<(), DatabaseError> {
    let (workspace, message) = (Param::Int(cx.workspace_id().get()), Param::Int(mention.message));
    let now = Param::Int(cx.now().as_millisecond());
    if mention.forwarded {
        // All of it is what he wrote.
        tx.execute(&format!("{} WHERE id = $1", clear_messages()), &[message, now])?;
        tx.execute("DELETE FROM message_addresses WHERE message_id = $1", &[message])?;
        let sql =
            "DELETE FROM captured_mails WHERE workspace_id = $1 AND CAST(tags AS TEXT) LIKE $2";
        let tag = format!("%\"message\":\"t-{}\"%", mention.message);
        return tx.execute(sql, &[workspace, Param::Text(&tag)]).map(drop);
    }
    let sql = "SELECT idempotency_key, reply_to, CAST(envelope AS TEXT), late_copies
               FROM transactional_messages WHERE id = $1";
    let rows = tx.query(sql, &[message])?;
    let row = rows.first().ok_or(DatabaseError::NoRow)?;
    if names(row.text(0)?, address) {
        replace_key(tx, mention.message, &hashed(secret, row.text(0)?))?;
    }
    let answered = |text: &str| text.parse().is_ok_and(|email: EmailAddress| email == *address);
    let reply_to = row.optional_text(1)?.filter(|text| !answered(text));
    let envelope = without(row.text(2)?, address);
    forget_mention(tx, mention.message, address, &[reply_to.unwrap_or_default(), &envelope])?;
    let late = row.optional_text(3)?.map(|copies| without_copy(copies, address));
    let sql = "UPDATE transactional_messages SET reply_to = $3, envelope = $4, late_copies = $5, updated_at = $2
               WHERE id = $1";
    let reply_to = reply_to.map_or(Param::Null, Param::Text);
    let late = late.as_deref().map_or(Param::Null, Param::Text);
    tx.execute(sql, &[message, now, reply_to, Param::Text(&envelope), late]).map(drop)
}

/// Nothing is said any more of the copy that he did not get yet.
fn without_copy(copies: &str, address: &EmailAddress) -> String {
    let Ok(Value::Array(mut copies)) = serde_json::from_str(copies) else { return "[]".to_owned() };
    let is_he = |copy: &Value| {
        let email = copy["to"].as_str().and_then(|text| text.parse::<EmailAddress>().ok());
        email.is_some_and(|email| email == *address)
    };
    copies.retain(|copy| !is_he(copy));
    Value::Array(copies).to_string()
}

/// Where an address begins and ends in a key is not certain, so it may be written down as part of others. Those that
/// the message still names otherwise are somebody's own.
fn forget_mention(
    tx: &mut Tx<'_>,
    message: i64,
    address: &EmailAddress,
    still_named: &[&str],
) -> Result<(), DatabaseError> {
    let sql = "SELECT email FROM message_addresses WHERE message_id = $1";
    for row in tx.query(sql, &[Param::Int(message)])? {
        let email = row.text(0)?;
        let another =
            email != address.as_str() && still_named.iter().any(|text| text.contains(email));
        if names(email, address) && !another {
            let sql = "DELETE FROM message_addresses WHERE message_id = $1 AND email = $2";
            tx.execute(sql, &[Param::Int(message), Param::Text(email)])?;
        }
    }
    Ok(())
}

/// He gets no copy any more, and no header names him.
fn without(envelope: &str, address: &EmailAddress) -> String {
    let Ok(Value::Object(mut envelope)) = serde_json::from_str(envelope) else {
        return "{}".to_owned();
    };
    let is_he = |value: &Value| {
        let email = value.as_str().and_then(|text| text.parse::<EmailAddress>().ok());
        email.is_some_and(|email| email == *address)
    };
    for list in ["cc", "bcc"] {
        if let Some(Value::Array(copies)) = envelope.get_mut(list) {
            copies.retain(|copy| !is_he(copy));
        }
    }
    if let Some(Value::Object(headers)) = envelope.get_mut("headers") {
        headers.retain(|_, value| !value.as_str().is_some_and(|text| names(text, address)));
    }
    Value::Object(envelope).to_string()
}

#[cfg(test)]
mod tests {
    use super::{without, without_copy};

    #[test]
    fn a_copy_that_waits_is_forgotten_with_whom_it_is_for() {
        let ada = "ada@example.org".parse().unwrap();
        let both = r#"[{"to":"Ada@example.org"},{"to":"bob@example.org"}]"#;
        assert_eq!(without_copy(both, &ada), r#"[{"to":"bob@example.org"}]"#);
        assert_eq!(without_copy("?", &ada), "[]");
    }

    #[test]
    fn an_envelope_loses_one_person_and_nothing_else() {
        let ada = "ada@example.org".parse().unwrap();
        let check = |before: &str, after: &str| assert_eq!(without(before, &ada), after);
        check(r#"{"cc":["Ada@Example.org","bob@example.org"]}"#, r#"{"cc":["bob@example.org"]}"#);
        check(r#"{"bcc":["ada@example.org"],"test":true}"#, r#"{"bcc":[],"test":true}"#);
        check(
            r#"{"headers":{"X-By":"<ADA@example.org>","X-On":"1"}}"#,
            r#"{"headers":{"X-On":"1"}}"#,
        );
        check(r#"{"cc":["adam@example.org"]}"#, r#"{"cc":["adam@example.org"]}"#);
        check("not an envelope", "{}");
    }
}
