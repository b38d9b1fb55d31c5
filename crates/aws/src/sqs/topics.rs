//! Topics in SNS: made where they are missing, with a subscription for each of their queues.
//!
//! A queue takes what the topic sends only if its policy allows it, and gets the bare body only if the
//! subscription asks for raw delivery. Both are looked at before the first message is published.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Value, json};
use tidings_kernel::{Queue, QueueError, Topic};
use tracing::info;

use super::Sqs;
use super::places::Place;
use crate::connection::Missing;
use crate::trouble::Trouble;

const RAW: &str = "RawMessageDelivery";
const SOURCE: &str = "aws:SourceArn";

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
            match subscribed.get(&place.arn) {
                Some(subscription) => self.want_raw(queue, subscription).await?,
                None => {
                    self.subscribe(&arn, &place.arn).await?;
                    info!(
                        topic = name,
                        queue = queue.name,
                        "Queue {queue} is subscribed to {name}"
                    );
                }
            }
        }
        Ok(TopicArn(arn))
    }

    /// The subscriptions by the addresses that get what is published.
    async fn subscribed(&self, topic_arn: &str) -> Result<HashMap<String, String>, QueueError> {
        let mut subscribed = HashMap::new();
        let mut next = None;
        loop {
            let request = self.sns.list_subscriptions_by_topic().topic_arn(topic_arn);
            let request = request.set_next_token(next);
            let answer = request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
            let subscriptions = answer.subscriptions.unwrap_or_default();
            let found = subscriptions.into_iter();
            subscribed.extend(found.filter_map(|one| one.endpoint.zip(one.subscription_arn)));
            next = answer.next_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(subscribed);
            }
        }
    }

    /// Two nodes that do it at once make one subscription: SNS knows it by its endpoint.
    async fn subscribe(&self, topic_arn: &str, queue_arn: &str) -> Result<(), QueueError> {
        let request = self.sns.subscribe().topic_arn(topic_arn).protocol("sqs").endpoint(queue_arn);
        let request = request.attributes(RAW, "true");
        request.send().await.map(drop).map_err(|error| Trouble::new(error).of_queue())
    }

    /// A subscription of somebody else's making may wrap the body in words of SNS, which no worker understands.
    async fn want_raw(&self, queue: &'static Queue, subscription: &str) -> Result<(), QueueError> {
        let request = self.sns.get_subscription_attributes().subscription_arn(subscription);
        let answer = request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
        let raw = answer.attributes.as_ref().and_then(|found| found.get(RAW));
        if raw.is_some_and(|raw| raw == "true") {
            return Ok(());
        }
        let request = self.sns.set_subscription_attributes().subscription_arn(subscription);
        let request = request.attribute_name(RAW).attribute_value("true");
        request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
        info!(queue = queue.name, "The subscription of queue {queue} delivers bare bodies now");
        Ok(())
    }

    /// A policy of somebody else's making is left as it is. If it keeps the topic out, nothing may be published:
    /// SNS would take it and drop it.
    async fn allow(
        &self,
        queue: &'static Queue,
        place: &Place,
        topic_arn: &str,
    ) -> Result<(), QueueError> {
        let mut found = self.attributes(&place.url, &[QueueAttributeName::Policy]).await?;
        let policy = found.remove(&QueueAttributeName::Policy).filter(|policy| !policy.is_empty());
        if let Some(policy) = policy {
            if allows(&policy, &place.arn, topic_arn) {
                return Ok(());
            }
            let refused = format!("the policy of queue {queue} does not allow {topic_arn} to send");
            return Err(QueueError::Failed(refused.into()));
        }
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": { "Service": "sns.amazonaws.com" },
                "Action": "sqs:SendMessage",
                "Resource": place.arn,
                "Condition": { "ArnEquals": { SOURCE: topic_arn } },
            }],
        });
        let request = self.client.set_queue_attributes().queue_url(&place.url);
        let request = request.attributes(QueueAttributeName::Policy, policy.to_string());
        request.send().await.map(drop).map_err(|error| Trouble::new(error).of_queue())
    }
}

/// Whether a statement of the policy lets exactly this topic send to this queue. Patterns are not understood.
fn allows(policy: &str, queue_arn: &str, topic_arn: &str) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return false };
    one_or_many(&policy["Statement"]).any(|statement| {
        let sends = one_or_many(&statement["Action"]).filter_map(Value::as_str).any(|action| {
            ["sqs:sendmessage", "sqs:*", "*"].contains(&action.to_ascii_lowercase().as_str())
        });
        let here = one_or_many(&statement["Resource"]).any(|found| *found == queue_arn);
        let conditions = statement["Condition"].as_object();
        let from_topic = conditions.is_some_and(|conditions| {
            conditions
                .iter()
                .any(|(operator, keys)| is_equality(operator) && names(keys, topic_arn))
        });
        statement["Effect"] == "Allow" && sends && here && from_topic
    })
}

/// Whether the source is this topic, or one of several that it is among.
fn names(keys: &Value, topic_arn: &str) -> bool {
    let mut keys = keys.as_object().into_iter().flatten();
    keys.any(|(key, sources)| {
        key.eq_ignore_ascii_case(SOURCE) && one_or_many(sources).any(|source| *source == topic_arn)
    })
}

fn is_equality(operator: &str) -> bool {
    ["ArnEquals", "ArnLike", "StringEquals", "StringLike"].contains(&operator)
}

/// Policies write a list of one without the list.
fn one_or_many(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice).iter()
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn a_policy_is_read_for_what_it_means() {
        let check = |effect: &str, action: &str, resource: &str, condition: &str| {
            let statement = format!(
                r#"{{"Effect":{effect},"Action":{action},"Resource":{resource},"Condition":{condition}}}"#
            );
            let alone = allows(&format!(r#"{{"Statement":{statement}}}"#), "arn:q", "arn:t");
            let second = format!(r#"{{"Statement":[{{"Effect":"Allow"}},{statement}]}}"#);
            assert_eq!(allows(&second, "arn:q", "arn:t"), alone, "{statement}");
            alone
        };
        let (allow, send, queue) = (r#""Allow""#, r#""sqs:SendMessage""#, r#""arn:q""#);
        let topic = r#"{"ArnEquals":{"aws:SourceArn":"arn:t"}}"#;
        assert!(check(allow, send, queue, topic));
        assert!(check(allow, r#"["SQS:ReceiveMessage","SQS:SendMessage"]"#, queue, topic));
        assert!(check(allow, send, queue, r#"{"ArnLike":{"AWS:SourceArn":["arn:s","arn:t"]}}"#));
        assert!(!check(r#""Deny""#, send, queue, topic));
        assert!(!check(allow, r#""sqs:ReceiveMessage""#, queue, topic));
        assert!(!check(allow, send, r#""arn:other""#, topic));
        assert!(!check(allow, send, queue, r#"{"ArnEquals":{"aws:SourceArn":"arn:t2"}}"#));
        assert!(!check(allow, send, queue, r#"{"ArnNotEquals":{"aws:SourceArn":"arn:t"}}"#));
        assert!(!check(allow, send, queue, "null"));
        assert!(!allows("nonsense", "arn:q", "arn:t"));
        assert!(!allows("{}", "arn:q", "arn:t"));
    }
}
