//! What happens to deliveries and endpoints when attempts fail.

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{QueueEngine as _, queues};
use tidings_testbed::{Bed, each_store};

use super::{Receiver, all, only, say, sent, subscribe, work};
use crate::deliveries::{self, Status};
use crate::endpoints;

async fn a_failing_endpoint_is_tried_for_more_than_a_day_and_then_given_up(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("503 Service Unavailable", "later");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    for _ in 0..48 * 4 {
        work(bed).await;
        bed.advance(15).await;
    }
    let told = only(&cx, &issued).await;
    assert_eq!(told.delivery.status, Status::Failed);
    assert_eq!(told.delivery.failure.as_deref(), Some("exhausted"));
    assert_eq!((told.delivery.attempts, told.attempts.len(), receiver.count()), (8, 8, 8));
    let ids: std::collections::BTreeSet<_> =
        receiver.requests().iter().map(|request| request.headers["webhook-id"].clone()).collect();
    assert_eq!(ids.len(), 1);
    let (first, last) = (&told.attempts[7], &told.attempts[0]);
    let took = last.attempted_at.duration_since(first.attempted_at);
    assert!(took > SignedDuration::from_hours(24), "{took}");
    assert_eq!(last.answer.as_deref(), Some("later"));
    let endpoint = endpoints::find(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!((endpoint.failures, endpoint.disabled), (8, None));
    assert_eq!(endpoint.failing_since, Some(cx.now()));
    let depth = bed.queues.depth(&queues::WEBHOOK_DELIVERY).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
}

async fn an_attempt_comes_when_it_is_due_and_not_before(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("500 Oops", "");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    work(bed).await;
    assert_eq!(receiver.count(), 1);
    let next = all(&cx, &issued).await[0].next_attempt_at.unwrap();
    let delay = next.duration_since(cx.now());
    assert!((5..=6).contains(&delay.as_secs()), "{delay}");
    // It works again, and the failures are forgotten.
    bed.advance(1).await;
    receiver.answers("200 OK", "");
    work(bed).await;
    let told = only(&cx, &issued).await;
    assert_eq!((told.delivery.status, told.delivery.attempts), (Status::Delivered, 2));
    let endpoint = endpoints::find(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!((endpoint.failures, endpoint.failing_since), (0, None));
}

async fn gone_means_gone(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("410 Gone", "");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    let told = only(&cx, &issued).await;
    assert_eq!(told.delivery.failure.as_deref(), Some("endpoint_gone"));
    let endpoint = endpoints::find(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!(endpoint.disabled.unwrap().reason, "gone");
    say(&cx, &sent("2")).await;
    assert_eq!(work(bed).await, (0, 0));
    assert_eq!(receiver.count(), 1);
}

async fn an_endpoint_that_fails_for_days_is_disabled_with_the_reason(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("500 Oops", "");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    // Eight attempts of each of the first four; the last comes after more than three days.
    for number in 0..4 {
        say(&bed.cx().await, &sent(&number.to_string())).await;
    }
    for _ in 0..80 {
        work(bed).await;
        bed.advance(60).await;
    }
    let endpoint = endpoints::find(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!((endpoint.failures, endpoint.disabled), (32, None));
    say(&bed.cx().await, &sent("late")).await;
    work(bed).await;
    let endpoint = endpoints::find(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!(endpoint.disabled.unwrap().reason, "failing");
    // What is left of the last one is not tried, and can be replayed.
    bed.advance(1).await;
    work(bed).await;
    assert_eq!(receiver.count(), 33);
    let failed = all(&cx, &issued).await;
    assert_eq!(failed[0].failure.as_deref(), Some("endpoint_disabled"));

    let cx = bed.cx().await;
    let endpoint = endpoints::enable(&cx, issued.endpoint.id).await.unwrap();
    assert_eq!((endpoint.failures, endpoint.disabled), (0, None));
    receiver.answers("200 OK", "");
    let replayed = deliveries::replay_failed(&cx, issued.endpoint.id, Timestamp::UNIX_EPOCH);
    let replayed = replayed.await.unwrap();
    assert_eq!((replayed.count, replayed.more), (5, false));
    work(bed).await;
    assert_eq!(receiver.count(), 38);
    assert!(all(&cx, &issued).await.iter().all(|one| one.status == Status::Delivered));
}

each_store!(
    a_failing_endpoint_is_tried_for_more_than_a_day_and_then_given_up,
    an_attempt_comes_when_it_is_due_and_not_before,
    gone_means_gone,
    an_endpoint_that_fails_for_days_is_disabled_with_the_reason,
);
