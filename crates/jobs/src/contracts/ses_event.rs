//! What an event of SES says, whichever of its two forms it has.
//!
//! Here: all types that SES knows, and the details that are worth carrying, bounded. Not here: the envelope of SNS
//! around it (`sns`), and what is done about it.

use serde_json::{Value, json};

use super::Object;

/// What happened to a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SesEventType {
    Send,
    Reject,
    Delivery,
    Bounce,
    Complaint,
    Open,
    Click,
    DeliveryDelay,
    RenderingFailure,
    /// Somebody used the subscription page of SES itself.
    Subscription,
    /// A mail came in.
    Received,
    /// SNS tells that the subscription works.
    SubscriptionSucceeded,
}

/// More recipients than this one mail of SES cannot have.
const MAX_RECIPIENTS: usize = 50;
/// The longest detail.
const MAX_TEXT: usize = 1024;

impl SesEventType {
    const ALL: [(&'static str, Self); 12] = [
        ("Send", Self::Send),
        ("Reject", Self::Reject),
        ("Delivery", Self::Delivery),
        ("Bounce", Self::Bounce),
        ("Complaint", Self::Complaint),
        ("Open", Self::Open),
        ("Click", Self::Click),
        ("DeliveryDelay", Self::DeliveryDelay),
        ("Rendering Failure", Self::RenderingFailure),
        ("Subscription", Self::Subscription),
        ("Received", Self::Received),
        ("AmazonSnsSubscriptionSucceeded", Self::SubscriptionSucceeded),
    ];

    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }

    pub(super) fn find(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, found)| found)
    }

    /// Where the event keeps what is said of this type.
    fn section(self) -> Option<&'static str> {
        match self {
            Self::Send => Some("send"),
            Self::Reject => Some("reject"),
            Self::Delivery => Some("delivery"),
            Self::Bounce => Some("bounce"),
            Self::Complaint => Some("complaint"),
            Self::Open => Some("open"),
            Self::Click => Some("click"),
            Self::DeliveryDelay => Some("deliveryDelay"),
            Self::RenderingFailure => Some("failure"),
            Self::Subscription => Some("subscription"),
            Self::Received => Some("receipt"),
            Self::SubscriptionSucceeded => None,
        }
    }
}

/// What is worth knowing of an event besides its type and the id of its mail.
pub(super) fn details(kind: SesEventType, event: &Object) -> Object {
    let mail = &event.get("mail").cloned().unwrap_or_default();
    let section = kind.section().and_then(|name| event.get(name)).cloned().unwrap_or_default();
    let mut details = Object::new();
    let mut text = |name: &str, value: &Value| {
        if let Some(value) = value.as_str().filter(|value| !value.trim().is_empty()) {
            details.insert(name.to_owned(), clipped(value).into());
        }
    };
    text("mail_timestamp", &mail["timestamp"]);
    // The event's own time. When the mail was sent is another thing.
    text("event_timestamp", &section["timestamp"]);
    text("bounce_type", &section["bounceType"]);
    text("bounce_subtype", &section["bounceSubType"]);
    text("feedback_type", &section["complaintFeedbackType"]);
    text("feedback_id", &section["feedbackId"]);
    text("delay_type", &section["delayType"]);
    text("reject_reason", &section["reason"]);
    text("error_message", &section["errorMessage"]);
    text("url", &section["link"]);
    text("user_agent", &section["userAgent"]);
    let recipients = recipients(kind, &section, mail);
    if !recipients.is_empty() {
        details.insert("recipients".to_owned(), recipients.into());
    }
    let to: Vec<_> = addresses(&mail["destination"]).map(|email| json!(email)).collect();
    if !to.is_empty() {
        details.insert("destination".to_owned(), to.into());
    }
    let tags = tags(&mail["tags"]);
    if !tags.is_empty() {
        details.insert("tags".to_owned(), tags.into());
    }
    details
}

/// Whom it happened to, which need not be everybody whom the mail went to.
fn recipients(kind: SesEventType, section: &Value, mail: &Value) -> Vec<Value> {
    let named = match kind {
        SesEventType::Bounce => &section["bouncedRecipients"],
        SesEventType::Complaint => &section["complainedRecipients"],
        SesEventType::DeliveryDelay => &section["delayedRecipients"],
        SesEventType::Delivery => {
            return addresses(&section["recipients"])
                .map(|email| json!({ "email": email }))
                .collect();
        }
        SesEventType::Send | SesEventType::Reject | SesEventType::RenderingFailure => {
            return addresses(&mail["destination"])
                .map(|email| json!({ "email": email }))
                .collect();
        }
        // Nobody can tell which of them it was.
        SesEventType::Open
        | SesEventType::Click
        | SesEventType::Subscription
        | SesEventType::Received
        | SesEventType::SubscriptionSucceeded => return Vec::new(),
    };
    let named = named.as_array().map(Vec::as_slice).unwrap_or_default();
    let read = |recipient: &Value| {
        let mut read = Object::new();
        for (name, field) in
            [("email", "emailAddress"), ("status", "status"), ("diagnostic", "diagnosticCode")]
        {
            if let Some(text) = recipient[field].as_str() {
                read.insert(name.to_owned(), clipped(text).into());
            }
        }
        Value::from(read)
    };
    named.iter().take(MAX_RECIPIENTS).map(read).filter(|one| !one["email"].is_null()).collect()
}

fn addresses(list: &Value) -> impl Iterator<Item = &str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().take(MAX_RECIPIENTS).filter_map(Value::as_str).map(clipped)
}

/// Ours: SES adds others of its own, which begin with `ses:`.
fn tags(tags: &Value) -> Object {
    let tags = tags.as_object().into_iter().flatten();
    let ours = tags.filter(|(name, _)| matches!(name.as_str(), "workspace" | "message"));
    let first = ours.filter_map(|(name, values)| Some((name.clone(), values.get(0)?.as_str()?)));
    first.map(|(name, value)| (name, clipped(value).into())).collect()
}

fn clipped(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
