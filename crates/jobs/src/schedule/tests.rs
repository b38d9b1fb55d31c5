//! When periodic work is due, and that each occurrence is begun once.

use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{Clock as _, Outgoing, QueueEngine as _, Receive, queues};
use tidings_sql::{Database, SqlQueues};
use tidings_testkit::FakeClock;

use super::{Schedule, begin_due};

fn schedule(cron: &str, zone: &str) -> Schedule {
    let message = |occurrence: Timestamp| Outgoing::new(&queues::PROBE, occurrence.to_string());
    Schedule::new("daily", cron, zone, message).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_schedule_keeps_to_the_clock_on_the_wall() {
    let check = |cron, zone, from, next: &str| {
        assert_eq!(
            schedule(cron, zone).after(at(from)).unwrap().to_string(),
            next,
            "{cron} {zone}"
        );
    };
    check("0 6 * * *", "UTC", "2026-03-01T06:00:00Z", "2026-03-02T06:00:00Z");
    check("0 6 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T04:00:00Z");
    check("0 6 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T05:00:00Z");
    // An hour that the clock leaves out is made up for when it has gone on.
    check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z");
    check("*/5 * * * *", "UTC", "2026-03-01T00:00:01Z", "2026-03-01T00:05:00Z");
}

#[test]
fn what_is_not_a_schedule_is_refused_in_words() {
    let refused = |cron, zone| {
        let message = |_| Outgoing::new(&queues::PROBE, "x");
        Schedule::new("x", cron, zone, message).err().unwrap().to_string()
    };
    assert!(refused("every day", "UTC").contains("cron expression"));
    assert!(refused("0 6 * * *", "Mars/Olympus").contains("time zone"));
}

#[test]
fn only_the_latest_of_the_missed_occurrences_counts() {
    let check = |cron, begun, now, latest: Option<&str>| {
        let found = schedule(cron, "UTC").latest(at(begun), at(now)).map(|time| time.to_string());
        assert_eq!(found.as_deref(), latest, "{cron} {begun} {now}");
    };
    check("0 6 * * *", "2026-03-01T06:00:00Z", "2026-03-02T05:59:59Z", None);
    check(
        "0 6 * * *",
        "2026-03-01T06:00:00Z",
        "2026-03-02T06:00:00Z",
        Some("2026-03-02T06:00:00Z"),
    );
    check(
        "0 6 * * *",
        "2016-03-01T06:00:00Z",
        "2026-03-09T12:00:00Z",
        Some("2026-03-09T06:00:00Z"),
    );
    check(
        "0 6 1 1 *",
        "2016-03-01T06:00:00Z",
        "2026-03-09T12:00:00Z",
        Some("2026-01-01T06:00:00Z"),
    );
    // A clock that went back begins nothing again.
    check("0 6 * * *", "2026-03-09T06:00:00Z", "2026-03-02T12:00:00Z", None);
}

#[tokio::test]
async fn a_node_whose_clock_was_ahead_silences_nothing() {
    let clock = FakeClock::at(at("2027-03-01T12:00:00Z"));
    let database = Database::memory().await.unwrap();
    let queues = SqlQueues::new(database, Arc::clone(&clock) as Arc<_>);
    let daily = schedule("0 6 * * *", "UTC");
    begin_due(&daily, &queues, &*clock, at("2027-02-01T00:00:00Z")).await.unwrap();
    // Somebody sets the clock right. The next day is begun, and once.
    clock.set(at("2026-03-01T12:00:00Z"));
    let started = clock.now();
    clock.advance(1.days());
    begin_due(&daily, &queues, &*clock, started).await.unwrap();
    begin_due(&daily, &queues, &*clock, started).await.unwrap();
    let request = Receive { max: 100, lease: Duration::from_secs(60), wait: Duration::ZERO };
    clock.set(at("2028-01-01T00:00:00Z"));
    let begun = queues.receive(&queues::PROBE, request).await.unwrap();
    let mut bodies: Vec<_> = begun.iter().map(|one| one.body.as_str()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["2026-03-02T06:00:00Z", "2027-03-01T06:00:00Z"]);
}

#[tokio::test]
async fn of_many_nodes_one_begins_an_occurrence() {
    let clock = FakeClock::at(at("2026-03-01T12:00:00Z"));
    let database = Database::memory().await.unwrap();
    let queues = Arc::new(SqlQueues::new(database, Arc::clone(&clock) as Arc<_>));
    let started = at("2026-03-01T12:00:00Z");
    clock.advance(6.days());
    let nodes = (0..8).map(|_| {
        let (queues, clock) = (Arc::clone(&queues), Arc::clone(&clock));
        tokio::spawn(async move {
            begin_due(&schedule("0 6 * * *", "UTC"), &*queues, &*clock, started).await.unwrap()
        })
    });
    for node in nodes.collect::<Vec<_>>() {
        assert_eq!(node.await.unwrap(), Some(at("2026-03-08T06:00:00Z")));
    }
    let request = Receive { max: 100, lease: Duration::from_secs(60), wait: Duration::ZERO };
    let begun = queues.receive(&queues::PROBE, request).await.unwrap();
    let bodies: Vec<_> = begun.iter().map(|one| one.body.as_str()).collect();
    assert_eq!(bodies, ["2026-03-07T06:00:00Z"]);
}
