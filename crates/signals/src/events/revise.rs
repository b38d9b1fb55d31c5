//! Thinking again: an event that is recorded gets another verdict, and the counters follow in the same transaction.

use serde_json::Value as Json;
use tidings_access::Cx;
use tidings_delivery::counters::Under;
use tidings_delivery::ledger::Message;
use tidings_kernel::{Condition, Expect, Item, Key, StoreError, Txn, Update, tables};
use tidings_people::keys as people;

use super::RecordError;
use super::store::{keys, value};

/// How often it is tried before somebody else shall.
const TRIES: usize = 8;

/// Gives a recorded open or click of this message another verdict. False if it has another one by now than `event`
/// shows, or is gone: whoever wants to decide reads it again.
pub(crate) async fn revise(
    cx: &Cx,
    message: &Message,
    event: &Item,
    verdict: &Json,
) -> Result<bool, RecordError> {
    let change = i64::from(verdict["human"] == true) - i64::from(was_human(event));
    let items = cx.items().await?;
    for _ in 0..TRIES {
        let known = match change {
            0 => None,
            _ => items.get(&tables::EVENTS, &keys::message(message.source)).await?,
        };
        let Some(txn) = transaction(cx, (message, event), verdict, (change, known.as_ref())) else {
            return Ok(false);
        };
        match items.transact(txn).await {
            Ok(()) => return Ok(true),
            Err(StoreError::Conflict) => {}
            Err(StoreError::Cancelled(reasons)) => {
                // The event itself comes first; all others are only counted anew.
                if matches!(
                    reasons.first(),
                    Some(tidings_kernel::Cancellation::ConditionFailed { .. })
                ) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(RecordError::Busy)
}

fn was_human(event: &Item) -> bool {
    let path = tidings_kernel::Path::of("verdict").key("human");
    path.find(event) == Some(&true.into())
}

/// `None` for what is no open and no click of ours.
fn transaction(
    cx: &Cx,
    (message, event): (&Message, &Item),
    verdict: &Json,
    (change, known): (i64, Option<&Item>),
) -> Option<Txn> {
    let (count, unique) = match event.text("eventType")? {
        "open" => ("humanOpenCount", "uniqueHumanOpenCount"),
        "click" => ("humanClickCount", "uniqueHumanClickCount"),
        _ => return None,
    };
    let key = Key::new(event.text("PK")?, event.text("SK")?);
    let before = match event.get("verdict") {
        Some(before) => Condition::eq("verdict", before.clone()),
        None => Condition::not_exists("verdict"),
    };
    let expected = Condition::exists("eventId").and(before);
    let update = Update::new(&tables::EVENTS, key).set("verdict", value(verdict));
    let mut txn = Txn::new().update(update.expect(Expect::That(expected)));
    if change == 0 {
        return Some(txn);
    }
    let was = known.and_then(|item| item.integer(count)).unwrap_or(0);
    let is = (was + change).max(0);
    let first = i64::from(is > 0) - i64::from(was > 0);
    let now = people::time(cx.now());
    let update =
        Update::new(&tables::EVENTS, keys::message(message.source)).set("updatedAt", now.as_str());
    // Whoever records the first one looks whether there is a number at all, so none stays as zero.
    let update = if is > 0 { update.set(count, is) } else { update.remove(count) };
    let expected = match known.and_then(|item| item.get(count)) {
        Some(was) => Condition::eq(count, was.clone()),
        None => Condition::not_exists(count),
    };
    txn = txn.update(update.expect(Expect::That(expected)));
    let mut changes = vec![(count, change)];
    if first != 0 {
        changes.push((unique, first));
    }
    // Where the event itself was counted.
    let under = Under {
        id: event.text("eventId")?,
        at: event.text("timestamp")?.parse().ok()?,
        template_key: message.template_key.as_deref(),
        sequence_id: message.sequence_id.as_deref(),
    };
    Some(under.count(txn, &changes, cx.now()))
}
