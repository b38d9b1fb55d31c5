//! Sending: messages to queues and topics, in batches of what one request can hold.

use aws_sdk_sns::types::{
    BatchResultErrorEntry as PublishError, PublishBatchRequestEntry as PublishEntry,
};
use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchRequestEntry};
use futures_util::{StreamExt, TryStreamExt, stream};
use tidings_kernel::{Destination, MAX_BODY_BYTES, Outgoing, Queue, QueueError, Topic};

use super::{BATCH, REQUESTS_AT_ONCE, Sqs, whole_seconds};
use crate::trouble::Trouble;

/// What the bodies of one request can have together. SQS takes more by now; not every server does.
const BATCH_BYTES: usize = MAX_BODY_BYTES;

impl Sqs {
    pub(super) async fn send_all(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        let mut requests = Vec::new();
        for (destination, messages) in by_destination(messages) {
            requests.extend(batches(messages).into_iter().map(|batch| (destination, batch)));
        }
        let sent = requests.into_iter().map(|(destination, batch)| async move {
            match destination {
                Destination::Queue(queue) => self.send_batch(queue, batch).await,
                Destination::Topic(topic) => self.publish_batch(topic, batch).await,
            }
        });
        stream::iter(sent).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }

    async fn send_batch(
        &self,
        queue: &'static Queue,
        batch: Vec<Outgoing>,
    ) -> Result<(), QueueError> {
        let place = self.place(queue).await?;
        let entries = batch.into_iter().enumerate().map(|(number, message)| {
            SendMessageBatchRequestEntry::builder()
                .id(number.to_string())
                .message_body(message.body)
                .delay_seconds(whole_seconds(message.delay))
                .build()
                .expect("id and body are set")
        });
        let request = self.client.send_message_batch().queue_url(&place.url);
        let request = request.set_entries(Some(entries.collect()));
        let answer = request.send().await.map_err(|error| self.told(queue, error))?;
        answer.failed.first().map_or(Ok(()), |failed| Err(entry_trouble(failed)))
    }

    async fn publish_batch(
        &self,
        topic: &'static Topic,
        batch: Vec<Outgoing>,
    ) -> Result<(), QueueError> {
        let arn = self.topics.get(topic.name, || self.make_topic(topic)).await?;
        let entries = batch.into_iter().enumerate().map(|(number, message)| {
            PublishEntry::builder()
                .id(number.to_string())
                .message(message.body)
                .build()
                .expect("id and message are set")
        });
        let request = self.sns.publish_batch().topic_arn(&arn.0);
        let request = request.set_publish_batch_request_entries(Some(entries.collect()));
        let answer = request.send().await.map_err(|error| {
            let trouble = Trouble::new(error);
            if trouble.service_error().is_some_and(|error| error.is_not_found_exception()) {
                self.topics.forget(topic.name);
            }
            trouble.of_queue()
        })?;
        let failed = answer.failed.unwrap_or_default();
        failed.first().map_or(Ok(()), |failed| Err(publish_trouble(failed)))
    }
}

/// In the order in which each destination was first named.
fn by_destination(messages: Vec<Outgoing>) -> Vec<(Destination, Vec<Outgoing>)> {
    let mut groups: Vec<(Destination, Vec<Outgoing>)> = Vec::new();
    for message in messages {
        match groups.iter_mut().find(|(destination, _)| *destination == message.to) {
            Some((_, group)) => group.push(message),
            None => groups.push((message.to, vec![message])),
        }
    }
    groups
}

fn batches(messages: Vec<Outgoing>) -> Vec<Vec<Outgoing>> {
    let mut batches: Vec<Vec<Outgoing>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        bytes += message.body.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes <= BATCH_BYTES => batch.push(message),
            _ => {
                bytes = message.body.len();
                batches.push(vec![message]);
            }
        }
    }
    batches
}

/// A message of a batch that was not taken, though others may have been.
pub(super) fn entry_trouble(entry: &BatchResultErrorEntry) -> QueueError {
    not_taken(entry.code(), entry.message(), entry.sender_fault())
}

fn publish_trouble(entry: &PublishError) -> QueueError {
    not_taken(entry.code(), entry.message(), entry.sender_fault())
}

fn not_taken(code: &str, message: Option<&str>, sender_fault: bool) -> QueueError {
    let told = format!("{code}: {}", message.unwrap_or("no reason given")).into();
    if sender_fault { QueueError::Failed(told) } else { QueueError::Unavailable(told) }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
    use tidings_kernel::{Destination, Outgoing};

    use super::{BATCH_BYTES, batches, by_destination};

    #[test]
    fn a_batch_has_ten_messages_and_256_kib_at_most() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let messages = sizes.iter().map(|size| Outgoing::new(&PROBE, "x".repeat(*size)));
            let batches = batches(messages.collect());
            assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{sizes:?}");
        };
        check(&[], &[]);
        check(&[1; 10], &[10]);
        check(&[1; 25], &[10, 10, 5]);
        check(&[BATCH_BYTES], &[1]);
        check(&[BATCH_BYTES, 1, BATCH_BYTES - 1, 1], &[1, 2, 1]);
        check(&[BATCH_BYTES / 2; 5], &[2, 2, 1]);
    }

    #[test]
    fn messages_are_sorted_by_where_they_go() {
        let message = |queue, body: &str| Outgoing::new(queue, body);
        let groups = by_destination(vec![
            message(&PROBE, "1"),
            message(&EMAIL_EVENTS, "2"),
            message(&PROBE, "3"),
        ]);
        let expected = [
            (Destination::Queue(&PROBE), vec![message(&PROBE, "1"), message(&PROBE, "3")]),
            (Destination::Queue(&EMAIL_EVENTS), vec![message(&EMAIL_EVENTS, "2")]),
        ];
        assert_eq!(groups, expected);
    }
}
