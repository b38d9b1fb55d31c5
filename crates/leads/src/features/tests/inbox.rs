//! What inboxes tell: whatever is done to messages, who counts from events alone counts as the inbox does.

use std::sync::Arc;

use jiff::ToSpan as _;
use serde_json::json;
use tidings_inbox::expiry::count_out;
use tidings_inbox::ids::MessageId;
use tidings_inbox::marks::{Mark, ReadAll, mark, read_all};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::read::counts;
use tidings_inbox::{Inbox, Reader};
use tidings_kernel::{ItemEngine as _, queues};
use tidings_people::contacts::learn_user_id;
use tidings_sql::SqlItems;
use tidings_testbed::{Bed, each_store};

use super::world::World;
use crate::ingestion;

each_store!(unread_is_what_the_inbox_counts);

const ADA: &str = "ada@x.org";

struct Story<'b> {
    world: World<'b>,
    inbox: Arc<Inbox>,
    reader: Reader,
}

impl Story<'_> {
    async fn publish(&self, to: To, category: Option<&str>, lives: &str) -> MessageId {
        let post = NewPost {
            to,
            label: None,
            category: category.map(ToOwned::to_owned),
            title: "Hello".to_owned(),
            body: json!("There is news"),
            cta_uri: None,
            host_system_id: None,
            send_at: None,
            expires_in: Some(lives.to_owned()),
            sender: "shop".to_owned(),
        };
        let cx = self.world.cx().await;
        let published = self.inbox.publish(&cx, &self.reader.inbox, post).await.unwrap();
        self.world.bed.clock.advance(10.milliseconds());
        published.id
    }

    async fn to_ada(&self, category: Option<&str>) -> MessageId {
        self.publish(To::Users(vec!["u-1".to_owned(), "stranger".to_owned()]), category, "30d")
            .await
    }

    async fn mark(&self, what: Mark, id: &MessageId) {
        let cx = self.world.cx().await;
        mark(&cx, &self.inbox, &self.reader, what, std::slice::from_ref(id)).await.unwrap();
        self.world.bed.clock.advance(10.milliseconds());
    }

    async fn read_all(&self, category: Option<&str>, up_to: Option<&MessageId>) {
        let category = category.map(|category| category.parse().unwrap());
        let what = ReadAll { category, up_to: up_to.cloned() };
        let cx = self.world.cx().await;
        read_all(&cx, &self.inbox, &self.reader, what).await.unwrap();
        self.world.bed.clock.advance(10.milliseconds());
    }

    /// What the feature says, and what the inbox says.
    async fn unread(&self) -> (String, String) {
        let access = self.world.bed.access.clone();
        self.world.bed.work(&queues::LEAD_INGESTION, ingestion::handler(access)).await;
        self.world.work().await;
        let cx = self.world.cx().await;
        let counted = counts(&cx, &self.inbox, &self.reader).await.unwrap().unread;
        (self.world.told(ADA, "unread_inbox").await, counted.to_string())
    }

    #[track_caller]
    fn check(told: &(String, String), unread: i64) {
        assert_eq!(*told, (unread.to_string(), unread.to_string()));
    }
}

async fn unread_is_what_the_inbox_counts(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    world.partition(ADA, cx.now()).await;
    learn_user_id(&cx, &ADA.parse().unwrap(), "u-1", cx.now()).await.unwrap();
    let reader =
        Reader { inbox: "app".parse().unwrap(), uid: "u-1".parse().unwrap(), let_in: None };
    let story = Story { world, inbox: Arc::default(), reader };

    // One category is read, and the other is not.
    for category in [Some("tips"), Some("tips"), Some("news"), None] {
        story.to_ada(category).await;
    }
    Story::check(&story.unread().await, 4);
    story.read_all(Some("tips"), None).await;
    Story::check(&story.unread().await, 2);

    // What came after a message stays unread, and so does what was marked so since.
    let third = story.to_ada(Some("news")).await;
    let fourth = story.to_ada(None).await;
    story.read_all(None, Some(&third)).await;
    Story::check(&story.unread().await, 1);
    story.mark(Mark::Unread, &third).await;
    Story::check(&story.unread().await, 2);
    story.mark(Mark::Read, &fourth).await;
    Story::check(&story.unread().await, 1);

    // What is taken back is nobody's any more, read or not.
    let back = story.to_ada(Some("tips")).await;
    Story::check(&story.unread().await, 2);
    for id in [&back, &fourth] {
        story.inbox.redact(&story.world.cx().await, &story.reader.inbox, id).await.unwrap();
    }
    Story::check(&story.unread().await, 1);

    // Nor is what has expired.
    let short = To::Users(vec!["u-1".to_owned()]);
    story.publish(short, Some("tips"), "10m").await;
    Story::check(&story.unread().await, 2);
    bed.advance(11).await;
    let engine = SqlItems::new(bed.access.database().clone(), bed.clock.clone());
    while engine.sweep(100).await.unwrap() > 0 {}
    assert!(count_out(&story.world.cx().await, &story.inbox).await.unwrap().expired > 0);
    Story::check(&story.unread().await, 1);

    // Nor what somebody finds expired before the store has removed it.
    let short = To::Users(vec!["u-1".to_owned()]);
    story.publish(short, Some("tips"), "10m").await;
    Story::check(&story.unread().await, 2);
    bed.advance(11).await;
    counts(&story.world.cx().await, &story.inbox, &story.reader).await.unwrap();
    Story::check(&story.unread().await, 1);

    // What goes to everybody is not counted, whatever he does with it.
    let public = story.publish(To::Everyone, None, "30d").await;
    assert_eq!(story.unread().await, ("1".to_owned(), "2".to_owned()));
    for what in [Mark::Read, Mark::Unread] {
        story.mark(what, &public).await;
        assert_eq!(story.unread().await.0, "1");
    }
    story.read_all(None, None).await;
    Story::check(&story.unread().await, 0);

    // Who counts anew finds the same.
    let now = story.world.cx().await.now();
    let (kept, scratch) = (story.world.features(ADA).await, story.world.as_of(ADA, now).await);
    assert_eq!(kept.values.get("unread_inbox"), scratch.values.get("unread_inbox"));
}
