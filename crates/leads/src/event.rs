//! An event of a timeline as it is stored: keys and attributes of seed 004's table `event`.
//!
//! Here: the record, its keys, and the guard that lets an event of a source in once. Not here: how one comes in
//! (`ingestion`), and reading many of them (`timeline`).

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tidings_jobs::contracts::Object;
use tidings_jobs::happened::{MACHINE, REVISION, SOURCE};
use tidings_kernel::{Condition, Item, Key, Path, Query, Value, hex, plain, tables};

/// The attribute of the sort key.
pub const SORT: &str = "occurred_at#id";
/// The sort attribute of the index by type.
pub const TYPE_SORT: &str = "event_type#occurred_at";
/// What the partitions of the guards begin with. No id of a timeline does.
const GUARD: &str = "IDEMPOTENCY#";

/// One event on a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Whose timeline it is stored in. After a merge that can be another one's than the person's own.
    pub lead_organization_id: String,
    /// The same for the same source and the same id there, however often it comes.
    pub id: String,
    pub event_type: String,
    pub occurred_at: Timestamp,
    pub received_at: Timestamp,
    pub source_type: String,
    pub source: String,
    pub external_event_id: String,
    pub object_id: Option<String>,
    pub object_id_ref: Option<String>,
    pub payload: Object,
    pub raw_payload: Option<String>,
}

/// The id of an event, in the form of a UUID: made of the source and its own id, so that a repeat is the same event.
pub fn id_of(source: &str, external_event_id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((source.len() as u64).to_be_bytes());
    hash.update(source);
    hash.update(external_event_id);
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8, "made by a rule of one's own", and the variant of the standard.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// A time as the keys have it: in milliseconds, so that it sorts as it reads.
pub fn time(at: Timestamp) -> String {
    tidings_people::keys::time(at)
}

/// The key of an event.
pub fn key(lead_organization_id: &str, occurred_at: Timestamp, id: &str) -> Key {
    Key::new(lead_organization_id, format!("{}#{id}", time(occurred_at)))
}

/// Whether an event of a source is there, and where. Asked and written in the transaction that stores the event: the index
/// may lag on DynamoDB.
pub fn guard(source: &str, external_event_id: &str) -> Key {
    Key::new(format!("{GUARD}{source}"), external_event_id)
}

/// All events of one timeline, the newest first.
pub fn newest_first(lead_organization_id: &str) -> Query {
    Query::new(&tables::EVENT, lead_organization_id).backward()
}

/// Which judgment a payload has of an event of ours. One that was never judged again has none.
pub(crate) fn revision(payload: &Object) -> i64 {
    payload.get(REVISION).and_then(serde_json::Value::as_i64).unwrap_or(0)
}

/// What an event must be if nobody has judged it otherwise since it was read. Others than ours are never judged.
pub(crate) fn as_judged(event: &StoredEvent) -> Condition {
    let is_there = Condition::exists("event_type");
    let path = Path::of("payload").key(REVISION);
    match revision(&event.payload) {
        _ if event.source != SOURCE => is_there,
        0 => is_there.and(Condition::not_exists(path)),
        judged => is_there.and(Condition::eq(path, judged)),
    }
}

impl StoredEvent {
    pub fn key(&self) -> Key {
        key(&self.lead_organization_id, self.occurred_at, &self.id)
    }

    /// Whether a machine did it in his name, as far as is known now. It stays on the timeline, and nothing follows from it.
    pub fn is_by_machine(&self) -> bool {
        self.source == SOURCE && self.payload.get(MACHINE) == Some(&true.into())
    }

    /// The payload must be one that `plain::to_value` takes; whoever lets an event in sees to that.
    pub fn to_item(&self) -> Item {
        let at = time(self.occurred_at);
        let fields = self
            .payload
            .iter()
            .map(|(name, json)| (name.clone(), plain::to_value(json).unwrap_or(Value::Null)));
        let mut item = tables::EVENT
            .bare_item(&self.key())
            .with(TYPE_SORT, format!("{}#{at}", self.event_type))
            .with("event_type", self.event_type.as_str())
            .with("source_type", self.source_type.as_str())
            .with("source", self.source.as_str())
            .with("external_event_id", self.external_event_id.as_str())
            .with("received_at", time(self.received_at))
            .with("payload", Value::M(fields.collect()));
        let optional = [
            ("object_id", &self.object_id),
            ("object_id_ref", &self.object_id_ref),
            ("raw_payload", &self.raw_payload),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                item.set(name, value.as_str());
            }
        }
        item
    }

    /// What this event's guard holds: where the event is.
    pub fn to_guard(&self) -> Item {
        let event = self.key();
        tables::EVENT
            .bare_item(&guard(&self.source, &self.external_event_id))
            .with("event_lead_organization_id", event.partition)
            .with("event_key", event.sort.unwrap_or_default())
    }

    /// `None` for what is no event.
    pub fn from_item(item: &Item) -> Option<Self> {
        let text = |name: &str| item.text(name).map(ToOwned::to_owned);
        let (at, id) = item.text(SORT)?.split_once('#')?;
        let payload = match item.get("payload").map(plain::from_value) {
            Some(serde_json::Value::Object(payload)) => payload,
            _ => Object::new(),
        };
        let occurred_at = at.parse().ok()?;
        Some(Self {
            lead_organization_id: text(tables::EVENT.partition)?,
            id: id.to_owned(),
            event_type: text("event_type")?,
            occurred_at,
            received_at: item
                .text("received_at")
                .and_then(|at| at.parse().ok())
                .unwrap_or(occurred_at),
            source_type: text("source_type").unwrap_or_default(),
            source: text("source").unwrap_or_default(),
            external_event_id: text("external_event_id").unwrap_or_default(),
            object_id: text("object_id"),
            object_id_ref: text("object_id_ref"),
            payload,
            raw_payload: text("raw_payload"),
        })
    }
}

/// Where a guard says that its event is.
pub fn guarded(item: &Item) -> Option<Key> {
    Some(Key::new(item.text("event_lead_organization_id")?, item.text("event_key")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_kernel::tables;

    use super::{StoredEvent, guard, guarded, id_of};

    fn event() -> StoredEvent {
        let serde_json::Value::Object(payload) = json!({"amount": 12.5, "$b": ["x"]}) else {
            unreachable!("it is an object")
        };
        StoredEvent {
            lead_organization_id: "7".into(),
            id: id_of("shop", "order-1"),
            event_type: "purchase_completed".into(),
            occurred_at: "2026-01-15T14:00:00Z".parse().unwrap(),
            received_at: "2026-01-15T14:00:03Z".parse().unwrap(),
            source_type: "api".into(),
            source: "shop".into(),
            external_event_id: "order-1".into(),
            object_id: Some("o1".into()),
            object_id_ref: None,
            payload,
            raw_payload: Some("{}".into()),
        }
    }

    #[test]
    fn the_item_is_the_seeds_and_reads_back() {
        let event = event();
        insta::assert_snapshot!(serde_json::to_string_pretty(&event.to_item()).unwrap());
        assert_eq!(StoredEvent::from_item(&event.to_item()), Some(event));
    }

    #[test]
    fn a_guard_leads_to_its_event_and_is_in_no_index() {
        let guarding = event().to_guard();
        assert_eq!(tables::EVENT.key_of(&guarding).unwrap(), guard("shop", "order-1"));
        assert_eq!(guarded(&guarding), Some(event().key()));
        for index in tables::EVENT.indexes {
            assert_eq!(index.key_of(&guarding), None, "{}", index.name);
        }
        assert_eq!(StoredEvent::from_item(&guarding), None);
    }

    #[test]
    fn ids_tell_sources_apart() {
        assert_ne!(id_of("a", "bc"), id_of("ab", "c"));
        assert_eq!(id_of("shop", "1"), id_of("shop", "1"));
        assert_eq!(id_of("shop", "1").len(), 36);
    }
}
