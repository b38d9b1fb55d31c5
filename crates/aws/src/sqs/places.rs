//! A queue and its dead letters in SQS: found, or made where they are missing.
//!
//! Several nodes may be at it at the same time. Every step asks first and takes "somebody has made it" for an
//! answer, so that they all end at the same queues. What somebody has set up otherwise is left as it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Value, json};
use tidings_kernel::{Depth, Queue, QueueError};
use tokio::sync::OnceCell;
use tracing::{info, warn};

use super::{Sqs, whole_seconds};
use crate::connection::Missing;
use crate::trouble::Trouble;

/// The longest that SQS keeps a message. It counts from the first send, so dead letters need it as well.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Where the messages of a queue are.
pub(super) struct Place {
    pub(super) url: String,
    pub(super) arn: String,
    /// The URL of its dead letters.
    pub(super) dead: String,
}

/// What is known to be there, by name. The cell makes those who ask at the same time wait for the first.
pub(super) struct Made<T>(Mutex<HashMap<&'static str, Arc<OnceCell<Arc<T>>>>>);

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Made<T> {
    pub(super) async fn get<F>(
        &self,
        name: &'static str,
        make: impl FnOnce() -> F,
    ) -> Result<Arc<T>, QueueError>
    where
        F: Future<Output = Result<T, QueueError>>,
    {
        let cell = {
            let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(name).or_default())
        };
        let made = cell.get_or_try_init(|| async { make().await.map(Arc::new) }).await?;
        Ok(Arc::clone(made))
    }

    /// Somebody has deleted it: the next one who asks makes it anew.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Sqs {
    pub(super) fn full_name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub(super) async fn make_place(&self, queue: &'static Queue) -> Result<Place, QueueError> {
        let name = self.full_name(queue.name);
        let dead = self.find_or_create(&format!("{name}-dead"), HashMap::new()).await?;
        let dead_arn = self.arn(&dead).await?;
        let redrive = json!({
            "deadLetterTargetArn": dead_arn,
            "maxReceiveCount": queue.max_receives,
        });
        let settings = HashMap::from([
            (QueueAttributeName::VisibilityTimeout, whole_seconds(queue.lease).to_string()),
            (QueueAttributeName::RedrivePolicy, redrive.to_string()),
        ]);
        let url = self.find_or_create(&name, settings).await?;
        let attributes = [QueueAttributeName::QueueArn, QueueAttributeName::RedrivePolicy];
        let mut found = self.attributes(&url, &attributes).await?;
        let policy = found.remove(&QueueAttributeName::RedrivePolicy);
        if !gives_up(policy.as_deref(), &dead_arn, queue.max_receives) {
            warn!(
                queue = name,
                "Queue {name} does not give up after {} receives to {name}-dead, and is left so",
                queue.max_receives
            );
        }
        let arn = found.remove(&QueueAttributeName::QueueArn).ok_or_else(without_arn)?;
        Ok(Place { url, arn, dead })
    }

    /// The queue's URL.
    async fn find_or_create(
        &self,
        name: &str,
        settings: HashMap<QueueAttributeName, String>,
    ) -> Result<String, QueueError> {
        if let Some(url) = self.find(name).await? {
            return Ok(url);
        }
        if self.missing == Missing::Refuse {
            return Err(QueueError::Failed(format!("there is no queue {name}").into()));
        }
        let retention = RETENTION.as_secs().to_string();
        let request = self
            .client
            .create_queue()
            .queue_name(name)
            .set_attributes(Some(settings))
            .attributes(QueueAttributeName::MessageRetentionPeriod, retention);
        match request.send().await {
            Ok(created) => {
                info!(queue = name, "Queue {name} is made");
                created.queue_url.ok_or_else(|| QueueError::Failed("a queue without a URL".into()))
            }
            Err(error) => {
                let trouble = Trouble::new(error);
                let exists = trouble.service_error().is_some_and(|e| e.is_queue_name_exists());
                match self.find(name).await? {
                    Some(url) if exists => Ok(url),
                    _ => Err(trouble.of_queue()),
                }
            }
        }
    }

    async fn find(&self, name: &str) -> Result<Option<String>, QueueError> {
        match self.client.get_queue_url().queue_name(name).send().await {
            Ok(found) => Ok(found.queue_url),
            Err(error) => {
                let trouble = Trouble::new(error);
                if trouble.service_error().is_some_and(|e| e.is_queue_does_not_exist()) {
                    return Ok(None);
                }
                Err(trouble.of_queue())
            }
        }
    }

    async fn arn(&self, url: &str) -> Result<String, QueueError> {
        let mut found = self.attributes(url, &[QueueAttributeName::QueueArn]).await?;
        found.remove(&QueueAttributeName::QueueArn).ok_or_else(without_arn)
    }

    pub(super) async fn attributes(
        &self,
        url: &str,
        names: &[QueueAttributeName],
    ) -> Result<HashMap<QueueAttributeName, String>, QueueError> {
        let request = self.client.get_queue_attributes().queue_url(url);
        let request = request.set_attribute_names(Some(names.to_vec()));
        let answer = request.send().await.map_err(|error| Trouble::new(error).of_queue())?;
        Ok(answer.attributes.unwrap_or_default())
    }

    /// SQS counts approximately, and does not tell the age of the oldest message here.
    pub(super) async fn count(&self, queue: &'static Queue) -> Result<Depth, QueueError> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages as Ready, ApproximateNumberOfMessagesDelayed as Delayed,
            ApproximateNumberOfMessagesNotVisible as Held,
        };
        let place = self.place(queue).await?;
        let names = [Ready, Delayed, Held];
        let alive = self.attributes(&place.url, &names).await?;
        let dead = self.attributes(&place.dead, &names).await?;
        let number = |counts: &HashMap<_, String>, name| {
            counts.get(&name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok(Depth {
            ready: number(&alive, Ready),
            hidden: number(&alive, Delayed) + number(&alive, Held),
            dead: names.into_iter().map(|name| number(&dead, name)).sum(),
            oldest_age: None,
        })
    }
}

fn without_arn() -> QueueError {
    QueueError::Failed("a queue without an ARN".into())
}

/// Whether a queue's redrive policy is ours. Servers write the number as one, or as text.
fn gives_up(policy: Option<&str>, dead_arn: &str, max_receives: u32) -> bool {
    let policy = policy.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(policy) = policy else { return false };
    let receives = match &policy["maxReceiveCount"] {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    policy["deadLetterTargetArn"] == dead_arn && receives == Some(max_receives.into())
}

#[cfg(test)]
mod tests {
    use super::gives_up;

    #[test]
    fn a_redrive_policy_is_compared_by_what_it_means() {
        let check = |policy: &str| gives_up(Some(policy), "arn:dead", 8);
        assert!(check(r#"{"deadLetterTargetArn":"arn:dead","maxReceiveCount":8}"#));
        assert!(check(r#"{"maxReceiveCount":"8","deadLetterTargetArn":"arn:dead"}"#));
        assert!(!check(r#"{"deadLetterTargetArn":"arn:dead","maxReceiveCount":3}"#));
        assert!(!check(r#"{"deadLetterTargetArn":"arn:other","maxReceiveCount":8}"#));
        assert!(!check("{}"));
        assert!(!check("nonsense"));
        assert!(!gives_up(None, "arn:dead", 8));
    }
}
