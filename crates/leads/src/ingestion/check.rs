//! What an event has to be before it is let in: everything that is wrong with it is told at once.

use jiff::{Timestamp, ToSpan as _};
use tidings_jobs::contracts::{LeadIngestion, Object};
use tidings_kernel::plain;

use crate::identity::Identity;

/// The largest payload, and what the source sent, in bytes each.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// So many identities of one event are looked at.
pub const MAX_IDENTITIES: usize = 20;
/// The longest word for a type or a source, in characters.
const MAX_WORD: usize = 200;
/// The longest id of something, in characters and in bytes: it is part of a key.
const MAX_ID: usize = 512;
const MAX_ID_BYTES: usize = 1024;
/// Clocks differ; what is to happen in days did not happen.
const AHEAD_HOURS: i64 = 24;

/// Something that is wrong with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, such as `identities[1].value`.
    pub field: String,
    /// What to do about it.
    pub message: String,
}

impl Fault {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The identities of an event in which nothing is wrong.
pub(super) fn check(event: &LeadIngestion, now: Timestamp) -> Result<Vec<Identity>, Vec<Fault>> {
    let mut faults = Vec::new();
    for (field, text) in [
        ("event_type", &event.event_type),
        ("source", &event.source),
        ("source_type", &event.source_type),
    ] {
        if !is_word(text) {
            let message = format!(
                "use 1 to {MAX_WORD} characters without #, control characters and space around"
            );
            faults.push(Fault::new(field, message));
        }
    }
    let ids = [
        ("external_event_id", Some(&event.external_event_id)),
        ("object_id", event.object_id.as_ref()),
        ("object_id_ref", event.object_id_ref.as_ref()),
    ];
    for (field, id) in ids {
        if let Some(id) = id
            && let Err(fault) = check_id(field, id)
        {
            faults.push(fault);
        }
    }
    check_times(event, now, &mut faults);
    check_payload(event.payload.as_ref(), &mut faults);
    if event.raw_payload.as_ref().is_some_and(|raw| raw.len() > MAX_PAYLOAD || raw.contains('\0')) {
        let message = format!("use at most {MAX_PAYLOAD} bytes without U+0000");
        faults.push(Fault::new("raw_payload", message));
    }
    let identities = check_identities(event, &mut faults);
    if faults.is_empty() { Ok(identities) } else { Err(faults) }
}

/// Whether a source can have told an event by this id: there is no key for another.
pub(crate) fn can_be_called(source: &str, external_event_id: &str) -> bool {
    is_word(source) && is_id(external_event_id)
}

fn is_word(text: &str) -> bool {
    let fits = (1..=MAX_WORD).contains(&text.chars().count());
    fits && text.trim() == text && !text.contains('#') && !text.chars().any(char::is_control)
}

fn is_id(id: &str) -> bool {
    let fits = (1..=MAX_ID).contains(&id.chars().count()) && id.len() <= MAX_ID_BYTES;
    fits && !id.chars().any(char::is_control)
}

fn check_id(field: &str, id: &str) -> Result<(), Fault> {
    if is_id(id) {
        return Ok(());
    }
    Err(Fault::new(field, format!("use 1 to {MAX_ID} characters without control characters")))
}

fn check_times(event: &LeadIngestion, now: Timestamp, faults: &mut Vec<Fault>) {
    let latest = now.saturating_add(AHEAD_HOURS.hours()).unwrap_or(Timestamp::MAX);
    if event.occurred_at < Timestamp::UNIX_EPOCH || event.occurred_at > latest {
        let message = "use a time between 1970 and now: it happened already";
        faults.push(Fault::new("occurred_at", message));
    }
}

fn check_payload(payload: Option<&Object>, faults: &mut Vec<Fault>) {
    let Some(payload) = payload else { return };
    let bytes = serde_json::to_vec(payload).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_PAYLOAD {
        faults.push(Fault::new("payload", format!("use at most {MAX_PAYLOAD} bytes of JSON")));
    }
    for (name, value) in payload {
        let kept = if name.is_empty() || name.contains('\0') {
            Err(plain::Unkept::EmptyName)
        } else {
            plain::to_value(value).map(drop)
        };
        if let Err(unkept) = kept {
            let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
            faults.push(Fault::new(format!("payload.{name}"), unkept.to_string()));
        }
    }
}

fn check_identities(event: &LeadIngestion, faults: &mut Vec<Fault>) -> Vec<Identity> {
    if event.identities.is_empty() || event.identities.len() > MAX_IDENTITIES {
        let message = format!("name the person by 1 to {MAX_IDENTITIES} identities");
        faults.push(Fault::new("identities", message));
        return Vec::new();
    }
    let mut identities = Vec::new();
    for (place, told) in event.identities.iter().enumerate() {
        match Identity::try_from(told) {
            Ok(identity) => identities.push(identity),
            Err(error) => {
                let part = match error {
                    crate::identity::IdentityError::Channel => "channel",
                    _ => "value",
                };
                faults.push(Fault::new(format!("identities[{place}].{part}"), error.to_string()));
            }
        }
    }
    identities
}
