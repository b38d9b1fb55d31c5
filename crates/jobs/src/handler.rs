//! What works on a message, and how that can end.

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tidings_kernel::Delivery;

use crate::contracts::Contract;

/// Works on the messages of a queue, one at a time. The same message may come twice, also at the same time, and
/// the process may end at any await: whatever it does must bear that.
#[async_trait]
pub trait Handler: Send + Sync {
    async fn handle(&self, delivery: &Delivery) -> Outcome;

    /// It was the last try, and the message goes to the dead letters. Whoever has something to say of it says it here; the
    /// process may end before that.
    async fn given_up(&self, _delivery: &Delivery, _reason: &str) {}
}

/// Works on what a contract says. What is not of that contract is given up before it gets here.
#[async_trait]
pub trait Work<C: Contract + Send + 'static>: Send + Sync {
    async fn work(&self, message: C) -> Outcome;

    /// As [`Handler::given_up`].
    async fn given_up(&self, _message: C, _reason: &str) {}
}

/// A handler of messages that keep to one contract.
pub fn for_contract<C: Contract + Send + 'static>(
    work: impl Work<C> + 'static,
) -> Arc<dyn Handler> {
    struct OfContract<C, W>(W, PhantomData<fn() -> C>);

    #[async_trait]
    impl<C: Contract + Send + 'static, W: Work<C>> Handler for OfContract<C, W> {
        async fn handle(&self, delivery: &Delivery) -> Outcome {
            match C::parse(&delivery.body) {
                Ok(message) => self.0.work(message).await,
                Err(error) => Outcome::dead(error.to_string()),
            }
        }

        async fn given_up(&self, delivery: &Delivery, reason: &str) {
            if let Ok(message) = C::parse(&delivery.body) {
                self.0.given_up(message, reason).await;
            }
        }
    }

    Arc::new(OfContract(work, PhantomData))
}

/// How it ended. Reasons are for operators: they name ids and never a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The message is done, now or long ago.
    Done,
    /// Trying again can help.
    Retry { reason: String, after: Option<Duration> },
    /// Nothing was tried, because something else has to happen first. It comes again, and may do so for ever.
    Wait { reason: String, after: Duration },
    /// Trying again cannot help.
    Dead { reason: String },
}

impl Outcome {
    /// Tries again after a while that grows with every try.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after: None }
    }

    pub fn wait(reason: impl Into<String>, after: Duration) -> Self {
        Self::Wait { reason: reason.into(), after }
    }

    pub fn dead(reason: impl Into<String>) -> Self {
        Self::Dead { reason: reason.into() }
    }

    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry { .. } => "retry",
            Self::Wait { .. } => "wait",
            Self::Dead { .. } => "dead",
        }
    }
}

/// Tells the handler that a message was given up. Nothing depends on what comes of it.
pub(crate) async fn give_up(
    handler: &dyn Handler,
    delivery: &Delivery,
    reason: &str,
    time_limit: Duration,
) {
    let told = AssertUnwindSafe(handler.given_up(delivery, reason)).catch_unwind();
    if !matches!(tokio::time::timeout(time_limit, told).await, Ok(Ok(()))) {
        tracing::error!(message.id = %delivery.id, "Nobody could be told that a message was given up");
    }
}

/// Lets the handler work, within its time. A panic is a failure of this message alone.
pub(crate) async fn attend(
    handler: &dyn Handler,
    delivery: &Delivery,
    time_limit: Duration,
) -> Outcome {
    let work = AssertUnwindSafe(handler.handle(delivery)).catch_unwind();
    match tokio::time::timeout(time_limit, work).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Outcome::retry("the handler panicked"),
        Err(_) => Outcome::retry(format!("the handler took longer than {time_limit:?}")),
    }
}
