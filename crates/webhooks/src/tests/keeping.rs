//! What is forgotten: the old by itself, a person on demand.

use tidings_testbed::{Bed, each_store};

use super::{Receiver, all, count, say, sent, subscribe, work};
use crate::deliveries::{self, ReplayError, Status};
use crate::{Announcement, erase, sweep};

const DAY: i64 = 24 * 60;

async fn what_was_told_is_deleted_after_a_month_and_that_it_was_after_three(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("200 OK", "ada@example.org");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    bed.advance(29 * DAY).await;
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 0);
    say(&bed.cx().await, &sent("2")).await;
    work(bed).await;
    bed.advance(2 * DAY).await;
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 1);
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 0);
    let both = all(&cx, &issued).await;
    let (new, old) = (deliveries::find(&cx, both[0].id), deliveries::find(&cx, both[1].id));
    let (new, old) = (new.await.unwrap(), old.await.unwrap());
    assert!(new.body.is_some() && new.attempts[0].answer.is_some());
    assert_eq!((old.body, &old.attempts[0].answer), (None, &None));
    let refused = deliveries::replay(&bed.cx().await, both[1].id).await.unwrap_err();
    assert!(matches!(refused, ReplayError::Forgotten(_)), "{refused:?}");
    bed.advance(60 * DAY).await;
    sweep(&bed.access, 100).await.unwrap();
    assert_eq!(all(&cx, &issued).await.len(), 1);
    assert_eq!(count(&cx, "SELECT COUNT(*) FROM webhook_attempts").await, 1);
}

/// The message that asks for a try becomes a dead letter.
async fn bury(bed: &Bed) {
    use std::time::Duration;
    use tidings_kernel::{QueueEngine as _, Receive, queues};

    let queue = &queues::WEBHOOK_DELIVERY;
    let request = Receive { max: 10, lease: Duration::from_secs(30), wait: Duration::ZERO };
    let taken = bed.queues.receive(queue, request).await.unwrap();
    assert_eq!(taken.len(), 1);
    bed.queues.bury(queue, &taken[0], "a test").await.unwrap();
}

async fn a_delivery_whose_message_is_lost_can_be_replayed_and_fails_in_the_end(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    deliveries::send_test(&cx, issued.endpoint.id).await.unwrap();
    bury(bed).await;
    let id = all(&cx, &issued).await[0].id;
    bed.advance(59).await;
    let refused = deliveries::replay(&bed.cx().await, id).await.unwrap_err();
    assert!(matches!(refused, ReplayError::Pending(_)), "{refused:?}");
    bed.advance(2).await;
    let again = deliveries::replay(&bed.cx().await, id).await.unwrap();
    assert_eq!((again.status, again.attempts), (Status::Pending, 0));
    bury(bed).await;

    bed.advance(3 * DAY - 1).await;
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 0);
    bed.advance(2).await;
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 1);
    assert_eq!(sweep(&bed.access, 100).await.unwrap(), 0);
    let lost = all(&cx, &issued).await.remove(0);
    assert_eq!((lost.status, lost.failure.as_deref()), (Status::Failed, Some("lost")));
    let since = jiff::Timestamp::UNIX_EPOCH;
    let replayed = deliveries::replay_failed(&bed.cx().await, issued.endpoint.id, since).await;
    assert_eq!(replayed.unwrap().count, 1);
    work(bed).await;
    assert_eq!(receiver.count(), 1);
}

async fn who_is_erased_is_erased_here_too(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("200 OK", "ada@example.org");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    let mut eve = sent("2");
    eve.data.insert("email".to_owned(), "eve@example.org".into());
    say(&cx, &eve).await;
    work(bed).await;
    receiver.answers("500 Oops", "ada@example.org");
    let mut capitals: Announcement = sent("3");
    capitals.data.insert("email".to_owned(), "Ada@Example.org".into());
    say(&cx, &capitals).await;
    work(bed).await;

    let within = cx.clone();
    let ada = "ada@example.org".parse().unwrap();
    let erased = cx.database().write(move |tx| erase(tx, &within, &ada)).await.unwrap();
    assert_eq!(erased, 2);

    let personal = "SELECT COUNT(*) FROM webhook_deliveries WHERE body LIKE '%ada@%'";
    assert_eq!(count(&cx, personal).await, 0);
    let statuses: Vec<_> = all(&cx, &issued).await.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Status::Failed, Status::Delivered, Status::Delivered]);
    let told = deliveries::find(&cx, all(&cx, &issued).await[0].id).await.unwrap();
    assert_eq!(told.delivery.failure.as_deref(), Some("erased"));
    assert!(told.attempts.iter().all(|attempt| attempt.answer.is_none()));
    // The timer of what was still to be told finds nothing to do.
    bed.advance(DAY).await;
    work(bed).await;
    assert_eq!(receiver.count(), 3);
}

async fn who_was_erased_before_the_fan_out_is_not_told_of_by_address(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    subscribe(&cx, &receiver.url, &[]).await;
    let workspace = cx.workspace_id().get();
    let make = cx.database().write(move |tx| {
        let sql = "INSERT INTO leads (workspace_id, erased_at, created_at, updated_at)
                   VALUES ($1, 1, 1, 1) RETURNING id";
        tx.query(sql, &[tidings_sql::Param::Int(workspace)])?[0].int(0)
    });
    let contact = make.await.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let mut told = sent("1");
    told.data.insert("contact_id".to_owned(), contact.into());
    say(&cx, &told).await;
    work(bed).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].body.contains("ada@"), "{}", requests[0].body);
    assert!(requests[0].body.contains("message_id"));
}

async fn an_address_that_was_erased_is_not_told_and_a_strange_one_is(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    subscribe(&cx, &receiver.url, &[]).await;
    let mut told = sent("1");
    told.data.insert("email".to_owned(), "Gone@example.org".into());
    say(&cx, &told).await;
    say(&cx, &sent("2")).await;
    // Of somebody who got a copy and is no contact.
    let mut copy = sent("3");
    copy.data.insert("email".to_owned(), "copy@example.org".into());
    say(&cx, &copy).await;
    let within = cx.clone();
    let erase = cx.database().write(move |tx| {
        let sql =
            "INSERT INTO suppression_keys (workspace_id, secret, created_at) VALUES ($1, $2, 1)";
        let (workspace, secret) = (within.workspace_id().get(), "s".repeat(64));
        let params = [tidings_sql::Param::Int(workspace), tidings_sql::Param::Text(&secret)];
        tx.execute(sql, &params)?;
        erase(tx, &within, &"gone@example.org".parse().unwrap())
    });
    erase.await.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    work(bed).await;
    let bodies: Vec<_> = receiver.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| !body.to_lowercase().contains("gone@")), "{bodies:?}");
    assert_eq!(bodies.iter().filter(|body| body.contains("ada@")).count(), 1, "{bodies:?}");
    assert_eq!(bodies.iter().filter(|body| body.contains("copy@")).count(), 1, "{bodies:?}");
    let kept = "SELECT COUNT(*) FROM webhook_erasures";
    assert_eq!(count(&cx, kept).await, 1);
    bed.advance(91 * DAY).await;
    while sweep(&bed.access, 100).await.unwrap() > 0 {}
    assert_eq!(count(&cx, kept).await, 0, "nothing can be on its way any more");
}

async fn a_message_about_nothing_is_buried_and_hurts_nobody(bed: &Bed) {
    use tidings_kernel::{Outgoing, QueueEngine as _, queues};

    let cx = bed.cx().await;
    let issued = subscribe(&cx, "http://127.0.0.1:9/", &[]).await;
    let id = cx.workspace_id().get();
    for (workspace, delivery) in [(id, 999), (id + 100, 1)] {
        let body = crate::rows::ask_for(workspace, delivery.into());
        let message = Outgoing::new(&queues::WEBHOOK_DELIVERY, body);
        bed.queues.send(vec![message]).await.unwrap();
    }
    work(bed).await;
    let depth = bed.queues.depth(&queues::WEBHOOK_DELIVERY).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 2));
    assert!(all(&cx, &issued).await.is_empty());
}

each_store!(
    what_was_told_is_deleted_after_a_month_and_that_it_was_after_three,
    a_delivery_whose_message_is_lost_can_be_replayed_and_fails_in_the_end,
    who_is_erased_is_erased_here_too,
    who_was_erased_before_the_fan_out_is_not_told_of_by_address,
    an_address_that_was_erased_is_not_told_and_a_strange_one_is,
    a_message_about_nothing_is_buried_and_hurts_nobody,
);
