//! The engine on a server of SQS and SNS: how queues and topics are made, and what becomes of them.
//!
//! What every engine must do is in the conformance suite (`queues.rs`); here is what only this one has.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod credentials;
mod queue_server;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sns::Client as SnsClient;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use tidings_aws::{Missing, Settings, Sqs};
use tidings_kernel::queues::{FEATURE_PROCESSING, MEMORY_PROCESSING, PROBE};
use tidings_kernel::topics::LEAD_EVENTS;
use tidings_kernel::{Delivery, Outgoing, Queue, QueueEngine, QueueError, Receive, Which};

/// What the SDK says without us.
struct Bare {
    sqs: Client,
    sns: SnsClient,
}

impl Bare {
    fn new() -> Self {
        let config = credentials::config().into_builder().endpoint_url(queue_server::endpoint());
        // Our engine brings its own client of HTTP; this one needs no TLS.
        let http = aws_smithy_http_client::Builder::new().build_http();
        let config = config.http_client(http).build();
        Self { sqs: Client::new(&config), sns: SnsClient::new(&config) }
    }

    async fn url(&self, name: &str) -> String {
        self.sqs.get_queue_url().queue_name(name).send().await.unwrap().queue_url.unwrap()
    }

    async fn attribute(&self, name: &str, attribute: QueueAttributeName) -> Option<String> {
        let request = self.sqs.get_queue_attributes().queue_url(self.url(name).await);
        let answer = request.attribute_names(attribute.clone()).send().await.unwrap();
        answer.attributes.unwrap_or_default().remove(&attribute)
    }

    /// The endpoints that are subscribed to a topic.
    async fn subscriptions(&self, prefix: &str) -> Vec<String> {
        let topic = self.sns.create_topic().name(format!("{prefix}-lead-events"));
        let arn = topic.send().await.unwrap().topic_arn.unwrap();
        let listed = self.sns.list_subscriptions_by_topic().topic_arn(arn).send().await.unwrap();
        let found = listed.subscriptions.unwrap_or_default();
        let mut endpoints: Vec<_> = found.into_iter().filter_map(|one| one.endpoint).collect();
        endpoints.sort_unstable();
        endpoints
    }
}

fn probe(body: &str) -> Vec<Outgoing> {
    vec![Outgoing::new(&PROBE, body)]
}

async fn take(engine: &Sqs, queue: &'static Queue) -> Vec<Delivery> {
    let request = Receive { max: 10, lease: Duration::from_secs(60), wait: Duration::from_secs(5) };
    engine.receive(queue, request).await.unwrap()
}

#[tokio::test]
async fn queues_are_made_once_whoever_comes_first() {
    let prefix = queue_server::prefix();
    let nodes = [(); 3].map(|()| queue_server::connect(&prefix));
    let (a, b, c) =
        tokio::join!(nodes[0].send(probe("a")), nodes[1].send(probe("b")), nodes[2].depth(&PROBE));
    a.unwrap();
    b.unwrap();
    c.unwrap();
    let mut bodies: Vec<_> =
        take(&nodes[2], &PROBE).await.into_iter().map(|delivery| delivery.body).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["a", "b"]);
}

#[tokio::test]
async fn queues_have_our_settings() {
    let prefix = queue_server::prefix();
    queue_server::connect(&prefix).depth(&PROBE).await.unwrap();
    let (bare, name) = (Bare::new(), format!("{prefix}-probe"));
    let fortnight = Some("1209600".to_owned());
    let retention = QueueAttributeName::MessageRetentionPeriod;
    assert_eq!(bare.attribute(&name, retention.clone()).await, fortnight);
    assert_eq!(bare.attribute(&format!("{name}-dead"), retention).await, fortnight);
    let lease = bare.attribute(&name, QueueAttributeName::VisibilityTimeout).await;
    assert_eq!(lease.as_deref(), Some("30"));
    let redrive = bare.attribute(&name, QueueAttributeName::RedrivePolicy).await.unwrap();
    assert!(redrive.contains(&format!("{name}-dead")), "{redrive}");
}

#[tokio::test]
async fn a_queue_that_somebody_set_up_otherwise_is_left_so() {
    let prefix = queue_server::prefix();
    let (bare, name) = (Bare::new(), format!("{prefix}-probe"));
    let request = bare.sqs.create_queue().queue_name(&name);
    request.attributes(QueueAttributeName::VisibilityTimeout, "77").send().await.unwrap();
    let engine = queue_server::connect(&prefix);
    engine.send(probe("a")).await.unwrap();
    assert_eq!(take(&engine, &PROBE).await.len(), 1);
    let lease = bare.attribute(&name, QueueAttributeName::VisibilityTimeout).await;
    assert_eq!(lease.as_deref(), Some("77"));
    let redrive = bare.attribute(&name, QueueAttributeName::RedrivePolicy).await;
    assert_eq!(redrive.filter(|policy| !policy.is_empty()), None);
}

#[tokio::test]
async fn subscriptions_and_policies_are_made_once_whoever_publishes_first() {
    let prefix = queue_server::prefix();
    let nodes = [(); 2].map(|()| queue_server::connect(&prefix));
    let publish = || vec![Outgoing::publish(&LEAD_EVENTS, "a")];
    let (a, b) = tokio::join!(nodes[0].send(publish()), nodes[1].send(publish()));
    a.unwrap();
    b.unwrap();
    queue_server::connect(&prefix).send(publish()).await.unwrap();

    let bare = Bare::new();
    assert_eq!(bare.subscriptions(&prefix).await.len(), LEAD_EVENTS.queues.len());
    for queue in [&MEMORY_PROCESSING, &FEATURE_PROCESSING] {
        let name = format!("{prefix}-{queue}");
        let policy = bare.attribute(&name, QueueAttributeName::Policy).await.unwrap();
        assert!(policy.contains(&format!("{prefix}-lead-events")), "{policy}");
        assert_eq!(policy.matches("Allow").count(), 1);
        assert_eq!(take(&nodes[0], queue).await.len(), 3, "{queue}");
    }
}

#[tokio::test]
async fn a_queue_that_was_deleted_is_made_anew() {
    let prefix = queue_server::prefix();
    let engine = queue_server::connect(&prefix);
    engine.send(probe("lost")).await.unwrap();
    let bare = Bare::new();
    let url = bare.url(&format!("{prefix}-probe")).await;
    bare.sqs.delete_queue().queue_url(url).send().await.unwrap();
    assert!(matches!(engine.send(probe("a")).await, Err(QueueError::Unavailable(_))));
    engine.send(probe("a")).await.unwrap();
    assert_eq!(take(&engine, &PROBE).await[0].body, "a");
}

#[tokio::test]
async fn who_only_looks_makes_nothing() {
    let prefix = queue_server::prefix();
    let settings = Settings {
        endpoint: Some(queue_server::endpoint()),
        prefix: prefix.clone(),
        missing: Missing::Refuse,
    };
    let engine = Sqs::new(&credentials::config(), settings);
    assert!(matches!(engine.depth(&PROBE).await, Err(QueueError::Failed(_))));
    let publish = vec![Outgoing::publish(&LEAD_EVENTS, "a")];
    assert!(matches!(engine.send(publish).await, Err(QueueError::Failed(_))));
    let listed = Bare::new().sqs.list_queues().queue_name_prefix(&prefix).send().await.unwrap();
    assert_eq!(listed.queue_urls.unwrap_or_default().len(), 0);

    queue_server::connect(&prefix).send(probe("a")).await.unwrap();
    assert_eq!(engine.depth(&PROBE).await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_server_that_is_away_can_be_asked_again() {
    let settings =
        Settings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..Settings::default() };
    let engine = Sqs::new(&credentials::config(), settings);
    assert!(matches!(engine.send(probe("a")).await, Err(QueueError::Unavailable(_))));
}

#[tokio::test]
async fn a_policy_that_keeps_the_topic_out_is_told_and_left_so() {
    let prefix = queue_server::prefix();
    let (bare, engine) = (Bare::new(), queue_server::connect(&prefix));
    engine.depth(&MEMORY_PROCESSING).await.unwrap();
    let url = bare.url(&format!("{prefix}-memory-processing")).await;
    let policy = r#"{"Version":"2012-10-17","Statement":[]}"#;
    let request = bare.sqs.set_queue_attributes().queue_url(&url);
    request.attributes(QueueAttributeName::Policy, policy).send().await.unwrap();
    let publish = || vec![Outgoing::publish(&LEAD_EVENTS, "a")];
    assert!(matches!(engine.send(publish()).await, Err(QueueError::Failed(_))));

    let request = bare.sqs.set_queue_attributes().queue_url(&url);
    request.attributes(QueueAttributeName::Policy, "").send().await.unwrap();
    engine.send(publish()).await.unwrap();
    assert_eq!(take(&engine, &MEMORY_PROCESSING).await[0].body, "a");
}

#[tokio::test]
async fn a_subscription_that_wraps_bodies_is_set_right() {
    let prefix = queue_server::prefix();
    let (bare, engine) = (Bare::new(), queue_server::connect(&prefix));
    engine.depth(&MEMORY_PROCESSING).await.unwrap();
    let queue = format!("{prefix}-memory-processing");
    let queue_arn = bare.attribute(&queue, QueueAttributeName::QueueArn).await.unwrap();
    let topic = bare.sns.create_topic().name(format!("{prefix}-lead-events"));
    let arn = topic.send().await.unwrap().topic_arn.unwrap();
    let request = bare.sns.subscribe().topic_arn(arn).protocol("sqs").endpoint(queue_arn);
    request.send().await.unwrap();
    engine.send(vec![Outgoing::publish(&LEAD_EVENTS, "a")]).await.unwrap();
    assert_eq!(take(&engine, &MEMORY_PROCESSING).await[0].body, "a");
    assert_eq!(bare.subscriptions(&prefix).await.len(), LEAD_EVENTS.queues.len());
}

#[tokio::test]
async fn a_queue_that_was_deleted_is_fed_by_its_topic_again() {
    let prefix = queue_server::prefix();
    let (bare, engine) = (Bare::new(), queue_server::connect(&prefix));
    let publish = |body: &str| vec![Outgoing::publish(&LEAD_EVENTS, body)];
    engine.send(publish("lost")).await.unwrap();
    let name = format!("{prefix}-memory-processing");
    bare.sqs.delete_queue().queue_url(bare.url(&name).await).send().await.unwrap();
    let request = Receive { max: 1, lease: Duration::from_secs(60), wait: Duration::ZERO };
    assert!(engine.receive(&MEMORY_PROCESSING, request).await.is_err());
    engine.send(publish("a")).await.unwrap();
    assert_eq!(take(&engine, &MEMORY_PROCESSING).await[0].body, "a");
    let policy = bare.attribute(&name, QueueAttributeName::Policy).await.unwrap();
    assert!(policy.contains(&format!("{prefix}-lead-events")), "{policy}");
}

/// A worker that buries everything at once.
#[tokio::test]
async fn a_replay_ends_although_what_it_replays_dies_again() {
    let prefix = queue_server::prefix();
    let engine = Arc::new(queue_server::connect(&prefix));
    for number in 0..15 {
        engine.send(probe(&number.to_string())).await.unwrap();
        let delivery = take(&engine, &PROBE).await.remove(0);
        engine.bury(&PROBE, &delivery, "poison").await.unwrap();
    }
    let worker = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move {
            loop {
                for delivery in take(&engine, &PROBE).await {
                    engine.bury(&PROBE, &delivery, "poison").await.unwrap();
                }
            }
        }
    });
    assert_eq!(engine.replay(&PROBE, Which::All).await.unwrap(), 15);
    worker.abort();
}
