//! What the stories stand on: a workspace with two users and a few ways to say things shortly.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use serde_json::json;
use tidings_access::Cx;
use tidings_kernel::{Clock as _, Item, ItemEngine as _, Query, Scan, tables};
use tidings_sql::SqlItems;
use tidings_testbed::Bed;

use crate::balance::Balance;
use crate::expiry::{Counted, count_out};
use crate::ids::MessageId;
use crate::keys::{self, MESSAGES};
use crate::marks::{Mark, ReadAll, Receipt, mark, read_all};
use crate::publish::{NewPost, To};
use crate::read::{Counts, Listing, Page, counts, list};
use crate::records::{Expiring, Stored, UserStats};
use crate::verify::{Then, Verified, verify};
use crate::{Bounds, Inbox, Reader};

pub(crate) struct World<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) workspace: String,
    pub(crate) engine: SqlItems,
}

pub(crate) fn reader(uid: &str) -> Reader {
    reader_in("app", uid)
}

pub(crate) fn reader_in(inbox: &str, uid: &str) -> Reader {
    Reader { inbox: inbox.parse().unwrap(), uid: uid.parse().unwrap(), let_in: None }
}

/// A node that knows of few things what expires next, so that it runs dry where a story has few of them.
pub(crate) fn narrow() -> Inbox {
    Inbox { bounds: Bounds { together: 4, listed: 3 }, ..Inbox::default() }
}

/// A message without anything special, to nobody yet.
pub(crate) fn post(to: To) -> NewPost {
    NewPost {
        to,
        label: None,
        category: None,
        title: "Hello".to_owned(),
        body: json!("There is news"),
        cta_uri: None,
        host_system_id: None,
        send_at: None,
        expires_in: None,
        sender: "shop".to_owned(),
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(bed: &'a Bed) -> Self {
        Self::inside(bed, "acme")
    }

    pub(crate) fn inside(bed: &'a Bed, workspace: &str) -> Self {
        let engine = SqlItems::new(bed.access.database().clone(), bed.clock.clone());
        Self { bed, inbox: Arc::new(narrow()), workspace: workspace.to_owned(), engine }
    }

    pub(crate) async fn cx(&self) -> Cx {
        self.bed.inside(&self.workspace).await
    }

    /// Publishes to a user, or to everyone if there is none, and a moment passes.
    pub(crate) async fn publish(&self, uid: &str, category: &str) -> MessageId {
        self.publish_for(uid, category, "30d").await
    }

    pub(crate) async fn publish_for(&self, uid: &str, category: &str, ttl: &str) -> MessageId {
        let to = match uid {
            "" => To::Everyone,
            uid => To::Users(uid.split(',').map(ToOwned::to_owned).collect()),
        };
        let new = NewPost {
            category: Some(category.to_owned()).filter(|category| !category.is_empty()),
            expires_in: Some(ttl.to_owned()),
            ..post(to)
        };
        let cx = self.cx().await;
        let published = self.inbox.publish(&cx, &"app".parse().unwrap(), new).await.unwrap();
        self.bed.clock.advance(10.milliseconds());
        published.id
    }

    /// What lives for so many seconds from now on is gone when they have passed, and not up to a second before.
    pub(crate) fn whole_second(&self) {
        let next = self.bed.clock.now().as_second() + 1;
        self.bed.clock.set(Timestamp::from_second(next).unwrap());
    }

    pub(crate) async fn mark(&self, uid: &str, what: Mark, ids: &[&MessageId]) -> Vec<Receipt> {
        let ids: Vec<_> = ids.iter().copied().cloned().collect();
        let marked = mark(&self.cx().await, &self.inbox, &reader(uid), what, &ids).await.unwrap();
        self.bed.clock.advance(10.milliseconds());
        marked
    }

    pub(crate) async fn read_all(&self, uid: &str, category: &str, up_to: Option<&MessageId>) {
        let what = ReadAll { category: category.parse().ok(), up_to: up_to.cloned() };
        read_all(&self.cx().await, &self.inbox, &reader(uid), what).await.unwrap();
        self.bed.clock.advance(10.milliseconds());
    }

    pub(crate) async fn counts(&self, uid: &str) -> Counts {
        counts(&self.cx().await, &self.inbox, &reader(uid)).await.unwrap()
    }

    /// `total unread`, and the same for each category.
    pub(crate) async fn told(&self, uid: &str) -> String {
        let counts = self.counts(uid).await;
        let categories = counts
            .categories
            .iter()
            .map(|(category, count)| format!("; {category} {} {}", count.total, count.unread));
        format!("{} {}{}", counts.total, counts.unread, categories.collect::<String>())
    }

    pub(crate) async fn list(&self, uid: &str, listing: Listing) -> Page {
        list(&self.cx().await, &self.inbox, &reader(uid), listing).await.unwrap()
    }

    /// The ids that a user sees, newest first, in pages of this many.
    pub(crate) async fn ids(&self, uid: &str, listing: Listing) -> Vec<MessageId> {
        let (mut ids, mut listing) = (Vec::new(), listing);
        loop {
            let page = self.list(uid, listing.clone()).await;
            assert!(page.messages.len() <= listing.limit);
            ids.extend(page.messages.into_iter().map(|shown| shown.message.id));
            match page.next {
                // Whoever carries it, carries text.
                Some(next) => listing.cursor = Some(next.to_string().parse().unwrap()),
                None => return ids,
            }
        }
    }

    /// Insists that the counts of a user are what he sees, and that it is known what of it expires next.
    pub(crate) async fn exact(&self, uid: &str) -> Counts {
        let counts = self.counts(uid).await;
        let page = self.list(uid, Listing { limit: 100, ..Listing::default() }).await;
        assert_eq!(page.next, None);
        let unread = page.messages.iter().filter(|shown| shown.is_unread).count();
        let seen = (page.messages.len() as i64, unread as i64);
        assert_eq!((counts.total, counts.unread), seen, "{uid}");
        self.known(uid).await;
        counts
    }

    /// Insists that nothing that is counted is gone before `soonest`, and nothing before the horizon that is not listed.
    pub(crate) async fn known(&self, uid: &str) {
        let cx = self.cx().await;
        let partition = keys::user(cx.workspace(), &reader(uid).inbox, &reader(uid).uid);
        let balance = Balance::load(&cx, &partition).await.unwrap();
        let UserStats { soonest, horizon, early, .. } = &balance.stats;
        let query = Query::new(&tables::INBOX, &partition).and_expired().limit(1_000);
        let page = cx.items().await.unwrap().query(query).await.unwrap();
        assert!(page.cursor.is_none());
        let sort = |item: &Item| item.text("SK").unwrap().to_owned();
        let list = page.items.iter().find(|item| sort(item) == "e#next");
        let list = list.map(|list| Expiring::read_list(list).unwrap());
        for item in page.items.iter().filter(|item| sort(item).starts_with(MESSAGES)) {
            let stored = Stored::read(item).unwrap();
            let one = Expiring { second: stored.expires().as_second(), sort: sort(item) };
            if balance.added(&stored) == (0, 0) {
                continue;
            }
            assert!(soonest.is_none_or(|soonest| soonest <= one.second), "{uid}: {one:?}");
            // Where there is no list, all is walked over.
            let Some(list) = list.as_ref().filter(|_| *horizon > Some(one.second)) else {
                continue;
            };
            assert!(list.contains(&one) || early.contains(&one), "{uid}: {one:?}");
        }
    }

    /// Removes what is past its time. Nobody has counted it out then.
    pub(crate) async fn sweep(&self) {
        while self.engine.sweep(100).await.unwrap() > 0 {}
    }

    pub(crate) async fn count_out(&self) -> Counted {
        count_out(&self.cx().await, &self.inbox).await.unwrap()
    }

    /// Removes what is past its time, and counts it out.
    pub(crate) async fn expire(&self) {
        self.sweep().await;
        self.count_out().await;
    }

    /// Counts everything anew, and insists that every count is right.
    pub(crate) async fn verify(&self) -> Verified {
        let mut drifts = Vec::new();
        let (cx, mut tell) = (self.cx().await, |drift| drifts.push(drift));
        let verified = verify(&cx, &self.inbox, Then::Tell, &mut tell).await.unwrap();
        assert!(drifts.is_empty(), "{drifts:#?}");
        assert_eq!(verified.unsettled, 0);
        verified
    }
}

/// All that is stored of inboxes in which there is this word. A part of a word is not enough: ids and hashes spell anything.
pub(crate) async fn said(bed: &Bed, word: &str) -> Vec<String> {
    let items = bed.cx().await.items().await.unwrap();
    let page = items.scan(Scan::new(&tables::INBOX).limit(500)).await.unwrap();
    assert!(page.cursor.is_none());
    let says =
        |item: &String| item.split(|c: char| !c.is_ascii_alphanumeric()).any(|said| said == word);
    page.items.iter().map(|item| format!("{item:?}")).filter(says).collect()
}
