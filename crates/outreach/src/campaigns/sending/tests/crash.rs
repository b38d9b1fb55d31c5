//! The worker ends at every place where it can, and the message comes again.

use std::task::Poll;

use tidings_jobs::Outcome;
use tidings_testbed::{Bed, dying_access, each_store, until_turn};

use super::{AT_ONCE, Sending, World, delivery, worker_on};
use crate::campaigns::batches::batch_id;
use crate::campaigns::tallies::Kind as Tally;

each_store!(
    wherever_a_worker_ends_nothing_is_sent_twice_and_nothing_is_lost,
    at_whichever_answer_a_worker_ends_only_those_with_the_provider_are_uncertain,
    a_claim_holds_until_it_is_over,
    whichever_call_of_the_items_fails_no_answer_is_lost,
    who_was_moved_to_another_batch_is_not_claimed_with_the_old_one,
);

/// The message comes again, as often as it must.
async fn until_done(sending: &Sending<'_, '_>, case: &str) {
    let mut deliveries = 0;
    while sending.world.handle(&sending.messages[0]).await != Outcome::Done {
        deliveries += 1;
        assert!(deliveries < 10, "{case}: it comes to no end");
        sending.world.bed.clock.advance(jiff::Span::new().seconds(70));
    }
}

pub(super) async fn begin_again(world: &World<'_>) {
    for table in [
        "campaign_moves",
        "campaign_tallies",
        "campaign_batches",
        "campaign_recipients",
        "campaigns",
    ] {
        world.run(&format!("DELETE FROM {table}")).await;
    }
    world.provider.taken.lock().unwrap().clear();
    *world.provider.asked.lock().unwrap() = 0;
}

async fn wherever_a_worker_ends_nothing_is_sent_twice_and_nothing_is_lost(bed: &Bed) {
    let world = World::new(bed, 7).await;
    let (mut counted, mut lines) = (0, 0);
    // How often a worker waits differs a little from run to run.
    for turns in 0..40 {
        let sending = world.campaign(7).await;
        let (handler, first) = (world.worker.handler(), delivery(&sending.messages[0]));
        until_turn(handler.handle(&first), turns).await;
        let case = format!("after {turns} turns");
        until_done(&sending, &case).await;
        let statuses = sending.statuses().await;
        let sent = statuses.get("sent").copied().unwrap_or(0);
        let uncertain = statuses.get("uncertain").copied().unwrap_or(0);
        assert_eq!(sent + uncertain, 7, "{case}: {statuses:?}");
        assert!(uncertain <= AT_ONCE as i64, "{case}: {statuses:?}");
        let taken = world.provider.taken();
        let mut once = taken.clone();
        once.dedup();
        assert_eq!(taken, once, "{case}");
        assert!((sent..=7).contains(&(taken.len() as i64)), "{case}");
        assert_eq!(sending.tallies().await, sending.recount().await, "{case}");
        // Each that is known to be sent has its line, and is counted.
        let mut all = 0;
        for (_, email) in &world.people {
            all += world.log(email).await.len() as i64;
        }
        assert_eq!(all - lines, sent, "{case}");
        assert_eq!(world.sends().await - counted, sent, "{case}");
        (lines, counted) = (all, world.sends().await);
        begin_again(&world).await;
    }
}

async fn at_whichever_answer_a_worker_ends_only_those_with_the_provider_are_uncertain(bed: &Bed) {
    let world = World::new(bed, 10).await;
    for answers in 1..=10 {
        let sending = world.campaign(10).await;
        let (handler, first) = (world.worker.handler(), delivery(&sending.messages[0]));
        let mut working = Box::pin(handler.handle(&first));
        // It ends as soon as the provider has taken so many.
        std::future::poll_fn(|context| {
            let done = working.as_mut().poll(context).is_ready();
            let taken = world.provider.taken.lock().unwrap().len();
            if done || taken >= answers { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(working);
        let handed = sending.statuses().await.get("claimed").copied().unwrap_or(0);
        assert!((1..=AT_ONCE as i64).contains(&handed), "after {answers}: {handed}");
        until_done(&sending, &format!("after {answers} answers")).await;
        let tallies = sending.tallies().await;
        assert_eq!(tallies.get(Tally::Outcome, "uncertain"), handed, "after {answers}");
        assert_eq!(tallies.get(Tally::Outcome, "sent"), 10 - handed, "after {answers}");
        let mut taken = world.provider.taken();
        taken.dedup();
        assert_eq!(taken.len(), world.provider.taken.lock().unwrap().len(), "after {answers}");
        assert_eq!(tallies, sending.recount().await);
        begin_again(&world).await;
    }
}

async fn a_claim_holds_until_it_is_over(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    let now = bed.access.now().as_millisecond();
    let claim = |email: &str, handed: &str| {
        format!(
            "UPDATE campaign_recipients SET status = 'claimed', attempts = 1, claimed_by = 'n', handed_at = {handed},
             claimed_until = {} WHERE email = '{email}'",
            now + 120_000
        )
    };
    world.run(&claim("p001@example.org", &now.to_string())).await;
    world.run(&claim("p002@example.org", "NULL")).await;
    assert!(matches!(world.handle(&sending.messages[0]).await, Outcome::Wait { .. }));
    assert_eq!(world.provider.taken(), ["p003@example.org"]);
    bed.clock.advance(jiff::Span::new().minutes(2));
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p002@example.org", "p003@example.org"]);
    let status = sending.column("p001@example.org", "status").await;
    assert_eq!(status.as_deref(), Some("uncertain"), "he was handed over");
    sending.check_end("after the claims were over").await;
}

async fn whichever_call_of_the_items_fails_no_answer_is_lost(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let cx = bed.cx().await;
    // Those that read people and what came back, and the first that write the log.
    for place in 0..8 {
        let sending = world.campaign(3).await;
        let access = dying_access(bed, &cx, place, false);
        let broken = worker_on(access, &world.provider, "node-2").await;
        let outcome = broken.handler().handle(&delivery(&sending.messages[0])).await;
        let case = format!("at call {place}: {outcome:?}");
        assert!(matches!(outcome, Outcome::Wait { .. }), "{case}");
        until_done(&sending, &case).await;
        assert_eq!(sending.statuses().await.get("sent"), Some(&3), "{case}");
        assert_eq!(world.provider.taken().len(), 3, "{case}");
        begin_again(&world).await;
    }
}

/// A pause and another worker come between what was loaded and the claim, and the campaign goes on.
async fn who_was_moved_to_another_batch_is_not_claimed_with_the_old_one(bed: &Bed) {
    let world = World::new(bed, AT_ONCE + 2).await;
    let sending = world.campaign(AT_ONCE + 2).await;
    // While the first handful is with the provider, the rest is moved.
    let campaign = sending.campaign;
    let moved = world.people[AT_ONCE..].iter().map(|(_, email)| format!("'{email}'"));
    let moved = moved.collect::<Vec<_>>().join(", ");
    let ids = world
        .rows(&format!("SELECT id FROM campaign_recipients WHERE email IN ({moved}) ORDER BY id"))
        .await;
    let ids: Vec<i64> = ids.iter().map(|row| row.int(0).unwrap()).collect();
    let (now, size) = (bed.access.now().as_millisecond(), ids.len());
    let (other, workspace) = (batch_id(campaign, 2), bed.cx().await.workspace_id().get());
    let ids = serde_json::json!(ids);
    let hook = move |asked: usize| {
        match asked {
        1 => vec![
            format!("UPDATE campaign_recipients SET batch_id = '{other}' WHERE email IN ({moved})"),
            format!(
                "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, due_at)
                 VALUES ({workspace}, {campaign}, 2, '{ids}', {size}, {now})"
            ),
            format!("UPDATE campaigns SET batch_count = 2 WHERE id = {campaign}"),
        ],
        _ => Vec::new(),
    }
    };
    let database = bed.access.database().clone();
    *world.provider.meanwhile.lock().unwrap() = Some((database, Box::new(hook)));
    world.handle(&sending.messages[0]).await;
    assert_eq!(world.provider.taken().len(), AT_ONCE, "the others are of another batch");
}
