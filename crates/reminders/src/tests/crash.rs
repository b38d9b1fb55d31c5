//! A process that dies at any call of a store between approval and send, and anywhere else: the reminder is sent once.

use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_kernel::queues;
use tidings_testbed::{Bed, dying, dying_access, each_store, until_turn};

use super::world::{World, by, customer, new};
use crate::{Choose, Kind, Payment, Status, Tools, Worker, approve, draft, paid};

each_store!(
    wherever_the_sender_dies_it_is_sent_once,
    wherever_an_approval_dies_it_is_sent_once,
    wherever_a_payment_dies_nothing_is_sent,
    wherever_a_draft_dies_one_is_open,
);

/// As many calls as any of these makes, and then some.
const CALLS: isize = 18;

async fn wherever_the_sender_dies_it_is_sent_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    for after in [false, true] {
        for place in 0..CALLS {
            let id = format!("c{place}{after}");
            let draft = world.draft(&id, Kind::First).await;
            world.approve(&draft).await;
            let access = dying_access(bed, &cx, place, after);
            let messages = Messages::new(Templates::default());
            let dies = Worker::new(Tools { access, messages }).handler();
            bed.work(&queues::REMINDER_STEPS, dies).await;
            // Whoever waits because a store was away waits a little.
            bed.advance(1).await;
            world.run().await;
            assert_eq!(world.get(&draft.id).await.status, Status::Sent, "{id}");
            assert_eq!(world.sent(&id).await.len(), 1, "{id}");
            let mails =
                world.outbox().iter().filter(|mail| mail.contains(&format!("Dear {id},"))).count();
            assert_eq!(mails, 1, "{id}");
        }
    }
    // Cut off at any await, too: there the relations are written.
    for turns in (0..32).step_by(3) {
        let id = format!("t{turns}");
        let draft = world.draft(&id, Kind::First).await;
        world.approve(&draft).await;
        let cx = world.cx().await;
        let messages = Messages::new(Templates::default());
        Box::pin(until_turn(crate::send::send(&cx, &messages, &draft.id), turns)).await;
        world.run().await;
        assert_eq!(world.get(&draft.id).await.status, Status::Sent, "{id}");
        let mails =
            world.outbox().iter().filter(|mail| mail.contains(&format!("Dear {id},"))).count();
        assert_eq!(mails, 1, "{id}");
    }
}

async fn wherever_an_approval_dies_it_is_sent_once(bed: &Bed) {
    let world = World::new(bed).await;
    for after in [false, true] {
        for place in 0..6 {
            let id = format!("c{place}{after}");
            let draft = world.draft(&id, Kind::First).await;
            let dies = dying(bed, &world.cx().await, place, after).await;
            // He does not know, so he does it again.
            if approve(&dies, by(&draft, "ada")).await.is_err() {
                approve(&world.cx().await, by(&draft, "ada")).await.unwrap();
            }
            world.run().await;
            assert_eq!(world.sent(&id).await.len(), 1, "{id}");
        }
    }
    assert_eq!(world.outbox().len(), 12);
}

async fn wherever_a_payment_dies_nothing_is_sent(bed: &Bed) {
    let world = World::new(bed).await;
    for after in [false, true] {
        for place in 0..10 {
            let id = format!("c{place}{after}");
            let draft = world.draft(&id, Kind::First).await;
            world.approve(&draft).await;
            let payment = Payment {
                customer: Some(customer(&id)),
                invoice: None,
                money: None,
                paid_at: None,
                reference: Some("bank-1".to_owned()),
            };
            let dies = dying(bed, &world.cx().await, place, after).await;
            if paid(&dies, payment.clone()).await.is_err() {
                paid(&world.cx().await, payment).await.unwrap();
            }
            world.run().await;
            assert_eq!(world.get(&draft.id).await.status, Status::Withdrawn, "{id}");
        }
    }
    assert!(world.outbox().is_empty());
}

async fn wherever_a_draft_dies_one_is_open(bed: &Bed) {
    let world = World::new(bed).await;
    for after in [false, true] {
        for place in 0..10 {
            let id = format!("c{place}{after}");
            let mut new = new(&id, Choose::Next);
            new.idempotency_key = Some(format!("run-1/{id}"));
            let dies = dying(bed, &world.cx().await, place, after).await;
            let made = match draft(&dies, new.clone()).await {
                Ok(made) => made,
                Err(_) => draft(&world.cx().await, new).await.unwrap(),
            };
            assert_eq!(world.get(&made.draft.id).await.status, Status::Draft);
            let drafts = world
                .items()
                .await
                .iter()
                .filter(|item| {
                    item.text("customer_id") == Some(&id) && item.text("content_hash").is_some()
                })
                .count();
            assert_eq!(drafts, 1, "{id}");
        }
    }
}
