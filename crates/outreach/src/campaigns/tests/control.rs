//! Pausing, resuming, cancelling, sending again, and stopping by itself.

use tidings_jobs::contracts::{Contract as _, WebhookFanout};
use tidings_kernel::{Key, Update, queues, tables};
use tidings_testbed::{Bed, each_store};
use tidings_webhooks::{EventTypes, endpoints};

use super::{World, find};
use crate::campaigns::control::{ControlError, cancel, pause, resume, retry_failed};
use crate::campaigns::draft::{self, Draft};
use crate::campaigns::tallies::Kind;
use crate::campaigns::{CampaignId, Schedule, Status};

each_store!(
    a_paused_campaign_sends_nothing_until_it_is_resumed,
    a_pause_is_felt_wherever_the_campaign_is,
    a_cancelled_campaign_ends_all_that_waits,
    only_those_are_sent_to_again_where_it_failed,
    whoever_was_erased_is_not_counted_among_those_who_are_sent_to_again,
    too_many_bounces_stop_it_until_somebody_lets_it_go_on,
    whoever_lets_it_go_on_has_seen_one_reason_and_not_the_other,
    whoever_pauses_for_bounces_himself_leaves_the_brake_on,
    what_the_provider_refuses_stops_it_like_bounces,
    what_is_on_the_queue_as_a_whole_is_stopped,
    whoever_finishes_no_batch_is_stopped,
    what_cannot_be_done_is_refused_and_changes_nothing,
    each_change_is_in_the_history_with_its_reason,
    a_campaign_that_does_not_get_on_is_paused_with_the_reason,
    others_are_told_of_each_change,
);

async fn a_paused_campaign_sends_nothing_until_it_is_resumed(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    let paused = pause(&cx, find(id), Some("a typo".to_owned())).await.unwrap().campaign;
    assert_eq!((paused.status, paused.paused_in), (Status::Paused, Some(Status::Sending)));
    assert_eq!(paused.pause_reason.as_deref(), Some("a typo"));
    assert!(!pause(&cx, find(id), None).await.unwrap().changed);
    world.run().await;
    world.check(id).await;
    assert_eq!(world.sent(), 0);
    assert_eq!(world.count("queue_messages").await, 0, "its batch was handed back");
    let resumed = resume(&cx, find(id), None).await.unwrap().campaign;
    assert_eq!((resumed.status, resumed.pause_reason), (Status::Sending, None));
    assert!(!resume(&cx, find(id), None).await.unwrap().changed);
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (6, Status::Sent));
}

async fn a_pause_is_felt_wherever_the_campaign_is(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(20).await;
    let at = "2026-07-01T13:00:00Z".parse().unwrap();
    let schedule = Some(Schedule::At(at));
    let id = world.started(Draft { schedule, ..world.draft() }).await;
    pause(&cx, find(id), None).await.unwrap();
    world.advance_to("2026-07-01T12:30:00Z".parse().unwrap()).await;
    assert_eq!(world.count("timers").await, 0);
    let resumed = resume(&bed.cx().await, find(id), None).await.unwrap().campaign;
    assert_eq!(resumed.status, Status::Scheduled);
    world.advance_to(at).await;
    // One delivery does three pages of five.
    world.handle_step(id).await;
    world.handle_step(id).await;
    let written = world.count("campaign_recipients").await;
    assert!((1..20).contains(&written), "{written}");
    let paused = pause(&bed.cx().await, find(id), None).await.unwrap().campaign;
    assert_eq!(paused.paused_in, Some(Status::Snapshotting));
    world.run().await;
    assert_eq!(world.count("campaign_recipients").await, written);
    resume(&bed.cx().await, find(id), None).await.unwrap();
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (20, Status::Sent));
}

async fn a_cancelled_campaign_ends_all_that_waits(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(9).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    world.step().await;
    world.mail().await;
    world.advance_to("2026-07-01T12:00:01Z".parse().unwrap()).await;
    world.step().await;
    assert_eq!(world.sent(), 2);
    let cancelled = cancel(&cx, find(id), None).await.unwrap().campaign;
    assert_eq!(cancelled.status, Status::Cancelled);
    assert!(!cancel(&cx, find(id), None).await.unwrap().changed);
    world.run().await;
    world.check(id).await;
    let tallies = world.tallies(id).await;
    assert_eq!(tallies.get(Kind::Outcome, "sent"), 2);
    assert_eq!(tallies.get(Kind::Skipped, "campaign_cancelled"), 7);
    assert_eq!(world.count("campaign_batches WHERE done_at IS NULL").await, 0);
    assert_eq!(world.count("timers").await + world.count("queue_messages").await, 0);
    assert!(matches!(resume(&cx, find(id), None).await, Err(ControlError::Illegal { .. })));
}

async fn only_those_are_sent_to_again_where_it_failed(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    world.people(["fail1@example.org".into(), "lost@example.org".into()]).await;
    world.people((2..7).map(|number| format!("fail{number}@example.org"))).await;
    let id = world.started(world.draft()).await;
    world.run().await;
    world.check(id).await;
    let tallies = world.tallies(id).await;
    assert_eq!(tallies.get(Kind::Failed, "refused"), 6);
    assert_eq!(tallies.get(Kind::Outcome, "uncertain"), 1);
    world.run_sql("UPDATE campaign_recipients SET email = 'x' || email WHERE email <> 'fail1@example.org' AND status = 'failed'").await;
    world.mailer.sent.lock().unwrap().clear();
    let retried = retry_failed(&cx, find(id), None).await.unwrap();
    assert_eq!((retried.recipients, retried.campaign.status), (6, Status::Sending));
    world.run().await;
    world.check(id).await;
    assert_eq!(world.sent(), 6);
    let tallies = world.tallies(id).await;
    assert_eq!(tallies.get(Kind::Outcome, "sent"), 8);
    assert_eq!(tallies.get(Kind::Failed, "refused"), 1);
    assert_eq!(tallies.get(Kind::Outcome, "uncertain"), 1, "nobody knows, so it is not sent again");
    assert_eq!(world.status(id).await, Status::Sent);
    world
        .run_sql("UPDATE campaign_recipients SET email = 'x' || email WHERE status = 'failed'")
        .await;
    retry_failed(&cx, find(id), None).await.unwrap();
    world.run().await;
    let none = retry_failed(&cx, find(id), None).await.unwrap();
    assert_eq!((none.recipients, none.campaign.status), (0, Status::Sent));
    // Whoever failed and is erased cannot be sent to.
    let erase = "UPDATE campaign_recipients SET status = 'failed', tallied = 'failed', sent_at = NULL, email = NULL
                 WHERE id = (SELECT MIN(id) FROM campaign_recipients)";
    assert_eq!(world.run_sql(erase).await, 1);
    let none = retry_failed(&cx, find(id), None).await.unwrap();
    assert_eq!((none.recipients, none.campaign.status), (0, Status::Sent));
}

async fn whoever_was_erased_is_not_counted_among_those_who_are_sent_to_again(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(60).await;
    world.people((1..=3).map(|number| format!("fail{number}@example.org"))).await;
    let id = world.started(world.draft()).await;
    world.run().await;
    assert_eq!(world.tallies(id).await.get(Kind::Failed, "refused"), 3);
    let erase = "UPDATE campaign_recipients SET email = NULL WHERE email = 'fail2@example.org'";
    assert_eq!(world.run_sql(erase).await, 1);
    let mended = "UPDATE campaign_recipients SET email = 'x' || email WHERE email LIKE 'fail%'";
    assert_eq!(world.run_sql(mended).await, 2);
    world.mailer.sent.lock().unwrap().clear();
    assert_eq!(retry_failed(&cx, find(id), None).await.unwrap().recipients, 2);
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (2, Status::Sent));
    assert_eq!(world.tallies(id).await.get(Kind::Failed, "refused"), 1, "he stays as he was");
}

pub(super) async fn bounces(world: &World<'_>, id: CampaignId, count: i64) {
    came(world, id, ("bounceCount", count)).await;
}

async fn came(world: &World<'_>, id: CampaignId, (counter, count): (&str, i64)) {
    let key = Key::new(format!("STATS#{}", world.campaign(id).await.key()), "COUNTERS");
    let items = world.bed.cx().await.items().await.unwrap();
    items.update(Update::new(&tables::MAIN, key).add(counter, count)).await.unwrap();
}

async fn too_many_bounces_stop_it_until_somebody_lets_it_go_on(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(20).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    world.run().await;
    bounces(&world, id, 1).await;
    bed.advance(1).await;
    world.run().await;
    assert_eq!(world.status(id).await, Status::Sending, "one of twenty is not too many");
    bounces(&world, id, 1).await;
    let before = world.sent();
    bed.advance(1).await;
    world.run().await;
    world.check(id).await;
    let stopped = world.campaign(id).await;
    assert_eq!((stopped.status, stopped.paused_in), (Status::Paused, Some(Status::Sending)));
    assert_eq!((stopped.pause_reason.as_deref(), world.sent()), (Some("bounces"), before));
    assert_eq!(world.count("timers").await, 0);
    resume(&cx, find(id), None).await.unwrap();
    for _ in 0..20 {
        bed.advance(1).await;
        world.run().await;
    }
    assert_eq!((world.sent(), world.status(id).await), (20, Status::Sent));
}

async fn whoever_lets_it_go_on_has_seen_one_reason_and_not_the_other(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(20).await;
    let (bounced, complained) = (("bounceCount", 2), ("complaintCount", 1));
    for (key, first, second) in [("a", bounced, complained), ("b", complained, bounced)] {
        let draft = Draft { rate_per_hour: Some(3_600), ..world.draft() };
        let draft = Draft { key: Some(key.to_owned()), ..draft };
        let id = world.started(draft).await;
        world.run().await;
        for counter in [first, second] {
            came(&world, id, counter).await;
            bed.advance(1).await;
            world.run().await;
            let stopped = world.campaign(id).await;
            let reason = if counter == bounced { "bounces" } else { "complaints" };
            let told = (stopped.status, stopped.pause_reason.as_deref());
            assert_eq!(told, (Status::Paused, Some(reason)), "{key}");
            resume(&cx, find(id), None).await.unwrap();
        }
        for _ in 0..20 {
            bed.advance(1).await;
            world.run().await;
        }
        assert_eq!(world.status(id).await, Status::Sent, "both are seen");
    }
}

async fn whoever_pauses_for_bounces_himself_leaves_the_brake_on(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(20).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    world.run().await;
    for reason in ["bounces", "complaints"] {
        pause(&cx, find(id), Some(reason.to_owned())).await.unwrap();
        resume(&cx, find(id), None).await.unwrap();
    }
    for (counter, reason) in [("bounceCount", "bounces"), ("complaintCount", "complaints")] {
        came(&world, id, (counter, 2)).await;
        bed.advance(1).await;
        world.run().await;
        let stopped = world.campaign(id).await;
        let told = (stopped.status, stopped.pause_reason.as_deref());
        assert_eq!(told, (Status::Paused, Some(reason)));
        resume(&cx, find(id), None).await.unwrap();
    }
}

async fn what_the_provider_refuses_stops_it_like_bounces(bed: &Bed) {
    let world = World::new(bed).await;
    world.people((1..=4).map(|number| format!("fail{number}@example.org"))).await;
    world.crowd(40).await;
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    for _ in 0..5 {
        world.run().await;
        bed.advance(1).await;
    }
    world.check(id).await;
    let stopped = world.campaign(id).await;
    assert_eq!(
        (stopped.status, stopped.pause_reason.as_deref()),
        (Status::Paused, Some("bounces"))
    );
    assert!(world.sent() < 10, "{}", world.sent());
}

/// Without a rate, all of a small campaign is on the queue before anything comes back.
async fn what_is_on_the_queue_as_a_whole_is_stopped(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(250).await;
    for (counter, count, reason) in
        [("bounceCount", 13, "bounces"), ("complaintCount", 1, "complaints")]
    {
        let id = world.started(world.draft()).await;
        while world.status(id).await != Status::Sending {
            world.step().await;
        }
        let open = format!("campaign_batches WHERE campaign_id = {id} AND fed_at IS NULL");
        assert_eq!(world.count(&open).await, 0, "all of it is on the queue");
        came(&world, id, (counter, count)).await;
        let before = world.sent();
        world.run().await;
        world.check(id).await;
        let stopped = world.campaign(id).await;
        assert_eq!(stopped.pause_reason.as_deref(), Some(reason));
        assert_eq!(world.sent() - before, 100, "what was under way goes out, and nothing else");
        resume(&bed.cx().await, find(id), None).await.unwrap();
        world.run().await;
        world.check(id).await;
        assert_eq!((world.sent() - before, world.status(id).await), (250, Status::Sent));
    }
}

async fn whoever_finishes_no_batch_is_stopped(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(20).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    bounces(&world, id, 2).await;
    bed.advance(1).await;
    world.step().await;
    let stopped = world.campaign(id).await;
    assert_eq!(
        (stopped.status, stopped.pause_reason.as_deref()),
        (Status::Paused, Some("bounces"))
    );
    world.run().await;
    assert_eq!(world.sent(), 0);
}

async fn what_cannot_be_done_is_refused_and_changes_nothing(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let id = world.drafted(world.draft()).await;
    let before = world.campaign(id).await;
    let refused = [
        pause(&cx, find(id), None).await.err(),
        resume(&cx, find(id), None).await.err(),
        retry_failed(&cx, find(id), None).await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(ControlError::Illegal { .. })), "{error:?}");
    }
    assert!(matches!(pause(&cx, find(id), Some("x".repeat(501))).await, Err(ControlError::Reason)));
    let mut after = world.campaign(id).await;
    after.times.updated_at = before.times.updated_at;
    assert_eq!(after, before);
    assert_eq!(world.count("campaign_moves").await, 0);
    let missing = CampaignId::from(id.get() + 1);
    assert!(matches!(cancel(&cx, find(missing), None).await, Err(ControlError::Missing(_))));
    let stranger = super::Find { id, client: Some((world.client.get() + 1).into()) };
    assert!(matches!(cancel(&cx, stranger, None).await, Err(ControlError::Missing(_))));
    assert_eq!(cancel(&cx, find(id), None).await.unwrap().campaign.status, Status::Cancelled);
}

async fn each_change_is_in_the_history_with_its_reason(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.people(["fail@example.org".to_owned()]).await;
    let why = |text: &str| Some(text.to_owned());
    let id = world.started(world.draft()).await;
    pause(&cx, find(id), why("a typo")).await.unwrap();
    resume(&cx, find(id), why("it is no typo")).await.unwrap();
    world.run().await;
    retry_failed(&cx, find(id), why("it was their fault")).await.unwrap();
    cancel(&cx, find(id), why("enough")).await.unwrap();
    let (mut moves, mut after) = (Vec::new(), None);
    for expected in [3, 3, 1] {
        let page = draft::moves(&cx, find(id), after, 3.try_into().unwrap()).await.unwrap();
        assert_eq!(page.items.len(), expected);
        moves.extend(page.items);
        after = page.next;
    }
    assert_eq!(after, None);
    let told: Vec<_> = moves
        .iter()
        .rev()
        .map(|one| format!("{} {}", one.status, one.reason.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        told,
        [
            "snapshotting -",
            "paused a typo",
            "snapshotting it is no typo",
            "sending -",
            "sent -",
            "sending it was their fault",
            "cancelled enough"
        ]
    );
    let long = || Some("x".repeat(501));
    assert!(matches!(resume(&cx, find(id), long()).await, Err(ControlError::Reason)));
    assert!(matches!(cancel(&cx, find(id), long()).await, Err(ControlError::Reason)));
    assert!(matches!(retry_failed(&cx, find(id), long()).await, Err(ControlError::Reason)));
}

/// A step that can never be done, because what is stored cannot be read.
async fn a_campaign_that_does_not_get_on_is_paused_with_the_reason(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(2).await;
    let id = world.started(world.draft()).await;
    world.run_sql("UPDATE campaigns SET variants = '[1]'").await;
    let tries = queues::CAMPAIGN_STEPS.max_receives;
    for left in (0..tries).rev() {
        assert_eq!(world.status_text(id).await, "snapshotting", "{left} tries are left");
        world.run().await;
        bed.advance(20).await;
    }
    assert_eq!(world.status_text(id).await, "paused");
    world.run_sql("UPDATE campaigns SET variants = '[]'").await;
    let stuck = world.campaign(id).await.pause_reason.unwrap();
    assert!(stuck.starts_with("stuck: campaign ") && stuck.contains("could not go on"), "{stuck}");
    resume(&cx, find(id), None).await.unwrap();
    world.run().await;
    assert_eq!((world.sent(), world.status(id).await), (2, Status::Sent));
}

async fn others_are_told_of_each_change(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(2).await;
    let create = endpoints::Create {
        url: "https://example.org/hook".parse().unwrap(),
        description: None,
        event_types: EventTypes::All,
    };
    let targets = tidings_webhooks::Targets::new(true);
    endpoints::create(&cx, &targets, create).await.unwrap();
    let id = world.started(world.draft()).await;
    pause(&cx, find(id), Some("wait".to_owned())).await.unwrap();
    resume(&cx, find(id), None).await.unwrap();
    world.run().await;
    let other = world.drafted(world.draft()).await;
    cancel(&cx, find(other), None).await.unwrap();
    let sql = format!(
        "SELECT body FROM queue_messages WHERE queue = '{}' ORDER BY id",
        queues::WEBHOOK_FANOUT
    );
    let mut told = Vec::new();
    for row in world.rows(&sql).await {
        let told_of = WebhookFanout::parse(row.text(0).unwrap()).unwrap();
        let reason = told_of.data.get("reason").and_then(|reason| reason.as_str());
        told.push(format!("{} {}", told_of.event_type, reason.unwrap_or("-")));
    }
    told.sort();
    let expected = [
        "campaign.cancelled -",
        "campaign.finished -",
        "campaign.paused wait",
        "campaign.started -",
    ];
    assert_eq!(told, expected);
}
