//! Receiving: long polls until something comes or the wait is over.

use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use jiff::Timestamp;
use tidings_kernel::{Delivery, Queue, QueueError, Receipt, Receive};

use super::{BATCH, Sqs, whole_seconds};

/// The longest that SQS lets one request wait.
const LONGEST_POLL: Duration = Duration::from_secs(20);

/// One request for messages.
pub(super) struct Poll<'a> {
    pub(super) url: &'a str,
    pub(super) max: usize,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

impl Sqs {
    pub(super) async fn receive_some(
        &self,
        queue: &'static Queue,
        request: Receive,
    ) -> Result<Vec<Delivery>, QueueError> {
        let place = self.place(queue).await?;
        let mut left = request.wait;
        let mut deliveries = Vec::new();
        loop {
            let max = request.max - deliveries.len();
            let wait = left.min(LONGEST_POLL);
            left -= wait;
            let poll = Poll { url: &place.url, max, lease: request.lease, wait };
            let messages = match self.poll(queue, poll).await {
                Ok(messages) => messages,
                // Those that came are held, and would come again only after their lease.
                Err(_) if !deliveries.is_empty() => return Ok(deliveries),
                Err(error) => return Err(error),
            };
            let full = messages.len() >= BATCH;
            for message in messages {
                deliveries.push(delivery(message)?);
            }
            if !deliveries.is_empty() {
                // A full answer is worth asking for more, but not worth waiting for it.
                left = Duration::ZERO;
                if !full || deliveries.len() >= request.max {
                    return Ok(deliveries);
                }
            } else if left.is_zero() {
                return Ok(deliveries);
            }
        }
    }

    /// Up to ten messages.
    pub(super) async fn poll(
        &self,
        queue: &'static Queue,
        poll: Poll<'_>,
    ) -> Result<Vec<Message>, QueueError> {
        let request = self
            .client
            .receive_message()
            .queue_url(poll.url)
            .max_number_of_messages(poll.max.min(BATCH) as i32)
            .visibility_timeout(whole_seconds(poll.lease))
            .wait_time_seconds(whole_seconds(poll.wait))
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_attribute_names("All");
        let answer = request.send().await.map_err(|error| self.told(queue, error))?;
        Ok(answer.messages.unwrap_or_default())
    }
}

fn delivery(message: Message) -> Result<Delivery, QueueError> {
    let receives = system(&message, &MessageSystemAttributeName::ApproximateReceiveCount);
    let receives = receives.and_then(|text| text.parse().ok());
    let enqueued_at = sent_at(&message);
    let (Some(id), Some(body), Some(receipt), Some(receives), Some(enqueued_at)) =
        (message.message_id, message.body, message.receipt_handle, receives, enqueued_at)
    else {
        return Err(incomplete());
    };
    Ok(Delivery { id, body, receives, enqueued_at, receipt: Receipt(receipt) })
}

pub(super) fn sent_at(message: &Message) -> Option<Timestamp> {
    let text = system(message, &MessageSystemAttributeName::SentTimestamp)?;
    Timestamp::from_millisecond(text.parse().ok()?).ok()
}

pub(super) fn incomplete() -> QueueError {
    QueueError::Failed("a message came without its id, body, receipt or attributes".into())
}

fn system<'m>(message: &'m Message, name: &MessageSystemAttributeName) -> Option<&'m str> {
    message.attributes.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};

    use super::delivery;

    #[test]
    fn a_delivery_says_what_sqs_says() {
        let message = || {
            Message::builder()
                .message_id("id")
                .body("body")
                .receipt_handle("handle")
                .attributes(MessageSystemAttributeName::SentTimestamp, "1800000000123")
        };
        let complete =
            message().attributes(MessageSystemAttributeName::ApproximateReceiveCount, "3").build();
        let delivery_of = delivery(complete).unwrap();
        assert_eq!(delivery_of.receives, 3);
        assert_eq!(delivery_of.enqueued_at.as_millisecond(), 1_800_000_000_123);
        assert_eq!(delivery_of.receipt.0, "handle");
        assert!(delivery(message().build()).is_err());
    }
}
