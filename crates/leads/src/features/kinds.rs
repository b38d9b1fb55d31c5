//! Which events mean something to the features, by their canonical names.

use serde_json::Value as Json;

use crate::canonical::canonical;
use crate::event::StoredEvent;

/// What an event is to the features. Others only show that somebody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Purchased,
    Refunded,
    /// A mail was sent to him.
    Sent,
    /// A mail was delivered to him.
    Received,
    /// A mail came back.
    Bounced,
    Opened,
    Clicked,
    Replied,
    /// He said something.
    Wrote,
    /// He complained, or unsubscribed.
    Left,
    InboxPublished,
    InboxUnread,
    InboxRead,
    InboxReadAll,
    InboxArchived,
    /// It was taken away, or its time was over.
    InboxGone,
    InvoiceOverdue,
    InvoiceSettled,
}

pub(super) const PURCHASED: &[&str] = &["purchase_completed"];
pub(super) const REFUNDED: &[&str] = &["purchase_refunded"];
pub(super) const SENT: &[&str] = &["email_sent"];
pub(super) const RECEIVED: &[&str] = &["email_delivered"];
pub(super) const BOUNCED: &[&str] = &["email_bounced"];
pub(super) const OPENED: &[&str] = &["email_opened"];
pub(super) const CLICKED: &[&str] = &["email_clicked"];
pub(super) const REPLIED: &[&str] = &["email_replied"];
pub(super) const WROTE: &[&str] = &["message_received", "review_submitted", "survey_answered"];
pub(super) const LEFT: &[&str] = &["email_complained", "email_unsubscribed"];
pub(super) const INBOX_PUBLISHED: &[&str] = &["inbox_published"];
pub(super) const INBOX_UNREAD: &[&str] = &["inbox_unread"];
pub(super) const INBOX_READ: &[&str] = &["inbox_read"];
pub(super) const INBOX_READ_ALL: &[&str] = &["inbox_read_all"];
pub(super) const INBOX_ARCHIVED: &[&str] = &["inbox_archived"];
pub(super) const INBOX_GONE: &[&str] = &["inbox_withdrawn", "inbox_expired"];
pub(super) const OVERDUE: &[&str] = &["invoice_overdue"];
pub(super) const SETTLED: &[&str] = &["invoice_paid", "invoice_cancelled"];

const KINDS: [(Kind, &[&str]); 18] = [
    (Kind::Purchased, PURCHASED),
    (Kind::Refunded, REFUNDED),
    (Kind::Sent, SENT),
    (Kind::Received, RECEIVED),
    (Kind::Bounced, BOUNCED),
    (Kind::Opened, OPENED),
    (Kind::Clicked, CLICKED),
    (Kind::Replied, REPLIED),
    (Kind::Wrote, WROTE),
    (Kind::Left, LEFT),
    (Kind::InboxPublished, INBOX_PUBLISHED),
    (Kind::InboxUnread, INBOX_UNREAD),
    (Kind::InboxRead, INBOX_READ),
    (Kind::InboxReadAll, INBOX_READ_ALL),
    (Kind::InboxArchived, INBOX_ARCHIVED),
    (Kind::InboxGone, INBOX_GONE),
    (Kind::InvoiceOverdue, OVERDUE),
    (Kind::InvoiceSettled, SETTLED),
];

/// What is done to somebody, and shows nothing of what he does.
const NOT_HIS_OWN: &[&str] = &[
    "email_sent",
    "email_delivered",
    "email_bounced",
    "email_complained",
    "email_unsubscribed",
    "inbox_published",
    "inbox_withdrawn",
    "inbox_expired",
    "invoice_overdue",
    "invoice_paid",
    "invoice_cancelled",
];
/// All that the parts of this product tell of what they did. As it is told: what somebody else calls "Campaign Visited" is his own.
const NOT_HIS_OWN_EITHER: &[&str] =
    &["sequence.", "reminder.", "invoice.", "contact.", "campaign.", "subscriber.", "segment."];

impl Kind {
    pub(super) fn of(event_type: &str) -> Option<Self> {
        let name = canonical(event_type);
        KINDS.iter().find(|(_, types)| types.contains(&&*name)).map(|(kind, _)| *kind)
    }
}

/// Whether an event shows that the person was there.
pub(super) fn is_his_own(event: &StoredEvent) -> bool {
    let name = canonical(&event.event_type);
    let told = event.event_type.as_str();
    let is_of_others = NOT_HIS_OWN.contains(&&*name)
        || NOT_HIS_OWN_EITHER.iter().any(|prefix| told.starts_with(prefix))
        || (name == "email_subscribed" && is_by_operator(event));
    !is_of_others
}

/// Somebody else agreed for him.
fn is_by_operator(event: &StoredEvent) -> bool {
    event.payload.get("by").and_then(Json::as_str) == Some("operator")
}
