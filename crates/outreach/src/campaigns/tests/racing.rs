//! Several nodes at once.

use tidings_jobs::Outcome;
use tidings_testbed::{Bed, each_store};

use super::{World, find, step_delivery};
use crate::campaigns::batches::{Finished, finish, hand_back};
use crate::campaigns::brake::Came;
use crate::campaigns::control::{Start, cancel, pause, resume, start};
use crate::campaigns::draft::Draft;
use crate::campaigns::{CampaignId, Status};

each_store!(
    of_two_starts_at_once_one_starts,
    several_workers_snapshot_together,
    two_last_batches_that_end_at_once_end_the_campaign_once,
    a_batch_that_ends_on_several_nodes_at_once_is_counted_once,
    pausing_while_a_batch_ends_leaves_nothing_behind,
);

async fn of_two_starts_at_once_one_starts(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    for _ in 0..5 {
        let id = world.drafted(world.draft()).await;
        let cmd = Start { campaign: find(id), when: None };
        let (one, two, three) = tokio::join!(start(&cx, cmd), start(&cx, cmd), start(&cx, cmd));
        let changed = [one, two, three].into_iter().filter(|done| done.as_ref().unwrap().changed);
        assert_eq!(changed.count(), 1);
        let moves = format!("campaign_moves WHERE campaign_id = {id}");
        assert_eq!(world.count(&moves).await, 1);
        assert_eq!(world.count("queue_messages WHERE queue = 'campaign-steps'").await, 1);
        world.run().await;
        world.check(id).await;
    }
    assert_eq!(world.sent(), 15);
}

async fn several_workers_snapshot_together(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(30).await;
    for round in 1..=4 {
        let id = world.started(world.draft()).await;
        let first = step_delivery(id);
        let all = tokio::join!(
            world.steps.handle(&first),
            world.steps.handle(&first),
            world.steps.handle(&first),
        );
        assert_eq!(all, (Outcome::Done, Outcome::Done, Outcome::Done));
        world.check(id).await;
        world.run().await;
        world.check(id).await;
        assert_eq!(world.recipients(id).await.len(), 30);
        assert_eq!((world.sent(), world.status(id).await), (30 * round, Status::Sent));
    }
}

/// A campaign with so many batches on the queue, all of whose recipients are sent to.
async fn all_sent(world: &World<'_>, batches: i64) -> CampaignId {
    let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
    world.step().await;
    // From here on it goes as fast as it can.
    world.run_sql("UPDATE campaigns SET rate_per_hour = NULL").await;
    world.handle_step(id).await;
    let fed = format!("campaign_batches WHERE campaign_id = {id} AND fed_at IS NOT NULL");
    assert_eq!(world.count(&fed).await, batches);
    let sql = format!(
        "UPDATE campaign_recipients SET status = 'sent', sent_at = 5 WHERE campaign_id = {id}"
    );
    world.run_sql(&sql).await;
    id
}

async fn end(world: &World<'_>, id: CampaignId, number: i64) -> Finished {
    let cx = world.bed.cx().await;
    let (within, came) = (cx.clone(), Came::default());
    let end = cx.database().write_committed(move |tx| finish(tx, &within, id, number, &came));
    end.await.unwrap()
}

async fn two_last_batches_that_end_at_once_end_the_campaign_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    for _ in 0..10 {
        let id = all_sent(&world, 2).await;
        let ended = tokio::join!(end(&world, id, 1), end(&world, id, 2));
        assert_eq!(ended, (Finished::Now, Finished::Now));
        world.check(id).await;
        assert_eq!(world.status(id).await, Status::Sent);
        let moves = format!("campaign_moves WHERE campaign_id = {id} AND status = 'sent'");
        assert_eq!(world.count(&moves).await, 1);
    }
}

async fn a_batch_that_ends_on_several_nodes_at_once_is_counted_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(3).await;
    for _ in 0..10 {
        let id = all_sent(&world, 3).await;
        let ended = tokio::join!(end(&world, id, 2), end(&world, id, 2), end(&world, id, 2));
        let ended = [ended.0, ended.1, ended.2];
        assert_eq!(ended.iter().filter(|one| **one == Finished::Now).count(), 1);
        assert_eq!(ended.iter().filter(|one| **one == Finished::Before).count(), 2);
        world.check(id).await;
        assert_eq!(end(&world, id, 9).await, Finished::Missing);
        for number in [1, 3, 2] {
            end(&world, id, number).await;
        }
        assert_eq!(world.status(id).await, Status::Sent);
    }
}

async fn pausing_while_a_batch_ends_leaves_nothing_behind(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(4).await;
    for round in 0..10 {
        let id = world.started(Draft { rate_per_hour: Some(3_600), ..world.draft() }).await;
        world.step().await;
        world.run_sql("UPDATE campaigns SET rate_per_hour = NULL").await;
        let cx = bed.cx().await;
        let (paused, mailed) = tokio::join!(pause(&cx, find(id), None), world.mail());
        assert!(mailed > 0);
        world.check(id).await;
        let Ok(paused) = paused else {
            // It was sent before.
            assert_eq!(world.status(id).await, Status::Sent);
            continue;
        };
        assert_eq!(paused.campaign.status, Status::Paused);
        world.run().await;
        if round % 3 == 0 {
            cancel(&cx, find(id), None).await.unwrap();
            world.run().await;
            world.check(id).await;
            let open = format!("campaign_batches WHERE campaign_id = {id} AND done_at IS NULL");
            assert_eq!(world.count(&open).await, 0);
            continue;
        }
        // Somebody hands a batch back that nobody remembers; resuming races with it.
        let within = cx.clone();
        let back = cx.database().write_committed(move |tx| hand_back(tx, &within, id, 1));
        let (resumed, back) = tokio::join!(resume(&cx, find(id), None), back);
        resumed.unwrap();
        back.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
        world.run().await;
        world.check(id).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.recipients(id).await.len(), 4);
    }
}
