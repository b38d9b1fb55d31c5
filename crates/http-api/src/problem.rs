//! What went wrong, in the form of RFC 9457 (`application/problem+json`).
//!
//! Handlers answer with a `Problem`; the outermost layer (`answer`) adds the request's id. A problem about
//! our own failure never tells its cause to the caller: the cause is logged here, once, with its chain.

use std::error::Error;
use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use tidings_kernel::causes;
use utoipa::ToSchema;

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refusal or a failure, as the caller sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    status: StatusCode,
    /// Stable, for programs: `not_found`.
    code: &'static str,
    /// For people: this time, this request.
    detail: String,
    violations: Vec<Violation>,
    /// Why, where a rule of the product says no: `hard_bounce`.
    reason: Option<&'static str>,
    /// From when on it would be allowed, where it is too early.
    allowed_from: Option<jiff::Timestamp>,
    /// In a box: a problem is the error of nearly everything, and must be cheap to hand on.
    headers: Box<HeaderMap>,
}

/// One thing that is wrong with what the caller sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Violation {
    /// Where: `slug`, or `scopes[1]`.
    #[schema(example = "slug")]
    pub field: String,
    /// What would be right.
    pub message: String,
}

/// A problem on the wire, for the API's description.
#[derive(ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "`Problem::render` writes it; this says how it looks")]
pub(crate) struct ProblemBody {
    /// Always `about:blank`: `code` tells problems apart.
    r#type: String,
    title: String,
    status: u16,
    /// Stable, for programs.
    #[schema(example = "not_found")]
    code: String,
    /// For people: this time, this request.
    detail: String,
    /// All that is wrong with a body or a query, where that is the problem.
    errors: Option<Vec<Violation>>,
    /// Why, in a word, where a rule says no
    #[schema(example = "hard_bounce")]
    reason: Option<String>,
    /// From when on it would be allowed, where it is too early
    #[schema(format = DateTime)]
    allowed_from: Option<String>,
    /// The log has more under this id.
    request_id: String,
}

impl Problem {
    /// A problem with a code of its own.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over an error or a text")]
    pub fn new(status: StatusCode, code: &'static str, detail: impl ToString) -> Self {
        let detail = detail.to_string();
        let (violations, headers) = (Vec::new(), Box::default());
        Self { status, code, detail, violations, reason: None, allowed_from: None, headers }
    }

    /// The problem that a bare status stands for.
    pub fn from_status(status: StatusCode, detail: impl ToString) -> Self {
        Self::new(status, code(status), detail)
    }

    pub fn not_found(detail: impl ToString) -> Self {
        Self::from_status(StatusCode::NOT_FOUND, detail)
    }

    /// What was sent is understood and wrong, here and there.
    pub fn invalid(violations: Vec<Violation>) -> Self {
        Self::invalid_and_more(violations, 0)
    }

    /// The same, where so many more violations are not told.
    pub(crate) fn invalid_and_more(violations: Vec<Violation>, more: usize) -> Self {
        let mut detail =
            "the request was not carried out; errors says what is wrong with it".to_owned();
        if more > 0 {
            let _ = write!(detail, "; {more} more mistakes are not listed");
        }
        let problem = Self::from_status(StatusCode::UNPROCESSABLE_ENTITY, detail);
        Self { violations, ..problem }
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
        tracing::error!(error = %causes(&error), "A request failed");
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

    /// The word for why a rule says no.
    pub(crate) fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// From when on the same would be allowed.
    pub(crate) fn until(self, allowed_from: jiff::Timestamp) -> Self {
        Self { allowed_from: Some(allowed_from), ..self }
    }

    pub(crate) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// What it says, without the request.
    pub(crate) fn body(&self) -> serde_json::Value {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if !self.violations.is_empty() {
            body["errors"] = json!(self.violations);
        }
        if let Some(reason) = self.reason {
            body["reason"] = reason.into();
        }
        if let Some(at) = self.allowed_from {
            body["allowed_from"] = at.to_string().into();
        }
        body
    }

    pub(crate) fn render(&self, request_id: Option<&str>) -> Response {
        let mut body = self.body();
        if let Some(id) = request_id {
            body["request_id"] = id.into();
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().extend(HeaderMap::clone(&self.headers));
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
