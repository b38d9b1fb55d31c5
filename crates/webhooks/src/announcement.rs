//! What a feature says when something happened, in the commit that makes it true.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, Object, WebhookFanout};
use tidings_kernel::{Outgoing, hex, queues};
use tidings_sql::{DatabaseError, Tx};

use crate::event_type::{EventType, EventTypes};
use crate::rows::{EndpointId, listening};

/// So large the data can be, as JSON. Of what is larger only short values are told, and `truncated` besides.
pub const MAX_DATA_BYTES: usize = 16 * 1024;

/// Of data that is too large, values up to this length are told.
const SHORT: usize = 512;
const FEW: usize = 20;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    /// Tells this event from every other of its type in the workspace: announced twice, it is told once. Any text does,
    /// only a hash of it leaves the house.
    pub event_id: String,
    pub event_type: EventType,
    pub occurred_at: Timestamp,
    /// Ids, mostly: whoever wants more asks for it. The address of the person, if it is told at all, is in `email`,
    /// where erasure finds it.
    pub data: Object,
}

/// Tells others of it if the transaction is committed and somebody wants to know.
pub fn announce(
    cx: &Cx,
    tx: &mut Tx<'_>,
    announcement: &Announcement,
) -> Result<(), DatabaseError> {
    announce_all(cx, tx, std::slice::from_ref(announcement))
}

/// The same for many, with one look for those who want to know.
pub fn announce_all(
    cx: &Cx,
    tx: &mut Tx<'_>,
    announcements: &[Announcement],
) -> Result<(), DatabaseError> {
    announce_each(cx, tx, announcements.iter().map(Cow::Borrowed))
}

/// The same for those that are made only if there is somebody who wants to know of anything at all.
pub fn announce_each<'a>(
    cx: &Cx,
    tx: &mut Tx<'_>,
    announcements: impl Iterator<Item = Cow<'a, Announcement>>,
) -> Result<(), DatabaseError> {
    let workspace = cx.workspace_id().get();
    let wanted = listening(tx, workspace)?;
    if wanted.is_empty() {
        return Ok(());
    }
    for announcement in announcements {
        if is_among(&wanted, announcement.event_type) {
            crate::rows::enqueue(tx, &announcement.to_message(workspace), cx.now())?;
        }
    }
    Ok(())
}

/// The message to enqueue in a transaction of items, if somebody wants to know.
pub async fn message(
    cx: &Cx,
    announcement: &Announcement,
) -> Result<Option<Outgoing>, DatabaseError> {
    let is_wanted = wanted(cx, announcement.event_type).await?;
    Ok(is_wanted.then(|| announcement.wanted_message(cx)))
}

/// Whether somebody wants to know of what is of this type: one look for whoever has much to tell.
pub async fn wanted(cx: &Cx, kind: EventType) -> Result<bool, DatabaseError> {
    let workspace = cx.workspace_id().get();
    let wanted = cx.database().glance(move |tx| listening(tx, workspace)).await?;
    Ok(is_among(&wanted, kind))
}

impl Announcement {
    /// The message to enqueue for those who are known to want it ([`wanted`]).
    pub fn wanted_message(&self, cx: &Cx) -> Outgoing {
        self.to_message(cx.workspace_id().get())
    }

    /// The id under which it is told: `evt_` and 32 hexadecimal digits.
    pub(crate) fn told_id(&self) -> String {
        let digest = Sha256::digest(format!("{}\0{}", self.event_type, self.event_id));
        format!("evt_{}", hex(&digest[..16]))
    }

    pub(crate) fn to_message(&self, workspace_id: i64) -> Outgoing {
        let fanout = WebhookFanout {
            workspace_id,
            event_id: self.told_id(),
            event_type: self.event_type.as_str().to_owned(),
            // What comes from outside may claim to have happened before the calendar of a contract begins.
            occurred_at: self.occurred_at.max(Timestamp::UNIX_EPOCH),
            data: thin(&self.data),
        };
        let body = fanout.to_body().expect("every field is bounded above");
        // The two characters that JSON leaves as they are and SQS does not carry.
        let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        Outgoing::new(&queues::WEBHOOK_FANOUT, body)
    }
}

/// Data that is too large must not fail what is announced, so it loses what is long.
fn thin(data: &Object) -> Object {
    let size = serde_json::to_string(data).map_or(usize::MAX, |text| text.len());
    if size <= MAX_DATA_BYTES {
        return data.clone();
    }
    let short = |(name, value): &(&String, &Value)| {
        let length = match value {
            Value::String(text) => text.len(),
            Value::Array(_) | Value::Object(_) => usize::MAX,
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        };
        length <= SHORT && name.len() <= SHORT && name.as_str() != "truncated"
    };
    let kept = data.iter().filter(short).take(FEW);
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    kept.chain([("truncated".to_owned(), Value::Bool(true))]).collect()
}

fn is_among(wanted: &[(EndpointId, EventTypes)], kind: EventType) -> bool {
    wanted.iter().any(|(_, types)| types.has(kind.as_str()))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::any;
    use serde_json::{Value, json};

    use super::{Announcement, MAX_DATA_BYTES};
    use crate::event_type::EventType;

    fn about(id: &str, data: Value) -> Announcement {
        let Value::Object(data) = data else { panic!("{data} is no object") };
        Announcement {
            event_id: id.to_owned(),
            event_type: EventType::EmailSent,
            occurred_at: Timestamp::UNIX_EPOCH,
            data,
        }
    }

    #[test]
    fn an_event_has_one_id_and_the_id_tells_nothing() {
        let ada = about("sent/ada@example.org", json!({}));
        assert_eq!(ada.told_id(), ada.clone().told_id());
        assert_eq!(ada.told_id().len(), 36);
        assert!(!ada.to_message(1).body.contains("ada@"));
        assert_ne!(ada.told_id(), about("sent/eve@example.org", json!({})).told_id());
        let opened = Announcement { event_type: EventType::EmailOpened, ..ada.clone() };
        assert_ne!(ada.told_id(), opened.told_id());
    }

    #[test]
    fn data_that_is_too_large_keeps_its_ids() {
        let long = "x".repeat(MAX_DATA_BYTES);
        let message = about("1", json!({ "contact_id": 7, "text": long, "list": [long] }));
        let body: Value = serde_json::from_str(&message.to_message(1).body).unwrap();
        assert_eq!(body["data"], json!({ "contact_id": 7, "truncated": true }));
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_announced_can_be_carried(
            id in any::<String>(),
            text in any::<String>(),
            name in any::<String>(),
            millis in any::<i64>(),
        ) {
            let data = json!({ name: [text.clone(), "\u{ffff}\u{0}"], "text": text.repeat(500) });
            let mut one = about(&id, data);
            one.occurred_at = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MIN);
            one.to_message(1).validate().unwrap();
        }
    }
}
