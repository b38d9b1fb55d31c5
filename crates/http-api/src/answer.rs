//! What holds for every answer: it comes in time, whatever panics, it has the request's id, errors are problems, and it is
//! counted and logged.
//!
//! One middleware does all of it, because each part needs what the others know. The log line and the metrics name
//! the route's template (`/v1/contacts/{id}`), never the path: paths and queries can hold addresses.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::problem::{PROBLEM_JSON, Problem};
use crate::{InTime, took_too_long};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Beside an answer that is for a person and not for a program: a page or a picture stays what it is, error or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsItIs;

/// How long requests take.
pub const DURATION_METRIC: &str = "tidings_http_request_duration_seconds";

pub(crate) async fn finish(
    State(limit): State<Duration>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers().get(REQUEST_ID));
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);

    // Whatever is logged while the request is handled can be found by its id.
    let span = tracing::info_span!("request", request.id = %id);
    request.extensions_mut().insert(InTime(limit));
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = match tokio::time::timeout(limit, answered).instrument(span).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => panicked(),
        Err(_) => took_too_long().into_response(),
    };
    let mut response = as_problem(response, &id).await;

    record(method, route, response.status(), began.elapsed(), &id);
    let id = HeaderValue::from_str(&id).expect("letters, digits, '.', '_' and '-'");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The panic itself is logged by the process's panic hook.
fn panicked() -> Response {
    Problem::from_status(
        StatusCode::INTERNAL_SERVER_ERROR,
        "something failed on our side; the log has the cause under this request_id",
    )
    .into_response()
}

/// The caller's own id if it is harmless in a log, or a new one.
fn request_id(given: Option<&HeaderValue>) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let given = given.and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=64).contains(&id.len()) && id.chars().all(harmless) => id.to_owned(),
        _ => format!("{:032x}", fastrand::u128(..)),
    }
}

/// A label must have few values, and a caller may send any word as a method.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Gives a problem its request id, and makes one of every other error: axum's extractors and the limits
/// below us answer in plain text.
async fn as_problem(response: Response, id: &str) -> Response {
    let status = response.status();
    if let Some(problem) = response.extensions().get::<Problem>() {
        let mut rendered = problem.render(Some(id));
        // What the layers in between have added, such as the caller's quota.
        for (name, value) in response.headers() {
            rendered.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        return rendered;
    }
    if response.extensions().get::<AsItIs>().is_some() {
        return response;
    }
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM_JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, 1024).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let detail = match status {
        StatusCode::NOT_FOUND => "there is nothing at this address",
        StatusCode::METHOD_NOT_ALLOWED => "this address does not know this method; see Allow",
        StatusCode::PAYLOAD_TOO_LARGE => "the request's body is larger than this server takes",
        _ if text.is_empty() => "the request was refused",
        _ => text.as_ref(),
    };
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    Problem::from_status(status, detail).headers(parts.headers).render(Some(id))
}

fn record(
    method: &'static str,
    route: &str,
    status: StatusCode,
    took: std::time::Duration,
    id: &str,
) {
    let code = status.as_u16();
    let labels = [
        ("method", method.to_owned()),
        ("route", route.to_owned()),
        ("status", status.as_str().to_owned()),
    ];
    metrics::counter!("tidings_http_requests_total", &labels).increment(1);
    metrics::histogram!(DURATION_METRIC, &labels).record(took.as_secs_f64());

    let duration_ms = took.as_micros() as f64 / 1000.0;
    // Probes and scrapes come every few seconds and say nothing new while they succeed.
    let is_probe = matches!(route, "/healthz" | "/readyz" | "/metrics");
    if is_probe && status.is_success() {
        tracing::debug!(
            http.method = method,
            http.route = route,
            http.status = code,
            duration_ms,
            request.id = id,
            "{method} {route} answered {code}"
        );
    } else {
        tracing::info!(
            http.method = method,
            http.route = route,
            http.status = code,
            duration_ms,
            request.id = id,
            "{method} {route} answered {code}"
        );
    }
}
