//! A message that its queue gives up says so, and is sent if somebody puts it back.

use tidings_kernel::{QueueEngine as _, Which, queues};
use tidings_testbed::{Bed, each_store};

use super::World;
use crate::transactional::{
    Find, MessageId, Settle, Settled, Status, cancel, cancel_queued_of, settle,
};

each_store!(
    what_the_queue_gives_up_has_failed_with_its_reason_and_is_sent_when_it_is_put_back,
    an_envelope_of_somebody_else_fails_nothing,
    what_a_person_sends_again_is_not_sent_twice_when_it_is_put_back,
    what_is_cancelled_after_its_queue_gave_it_up_is_not_sent_when_it_is_put_back,
);

/// A message that nobody can work on, because its row says what no version writes.
async fn given_up(world: &World<'_>) -> MessageId {
    let id = world.accepted("ada@example.org").await;
    world.run("UPDATE transactional_messages SET context = '[]'").await;
    for _ in 0..15 {
        world.work().await;
        world.bed.advance(20).await;
    }
    let depth = world.bed.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!((depth.ready, depth.dead), (0, 1));
    id
}

async fn mend(world: &World<'_>) {
    world.run("UPDATE transactional_messages SET context = '{}'").await;
}

async fn put_back(world: &World<'_>) {
    let queue = &queues::TRANSACTIONAL_EMAIL;
    assert_eq!(world.bed.queues.replay(queue, Which::All).await.unwrap(), 1);
    world.work().await;
}

/// Read past what is damaged.
async fn column(world: &World<'_>, name: &'static str) -> String {
    let sql = format!("SELECT {name} FROM transactional_messages");
    let rows = world.bed.access.database().read(move |tx| tx.query(&sql, &[])).await;
    let rows: Vec<tidings_sql::Row> =
        rows.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    rows[0].text(0).unwrap().to_owned()
}

async fn what_the_queue_gives_up_has_failed_with_its_reason_and_is_sent_when_it_is_put_back(
    bed: &Bed,
) {
    let world = World::new(bed).await;
    let id = given_up(&world).await;
    assert_eq!(column(&world, "status").await, "failed");
    let why = column(&world, "last_error").await;
    assert!(why.starts_with("nobody could work on it: "), "{why}");
    mend(&world).await;
    put_back(&world).await;
    assert_eq!(world.status(id).await, Status::Sent);
    assert_eq!(world.provider.taken_of(id), 1);
}

async fn an_envelope_of_somebody_else_fails_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await.replace("auto:", "other:");
    let message = tidings_kernel::Outgoing::new(&queues::TRANSACTIONAL_EMAIL, envelope);
    world.run("DELETE FROM queue_messages").await;
    bed.queues.send(vec![message]).await.unwrap();
    world.work().await;
    let depth = bed.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!(depth.dead, 1);
    assert_eq!(world.status(id).await, Status::Queued);
}

async fn what_a_person_sends_again_is_not_sent_twice_when_it_is_put_back(bed: &Bed) {
    let world = World::new(bed).await;
    let id = given_up(&world).await;
    mend(&world).await;
    let message = Find { id, client: None };
    let resend = Settle { message, outcome: Settled::Resend, reason: None };
    settle(&bed.cx().await, resend).await.unwrap();
    world.work().await;
    put_back(&world).await;
    assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Sent, 1));
}

async fn what_is_cancelled_after_its_queue_gave_it_up_is_not_sent_when_it_is_put_back(bed: &Bed) {
    let world = World::new(bed).await;
    let id = given_up(&world).await;
    mend(&world).await;
    cancel(&bed.cx().await, Find { id, client: None }).await.unwrap();
    put_back(&world).await;
    assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Cancelled, 0));
    // The same if the walk that it belongs to has ended.
    world.run("UPDATE transactional_messages SET execution_id = 'walk', status = 'failed', given_up_at = 1").await;
    assert_eq!(cancel_queued_of(&bed.cx().await, "walk", "it has ended").await.unwrap(), 1);
    assert_eq!(cancel_queued_of(&bed.cx().await, "walk", "it has ended").await.unwrap(), 0);
    assert_eq!(world.status(id).await, Status::Cancelled);
}
