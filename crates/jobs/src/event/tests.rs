//! Events as Lambda sends them, good and bad.

use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::Delivery;

use super::{Event, EventError};
use crate::handler::{Handler, Outcome};

/// Does what the body says.
struct Obedient;

#[async_trait]
impl Handler for Obedient {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        match delivery.body.as_str() {
            "done" => Outcome::Done,
            "second try" if delivery.receives == 2 => Outcome::Done,
            "dead" => Outcome::dead("poison"),
            "panic" => panic!("a bug"),
            "hang" => std::future::pending().await,
            _ => Outcome::retry("not now"),
        }
    }
}

async fn failures(json: &str) -> String {
    let response = Event::parse(json).unwrap().handle(&Obedient, Duration::from_secs(1)).await;
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
