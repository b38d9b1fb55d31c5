//! Messages, and what was marked on them.
//!
//! The item of a user's message and that of a public one are the same (kind UM) but for whose they are. A receipt stands
//! under the key that a message of the user's own would have, and says what he marked on a public one.

use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_kernel::{Item, StoreError, Value, Workspace, tables};

use super::{EXPIRY, Reading, Watermark, json, map, set_at, set_text};
use crate::ids::MessageId;
use crate::keys::{self, Category, InboxKey, PUBLIC, UserId};

const KIND: &str = "UM";

/// What a reader sees of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub title: String,
    pub body: Json,
    pub cta_uri: Option<String>,
}

/// What is the same for all who get it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub host_system_id: Option<String>,
    pub sender: String,
    /// What readers are told of whom it went to.
    pub label: Option<String>,
    /// When it was accepted, or became due if it was scheduled.
    pub received: Timestamp,
    /// When it was stored for its reader.
    pub delivered: Timestamp,
    /// In whole seconds.
    pub expires: Timestamp,
    pub category: Option<Category>,
    /// Nothing once it was redacted.
    pub content: Option<Content>,
}

/// What a user marked on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    pub read: Option<Timestamp>,
    pub seen: Option<Timestamp>,
    pub archived: Option<Timestamp>,
    /// It is unread in spite of all read-alls up to the one with this number.
    pub unread: Option<i64>,
}

impl Marks {
    /// Whether the message is read, given the read-alls that cover it.
    pub fn is_read<'a>(&self, covering: impl IntoIterator<Item = &'a Watermark>) -> bool {
        let counts = |mark: &Watermark| self.unread.is_none_or(|upto| mark.n > upto);
        self.read.is_some() || covering.into_iter().any(counts)
    }

    pub(crate) fn write(&self, item: &mut Item) {
        set_at(item, "readat", self.read);
        set_at(item, "seenat", self.seen);
        set_at(item, "archivedat", self.archived);
        if let Some(number) = self.unread {
            item.set("unread", number);
        }
    }

    fn read(from: Reading<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            read: from.maybe_at("readat")?,
            seen: from.maybe_at("seenat")?,
            archived: from.maybe_at("archivedat")?,
            unread: from.item.integer("unread"),
        })
    }
}

/// A user's copy of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    pub message: Message,
    pub uid: UserId,
    pub marks: Marks,
}

/// A message to everyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Public {
    pub message: Message,
    /// The how many-th public message of its inbox it is, from 1.
    pub seq: i64,
    /// The how many-th redaction of its inbox took its content away.
    pub redacted: Option<i64>,
}

/// What a user marked on a public message.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    pub id: MessageId,
    /// Category and expiry are those of the message.
    pub category: Option<Category>,
    pub expires: Timestamp,
    pub seq: i64,
    pub marks: Marks,
}

/// What stands under the key of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    Own(Own),
    Public(Public),
    Receipt(Receipt),
}

impl Message {
    /// What stays of a redacted one: that it was there, of which category and how long. The post says who sent it.
    pub fn tombstone(self) -> Self {
        let sender = String::new();
        Self { host_system_id: None, sender, label: None, content: None, ..self }
    }

    fn write(&self, item: &mut Item, tenant: &Workspace, inbox: &InboxKey) {
        item.set("kind", KIND);
        item.set("id", self.id.as_str());
        set_text(item, "host_system_id", self.host_system_id.as_deref());
        item.set("sender", self.sender.as_str());
        item.set("received", self.received.as_millisecond());
        item.set("delivered", self.delivered.as_millisecond());
        item.set(EXPIRY, self.expires.as_second());
        set_taxonomy(item, self.category.as_ref());
        if let Some(content) = &self.content {
            content.write(item);
        }
        item.set("tenant_key", tenant.as_str());
        item.set("inbox_key", inbox.as_str());
    }

    fn read(from: Reading<'_>) -> Result<Self, StoreError> {
        let label = from.inside("audiences", "label").and_then(Value::as_text);
        Ok(Self {
            id: from.parsed("id")?,
            host_system_id: from.owned("host_system_id"),
            sender: from.owned("sender").unwrap_or_default(),
            label: label.map(ToOwned::to_owned),
            received: from.at("received")?,
            delivered: from.at("delivered")?,
            expires: from.expiry()?,
            category: category(from)?,
            content: Content::read(from)?,
        })
    }
}

impl Content {
    /// Its body must be one that `json::to_value` takes; whoever accepts a message sees to that.
    pub(super) fn write(&self, item: &mut Item) {
        let body = json::to_value(&self.body).unwrap_or(Value::Null);
        let cta_uri = self.cta_uri.as_deref().map(Value::from);
        let title = Value::from(self.title.as_str());
        item.set(
            "message",
            map([("title", Some(title)), ("body", Some(body)), ("cta_uri", cta_uri)]),
        );
    }

    pub(super) fn read(from: Reading<'_>) -> Result<Option<Self>, StoreError> {
        if from.item.get("message").is_none() {
            return Ok(None);
        }
        let inside = |name| from.inside("message", name);
        let title = inside("title").and_then(Value::as_text);
        let cta_uri = inside("cta_uri").and_then(Value::as_text);
        Ok(Some(Self {
            title: title.ok_or_else(|| from.damaged("message"))?.to_owned(),
            body: inside("body").map_or(Json::Null, json::from_value),
            cta_uri: cta_uri.map(ToOwned::to_owned),
        }))
    }
}

pub(super) fn set_taxonomy(item: &mut Item, category: Option<&Category>) {
    if let Some(category) = category {
        item.set("taxonomy", map([("category", Some(category.as_str().into()))]));
    }
}

pub(super) fn category(from: Reading<'_>) -> Result<Option<Category>, StoreError> {
    let category = from.inside("taxonomy", "category").and_then(Value::as_text);
    category.map(|name| name.parse().map_err(|_| from.damaged("taxonomy"))).transpose()
}

impl Own {
    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Item {
        let partition = keys::user(tenant, inbox, &self.uid);
        let mut item = tables::INBOX.bare_item(&keys::message(&partition, &self.message.id));
        self.message.write(&mut item, tenant, inbox);
        // Nobody is told who else got it.
        let uids = vec![self.uid.as_str().into()];
        let label = self.message.label.as_deref().map(Value::from);
        item.set(
            "audiences",
            map([("kind", Some("users".into())), ("label", label), ("uids", Some(Value::L(uids)))]),
        );
        item.set("uid", self.uid.as_str());
        self.marks.write(&mut item);
        item
    }
}

impl Public {
    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Item {
        let partition = keys::public(tenant, inbox);
        let mut item = tables::INBOX.bare_item(&keys::message(&partition, &self.message.id));
        self.message.write(&mut item, tenant, inbox);
        let label = self.message.label.as_deref().map(Value::from);
        item.set("audiences", map([("kind", Some("everyone".into())), ("label", label)]));
        item.set("uid", PUBLIC);
        item.set("seq", self.seq);
        if let Some(number) = self.redacted {
            item.set("redacted", number);
        }
        item
    }
}

impl Receipt {
    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey, uid: &UserId) -> Item {
        let partition = keys::user(tenant, inbox, uid);
        let mut item = tables::INBOX.bare_item(&keys::message(&partition, &self.id));
        item.set("receipt", true);
        item.set("seq", self.seq);
        item.set(EXPIRY, self.expires.as_second());
        set_taxonomy(&mut item, self.category.as_ref());
        self.marks.write(&mut item);
        item
    }
}

impl Stored {
    pub fn read(item: &Item) -> Result<Self, StoreError> {
        if item.text("kind").is_none() {
            return Receipt::read(item).map(Self::Receipt);
        }
        let from = Reading { item, what: "a message" };
        let message = Message::read(from)?;
        if from.text("uid")? == PUBLIC {
            let (seq, redacted) = (from.number("seq")?, item.integer("redacted"));
            return Ok(Self::Public(Public { message, seq, redacted }));
        }
        Ok(Self::Own(Own { message, uid: from.parsed("uid")?, marks: Marks::read(from)? }))
    }

    /// From when on it is gone, in whole seconds.
    pub fn expires(&self) -> Timestamp {
        match self {
            Self::Own(own) => own.message.expires,
            Self::Public(public) => public.message.expires,
            Self::Receipt(receipt) => receipt.expires,
        }
    }

    /// A user's own message, if it is one.
    pub fn own(self) -> Option<Own> {
        if let Self::Own(own) = self { Some(own) } else { None }
    }

    pub fn public(self) -> Option<Public> {
        if let Self::Public(public) = self { Some(public) } else { None }
    }

    pub fn receipt(self) -> Option<Receipt> {
        if let Self::Receipt(receipt) = self { Some(receipt) } else { None }
    }
}

impl Receipt {
    /// Its id is that of its key.
    fn read(item: &Item) -> Result<Self, StoreError> {
        let from = Reading { item, what: "a receipt" };
        let id = from.text("SK")?.strip_prefix(keys::MESSAGES);
        let id = id.and_then(|id| id.parse().ok()).ok_or_else(|| from.damaged("SK"))?;
        Ok(Self {
            id,
            category: category(from)?,
            expires: from.expiry()?,
            seq: from.number("seq")?,
            marks: Marks::read(from)?,
        })
    }
}
