//! When to try again, and how long to wait.
//!
//! Reads leave that to the SDK. Writes cannot: the SDK also repeats a request that got no answer, and a write
//! whose first try had landed would then count twice, fail on its own condition, or answer with its own item as
//! the one that was there before. So each write is sent by itself, and sent again only if the try before
//! certainly did nothing.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Config};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::trouble::{Kind, Trouble};

/// Conflicts and throttling pass; about three seconds in all.
pub(super) const PATIENCE: u32 = 12;
/// A server that does not take connections is seldom back within these tries.
pub(super) const FEW: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The SDK sends such a request once.
pub(super) fn once() -> Builder {
    Config::builder().retry_config(RetryConfig::disabled())
}

/// Sends a write until it is answered, or may have been made.
pub(super) async fn send_write<T, E, F>(mut send: impl FnMut() -> F) -> Result<T, Trouble<E>>
where
    F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let mut tries = 0;
    loop {
        let trouble = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) => Trouble::new(error),
        };
        tries += 1;
        let again = match trouble.kind {
            Kind::Throttled | Kind::Conflict => tries < PATIENCE,
            Kind::NotSent => tries < FEW,
            Kind::Unanswered | Kind::Refused | Kind::Answered => false,
        };
        if !again {
            return Err(trouble);
        }
        pause(tries).await;
    }
}

/// Waits after so many tries: longer each time, and never as long as anybody else, so that those who collided
/// do not collide again.
pub(super) async fn pause(tries: u32) {
    let longest = FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE);
    wait(longest.mul_f64(fastrand::f64())).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "an engine's retries wait on the server, in real time"
)]
pub(super) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}
