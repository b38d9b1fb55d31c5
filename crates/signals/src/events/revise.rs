//! Thinking again: an event that is recorded gets another verdict, and the counters follow in the same transaction. So does the
//! timeline of the person: it is told which verdict that is, counted, so that the last one counts there whatever comes first.

use serde_json::Value as Json;
use tidings_access::Cx;
use tidings_delivery::breakdown::{Link, Place};
use tidings_delivery::counters::Under;
use tidings_delivery::ledger::Message;
use tidings_jobs::happened::{MACHINE, REVISION};
use tidings_kernel::{Condition, Expect, Item, Key, Outgoing, StoreError, Txn, Update, tables};
use tidings_people::keys as people;

use super::links::Clicks;
use super::store::{campaign, keys, value};
use super::{RecordError, happened};

/// So often a verdict of an event has changed between a person and what is none.
const REVISIONS: &str = "verdictRevisions";
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
    let as_read = |name: &str| match event.get(name) {
        Some(before) => Condition::eq(name, before.clone()),
        None => Condition::not_exists(name),
    };
    let expected = Condition::exists("eventId").and(as_read("verdict")).and(as_read(REVISIONS));
    let update = Update::new(&tables::EVENTS, key).set("verdict", value(verdict));
    let update = update.expect(Expect::That(expected));
    if change == 0 {
        return Some(Txn::new().update(update));
    }
    let revision = event.integer(REVISIONS).unwrap_or(0) + 1;
    let mut txn = Txn::new().update(update.set(REVISIONS, revision)).enqueue(judged_again(
        cx,
        (message, event),
        (revision, change > 0),
    )?);
    let clicks = event.text("link").map(Clicks::of);
    let mut message_change = MessageChange::new(known, change);
    let first = message_change.number(count);
    let first_of_link = clicks.as_ref().map(|clicks| message_change.number(&clicks.human));
    let now = cx.now();
    txn = txn.update(message_change.update(keys::message(message.source), &people::time(now)));
    let mut changes = vec![(count, change)];
    changes.extend((first != 0).then_some((unique, first)));
    // Where the event itself was counted.
    let at = event.text("timestamp")?.parse().ok()?;
    let under = Under {
        id: event.text("eventId")?,
        at,
        template_key: message.template_key.as_deref(),
        sequence_id: message.sequence_id.as_deref(),
    };
    txn = under.count(txn, &changes, now);
    let Some(campaign) = campaign(message) else { return Some(txn) };
    let (_, domain) = event.text("PK")?.rsplit_once('@')?;
    let place = Place { campaign, at, domain, arm: event.integer("arm"), bounce: None };
    txn = place.count(txn, &changes, now);
    if let (Some(label), Some(first)) = (event.text("link"), first_of_link) {
        let link = Link { label: label.to_owned(), url: None, is_new: false };
        let mut changes = vec![(count, change)];
        changes.extend((first != 0).then_some((unique, first)));
        txn = link.count(txn, campaign, &changes, now);
    }
    Some(txn)
}

/// The event as it is told to the timeline, with what is thought of it now.
fn judged_again(
    cx: &Cx,
    (message, event): (&Message, &Item),
    (revision, human): (i64, bool),
) -> Option<Outgoing> {
    let event_type = match event.text("eventType")? {
        "open" => happened::OPENED,
        _ => happened::CLICKED,
    };
    let email = event.text("PK")?.strip_prefix("SUB#")?.parse().ok()?;
    let at = event.text("timestamp")?.parse().ok()?;
    let about = happened::About { id: event.text("eventId")?, email: &email, at };
    let mut happened = about.happened(event_type, Some(message), event.text("linkUrl"));
    happened.payload.insert(REVISION.to_owned(), revision.into());
    if !human {
        happened.payload.insert(MACHINE.to_owned(), true.into());
    }
    Some(happened.to_message(cx.workspace(), cx.now()))
}

/// What changes in the numbers of the message, which must be as they were read.
struct MessageChange<'a> {
    known: Option<&'a Item>,
    change: i64,
    numbers: Vec<(String, i64)>,
    expected: Vec<Condition>,
}

impl<'a> MessageChange<'a> {
    fn new(known: Option<&'a Item>, change: i64) -> Self {
        Self { known, change, numbers: Vec::new(), expected: Vec::new() }
    }

    /// Changes a number. Tells whether that was the first (1) or the last (-1) of its kind.
    fn number(&mut self, name: &str) -> i64 {
        let before = self.known.and_then(|item| item.get(name));
        self.expected.push(match before {
            Some(before) => Condition::eq(name, before.clone()),
            None => Condition::not_exists(name),
        });
        let was = self.known.and_then(|item| item.integer(name)).unwrap_or(0);
        let is = (was + self.change).max(0);
        self.numbers.push((name.to_owned(), is));
        i64::from(is > 0) - i64::from(was > 0)
    }

    fn update(self, key: Key, now: &str) -> Update {
        let mut update = Update::new(&tables::EVENTS, key).set("updatedAt", now);
        for (name, is) in self.numbers {
            // Whoever records the first one looks whether there is a number at all, so none stays as zero.
            let name = name.as_str();
            update = if is > 0 { update.set(name, is) } else { update.remove(name) };
        }
        update.expect(Expect::That(Condition::All(self.expected)))
    }
}
