//! A post: what was asked to be published, how far that is, and whom it is for.

use jiff::Timestamp;
use tidings_kernel::{Item, StoreError, Value, Workspace, tables};

use super::message::{category, set_taxonomy};
use super::{Content, EXPIRY, Message, Reading, set_text};
use crate::ids::MessageId;
use crate::keys::{self, Category, InboxKey, UserId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    Users,
}

/// How far a post is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its time has not come.
    Scheduled,
    /// Some users may have it and others not yet.
    Delivering,
    /// All have it.
    Done,
    /// It is being taken away from those who have it.
    Redacting,
    /// Nobody has it any more.
    Redacted,
    /// It was taken back before its time came.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    pub id: MessageId,
    pub sender: String,
    pub audience: Audience,
    /// Gone once it was taken back.
    pub label: Option<String>,
    pub category: Option<Category>,
    pub host_system_id: Option<String>,
    /// What the request said, so that the same id with another request is noticed.
    pub fingerprint: String,
    /// How many users it is for; 0 if it is for everyone.
    pub recipients: i64,
    pub state: State,
    /// So many of its users, from the first, have got it.
    pub delivered: i64,
    /// From so many of those, from the first, it was taken away again.
    pub redacted: i64,
    /// Gone once nobody needs it.
    pub content: Option<Content>,
    pub accepted_at: Timestamp,
    /// When it is published, if not at once.
    pub send_at: Option<Timestamp>,
    /// When its messages are gone, in whole seconds.
    pub expires: Timestamp,
    /// When the post itself is gone, in whole seconds.
    pub kept_until: Timestamp,
}

/// That a request was accepted before (`h#<host_system_id>`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub id: MessageId,
    pub fingerprint: String,
}

impl Audience {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Users => "users",
        }
    }
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Delivering => "delivering",
            Self::Done => "done",
            Self::Redacting => "redacting",
            Self::Redacted => "redacted",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Scheduled,
            Self::Delivering,
            Self::Done,
            Self::Redacting,
            Self::Redacted,
            Self::Cancelled,
        ];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many users of a page were forgotten.
pub(crate) const FORGOTTEN: &str = "forgotten";

impl Post {
    /// When it was received, as its readers see it.
    pub fn received(&self) -> Timestamp {
        self.send_at.unwrap_or(self.accepted_at)
    }

    /// The message that its readers get. `None` once its content is gone.
    pub fn message(&self, delivered: Timestamp) -> Option<Message> {
        Some(Message {
            id: self.id.clone(),
            host_system_id: self.host_system_id.clone(),
            sender: self.sender.clone(),
            label: self.label.clone(),
            received: self.received(),
            delivered,
            expires: self.expires,
            category: self.category.clone(),
            content: Some(self.content.clone()?),
        })
    }

    /// The post once it was taken back. What its readers were told of it is gone; by what stays its request is known again.
    pub fn taken_back(&self, state: State) -> Self {
        Self { state, content: None, label: None, ..self.clone() }
    }

    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Item {
        let mut item = tables::INBOX.bare_item(&keys::post(tenant, inbox, &self.id));
        item.set("id", self.id.as_str());
        item.set("sender", self.sender.as_str());
        item.set("audience", self.audience.as_str());
        set_text(&mut item, "label", self.label.as_deref());
        set_taxonomy(&mut item, self.category.as_ref());
        set_text(&mut item, "host_system_id", self.host_system_id.as_deref());
        item.set("fingerprint", self.fingerprint.as_str());
        item.set("recipients", self.recipients);
        item.set("state", self.state.as_str());
        item.set("delivered", self.delivered);
        item.set("redacted", self.redacted);
        if let Some(content) = &self.content {
            content.write(&mut item);
        }
        item.set("accepted_at", self.accepted_at.as_millisecond());
        if let Some(at) = self.send_at {
            item.set("send_at", at.as_millisecond());
        }
        item.set("expires", self.expires.as_second());
        item.set(EXPIRY, self.kept_until.as_second());
        item
    }

    pub fn read(item: &Item) -> Result<Self, StoreError> {
        let from = Reading { item, what: "a post" };
        let audience = match from.text("audience")? {
            "everyone" => Audience::Everyone,
            "users" => Audience::Users,
            _ => return Err(from.damaged("audience")),
        };
        let expires = Timestamp::from_second(from.number("expires")?);
        Ok(Self {
            id: from.parsed("id")?,
            sender: from.owned("sender").unwrap_or_default(),
            audience,
            label: from.owned("label"),
            category: category(from)?,
            host_system_id: from.owned("host_system_id"),
            fingerprint: from.owned("fingerprint").unwrap_or_default(),
            recipients: from.number("recipients")?,
            state: State::parse(from.text("state")?).ok_or_else(|| from.damaged("state"))?,
            delivered: from.number("delivered")?,
            redacted: from.number("redacted")?,
            content: Content::read(from)?,
            accepted_at: from.at("accepted_at")?,
            send_at: from.maybe_at("send_at")?,
            expires: expires.map_err(|_| from.damaged("expires"))?,
            kept_until: from.expiry()?,
        })
    }

    /// A page of those whom it is for. Pages count from 1.
    pub fn recipients_item(
        &self,
        tenant: &Workspace,
        inbox: &InboxKey,
        page: usize,
        uids: &[UserId],
    ) -> Item {
        let key = keys::recipients(tenant, inbox, &self.id, page);
        let mut item = tables::INBOX.bare_item(&key);
        item.set("uids", uids.iter().map(|uid| uid.as_str().into()).collect::<Vec<Value>>());
        item.set(EXPIRY, self.kept_until.as_second());
        item
    }

    pub fn read_recipients(item: &Item) -> Result<Vec<UserId>, StoreError> {
        let from = Reading { item, what: "a page of recipients" };
        let Some(Value::L(uids)) = item.get("uids") else { return Err(from.damaged("uids")) };
        let uids = uids.iter().map(|uid| uid.as_text().and_then(|uid| uid.parse().ok()));
        uids.map(|uid| uid.ok_or_else(|| from.damaged("uids"))).collect()
    }

    /// That there is a post of its category, as long as there are messages of it.
    pub fn filed_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Option<Item> {
        let key = keys::filed(tenant, inbox, self.category.as_ref()?, &self.id);
        Some(tables::INBOX.bare_item(&key).with(EXPIRY, self.expires.as_second()))
    }

    /// That its request was accepted, if it has an id by which it would be known again.
    pub fn accepted_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Option<Item> {
        let key = keys::host(tenant, inbox, self.host_system_id.as_deref()?);
        let mut item = tables::INBOX.bare_item(&key);
        item.set("id", self.id.as_str());
        item.set("fingerprint", self.fingerprint.as_str());
        item.set(EXPIRY, self.kept_until.as_second());
        Some(item)
    }
}

impl Accepted {
    pub fn read(item: &Item) -> Result<Self, StoreError> {
        let from = Reading { item, what: "an accepted request" };
        Ok(Self { id: from.parsed("id")?, fingerprint: from.text("fingerprint")?.to_owned() })
    }
}
