//! Making `ses-webhooks` out of what SNS delivers: SES publishes to a topic, which puts its own envelope into the queue.
//!
//! Here: the two envelopes, and which notifications have a place in the contract. Not here: the contract
//! (`ses_webhooks`), and whether a notification is genuine, which the endpoint that takes it over HTTP has to check.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{describe, spell_out};
use super::ses_event::{SesEventType, details};
use super::{
    Contract, ContractError, Field, Kind, MAX_BODY_BYTES, NotificationType, Object, Provider,
    SesWebhook, Violation, check,
};

/// Why a body of the queue `ses-webhooks` tells nothing about a mail. Trying again cannot help.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum IngressError {
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("SNS sent {0}, which is about the subscription and not about a mail")]
    Subscription(&'static str),
    #[error("SES announced that it publishes to the topic, which is not about a mail")]
    Announcement,
    #[error("the SES event type {name:?} is not {kind}", name = .0.kind.as_str(), kind = NotificationType::KIND)]
    Unsupported(Box<SesEvent>),
    #[error("the SNS envelope is violated: {}", spell_out(.0))]
    Envelope(Vec<Violation>),
    #[error("the Message in the SNS envelope could not be read")]
    Message(#[source] ContractError),
    #[error("an SES event came without its SNS envelope: turn off raw message delivery")]
    Bare,
}

/// An event of SES as SNS brought it, of whatever type.
#[derive(Debug, Clone, PartialEq)]
pub struct SesEvent {
    /// The same when SNS delivers again.
    pub id: String,
    pub kind: SesEventType,
    pub ses_message_id: Option<String>,
    /// As in the contract.
    pub metadata: Object,
    /// The event itself, for those who need more than the details.
    pub event: Object,
}

impl SesWebhook {
    /// Reads what the queue `ses-webhooks` holds: this contract, or the envelope in which SNS put an event of SES.
    pub fn from_queue(body: &str, received_at: Timestamp) -> Result<Self, IngressError> {
        let object = check::object(body)?;
        if object.contains_key("contract") {
            return Ok(Self::parse(body)?);
        }
        if object.contains_key("Type") {
            return from_envelope(object, received_at);
        }
        if object.contains_key("mail") {
            return Err(IngressError::Bare);
        }
        Ok(Self::parse(body)?)
    }

    /// Reads the envelope in which SNS put an event of SES.
    pub fn from_sns(body: &str, received_at: Timestamp) -> Result<Self, IngressError> {
        from_envelope(check::object(body)?, received_at)
    }
}

const NOTIFICATION: &str = "Notification";
/// What SNS sends besides notifications.
const SUBSCRIPTION: [&str; 2] = ["SubscriptionConfirmation", "UnsubscribeConfirmation"];

const ENVELOPE: &[Field] = &[
    Field::required("Type", Kind::OneOf(&[NOTIFICATION]), "What SNS sends."),
    Field::required("MessageId", Kind::TEXT, "The same when SNS delivers again."),
    Field::required("Message", Kind::Text { max: MAX_BODY_BYTES }, "The event of SES, as JSON."),
];

// Event publishing says `eventType`, and the older feedback notifications `notificationType`.
const EVENT: &[Field] = &[
    Field::optional("eventType", Kind::TEXT, "What happened."),
    Field::optional("notificationType", Kind::TEXT, "What happened."),
    Field::optional("mail", Kind::Object(MAIL), "The mail that it happened to."),
];

const MAIL: &[Field] = &[
    Field::optional("messageId", Kind::TEXT, "Message id of SES."),
    Field::optional("timestamp", Kind::TEXT, "When the mail was sent."),
];

/// SES publishes this text, which is no JSON, when a topic becomes the destination of its events.
const ANNOUNCEMENT: &str = "Successfully validated SNS topic";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Envelope {
    message_id: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    event_type: Option<String>,
    notification_type: Option<String>,
    mail: Option<Mail>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Mail {
    message_id: Option<String>,
}

fn from_envelope(sns: Object, received_at: Timestamp) -> Result<SesWebhook, IngressError> {
    let sent = sns.get("Type").and_then(Value::as_str);
    if let Some(subscription) = SUBSCRIPTION.into_iter().find(|name| sent == Some(name)) {
        return Err(IngressError::Subscription(subscription));
    }
    let envelope: Envelope = read(ENVELOPE, sns, "")?;
    if envelope.message.starts_with(ANNOUNCEMENT) {
        return Err(IngressError::Announcement);
    }
    let event = check::object(&envelope.message).map_err(IngressError::Message)?;
    let read: Event = read(EVENT, event.clone(), "Message.")?;

    let kind = event_type(&read)?;
    let metadata = details(kind, &event);
    let ses_message_id = read.mail.unwrap_or_default().message_id;
    let Some(notification_type) = NotificationType::of(kind) else {
        let event = SesEvent { id: envelope.message_id, kind, ses_message_id, metadata, event };
        return Err(IngressError::Unsupported(Box::new(event)));
    };
    Ok(SesWebhook {
        provider: Provider::Ses,
        provider_event_id: envelope.message_id,
        notification_type,
        received_at,
        ses_message_id,
        mail_message_id: None,
        raw_payload_s3_key: None,
        metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
    })
}

fn read<T: DeserializeOwned>(
    fields: &[Field],
    object: Object,
    path: &str,
) -> Result<T, IngressError> {
    let violations = check::fields(fields, &object, path);
    if !violations.is_empty() {
        return Err(IngressError::Envelope(violations));
    }
    let read = serde_json::from_value(object.into());
    Ok(read.expect("the fields admit only what their struct can hold"))
}

fn event_type(event: &Event) -> Result<SesEventType, IngressError> {
    let (field, found) = match (&event.event_type, &event.notification_type) {
        (None, Some(found)) => ("Message.notificationType", Some(found.as_str())),
        (found, _) => ("Message.eventType", found.as_deref()),
    };
    SesEventType::find(found.unwrap_or_default()).ok_or_else(|| {
        IngressError::Envelope(vec![Violation {
            field: field.to_owned(),
            expected: NotificationType::KIND,
            found: describe(found.map(Value::from).as_ref()),
        }])
    })
}
