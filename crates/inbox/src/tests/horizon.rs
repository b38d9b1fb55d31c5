//! What is known of what expires next: whatever comes, goes and is marked, and whoever does it at the same time, the counts are what
//! is seen, at every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures_util::FutureExt as _;
use jiff::ToSpan as _;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidings_access::Cx;
use tidings_kernel::{Clock as _, ItemEngine as _, Key, Put, Query, Update, tables};
use tidings_sql::SqlItems;
use tidings_testbed::{Bed, each_store, interrupted_at};

use super::world::{World, narrow, post, reader};
use crate::expiry::count_out;
use crate::ids::MessageId;
use crate::keys::Partition;
use crate::marks::{Mark, ReadAll, mark, read_all};
use crate::publish::{NewPost, To};
use crate::read::counts;
use crate::verify::{Then, verify, verify_partition};
use crate::{Inbox, Reader, forget};

each_store!(
    counts_are_what_is_seen_whatever_happens,
    what_happens_while_somebody_looks_at_what_is_listed_is_known,
    what_happens_while_somebody_walks_over_all_is_known,
    what_is_counted_in_while_somebody_looks_is_known,
    a_list_that_nobody_can_read_is_made_anew,
    what_is_put_right_is_looked_through_anew,
    a_list_goes_with_what_is_on_it,
);

const STORIES: usize = 8;

/// What happens next. Numbers count the messages that there were, from the newest back.
#[derive(Debug, Clone)]
enum Step {
    Publish { uid: &'static str, category: &'static str, ttl: String },
    Mark(Mark, Vec<usize>),
    ReadAll { category: &'static str, up_to: Option<usize> },
    Redact(usize),
    Pass(i64),
    Look,
    Sweep,
    CountOut,
    Repair,
    Forget,
}

fn any_step() -> impl Strategy<Value = Step> {
    let category = || prop_oneof![Just(""), Just("news")];
    let uid = prop_oneof![3 => Just("ada"), 2 => Just("")];
    let ttl = prop_oneof![
        4 => (1..9).prop_map(|seconds| format!("{seconds}s")),
        4 => (10..40).prop_map(|seconds| format!("{seconds}s")),
        1 => Just("30d".to_owned())
    ];
    let publish = (uid, category(), ttl);
    let publish = publish.prop_map(|(uid, category, ttl)| Step::Publish { uid, category, ttl });
    let mark = prop_oneof![Just(Mark::Read), Just(Mark::Unread), Just(Mark::Seen)];
    let mark = (mark, proptest::collection::vec(0..12_usize, 1..6));
    let read_all = (category(), proptest::option::of(0..8_usize));
    prop_oneof![
        12 => publish,
        6 => mark.prop_map(|(mark, ids)| Step::Mark(mark, ids)),
        2 => read_all.prop_map(|(category, up_to)| Step::ReadAll { category, up_to }),
        1 => (0..6_usize).prop_map(Step::Redact),
        8 => (1..6_i64).prop_map(Step::Pass),
        6 => Just(Step::Look),
        1 => Just(Step::Sweep),
        1 => Just(Step::CountOut),
        1 => Just(Step::Repair),
        1 => Just(Step::Forget),
    ]
}

async fn counts_are_what_is_seen_whatever_happens(bed: &Bed) {
    let mut runner = TestRunner::deterministic();
    let stories = proptest::collection::vec(any_step(), 40..60);
    for number in 0..STORIES {
        let workspace = format!("story{number}");
        bed.make_workspace(&workspace).await;
        let world = World::inside(bed, &workspace);
        let story = stories.new_tree(&mut runner).unwrap().current();
        let mut ids = Vec::new();
        for step in story {
            take(&world, &step, &mut ids).await;
            world.known("ada").await;
        }
        world.expire().await;
        for _ in 0..6 {
            bed.clock.advance(5.seconds());
            world.exact("ada").await;
        }
        world.verify().await;
    }
}

async fn take(world: &World<'_>, step: &Step, ids: &mut Vec<MessageId>) {
    let (cx, of) = (world.cx().await, |number: &usize| ids.iter().rev().nth(*number));
    match step {
        Step::Publish { uid, category, ttl } => {
            ids.push(world.publish_for(uid, category, ttl).await);
        }
        Step::Mark(what, numbers) => {
            world.mark("ada", *what, &numbers.iter().filter_map(of).collect::<Vec<_>>()).await;
        }
        Step::ReadAll { category, up_to } => {
            world.read_all("ada", category, up_to.as_ref().and_then(of)).await;
        }
        Step::Redact(number) => {
            if let Some(id) = of(number) {
                // One that is gone cannot be.
                drop(world.inbox.redact(&cx, &reader("ada").inbox, id).await);
            }
        }
        Step::Pass(seconds) => world.bed.clock.advance(seconds.seconds()),
        Step::Look => {
            world.count_out().await;
            world.exact("ada").await;
            world.verify().await;
        }
        Step::Sweep => {
            world.sweep().await;
            world.counts("ada").await;
        }
        Step::CountOut => drop(world.count_out().await),
        Step::Repair => {
            let all = Key::new(format!("t#{}U#ada#app", world.workspace), "c#*");
            let items = cx.items().await.unwrap();
            let is_there = items.get(&tables::INBOX, &all).await.unwrap().is_some();
            if is_there {
                let spoilt = Update::new(&tables::INBOX, all).add("published", 2).add("rev", 1);
                items.update(spoilt).await.unwrap();
            }
            verify(&cx, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
        }
        Step::Forget => forget(&cx, &reader("ada").uid).await.unwrap(),
    }
}

/// What somebody else does.
#[derive(Debug, Clone, Copy)]
enum Other {
    Early,
    Late,
    Many,
    Marks,
    ReadsAll,
    Looks,
    Redacts,
    Sweeps,
}

impl Other {
    const ALL: [Self; 8] = [
        Self::Early,
        Self::Late,
        Self::Many,
        Self::Marks,
        Self::ReadsAll,
        Self::Looks,
        Self::Redacts,
        Self::Sweeps,
    ];
}

async fn what_happens_while_somebody_looks_at_what_is_listed_is_known(bed: &Bed) {
    others_come_at_every_call(bed, true).await;
}

async fn what_happens_while_somebody_walks_over_all_is_known(bed: &Bed) {
    others_come_at_every_call(bed, false).await;
}

async fn others_come_at_every_call(bed: &Bed, is_listed: bool) {
    let world = World::new(bed);
    for other in Other::ALL {
        let mut place = 0;
        while look_between(&world, is_listed, other, place).await {
            place += 1;
        }
        assert!(place > 4, "{other:?} came in between");
    }
    world.verify().await;
}

/// Tells whether there was such a call.
async fn look_between(world: &World<'_>, is_listed: bool, other: Other, place: isize) -> bool {
    let uid = format!("{other:?}-{is_listed}-{place}");
    let (clock, user, cx) = (&world.bed.clock, reader(&uid), world.cx().await);
    world.whole_second();
    let mut ids = Vec::new();
    for ttl in ["4s", "5s", "6s", "6s", "7s", "9s", "12s"] {
        ids.push(world.publish_for(&uid, "news", ttl).await);
    }
    ids.push(world.publish_for("", "", "8s").await);
    clock.advance(4.seconds());
    if is_listed {
        assert_eq!(world.exact(&uid).await.total, 7);
    }
    world.publish_for(&uid, "", "3s").await;
    clock.advance(2.seconds());
    let others = Others::new(world, &cx, &user, ids);
    let looking = others.interrupt(world.bed, place, other).await;
    counts(&looking, &world.inbox, &user).await.unwrap();
    stays_exact(world, &user).await;
    others.came.load(SeqCst)
}

/// Before each call of somebody who counts something in, one who looks walks over all, and moves the horizon past it.
async fn what_is_counted_in_while_somebody_looks_is_known(bed: &Bed) {
    let world = World::new(bed);
    for way in [Way::Publishes, Way::Marks, Way::ReadsAll] {
        let mut place = 0;
        while walk_between(&world, way, place).await {
            place += 1;
        }
        assert!(place > 2, "somebody looked in between");
    }
    world.verify().await;
}

/// How something comes to be counted.
#[derive(Debug, Clone, Copy)]
enum Way {
    Publishes,
    Marks,
    ReadsAll,
}

/// Tells whether there was such a call.
async fn walk_between(world: &World<'_>, way: Way, place: isize) -> bool {
    let uid = format!("{way:?}-{place}");
    let (clock, user) = (&world.bed.clock, reader(&uid));
    world.whole_second();
    let mut ids = Vec::new();
    for ttl in ["4s", "5s", "6s", "6s", "7s", "10s", "20s", "30s", "40s"] {
        ids.push(world.publish_for(&uid, "news", ttl).await);
    }
    ids.push(world.publish_for("", "", "11s").await);
    clock.advance(4.seconds());
    world.exact(&uid).await;
    let before = clock.now();
    clock.advance(4.seconds());
    let others = Others::new(world, &world.cx().await, &user, ids);
    // The clock of whoever counts something in is behind, so that it is not he who looks for what has expired.
    let later = clock.now();
    clock.set(before);
    let coming = others.interrupt(world.bed, place, Other::Looks).await;
    clock.set(later);
    match way {
        Way::Publishes => publish(&coming, &world.inbox, &user, "7s").await,
        Way::Marks => {
            let public = [others.ids[9].clone()];
            mark(&coming, &world.inbox, &user, Mark::Read, &public).await.unwrap();
        }
        Way::ReadsAll => {
            let what = ReadAll { category: None, up_to: Some(others.ids[6].clone()) };
            read_all(&coming, &world.inbox, &user, what).await.unwrap();
        }
    }
    stays_exact(world, &user).await;
    others.came.load(SeqCst)
}

async fn stays_exact(world: &World<'_>, user: &Reader) {
    let (cx, uid) = (world.cx().await, user.uid.as_str());
    for seconds in [0, 1, 1, 1, 4] {
        world.bed.clock.advance(seconds.seconds());
        world.exact(uid).await;
    }
    let partition = Partition::User { inbox: user.inbox.clone(), uid: user.uid.clone() };
    let mut drifts = Vec::new();
    let mut tell = |drift| drifts.push(drift);
    verify_partition(&cx, &world.inbox, &partition, Then::Tell, &mut tell).await.unwrap();
    assert!(drifts.is_empty(), "{uid}: {drifts:#?}");
}

/// Whoever comes in between, on another node.
struct Others {
    cx: Cx,
    node: Inbox,
    engine: SqlItems,
    user: Reader,
    ids: Vec<MessageId>,
    came: AtomicBool,
}

impl Others {
    fn new(world: &World<'_>, cx: &Cx, user: &Reader, ids: Vec<MessageId>) -> Arc<Self> {
        let (engine, came) = (world.engine.clone(), AtomicBool::new(false));
        Arc::new(Self { cx: cx.clone(), node: narrow(), engine, user: user.clone(), ids, came })
    }

    /// For somebody who is interrupted before this call.
    async fn interrupt(self: &Arc<Self>, bed: &Bed, place: isize, other: Other) -> Cx {
        let others = Arc::clone(self);
        let happens = move || {
            let others = Arc::clone(&others);
            async move { others.come(other).await }.boxed()
        };
        interrupted_at(bed, &self.cx, place, happens).await
    }

    async fn come(&self, other: Other) {
        let Self { cx, node, user, ids, .. } = self;
        self.came.store(true, SeqCst);
        match other {
            Other::Early => publish(cx, node, user, "2s").await,
            Other::Late => publish(cx, node, user, "30s").await,
            Other::Many => {
                for ttl in ["1s", "2s", "3s", "4s", "5s"] {
                    publish(cx, node, user, ttl).await;
                }
            }
            Other::Marks => {
                let some = [ids[5].clone(), ids[7].clone()];
                mark(cx, node, user, Mark::Read, &some).await.unwrap();
            }
            Other::ReadsAll => {
                let what = ReadAll { category: None, up_to: Some(ids[5].clone()) };
                read_all(cx, node, user, what).await.unwrap();
            }
            Other::Looks => drop(counts(cx, node, user).await.unwrap()),
            Other::Redacts => {
                for id in [&ids[3], &ids[6]] {
                    node.redact(cx, &user.inbox, id).await.unwrap();
                }
            }
            Other::Sweeps => {
                while self.engine.sweep(100).await.unwrap() > 0 {}
                count_out(cx, node).await.unwrap();
            }
        }
    }
}

async fn publish(cx: &Cx, node: &Inbox, user: &Reader, ttl: &str) {
    let to = To::Users(vec![user.uid.to_string()]);
    let new = NewPost { expires_in: Some(ttl.to_owned()), ..post(to) };
    node.publish(cx, &user.inbox, new).await.unwrap();
}

async fn a_list_that_nobody_can_read_is_made_anew(bed: &Bed) {
    let world = World::new(bed);
    for seconds in 5..15 {
        world.publish_for("ada", "", &format!("{seconds}s")).await;
    }
    bed.clock.advance(5.seconds());
    assert_eq!(world.exact("ada").await.total, 9);
    let items = world.cx().await.items().await.unwrap();
    let list = Key::new("t#acmeU#ada#app", "e#next");
    for spoilt in [true, false] {
        if spoilt {
            let words = Update::new(&tables::INBOX, list.clone()).set("expiring", "soon");
            items.update(words).await.unwrap();
        } else {
            let bare = tables::INBOX.bare_item(&list);
            items.put(Put::new(&tables::INBOX, bare)).await.unwrap();
        }
        bed.clock.advance(1.second());
        world.counts("ada").await;
        world.exact("ada").await;
    }
    bed.clock.advance(20.seconds());
    assert_eq!(world.exact("ada").await.total, 0);
    world.verify().await;
}

async fn what_is_put_right_is_looked_through_anew(bed: &Bed) {
    let world = World::new(bed);
    for seconds in 5..15 {
        world.publish_for("ada", "", &format!("{seconds}s")).await;
    }
    bed.clock.advance(5.seconds());
    assert_eq!(world.told("ada").await, "9 9");
    // Nobody has counted it in, or knows of it.
    let (cx, partition) = (world.cx().await, "t#acmeU#ada#app");
    let items = cx.items().await.unwrap();
    let query = Query::new(&tables::INBOX, partition).begins_with("m#").backward().limit(1);
    let stored = items.query(query).await.unwrap().items.remove(0);
    let second = cx.now().as_second() + 2;
    let id = "ZZZZZZZZ000000001";
    let strange = stored.with("id", id).with("SK", format!("m#{id}")).with("expiredat", second);
    items.put(Put::new(&tables::INBOX, strange)).await.unwrap();
    let mut drifts = 0;
    verify(&cx, &world.inbox, Then::Repair, &mut |_| drifts += 1).await.unwrap();
    assert_eq!(drifts, 1);
    assert_eq!(world.exact("ada").await.total, 10);
    bed.clock.advance(2.seconds());
    assert_eq!(world.exact("ada").await.total, 7);
    world.verify().await;
}

async fn a_list_goes_with_what_is_on_it(bed: &Bed) {
    let world = World::new(bed);
    let left = async || {
        let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with("e#").and_expired();
        world.cx().await.items().await.unwrap().count(query).await.unwrap()
    };
    for is_seen in [true, false] {
        world.publish_for("ada", "", "1s").await;
        for seconds in 5..12 {
            world.publish_for("ada", "", &format!("{seconds}s")).await;
        }
        bed.clock.advance(2.seconds());
        assert_eq!(world.told("ada").await, "7 7");
        assert_eq!(left().await, 1);
        bed.clock.advance(20.seconds());
        if is_seen {
            assert_eq!(world.told("ada").await, "0 0");
        } else {
            world.expire().await;
        }
        assert_eq!(left().await, 0);
    }
}
