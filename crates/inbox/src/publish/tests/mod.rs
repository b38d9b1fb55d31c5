//! Stories of posts. What all of them share is here: a small world, and the check that counts are what is stored.

mod bounds;
mod crashes;
mod drafts;
mod races;
mod stories;

use std::sync::Arc;

use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::Handler;
use tidings_kernel::{Condition, Item, Query, Update, queues, tables};
use tidings_testbed::Bed;

use super::{NewPost, Published, To, handler, post};
use crate::Inbox;
use crate::ids::MessageId;
use crate::keys::{self, InboxKey, UserId};
use crate::records::{CategoryStats, Own, Post, Public, PublicStats, Stored, UserStats, Watermark};

pub(super) struct World<'a> {
    pub(super) bed: &'a Bed,
    pub(super) cx: Cx,
    pub(super) inbox: Arc<Inbox>,
    pub(super) key: InboxKey,
}

impl<'a> World<'a> {
    pub(super) async fn new(bed: &'a Bed) -> Self {
        let key = "app".parse().unwrap();
        Self { bed, cx: bed.cx().await, inbox: Arc::new(Inbox::new()), key }
    }

    /// The same at the time that it is now.
    pub(super) async fn later(&mut self, minutes: i64) {
        self.bed.advance(minutes).await;
        self.cx = self.bed.cx().await;
    }

    pub(super) async fn publish(&self, new: NewPost) -> Published {
        self.inbox.publish(&self.cx, &self.key, new).await.unwrap()
    }

    pub(super) fn worker(&self) -> Arc<dyn Handler> {
        handler(self.bed.access.clone(), Arc::clone(&self.inbox))
    }

    pub(super) async fn work(&self) -> usize {
        self.bed.work(&queues::INBOX_POSTS, self.worker()).await
    }

    pub(super) async fn post(&self, id: &MessageId) -> Post {
        post(&self.cx, &self.key, id).await.unwrap().unwrap()
    }

    pub(super) async fn all(&self, partition: &str, prefix: &str) -> Vec<Item> {
        let query = Query::new(&tables::INBOX, partition).begins_with(prefix).limit(1_000);
        self.cx.items().await.unwrap().query(query).await.unwrap().items
    }

    pub(super) fn partition(&self, uid: &str) -> String {
        keys::user(self.cx.workspace(), &self.key, &user(uid))
    }

    pub(super) async fn own(&self, uid: &str) -> Vec<Own> {
        let found = self.all(&self.partition(uid), keys::MESSAGES).await;
        found.iter().map(|item| Stored::read(item).unwrap().own().unwrap()).collect()
    }

    pub(super) async fn public(&self) -> Vec<Public> {
        let partition = keys::public(self.cx.workspace(), &self.key);
        let found = self.all(&partition, keys::MESSAGES).await;
        found.iter().map(|item| Stored::read(item).unwrap().public().unwrap()).collect()
    }

    pub(super) async fn stats(&self, uid: &str) -> UserStats {
        let key = keys::counts(&self.partition(uid));
        let item = self.cx.items().await.unwrap().get(&tables::INBOX, &key).await.unwrap();
        UserStats::read(item.as_ref()).unwrap()
    }

    pub(super) async fn public_stats(&self) -> PublicStats {
        let key = keys::counts(&keys::public(self.cx.workspace(), &self.key));
        let item = self.cx.items().await.unwrap().get(&tables::INBOX, &key).await.unwrap();
        PublicStats::read(item.as_ref()).unwrap()
    }

    /// A read-all as whoever marks makes it.
    pub(super) async fn read_all(&self, uid: &str, upto: &MessageId) {
        let stats = self.stats(uid).await;
        let mark = Watermark { n: stats.marks + 1, id: Some(upto.clone()), seq: 0, at: None };
        let update = Update::new(&tables::INBOX, keys::counts(&self.partition(uid)))
            .set("marks", mark.n)
            .set("all", mark.to_value())
            .set("read", stats.published)
            .add("rev", 1);
        let items = self.cx.items().await.unwrap();
        items.update(update).await.unwrap();
        for item in self.all(&self.partition(uid), keys::COUNTS).await {
            let key = tables::INBOX.key_of(&item).unwrap();
            if key.sort.as_deref() != Some(keys::ALL) {
                let published = item.integer("published").unwrap();
                let update = Update::new(&tables::INBOX, key).set("read", published);
                items.update(update).await.unwrap();
            }
        }
    }

    /// Marks one message read as whoever marks does it.
    pub(super) async fn read(&self, uid: &str, id: &MessageId, category: Option<&str>) {
        let partition = self.partition(uid);
        let read = Update::new(&tables::INBOX, keys::message(&partition, id))
            .set("readat", self.cx.now().as_millisecond())
            .expect(tidings_kernel::Expect::That(Condition::exists("id")));
        let count = |key| Update::new(&tables::INBOX, key).add("read", 1);
        let mut txn = tidings_kernel::Txn::new()
            .update(read)
            .update(count(keys::counts(&partition)).add("rev", 1));
        if let Some(name) = category {
            txn = txn.update(count(keys::category_counts(&partition, &name.parse().unwrap())));
        }
        self.cx.items().await.unwrap().transact(txn).await.unwrap();
    }

    /// Every count of these users and of everyone is what a recount finds.
    pub(super) async fn counts_hold(&self, uids: &[&str]) {
        for uid in uids {
            let (own, stats) = (self.own(uid).await, self.stats(uid).await);
            let mut counted = std::collections::BTreeMap::<String, (i64, i64)>::new();
            let mut all = (0, 0);
            let partition = self.partition(uid);
            for copy in &own {
                let mut of_category = None;
                if let Some(name) = &copy.message.category {
                    let key = keys::category_counts(&partition, name);
                    let items = self.cx.items().await.unwrap();
                    let item = items.get(&tables::INBOX, &key).await.unwrap();
                    of_category = Some(CategoryStats::read(item.as_ref()).unwrap());
                }
                let covering = stats.covering_id(of_category.as_ref(), &copy.message.id);
                let read = i64::from(copy.marks.is_read(covering));
                all = (all.0 + 1, all.1 + read);
                if let Some(name) = &copy.message.category {
                    let count = counted.entry(format!("c#{name}")).or_default();
                    *count = (count.0 + 1, count.1 + read);
                }
            }
            assert_eq!((stats.published, stats.read), all, "{uid}");
            for item in self.all(&partition, keys::COUNTS).await {
                let name = item.text("SK").unwrap();
                if name != keys::ALL {
                    let count = CategoryStats::read(Some(&item)).unwrap();
                    let found = counted.remove(name).unwrap_or_default();
                    assert_eq!((count.published, count.read), found, "{uid} {name}");
                }
            }
            assert_eq!(counted, Default::default(), "{uid}");
        }
        let live = self.public().await;
        let live: Vec<_> = live.iter().filter(|public| public.redacted.is_none()).collect();
        assert_eq!(self.public_stats().await.published, live.len() as i64);
        let partition = keys::public(self.cx.workspace(), &self.key);
        for item in self.all(&partition, keys::COUNTS).await {
            let Some(name) = item.text("SK").unwrap().strip_prefix(keys::COUNTS) else { continue };
            if name != "*" {
                let has = |public: &&&Public| {
                    public.message.category.as_ref().is_some_and(|c| c.as_str() == name)
                };
                let found = live.iter().filter(has).count() as i64;
                assert_eq!(item.integer("published"), Some(found), "{name}");
            }
        }
    }
}

pub(super) fn user(uid: &str) -> UserId {
    uid.parse().unwrap()
}

pub(super) fn to(uids: &[&str]) -> NewPost {
    NewPost {
        to: To::Users(uids.iter().map(|uid| (*uid).to_owned()).collect()),
        label: None,
        category: Some("news".to_owned()),
        title: "Hello".to_owned(),
        body: json!({"text": "There is news"}),
        cta_uri: Some("/news".to_owned()),
        host_system_id: None,
        send_at: None,
        expires_in: None,
        sender: "shop".to_owned(),
    }
}

pub(super) fn to_everyone() -> NewPost {
    NewPost { to: To::Everyone, ..to(&[]) }
}

/// So many users.
pub(super) fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("u{number}")).collect()
}

pub(super) fn to_many(count: usize) -> NewPost {
    NewPost { to: To::Users(many(count)), ..to(&[]) }
}
