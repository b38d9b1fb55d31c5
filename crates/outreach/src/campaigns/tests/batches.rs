//! Batches that are regrouped, and rows of which more becomes known after they were counted.

use jiff::{SignedDuration, Timestamp};
use tidings_delivery::ledger::Source;
use tidings_delivery::ledger::marks::{self, Facts, Mark};
use tidings_sql::{DatabaseError, Tx};
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::batches::{self, Finished, batch_id, finish, hand_back, number_of, regroup};
use crate::campaigns::brake::Came;
use crate::campaigns::control::{pause, resume};
use crate::campaigns::tallies::Kind;
use crate::campaigns::{CampaignId, RecipientId, Status};

each_store!(
    who_cannot_be_sent_to_now_is_sent_to_later,
    a_batch_is_not_done_while_somebody_has_no_end,
    a_batch_that_is_partly_sent_is_handed_back_without_those,
    what_becomes_known_later_corrects_the_tallies,
);

#[test]
fn a_batch_is_known_by_its_id() {
    assert_eq!(batch_id(55.into(), 1), "campaign-55-batch-0001");
    assert_eq!(batch_id(55.into(), 12_345), "campaign-55-batch-12345");
    assert_eq!(number_of("campaign-55-batch-0001"), Some(1));
    for bad in ["campaign-55", "campaign-55-batch-", "campaign-55-batch-0", "campaign-5-batch-x"] {
        assert_eq!(number_of(bad), None, "{bad}");
    }
}

impl World<'_> {
    /// Does something in a transaction, as a worker would.
    pub(super) async fn commit<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>, &tidings_access::Cx) -> Result<T, DatabaseError> + Send + 'static,
    ) -> T {
        let cx = self.bed.cx().await;
        let within = cx.clone();
        cx.database().write_committed(move |tx| work(tx, &within)).await.unwrap()
    }

    async fn ids(&self, id: CampaignId) -> Vec<i64> {
        let sql =
            format!("SELECT id FROM campaign_recipients WHERE campaign_id = {id} ORDER BY id");
        self.rows(&sql).await.iter().map(|row| row.int(0).unwrap()).collect()
    }
}

async fn who_cannot_be_sent_to_now_is_sent_to_later(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(5).await;
    let id = world.started(super::Draft { warmup: vec![5], ..world.draft() }).await;
    world.step().await;
    let ids = world.ids(id).await;
    let now = bed.access.now();
    let later = move |minutes: i64, millis: i64| {
        now + SignedDuration::from_mins(minutes) + SignedDuration::from_millis(millis)
    };
    let moved: Vec<(RecipientId, Timestamp)> = vec![
        (ids[0].into(), later(9, 5)),
        (ids[1].into(), later(9, 900)),
        (ids[2].into(), later(29, 1)),
        // Of another campaign, or nobody at all.
        (999_999.into(), later(9, 1)),
    ];
    for _ in 0..2 {
        // Doing it again changes nothing: they are in another batch by now.
        let moved = moved.clone();
        world.commit(move |tx, cx| regroup(tx, cx, id, 1, &moved)).await;
        world.check(id).await;
    }
    let sizes = "SELECT size, due_at FROM campaign_batches ORDER BY number";
    let sizes: Vec<_> = world
        .rows(sizes)
        .await
        .iter()
        .map(|row| (row.int(0).unwrap(), row.time(1).unwrap()))
        .collect();
    assert_eq!(sizes, [(2, now), (2, later(10, 0)), (1, later(30, 0))]);
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (2, Status::Sending));
    bed.advance(10).await;
    world.run().await;
    assert_eq!(world.sent(), 4);
    bed.advance(20).await;
    world.run().await;
    world.check(id).await;
    // It was given back what was not sent, or the share of the day would be used up.
    assert_eq!((world.sent(), world.status(id).await), (5, Status::Sent));
}

async fn a_batch_is_not_done_while_somebody_has_no_end(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    let ids = world.ids(id).await;
    let end = async || world.commit(move |tx, cx| finish(tx, cx, id, 1, &Came::default())).await;
    assert_eq!(end().await, Finished::Open);
    world
        .run_sql(&format!(
            "UPDATE campaign_recipients SET status = 'sent', sent_at = 5 WHERE id = {}",
            ids[0]
        ))
        .await;
    assert_eq!(end().await, Finished::Open);
    world.check(id).await;
    // Somebody hands it over and has no answer yet: it can be neither handed back nor given up.
    let handed = format!(
        "UPDATE campaign_recipients SET status = 'claimed', claimed_by = 'n', claimed_until = 9, handed_at = 8
         WHERE id = {}",
        ids[1]
    );
    world.run_sql(&handed).await;
    pause(&bed.cx().await, find(id), None).await.unwrap();
    assert_eq!(world.commit(move |tx, cx| hand_back(tx, cx, id, 1)).await, Finished::Open);
    assert_eq!(world.commit(move |tx, cx| batches::give_up(tx, cx, id, 1)).await, Finished::Open);
    world
        .run_sql("UPDATE campaign_recipients SET status = 'uncertain' WHERE status = 'claimed'")
        .await;
    assert_eq!(world.commit(move |tx, cx| hand_back(tx, cx, id, 1)).await, Finished::Now);
    assert_eq!(end().await, Finished::Before);
    world.check(id).await;
    assert_eq!(world.status(id).await, Status::Paused, "a paused one does nothing by itself");
    resume(&bed.cx().await, find(id), None).await.unwrap();
    world.step().await;
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn a_batch_that_is_partly_sent_is_handed_back_without_those(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(5).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    let ids = world.ids(id).await;
    let sent = format!(
        "UPDATE campaign_recipients SET status = 'sent', sent_at = 5 WHERE id IN ({}, {})",
        ids[1], ids[3]
    );
    world.run_sql(&sent).await;
    pause(&bed.cx().await, find(id), None).await.unwrap();
    for expected in [Finished::Now, Finished::Before] {
        assert_eq!(world.commit(move |tx, cx| hand_back(tx, cx, id, 1)).await, expected);
        world.check(id).await;
    }
    assert_eq!(world.tallies(id).await.get(Kind::Outcome, "sent"), 2);
    resume(&bed.cx().await, find(id), None).await.unwrap();
    world.run().await;
    world.check(id).await;
    assert_eq!((world.sent(), world.status(id).await), (3, Status::Sent));
}

async fn what_becomes_known_later_corrects_the_tallies(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .people(["lost1", "lost2", "lost3", "fail"].map(|name| format!("{name}@example.org")))
        .await;
    let id = world.started(world.draft()).await;
    world.run().await;
    world.check(id).await;
    let ids = world.ids(id).await;
    let now = bed.access.now();
    let mark = async |recipient: i64, mark: Mark| {
        let work = move |tx: &mut Tx<'_>, cx: &tidings_access::Cx| {
            let row = (cx.workspace_id().get(), Source::Recipient(recipient));
            marks::mark(tx, row, Some((mark, now)), &Facts::default(), now)
        };
        assert!(world.commit(work).await);
        world.check(id).await;
    };
    let count = async |name: &str| world.tallies(id).await.get(Kind::Outcome, name);
    assert_eq!((count("uncertain").await, count("failed").await), (3, 1));
    mark(ids[0], Mark::Delivered).await;
    mark(ids[0], Mark::Bounced).await;
    mark(ids[1], Mark::Sent).await;
    mark(ids[2], Mark::Failed).await;
    assert_eq!((count("uncertain").await, count("failed").await, count("sent").await), (0, 2, 2));
    mark(ids[2], Mark::Delivered).await;
    mark(ids[3], Mark::Opened).await;
    mark(ids[3], Mark::Delivered).await;
    assert_eq!((count("failed").await, count("sent").await), (0, 4));
    assert_eq!(world.tallies(id).await.get(Kind::Failed, "refused"), 0);
}
