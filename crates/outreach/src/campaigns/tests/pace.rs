//! When batches go: rate, warm-up, window, time zones, and starts that are late.

use jiff::{Timestamp, ToSpan as _};
use tidings_delivery::eligibility::settings::{self, Sending};
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::batches::WINDOW;
use crate::campaigns::control::{Start, When, cancel, resume, start};
use crate::campaigns::draft::{self, Draft};
use crate::campaigns::{Schedule, Status};

each_store!(
    a_rate_is_kept_whoever_looks,
    a_warm_up_is_kept_to_the_message,
    no_more_than_a_window_is_on_the_queue,
    each_gets_it_at_that_time_where_he_is,
    where_the_time_has_passed_it_goes_at_once,
    a_start_that_was_missed_is_asked_about,
    what_was_missed_can_be_put_off_changed_and_started,
    a_local_time_is_missed_only_where_somebody_is,
    a_zone_that_is_missed_on_the_way_is_asked_about,
    a_zone_that_is_missed_while_another_is_on_the_queue_is_asked_about,
    a_zone_that_waits_for_room_on_the_queue_is_not_missed,
    a_start_that_is_looked_at_too_early_is_not_lost,
    a_schedule_can_be_moved,
    nothing_is_looked_at_before_its_time,
);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

async fn a_rate_is_kept_whoever_looks(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(12).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    let begun = bed.access.now();
    for second in 0..=12 {
        world.advance_to(begun + second.seconds()).await;
        // However many look, on however many nodes.
        let all = tokio::join!(world.handle_step(id), world.handle_step(id));
        drop(all);
        world.run().await;
        let allowed = usize::try_from(second + 2).unwrap().min(12);
        assert_eq!(world.sent(), allowed, "after {second} seconds");
        world.check(id).await;
    }
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn a_warm_up_is_kept_to_the_message(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(11).await;
    let id = world.started(Draft { warmup: vec![3, 5], ..world.draft() }).await;
    let begun = bed.access.now();
    for (hour, sent) in [(0, 3), (1, 3), (23, 3), (24, 8), (47, 8), (48, 11)] {
        world.advance_to(begun + i64::from(hour).hours()).await;
        world.handle_step(id).await;
        world.run().await;
        world.check(id).await;
        assert_eq!(world.sent(), sent, "after {hour} hours");
    }
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn no_more_than_a_window_is_on_the_queue(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(40).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    world.step().await;
    world.run_sql("UPDATE campaigns SET rate_per_hour = NULL").await;
    let on_queue = "queue_messages WHERE queue = 'campaign-email'";
    for _ in 0..3 {
        world.handle_step(id).await;
        assert_eq!(world.count(on_queue).await, WINDOW);
    }
    world.mail().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (40, Status::Sent));
}

async fn zones(world: &World<'_>) {
    for (name, zone) in [
        ("auckland", Some("Pacific/Auckland")),
        ("berlin", Some("Europe/Berlin")),
        ("angeles", Some("America/Los_Angeles")),
        ("unknown", None),
        ("wrong", Some("Mars/Olympus")),
    ] {
        world.people([format!("{name}@example.org")]).await;
        let Some(zone) = zone else { continue };
        let sql = format!(
            "UPDATE leads SET timezone = '{zone}' WHERE id =
             (SELECT lead_id FROM channel_identities WHERE value = '{name}@example.org')"
        );
        world.run_sql(&sql).await;
    }
    let zone = Some("America/New_York".parse().unwrap());
    let sending = Sending { quiet_zone: zone, ..Sending::default() };
    settings::put(&world.bed.cx().await, sending).await.unwrap();
}

async fn sent_to(world: &World<'_>, id: crate::campaigns::CampaignId) -> Vec<String> {
    let recipients = world.recipients(id).await;
    let sent = recipients.into_iter().filter(|(_, status)| status == "sent");
    sent.map(|(email, _)| email.replace("@example.org", "")).collect()
}

async fn each_gets_it_at_that_time_where_he_is(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    let schedule = Some(Schedule::Local("2026-07-02T09:00".parse().unwrap()));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    assert_eq!(world.status(id).await, Status::Scheduled);
    world.run().await;
    assert_eq!(world.count("campaign_recipients").await, 0);
    for (time, sent) in [
        ("2026-07-01T19:00:00Z", vec![]),
        ("2026-07-01T20:59:00Z", vec![]),
        ("2026-07-01T21:00:00Z", vec!["auckland"]),
        ("2026-07-02T07:00:00Z", vec!["auckland", "berlin"]),
        ("2026-07-02T13:00:00Z", vec!["auckland", "berlin", "unknown", "wrong"]),
        ("2026-07-02T15:59:00Z", vec!["auckland", "berlin", "unknown", "wrong"]),
        ("2026-07-02T16:00:00Z", vec!["angeles", "auckland", "berlin", "unknown", "wrong"]),
    ] {
        world.advance_to(at(time)).await;
        world.run().await;
        world.check(id).await;
        assert_eq!(sent_to(&world, id).await, sent, "at {time}");
    }
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn where_the_time_has_passed_it_goes_at_once(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    bed.clock.set(at("2026-07-02T08:00:00Z"));
    let schedule = Some(Schedule::Local("2026-07-02T09:00".parse().unwrap()));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    world.run().await;
    assert_eq!(sent_to(&world, id).await, ["auckland", "berlin"]);
    for time in ["2026-07-02T13:00:00Z", "2026-07-02T16:00:00Z"] {
        world.advance_to(at(time)).await;
        world.run().await;
    }
    assert_eq!((world.sent(), world.status(id).await), (5, Status::Sent));
    // Whoever says now means now.
    let id = world.drafted(Draft { schedule, ..world.draft() }).await;
    bed.clock.set(at("2026-07-01T12:00:00Z"));
    let now = Start { campaign: find(id), when: Some(When::Now) };
    start(&bed.cx().await, now).await.unwrap();
    world.run().await;
    assert_eq!(sent_to(&world, id).await.len(), 5);
}

async fn a_start_that_was_missed_is_asked_about(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    let schedule = Some(Schedule::At(at("2026-07-01T13:00:00Z")));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    let late = world.started(Draft { schedule, ..world.draft() }).await;
    // An hour late is not too late.
    bed.clock.set(at("2026-07-01T14:00:00Z"));
    world.handle_step(id).await;
    bed.clock.set(at("2026-07-01T14:00:01Z"));
    bed.advance(0).await;
    world.run().await;
    assert_eq!(world.status(id).await, Status::Sent);
    let missed = world.campaign(late).await;
    assert_eq!((missed.status, missed.paused_in), (Status::Paused, Some(Status::Scheduled)));
    assert_eq!(missed.pause_reason.as_deref(), Some("missed_start"));
    let resumed = resume(&bed.cx().await, find(late), None).await.unwrap().campaign;
    assert_eq!((resumed.status, resumed.pause_reason), (Status::Snapshotting, None));
    world.run().await;
    assert_eq!((world.sent(), world.status(late).await), (4, Status::Sent));
}

async fn what_was_missed_can_be_put_off_changed_and_started(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    let schedule = Some(Schedule::At(at("2026-07-01T13:00:00Z")));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.started(Draft { schedule, ..world.draft() }).await);
    }
    world.advance_to(at("2026-07-01T16:00:00Z")).await;
    world.run().await;
    let cx = bed.cx().await;
    for id in &ids {
        assert_eq!(world.campaign(*id).await.pause_reason.as_deref(), Some("missed_start"));
        let again = Start { campaign: find(*id), when: None };
        assert!(!start(&cx, again).await.unwrap().changed, "the same again is no answer to it");
    }
    // Put off.
    let then = Some(When::Then(Schedule::At(at("2026-07-01T18:00:00Z"))));
    let later = start(&cx, Start { campaign: find(ids[0]), when: then }).await.unwrap();
    assert_eq!((later.campaign.status, later.changed), (Status::Scheduled, true));
    // Started.
    let now = start(&cx, Start { campaign: find(ids[1]), when: Some(When::Now) }).await.unwrap();
    assert_eq!((now.campaign.status, now.changed), (Status::Snapshotting, true));
    // Changed: it stays paused until somebody lets it go on.
    let other = Draft { name: "Summer".to_owned(), schedule: then_of("19:00"), ..world.draft() };
    let changed = draft::update(&cx, find(ids[2]), other).await.unwrap();
    assert_eq!((changed.status, changed.name.as_str()), (Status::Paused, "Summer"));
    world.run().await;
    assert_eq!(world.sent(), 2);
    let resumed = resume(&cx, find(ids[2]), None).await.unwrap().campaign;
    assert_eq!(resumed.status, Status::Scheduled);
    for (time, sent) in [("18:00", 4), ("19:00", 6)] {
        world.advance_to(at(&format!("2026-07-01T{time}:00Z"))).await;
        world.run().await;
        assert_eq!(world.sent(), sent, "at {time}");
    }
    for id in ids {
        world.check(id).await;
        assert_eq!(world.status(id).await, Status::Sent);
    }
}

fn then_of(time: &str) -> Option<Schedule> {
    Some(Schedule::At(at(&format!("2026-07-01T{time}:00Z"))))
}

async fn a_local_time_is_missed_only_where_somebody_is(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    let schedule = Some(Schedule::Local("2026-07-02T09:00".parse().unwrap()));
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(world.started(Draft { schedule, ..world.draft() }).await);
    }
    // It is nine where a day begins first since two hours and a half, and in Auckland since half an hour.
    bed.clock.set(at("2026-07-01T21:30:00Z"));
    world.handle_step(ids[0]).await;
    assert_eq!(world.status(ids[0]).await, Status::Snapshotting);
    bed.clock.set(at("2026-07-01T22:00:01Z"));
    world.handle_step(ids[1]).await;
    let missed = world.campaign(ids[1]).await;
    assert_eq!((missed.status, missed.paused_in), (Status::Paused, Some(Status::Scheduled)));
    assert_eq!(missed.pause_reason.as_deref(), Some("missed_start"));
}

async fn a_zone_that_is_missed_on_the_way_is_asked_about(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    let schedule = Some(Schedule::Local("2026-07-02T09:00".parse().unwrap()));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    world.advance_to(at("2026-07-01T19:00:00Z")).await;
    world.run().await;
    world.advance_to(at("2026-07-01T21:00:00Z")).await;
    world.run().await;
    // No server runs until it is nearly noon in Berlin.
    world.advance_to(at("2026-07-02T09:45:00Z")).await;
    world.run().await;
    world.check(id).await;
    let missed = world.campaign(id).await;
    assert_eq!((missed.status, missed.paused_in), (Status::Paused, Some(Status::Sending)));
    assert_eq!(missed.pause_reason.as_deref(), Some("missed_start"));
    assert_eq!(sent_to(&world, id).await, ["auckland"]);
    resume(&bed.cx().await, find(id), None).await.unwrap();
    world.run().await;
    assert_eq!(sent_to(&world, id).await, ["auckland", "berlin"]);
    // An hour late is not too late.
    world.advance_to(at("2026-07-02T14:00:00Z")).await;
    world.run().await;
    assert_eq!(sent_to(&world, id).await, ["auckland", "berlin", "unknown", "wrong"]);
    world.advance_to(at("2026-07-02T16:00:00Z")).await;
    world.run().await;
    world.check(id).await;
    assert_eq!(world.status(id).await, Status::Sent);
}

/// On the queue at nine in Auckland, when all servers went away.
async fn on_the_queue(world: &World<'_>) -> crate::campaigns::CampaignId {
    let schedule = Some(Schedule::Local("2026-07-02T09:00".parse().unwrap()));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    world.advance_to(at("2026-07-01T19:00:00Z")).await;
    world.run().await;
    world.advance_to(at("2026-07-01T21:00:00Z")).await;
    while world.step().await > 0 {}
    assert_eq!(world.count("queue_messages WHERE queue = 'campaign-email'").await, 1);
    id
}

/// Leaves no room on the queue for others.
async fn crowd_the_queue(world: &World<'_>, id: crate::campaigns::CampaignId) {
    let (workspace, number) = (world.bed.cx().await.workspace_id(), 1_000_i64);
    let fed_at = at("2026-07-03T00:00:00Z").as_millisecond();
    for number in number + 1..number + WINDOW {
        let sql = format!(
            "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, due_at, fed_at)
             VALUES ({}, {id}, {number}, '[]', 0, 1, {fed_at})",
            workspace.get()
        );
        world.run_sql(&sql).await;
    }
}

async fn make_room(world: &World<'_>) {
    world.run_sql("DELETE FROM campaign_batches WHERE number > 1000").await;
}

/// Whoever comes back first: who looks at the campaign, or who sends what was on the queue. And also if there is no room on
/// the queue for those who are missed.
async fn a_zone_that_is_missed_while_another_is_on_the_queue_is_asked_about(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    for case in ["a look", "a batch", "a look without room"] {
        bed.clock.set(at("2026-07-01T12:00:00Z"));
        let id = on_the_queue(&world).await;
        if case == "a look without room" {
            crowd_the_queue(&world, id).await;
        }
        world.advance_to(at("2026-07-02T09:45:00Z")).await;
        match case {
            "a batch" => world.mail().await,
            _ => world.step().await,
        };
        make_room(&world).await;
        let missed = world.campaign(id).await;
        assert_eq!(missed.pause_reason.as_deref(), Some("missed_start"), "{case}");
        world.run().await;
        world.check(id).await;
        assert!(!sent_to(&world, id).await.contains(&"berlin".to_owned()), "{case}");
        cancel(&bed.cx().await, find(id), None).await.unwrap();
        world.run().await;
    }
}

async fn a_zone_that_waits_for_room_on_the_queue_is_not_missed(bed: &Bed) {
    let world = World::new(bed).await;
    zones(&world).await;
    let id = on_the_queue(&world).await;
    crowd_the_queue(&world, id).await;
    let mut now = at("2026-07-01T21:00:00Z");
    while now < at("2026-07-02T17:00:00Z") {
        now += 30.minutes();
        world.advance_to(now).await;
        assert!(world.step().await > 0, "somebody looks");
    }
    assert_eq!(world.sent(), 0);
    make_room(&world).await;
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (5, Status::Sent));
}

/// The clock of the node that fired the timer is ahead of the one that looks.
async fn a_start_that_is_looked_at_too_early_is_not_lost(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    let schedule = Some(Schedule::At(at("2026-07-01T13:00:00Z")));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    world.advance_to(at("2026-07-01T13:00:00Z")).await;
    assert_eq!(world.count("timers").await, 0);
    bed.clock.set(at("2026-07-01T12:59:59Z"));
    world.handle_step(id).await;
    assert_eq!(world.status(id).await, Status::Scheduled);
    world.run_sql("DELETE FROM queue_messages").await;
    world.advance_to(at("2026-07-01T13:00:01Z")).await;
    world.run().await;
    assert_eq!((world.sent(), world.status(id).await), (2, Status::Sent));
}

async fn a_schedule_can_be_moved(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(2).await;
    let id = world.drafted(world.draft()).await;
    let then = |text| Start { campaign: find(id), when: Some(When::Then(Schedule::At(at(text)))) };
    for (text, changed) in [
        ("2026-07-01T13:00:00Z", true),
        ("2026-07-01T13:00:00Z", false),
        ("2026-07-01T15:00:00Z", true),
    ] {
        assert_eq!(start(&cx, then(text)).await.unwrap().changed, changed);
    }
    let again = Start { campaign: find(id), when: None };
    assert!(!start(&cx, again).await.unwrap().changed, "asking again does not start it early");
    world.advance_to(at("2026-07-01T13:30:00Z")).await;
    world.run().await;
    assert_eq!(world.status(id).await, Status::Scheduled);
    world.advance_to(at("2026-07-01T15:00:00Z")).await;
    world.run().await;
    assert_eq!(world.status(id).await, Status::Sent);
    let cx = bed.cx().await;
    assert!(!start(&cx, then("2026-07-01T15:00:00Z")).await.unwrap().changed);
    assert!(start(&cx, then("2026-07-01T18:00:00Z")).await.is_err());
}

async fn nothing_is_looked_at_before_its_time(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(3).await;
    let id = world.started(Draft { rate_per_hour: Some(1), ..world.draft() }).await;
    let mut looks = 0;
    for hour in 0..4 {
        world.advance_to(at("2026-07-01T12:00:00Z") + i64::from(hour).hours()).await;
        loop {
            let steps = world.step().await;
            looks += steps;
            if steps + world.mail().await == 0 {
                break;
            }
        }
        let waiting = world.count("queue_messages").await;
        assert_eq!(waiting, 0, "after {hour} hours");
    }
    assert_eq!((world.sent(), world.status(id).await), (3, Status::Sent));
    assert_eq!(looks, 3, "one for the start, and one for each of the two that had to wait");
    assert_eq!(world.count("timers").await, 0);
}
