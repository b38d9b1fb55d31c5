//! What sequences hear of people: who came, who left, who must not be written to any more.
//!
//! Here: the message in `sequence-events`, in the commit that makes it true, with the id that makes it one however often
//! it is told. Not here: what becomes of it (`sequences`), and what others outside are told (`news`).
//!
//! That somebody left or is suppressed ends what goes on, so it is always told. That somebody came can only begin
//! something, and a file can bring a million people: it is told only if a sequence listens.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidings_access::{ClientId, Cx};
use tidings_jobs::contracts::{Contract as _, Object, Origin, SequenceEvent};
use tidings_kernel::{EmailAddress, Outgoing, hex, queues};
use tidings_sql::{DatabaseError, Param, Tx};

use crate::consent::AudienceId;
use crate::consent::proof::Action;
use crate::suppression::Suppression;

pub const SUBSCRIBED: &str = "subscriber.subscribed";
pub const UNSUBSCRIBED: &str = "subscriber.unsubscribed";
pub const SUPPRESSED: &str = "subscriber.suppressed";
pub const REPLIED: &str = "email.replied";
pub const OPENED: &str = "email.opened";
pub const CLICKED: &str = "email.clicked";
pub const ENTERED_SEGMENT: &str = "segment.entered";
pub const LEFT_SEGMENT: &str = "segment.left";

/// What has more characters is cut: no text of an event is there to be read.
const MAX_TEXT: usize = 1_000;

/// Something that happened to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// Tells this event from every other of its name in the workspace: told twice, it is heard once. Any text does, only a
    /// hash of it is told.
    pub id: String,
    pub name: &'static str,
    pub email: EmailAddress,
    pub at: Timestamp,
    pub data: Object,
}

impl Heard {
    /// The message to enqueue in a transaction.
    pub fn to_message(&self, cx: &Cx) -> Outgoing {
        let digest = Sha256::digest(format!("{}\0{}", self.name, self.id));
        let cut = |text: &str| -> String {
            text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
        };
        let data = self.data.iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.clone(), |text| cut(text).into());
            (name.clone(), value)
        });
        let event = SequenceEvent {
            workspace: cx.workspace().clone(),
            event_id: hex(&digest[..16]),
            name: self.name.to_owned(),
            origin: Origin::System,
            email: Some(self.email.as_str().to_owned()),
            user_id: None,
            // What comes from outside may claim to have happened before the calendar of a contract begins.
            occurred_at: self.at.max(Timestamp::UNIX_EPOCH),
            data: Some(data.collect()),
        };
        let body = event.to_body().expect("every field is bounded above");
        // The two characters that JSON leaves as they are and SQS does not carry.
        let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        Outgoing::new(&queues::SEQUENCE_EVENTS, body)
    }
}

/// Sequences hear of it if the transaction is committed.
pub fn tell(tx: &mut Tx<'_>, cx: &Cx, heard: &Heard) -> Result<(), DatabaseError> {
    enqueue(tx, cx, &heard.to_message(cx))
}

/// A message that is sent if the transaction is committed.
pub(crate) fn enqueue(tx: &mut Tx<'_>, cx: &Cx, message: &Outgoing) -> Result<(), DatabaseError> {
    Ok(tx.enqueue(message, cx.now())?)
}

/// One for each time that an address is suppressed anew.
pub(crate) fn suppressed(suppression: &Suppression) -> Heard {
    Heard {
        id: format!("{}/{}", suppression.email, suppression.suppressed_at),
        name: SUPPRESSED,
        email: suppression.email.clone(),
        at: suppression.suppressed_at,
        data: object(json!({ "kind": suppression.kind.as_str() })),
    }
}

/// Where somebody came to or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) audience: Option<AudienceId>,
    pub(crate) client: Option<ClientId>,
}

/// A row of the log of consent, of a person with these addresses.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) proof: i64,
    pub(crate) addresses: Vec<EmailAddress>,
}

/// Whether changes of this kind are heard at all.
pub(crate) fn is_heard(tx: &mut Tx<'_>, cx: &Cx, action: Action) -> Result<bool, DatabaseError> {
    match name_of(action) {
        None => Ok(false),
        Some(UNSUBSCRIBED) => Ok(true),
        Some(name) => is_listened_for(tx, cx, name),
    }
}

/// Whether a sequence listens for events of this name.
pub fn is_listened_for(tx: &mut Tx<'_>, cx: &Cx, name: &str) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM sequence_listens WHERE workspace_id = $1 AND event_name = $2 LIMIT 1";
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(name)];
    Ok(!tx.query(sql, &params)?.is_empty())
}

/// Whether there is a sequence at all. Where there is none nobody is in one.
pub(crate) fn is_anything_going_on(tx: &mut Tx<'_>, cx: &Cx) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM sequences WHERE workspace_id = $1 LIMIT 1";
    Ok(!tx.query(sql, &[Param::Int(cx.workspace_id().get())])?.is_empty())
}

/// Changes that are heard. Whoever leaves leaves with all of his addresses, and comes with the first.
pub(crate) fn changed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (action, place): (Action, Place),
    changes: &[Changed],
) -> Result<(), DatabaseError> {
    let Some(name) = name_of(action) else { return Ok(()) };
    let scope = match (place.audience, place.client) {
        (None, _) => "everything",
        (Some(_), None) => "audience",
        (Some(_), Some(_)) => "client",
    };
    let mut data = object(json!({ "scope": scope }));
    let audience = place.audience.map(AudienceId::get);
    for (field, table, id) in [
        ("audience", "audiences", audience),
        ("client", "clients", place.client.map(ClientId::get)),
    ] {
        let Some(id) = id else { continue };
        let sql = format!("SELECT slug FROM {table} WHERE workspace_id = $1 AND id = $2");
        let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id)])?;
        if let Some(row) = rows.first() {
            data.insert(field.to_owned(), row.text(0)?.into());
        }
    }
    let many = if name == UNSUBSCRIBED { usize::MAX } else { 1 };
    for change in changes {
        for email in change.addresses.iter().take(many) {
            let heard = Heard {
                id: format!("{}/{email}", change.proof),
                name,
                email: email.clone(),
                at: cx.now(),
                data: data.clone(),
            };
            tell(tx, cx, &heard)?;
        }
    }
    Ok(())
}

fn name_of(action: Action) -> Option<&'static str> {
    match action {
        Action::Subscribed | Action::Confirmed => Some(SUBSCRIBED),
        Action::Unsubscribed => Some(UNSUBSCRIBED),
        Action::Resubscribed | Action::Requested | Action::TopicOn | Action::TopicOff => None,
    }
}

/// The rows of the log with the addresses of those whom they are about.
pub(crate) fn with_addresses(
    proofs: &[(i64, i64)],
    addresses: impl Iterator<Item = (i64, EmailAddress)>,
) -> Vec<Changed> {
    let mut of: HashMap<i64, Vec<EmailAddress>> = HashMap::new();
    for (contact, email) in addresses {
        of.entry(contact).or_default().push(email);
    }
    let changed = |(proof, contact): &(i64, i64)| Changed {
        proof: *proof,
        addresses: of.get(contact).cloned().unwrap_or_default(),
    };
    proofs.iter().map(changed).collect()
}

fn object(data: serde_json::Value) -> Object {
    match data {
        serde_json::Value::Object(data) => data,
        _ => unreachable!("what is told is an object"),
    }
}

#[cfg(test)]
mod tests;
