//! From the announcement to the deliveries.

use tidings_kernel::Txn;
use tidings_testbed::{Bed, each_store};

use super::{Receiver, all, count, say, sent, subscribe, work};
use crate::{Announcement, EventType, endpoints, message};

async fn an_event_goes_to_every_endpoint_that_wants_it(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let everything = subscribe(&cx, &receiver.url, &[]).await;
    let this = subscribe(&cx, &receiver.url, &[EventType::EmailSent]).await;
    let other = subscribe(&cx, &receiver.url, &[EventType::EmailOpened]).await;
    let off = subscribe(&cx, &receiver.url, &[]).await;
    endpoints::disable(&cx, off.endpoint.id).await.unwrap();
    let stranger = bed.make_workspace("other").await;
    let theirs = subscribe(&stranger, &receiver.url, &[]).await;

    say(&cx, &sent("1")).await;

    assert_eq!(work(bed).await, (1, 2));
    assert_eq!(receiver.count(), 2);
    for (issued, expected) in [(&everything, 1), (&this, 1), (&other, 0), (&off, 0)] {
        assert_eq!(all(&cx, issued).await.len(), expected);
    }
    assert!(all(&stranger, &theirs).await.is_empty());
}

async fn what_nobody_wants_is_not_even_enqueued(bed: &Bed) {
    let cx = bed.cx().await;
    say(&cx, &sent("1")).await;
    assert!(message(&cx, &sent("1")).await.unwrap().is_none());
    let other = subscribe(&cx, "http://127.0.0.1:9/", &[EventType::EmailOpened]).await;
    say(&cx, &sent("1")).await;
    endpoints::delete(&cx, other.endpoint.id).await.unwrap();
    let opened = Announcement { event_type: EventType::EmailOpened, ..sent("1") };
    say(&cx, &opened).await;
    assert!(message(&cx, &opened).await.unwrap().is_none());
    assert_eq!(count(&cx, "SELECT COUNT(*) FROM queue_messages").await, 0);
}

async fn announced_twice_it_is_told_once(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    say(&cx, &sent("1")).await;
    assert_eq!(work(bed).await, (2, 1));
    // Also long after it was delivered.
    bed.advance(60).await;
    let cx = bed.cx().await;
    say(&cx, &sent("1")).await;
    say(&cx, &sent("2")).await;
    assert_eq!(work(bed).await, (2, 1));
    assert_eq!(all(&cx, &issued).await.len(), 2);
    assert_eq!(receiver.count(), 2);
}

async fn what_is_rolled_back_is_not_told(bed: &Bed) {
    let cx = bed.cx().await;
    subscribe(&cx, "http://127.0.0.1:9/", &[]).await;
    let within = cx.clone();
    let failed = cx.database().write(move |tx| {
        crate::announce(&within, tx, &sent("1"))?;
        Err::<(), _>(tidings_sql::DatabaseError::NoRow)
    });
    failed.await.unwrap_err();
    assert_eq!(count(&cx, "SELECT COUNT(*) FROM queue_messages").await, 0);
}

async fn a_transaction_of_items_can_announce_too(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    subscribe(&cx, &receiver.url, &[]).await;
    let outgoing = message(&cx, &sent("1")).await.unwrap().unwrap();
    let items = cx.items().await.unwrap();
    items.transact(Txn::new().enqueue(outgoing)).await.unwrap();
    assert_eq!(work(bed).await, (1, 1));
    assert_eq!(receiver.count(), 1);
}

async fn fanning_out_at_once_makes_one_delivery(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    for _ in 0..6 {
        say(&cx, &sent("1")).await;
    }
    let (one, two, three) = tokio::join!(work(bed), work(bed), work(bed));
    assert_eq!(one.0 + two.0 + three.0, 6);
    work(bed).await;
    assert_eq!(all(&cx, &issued).await.len(), 1);
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn endpoints_that_were_deleted_are_not_looked_at() {
    let bed = Bed::memory().await;
    let sql = format!("EXPLAIN QUERY PLAN {}", crate::rows::LISTENING);
    let params = [tidings_sql::Param::Int(1), tidings_sql::Param::Int(20)];
    let plan = bed.access.database().read(move |tx| tx.query(&sql, &params)).await;
    let plan = plan.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let plan: Vec<&str> = plan.iter().map(|row| row.text(3).unwrap()).collect();
    let index = "SEARCH webhook_endpoints USING INDEX webhook_endpoints_list (workspace_id=?)";
    assert_eq!(plan, [index], "an index without the deleted ones, and no sorting");
}

each_store!(
    an_event_goes_to_every_endpoint_that_wants_it,
    what_nobody_wants_is_not_even_enqueued,
    announced_twice_it_is_told_once,
    what_is_rolled_back_is_not_told,
    a_transaction_of_items_can_announce_too,
    fanning_out_at_once_makes_one_delivery,
);
