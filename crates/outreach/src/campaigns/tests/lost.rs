//! Batches whose message is gone, wherever it went.

use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::control::{cancel, pause, resume};
use crate::campaigns::draft::Draft;
use crate::campaigns::tallies::Kind;
use crate::campaigns::{RecipientId, Status, batches};

each_store!(
    a_lost_message_comes_again_after_a_while,
    a_campaign_that_is_resumed_waits_for_no_lost_message,
    a_campaign_that_is_cancelled_ends_what_was_lost,
    a_lost_batch_that_everybody_was_moved_out_of_holds_nothing_up,
    who_is_handed_over_without_being_on_the_queue_does_not_hold_up_a_cancelled_campaign,
);

/// Throws away whatever is on the queues.
async fn lose(world: &World<'_>) {
    assert!(world.run_sql("DELETE FROM queue_messages WHERE queue = 'campaign-email'").await > 0);
}

async fn a_lost_message_comes_again_after_a_while(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    lose(&world).await;
    for _ in 0..59 {
        bed.advance(1).await;
        world.run().await;
        assert_eq!(world.sent(), 0, "it may only be slow");
    }
    for _ in 0..2 {
        bed.advance(1).await;
        // A worker that does nothing with it is slow, and not lost for so soon again.
        assert!(world.step().await > 0, "somebody looks every minute");
    }
    assert_eq!(world.count("queue_messages WHERE queue = 'campaign-email'").await, 1);
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (6, Status::Sent));
    assert_eq!(world.count("timers").await + world.count("queue_messages").await, 0);
}

async fn a_campaign_that_is_resumed_waits_for_no_lost_message(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    pause(&cx, find(id), None).await.unwrap();
    lose(&world).await;
    world.run().await;
    assert_eq!(world.count("timers").await, 0, "who is paused is not looked at");
    resume(&cx, find(id), None).await.unwrap();
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (6, Status::Sent));
}

async fn a_campaign_that_is_cancelled_ends_what_was_lost(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    lose(&world).await;
    cancel(&cx, find(id), None).await.unwrap();
    world.run().await;
    world.check(id).await;
    assert_eq!(world.tallies(id).await.get(Kind::Skipped, "campaign_cancelled"), 6);
    assert_eq!(world.count("campaign_batches WHERE done_at IS NULL").await, 0);
}

async fn a_lost_batch_that_everybody_was_moved_out_of_holds_nothing_up(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    // A worker puts everybody off and dies before it can end the batch.
    let within = cx.clone();
    let regroup = cx.database().write_committed(move |tx| {
        let batch = batches::find(tx, &within, id, 1)?.unwrap();
        let ids = batch.recipients.iter().map(|id| (RecipientId::from(*id), within.now()));
        let later: Vec<_> = ids.collect();
        batches::regroup(tx, &within, id, batch.number, &later)
    });
    regroup.await.map_err(|error: DatabaseError| error).unwrap();
    lose(&world).await;
    pause(&cx, find(id), None).await.unwrap();
    resume(&cx, find(id), None).await.unwrap();
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (6, Status::Sent));
}

async fn who_is_handed_over_without_being_on_the_queue_does_not_hold_up_a_cancelled_campaign(
    bed: &Bed,
) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    let id = world.started(Draft { rate_per_hour: Some(1), ..world.draft() }).await;
    world.run().await;
    let sql = "UPDATE campaign_recipients SET status = 'claimed', claimed_by = 'gone', attempts = 1, handed_at = 1,
                   claimed_until = 1 WHERE status = 'pending' AND id = (SELECT MAX(id) FROM campaign_recipients)";
    assert_eq!(world.run_sql(sql).await, 1);
    cancel(&cx, find(id), None).await.unwrap();
    assert!(world.step().await < 10, "it is not looked at again and again");
    assert_eq!(world.count("campaign_batches WHERE fed_at IS NULL").await, 0);
    // Its message is the one that is left, and comes when no claim can hold any more.
    let left = "queue_messages WHERE queue = 'campaign-email'";
    assert_eq!(world.count(left).await, 1);
}
