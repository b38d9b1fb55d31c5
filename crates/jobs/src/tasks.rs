//! How background work is told to stop, and how it waits.

use std::time::Duration;

use tokio::sync::watch;

/// Tells when to stop. Clones tell the same.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// The sender says `true`, or goes away, to stop whoever holds the other end.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns when it is time to stop.
    pub async fn stopped(&mut self) {
        // An error means that the sender is gone, which is just as well.
        drop(self.0.wait_for(|stopped| *stopped).await);
    }

    /// Waits, unless it is time to stop, or `early` is over before. Tells whether to go on.
    pub(crate) async fn pause(&mut self, pause: Duration, early: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = self.stopped() => false,
            () = wait(pause) => true,
            () = early => true,
        }
    }
}

/// Waits in real time: for the loops of the runtime, and for a handler that goes on in a moment. What takes longer than
/// that goes back to its queue.
#[expect(clippy::disallowed_methods, reason = "the loops of the runtime wait in real time")]
pub async fn wait(pause: Duration) {
    tokio::time::sleep(pause).await;
}
