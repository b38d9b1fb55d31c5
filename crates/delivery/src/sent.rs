//! The send log: a line `SENT#<time>` under the person for each message that a provider has taken, whatever kind it
//! was. This is its only writer.
//!
//! Two messages of the same millisecond have a line each: the later one moves on by a millisecond. Recording the same
//! message again finds its line and changes nothing. The transaction that stores a line also counts the message as sent,
//! whoever the provider is and whether or not he tells of it later.

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    Cancellation, EmailAddress, Expect, Item, StoreError, Txn, Update, Value, tables,
};
use tidings_people::contacts::{self, Flags};
use tidings_people::keys;

use crate::counters::{SENDS, Under};
use crate::ledger::Source;

/// So many messages of one person in one millisecond are more than anybody sends.
const TRIES: i64 = 200;

/// What the log says of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub email: EmailAddress,
    pub at: Timestamp,
    pub source: Source,
    pub subject: String,
    pub template_key: Option<String>,
    /// The sequence or the campaign that it was part of.
    pub sequence_id: Option<String>,
    pub provider_message_id: Option<String>,
}

/// Writes the line, counts it and, if the person has no profile yet, makes that too. `ttl_days` says how long lines are
/// kept, if not for ever. Tells under which time the line is.
pub async fn record(
    cx: &Cx,
    line: &Line,
    ttl_days: Option<u32>,
) -> Result<Timestamp, StorageError> {
    let items = cx.items().await?;
    let reference = line.source.reference();
    let (mut later, mut new) = (0, None);
    while later < TRIES {
        let at = line.at.saturating_add(later.milliseconds()).unwrap_or(line.at);
        let txn = Txn::new().put(&tables::MAIN, item(line, at, ttl_days), Expect::Absent);
        let txn = match new {
            None => txn.check(&tables::MAIN, keys::profile(&line.email), Expect::Present),
            Some(flags) => txn.update(fresh(&line.email, flags, at)),
        };
        let under = Under {
            id: &reference,
            at,
            template_key: line.template_key.as_deref(),
            sequence_id: line.sequence_id.as_deref(),
        };
        let reasons = match items.transact(under.count(txn, &[(SENDS, 1)], cx.now())).await {
            Ok(()) => return Ok(at),
            Err(StoreError::Cancelled(reasons)) => reasons,
            Err(error) => return Err(error.into()),
        };
        // What stood in the way is not read again: a read does not show a line past its time, and the write meets it.
        match (reasons.first(), reasons.get(1)) {
            (Some(Cancellation::ConditionFailed { current }), _) => {
                let there = current.as_ref().and_then(|item| item.text("message"));
                if there == Some(&reference) {
                    return Ok(at);
                }
                later += 1;
            }
            (_, Some(Cancellation::ConditionFailed { .. })) if new.is_none() => {
                new = Some(contacts::flags(cx, &line.email).await?);
            }
            _ => return Err(StoreError::Cancelled(reasons).into()),
        }
    }
    Err(StoreError::Conflict.into())
}

fn item(line: &Line, at: Timestamp, ttl_days: Option<u32>) -> Item {
    let mut item = tables::MAIN.bare_item(&keys::sent(&line.email, at));
    item.set("subject", line.subject.as_str());
    item.set("sentAt", keys::time(at));
    item.set("message", line.source.reference());
    let texts = [
        ("templateKey", &line.template_key),
        ("sequenceId", &line.sequence_id),
        ("sesMessageId", &line.provider_message_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            item.set(name, text.as_str());
        }
    }
    if let Some(days) = ttl_days {
        let end = at.saturating_add(SignedDuration::from_hours(24 * i64::from(days)));
        item.set("ttl", end.unwrap_or(Timestamp::MAX).as_second());
    }
    item
}

/// Whoever was written to is a subscriber. What is known of him stays as it is, and what stood against him before he was
/// erased stands.
fn fresh(email: &EmailAddress, flags: Flags, at: Timestamp) -> Update {
    Update::new(&tables::MAIN, keys::profile(email))
        .set_if_absent("email", email.as_str())
        .set_if_absent("tags", Value::L(Vec::new()))
        .set_if_absent("unsubscribed", flags.unsubscribed)
        .set_if_absent("suppressed", flags.suppressed)
        .set_if_absent("createdAt", keys::time(at))
        .set_if_absent("updatedAt", keys::time(at))
}
