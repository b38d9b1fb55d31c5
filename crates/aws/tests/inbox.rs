//! An inbox on DynamoDB: everything that readers do is counted there as it is on SQL, and what the service removes is
//! counted out from its stream.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
#[path = "../../inbox/tests/model/mod.rs"]
mod model;
mod server;
#[expect(dead_code, reason = "no mail is sent here")]
mod shop;

use std::cell::Cell;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::ToSpan as _;
use model::{Ground, NODES, Size, TENANTS, narrow};
use serde_json::json;
use server::{Server, connect};
use shop::Shop;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_inbox::expiry::{Rounds, count_out};
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::{InboxKey, Partition};
use tidings_inbox::marks::{Mark, ReadAll, mark, read_all};
use tidings_inbox::publish::{self, MAX_PUBLIC, NewPost, To};
use tidings_inbox::read::{Listing, counts, list, newer};
use tidings_inbox::records::{Post, State};
use tidings_inbox::verify::{Then, verify, verify_partition};
use tidings_inbox::{Inbox, Reader};
use tidings_kernel::{Clock, ItemEngine, Key, Query, Update, queues, tables};
use tidings_sql::Database;
use tidings_testbed::dying_engine;
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
        Self { access, engine, clock, inbox: Arc::new(narrow()), server }
    }

    async fn cx(&self) -> Cx {
        inside(&self.access, "acme").await
    }

    /// To a user, or to everyone if there is none.
    async fn publish(&self, uid: &str, category: &str, ttl: &str) -> MessageId {
        let to = match uid {
            "" => To::Everyone,
            uid => To::Users(vec![uid.to_owned()]),
        };
        let new = post(to, category, ttl);
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

async fn inside(access: &Access, workspace: &str) -> Cx {
    let found = workspaces::find(access, workspace.parse().unwrap()).await.unwrap();
    access.inside(&found, Actor::Operator)
}

fn post(to: To, category: &str, ttl: &str) -> NewPost {
    NewPost {
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
    }
}

fn ada() -> Reader {
    Reader { inbox: "app".parse().unwrap(), uid: "ada".parse().unwrap(), let_in: None }
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

/// Those who have a post by a queue, and the queue itself.
struct Posting {
    shop: Shop,
    inbox: Arc<Inbox>,
}

impl Posting {
    async fn publish(&self, users: usize, minutes: Option<i64>) -> Post {
        let cx = self.shop.cx().await;
        let uids = (0..users).map(|number| format!("u{number}")).collect();
        let send_at = minutes.map(|minutes| cx.now() + minutes.minutes());
        let new = NewPost { send_at, ..post(To::Users(uids), "news", "30d") };
        let published = self.inbox.publish(&cx, &"app".parse().unwrap(), new).await.unwrap();
        self.shop.advance(10.milliseconds());
        self.post(&published.id).await
    }

    async fn post(&self, id: &MessageId) -> Post {
        let (cx, app) = (self.shop.cx().await, "app".parse().unwrap());
        publish::post(&cx, &app, id).await.unwrap().unwrap()
    }

    /// Does all that is due.
    async fn run(&self) {
        loop {
            let worker = publish::handler(self.shop.access.clone(), Arc::clone(&self.inbox));
            let did = self.shop.fire().await + self.shop.relay().await;
            if did + self.shop.work(&queues::INBOX_POSTS, worker).await == 0 {
                return;
            }
        }
    }

    /// How many messages these have, and how many of them are unread.
    async fn told(&self, numbers: [usize; 4]) -> [(i64, i64); 4] {
        let (cx, mut told) = (self.shop.cx().await, [(0, 0); 4]);
        for (number, told) in numbers.into_iter().zip(&mut told) {
            let reader = Reader { uid: format!("u{number}").parse().unwrap(), ..ada() };
            let counts = counts(&cx, &self.inbox, &reader).await.unwrap();
            *told = (counts.total, counts.unread);
        }
        told
    }
}

#[tokio::test]
async fn posts_to_many_come_by_the_queue_and_are_taken_away_in_steps() {
    let posting = Posting { shop: Shop::new().await, inbox: Arc::default() };
    let some = [0, 29, 30, 1_029];
    let few = posting.publish(30, None).await;
    assert_eq!((few.state, few.delivered), (State::Done, 30));
    let many = posting.publish(1_030, None).await;
    assert_eq!((many.state, many.delivered), (State::Delivering, 0));
    let later = posting.publish(40, Some(30)).await;
    assert_eq!(later.state, State::Scheduled);
    posting.run().await;
    let many = posting.post(&many.id).await;
    assert_eq!((many.state, many.delivered), (State::Done, 1_030));
    assert_eq!(posting.post(&later.id).await.state, State::Scheduled);
    assert_eq!(posting.told(some).await, [(2, 2), (2, 2), (1, 1), (1, 1)]);

    posting.shop.advance(31.minutes());
    posting.run().await;
    let later = posting.post(&later.id).await;
    assert_eq!((later.state, later.delivered), (State::Done, 40));
    assert_eq!(posting.told(some).await, [(3, 3), (3, 3), (2, 2), (1, 1)]);

    let (cx, app) = (posting.shop.cx().await, "app".parse::<InboxKey>().unwrap());
    let reader = Reader { uid: "u30".parse().unwrap(), ..ada() };
    let both = [many.id.clone(), later.id.clone()];
    mark(&cx, &posting.inbox, &reader, Mark::Read, &both).await.unwrap();
    let redacted = posting.inbox.redact(&cx, &app, &many.id).await.unwrap();
    assert_eq!((redacted.state, redacted.redacted), (State::Redacting, 0));
    posting.run().await;
    let redacted = posting.post(&many.id).await;
    assert_eq!((redacted.state, redacted.redacted), (State::Redacted, 1_030));
    assert_eq!(posting.told(some).await, [(2, 2), (2, 2), (1, 0), (0, 0)]);

    // Of a post that was not accepted nothing is left.
    for place in 4..9 {
        let dies = Shop::inside(&posting.shop.dying(place, place % 2 == 0)).await;
        let uids = (0..1_030).map(|number| format!("x{number}")).collect();
        let new = NewPost {
            send_at: Some(cx.now() + 48.hours()),
            ..post(To::Users(uids), "news", "30d")
        };
        drop(posting.inbox.publish(&dies, &app, new).await);
    }
    posting.shop.advance(16.minutes());
    posting.run().await;
    let (cx, mut pages) = (posting.shop.cx().await, 0);
    let posts = publish::posts(&cx, &app, 100, None).await.unwrap().posts;
    let items = cx.items().await.unwrap();
    let query = Query::new(&tables::INBOX, "t#acmeP#app").begins_with("d#");
    assert_eq!(items.count(query).await.unwrap(), 0);
    for post in &posts {
        let partition = tidings_inbox::keys::all_recipients(cx.workspace(), &app, &post.id);
        pages += items.count(Query::new(&tables::INBOX, partition)).await.unwrap();
    }
    assert_eq!(pages, 2 + 2 * (posts.len() as u64 - 2));

    let mut drifts = Vec::new();
    for number in [0, 29, 30, 39, 40, 999, 1_000, 1_029] {
        let uid = format!("u{number}").parse().unwrap();
        let of = Partition::User { inbox: app.clone(), uid };
        let tell = &mut |drift| drifts.push(drift);
        verify_partition(&cx, &posting.inbox, &of, Then::Tell, tell).await.unwrap();
    }
    assert!(drifts.is_empty(), "{drifts:#?}");
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
async fn public_messages_that_have_expired_take_up_no_room() {
    let world = World::new().await;
    world.publish("", "", "10m").await;
    let items = world.cx().await.items().await.unwrap();
    // As many others are removed already, and the stream has not told of them.
    let counts = Update::new(&tables::INBOX, Key::new("t#acmeG#$public#app", "c#*"));
    items.update(counts.set("published", MAX_PUBLIC).add("rev", 1)).await.unwrap();
    world.clock.advance(11.minutes());
    world.publish("", "", "30d").await;
    assert_eq!(world.told().await, "1 1");
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

/// Workspaces of their own on the same server.
struct Workspaces<'a> {
    world: &'a World,
    names: [String; TENANTS],
    inboxes: [Inbox; NODES],
}

#[async_trait]
impl Ground for Workspaces<'_> {
    fn inbox(&self, node: usize) -> &Inbox {
        &self.inboxes[node]
    }

    fn clock(&self) -> &FakeClock {
        &self.world.clock
    }

    async fn cx(&self, _: usize, tenant: usize) -> Cx {
        inside(&self.world.access, &self.names[tenant]).await
    }

    async fn sweep(&self) {
        self.world.sweep();
    }

    async fn retell(&self) {
        // What it told it tells again only to who did not say that he has heard it.
    }
}

#[test]
fn counts_are_what_looking_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = &runtime.block_on(World::new());
    let size = Size { cases: 3, steps: 40, every: 5 };
    model::counts_are_what_looking_says(&runtime, size, async |names| {
        for name in &names {
            workspaces::create(&world.access, name.parse().unwrap()).await.unwrap();
        }
        Workspaces { world, names, inboxes: std::array::from_fn(|_| narrow()) }
    });
}

/// Lets somebody die at each call of the items that he makes, before it and after it, until he makes fewer. `again` comes after each
/// death, and must find nothing wrong.
async fn at_every_call(
    world: &World,
    attempt: impl AsyncFn(&Cx, &Inbox) -> bool,
    again: impl AsyncFn(),
) {
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 60, "it comes to an end");
            let engine = dying_engine(Arc::clone(&world.engine), place, after);
            let clock = Arc::clone(&world.clock) as Arc<_>;
            let access = Access::new(world.access.database().clone(), engine, clock);
            let died = !attempt(&inside(&access, "acme").await, &narrow()).await;
            again().await;
            world.verify().await;
            if !died {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_mark_that_dies_is_whole_or_not_there() {
    let world = World::new().await;
    let ids = [world.publish("ada", "news", "30d").await, world.publish("", "", "30d").await];
    at_every_call(
        &world,
        async |cx, inbox| mark(cx, inbox, &ada(), Mark::Read, &ids).await.is_ok(),
        async || {
            let told = world.told().await;
            assert!(["2 0; news 1 0", "2 2; news 1 1"].contains(&told.as_str()), "{told}");
            world.mark(Mark::Read, &[&ids[0], &ids[1]]).await;
            assert_eq!(world.told().await, "2 0; news 1 0");
            world.mark(Mark::Unread, &[&ids[0], &ids[1]]).await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_read_all_that_dies_is_whole_or_not_there() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for uid in ["ada", "", "ada"] {
        ids.push(world.publish(uid, "news", "30d").await);
    }
    let what = || ReadAll { category: None, up_to: Some(ids[1].clone()) };
    at_every_call(
        &world,
        async |cx, inbox| read_all(cx, inbox, &ada(), what()).await.is_ok(),
        async || {
            let told = world.told().await;
            assert!(["3 1; news 3 1", "3 3; news 3 3"].contains(&told.as_str()), "{told}");
            world.read_all("", None).await;
            assert_eq!(world.told().await, "3 0; news 3 0");
            world.mark(Mark::Unread, &ids.iter().collect::<Vec<_>>()).await;
        },
    )
    .await;
}

#[tokio::test]
async fn counting_out_that_dies_goes_on() {
    let world = World::new().await;
    world.publish("", "", "30d").await;
    at_every_call(
        &world,
        async |cx, inbox| {
            let own = world.publish("ada", "news", "10m").await;
            world.mark(Mark::Read, &[&own]).await;
            world.clock.advance(11.minutes());
            world.sweep();
            count_out(cx, inbox).await.is_ok()
        },
        async || {
            count_out(&world.cx().await, &world.inbox).await.unwrap();
            assert_eq!(world.told().await, "1 1");
        },
    )
    .await;
}

#[tokio::test]
async fn taking_out_that_dies_goes_on() {
    let world = World::new().await;
    at_every_call(
        &world,
        async |cx, inbox| {
            let own = world.publish("ada", "news", "10m").await;
            world.publish("ada", "order", "10m").await;
            world.mark(Mark::Read, &[&own]).await;
            world.clock.advance(11.minutes());
            counts(cx, inbox, &ada()).await.is_ok()
        },
        async || assert_eq!(world.told().await, "0 0"),
    )
    .await;
}

#[tokio::test]
async fn taking_out_what_is_listed_that_dies_goes_on() {
    let world = World::new().await;
    at_every_call(
        &world,
        async |cx, inbox| {
            for ttl in ["10m", "20m", "21m", "22m", "40m"] {
                world.publish("ada", "order", ttl).await;
            }
            world.clock.advance(11.minutes());
            assert_eq!(world.told().await, "4 4; order 4 4");
            world.publish("ada", "", "5m").await;
            world.publish("ada", "", "15m").await;
            world.clock.advance(10.minutes());
            counts(cx, inbox, &ada()).await.is_ok()
        },
        async || {
            assert_eq!(world.told().await, "3 3; order 2 2");
            world.clock.advance(6.minutes());
            assert_eq!(world.told().await, "1 1; order 1 1");
            world.clock.advance(15.minutes());
            assert_eq!(world.told().await, "0 0");
        },
    )
    .await;
    world.verify().await;
}

#[tokio::test]
async fn a_post_that_dies_is_there_once_and_can_be_taken_back() {
    let (world, app, number) = (World::new().await, "app".parse().unwrap(), Cell::new(0));
    let new = || NewPost {
        host_system_id: Some(format!("order-{}", number.get())),
        ..post(To::Users(vec!["ada".to_owned(), "bob".to_owned()]), "news", "30d")
    };
    at_every_call(
        &world,
        async |cx, inbox| {
            number.set(number.get() + 1);
            inbox.publish(cx, &app, new()).await.is_ok()
        },
        async || {
            let cx = world.cx().await;
            // Whoever does not know asks again.
            let id = world.inbox.publish(&cx, &app, new()).await.unwrap().id;
            assert_eq!(world.told().await, "1 1; news 1 1");
            world.inbox.redact(&cx, &app, &id).await.unwrap();
            assert_eq!(world.told().await, "0 0");
            world.clock.advance(1.second());
        },
    )
    .await;
}
