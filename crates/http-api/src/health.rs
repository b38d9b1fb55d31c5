//! How the process tells its keepers how it is: `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use tokio::sync::watch;

use crate::Api;
use crate::problem::Problem;

/// Less than the second or so that load balancers wait for a probe.
const PING_TIMEOUT: Duration = Duration::from_millis(900);

/// Whether the process is on its way out. `/readyz` says so on connections that are open already, and streams end; new
/// ones are not accepted any more. Clones tell the same.
#[derive(Debug, Clone)]
pub struct Draining(Arc<watch::Sender<bool>>);

impl Default for Draining {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Draining {
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it has begun.
    pub(crate) async fn begun(&self) {
        // The sender is here, so that it cannot be gone.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}

/// The process is alive. It asks nobody else, or a slow database would get every node restarted.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// The process can serve requests: it is not stopping, and the store answers.
pub(crate) async fn ready(State(api): State<Api>) -> Result<&'static str, Problem> {
    if api.draining.has_begun() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    match tokio::time::timeout(PING_TIMEOUT, api.engine.ping()).await {
        Ok(Ok(())) => Ok("ready\n"),
        Ok(Err(error)) => {
            // The causes can name hosts and files: they are for the log alone.
            tracing::warn!(error = %tidings_kernel::causes(&error), "Not ready: the store fails its ping");
            Err(Problem::unavailable(error))
        }
        Err(_) => {
            tracing::warn!("Not ready: the store does not answer within {PING_TIMEOUT:?}");
            Err(Problem::unavailable(format!("the store does not answer within {PING_TIMEOUT:?}")))
        }
    }
}

pub(crate) async fn metrics(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.render())
}
