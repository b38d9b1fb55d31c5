//! Queues on SQS and topics on SNS, or on any servers with their APIs.
//!
//! A queue, its dead letters and a topic are made when they are first used (`places`, `topics`). Messages go out
//! in batches (`send`) and come in by long polls (`receive`); a delivery's receipt is SQS's receipt handle
//! (`settle`). SQS itself moves to the dead letters what was received too often; what is buried is sent there by
//! us. Dead letters can only be looked at by receiving them (`dead`). Leases, delays and waits are whole seconds
//! here, rounded up.

mod dead;
mod places;
mod receive;
mod send;
mod settle;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sns::Client as SnsClient;
use aws_sdk_sqs::Client;
use tidings_kernel::{
    DeadLetter, Delivery, Depth, Outgoing, Postponement, Queue, QueueEngine, QueueError, Receipt,
    Receive, Which, check_count, check_lease,
};

use crate::connection::{self, Missing, Settings};
use dead::Fate;
use places::{Made, Place};
use topics::TopicArn;

/// A poll may take 20 seconds of the server.
const PATIENCE_FOR_AN_ANSWER: Duration = Duration::from_secs(30);

/// How many messages one request can send, receive or settle.
const BATCH: usize = 10;
/// How many requests of one call are under way: enough to hide the round trips.
const REQUESTS_AT_ONCE: usize = 8;

/// The queue engine on SQS and SNS.
pub struct Sqs {
    client: Client,
    sns: SnsClient,
    prefix: String,
    missing: Missing,
    places: Made<Place>,
    topics: Made<TopicArn>,
}

impl Sqs {
    /// Region, credentials and endpoint come from where the SDK looks for them. Nothing is asked of the server.
    pub async fn connect(settings: Settings) -> Self {
        Self::new(&connection::load(PATIENCE_FOR_AN_ANSWER).await, settings)
    }

    /// With a configuration of the SDK that the caller has made.
    pub fn new(config: &SdkConfig, settings: Settings) -> Self {
        let config = connection::to_endpoint(config, settings.endpoint);
        Self {
            client: Client::new(&config),
            sns: SnsClient::new(&config),
            prefix: settings.prefix,
            missing: settings.missing,
            places: Made::default(),
            topics: Made::default(),
        }
    }

    async fn place(&self, queue: &'static Queue) -> Result<Arc<Place>, QueueError> {
        self.places.get(queue.name, || self.make_place(queue)).await
    }
}

/// A lease that ends early would give a message to two; one that ends late only delays it.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[async_trait]
impl QueueEngine for Sqs {
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        check_count(messages.len())?;
        messages.iter().try_for_each(Outgoing::validate)?;
        self.send_all(messages).await
    }

    async fn receive(
        &self,
        queue: &'static Queue,
        request: Receive,
    ) -> Result<Vec<Delivery>, QueueError> {
        request.validate()?;
        self.receive_some(queue, request).await
    }

    async fn acknowledge(
        &self,
        queue: &'static Queue,
        receipts: &[Receipt],
    ) -> Result<usize, QueueError> {
        check_count(receipts.len())?;
        let place = self.place(queue).await?;
        let handles = receipts.iter().map(|receipt| receipt.0.as_str()).collect();
        self.delete(queue, &place.url, handles).await
    }

    async fn postpone(
        &self,
        queue: &'static Queue,
        postponements: &[Postponement],
    ) -> Result<usize, QueueError> {
        check_count(postponements.len())?;
        postponements.iter().try_for_each(|postponement| check_lease(postponement.lease))?;
        let place = self.place(queue).await?;
        let leases = postponements
            .iter()
            .map(|postponement| (postponement.receipt.0.as_str(), postponement.lease));
        self.change_leases(queue, &place.url, leases.collect()).await
    }

    /// What comes later is a copy: a new message, at most 15 minutes from now.
    async fn defer(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
        _reason: &str,
    ) -> Result<(), QueueError> {
        check_lease(lease)?;
        self.send_later(queue, delivery, lease).await
    }

    async fn bury(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        reason: &str,
    ) -> Result<(), QueueError> {
        self.move_to_dead(queue, delivery, reason).await
    }

    async fn depth(&self, queue: &'static Queue) -> Result<Depth, QueueError> {
        self.count(queue).await
    }

    async fn dead_letters(
        &self,
        queue: &'static Queue,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        match after {
            None => self.sample_dead(queue, limit).await,
            // There is no going on here. Who asks for the next page until there is none must come to an end.
            Some(_) => Ok(Vec::new()),
        }
    }

    async fn replay(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        self.settle_dead(queue, which, Fate::Replay).await
    }

    async fn purge(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        self.settle_dead(queue, which, Fate::Purge).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::whole_seconds;

    #[test]
    fn a_part_of_a_second_is_a_second() {
        for (milliseconds, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (43_200_000, 43_200)]
        {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds);
        }
    }
}
