//! Copies that the server does not take with their message.

use tidings_jobs::Outcome;
use tidings_kernel::{Mail, QueueEngine as _, SendError, queues};
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store, until_turn};

use super::accept::suppress;
use super::{World, delivery};
use crate::transactional::{MessageId, Status};

each_store!(
    a_grey_list_costs_a_copy_an_hour_and_nobody_gets_a_second_mail,
    what_was_refused_for_good_is_beside_the_message,
    a_copy_that_is_never_taken_has_failed_after_a_day,
    who_must_not_be_written_to_any_more_gets_no_copy,
    who_is_erased_gets_no_copy_and_is_not_named,
    wherever_a_worker_ends_a_copy_is_sent_once_or_uncertain,
    two_workers_send_one_copy,
);

fn grey() -> SendError {
    SendError::Later("451 4.7.1 greylisted".to_owned())
}

/// A message to Ada with copies for two, which the server takes for her alone.
async fn left_out(world: &World<'_>, why: &[(&str, SendError)]) -> MessageId {
    let mut send = world.mail("ada@example.org");
    send.cc = vec!["carl@example.org".parse().unwrap()];
    send.bcc = vec!["bea@example.org".parse().unwrap()];
    let id = world.accept(send).await.unwrap().id;
    world.provider.leaves_out(why);
    world.work().await;
    assert_eq!(world.status(id).await, Status::Sent);
    id
}

/// `address status attempts` of each copy that was not taken with the message.
async fn copies(world: &World<'_>, id: MessageId) -> Vec<String> {
    let copies = world.found(id).await.message.late_copies;
    let told = copies.iter().map(|one| {
        let to = one.to.split('@').next().unwrap_or_default();
        format!("{to} {} {}", one.status.as_str(), one.attempts)
    });
    told.collect()
}

fn to(mail: &Mail) -> Vec<&str> {
    mail.to.iter().map(tidings_kernel::EmailAddress::as_str).collect()
}

async fn a_grey_list_costs_a_copy_an_hour_and_nobody_gets_a_second_mail(bed: &Bed) {
    let world = World::new(bed).await;
    let both = [("carl@example.org", grey()), ("bea@example.org", grey())];
    let id = left_out(&world, &both).await;
    assert_eq!(copies(&world, id).await, ["carl waiting 1", "bea waiting 1"]);
    world.provider.answers(grey());
    for _ in 0..60 {
        bed.advance(1).await;
        world.work().await;
    }
    assert_eq!(copies(&world, id).await, ["carl sent 3", "bea sent 2"]);
    let mails = world.provider.taken();
    assert_eq!(mails.len(), 3);
    assert_eq!(mails[0].to.len(), 3);
    assert_eq!((to(&mails[1]), to(&mails[2])), (vec!["bea@example.org"], vec!["carl@example.org"]));
    // It is the same mail, and hides who is hidden.
    assert_eq!(mails[1].mime, mails[0].mime);
    assert!(!String::from_utf8_lossy(&mails[1].mime).contains("bea@example.org"));
    let depth = bed.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
    assert_eq!((world.log("ada@example.org").await.len(), world.sends().await), (1, 1));
}

async fn what_was_refused_for_good_is_beside_the_message(bed: &Bed) {
    let world = World::new(bed).await;
    let nobody = SendError::NoSuchAddress {
        reason: "550 5.1.1 no such user".to_owned(),
        status: "5.1.1".to_owned(),
    };
    let policy = SendError::Refused("554 5.7.1 not you".to_owned());
    let id = left_out(&world, &[("carl@example.org", nobody), ("bea@example.org", policy)]).await;
    assert_eq!(copies(&world, id).await, ["carl failed 1", "bea failed 1"]);
    let error = world.found(id).await.message.late_copies[1].error.clone();
    assert_eq!(error.as_deref(), Some("refused for good: 554 5.7.1 not you"));
    let told = world.count("queue_messages WHERE queue = 'ses-webhooks' AND body LIKE '%carl%'");
    assert_eq!(told.await, 1, "nobody is there, and that suppresses him");
    assert_eq!(world.count("queue_messages WHERE queue = 'ses-webhooks'").await, 1);
    bed.advance(24 * 60).await;
    assert_eq!(world.work().await, 0);
}

async fn a_copy_that_is_never_taken_has_failed_after_a_day(bed: &Bed) {
    let world = World::new(bed).await;
    let id = left_out(&world, &[("carl@example.org", grey())]).await;
    for _ in 0..20 {
        world.provider.answers(grey());
    }
    for hour in 0..27 {
        if hour == 24 {
            assert_eq!(copies(&world, id).await, ["carl waiting 9"]);
        }
        for _ in 0..4 {
            bed.advance(15).await;
            world.work().await;
        }
    }
    assert_eq!(copies(&world, id).await, ["carl failed 10"]);
    assert_eq!(world.provider.taken().len(), 1);
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn who_must_not_be_written_to_any_more_gets_no_copy(bed: &Bed) {
    let world = World::new(bed).await;
    let id = left_out(&world, &[("carl@example.org", grey())]).await;
    suppress(bed, "carl@example.org").await;
    bed.advance(2).await;
    world.work().await;
    assert_eq!(copies(&world, id).await, ["carl skipped 1"]);
    assert_eq!(world.provider.taken().len(), 1);
}

async fn who_is_erased_gets_no_copy_and_is_not_named(bed: &Bed) {
    let world = World::new(bed).await;
    let both = [("carl@example.org", grey()), ("bea@example.org", grey())];
    let id = left_out(&world, &both).await;
    let erase = async |email: &str| {
        contacts::erase(&bed.cx().await, &email.parse().unwrap()).await.unwrap();
    };
    erase("carl@example.org").await;
    assert_eq!(copies(&world, id).await, ["bea waiting 1"]);
    erase("ada@example.org").await;
    assert!(copies(&world, id).await.is_empty());
    for _ in 0..4 {
        bed.advance(15).await;
        world.work().await;
    }
    assert_eq!(world.provider.taken().len(), 1);
    let named = world.count("transactional_messages WHERE late_copies LIKE '%example.org%'");
    assert_eq!(named.await, 0);
}

async fn wherever_a_worker_ends_a_copy_is_sent_once_or_uncertain(bed: &Bed) {
    let world = World::new(bed).await;
    for turns in 0..20 {
        let id = left_out(&world, &[("carl@example.org", grey())]).await;
        let envelope = world.envelope(id).await;
        bed.clock.advance(jiff::Span::new().minutes(2));
        let (handler, first) = (world.worker.handler(), delivery(&envelope));
        until_turn(handler.handle(&first), turns).await;
        bed.settle().await;
        let mut deliveries = 0;
        while world.handle(&envelope).await != Outcome::Done {
            deliveries += 1;
            assert!(deliveries < 10, "it comes to no end after {turns} turns");
            bed.clock.advance(jiff::Span::new().minutes(3));
        }
        let mails = world.provider.taken();
        let of_carl = mails.iter().filter(|mail| {
            mail.tags.contains(&("message", format!("t-{id}"))) && to(mail) == ["carl@example.org"]
        });
        let taken = of_carl.count();
        match copies(&world, id).await.concat().as_str() {
            "carl sent 2" => assert_eq!(taken, 1, "after {turns} turns"),
            "carl uncertain 2" => assert!(taken <= 1, "after {turns} turns"),
            other => panic!("{other} after {turns} turns"),
        }
        assert_eq!(world.provider.taken_of(id), 1 + taken, "after {turns} turns");
    }
}

async fn two_workers_send_one_copy(bed: &Bed) {
    let world = World::new(bed).await;
    let id = left_out(&world, &[("carl@example.org", grey())]).await;
    let envelope = world.envelope(id).await;
    bed.clock.advance(jiff::Span::new().minutes(2));
    tokio::join!(world.handle(&envelope), world.handle(&envelope), world.handle(&envelope));
    assert_eq!(world.provider.taken_of(id), 2);
    assert_eq!(copies(&world, id).await, ["carl sent 2"]);
}
