//! Engagement events: what became of a message and what a person did with it, each recorded exactly once.
//!
//! Here: what an event is, and [`record`], the one way in. The item, what makes it unique and the counters are one
//! transaction; the row in the ledger and the suppression follow, and are made so that whoever comes again with the
//! same event finishes what was begun. Not here: reading them off the wire (`ses`, `tracking`), asking for them (`queries`).

#[cfg(test)]
mod convergence;
mod counters;
#[cfg(test)]
mod erased_copies;
mod happened;
mod links;
mod news;
mod revise;
mod rules;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::marks::{self, Facts, Mark};
use tidings_delivery::ledger::{Message, Source};
use tidings_kernel::EmailAddress;
use tidings_people::{contacts, suppression};
use tidings_sql::DatabaseError;

use counters::Seen;
pub(crate) use revise::revise;
pub use rules::{Bounce, Class};
pub use store::keys;
pub use tidings_delivery::counts::{COUNTERS, Counts};

/// How long an event waits that others were in the way of.
const A_MOMENT: Duration = Duration::from_secs(2);
/// How long an event waits while a store cannot be used. It may be for as long as that takes.
pub(crate) const STORE_PAUSE: Duration = Duration::from_secs(15);

/// Something that happened to a message, or because of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique in the workspace: what has the same id is the same event, come again.
    pub id: String,
    pub kind: EventKind,
    /// When it happened, as whoever saw it says.
    pub occurred_at: Timestamp,
    /// The message it is about, if that is known to be ours.
    pub source: Option<Source>,
    /// Whom it is about. Not always whom the message was written to: a copy can bounce too.
    pub email: EmailAddress,
    pub provider_message_id: Option<String>,
    pub url: Option<String>,
    pub user_agent: Option<String>,
    /// Who opened or clicked: an object with `human: true` or `human: false`, and the reasons. Without one nobody knows.
    pub verdict: Option<Json>,
    /// After so many days it is forgotten, but stays counted.
    pub keep_days: Option<u32>,
    /// Our own links tell of the same: it is kept, and neither counted nor told again.
    pub is_echo: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The provider has it.
    Send,
    /// The server of the recipient has it.
    Delivery,
    Open,
    Click,
    Bounce(Bounce),
    Complaint {
        /// `abuse`, `not-spam` and the like, if it was said.
        feedback: Option<String>,
    },
    /// The provider will not send it.
    Reject {
        reason: Option<String>,
    },
    Reply {
        subject: Option<String>,
        body: String,
        /// An absence note and its like: kept, and not taken for an answer.
        automatic: bool,
        /// Nothing proves that the person wrote it: kept, and neither counted nor told.
        unproven: bool,
    },
    Unsubscribe,
    /// It did not arrive yet.
    Delay {
        reason: Option<String>,
    },
    RenderingFailure {
        error: Option<String>,
    },
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It is new, and counted.
    Now,
    /// It was recorded before. Whatever was left undone then is done now.
    Before,
    /// Its person is erased: nothing is kept.
    Erased,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("event {0} is about a message that this workspace does not have")]
    NoMessage(String),
    #[error("an event needs an id of 1 to 1024 bytes")]
    Id,
    #[error("other events of the same message kept coming first")]
    Busy,
    #[error("the event could not be recorded")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for RecordError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

impl From<tidings_kernel::StoreError> for RecordError {
    fn from(error: tidings_kernel::StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl RecordError {
    /// How long to wait if only others were in the way, or the store cannot be used: that is no failure of the event, and
    /// does not count as a try.
    pub fn wait_for(&self) -> Option<Duration> {
        match self {
            Self::Busy => Some(A_MOMENT),
            Self::Store(error) => error.is_passing().then_some(STORE_PAUSE),
            Self::NoMessage(_) | Self::Id => None,
        }
    }

    /// Whether the same event can come again and be recorded then.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoMessage(_) | Self::Busy => true,
            Self::Id => false,
            Self::Store(error) => error.is_passing(),
        }
    }
}

impl Event {
    /// An event of nothing but what it must have.
    pub fn new(id: impl Into<String>, kind: EventKind, email: EmailAddress, at: Timestamp) -> Self {
        Self {
            id: id.into(),
            kind,
            occurred_at: tidings_access::in_millis(at),
            source: None,
            email,
            provider_message_id: None,
            url: None,
            user_agent: None,
            verdict: None,
            keep_days: None,
            is_echo: false,
        }
    }

    /// Whether it happened to whom the message was written to, and not to somebody who got a copy.
    pub(crate) fn is_of_addressee(&self, message: &Message) -> bool {
        let addressee = message.email.as_deref().map(str::parse::<EmailAddress>);
        addressee.and_then(Result::ok).is_some_and(|addressee| addressee == self.email)
    }

    /// Whether a person did it, as far as is known.
    pub(crate) fn is_human(&self) -> bool {
        let human = self.verdict.as_ref().and_then(|verdict| verdict.get("human"));
        human.and_then(Json::as_bool).unwrap_or(false)
    }
}

impl EventKind {
    /// As it is in keys and answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Delivery => "delivery",
            Self::Open => "open",
            Self::Click => "click",
            Self::Bounce(_) => "bounce",
            Self::Complaint { .. } => "complaint",
            Self::Reject { .. } => "reject",
            Self::Reply { .. } => "reply",
            Self::Unsubscribe => "unsubscribe",
            Self::Delay { .. } => "delay",
            Self::RenderingFailure { .. } => "rendering_failure",
        }
    }

    /// Every word of [`EventKind::as_str`].
    pub const NAMES: [&'static str; 11] = [
        "send",
        "delivery",
        "open",
        "click",
        "bounce",
        "complaint",
        "reject",
        "reply",
        "unsubscribe",
        "delay",
        "rendering_failure",
    ];

    /// What it says of the row in the ledger.
    fn mark(&self) -> Option<Mark> {
        match self {
            Self::Send => Some(Mark::Sent),
            Self::Delivery => Some(Mark::Delivered),
            Self::Open => Some(Mark::Opened),
            Self::Click => Some(Mark::Clicked),
            Self::Bounce(bounce) if bounce.is_final() => Some(Mark::Bounced),
            // The next try may arrive: nothing is settled.
            Self::Bounce(_) => None,
            Self::Complaint { .. } if !rules::is_complaint(self) => None,
            Self::Complaint { .. } => Some(Mark::Complained),
            Self::Reject { .. } | Self::RenderingFailure { .. } => Some(Mark::Failed),
            Self::Unsubscribe => Some(Mark::Unsubscribed),
            Self::Reply { .. } | Self::Delay { .. } => None,
        }
    }
}

/// Records an event: afterwards it is stored and counted once, the row of its message knows of it, and an address that
/// must not be written to any more is suppressed. The same event again changes nothing.
pub async fn record(cx: &Cx, event: Event) -> Result<Recorded, RecordError> {
    check_id(&event)?;
    let message = match event.source {
        Some(source) => match load(cx, source).await? {
            None => return Err(RecordError::NoMessage(event.id)),
            message => message,
        },
        None => None,
    };
    record_of(cx, event, message.as_ref()).await
}

fn check_id(event: &Event) -> Result<(), RecordError> {
    if (1..=1024).contains(&event.id.len()) { Ok(()) } else { Err(RecordError::Id) }
}

/// The same for whoever has just read the message that it is about.
pub(crate) async fn record_of(
    cx: &Cx,
    mut event: Event,
    message: Option<&Message>,
) -> Result<Recorded, RecordError> {
    check_id(&event)?;
    event.occurred_at = tidings_access::in_millis(event.occurred_at);
    if is_erased(cx, &event, message).await? {
        return forget(cx, &event).await;
    }
    // What must not wait comes first: whoever counts the same things may keep us from counting.
    let is_grave = grave(&event).is_some();
    if is_grave && message.is_some() {
        suppress(cx, &event).await?;
    }
    let recorded = store::append(cx, &event, message).await?;
    // Also of what was recorded before: whoever did that may have died here.
    if let Some(message) = message {
        mark(cx, &event, message).await?;
        if !is_grave {
            suppress(cx, &event).await?;
        }
    }
    // An erasure clears the ledger before the items. So it finds this event, or this look finds the erasure.
    let now = match message {
        Some(message) => load(cx, message.source).await?,
        None => None,
    };
    let is_gone = message.is_some() && now.is_none();
    if is_gone || is_erased(cx, &event, now.as_ref()).await? {
        return forget(cx, &event).await;
    }
    Ok(recorded)
}

/// Whether whom it is about is erased. The row of the ledger says so of its addressee; one who got a copy, or answered
/// somebody else's mail, it does not name any more.
async fn is_erased(
    cx: &Cx,
    event: &Event,
    message: Option<&Message>,
) -> Result<bool, StorageError> {
    if let Some(message) = message {
        if message.email.is_none() || event.is_of_addressee(message) {
            return Ok(message.email.is_none());
        }
        let (source, email) = (message.source, event.email.clone());
        let named = cx.database().glance(move |tx| Message::names(tx, source, &email));
        if named.await? {
            return Ok(false);
        }
    }
    contacts::was_erased(cx, &event.email).await
}

/// Of an erased person is kept that he must not be written to, under a hash. What is in the open goes, also if who wrote
/// it died before he looked: the event comes again.
async fn forget(cx: &Cx, event: &Event) -> Result<Recorded, RecordError> {
    store::forget(cx, event).await?;
    contacts::take_back_erased(cx, &event.email).await?;
    if let Some((kind, _)) = grave(event) {
        suppression::remember_erased(cx, &event.email, kind, event.occurred_at).await?;
    }
    Ok(Recorded::Erased)
}

/// How often a message was opened, and how often clicked, by anybody or anything.
pub(crate) async fn times_seen(cx: &Cx, source: Source) -> Result<(i64, i64), StorageError> {
    let seen = store::of_message(cx, source).await?;
    Ok((seen.opens, seen.clicks))
}

/// What an event says against ever writing to its address again, and in which words.
fn grave(event: &Event) -> Option<(suppression::Kind, String)> {
    match &event.kind {
        EventKind::Bounce(bounce) if bounce.class() == Class::Hard => {
            Some((suppression::Kind::Permanent, bounce.subkind.clone()))
        }
        EventKind::Complaint { feedback } if rules::is_complaint(&event.kind) => {
            Some((suppression::Kind::Complaint, feedback.clone().unwrap_or_default()))
        }
        _ => None,
    }
}

/// Keeps us from writing to an address that cannot be reached or does not want to be. Only the address that it happened
/// to, and only because of a message of ours.
async fn suppress(cx: &Cx, event: &Event) -> Result<(), StorageError> {
    let at = event.occurred_at;
    let Some((kind, reason)) = grave(event) else {
        return match &event.kind {
            EventKind::Delivery => suppression::delivered(cx, &event.email, at).await,
            EventKind::Bounce(bounce) if bounce.class() == Class::Soft => {
                suppression::transient_bounce(cx, &event.email, &event.id, at).await
            }
            EventKind::Bounce(bounce) if bounce.class() == Class::Unknown => {
                tracing::info!(event.id, "A bounce says nothing certain of the address");
                Ok(())
            }
            _ => Ok(()),
        };
    };
    let suppress = suppression::Suppress {
        email: event.email.clone(),
        kind,
        reason: suppression::Reason::clipped(&reason),
        source: Some(event.id.clone()),
        note: None,
        at,
    };
    suppression::suppress(cx, suppress).await.map(drop)
}

async fn load(cx: &Cx, source: Source) -> Result<Option<Message>, DatabaseError> {
    let workspace = cx.workspace_id().get();
    let found = cx.database().glance(move |tx| Message::find(tx, source)).await?;
    Ok(found.filter(|message| message.workspace == workspace))
}

/// Tells the row. The numbers come from the items, so it does not matter how often and by whom they are brought.
async fn mark(cx: &Cx, event: &Event, message: &Message) -> Result<(), RecordError> {
    // What happened to a copy is not what happened to the recipient.
    if !event.is_of_addressee(message) || event.is_echo {
        return Ok(());
    }
    // Nothing else changes those numbers.
    let seen = match event.kind {
        EventKind::Open | EventKind::Click => store::of_message(cx, message.source).await?,
        _ => Seen::default(),
    };
    let error = match &event.kind {
        EventKind::Reject { reason } | EventKind::RenderingFailure { error: reason } => {
            Some(reason.clone().unwrap_or_else(|| event.kind.as_str().to_owned()))
        }
        _ => None,
    };
    let facts = Facts {
        provider_message_id: event.provider_message_id.clone(),
        opens: seen.opens,
        clicks: seen.clicks,
        error,
    };
    let row = (message.workspace, message.source);
    let news = event.kind.mark().map(|mark| (mark, event.occurred_at));
    let now = cx.now();
    cx.database().write_committed(move |tx| marks::mark(tx, row, news, &facts, now)).await?;
    Ok(())
}
