//! Settling: what is done is deleted, what is not is given a new lease, what nobody tried is sent anew for later,
//! what never will be is buried.

use std::error::Error;
use std::time::Duration;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use tidings_kernel::{Delivery, MAX_DELAY, Queue, QueueError, topics};

use super::dead::grave;
use super::send::entry_trouble;
use super::{BATCH, REQUESTS_AT_ONCE, Sqs, whole_seconds};
use crate::trouble::Trouble;

impl Sqs {
    /// Tells how many of the receipts were taken. SQS also takes one whose message it has already deleted.
    pub(super) async fn delete(
        &self,
        queue: &'static Queue,
        url: &str,
        handles: Vec<&str>,
    ) -> Result<usize, QueueError> {
        let deleted = handles.chunks(BATCH).map(|handles| async move {
            let entries = handles.iter().enumerate().map(|(number, handle)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(number.to_string())
                    .receipt_handle(*handle)
                    .build()
                    .expect("id and handle are set")
            });
            let request = self.client.delete_message_batch().queue_url(url);
            let request = request.set_entries(Some(entries.collect()));
            let answer = request.send().await.map_err(|error| self.told(queue, error))?;
            taken(answer.successful.len(), &answer.failed)
        });
        let deleted: Vec<usize> = stream::iter(deleted.collect::<Vec<_>>())
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(deleted.into_iter().sum())
    }

    pub(super) async fn change_leases(
        &self,
        queue: &'static Queue,
        url: &str,
        leases: Vec<(&str, Duration)>,
    ) -> Result<usize, QueueError> {
        let changed = leases.chunks(BATCH).map(|leases| async move {
            let entries = leases.iter().enumerate().map(|(number, (handle, lease))| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(number.to_string())
                    .receipt_handle(*handle)
                    .visibility_timeout(whole_seconds(*lease))
                    .build()
                    .expect("id and handle are set")
            });
            let request = self.client.change_message_visibility_batch().queue_url(url);
            let request = request.set_entries(Some(entries.collect()));
            let answer = request.send().await.map_err(|error| self.told(queue, error))?;
            taken(answer.successful.len(), &answer.failed)
        });
        let changed: Vec<usize> = stream::iter(changed.collect::<Vec<_>>())
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(changed.into_iter().sum())
    }

    /// SQS counts every receive and forgets none, so what is not to count becomes a new message: a copy that comes
    /// later, with an id, a count and a time of its own. First there is the copy, then the original is deleted: a
    /// crash in between leaves both. SQS holds a copy back for 15 minutes at most, so that it may come too early.
    pub(super) async fn send_later(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
    ) -> Result<(), QueueError> {
        let place = self.place(queue).await?;
        // Who no longer holds it must not add a copy to what another has or has done, and who does keeps it until
        // it is deleted.
        let kept = vec![(delivery.receipt.0.as_str(), queue.lease)];
        if self.change_leases(queue, &place.url, kept).await? == 0 {
            return Ok(());
        }
        let request = self
            .client
            .send_message()
            .queue_url(&place.url)
            .message_body(&delivery.body)
            .delay_seconds(whole_seconds(lease.min(MAX_DELAY)));
        request.send().await.map_err(|error| self.told(queue, error))?;
        self.delete(queue, &place.url, vec![&delivery.receipt.0]).await.map(drop)
    }

    /// First it is among the dead letters, then it is no longer in its queue: a crash in between leaves it in
    /// both.
    pub(super) async fn move_to_dead(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        reason: &str,
    ) -> Result<(), QueueError> {
        let place = self.place(queue).await?;
        let request = self
            .client
            .send_message()
            .queue_url(&place.dead)
            .message_body(&delivery.body)
            .set_message_attributes(grave(delivery, reason));
        request.send().await.map_err(|error| self.told(queue, error))?;
        self.delete(queue, &place.url, vec![&delivery.receipt.0]).await.map(drop)
    }

    /// What a request about a queue answers if it was not done. A queue that is gone is made anew next time, and so
    /// is what its topics need of it.
    pub(super) fn told<E>(
        &self,
        queue: &'static Queue,
        error: SdkError<E, HttpResponse>,
    ) -> QueueError
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let trouble = Trouble::new(error);
        let missing = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];
        if trouble.code().is_some_and(|code| missing.contains(&code)) {
            self.places.forget(queue.name);
            // The policy went with the queue.
            for topic in topics::ALL.iter().filter(|topic| topic.queues.contains(&queue)) {
                self.topics.forget(topic.name);
            }
        }
        trouble.of_queue()
    }
}

/// A receipt that is not good any more is no error: its message was deleted, or delivered anew.
fn taken(successful: usize, failed: &[BatchResultErrorEntry]) -> Result<usize, QueueError> {
    let no_longer_held = [
        "ReceiptHandleIsInvalid",
        "InvalidParameterValue",
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
    ];
    match failed.iter().find(|entry| !no_longer_held.contains(&entry.code())) {
        Some(entry) => Err(entry_trouble(entry)),
        None => Ok(successful),
    }
}
