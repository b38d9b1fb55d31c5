//! What the stories stand on: a workspace with two users and a few ways to say things shortly.

use std::sync::Arc;

use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Cx;
use tidings_kernel::{ItemEngine as _, Scan, tables};
use tidings_sql::SqlItems;
use tidings_testbed::Bed;

use crate::expiry::{Counted, count_out};
use crate::ids::MessageId;
use crate::marks::{Mark, ReadAll, Receipt, mark, read_all};
use crate::publish::{NewPost, To};
use crate::read::{Counts, Listing, Page, counts, list};
use crate::verify::{Then, Verified, verify};
use crate::{Inbox, Reader};

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
        Self { bed, inbox: Arc::default(), workspace: workspace.to_owned(), engine }
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
