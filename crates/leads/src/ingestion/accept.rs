//! Events from outside: checked whole, and in the queue before anybody is told that they were taken.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, LeadIngestion, Object};
use tidings_jobs::orders::is_order;
use tidings_kernel::{Outgoing, hex, queues};
use tidings_sql::{DatabaseError, EnqueueError, Tx};

use super::OWN;
use super::check::{Fault, check};
use crate::event;
use crate::identity::Identity;

/// So many events are taken at once.
pub const MAX_EVENTS: usize = 500;

/// What begins so says who came into a segment or left one, and nobody else can know.
const SEGMENT: &str = "segment.";

/// An event as somebody outside tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub event_type: String,
    pub identities: Vec<Identity>,
    /// `api` without a word.
    pub source: Option<String>,
    pub source_type: Option<String>,
    /// Without one it is another event each time that it is told.
    pub external_event_id: Option<String>,
    /// Now, if it is not said.
    pub occurred_at: Option<Timestamp>,
    pub object_id: Option<String>,
    pub object_id_ref: Option<String>,
    pub payload: Option<Object>,
    pub raw_payload: Option<String>,
}

impl NewEvent {
    /// As the queue carries it.
    pub fn told(self, cx: &Cx) -> LeadIngestion {
        let named = |text: Option<String>| text.unwrap_or_else(|| "api".to_owned());
        LeadIngestion {
            workspace: cx.workspace().clone(),
            source_type: named(self.source_type),
            source: named(self.source),
            event_type: self.event_type,
            external_event_id: self.external_event_id.unwrap_or_else(made_up_id),
            occurred_at: self.occurred_at.unwrap_or(cx.now()),
            received_at: cx.now(),
            identities: self.identities.iter().map(Into::into).collect(),
            object_id: self.object_id,
            object_id_ref: self.object_id_ref,
            payload: self.payload,
            raw_payload: self.raw_payload,
            metadata: None,
        }
    }
}

/// An event that will be on a timeline soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The same again if it is sent again.
    pub event_id: String,
    pub external_event_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// Each with the place of its event. Nothing was taken.
    #[error("events are not as they must be")]
    Invalid(Vec<(usize, Fault)>),
    #[error("send 1 to {MAX_EVENTS} events at once")]
    Count,
    #[error("the events could not be saved")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for AcceptError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// An id for an event of a source that has none for it. Sent again it is another event.
fn made_up_id() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system has randomness");
    hex(&random)
}

/// All of them or none: afterwards they are in the queue, and survive whatever happens.
pub async fn accept(cx: &Cx, events: Vec<LeadIngestion>) -> Result<Vec<Accepted>, AcceptError> {
    if events.is_empty() || events.len() > MAX_EVENTS {
        return Err(AcceptError::Count);
    }
    let (mut faults, mut messages, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
    for (place, event) in events.iter().enumerate() {
        let found = check(event, cx.now()).err().unwrap_or_default();
        faults.extend(found.into_iter().map(|fault| (place, fault)));
        if event.source == OWN || event.source_type == OWN {
            let message = format!("{OWN} is the name of what happens here; use another");
            faults.push((place, Fault { field: "source".to_owned(), message }));
        }
        if is_order(&event.event_type) || event.event_type.starts_with(SEGMENT) {
            let message =
                format!("{} is told by Tidings itself; use another name", event.event_type);
            faults.push((place, Fault { field: "event_type".to_owned(), message }));
        }
        match message(event) {
            Ok(message) => messages.push(message),
            Err(fault) => faults.push((place, fault)),
        }
        accepted.push(Accepted {
            event_id: event::id_of(&event.source, &event.external_event_id),
            external_event_id: event.external_event_id.clone(),
        });
    }
    if !faults.is_empty() {
        return Err(AcceptError::Invalid(faults));
    }
    let now = cx.now();
    let enqueue = move |tx: &mut Tx<'_>| {
        for message in &messages {
            tx.enqueue(message, now).map_err(|error| match error {
                EnqueueError::Database(error) => error,
                EnqueueError::Invalid(error) => {
                    DatabaseError::Statement(std::sync::Arc::new(error))
                }
            })?;
        }
        Ok::<_, DatabaseError>(())
    };
    cx.database().write_committed(enqueue).await?;
    Ok(accepted)
}

fn message(event: &LeadIngestion) -> Result<Outgoing, Fault> {
    let wrong = |message: String| Fault { field: String::new(), message };
    let body = event.to_body().map_err(|error| wrong(error.to_string()))?;
    // The two characters that JSON leaves as they are and SQS does not carry.
    let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    let message = Outgoing::new(&queues::LEAD_INGESTION, body);
    message.validate().map_err(|error| wrong(error.to_string()))?;
    Ok(message)
}
