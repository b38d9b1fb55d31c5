//! Dead letters: what was delivered too often, or can never succeed. It is kept until somebody decides.

use std::time::Duration;

use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
use tidings_kernel::{DeadLetter, Which};

use super::{Case, cases};
use crate::queues::Quirk;
use crate::queues::ground::{Ground, SHORT, bodies};

pub(super) const CASES: &[Case] = &cases![
    what_was_delivered_too_often_is_given_up,
    what_was_left_too_often_is_given_up,
    a_delivery_can_be_buried_at_once,
    what_is_buried_needs_no_words,
    the_largest_body_can_be_buried,
    a_queue_without_dead_letters,
    dead_letters_are_listed_in_pages,
    looking_at_dead_letters_changes_nothing,
    everything_is_replayed,
    only_some_are_replayed,
    what_is_replayed_can_be_given_up_again,
    everything_is_purged,
    only_some_are_purged,
    what_is_not_there_is_not_replayed_or_purged,
    dead_letters_belong_to_their_queue,
];

fn numbers(letters: &[DeadLetter]) -> Vec<&str> {
    let mut bodies: Vec<_> = letters.iter().map(|letter| letter.body.as_str()).collect();
    bodies.sort_unstable();
    bodies
}

async fn ids(ground: &Ground, bodies: &[&str]) -> Which {
    let letters = ground.dead_letters(&PROBE).await;
    let chosen = letters.into_iter().filter(|letter| bodies.contains(&letter.body.as_str()));
    Which::Only(chosen.map(|letter| letter.id).collect())
}

async fn what_was_delivered_too_often_is_given_up(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.wear_out(&PROBE).await;
    let letters = ground.dead_letters(&PROBE).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].body, "a");
    assert_eq!(letters[0].receives, PROBE.max_receives);
    assert_eq!(letters[0].enqueued_at, delivery.enqueued_at);
}

/// Of a worker that dies with its message nobody hears a word.
async fn what_was_left_too_often_is_given_up(ground: Ground) {
    ground.send(&PROBE, "a").await;
    for _ in 1..PROBE.max_receives {
        let delivery = ground.take_one(&PROBE).await;
        ground.postpone(&PROBE, &delivery, Duration::ZERO).await;
    }
    ground.take_one_for(&PROBE, SHORT).await;
    ground.pass(SHORT).await;
    ground.assert_nothing(&PROBE).await;
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["a"]);
}

async fn a_delivery_can_be_buried_at_once(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.postpone(&PROBE, &first, Duration::ZERO).await;
    let delivery = ground.take_one(&PROBE).await;
    ground.engine.bury(&PROBE, &delivery, "the contract is not known 🦀").await.unwrap();
    ground.assert_nothing(&PROBE).await;
    let letters = ground.dead_letters(&PROBE).await;
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].body.as_str(), letters[0].receives), ("a", 2));
    assert_eq!(letters[0].enqueued_at, delivery.enqueued_at);
    assert_eq!(letters[0].reason.as_deref(), Some("the contract is not known 🦀"));
    if !ground.has(Quirk::DeadLettersAreSampled) {
        assert_eq!(letters[0].id, delivery.id);
    }
}

async fn what_is_buried_needs_no_words(ground: Ground) {
    for reason in ["", "\u{0}\u{1b}[31m", &"x".repeat(100_000)] {
        ground.send(&PROBE, "a").await;
        let delivery = ground.take_one(&PROBE).await;
        ground.engine.bury(&PROBE, &delivery, reason).await.unwrap();
    }
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["a", "a", "a"]);
}

async fn the_largest_body_can_be_buried(ground: Ground) {
    let body = "x".repeat(tidings_kernel::MAX_BODY_BYTES);
    ground.send(&PROBE, &body).await;
    let delivery = ground.take_one(&PROBE).await;
    ground.engine.bury(&PROBE, &delivery, "too much").await.unwrap();
    assert!(ground.dead_letters(&PROBE).await[0].body == body);
    assert_eq!(ground.engine.replay(&PROBE, Which::All).await.unwrap(), 1);
    assert!(ground.take_one(&PROBE).await.body == body);
}

async fn a_queue_without_dead_letters(ground: Ground) {
    assert_eq!(ground.dead_letters(&PROBE).await, []);
    assert_eq!(ground.engine.replay(&PROBE, Which::All).await.unwrap(), 0);
    assert_eq!(ground.engine.purge(&PROBE, Which::All).await.unwrap(), 0);
}

async fn dead_letters_are_listed_in_pages(ground: Ground) {
    ground.bury_numbers(&PROBE, 5).await;
    let page =
        async |after: Option<&str>| ground.engine.dead_letters(&PROBE, after, 2).await.unwrap();
    let first = page(None).await;
    if ground.has(Quirk::DeadLettersAreSampled) {
        assert_eq!(first.len(), 2);
        assert_eq!(page(Some(&first[1].id)).await, []);
        return;
    }
    let second = page(Some(&first[1].id)).await;
    let third = page(Some(&second[1].id)).await;
    let listed = [first, second, third.clone()].concat();
    assert_eq!(
        listed.iter().map(|letter| &letter.body).collect::<Vec<_>>(),
        ["0", "1", "2", "3", "4"]
    );
    assert_eq!(page(Some(&third[0].id)).await, []);
}

async fn looking_at_dead_letters_changes_nothing(ground: Ground) {
    ground.bury_numbers(&PROBE, 3).await;
    for _ in 0..3 {
        let letters = ground.dead_letters(&PROBE).await;
        assert_eq!(numbers(&letters), ["0", "1", "2"]);
        assert!(letters.iter().all(|letter| letter.receives == 1));
    }
}

async fn everything_is_replayed(ground: Ground) {
    ground.bury_numbers(&PROBE, 12).await;
    assert_eq!(ground.engine.replay(&PROBE, Which::All).await.unwrap(), 12);
    let taken = ground.take(&PROBE, 12).await;
    assert_eq!(taken.len(), 12);
    assert!(taken.iter().all(|delivery| delivery.receives == 1));
    assert_eq!(ground.dead_letters(&PROBE).await, []);
}

async fn only_some_are_replayed(ground: Ground) {
    ground.bury_numbers(&PROBE, 4).await;
    let which = ids(&ground, &["1", "3"]).await;
    assert_eq!(ground.engine.replay(&PROBE, which).await.unwrap(), 2);
    let taken = ground.take(&PROBE, 2).await;
    assert_eq!(bodies(&taken), ["1", "3"]);
    assert!(taken.iter().all(|delivery| delivery.receives == 1));
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["0", "2"]);
}

async fn what_is_replayed_can_be_given_up_again(ground: Ground) {
    ground.bury_numbers(&PROBE, 1).await;
    ground.engine.replay(&PROBE, Which::All).await.unwrap();
    ground.wear_out(&PROBE).await;
    let letters = ground.dead_letters(&PROBE).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].receives, PROBE.max_receives);
}

async fn everything_is_purged(ground: Ground) {
    ground.bury_numbers(&PROBE, 12).await;
    ground.send(&PROBE, "alive").await;
    assert_eq!(ground.engine.purge(&PROBE, Which::All).await.unwrap(), 12);
    assert_eq!(ground.dead_letters(&PROBE).await, []);
    assert_eq!(ground.take_one(&PROBE).await.body, "alive");
}

async fn only_some_are_purged(ground: Ground) {
    ground.bury_numbers(&PROBE, 3).await;
    let which = ids(&ground, &["1"]).await;
    assert_eq!(ground.engine.purge(&PROBE, which).await.unwrap(), 1);
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["0", "2"]);
    ground.assert_nothing(&PROBE).await;
}

async fn what_is_not_there_is_not_replayed_or_purged(ground: Ground) {
    ground.bury_numbers(&PROBE, 1).await;
    for which in [Which::Only(Vec::new()), Which::Only(vec!["nothing".to_owned()])] {
        assert_eq!(ground.engine.replay(&PROBE, which.clone()).await.unwrap(), 0);
        assert_eq!(ground.engine.purge(&PROBE, which).await.unwrap(), 0);
    }
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["0"]);
}

async fn dead_letters_belong_to_their_queue(ground: Ground) {
    ground.bury_numbers(&PROBE, 1).await;
    assert_eq!(ground.dead_letters(&EMAIL_EVENTS).await, []);
    assert_eq!(ground.engine.replay(&EMAIL_EVENTS, Which::All).await.unwrap(), 0);
    assert_eq!(ground.engine.purge(&EMAIL_EVENTS, Which::All).await.unwrap(), 0);
    assert_eq!(numbers(&ground.dead_letters(&PROBE).await), ["0"]);
}
