//! What a reader says: it is done, and what he said last counts.

use jiff::ToSpan as _;
use tidings_delivery::links::Addressee;
use tidings_jobs::Outcome;
use tidings_jobs::contracts::EventType;
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{Proof, Status, Whom};
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::{World, act};
use crate::tracking::choices::{self, Choices, Scope};
use crate::tracking::{ChoiceError, reader};

each_store!(
    unsubscribing_twice_leaves_the_same_state_and_one_event,
    every_scope_can_be_left_and_come_back_to,
    whoever_died_after_taking_it_in_has_not_lost_it,
    what_the_reader_said_last_counts,
    what_else_the_reader_said_since_does_not_keep_him,
    only_what_was_shown_can_be_chosen,
    a_link_of_a_merged_contact_is_about_who_he_is_now,
);

async fn unsubscribing_twice_leaves_the_same_state_and_one_event(bed: &Bed) {
    let world = World::new(bed).await;
    for scope in [Scope::Client, Scope::Audience, Scope::Everything] {
        world.leave(scope).await;
        let once = world.standing().await;
        bed.clock.advance(1.minute());
        world.leave(scope).await;
        assert_eq!(world.standing().await, once);
        world.work().await;
        assert_eq!(world.standing().await, once);
    }
    assert_eq!(world.standing().await, "audience=off client=off left everything");
    assert_eq!(world.events().await, ["unsubscribe -"; 3], "one for each scope");
    let sql = "SELECT count(*) FROM consent_log WHERE action = 'unsubscribed'";
    let rows = world.cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    assert_eq!(rows[0].int(0).unwrap(), 3, "one proof for each change");
}

/// Wherever whoever takes it in ends: that somebody left is never known without the event, nor the event without it.
#[tokio::test]
async fn who_leaves_while_we_die_has_left_and_is_known_to() {
    for turns in 0..24 {
        let bed = Bed::memory().await;
        let world = World::new(&bed).await;
        let mut leaving = std::pin::pin!(world.leave(Scope::Everything));
        let mut rest = turns;
        std::future::poll_fn(|context| match leaving.as_mut().poll(context) {
            std::task::Poll::Pending if rest > 0 => {
                rest -= 1;
                std::task::Poll::Pending
            }
            _ => std::task::Poll::Ready(()),
        })
        .await;
        bed.advance(1).await;
        world.work().await;
        let left = world.standing().await.contains("left everything");
        assert_eq!(!world.events().await.is_empty(), left, "after {turns} turns");
    }
}

async fn every_scope_can_be_left_and_come_back_to(bed: &Bed) {
    let world = World::new(bed).await;
    for (scope, left, back) in [
        (Scope::Everything, "audience=on left everything", "audience=on"),
        (Scope::Audience, "audience=off", "audience=on"),
        (Scope::Client, "audience=on client=off", "audience=on client=on"),
    ] {
        world.leave(scope).await;
        assert_eq!(world.standing().await, left);
        bed.clock.advance(1.minute());
        world.come_back(scope).await;
        assert_eq!(world.standing().await, back);
    }
}

async fn whoever_died_after_taking_it_in_has_not_lost_it(bed: &Bed) {
    let world = World::new(bed).await;
    let mut event =
        world.event(EventType::Unsubscribe, &world.tracking.links.unsubscribe(&world.to));
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on client=off", "by default mails like this one");
    event.metadata = serde_json::json!({ "scope": "everything" }).as_object().cloned();
    bed.clock.advance(1.minute());
    event.occurred_at = bed.access.now();
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on client=off left everything");
}

async fn what_the_reader_said_last_counts(bed: &Bed) {
    let world = World::new(bed).await;
    world.leave(Scope::Client).await;
    bed.clock.advance(1.second());
    world.come_back(Scope::Client).await;
    assert_eq!(world.standing().await, "audience=on client=on");
    bed.advance(1).await;
    assert_eq!(world.work().await, 1, "the event comes late");
    assert_eq!(world.standing().await, "audience=on client=on");
}

/// Whoever took it in died; then he switched a topic, left something else and came back to that.
async fn what_else_the_reader_said_since_does_not_keep_him(bed: &Bed) {
    let world = World::new(bed).await;
    let mut event =
        world.event(EventType::Unsubscribe, &world.tracking.links.unsubscribe(&world.to));
    event.metadata = serde_json::json!({ "scope": "everything" }).as_object().cloned();
    bed.clock.advance(1.minute());
    let reader = reader::find(&world.tracking.access, world.to).await.unwrap().unwrap();
    let topics = vec![(reader.topics[0].id, false)];
    let choices = Choices { topics, ..Choices::default() };
    world.choose(&reader, &choices).await.unwrap();
    world.leave(Scope::Audience).await;
    bed.clock.advance(1.minute());
    world.come_back(Scope::Audience).await;
    assert_eq!(world.standing().await, "audience=on");
    for _ in 0..2 {
        assert_eq!(world.handle(&event).await, Outcome::Done);
        assert_eq!(world.standing().await, "audience=on left everything");
    }
    // Had he come back to all of it, that would count.
    bed.clock.advance(1.minute());
    world.come_back(Scope::Everything).await;
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on");
}

async fn only_what_was_shown_can_be_chosen(bed: &Bed) {
    let world = World::new(bed).await;
    let read = async || reader::find(&world.tracking.access, world.to).await.unwrap().unwrap();
    let reader = read().await;
    let (topic, list) = (reader.topics[0].id, reader.subscriptions[0].id);
    for bad in [
        Choices { topics: vec![(999, false)], ..Choices::default() },
        Choices { topics: vec![(topic, false), (999, true)], ..Choices::default() },
        Choices { subscriptions: vec![(999, false)], topics: vec![(topic, false)] },
    ] {
        let refused = world.choose(&reader, &bad).await;
        assert!(matches!(refused, Err(ChoiceError::NotOffered)));
    }
    assert!(read().await.topics[0].is_on, "nothing half-done");
    let off = Choices { topics: vec![(topic, false)], subscriptions: vec![(list, false)] };
    for _ in 0..2 {
        world.choose(&reader, &off).await.unwrap();
        let reader = read().await;
        assert!(!reader.topics[0].is_on && !reader.subscriptions[0].is_on);
    }
    // His message was for that list: it is told once why he left.
    bed.advance(1).await;
    world.work().await;
    assert_eq!(world.events().await, ["unsubscribe -"]);
    assert!(!read().await.subscriptions[0].is_on);
    bed.clock.advance(1.second());
    let on = Choices { topics: vec![(topic, true)], subscriptions: vec![(list, true)] };
    world.choose(&read().await, &on).await.unwrap();
    assert!(read().await.topics[0].is_on && read().await.subscriptions[0].is_on);
    assert_eq!(Scope::from_word("nothing"), None);
    // A mail that was for no audience offers none.
    let to = Addressee { audience: None, ..world.to };
    let reader = reader::find(&world.tracking.access, to).await.unwrap().unwrap();
    for scope in [Scope::Client, Scope::Audience] {
        let refused = choices::resubscribe(&reader, scope, Proof::default()).await;
        assert!(matches!(refused, Err(ChoiceError::NotOffered)));
    }
    assert_eq!(Scope::of(&to), Scope::Everything);
}

async fn a_link_of_a_merged_contact_is_about_who_he_is_now(bed: &Bed) {
    let world = World::new(bed).await;
    let whom = Whom::Email("ada@work.example.org".parse().unwrap());
    let audience = world.to.audience.unwrap().into();
    let subscribe =
        Subscribe { whom: whom.clone(), audience, client: None, confirmed: false, act: act() };
    let other = subscriptions::subscribe(&world.cx, subscribe).await.unwrap().contact;
    let now = world.cx.now().as_millisecond();
    world
        .run(&format!(
            "UPDATE leads SET merged_into_id = {other}, merged_at = {now} WHERE id = {}",
            world.to.contact
        ))
        .await;
    world.leave(Scope::Audience).await;
    let subscribed = subscriptions::list(&world.cx, whom).await.unwrap().unwrap();
    assert_eq!(subscribed[0].status, Status::Unsubscribed);
}
