//! The HTTP surface: what every request and answer has in common, the health endpoints, and the API under `/v1`.
//!
//! Here: the routers, RFC 9457 problems, request ids, limits, the access log and request metrics. Not here:
//! any rule of the product (handlers call the feature crates), any engine, the listener (`app::serve`).

mod answer;
mod docs;
mod health;
mod problem;
mod provider;
mod public;
#[cfg(test)]
mod tests;
mod v1;
mod widget;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tidings_kernel::ItemEngine;
use tower_http::limit::RequestBodyLimitLayer;

pub use answer::DURATION_METRIC;
pub use health::Draining;
pub use problem::{Problem, Violation};
pub use provider::provider;
pub use public::{Peer, UNSTORED_METRIC, public};
pub use v1::{Demo, REFUSED_METRIC, STREAMS_METRIC, Services, inbox_demo, openapi, v1};

/// What the handlers work with.
#[derive(Clone)]
pub struct Api {
    pub engine: Arc<dyn ItemEngine>,
    pub metrics: PrometheusHandle,
    pub draining: Draining,
    pub limits: Limits,
}

/// A mail, and what JSON needs to write it down.
const MAX_MAIL: usize = tidings_mail::inbound::MAX_BYTES + 2 * 1024 * 1024;

/// What one request may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_body: usize,
    pub request_timeout: Duration,
    /// The same for a request that is a file.
    pub max_file: usize,
    pub file_timeout: Duration,
}

/// What a request may have that names very many. It is held in memory as a whole, so it is far less than a file.
const MAX_LONG_BODY: usize = 32 << 20;

impl Limits {
    /// A file may have no more than anything else.
    pub fn uniform(max_body: usize, request_timeout: Duration) -> Self {
        Self { max_body, request_timeout, max_file: max_body, file_timeout: request_timeout }
    }

    /// A mail may be as long as one can be read, whatever else is allowed.
    fn of_mails(self) -> Self {
        Self { max_body: self.max_body.max(MAX_MAIL), request_timeout: self.file_timeout, ..self }
    }

    fn of_files(self) -> Self {
        Self { max_body: self.max_file, request_timeout: self.file_timeout, ..self }
    }

    /// Of a request that names very many, in the time of any other.
    fn of_long_bodies(self) -> Self {
        let long = self.max_file.min(MAX_LONG_BODY);
        Self { max_body: self.max_body.max(long), ..self }
    }
}

/// What every node answers. A node that serves the API merges `v1` into it.
pub fn router(api: Api) -> Router {
    let routes = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics));
    let routes = routes.fallback(|| async { StatusCode::NOT_FOUND });
    around(routes, api.limits).with_state(api)
}

/// What every route has around it, the outermost first. They are one layer: a box less to open for each request.
pub fn around<S: Clone + Send + Sync + 'static>(routes: Router<S>, limits: Limits) -> Router<S> {
    routes.layer((
        from_fn_with_state(limits.request_timeout, answer::finish),
        RequestBodyLimitLayer::new(limits.max_body),
        DefaultBodyLimit::disable(),
    ))
}

/// How long a request may take, for those whose answer begins before they are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InTime(pub(crate) Duration);

pub(crate) fn took_too_long() -> Problem {
    Problem::from_status(
        StatusCode::GATEWAY_TIMEOUT,
        "the request took too long; it may still have had an effect",
    )
}
