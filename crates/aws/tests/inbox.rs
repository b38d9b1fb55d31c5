//! An inbox on DynamoDB: everything that readers do is counted there as it is on SQL, and what the service removes is
//! counted out from its stream.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
mod server;

use std::sync::Arc;

use jiff::ToSpan as _;
use serde_json::json;
use server::{Server, connect};
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_inbox::expiry::Rounds;
use tidings_inbox::ids::MessageId;
use tidings_inbox::marks::{Mark, ReadAll, mark, read_all};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::read::{Listing, counts, list, newer};
use tidings_inbox::verify::{Then, verify};
use tidings_inbox::{Inbox, Reader};
use tidings_kernel::{Clock, ItemEngine, Key, Query, Update, tables};
use tidings_sql::Database;
use tidings_testkit::FakeClock;

struct World {
    access: Access,
    engine: Arc<dyn ItemEngine>,
    clock: Arc<FakeClock>,
    inbox: Arc<Inbox>,
    server: Server,
}

impl World {
    async fn new() -> Self {
        let server = Server::start();
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        server.set_now(clock.now().as_second());
        let engine: Arc<dyn ItemEngine> =
            Arc::new(connect(server.endpoint(), Arc::clone(&clock) as Arc<_>));
        let database = Database::memory().await.unwrap();
        let access = Access::new(database, Arc::clone(&engine), Arc::clone(&clock) as Arc<_>);
        workspaces::create(&access, "acme".parse().unwrap()).await.unwrap();
        Self { access, engine, clock, inbox: Arc::default(), server }
    }

    async fn cx(&self) -> Cx {
        let found = workspaces::find(&self.access, "acme".parse().unwrap()).await.unwrap();
        self.access.inside(&found, Actor::Operator)
    }

    /// To a user, or to everyone if there is none.
    async fn publish(&self, uid: &str, category: &str, ttl: &str) -> MessageId {
        let to = match uid {
            "" => To::Everyone,
            uid => To::Users(vec![uid.to_owned()]),
        };
        let new = NewPost {
            to,
            label: None,
            category: Some(category.to_owned()).filter(|category| !category.is_empty()),
            title: "Hello".to_owned(),
            body: json!({"text": "There is news"}),
            cta_uri: None,
            host_system_id: None,
            send_at: None,
            expires_in: Some(ttl.to_owned()),
            sender: "shop".to_owned(),
        };
        let published = self.inbox.publish(&self.cx().await, &"app".parse().unwrap(), new).await;
        self.clock.advance(10.milliseconds());
        published.unwrap().id
    }

    async fn mark(&self, what: Mark, ids: &[&MessageId]) -> usize {
        let ids: Vec<_> = ids.iter().copied().cloned().collect();
        let cx = self.cx().await;
        self.clock.advance(10.milliseconds());
        mark(&cx, &self.inbox, &ada(), what, &ids).await.unwrap().len()
    }

    async fn read_all(&self, category: &str, up_to: Option<&MessageId>) {
        let what = ReadAll { category: category.parse().ok(), up_to: up_to.cloned() };
        read_all(&self.cx().await, &self.inbox, &ada(), what).await.unwrap();
        self.clock.advance(10.milliseconds());
    }

    /// `total unread`, and the same for each category.
    async fn told(&self) -> String {
        let counts = counts(&self.cx().await, &self.inbox, &ada()).await.unwrap();
        let categories = counts.categories.iter();
        let categories =
            categories.map(|(name, count)| format!("; {name} {} {}", count.total, count.unread));
        format!("{} {}{}", counts.total, counts.unread, categories.collect::<String>())
    }

    async fn verify(&self) {
        let mut drifts = Vec::new();
        let (cx, mut tell) = (self.cx().await, |drift| drifts.push(drift));
        verify(&cx, &self.inbox, Then::Tell, &mut tell).await.unwrap();
        assert!(drifts.is_empty(), "{drifts:#?}");
    }

    /// The service removes what is past its time.
    fn sweep(&self) -> usize {
        self.server.set_now(self.clock.now().as_second() + 1);
        self.server.sweep()
    }
}

fn ada() -> Reader {
    Reader { inbox: "app".parse().unwrap(), uid: "ada".parse().unwrap() }
}

#[tokio::test]
async fn what_readers_do_is_counted() {
    let world = World::new().await;
    let first = world.publish("ada", "news", "30d").await;
    let public = world.publish("", "news", "30d").await;
    let plain = world.publish("", "", "30d").await;
    assert_eq!(world.told().await, "3 3; news 2 2");
    assert_eq!(world.mark(Mark::Read, &[&first, &public]).await, 2);
    assert_eq!(world.mark(Mark::Read, &[&first, &public]).await, 2, "it counts once");
    assert_eq!(world.told().await, "3 1; news 2 0");
    world.mark(Mark::Unread, &[&public]).await;
    world.mark(Mark::Archive, &[&plain]).await;
    assert_eq!(world.told().await, "3 1; news 2 1");
    world.verify().await;

    let newest = world.publish("ada", "news", "30d").await;
    world.read_all("", Some(&public)).await;
    assert_eq!(world.told().await, "4 1; news 3 1");
    world.read_all("news", None).await;
    assert_eq!(world.told().await, "4 0; news 3 0");
    world.mark(Mark::Unread, &[&newest, &public]).await;
    assert_eq!(world.told().await, "4 2; news 3 2");
    world.verify().await;

    let listing = Listing { limit: 2, ..Listing::default() };
    let cx = world.cx().await;
    let page = list(&cx, &world.inbox, &ada(), listing.clone()).await.unwrap();
    let ids: Vec<_> = page.messages.iter().map(|shown| shown.message.id.clone()).collect();
    assert_eq!(ids, [newest.clone(), public.clone()]);
    let rest = Listing { cursor: page.next, ..listing };
    let page = list(&cx, &world.inbox, &ada(), rest).await.unwrap();
    assert_eq!((page.messages.len(), page.next), (1, None));
    let since = newer(&cx, &world.inbox, &ada(), &public, 10).await.unwrap();
    assert_eq!(since.messages.len(), 2);

    world.inbox.redact(&cx, &"app".parse().unwrap(), &public).await.unwrap();
    world.inbox.redact(&cx, &"app".parse().unwrap(), &first).await.unwrap();
    assert_eq!(world.told().await, "2 1; news 1 1");
    world.verify().await;
}

#[tokio::test]
async fn what_the_service_removes_is_counted_out_once() {
    let world = World::new().await;
    let own = world.publish("ada", "news", "10m").await;
    let public = world.publish("", "news", "10m").await;
    world.publish("", "", "10m").await;
    world.publish("ada", "", "30d").await;
    world.mark(Mark::Read, &[&own, &public]).await;
    assert_eq!(world.told().await, "4 2; news 2 0");
    let (access, engine) = (world.access.clone(), Arc::clone(&world.engine));
    let one = Rounds::new(access.clone(), Arc::clone(&engine), Arc::clone(&world.inbox));
    let two = Rounds::new(access, engine, Arc::default());
    assert_eq!(one.once().await.unwrap(), 0);

    world.clock.advance(11.minutes());
    assert!(world.sweep() >= 4);
    let (first, second) = tokio::join!(one.once(), two.once());
    assert_eq!((first.unwrap(), second.unwrap()), (4, 4), "both have heard of all");
    assert_eq!(world.told().await, "1 1");
    world.verify().await;
    world.read_all("", None).await;
    assert_eq!(world.told().await, "1 0");
    world.verify().await;
}

#[tokio::test]
async fn counts_are_exact_before_the_service_removes_anything() {
    let world = World::new().await;
    let own = world.publish("ada", "news", "10m").await;
    let public = world.publish("", "news", "10m").await;
    world.publish("ada", "", "30d").await;
    world.mark(Mark::Read, &[&own, &public]).await;
    assert_eq!(world.told().await, "3 1; news 2 0");
    // Days may pass until the service gets to it.
    world.clock.advance(11.minutes());
    assert_eq!(world.mark(Mark::Read, &[&own, &public]).await, 0, "they are gone for readers");
    assert_eq!(world.told().await, "1 1");
    world.verify().await;
    world.sweep();
    let rounds =
        Rounds::new(world.access.clone(), Arc::clone(&world.engine), Arc::clone(&world.inbox));
    assert_eq!(rounds.once().await.unwrap(), 1, "the public one, which nobody takes out");
    assert_eq!(world.told().await, "1 1");
    world.verify().await;
}

#[tokio::test]
async fn fifty_that_mark_the_same_count_it_once() {
    let world = World::new().await;
    let ids = [world.publish("ada", "news", "30d").await, world.publish("", "news", "30d").await];
    let (cx, other) = (world.cx().await, Inbox::new());
    for (what, unread) in [(Mark::Read, 0), (Mark::Unread, 2), (Mark::Archive, 0)] {
        let marks = (0..50).map(|number| {
            let (cx, ids) = (cx.clone(), &ids);
            let inbox = if number % 2 == 0 { &*world.inbox } else { &other };
            async move { mark(&cx, inbox, &ada(), what, ids).await.unwrap() }
        });
        let receipts = futures_util::future::join_all(marks).await;
        assert!(receipts.iter().all(|told| *told == receipts[0]), "{receipts:?}");
        assert_eq!(world.told().await, format!("2 {unread}; news 2 {unread}"));
        world.verify().await;
    }
}

#[tokio::test]
async fn a_count_that_is_wrong_is_put_right() {
    let world = World::new().await;
    let own = world.publish("ada", "news", "10m").await;
    world.publish("ada", "news", "30d").await;
    world.mark(Mark::Read, &[&own]).await;
    let items = world.cx().await.items().await.unwrap();
    let key = Key::new("t#acmeU#ada#app", "c#*");
    let spoil = Update::new(&tables::INBOX, key).add("published", 3).add("rev", 1);
    items.update(spoil).await.unwrap();
    world.clock.advance(11.minutes());
    let (cx, mut drifts) = (world.cx().await, 0);
    let verified = verify(&cx, &world.inbox, Then::Repair, &mut |_| drifts += 1).await.unwrap();
    assert_eq!((drifts, verified.repaired), (1, 1));
    world.verify().await;
    // What had expired is not taken out once more, neither by who looks nor by who is told.
    assert_eq!(world.told().await, "1 1; news 1 1");
    world.sweep();
    let rounds =
        Rounds::new(world.access.clone(), Arc::clone(&world.engine), Arc::clone(&world.inbox));
    rounds.once().await.unwrap();
    assert_eq!(world.told().await, "1 1; news 1 1");
    world.verify().await;
}

#[tokio::test]
async fn a_category_goes_with_its_last_message() {
    let world = World::new().await;
    let categories = async || {
        let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with("c#");
        world.cx().await.items().await.unwrap().query(query.limit(100)).await.unwrap().items.len()
            - 1
    };
    for number in 0..48 {
        world.publish("ada", &format!("c{number}"), "30d").await;
    }
    world.publish("ada", "old", "10m").await;
    let (cx, app) = (world.cx().await, "app".parse().unwrap());
    for round in 0..4 {
        let last = world.publish("ada", "news", "30d").await;
        // Whoever publishes while it goes is counted.
        let (redacted, second) =
            tokio::join!(world.inbox.redact(&cx, &app, &last), world.publish("ada", "news", "30d"));
        redacted.unwrap();
        assert!(world.told().await.contains("; news 1 1"), "{}", world.told().await);
        world.inbox.redact(&cx, &app, &second).await.unwrap();
        assert_eq!(categories().await, 49 - usize::from(round > 0));
        world.verify().await;
        if round == 0 {
            world.clock.advance(11.minutes());
            world.told().await;
        }
    }
    // Two have no message now, so there is room for two others.
    world.publish("ada", "new", "30d").await;
    world.publish("ada", "newer", "30d").await;
    assert_eq!(categories().await, 50);
    world.verify().await;
}

/// Whatever is done in whatever order, counts are what looking says.
#[tokio::test]
async fn counts_are_what_looking_says() {
    let world = World::new().await;
    let mut ids = Vec::new();
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for step in 0..60 {
        let category = ["", "news", "order"][below(3) as usize];
        let mut any = |ids: &[MessageId]| ids[below(ids.len() as u64) as usize].clone();
        match step % 10 {
            0 | 1 | 5 => ids.push(world.publish("ada", category, ["10m", "30d"][step % 2]).await),
            2 | 6 => ids.push(world.publish("", category, ["30d", "10m"][step / 10 % 2]).await),
            3 | 4 => {
                let what = if step % 10 == 3 { Mark::Read } else { Mark::Unread };
                world.mark(what, &[&any(&ids), &any(&ids)]).await;
            }
            7 => world.read_all(category, Some(&any(&ids))).await,
            8 => {
                let (cx, id) = (world.cx().await, any(&ids));
                // One that has expired may be forgotten.
                drop(world.inbox.redact(&cx, &"app".parse().unwrap(), &id).await);
            }
            _ => world.clock.advance(4.minutes()),
        }
        let listing = Listing { limit: 100, ..Listing::default() };
        let page = list(&world.cx().await, &world.inbox, &ada(), listing).await.unwrap();
        let unread = page.messages.iter().filter(|shown| shown.is_unread).count();
        let told = world.told().await;
        let looked = format!("{} {unread}", page.messages.len());
        assert!(told.starts_with(&looked), "{looked} is seen, and {told} is told after {step}");
        if step % 12 == 11 {
            world.verify().await;
        }
    }
}
