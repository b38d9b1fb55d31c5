//! Several nodes on one PostgreSQL: they share queues, timers and schedules, and wake each other.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

#[expect(dead_code, reason = "this binary is about PostgreSQL only")]
mod engines;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engines::connect;
use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{
    Clock, Delivery, ItemEngine as _, Outgoing, QueueEngine as _, Receive, ScheduleEngine as _,
    Timer, TimerEngine as _, Txn, queues,
};
use tidings_sql::{Heard, SqlItems, SqlQueues};
use tidings_testkit::{FakeClock, PostgresDatabase};

const NOW: Receive = Receive { max: 20, lease: Duration::from_secs(60), wait: Duration::ZERO };

struct Nodes {
    clock: Arc<FakeClock>,
    nodes: Vec<SqlQueues>,
    items: SqlItems,
    /// Goes last.
    server: PostgresDatabase,
}

async fn nodes(count: usize) -> Nodes {
    let server = PostgresDatabase::schema();
    let clock = FakeClock::at("2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let mut nodes = Vec::new();
    let mut items = None;
    for _ in 0..count {
        let database = connect(&server.url).await;
        nodes.push(SqlQueues::new(database.clone(), Arc::clone(&clock) as Arc<_>));
        items.get_or_insert_with(|| SqlItems::new(database, Arc::clone(&clock) as Arc<_>));
    }
    Nodes { clock, nodes, items: items.unwrap(), server }
}

/// Takes everything that there is, several at a time.
async fn take_all(node: SqlQueues) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let taken = node.receive(&queues::PROBE, NOW).await.unwrap();
        if taken.is_empty() {
            return all;
        }
        let receipts: Vec<_> = taken.iter().map(|one| one.receipt.clone()).collect();
        assert_eq!(node.acknowledge(&queues::PROBE, &receipts).await.unwrap(), taken.len());
        all.extend(taken);
    }
}

/// How often each body was delivered, by all nodes together.
async fn shared(world: &Nodes) -> BTreeMap<String, usize> {
    let takers: Vec<_> =
        world.nodes.iter().map(|node| tokio::spawn(take_all(node.clone()))).collect();
    let mut counts = BTreeMap::new();
    for taker in takers {
        for delivery in taker.await.unwrap() {
            *counts.entry(delivery.body).or_default() += 1;
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_share_a_queue_and_take_each_message_once() {
    let world = nodes(3).await;
    for part in 0..4 {
        let messages =
            (0..250).map(|n| Outgoing::new(&queues::PROBE, format!("{}", part * 250 + n)));
        world.nodes[0].send(messages.collect()).await.unwrap();
    }
    let counts = shared(&world).await;
    assert_eq!(counts.len(), 1000);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_fire_at_once_fire_each_timer_once() {
    let world = nodes(3).await;
    let store = world.items.open(&"acme".parse().unwrap()).await.unwrap();
    let due = world.clock.now() + 1.hour();
    for part in 0..10 {
        let txn = (0..30).fold(Txn::new(), |txn, n| {
            let (key, body) = (format!("t-{part}-{n}"), format!("{part}-{n}"));
            txn.arm(Timer { key, due, queue: &queues::PROBE, body })
        });
        store.transact(txn).await.unwrap();
    }
    world.clock.advance(1.hour());
    let firing: Vec<_> = world
        .nodes
        .iter()
        .map(|node| {
            let node = node.clone();
            tokio::spawn(async move {
                let mut fired = 0;
                loop {
                    match node.fire(7).await.unwrap() {
                        none if none.count == 0 && none.next_due.is_none() => return fired,
                        some => fired += some.count,
                    }
                }
            })
        })
        .collect();
    let mut fired = 0;
    for node in firing {
        fired += node.await.unwrap();
    }
    assert_eq!(fired, 300);
    let counts = shared(&world).await;
    assert_eq!(counts.len(), 300);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_begin_an_occurrence_once() {
    let world = nodes(3).await;
    for day in 1..=20 {
        world.clock.advance(1.days());
        let occurrence = world.clock.now();
        let beginning: Vec<_> = world
            .nodes
            .iter()
            .map(|node| {
                let (node, message) =
                    (node.clone(), Outgoing::new(&queues::PROBE, day.to_string()));
                tokio::spawn(async move { node.begin("daily", occurrence, message).await.unwrap() })
            })
            .collect();
        let mut begun = 0;
        for node in beginning {
            begun += usize::from(node.await.unwrap());
        }
        assert_eq!(begun, 1);
    }
    let counts = shared(&world).await;
    assert_eq!(counts.len(), 20);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_can_stop_while_others_are_busy() {
    let world = nodes(1).await;
    let database = connect(&world.server.url).await;
    let leaving = SqlQueues::new(database.clone(), Arc::clone(&world.clock) as Arc<_>);
    leaving.armed().await;
    let busy = world.nodes[0].clone();
    let sending = tokio::spawn(async move {
        loop {
            busy.send(vec![Outgoing::new(&queues::PROBE, "x")]).await.unwrap();
        }
    });
    // Its listener hears of every one of them.
    database.close().await;
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_node_commits_wakes_another() {
    let world = nodes(2).await;
    let store = world.items.open(&"acme".parse().unwrap()).await.unwrap();
    // Once when it begins to listen, because of what it may have missed before.
    world.nodes[1].armed().await;
    for turn in 0..5 {
        let mut woken = world.nodes[1].armed();
        assert!(futures_util::poll!(&mut woken).is_pending(), "nothing has happened");
        let (key, body) = (turn.to_string(), turn.to_string());
        let due = world.clock.now() + 1.hour();
        let timer = Timer { key, due, queue: &queues::PROBE, body };
        store.transact(Txn::new().arm(timer)).await.unwrap();
        woken.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_node_says_another_hears_and_not_itself() {
    let server = PostgresDatabase::schema();
    let (speaker, listener) = (connect(&server.url).await, connect(&server.url).await);
    // Other schemas of this database have nodes of their own: the word must be ours.
    let ours = format!("{:016x}", fastrand::u64(..));
    let (mut own, mut heard) = (speaker.hear("test-words"), listener.hear("test-words"));
    // Once when they begin to listen, because of what they may have missed before.
    assert_eq!(heard.recv().await.unwrap(), Heard::Missed);
    assert_eq!(own.recv().await.unwrap(), Heard::Missed);
    for number in 0..100 {
        speaker.tell("test-words", &format!("{ours} {number}"));
        speaker.tell("test-other", &format!("{ours} other"));
    }
    let mut words = std::collections::BTreeSet::new();
    while words.len() < 100 {
        match heard.recv().await.unwrap() {
            Heard::Word(word) if word.starts_with(&ours) => words.insert(word),
            Heard::Word(_) | Heard::Missed => continue,
        };
    }
    assert!(words.iter().all(|word| !word.ends_with("other")));
    assert!(own.try_recv().is_err(), "nobody hears his own words");
}
