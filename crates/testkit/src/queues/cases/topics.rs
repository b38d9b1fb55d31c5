//! Topics: what is published comes out of each of the topic's queues, once, and of no other.

use tidings_kernel::queues::{FEATURE_PROCESSING, LEAD_INGESTION, MEMORY_PROCESSING, PROBE};
use tidings_kernel::topics::LEAD_EVENTS;
use tidings_kernel::{MAX_BODY_BYTES, Outgoing};

use super::{Case, cases};
use crate::queues::ground::{Ground, bodies};

pub(super) const CASES: &[Case] = &cases![
    what_is_published_reaches_each_queue_of_the_topic,
    each_queue_settles_its_own_copy,
    many_are_published_and_sent_in_one_call,
    the_largest_body_is_published,
];

async fn what_is_published_reaches_each_queue_of_the_topic(ground: Ground) {
    let body = "{\"name\":\"Zoë 🦀\"}";
    ground.engine.send(vec![Outgoing::publish(&LEAD_EVENTS, body)]).await.unwrap();
    for queue in LEAD_EVENTS.queues {
        assert_eq!(ground.take_one(queue).await.body, body, "{queue}");
        ground.assert_nothing(queue).await;
    }
    for queue in [&PROBE, &LEAD_INGESTION] {
        ground.assert_nothing(queue).await;
    }
}

async fn each_queue_settles_its_own_copy(ground: Ground) {
    ground.engine.send(vec![Outgoing::publish(&LEAD_EVENTS, "a")]).await.unwrap();
    let delivery = ground.take_one(&MEMORY_PROCESSING).await;
    assert_eq!(ground.acknowledge(&MEMORY_PROCESSING, &delivery).await, 1);
    let copy = ground.take_one(&FEATURE_PROCESSING).await;
    ground.engine.bury(&FEATURE_PROCESSING, &copy, "no use").await.unwrap();
    assert_eq!(ground.dead_letters(&MEMORY_PROCESSING).await, []);
    assert_eq!(ground.dead_letters(&FEATURE_PROCESSING).await.len(), 1);
}

async fn many_are_published_and_sent_in_one_call(ground: Ground) {
    let messages = (10..40).flat_map(|number| {
        let body = number.to_string();
        let message = Outgoing::new(&MEMORY_PROCESSING, format!("sent {body}"));
        [Outgoing::publish(&LEAD_EVENTS, body), message]
    });
    ground.engine.send(messages.collect()).await.unwrap();
    let published: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    let sent = (10..40).map(|number| format!("sent {number}"));
    let taken = ground.take(&FEATURE_PROCESSING, 30).await;
    assert_eq!(bodies(&taken), published);
    let taken = ground.take(&MEMORY_PROCESSING, 60).await;
    assert_eq!(bodies(&taken), published.iter().cloned().chain(sent).collect::<Vec<_>>());
}

async fn the_largest_body_is_published(ground: Ground) {
    let body = "x".repeat(MAX_BODY_BYTES);
    let messages = vec![Outgoing::publish(&LEAD_EVENTS, body.as_str()); 2];
    ground.engine.send(messages).await.unwrap();
    let taken = ground.take(&MEMORY_PROCESSING, 2).await;
    assert_eq!(taken.len(), 2);
    assert!(taken.iter().all(|delivery| delivery.body == body));
}
