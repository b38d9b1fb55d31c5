//! How the process tells its keepers how it is: `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::Api;
use crate::problem::Problem;

/// Less than the second or so that load balancers wait for a probe.
const PING_TIMEOUT: Duration = Duration::from_millis(900);

/// Whether the process is on its way out. `/readyz` says so on connections that are open already; new ones are
/// not accepted any more.
#[derive(Debug, Clone, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
