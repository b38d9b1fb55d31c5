//! One notification of SES, and the events that it is.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_access::Cx;
use tidings_delivery::ledger::Message;
use tidings_jobs::contracts::{
    Contract as _, IngressError, NotificationType, Object, SesEventType, SesWebhook,
};
use tidings_kernel::{EmailAddress, Outgoing, hex, queues};

use crate::events::{Bounce, Event, EventKind};
use crate::tracking::sight::{has_waited, set_waited};
use crate::tracking::verdict::{Action, Facts};

/// Details that tell nothing of a person.
const IMPERSONAL: [&str; 6] = [
    "event_timestamp",
    "mail_timestamp",
    "bounce_type",
    "bounce_subtype",
    "feedback_type",
    "delay_type",
];

/// What the provider tells of one mail.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notification {
    /// The same when it is delivered again.
    pub(crate) id: String,
    pub(crate) kind: SesEventType,
    pub(crate) received_at: Timestamp,
    pub(crate) provider_message_id: Option<String>,
    details: Object,
}

/// Somebody whom it happened to, and what was said of it.
struct Recipient {
    email: EmailAddress,
    status: Option<String>,
    diagnostic: Option<String>,
}

impl Notification {
    /// Both the contract and what SNS puts into a queue.
    pub(crate) fn read(body: &str, now: Timestamp) -> Result<Self, IngressError> {
        match SesWebhook::from_queue(body, now) {
            Ok(webhook) => Ok(Self {
                id: short(webhook.provider_event_id),
                kind: kind_of(webhook.notification_type),
                received_at: webhook.received_at,
                provider_message_id: webhook.ses_message_id,
                details: webhook.metadata.unwrap_or_default(),
            }),
            // Not of the contract, and still about a mail.
            Err(IngressError::Unsupported(event))
                if matches!(
                    event.kind,
                    SesEventType::DeliveryDelay | SesEventType::RenderingFailure
                ) =>
            {
                Ok(Self {
                    id: short(event.id),
                    kind: event.kind,
                    received_at: now,
                    provider_message_id: event.ses_message_id,
                    details: event.metadata,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The same, to come once more if it has not done so. `None` also in the rare case that there is no room to say so.
    pub(crate) fn again(&self, body: &str) -> Option<Outgoing> {
        if has_waited(Some(&self.details)) {
            return None;
        }
        let mut webhook = SesWebhook::from_queue(body, self.received_at).ok()?;
        set_waited(&mut webhook.metadata);
        Some(Outgoing::new(&queues::SES_WEBHOOKS, webhook.to_body().ok()?))
    }

    /// What it says of whoever opened or clicked. Of the request itself it tells nothing but the name of the browser.
    pub(crate) fn facts(&self) -> Option<Facts> {
        let action = match self.kind {
            SesEventType::Open => Action::Open,
            SesEventType::Click => Action::Click,
            _ => return None,
        };
        Some(Facts { action, user_agent: self.text("user_agent"), ..Facts::default() })
    }

    /// What it says of the mail and of what happened, and not to whom.
    pub(crate) fn without_people(&self) -> Value {
        let mut told = Object::new();
        told.insert("type".to_owned(), self.kind.as_str().into());
        told.insert("provider_message_id".to_owned(), self.provider_message_id.clone().into());
        for name in IMPERSONAL {
            if let Some(value) = self.details.get(name) {
                told.insert(name.to_owned(), value.clone());
            }
        }
        for name in ["workspace", "message"] {
            told.insert(format!("tag_{name}"), self.tag(name).into());
        }
        told.retain(|_, value| !value.is_null());
        told.into()
    }

    /// A tag that we gave the mail.
    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.details.get("tags")?.get(name)?.as_str()
    }

    /// Whether the message that the tag names is the one: another installation may send with the same account and
    /// have a message of the same number.
    pub(crate) fn is_about(&self, message: &Message, cx: &Cx) -> bool {
        let same = |ours: &Option<String>, theirs: &Option<String>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        let workspace = self.tag("workspace").is_none_or(|tag| {
            tag == message.workspace.to_string() || tag == cx.workspace().to_string()
        });
        let to: Vec<_> = self.destination();
        let email = message.email.as_deref().and_then(|email| email.parse().ok());
        let addressed = to.is_empty() || email.is_none_or(|email| to.contains(&email));
        workspace && addressed && same(&message.provider_message_id, &self.provider_message_id)
    }

    /// An event for each person that it happened to. What cannot be told of anybody is no event.
    pub(crate) fn events(&self, message: Option<&Message>) -> Vec<Event> {
        let addressee: Option<EmailAddress> =
            message.and_then(|message| message.email.as_deref()?.parse().ok());
        let recipients = self.recipients(addressee.as_ref());
        let events = recipients.into_iter().map(|recipient| {
            let id = if Some(&recipient.email) == addressee.as_ref() {
                format!("ses:{}", self.id)
            } else {
                // A mail of several people: an event for each of them.
                let digest = Sha256::digest(recipient.email.as_str());
                format!("ses:{}:{}", self.id, hex(&digest[..8]))
            };
            let kind = self.event_kind(&recipient);
            let mut event = Event::new(id, kind, recipient.email, self.occurred_at());
            event.source = message.map(|message| message.source);
            event.provider_message_id.clone_from(&self.provider_message_id);
            event.url = self.text("url");
            event.user_agent = self.text("user_agent");
            event
        });
        events.collect()
    }

    fn recipients(&self, addressee: Option<&EmailAddress>) -> Vec<Recipient> {
        let alone = |email: &EmailAddress| Recipient {
            email: email.clone(),
            status: None,
            diagnostic: None,
        };
        let named = self.details.get("recipients").and_then(Value::as_array);
        let mut recipients: Vec<Recipient> = Vec::new();
        for one in named.into_iter().flatten() {
            let text = |name: &str| one[name].as_str().map(ToOwned::to_owned);
            let email = one["email"].as_str().and_then(address);
            if let Some(email) = email
                && !recipients.iter().any(|known| known.email == email)
            {
                let (status, diagnostic) = (text("status"), text("diagnostic"));
                recipients.push(Recipient { email, status, diagnostic });
            }
        }
        if let Some(addressee) = addressee
            && self.is_of_the_whole_mail()
            && !recipients.iter().any(|known| known.email == *addressee)
        {
            // Of a mail that it threw away, SES names its sender instead.
            return vec![alone(addressee)];
        }
        if !recipients.is_empty() || named.is_some_and(|named| !named.is_empty()) {
            return recipients;
        }
        // It names nobody: then it is about whom we wrote to, or about the only one whom it went to.
        match (addressee, self.destination().as_slice()) {
            (Some(addressee), _) => vec![alone(addressee)],
            (None, [only]) => vec![alone(only)],
            (None, _) => Vec::new(),
        }
    }

    /// What happens before anybody is asked to take it happens to everybody whom it was for.
    fn is_of_the_whole_mail(&self) -> bool {
        matches!(
            self.kind,
            SesEventType::Send | SesEventType::Reject | SesEventType::RenderingFailure
        )
    }

    fn event_kind(&self, recipient: &Recipient) -> EventKind {
        match self.kind {
            SesEventType::Delivery => EventKind::Delivery,
            SesEventType::Bounce => EventKind::Bounce(Bounce {
                kind: self.text("bounce_type").unwrap_or_default(),
                subkind: self.text("bounce_subtype").unwrap_or_default(),
                status: recipient.status.clone(),
                diagnostic: recipient.diagnostic.clone(),
            }),
            SesEventType::Complaint => {
                EventKind::Complaint { feedback: self.text("feedback_type") }
            }
            SesEventType::Open => EventKind::Open,
            SesEventType::Click => EventKind::Click,
            SesEventType::Reject => EventKind::Reject { reason: self.text("reject_reason") },
            SesEventType::DeliveryDelay => EventKind::Delay { reason: self.text("delay_type") },
            SesEventType::RenderingFailure => {
                EventKind::RenderingFailure { error: self.text("error_message") }
            }
            SesEventType::Send
            | SesEventType::Subscription
            | SesEventType::Received
            | SesEventType::SubscriptionSucceeded => EventKind::Send,
        }
    }

    /// When it happened. The time of the mail is only that of what happens when it is sent.
    fn occurred_at(&self) -> Timestamp {
        let time = |name: &str| self.text(name)?.parse::<Timestamp>().ok();
        let told = time("event_timestamp")
            .or_else(|| if self.is_of_the_whole_mail() { time("mail_timestamp") } else { None });
        let sane = |at: &Timestamp| {
            *at > Timestamp::UNIX_EPOCH
                && at.duration_since(self.received_at) < SignedDuration::from_hours(24)
        };
        told.filter(sane).unwrap_or(self.received_at)
    }

    /// Everybody whom the mail went to.
    fn destination(&self) -> Vec<EmailAddress> {
        let list = self.details.get("destination").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|one| address(one.as_str()?)).collect()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.details.get(name)?.as_str().map(ToOwned::to_owned)
    }
}

/// An id that fits into every key. Those of SNS do.
fn short(id: String) -> String {
    if id.len() <= 500 { id } else { format!("sha256:{}", hex(&Sha256::digest(id))) }
}

/// Also with a name before it, as a header has it.
fn address(text: &str) -> Option<EmailAddress> {
    let bare =
        text.rsplit_once('<').map_or(text, |(_, rest)| rest.trim_end().trim_end_matches('>'));
    bare.parse().ok()
}

fn kind_of(kind: NotificationType) -> SesEventType {
    match kind {
        NotificationType::Send => SesEventType::Send,
        NotificationType::Reject => SesEventType::Reject,
        NotificationType::Delivery => SesEventType::Delivery,
        NotificationType::Bounce => SesEventType::Bounce,
        NotificationType::Complaint => SesEventType::Complaint,
        NotificationType::Open => SesEventType::Open,
        NotificationType::Click => SesEventType::Click,
    }
}
