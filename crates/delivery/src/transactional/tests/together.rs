//! Callers who come at the same moment, served together.

use std::collections::HashSet;

use futures_util::future::join_all;
use tidings_testbed::{Bed, each_store};

use super::World;
use super::accept::held_up;
use crate::transactional::{AcceptError, Content};

each_store!(
    each_caller_gets_an_answer_of_his_own,
    a_key_that_waits_in_the_line_is_being_worked_on,
    who_goes_away_has_written_it_down_all_the_same,
);

/// More than one go takes: known people and new ones, some twice, and some whose request is wrong.
async fn each_caller_gets_an_answer_of_his_own(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    world.accept(world.mail("person0@example.org")).await.unwrap();
    let calls = (0..150).map(|number| {
        let email = format!("person{}@example.org", number % 40);
        let mut send = world.keyed(&email, &format!("k-{number}"));
        if number % 10 == 7 {
            send.content = Content::Inline { subject: String::new(), html: None, text: None };
        }
        world.messages.accept_together(&cx, send)
    });
    let answers = join_all(calls).await;
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Ok(accepted) => {
                assert!(!accepted.replayed && number % 10 != 7);
                let message = world.found(accepted.id).await.message;
                assert_eq!(message.idempotency_key, Some(format!("k-{number}")));
                let email = format!("person{}@example.org", number % 40);
                assert_eq!(message.email, Some(email), "each has his own");
            }
            Err(AcceptError::Invalid(_)) => assert_eq!(number % 10, 7),
            Err(other) => panic!("{other}"),
        }
    }
    let ids: HashSet<_> = answers.iter().flatten().map(|accepted| accepted.id).collect();
    assert_eq!(ids.len(), 135);
    assert_eq!(world.count("transactional_messages").await, 136);
    assert_eq!(world.count("queue_messages WHERE queue = 'transactional-email'").await, 136);
    // Whose number ends with 7 is in wrong requests only: he is not made a contact.
    assert_eq!(world.count("leads").await, 36);
    assert_eq!(world.count("lead_organizations").await, 36);
    let again = world.messages.accept_together(&cx, world.keyed("person1@example.org", "k-1"));
    assert!(again.await.unwrap().replayed);
}

async fn a_key_that_waits_in_the_line_is_being_worked_on(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let send = || world.keyed("ada@example.org", "k");
    let mut first = Box::pin(world.messages.accept_together(&cx, send()));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let second = world.messages.accept_together(&cx, send()).await;
    assert!(matches!(second, Err(AcceptError::InFlight)), "{second:?}");
    assert!(!first.await.unwrap().replayed);
    let third = world.messages.accept_together(&cx, send()).await;
    assert!(third.unwrap().replayed, "the key is free as soon as there is an answer");
}

async fn who_goes_away_has_written_it_down_all_the_same(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let (release, held) = held_up(bed).await;
    let mut gone = Box::pin(world.messages.accept_together(&cx, world.keyed("a@b.example", "a")));
    let mut stays = Box::pin(world.messages.accept_together(&cx, world.keyed("c@d.example", "c")));
    for call in [&mut gone, &mut stays] {
        assert!(futures_util::poll!(call.as_mut()).is_pending());
    }
    drop(gone);
    release.send(()).unwrap();
    held.await.unwrap();
    assert!(!stays.await.unwrap().replayed);
    // Nobody told him, so he asks again: at once he may be told that it is under way.
    loop {
        match world.messages.accept_together(&cx, world.keyed("a@b.example", "a")).await {
            Err(AcceptError::InFlight) => tokio::task::yield_now().await,
            answer => break assert!(answer.unwrap().replayed),
        }
    }
    assert_eq!(world.count("transactional_messages").await, 2);
}

/// PostgreSQL alone counts them: there each statement is a round trip.
#[tokio::test]
async fn a_go_of_many_messages_is_one_statement_for_each_table() {
    let bed = Bed::postgres().await;
    let world = World::new(&bed).await;
    let tables = [
        "leads",
        "channel_identities",
        "lead_organizations",
        "transactional_messages",
        "message_addresses",
        "queue_messages",
        "timers",
    ];
    // A sequence counts each statement, however many rows it has.
    for table in tables {
        world.run(&format!("CREATE SEQUENCE {table}_statements")).await;
        world
            .run(&format!(
                "CREATE FUNCTION count_{table}() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM nextval(''{table}_statements''); RETURN NULL; END'"
            ))
            .await;
        world
            .run(&format!(
                "CREATE TRIGGER count_statements AFTER INSERT ON {table}
                 FOR EACH STATEMENT EXECUTE FUNCTION count_{table}()"
            ))
            .await;
    }
    let later = bed.access.now().checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    let sends = (0..32).map(|number| {
        let mut send = world.keyed(&format!("p{number}@example.org"), &format!("k-{number}"));
        send.cc = vec![format!("copy{number}@example.org").parse().unwrap()];
        send.scheduled_at = (number % 2 == 0).then_some(later);
        send
    });
    let cx = bed.cx().await;
    for answer in world.messages.accept_many(&cx, sends.collect()).await.unwrap() {
        answer.unwrap();
    }
    for table in tables {
        let counted = format!("{table}_statements WHERE is_called AND last_value = 1");
        assert_eq!(world.count(&counted).await, 1, "{table}");
    }
}
