//! The worker ends at every place where it can, and its message comes again.

use tidings_sql::Dialect;
use tidings_testbed::{Bed, each_store, until_turn};

use super::{World, find, step_delivery};
use crate::campaigns::Status;
use crate::campaigns::control::{cancel, retry_failed};

each_store!(
    wherever_a_snapshot_ends_everybody_is_written_down_and_sent_to_once,
    wherever_a_worker_ends_a_cancelled_campaign_comes_to_its_end,
    wherever_a_worker_ends_what_failed_is_sent_again_once,
);

/// Every place on SQLite, and every fourth on PostgreSQL, where each takes its time.
pub(super) fn every(bed: &Bed, places: usize) -> impl Iterator<Item = usize> {
    let step = match bed.access.database().dialect() {
        Dialect::Sqlite => 1,
        Dialect::Postgres => 4,
    };
    (0..places).step_by(step)
}

async fn wherever_a_snapshot_ends_everybody_is_written_down_and_sent_to_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(9).await;
    let (mut ended, mut campaigns) = (0, 0);
    for turns in every(world.bed, 60) {
        let id = world.started(world.draft()).await;
        campaigns += 1;
        // The same message comes several times, and the worker dies a little later each time.
        for deaths in 0..3 {
            let done = until_turn(world.steps.handle(&step_delivery(id)), turns + deaths).await;
            ended += usize::from(done.is_some());
            world.check(id).await;
        }
        world.run().await;
        world.check(id).await;
        assert_eq!(world.status(id).await, Status::Sent, "after {turns} turns");
        let recipients = world.recipients(id).await;
        assert_eq!(recipients.len(), 9, "after {turns} turns");
        assert!(recipients.values().all(|status| status == "sent"), "after {turns} turns");
        assert_eq!(world.sent(), 9 * campaigns, "after {turns} turns");
    }
    assert!(ended > 0, "it always died");
}

async fn wherever_a_worker_ends_a_cancelled_campaign_comes_to_its_end(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(7).await;
    for turns in every(world.bed, 16) {
        // At so low a rate everybody has a batch of his own, and most of them wait.
        let draft = super::Draft { rate_per_hour: Some(60), ..world.draft() };
        let id = world.started(draft).await;
        world.step().await;
        cancel(&bed.cx().await, find(id), None).await.unwrap();
        until_turn(world.steps.handle(&step_delivery(id)), turns).await;
        world.check(id).await;
        world.run().await;
        world.check(id).await;
        let recipients = world.recipients(id).await;
        assert!(recipients.values().all(|status| status == "skipped campaign_cancelled"));
        assert_eq!(recipients.len(), 7);
    }
    assert_eq!(world.sent(), 0);
}

async fn wherever_a_worker_ends_what_failed_is_sent_again_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    world.people((0..7).map(|number| format!("fail{number}@example.org"))).await;
    for turns in every(world.bed, 24) {
        let id = world.started(world.draft()).await;
        world.run().await;
        let sql = format!(
            "UPDATE campaign_recipients SET email = 'x' || email WHERE campaign_id = {id} AND status = 'failed'"
        );
        world.run_sql(&sql).await;
        let before = world.sent();
        let retried = retry_failed(&bed.cx().await, find(id), None).await.unwrap();
        assert_eq!((retried.recipients, retried.campaign.status), (7, Status::Sending));
        until_turn(world.steps.handle(&step_delivery(id)), turns).await;
        world.check(id).await;
        world.run().await;
        world.check(id).await;
        assert_eq!(world.sent(), before + 7, "after {turns} turns");
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.count("campaign_recipients WHERE status <> 'sent'").await, 0);
    }
}
