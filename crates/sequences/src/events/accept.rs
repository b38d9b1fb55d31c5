//! Taking events in: each is checked, and written down once with the message that makes a worker look at it.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, LeadIngestion, Origin, SequenceEvent};
use tidings_jobs::happened::{by_anonymous_id, by_email, by_user_id};
use tidings_jobs::orders::is_order;
use tidings_kernel::{
    Expect, Item, ItemStore, Key, Outgoing, StoreError, Txn, hex, plain, queues, tables,
};
use tidings_people::contacts::MAX_USER_ID;
use tidings_people::{heard, race};

use super::Event;
use crate::definition::check_event_name;

/// The most events of one call.
pub const MAX_EVENTS: usize = 100;
/// The most bytes of an event's data, as JSON.
pub const MAX_DATA_BYTES: usize = 32 * 1024;
/// How deep lists and objects in an event's data are nested. A mail can say no more than that.
pub const MAX_DEPTH: usize = 8;
/// The longest id of an event, in characters.
pub const MAX_MESSAGE_ID: usize = 255;

/// So many events are written in one transaction: each is three writes, and all of them fit with the most data.
const AT_ONCE: usize = 30;
/// So long an id is remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// What begins so, only the system itself tells.
const OURS: [&str; 4] = [heard::UNSUBSCRIBED, heard::SUPPRESSED, "email.", "segment."];

/// An event that will be worked on, or was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// What logs call it. It follows from the message id.
    pub id: String,
    /// The caller's, or one that was made.
    pub message_id: String,
    /// It was told before, and nothing was done now.
    pub replayed: bool,
}

/// One thing that is wrong with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Which of them, from 0.
    pub event: usize,
    /// Which of its fields. Empty for all of it.
    pub field: String,
    /// What would be right.
    pub message: String,
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the events are wrong")]
    Invalid(Vec<Wrong>),
    #[error("use 1 to {MAX_EVENTS} events")]
    Count,
    #[error("the events could not be written down")]
    Store(#[from] StorageError),
}

/// Afterwards all of them will be worked on, each with an answer in its place; or none was right, or the store failed, and
/// those that have an id can be told again.
pub async fn accept(cx: &Cx, events: Vec<Event>) -> Result<Vec<Accepted>, AcceptError> {
    if !(1..=MAX_EVENTS).contains(&events.len()) {
        return Err(AcceptError::Count);
    }
    let mut wrong = Vec::new();
    for (place, event) in events.iter().enumerate() {
        check(place, event, &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(AcceptError::Invalid(wrong));
    }
    let mut new: Vec<New> = events.into_iter().map(|event| New::of(cx, event)).collect();
    let mut told = HashSet::new();
    for one in &mut new {
        one.accepted.replayed = !told.insert(one.hash.clone());
    }
    let items = cx.items().await?;
    for some in new.chunks_mut(AT_ONCE) {
        write(cx, items.as_ref(), some).await.map_err(StorageError::from)?;
    }
    Ok(new.into_iter().map(|one| one.accepted).collect())
}

/// An event on its way in.
struct New {
    accepted: Accepted,
    /// Of its id.
    hash: String,
    /// Whether the caller can tell it again under the same id.
    is_named: bool,
    body: String,
    /// For the timeline of whoever it is about.
    timeline: Option<Outgoing>,
}

impl New {
    fn of(cx: &Cx, event: Event) -> Self {
        let is_named = event.message_id.is_some();
        let message_id = event.message_id.clone().unwrap_or_else(random);
        let hash = hex(&Sha256::digest(&message_id));
        let id = hash[..32].to_owned();
        let timeline = on_timeline(cx, &event, &hash);
        let mut data = event.data;
        if let Some(at) = event.occurred_at {
            data.entry("timestamp").or_insert_with(|| Value::String(at.to_string()));
        }
        let event = SequenceEvent {
            workspace: cx.workspace().clone(),
            event_id: id.clone(),
            name: event.name,
            origin: Origin::Api,
            email: event.email.map(|email| email.as_str().to_owned()),
            user_id: event.user_id,
            // Executions are compared with it, and they live by our clock.
            occurred_at: cx.now(),
            data: Some(data),
        };
        let body = event.to_body().expect("every field was checked");
        // The two characters that JSON leaves as they are and SQS does not carry.
        let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        let accepted = Accepted { id, message_id, replayed: false };
        Self { accepted, hash, is_named, body, timeline }
    }

    fn key(&self) -> Key {
        Key::new(format!("EVENT#{}", self.hash), "SEEN")
    }

    fn mark(&self, now: Timestamp) -> Item {
        let until = now.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX);
        tables::MAIN.bare_item(&self.key()).with("ttl", until.as_second())
    }
}

/// What people do is on their timelines, whether a sequence listens or not. `None` if it is about nobody.
fn on_timeline(cx: &Cx, event: &Event, hash: &str) -> Option<Outgoing> {
    let email = event.email.as_ref().map(|email| by_email(email.as_str()));
    let user_id = event.user_id.as_deref().map(by_user_id);
    let anonymous_id = event.anonymous_id.as_deref().map(by_anonymous_id);
    let identities: Vec<_> = email.into_iter().chain(user_id).chain(anonymous_id).collect();
    if identities.is_empty() {
        return None;
    }
    let is_kept =
        |(name, value): &(&String, &Value)| !name.is_empty() && plain::to_value(value).is_ok();
    let data = event.data.iter().filter(is_kept).map(|(name, value)| (name.clone(), value.clone()));
    let told = LeadIngestion {
        workspace: cx.workspace().clone(),
        source_type: "api".to_owned(),
        source: "events".to_owned(),
        event_type: event.name.clone(),
        external_event_id: hash.to_owned(),
        occurred_at: event
            .occurred_at
            .unwrap_or(cx.now())
            .clamp(Timestamp::UNIX_EPOCH, cx.now().max(Timestamp::UNIX_EPOCH)),
        received_at: cx.now(),
        identities,
        object_id: None,
        object_id_ref: None,
        payload: Some(data.collect()),
        raw_payload: None,
        metadata: None,
    };
    let body = told.to_body().ok()?.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    Some(Outgoing::new(&queues::LEAD_INGESTION, body))
}

fn random() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system has randomness");
    hex(&random)
}

/// Writes down what was not told before.
async fn write(cx: &Cx, items: &dyn ItemStore, events: &mut [New]) -> Result<(), StoreError> {
    for _ in 0..race::ATTEMPTS {
        let (mut txn, mut is_empty) = (Txn::new(), true);
        for event in events.iter().filter(|event| !event.accepted.replayed) {
            if event.is_named {
                txn = txn.put(&tables::MAIN, event.mark(cx.now()), Expect::Absent);
            }
            txn = txn.enqueue(Outgoing::new(&queues::SEQUENCE_EVENTS, event.body.clone()));
            txn = event.timeline.iter().cloned().fold(txn, Txn::enqueue);
            is_empty = false;
        }
        if is_empty {
            return Ok(());
        }
        match items.transact(txn).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => mark_replayed(items, events).await?,
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Conflict)
}

async fn mark_replayed(items: &dyn ItemStore, events: &mut [New]) -> Result<(), StoreError> {
    let open = || |event: &&mut New| event.is_named && !event.accepted.replayed;
    let keys: Vec<Key> = events.iter_mut().filter(open()).map(|event| event.key()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let found = items.batch_get(&tables::MAIN, &keys).await?;
    for (event, seen) in events.iter_mut().filter(open()).zip(found) {
        event.accepted.replayed = seen.is_some();
    }
    Ok(())
}

/// Whether a caller can tell an event of this name.
pub fn check_told_name(name: &str) -> Result<(), String> {
    check_event_name(name).map_err(|error| error.to_string())?;
    if is_order(name) || OURS.iter().any(|ours| name.starts_with(ours)) {
        return Err(format!("{name} is told by Tidings itself; use another name"));
    }
    Ok(())
}

/// All that is wrong with an event.
pub(super) fn check(place: usize, event: &Event, wrong: &mut Vec<Wrong>) {
    let mut tell = |field: &str, message: String| {
        wrong.push(Wrong { event: place, field: field.to_owned(), message });
    };
    if let Err(message) = check_told_name(&event.name) {
        tell("name", message);
    }
    for (field, text, most) in [
        ("message_id", &event.message_id, MAX_MESSAGE_ID),
        ("user_id", &event.user_id, MAX_USER_ID),
        ("anonymous_id", &event.anonymous_id, MAX_USER_ID),
    ] {
        let fits = |text: &String| {
            !text.trim().is_empty()
                && text.chars().count() <= most
                && !text.chars().any(char::is_control)
        };
        if !text.as_ref().is_none_or(fits) {
            tell(field, format!("use 1 to {most} characters on one line"));
        }
    }
    if let Err(message) = check_data(&event.data) {
        tell("data", message);
    }
}

/// Whether an event can say this. Else it tells what would be right.
pub fn check_data(data: &Map<String, Value>) -> Result<(), String> {
    data.values().try_for_each(|value| check_value(value, 1))?;
    if serde_json::to_vec(data).map_or(usize::MAX, |data| data.len()) > MAX_DATA_BYTES {
        return Err(format!("use at most {} KB", MAX_DATA_BYTES / 1024));
    }
    if data.keys().any(|name| name.contains('\0')) {
        return Err(NUL.to_owned());
    }
    Ok(())
}

const NUL: &str = "a text cannot have the character U+0000";

/// `depth` is that of the object which it is in.
fn check_value(value: &Value, depth: usize) -> Result<(), String> {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => {
            Err(format!("lists and objects can be nested at most {MAX_DEPTH} deep"))
        }
        Value::Array(values) => values.iter().try_for_each(|value| check_value(value, depth + 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            if name.contains('\0') {
                return Err(NUL.to_owned());
            }
            check_value(value, depth + 1)
        }),
        Value::String(text) if text.contains('\0') => Err(NUL.to_owned()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}
