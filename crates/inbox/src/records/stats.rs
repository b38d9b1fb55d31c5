//! Counts (kind US), and the read-alls beside them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_kernel::{Item, StoreError, Value, Workspace, tables};

use super::{Expiring, Reading, damaged, map};
use crate::ids::MessageId;
use crate::keys::{self, Category, InboxKey, PUBLIC, UserId};

const KIND: &str = "US";

/// The attribute of `UserStats::soonest`.
pub(crate) const SOONEST: &str = "soonest";
/// That of `UserStats::horizon`.
pub(crate) const HORIZON: &str = "horizon";
/// That of `UserStats::early`.
pub(crate) const EARLY: &str = "early";
/// That of `UserStats::forgotten`.
pub(crate) const FORGOTTEN_AT: &str = "forgotten_at";
/// That of `UserStats::settled`.
pub(crate) const SETTLED: &str = "settled";

/// A read-all: every message up to here is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// The how many-th read-all of the user it was, over all categories.
    pub n: i64,
    /// The greatest id of his own messages that it covers; none if he had none.
    pub id: Option<MessageId>,
    /// The greatest `seq` of the public messages that it covers; 0 if there were none.
    pub seq: i64,
    /// When it was.
    pub at: Option<Timestamp>,
}

impl Watermark {
    pub fn covers_id(&self, id: &MessageId) -> bool {
        self.id.as_ref().is_some_and(|upto| id <= upto)
    }

    pub fn covers_seq(&self, seq: i64) -> bool {
        seq <= self.seq
    }

    /// An id that there is not is empty, and so before all others.
    pub fn to_value(&self) -> Value {
        let id = self.id.as_ref().map_or("", MessageId::as_str);
        let at = self.at.map(|at| at.as_millisecond().into());
        let (n, seq) = (Some(self.n.into()), Some(self.seq.into()));
        map([("n", n), ("id", Some(id.into())), ("seq", seq), ("at", at)])
    }

    fn read(item: &Item, name: &str) -> Result<Option<Self>, StoreError> {
        let from = Reading { item, what: "a count" };
        if item.get(name).is_none() {
            return Ok(None);
        }
        let number = |key| {
            let value = from.inside(name, key).and_then(Value::as_number);
            value.and_then(|number| number.to_i64()).ok_or_else(|| from.damaged(name))
        };
        let id = match from.inside(name, "id").and_then(Value::as_text) {
            None => return Err(from.damaged(name)),
            Some("") => None,
            Some(id) => Some(id.parse().map_err(|_| from.damaged(name))?),
        };
        let at = number("at").ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        Ok(Some(Self { n: number("n")?, id, seq: number("seq")?, at }))
    }
}

/// `c#*` of a user. One that was never written is all zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserStats {
    pub published: i64,
    pub read: i64,
    /// Counts the changes of anything in the user's partition.
    pub rev: i64,
    /// How many read-alls there were.
    pub marks: i64,
    pub all: Option<Watermark>,
    /// Public messages up to this `seq` are from before he came. Nothing if he never came.
    pub since: Option<i64>,
    /// The millisecond in which he first came, which tells him from one of the same name who was forgotten. 0 if he never came.
    pub came: i64,
    /// The millisecond in which one of the same name was forgotten, or he was signed out: who was let in until then stays outside.
    /// Nothing if neither was.
    pub forgotten: Option<i64>,
    /// Receipts of public messages that were redacted up to this redaction are taken out.
    pub cleaned: i64,
    /// Nothing that is counted is gone before this second. Nothing if nobody has looked yet.
    pub soonest: Option<i64>,
    /// What is counted and gone before this second is on the list of what expires next, or in `early`. Nothing if there is no list.
    pub horizon: Option<i64>,
    /// What came after the list was made, and is gone before the horizon.
    pub early: BTreeSet<Expiring>,
    /// The counts were put right without what is gone from this second on or before: it adds nothing any more, whoever tells of it.
    pub settled: i64,
}

/// `c#<category>` of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CategoryStats {
    pub published: i64,
    pub read: i64,
    pub mark: Option<Watermark>,
}

/// `c#*` of everyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublicStats {
    pub published: i64,
    pub rev: i64,
    /// The last `seq` that was given.
    pub issued: i64,
    /// The last redaction's number.
    pub redactions: i64,
}

/// Which categories an inbox has had messages of. There is a bound, because a read-all writes the counts of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Categories {
    pub names: BTreeSet<String>,
    pub rev: i64,
}

impl UserStats {
    pub fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let from = Reading { item, what: "a count" };
        Ok(Self {
            published: from.count("published"),
            read: from.count("read"),
            rev: from.count("rev"),
            marks: from.count("marks"),
            all: Watermark::read(item, "all")?,
            since: item.integer("since"),
            came: from.count("came"),
            forgotten: item.integer(FORGOTTEN_AT),
            cleaned: from.count("cleaned"),
            soonest: item.integer(SOONEST),
            horizon: item.integer(HORIZON),
            early: Expiring::read(from, EARLY)?,
            settled: from.count(SETTLED),
        })
    }

    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey, uid: &UserId) -> Item {
        let mut item = tables::INBOX.bare_item(&keys::counts(&keys::user(tenant, inbox, uid)));
        for (name, value) in stamp(tenant, inbox, uid.as_str()) {
            item.set(name, value);
        }
        item.set("published", self.published);
        item.set("read", self.read);
        item.set("rev", self.rev);
        item.set("marks", self.marks);
        item.set("cleaned", self.cleaned);
        if let Some(all) = &self.all {
            item.set("all", all.to_value());
        }
        if let Some(since) = self.since {
            item.set("since", since);
        }
        if self.came > 0 {
            item.set("came", self.came);
        }
        if let Some(forgotten) = self.forgotten {
            item.set(FORGOTTEN_AT, forgotten);
        }
        if let Some(soonest) = self.soonest {
            item.set(SOONEST, soonest);
        }
        if let Some(horizon) = self.horizon {
            item.set(HORIZON, horizon);
        }
        if !self.early.is_empty() {
            item.set(EARLY, Expiring::to_value(&self.early));
        }
        if self.settled > 0 {
            item.set(SETTLED, self.settled);
        }
        item
    }

    /// Those of the two read-alls that cover a user's own message.
    pub fn covering_id<'a>(
        &'a self,
        category: Option<&'a CategoryStats>,
        id: &MessageId,
    ) -> impl Iterator<Item = &'a Watermark> {
        let marks = [self.all.as_ref(), category.and_then(|category| category.mark.as_ref())];
        marks.into_iter().flatten().filter(move |mark| mark.covers_id(id))
    }

    /// Those of the two read-alls that cover a public message.
    pub fn covering_seq<'a>(
        &'a self,
        category: Option<&'a CategoryStats>,
        seq: i64,
    ) -> impl Iterator<Item = &'a Watermark> {
        let marks = [self.all.as_ref(), category.and_then(|category| category.mark.as_ref())];
        marks.into_iter().flatten().filter(move |mark| mark.covers_seq(seq))
    }
}

impl CategoryStats {
    /// Whether nothing is counted, so that they say no more than if they were not there, but for a read-all.
    pub fn is_empty(&self) -> bool {
        self.published == 0 && self.read == 0
    }

    pub fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let from = Reading { item, what: "a count" };
        Ok(Self {
            published: from.count("published"),
            read: from.count("read"),
            mark: Watermark::read(item, "mark")?,
        })
    }

    pub fn to_item(
        &self,
        tenant: &Workspace,
        inbox: &InboxKey,
        uid: &UserId,
        category: &Category,
    ) -> Item {
        let partition = keys::user(tenant, inbox, uid);
        let mut item = tables::INBOX.bare_item(&keys::category_counts(&partition, category));
        for (name, value) in stamp(tenant, inbox, uid.as_str()) {
            item.set(name, value);
        }
        item.set("published", self.published);
        item.set("read", self.read);
        if let Some(mark) = &self.mark {
            item.set("mark", mark.to_value());
        }
        item
    }
}

impl PublicStats {
    pub fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let from = Reading { item, what: "a count" };
        Ok(Self {
            published: from.count("published"),
            rev: from.count("rev"),
            issued: from.count("issued"),
            redactions: from.count("redactions"),
        })
    }
}

impl Categories {
    pub fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let names = match item.get("categories") {
            Some(Value::Ss(names)) => names.clone(),
            None => BTreeSet::new(),
            Some(_) => return Err(damaged("a list of categories", "categories")),
        };
        Ok(Self { names, rev: item.integer("rev").unwrap_or(0) })
    }
}

/// What every count says of whose it is. An update sets it, because it may be what makes the item.
pub fn stamp<'a>(
    tenant: &'a Workspace,
    inbox: &'a InboxKey,
    uid: &'a str,
) -> [(&'static str, &'a str); 4] {
    [("kind", KIND), ("tenant_key", tenant.as_str()), ("inbox_key", inbox.as_str()), ("uid", uid)]
}

/// The same for those of everyone.
pub fn public_stamp<'a>(
    tenant: &'a Workspace,
    inbox: &'a InboxKey,
) -> [(&'static str, &'a str); 4] {
    stamp(tenant, inbox, PUBLIC)
}
