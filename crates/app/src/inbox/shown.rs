//! What is printed of inboxes. Names are those of the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_inbox::marks::Receipt;
use tidings_inbox::publish::Published;
use tidings_inbox::read::{Counts, Shown};
use tidings_inbox::records::{Configuration, Post, TenantSettings};
use tidings_inbox::tokens::Issued;
use tidings_inbox::verify::{Drift, Sums, Verified};

#[derive(Serialize)]
pub(super) struct PublishedShown {
    id: String,
    recipients: i64,
    state: &'static str,
    replayed: bool,
}

impl From<Published> for PublishedShown {
    fn from(published: Published) -> Self {
        let Published { id, recipients, state, replayed } = published;
        Self { id: id.to_string(), recipients, state: state.as_str(), replayed }
    }
}

#[derive(Serialize)]
pub(super) struct PostShown {
    id: String,
    state: &'static str,
    audience: &'static str,
    label: Option<String>,
    category: Option<String>,
    host_system_id: Option<String>,
    sender: String,
    recipients: i64,
    delivered: i64,
    redacted: i64,
    accepted_at: Timestamp,
    send_at: Option<Timestamp>,
    expires_at: Timestamp,
}

impl From<Post> for PostShown {
    fn from(post: Post) -> Self {
        Self {
            id: post.id.to_string(),
            state: post.state.as_str(),
            audience: post.audience.as_str(),
            label: post.label,
            category: post.category.map(String::from),
            host_system_id: post.host_system_id,
            sender: post.sender,
            recipients: post.recipients,
            delivered: post.delivered,
            redacted: post.redacted,
            accepted_at: post.accepted_at,
            send_at: post.send_at,
            expires_at: post.expires,
        }
    }
}

#[derive(Serialize)]
pub(super) struct MessageShown {
    id: String,
    title: String,
    body: Value,
    cta_uri: Option<String>,
    category: Option<String>,
    label: Option<String>,
    sender: String,
    public: bool,
    unread: bool,
    received: Timestamp,
    read_at: Option<Timestamp>,
    seen_at: Option<Timestamp>,
    archived_at: Option<Timestamp>,
    expires_at: Timestamp,
}

impl From<Shown> for MessageShown {
    fn from(shown: Shown) -> Self {
        let message = shown.message;
        let (title, body, cta_uri) = match message.content {
            Some(content) => (content.title, content.body, content.cta_uri),
            None => Default::default(),
        };
        Self {
            id: message.id.to_string(),
            title,
            body,
            cta_uri,
            category: message.category.map(String::from),
            label: message.label,
            sender: message.sender,
            public: shown.is_public,
            unread: shown.is_unread,
            received: message.received,
            read_at: shown.read_at,
            seen_at: shown.seen_at,
            archived_at: shown.archived_at,
            expires_at: message.expires,
        }
    }
}

#[derive(Serialize)]
pub(super) struct CountsShown {
    total: i64,
    unread: i64,
    categories: BTreeMap<String, CountShown>,
}

#[derive(Serialize)]
struct CountShown {
    total: i64,
    unread: i64,
}

impl From<Counts> for CountsShown {
    fn from(counts: Counts) -> Self {
        let categories = counts.categories.into_iter().map(|(name, count)| {
            (String::from(name), CountShown { total: count.total, unread: count.unread })
        });
        Self { total: counts.total, unread: counts.unread, categories: categories.collect() }
    }
}

#[derive(Serialize)]
pub(super) struct ReceiptShown {
    id: String,
    unread: bool,
    read_at: Option<Timestamp>,
    seen_at: Option<Timestamp>,
    archived_at: Option<Timestamp>,
}

impl From<Receipt> for ReceiptShown {
    fn from(receipt: Receipt) -> Self {
        let Receipt { id, is_unread, read_at, seen_at, archived_at } = receipt;
        Self { id: id.to_string(), unread: is_unread, read_at, seen_at, archived_at }
    }
}

#[derive(Serialize)]
pub(super) struct SettingsShown {
    title: String,
    ttl: Option<String>,
    look_back: String,
    allowed_origins: Vec<String>,
}

impl From<TenantSettings> for SettingsShown {
    fn from(settings: TenantSettings) -> Self {
        Self {
            ttl: settings.ttl.map(|ttl| ttl.to_string()),
            look_back: settings.look_back().to_string(),
            title: settings.title,
            allowed_origins: settings.allowed_origins,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ConfigurationShown {
    inbox: String,
    title: String,
    description: String,
    ttl: BTreeMap<String, String>,
}

impl ConfigurationShown {
    pub(super) fn of(inbox: &str, configuration: Configuration) -> Self {
        let ttl = configuration.ttl.into_iter().map(|(name, ttl)| (name, ttl.to_string()));
        Self {
            inbox: inbox.to_owned(),
            title: configuration.title,
            description: configuration.description,
            ttl: ttl.collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct TokenShown {
    token: String,
    expires_at: Timestamp,
    refresh_token: String,
    refresh_expires_at: Timestamp,
}

impl From<Issued> for TokenShown {
    fn from(issued: Issued) -> Self {
        let Issued { token, expires_at, refresh_token, refresh_expires_at } = issued;
        Self { token, expires_at, refresh_token, refresh_expires_at }
    }
}

#[derive(Serialize)]
pub(super) struct DriftShown {
    inbox: String,
    user: Option<String>,
    category: Option<String>,
    stored: SumsShown,
    counted: SumsShown,
}

#[derive(Serialize)]
struct SumsShown {
    published: i64,
    read: i64,
}

impl From<Sums> for SumsShown {
    fn from(sums: Sums) -> Self {
        Self { published: sums.published, read: sums.read }
    }
}

impl From<Drift> for DriftShown {
    fn from(drift: Drift) -> Self {
        Self {
            inbox: drift.inbox.into(),
            user: drift.uid.map(String::from),
            category: drift.category.map(String::from),
            stored: drift.stored.into(),
            counted: drift.counted.into(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct VerifiedShown {
    inboxes: u64,
    items: u64,
    drifts: u64,
    repaired: u64,
    unsettled: u64,
    unreadable: u64,
}

impl From<Verified> for VerifiedShown {
    fn from(verified: Verified) -> Self {
        let Verified { inboxes, items, drifts, repaired, unsettled, unreadable } = verified;
        Self { inboxes, items, drifts, repaired, unsettled, unreadable }
    }
}
