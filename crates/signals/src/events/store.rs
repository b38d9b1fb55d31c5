//! The items of an event: the event itself, the mark that it was seen, what is known of its message, and the counters.
//!
//! One transaction writes them all. What it expects is that the event is new, its key free, and its message as it was
//! read; whatever does not hold is read again and decided again.

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use tidings_access::{Cx, StorageError};
use tidings_delivery::breakdown::{Link, Place};
use tidings_delivery::counters::Under;
use tidings_delivery::ledger::{Message, Source};
use tidings_kernel::{
    Cancellation, Condition, Delete, Expect, Item, Outgoing, StoreError, Txn, Update, Value, tables,
};
use tidings_people::heard::{self, Heard};
use tidings_people::keys as people;

use self::keys::digest;
use super::counters::{Seen, counted};
use super::links::{self, Clicks, unchanged};
use super::{Event, EventKind, RecordError, Recorded, happened, news};

/// How often a transaction is put together anew before somebody else shall try.
const TRIES: usize = 8;
/// How many digits tell an event from others of the same kind and time, if there are any.
const DIGITS: [usize; 3] = [0, 8, 64];
/// The longest of what others say that is kept.
const MAX_TEXT: usize = 2_048;
/// So many days at least it is known that an event was recorded: longer than any queue or provider can bring it again. Dead
/// letters are kept for 90.
const REMEMBERED_DAYS: u32 = 100;
/// The longest of a reply that is kept.
const MAX_REPLY: usize = 64 * 1024;

/// Where the items of events are.
pub mod keys {
    use jiff::Timestamp;
    use sha2::{Digest as _, Sha256};
    use tidings_delivery::ledger::Source;
    use tidings_kernel::{EmailAddress, Key};
    use tidings_people::keys as people;

    pub use tidings_delivery::counters::keys::{SHARDS, day, sequence, template};

    /// That an event was recorded.
    pub fn seen(id: &str) -> Key {
        Key::new(format!("SEEN#{id}"), "SEEN")
    }

    /// An event of a person. More than one of a kind in the same millisecond are told apart by `suffix`.
    pub fn event(email: &EmailAddress, at: Timestamp, kind: &str, suffix: &str) -> Key {
        let separator = if suffix.is_empty() { "" } else { "#" };
        let sort = format!("EVT#{}#{kind}{separator}{suffix}", people::time(at));
        Key::new(people::subscriber(email), sort)
    }

    /// What is known of a message: how often it was opened and clicked.
    pub fn message(source: Source) -> Key {
        Key::new(format!("MSG#{}", source.reference()), "COUNTERS")
    }

    /// So many hexadecimal digits that tell one id from another.
    pub(super) fn digest(id: &str, digits: usize) -> String {
        tidings_kernel::hex(&Sha256::digest(id))[..digits].to_owned()
    }
}

/// Stores and counts an event that is new.
pub(super) async fn append(
    cx: &Cx,
    event: &Event,
    message: Option<&Message>,
) -> Result<Recorded, RecordError> {
    let items = cx.items().await?;
    // Both in one read.
    let mut wanted = vec![keys::seen(&event.id)];
    wanted.extend(message.map(|message| keys::message(message.source)));
    let mut found = items.batch_get(&tables::EVENTS, &wanted).await?.into_iter();
    if found.next().flatten().is_some() {
        return Ok(Recorded::Before);
    }
    let mut known = found.next().flatten();
    let told = match news::of(event, message) {
        Some(told) => tidings_webhooks::message(cx, &told).await?,
        None => None,
    };
    let heard = heard(event, message).map(|heard| heard.to_message(cx));
    let happened = happened::of(event, message);
    let (workspace, now) = (cx.workspace(), cx.now());
    let happened = happened.map(|happened| match (&event.kind, message.map(|one| one.source)) {
        // As many of them come as a campaign has recipients.
        (EventKind::Delivery, Some(Source::Recipient(_))) => {
            happened.to_bulk_message(workspace, now)
        }
        _ => happened.to_message(workspace, now),
    });
    let told: Vec<Outgoing> = told.into_iter().chain(heard).chain(happened).collect();
    let mut digits = DIGITS[0];
    for _ in 0..TRIES {
        let link = match clicked(event, message) {
            Some((campaign, url)) => {
                let found = links::find(items.as_ref(), campaign, url, event.email.as_str());
                Some(found.await?)
            }
            None => None,
        };
        let draft = Draft { event, message, known: known.as_ref(), link, digits, now: cx.now() };
        let reasons = match items
            .transact(told.iter().cloned().fold(draft.transaction(), Txn::enqueue))
            .await
        {
            Ok(()) => return Ok(Recorded::Now),
            Err(StoreError::Cancelled(reasons)) => reasons,
            Err(StoreError::Conflict) => continue,
            // It may have been made: then the mark is there.
            Err(error @ StoreError::Uncertain(_)) => return Err(error.into()),
            Err(error) => return Err(error.into()),
        };
        let mut stood = reasons.into_iter();
        if let Some(Cancellation::ConditionFailed { .. }) = stood.next() {
            return Ok(Recorded::Before);
        }
        if let Some(Cancellation::ConditionFailed { .. }) = stood.next() {
            digits = if digits == DIGITS[0] { DIGITS[1] } else { DIGITS[2] };
        }
        if let (Some(_), Some(Cancellation::ConditionFailed { current })) = (message, stood.next())
        {
            // Not read again: a read does not show what is past its time, and the write still meets it.
            known = current;
        }
    }
    Err(RecordError::Busy)
}

/// Deletes an event, whichever of its keys it has. It stays counted.
pub(super) async fn forget(cx: &Cx, event: &Event) -> Result<(), StorageError> {
    let items = cx.items().await?;
    for digits in DIGITS {
        let suffix = digest(&event.id, digits);
        let key = keys::event(&event.email, event.occurred_at, event.kind.as_str(), &suffix);
        let this = Expect::That(Condition::eq("eventId", event.id.as_str()));
        match items.delete(Delete::new(&tables::EVENTS, key).expect(this)).await {
            Ok(_) | Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What sequences hear of it: that a person answered, or opened or clicked a mail of theirs. An absence note is no answer,
/// and what a machine did nobody did.
fn heard(event: &Event, message: Option<&Message>) -> Option<Heard> {
    let of_sequence = message.filter(|message| matches!(message.source, Source::Transactional(_)));
    let of_sequence = of_sequence.is_some_and(|message| message.sequence_id.is_some());
    let (name, subject) = match &event.kind {
        EventKind::Reply { subject, automatic: false, unproven: false, .. } => {
            (heard::REPLIED, subject.as_deref())
        }
        EventKind::Open if of_sequence && event.is_human() => (heard::OPENED, None),
        EventKind::Click if of_sequence && event.is_human() => (heard::CLICKED, None),
        _ => return None,
    };
    let data = json!({
        "sequenceId": message.and_then(|message| message.sequence_id.as_deref()),
        "templateKey": message.and_then(|message| message.template_key.as_deref()),
        "subject": subject,
        "url": event.url.as_deref(),
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    data.retain(|_, value| !value.is_null());
    let (email, at) = (event.email.clone(), event.occurred_at);
    Some(Heard { id: event.id.clone(), name, email, at, data })
}

/// How often a message was opened and clicked.
pub(super) async fn of_message(cx: &Cx, source: Source) -> Result<Seen, StorageError> {
    let item = cx.items().await?.get(&tables::EVENTS, &keys::message(source)).await?;
    Ok(Seen::of(item.as_ref()))
}

/// The campaign whose numbers have parts, if the message is of one.
pub(super) fn campaign(message: &Message) -> Option<&str> {
    match message.source {
        Source::Recipient(_) => message.sequence_id.as_deref(),
        Source::Transactional(_) => None,
    }
}

/// Which link of which campaign was clicked.
fn clicked<'a>(event: &'a Event, message: Option<&'a Message>) -> Option<(&'a str, &'a str)> {
    let url = event.url.as_deref().filter(|_| event.kind == EventKind::Click && !event.is_echo)?;
    Some((campaign(message?)?, url))
}

/// An event and what was read for it.
struct Draft<'a> {
    event: &'a Event,
    message: Option<&'a Message>,
    known: Option<&'a Item>,
    /// What was clicked, if it is counted.
    link: Option<Link>,
    digits: usize,
    now: Timestamp,
}

impl Draft<'_> {
    /// The mark and the event first, and then the message: whoever reads why it was refused relies on that.
    fn transaction(&self) -> Txn {
        let event = self.event;
        let seen = self.message.map(|_| Seen::of(self.known));
        let names = counted(event, self.message, seen);
        let mut txn = Txn::new().put(&tables::EVENTS, self.mark(), Expect::Absent).put(
            &tables::EVENTS,
            self.item(),
            Expect::Absent,
        );
        if let Some(message) = self.message.filter(|_| !names.is_empty()) {
            txn = txn.update(self.of_message(message.source, &names));
        }
        let under = Under {
            id: &event.id,
            at: event.occurred_at,
            template_key: self.message.and_then(|message| message.template_key.as_deref()),
            sequence_id: self.message.and_then(|message| message.sequence_id.as_deref()),
        };
        let changes: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
        let txn = under.count(txn, &changes, self.now);
        self.count_in_parts(txn, &changes)
    }

    /// The same for the parts of the campaign.
    fn count_in_parts(&self, txn: Txn, changes: &[(&'static str, i64)]) -> Txn {
        let Some(message) = self.message else { return txn };
        let Some(campaign) = campaign(message) else { return txn };
        let event = self.event;
        let bounce = match &event.kind {
            EventKind::Bounce(bounce) => Some(bounce.kind_of_bounce()),
            _ => None,
        };
        let place = Place {
            campaign,
            at: event.occurred_at,
            domain: event.email.domain(),
            arm: message.arm,
            bounce: bounce.as_deref(),
        };
        let txn = place.count(txn, changes, self.now);
        let Some(link) = &self.link else { return txn };
        let clicks = Clicks::of(&link.label);
        let counted = clicks.counted(self.known, event.is_human());
        link.count(txn, campaign, &counted.changes, self.now)
    }

    fn mark(&self) -> Item {
        let key = keys::seen(&self.event.id);
        let mut item = tables::EVENTS.bare_item(&key);
        item.set("seenAt", people::time(self.now));
        if let Some(days) = self.event.keep_days {
            item.set("ttl", self.after(days.max(REMEMBERED_DAYS)));
        }
        item
    }

    fn item(&self) -> Item {
        let Event { id, kind, email, occurred_at, .. } = self.event;
        let suffix = digest(id, self.digits);
        let key = keys::event(email, *occurred_at, kind.as_str(), &suffix);
        let mut item = tables::EVENTS.bare_item(&key);
        item.set("eventType", kind.as_str());
        item.set("eventId", id.as_str());
        item.set("timestamp", people::time(*occurred_at));
        let mut text = |name: &str, text: Option<&str>| {
            // An index has no place for an empty key.
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                item.set(name, bounded(text, MAX_TEXT));
            }
        };
        let message = self.message;
        let sent_as = message.and_then(|message| message.provider_message_id.as_deref());
        text("templateKey", message.and_then(|message| message.template_key.as_deref()));
        text("sequenceId", message.and_then(|message| message.sequence_id.as_deref()));
        text("subject", message.and_then(|message| message.subject.as_deref()));
        text("messageRef", message.map(|message| message.source.reference()).as_deref());
        text("sesMessageId", self.event.provider_message_id.as_deref().or(sent_as));
        text("linkUrl", self.event.url.as_deref());
        text("userAgent", self.event.user_agent.as_deref());
        details(kind, &mut text);
        if let EventKind::Reply { body, automatic, unproven, .. } = kind {
            item.set("body", bounded(body, MAX_REPLY));
            if *automatic {
                item.set("autoReply", true);
            }
            if *unproven {
                item.set("unproven", true);
            }
        }
        if let Some(verdict) = &self.event.verdict {
            item.set("verdict", value(verdict));
        }
        // Under what it is counted besides its own time and address, for whoever revises it.
        if let Some(arm) = message.and_then(|message| message.arm) {
            item.set("arm", arm);
        }
        if let Some(link) = &self.link {
            item.set("link", link.label.as_str());
        }
        self.expire(&mut item);
        item
    }

    /// Counts for the message itself. It must be as it was read in what decides who was the first. It says nothing of a
    /// person and stays as long as the row of the ledger, or the next open would be a first one again.
    fn of_message(&self, source: Source, names: &[&'static str]) -> Update {
        let mut update = Update::new(&tables::EVENTS, keys::message(source)).remove("ttl");
        let mut expected = Vec::new();
        for &name in names {
            let unique = name.starts_with("unique");
            let deciding = ["openCount", "clickCount", "humanOpenCount", "humanClickCount"];
            if deciding.contains(&name) {
                expected.push(unchanged(self.known, name));
            }
            if !unique {
                update = update.add(name, 1);
            }
        }
        if let Some(link) = &self.link {
            let clicks = Clicks::of(&link.label);
            let counted = clicks.counted(self.known, self.event.is_human());
            for name in counted.names {
                update = update.add(name, 1);
            }
            expected.extend(counted.expected);
        }
        update = update.set("updatedAt", people::time(self.now));
        if expected.is_empty() {
            update
        } else {
            update.expect(Expect::That(Condition::All(expected)))
        }
    }

    fn expire(&self, item: &mut Item) {
        if let Some(days) = self.event.keep_days {
            item.set("ttl", self.after(days));
        }
    }

    fn after(&self, days: u32) -> i64 {
        self.now.as_second() + i64::from(days) * 86_400
    }
}

/// What only events of one kind have.
fn details(kind: &EventKind, text: &mut dyn FnMut(&str, Option<&str>)) {
    match kind {
        EventKind::Bounce(bounce) => {
            text("bounceType", Some(&bounce.kind));
            text("bounceSubType", Some(&bounce.subkind));
            text("bounceClass", Some(bounce.class().as_str()));
            text("status", bounce.status.as_deref());
            text("diagnostic", bounce.diagnostic.as_deref());
        }
        EventKind::Complaint { feedback } => text("feedbackType", feedback.as_deref()),
        EventKind::Reject { reason }
        | EventKind::Delay { reason }
        | EventKind::RenderingFailure { error: reason } => text("reason", reason.as_deref()),
        // What the person wrote above it, and not what we did.
        EventKind::Reply { subject, .. } => text("subject", subject.as_deref()),
        EventKind::Send
        | EventKind::Delivery
        | EventKind::Open
        | EventKind::Click
        | EventKind::Unsubscribe => {}
    }
}

/// Not more than so many bytes, and whole characters.
pub(super) fn bounded(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// JSON as an item keeps it. What has no place there is left out.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.to_string().into(),
        },
        Json::String(text) => bounded(text, MAX_TEXT).into(),
        Json::Array(values) => values.iter().map(value).collect::<Vec<_>>().into(),
        Json::Object(object) => {
            let fields = object.iter().map(|(name, json)| (name.clone(), value(json)));
            Value::M(fields.collect())
        }
    }
}
