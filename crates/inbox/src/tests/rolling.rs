//! Messages of which one expires every second, and somebody who looks all the time: what his looks cost, however many there are.

use jiff::ToSpan as _;
use tidings_access::{Actor, workspaces};
use tidings_kernel::{Expect, MAX_TXN_WRITES, Query, Txn, Update, tables};
use tidings_testbed::{Bed, each_store, metered_access};

use super::world::{World, reader};
use crate::Inbox;
use crate::read::counts;

each_store!(
    looks_cost_what_expires_and_not_what_there_is,
    what_the_store_removes_costs_no_more,
    codes_among_newsletters_cost_no_more,
);

const MESSAGES: usize = 1_000;
const LOOKS: usize = 300;
/// The first look has no list, and a list has 256.
const WALKS: usize = 2;
/// A look at an inbox in which one message has expired reads the counts before and after it, the list, and the message.
const A_LOOK: usize = 10;

/// Gives Ada messages of which one expires each second from the next on, as they were stored before there were lists. Publishing so
/// many takes a while.
async fn fill(world: &World<'_>) {
    world.whole_second();
    world.publish("ada", "news").await;
    let cx = world.cx().await;
    let items = cx.items().await.unwrap();
    let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with("m#");
    let stored = items.query(query).await.unwrap().items.remove(0);
    let all: Vec<i64> = (1..MESSAGES as i64).collect();
    for some in all.chunks(MAX_TXN_WRITES) {
        let txn = some.iter().fold(Txn::new(), |txn, number| {
            let (id, second) = (format!("ZZZZZZZZ{number:09}"), cx.now().as_second() + number);
            let copy = stored.clone().with("id", id.as_str()).with("SK", format!("m#{id}"));
            txn.put(&tables::INBOX, copy.with("expiredat", second), Expect::Absent)
        });
        items.transact(txn).await.unwrap();
    }
    for sort in ["c#*", "c#news"] {
        let key = tidings_kernel::Key::new("t#acmeU#ada#app", sort);
        let update = Update::new(&tables::INBOX, key).add("published", all.len() as i64);
        let update = match sort {
            "c#*" => update.add("rev", 1).set("soonest", cx.now().as_second()),
            _ => update,
        };
        items.update(update).await.unwrap();
    }
    world.verify().await;
}

/// How many items all looks read together, one each second. Something happens before each.
async fn cost(world: &World<'_>, happens: impl AsyncFn(usize)) -> usize {
    let (access, meter) = metered_access(world.bed, &world.cx().await);
    let acme = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
    let node = Inbox::new();
    for number in 1..=LOOKS {
        world.bed.clock.advance(1.second());
        happens(number).await;
        let cx = access.inside(&acme, Actor::Operator);
        let counts = counts(&cx, &node, &reader("ada")).await.unwrap();
        let codes = counts.categories.iter().filter(|(name, _)| name.as_str() == "code");
        let codes: i64 = codes.map(|(_, count)| count.total).sum();
        assert_eq!(counts.total, (MESSAGES - number) as i64 + codes);
    }
    meter.cost().items
}

async fn looks_cost_what_expires_and_not_what_there_is(bed: &Bed) {
    let world = World::new(bed);
    fill(&world).await;
    let read = cost(&world, async |_| {}).await;
    assert!(read <= WALKS * MESSAGES + LOOKS * A_LOOK, "{read}");
    world.verify().await;
}

async fn what_the_store_removes_costs_no_more(bed: &Bed) {
    let world = World::new(bed);
    fill(&world).await;
    let read = cost(&world, async |_| world.expire().await).await;
    assert!(read <= WALKS * MESSAGES + LOOKS * A_LOOK, "{read}");
    world.verify().await;
}

async fn codes_among_newsletters_cost_no_more(bed: &Bed) {
    let world = World::new(bed);
    fill(&world).await;
    let code = async |number: usize| {
        if number.is_multiple_of(5) {
            world.publish_for("ada", "code", "12s").await;
        }
    };
    let read = cost(&world, code).await;
    assert!(read <= WALKS * MESSAGES + LOOKS * (A_LOOK + 2), "{read}");
    world.verify().await;
}
