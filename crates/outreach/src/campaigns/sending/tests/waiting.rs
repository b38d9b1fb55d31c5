//! Batches that only wait: nobody takes them for lost.

use std::time::Duration;

use tidings_jobs::Outcome;
use tidings_kernel::{SendError, queues};
use tidings_testbed::{Bed, each_store};

use super::{Sending, World};
use crate::campaigns::steps;

each_store!(
    a_batch_that_waits_for_a_closed_provider_has_one_message,
    a_batch_that_waits_for_hours_at_once_has_one_message,
);

/// Somebody looks at the campaign every minute, and so after each of these.
async fn look_for(sending: &Sending<'_, '_>, minutes: i64) {
    let bed = sending.world.bed;
    for _ in 0..minutes / 10 {
        bed.advance(10).await;
        let looks = bed.work(&queues::CAMPAIGN_STEPS, steps::handler(bed.access.clone())).await;
        assert!(looks > 0, "somebody looks");
    }
}

async fn a_batch_that_waits_for_a_closed_provider_has_one_message(bed: &Bed) {
    let world = World::new(bed, 1).await;
    let sending = world.campaign(1).await;
    sending.feed().await;
    for _ in 0..12 {
        world.provider.answers("p001@example.org", SendError::Closed("tomorrow".to_owned()));
        let outcome = world.handle(&sending.messages[0]).await;
        assert!(matches!(outcome, Outcome::Wait { .. }), "{outcome:?}");
        look_for(&sending, 30).await;
        assert_eq!(world.queue().await, 0, "its message is not lost");
    }
    // Then it is.
    look_for(&sending, 70).await;
    assert_eq!(world.queue().await, 1);
    world.work().await;
    sending.check_end("after the provider was closed").await;
}

async fn a_batch_that_waits_for_hours_at_once_has_one_message(bed: &Bed) {
    let world = World::new(bed, 1).await;
    let sending = world.campaign(1).await;
    sending.feed().await;
    let retry_after = Some(Duration::from_secs(6 * 60 * 60));
    let slower = SendError::Throttled { reason: "slower".to_owned(), retry_after };
    world.provider.answers("p001@example.org", slower);
    assert!(matches!(world.handle(&sending.messages[0]).await, Outcome::Wait { .. }));
    look_for(&sending, 6 * 60).await;
    assert_eq!(world.queue().await, 0, "it comes only now");
    look_for(&sending, 70).await;
    assert_eq!(world.queue().await, 1);
    world.work().await;
    sending.check_end("after hours").await;
}
