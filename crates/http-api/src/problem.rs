//! What went wrong, in the form of RFC 9457 (`application/problem+json`).
//!
//! Handlers answer with a `Problem`; the outermost layer (`answer`) adds the request's id. A problem about
//! our own failure never tells its cause to the caller: the cause is logged here, once, with its chain.

use std::error::Error;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refusal or a failure, as the caller sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    status: StatusCode,
    /// Stable, for programs: `not_found`.
    code: &'static str,
    /// For people: this time, this request.
    detail: String,
    headers: HeaderMap,
}

impl Problem {
    /// A problem with a code of its own.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over an error or a text")]
    pub fn new(status: StatusCode, code: &'static str, detail: impl ToString) -> Self {
        Self { status, code, detail: detail.to_string(), headers: HeaderMap::new() }
    }

    /// The problem that a bare status stands for.
    pub fn from_status(status: StatusCode, detail: impl ToString) -> Self {
        Self::new(status, code(status), detail)
    }

    pub fn conflict(detail: impl ToString) -> Self {
        Self::from_status(StatusCode::CONFLICT, detail)
    }

    /// We cannot serve this now; the same request may work a moment later.
    pub fn unavailable(detail: impl ToString) -> Self {
        Self::from_status(StatusCode::SERVICE_UNAVAILABLE, detail)
            .header(header::RETRY_AFTER, HeaderValue::from_static("5"))
    }

    /// Our fault. The error goes to the log with all its causes, and not to the caller.
    pub fn internal(error: impl Error) -> Self {
        tracing::error!(error = %chain(&error), "A request failed");
        Self::from_status(
            StatusCode::INTERNAL_SERVER_ERROR,
            "something failed on our side; the log has the cause under this request_id",
        )
    }

    /// A header that belongs to the answer, such as `Retry-After` or `Allow`.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    pub(crate) fn render(&self, request_id: Option<&str>) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let Some(id) = request_id {
            body["request_id"] = id.into();
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers.clone());
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.render(None);
        // `answer` finds it there and renders it again, with the request's id.
        response.extensions_mut().insert(self);
        response
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "bad_request",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::CONFLICT => "conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::UNPROCESSABLE_ENTITY => "invalid",
        StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::GATEWAY_TIMEOUT => "timeout",
        status if status.is_client_error() => "refused",
        _ => "internal",
    }
}
