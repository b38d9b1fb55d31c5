//! In and out again: what is sent comes as it was, to its own queue, and not before its time.

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::queues::{CAMPAIGN_EMAIL, EMAIL_EVENTS, PROBE};
use tidings_kernel::{MAX_BODY_BYTES, Outgoing, Receive};

use super::{Case, cases};
use crate::queues::ground::{Ground, LONG, SHORT, bodies, take};

pub(super) const CASES: &[Case] = &cases![
    a_body_comes_as_it_was,
    the_largest_body_comes_whole,
    many_of_the_largest_bodies_go_in_one_call,
    a_thousand_messages_to_several_queues,
    the_same_body_twice_is_two_messages,
    no_more_come_than_were_asked_for,
    queues_are_isolated,
    an_empty_queue_answers_at_once,
    a_delay_holds_a_message_back,
    a_delayed_message_comes_after_its_delay,
    a_receiver_that_waits_gets_what_is_sent,
];

async fn a_body_comes_as_it_was(ground: Ground) {
    let body = "{\"name\":\"Zoë 🦀\",\"text\":\"a\\tb\\r\\n<&>'\"}\r\n\t 日本語\u{fffd}";
    ground.send(&PROBE, body).await;
    let delivery = ground.take_one(&PROBE).await;
    assert_eq!(delivery.body, body);
    assert_eq!(delivery.receives, 1);
    assert_ne!(delivery.id, "");
}

async fn the_largest_body_comes_whole(ground: Ground) {
    let body = "ß".repeat(MAX_BODY_BYTES / 2);
    ground.send(&PROBE, &body).await;
    assert!(ground.take_one(&PROBE).await.body == body);
}

async fn many_of_the_largest_bodies_go_in_one_call(ground: Ground) {
    let body = "x".repeat(MAX_BODY_BYTES);
    let messages = (0..12).map(|_| Outgoing::new(&PROBE, body.as_str())).collect();
    ground.engine.send(messages).await.unwrap();
    let taken = ground.take(&PROBE, 12).await;
    assert_eq!(taken.len(), 12);
    assert!(taken.iter().all(|delivery| delivery.body == body));
}

async fn a_thousand_messages_to_several_queues(ground: Ground) {
    let queues = [&PROBE, &EMAIL_EVENTS, &CAMPAIGN_EMAIL];
    let messages = (0..1000).map(|n| Outgoing::new(queues[n % 3], format!("{n:03}"))).collect();
    ground.engine.send(messages).await.unwrap();
    for (at, queue) in queues.into_iter().enumerate() {
        let expected: Vec<_> = (at..1000).step_by(3).map(|n| format!("{n:03}")).collect();
        let taken = ground.take(queue, expected.len()).await;
        assert_eq!(bodies(&taken), expected, "{queue}");
        ground.assert_nothing(queue).await;
    }
}

async fn the_same_body_twice_is_two_messages(ground: Ground) {
    ground.send(&PROBE, "a").await;
    ground.send(&PROBE, "a").await;
    let taken = ground.take(&PROBE, 2).await;
    assert_eq!(bodies(&taken), ["a", "a"]);
    assert_ne!(taken[0].id, taken[1].id);
    assert_ne!(taken[0].receipt, taken[1].receipt);
}

async fn no_more_come_than_were_asked_for(ground: Ground) {
    ground.send_numbers(&PROBE, 12).await;
    let request = Receive { max: 3, lease: LONG, wait: Duration::ZERO };
    let taken = ground.engine.receive(&PROBE, request).await.unwrap();
    assert!(taken.len() <= 3, "{} came", taken.len());
    assert_eq!(ground.take(&PROBE, 12 - taken.len()).await.len(), 12 - taken.len());
}

async fn queues_are_isolated(ground: Ground) {
    ground.send_numbers(&CAMPAIGN_EMAIL, 50).await;
    ground.assert_nothing(&PROBE).await;
    ground.send(&PROBE, "a").await;
    assert_eq!(ground.take_one(&PROBE).await.body, "a");
    ground.assert_nothing(&PROBE).await;
}

async fn an_empty_queue_answers_at_once(ground: Ground) {
    ground.assert_nothing(&PROBE).await;
}

async fn a_delay_holds_a_message_back(ground: Ground) {
    let held = Outgoing::new(&PROBE, "held").delayed(Duration::from_secs(900));
    let message = Outgoing::new(&PROBE, "now");
    ground.engine.send(vec![held, message]).await.unwrap();
    assert_eq!(ground.take_one(&PROBE).await.body, "now");
    ground.assert_nothing(&PROBE).await;
}

async fn a_delayed_message_comes_after_its_delay(ground: Ground) {
    ground.engine.send(vec![Outgoing::new(&PROBE, "a").delayed(SHORT)]).await.unwrap();
    ground.pass(SHORT).await;
    let delivery = ground.take_one(&PROBE).await;
    assert_eq!((delivery.body.as_str(), delivery.receives), ("a", 1));
}

async fn a_receiver_that_waits_gets_what_is_sent(ground: Ground) {
    ground.assert_nothing(&PROBE).await;
    let engine = Arc::clone(&ground.engine);
    let receiver = tokio::spawn(async move { take(&*engine, &PROBE, 1).await });
    // Lets it begin to wait. It must get the message if it has not begun, too.
    tokio::task::yield_now().await;
    ground.send(&PROBE, "a").await;
    assert_eq!(bodies(&receiver.await.unwrap()), ["a"]);
}
