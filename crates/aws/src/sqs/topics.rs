//! Topics in SNS: made where they are missing, with a subscription for each of their queues.
//!
//! A queue takes what the topic sends only if its policy allows it, and gets the bare body only if the
//! subscription asks for raw delivery.

use std::collections::HashSet;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;
use tidings_kernel::{Queue, QueueError, Topic};
use tracing::{info, warn};

use super::Sqs;
use super::places::Place;
use crate::connection::Missing;
use crate::trouble::Trouble;

/// The address of a topic all of whose queues are subscribed.
pub(super) struct TopicArn(pub(super) String);

impl Sqs {
    pub(super) async fn make_topic(&self, topic: &'static Topic) -> Result<TopicArn, QueueError> {
        let name = self.full_name(topic.name);
        if self.missing == Missing::Refuse {
            let refused = format!("topic {name} is not for those who only look");
            return Err(QueueError::Failed(refused.into()));
        }
        // SNS answers with the topic of this name if there is one.
        let request = self.sns.create_topic().name(&name);
        let answer = request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
        let arn = answer.topic_arn.ok_or(QueueError::Failed("a topic without an ARN".into()))?;
        let subscribed = self.subscribed(&arn).await?;
        for queue in topic.queues {
            let place = self.place(queue).await?;
            self.allow(queue, &place, &arn).await?;
            if !subscribed.contains(&place.arn) {
                self.subscribe(&arn, &place.arn).await?;
                info!(topic = name, queue = queue.name, "Queue {queue} is subscribed to {name}");
            }
        }
        Ok(TopicArn(arn))
    }

    /// The addresses that get what is published.
    async fn subscribed(&self, topic_arn: &str) -> Result<HashSet<String>, QueueError> {
        let mut endpoints = HashSet::new();
        let mut next = None;
        loop {
            let request = self.sns.list_subscriptions_by_topic().topic_arn(topic_arn);
            let request = request.set_next_token(next);
            let answer = request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
            let subscriptions = answer.subscriptions.unwrap_or_default();
            endpoints.extend(subscriptions.into_iter().filter_map(|found| found.endpoint));
            next = answer.next_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(endpoints);
            }
        }
    }

    /// Two nodes that do it at once make one subscription: SNS knows it by its endpoint.
    async fn subscribe(&self, topic_arn: &str, queue_arn: &str) -> Result<(), QueueError> {
        let request = self.sns.subscribe().topic_arn(topic_arn).protocol("sqs").endpoint(queue_arn);
        let request = request.attributes("RawMessageDelivery", "true");
        request.send().await.map(drop).map_err(|error| Trouble::new(error).of_queue())
    }

    async fn allow(
        &self,
        queue: &'static Queue,
        place: &Place,
        topic_arn: &str,
    ) -> Result<(), QueueError> {
        let mut found = self.attributes(&place.url, &[QueueAttributeName::Policy]).await?;
        match found.remove(&QueueAttributeName::Policy).filter(|policy| !policy.is_empty()) {
            Some(policy) if policy.contains(topic_arn) => return Ok(()),
            Some(_) => {
                warn!(
                    queue = queue.name,
                    "The policy of queue {queue} does not name {topic_arn}, and is left so"
                );
                return Ok(());
            }
            None => {}
        }
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": { "Service": "sns.amazonaws.com" },
                "Action": "sqs:SendMessage",
                "Resource": place.arn,
                "Condition": { "ArnEquals": { "aws:SourceArn": topic_arn } },
            }],
        });
        let request = self.client.set_queue_attributes().queue_url(&place.url);
        let request = request.attributes(QueueAttributeName::Policy, policy.to_string());
        request.send().await.map(drop).map_err(|error| Trouble::new(error).of_queue())
    }
}
