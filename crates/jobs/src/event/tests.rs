//! Events as Lambda sends them, good and bad.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{Delivery, Outgoing, QueueEngine as _, Receive, queues};
use tidings_sql::{Database, SqlQueues};
use tidings_testkit::FakeClock;

use super::{Event, EventError};
use crate::handler::{Handler, Outcome};

/// Does what the body says.
#[derive(Default)]
struct Obedient {
    /// What it was told of those that come no more.
    given_up: Mutex<Vec<(String, String)>>,
}

#[async_trait]
impl Handler for Obedient {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        match delivery.body.as_str() {
            "done" => Outcome::Done,
            "second try" if delivery.receives == 2 => Outcome::Done,
            "dead" => Outcome::dead("poison"),
            "panic" => panic!("a bug"),
            "hang" => std::future::pending().await,
            "wait" => Outcome::wait("for somebody", Duration::from_secs(1)),
            _ => Outcome::retry("not now"),
        }
    }

    async fn given_up(&self, delivery: &Delivery, reason: &str) {
        self.given_up.lock().unwrap().push((delivery.id.clone(), reason.to_owned()));
    }
}

async fn failures(json: &str) -> String {
    let event = Event::parse(json).unwrap();
    let handler = Obedient::default();
    let response = event.handle(&queues::PROBE, &handler, None, Duration::from_secs(1)).await;
    serde_json::to_string(&response).unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_the_failed_records_come_again() {
    let json = r#"{"Records":[
        {"messageId":"1","body":"done","awsRegion":"eu-central-1"},
        {"messageId":"2","body":"panic"},
        {"messageId":"3","body":"dead"},
        {"messageId":"4","body":"hang"},
        {"messageId":"5","body":"later"},
        {"messageId":"6","body":"second try","attributes":{"ApproximateReceiveCount":"2","SentTimestamp":"1"}},
        {"messageId":"7","body":"done"}]}"#;
    assert_eq!(
        failures(json).await,
        r#"{"batchItemFailures":[{"itemIdentifier":"2"},{"itemIdentifier":"3"},{"itemIdentifier":"4"},{"itemIdentifier":"5"}]}"#
    );
    assert_eq!(failures(r#"{"Records":[]}"#).await, r#"{"batchItemFailures":[]}"#);
}

#[test]
fn an_event_of_another_shape_is_refused_as_a_whole() {
    for json in
        ["", "[]", "{}", r#"{"Records":[{"body":"x"}]}"#, r#"{"Records":[{"messageId":"1"}]}"#]
    {
        assert!(matches!(Event::parse(json), Err(EventError::Shape(_))), "{json}");
    }
    let twins = r#"{"Records":[{"messageId":"1","body":"a"},{"messageId":"1","body":"b"}]}"#;
    assert!(matches!(Event::parse(twins), Err(EventError::SameId)));
}

#[tokio::test]
async fn whoever_fails_for_the_last_time_is_told_so() {
    let record = |id: &str, body: &str, receives: u32| {
        format!(
            r#"{{"messageId":"{id}","body":"{body}","attributes":{{"ApproximateReceiveCount":"{receives}"}}}}"#
        )
    };
    let last = queues::PROBE.max_receives;
    let records = [
        record("1", "never", last - 1),
        record("2", "never", last),
        record("3", "dead", last),
        record("4", "done", last),
        record("5", "wait", last),
        record("6", "dead", 1),
    ];
    let event = Event::parse(&format!(r#"{{"Records":[{}]}}"#, records.join(","))).unwrap();
    let handler = Obedient::default();
    event.handle(&queues::PROBE, &handler, None, Duration::from_secs(1)).await;
    let mut told = handler.given_up.into_inner().unwrap();
    told.sort();
    let told: Vec<_> = told.iter().map(|(id, why)| (id.as_str(), why.as_str())).collect();
    assert_eq!(told, [("2", "not now"), ("3", "poison"), ("5", "for somebody")]);
}

#[tokio::test]
async fn what_waits_is_put_back_for_as_long_as_it_takes() {
    let clock = FakeClock::at("2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap());
    let database = Database::memory().await.unwrap();
    let engine = SqlQueues::new(database, Arc::clone(&clock) as Arc<_>);
    engine.send(vec![Outgoing::new(&queues::PROBE, "wait")]).await.unwrap();
    let handler = Obedient::default();
    for _ in 0..queues::PROBE.max_receives * 2 {
        let request = Receive { max: 1, lease: Duration::from_secs(30), wait: Duration::ZERO };
        let taken = engine.receive(&queues::PROBE, request).await.unwrap().remove(0);
        let record = serde_json::json!({
            "messageId": taken.id, "body": taken.body, "receiptHandle": taken.receipt.0,
            "attributes": {"ApproximateReceiveCount": taken.receives.to_string()},
        });
        let event = Event::from_value(serde_json::json!({"Records": [record]})).unwrap();
        let within = Duration::from_secs(1);
        let response = event.handle(&queues::PROBE, &handler, Some(&engine), within).await;
        assert_eq!(response.batch_item_failures.len(), 1, "nobody else deletes it");
        clock.advance(1.second());
    }
    let depth = engine.depth(&queues::PROBE).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (1, 0, 0));
    assert!(handler.given_up.into_inner().unwrap().is_empty());

    // Of a queue that does not know it, it counts as failed.
    let record = serde_json::json!({
        "messageId": "1", "body": "wait", "receiptHandle": "of another",
        "attributes": {"ApproximateReceiveCount": queues::PROBE.max_receives.to_string()},
    });
    let event = Event::from_value(serde_json::json!({"Records": [record]})).unwrap();
    let handler = Obedient::default();
    event.handle(&queues::PROBE, &handler, Some(&engine), Duration::from_secs(1)).await;
    let told = handler.given_up.into_inner().unwrap();
    assert_eq!(told, [("1".to_owned(), "for somebody".to_owned())]);
}
