//! A definition as callers send it: JSON or YAML, with all that is wrong told at once.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value};
use tidings_access::Slug;
use tidings_sequences::definition::{Definition, Fault, MAX_BYTES, from_json_for, mark, read_for};
use utoipa::ToSchema;

use crate::problem::{Problem, Violation};
use crate::v1::V1;

/// So many faults are told, and of the rest how many there are.
const TOLD: usize = 50;

/// What was sent, before it is read.
pub(in crate::v1) enum Sent {
    Json(Value),
    Yaml(String),
}

/// A definition. All of it, and the steps with all that they can be, is described by the JSON Schema at
/// `/docs/sequence.schema.json`.
#[derive(ToSchema)]
#[schema(as = NewSequence)]
#[expect(dead_code, reason = "`definition` reads it; this says how it looks")]
pub(in crate::v1) struct NewSequence {
    /// The one of the address; it may be left out
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$", example = "onboarding")]
    id: Option<String>,
    #[schema(min_length = 1, max_length = 100, example = "Onboarding")]
    name: Option<String>,
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// The client of the key; it may be left out
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    client: Option<String>,
    /// One of the client's senders; the template's or the client's default if left out
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    sender: Option<String>,
    /// Its mails go to those who have unsubscribed, too; false if left out. Nothing goes past a suppression
    transactional: Option<bool>,
    /// What its mails are part of, for what people have agreed to. Only of marketing
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    audience: Option<String>,
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    topic: Option<String>,
    /// The event with which people come in: `event`, `map` and `filter`. Without one they come in by hand only
    #[schema(value_type = Option<Object>, example = json!({"event": "user.signed_up", "map": {"email": "$.email", "firstName": "$.first_name"}}))]
    trigger: Option<Map<String, Value>>,
    /// An execution that is not at its end by then has failed; a year if left out
    #[schema(value_type = Option<String>, example = "90 days")]
    timeout: Option<Value>,
    /// What becomes of whoever comes again: `restart`, `ignore`, or `{"after": "30 days"}`; `restart` if left out
    #[schema(value_type = Option<Value>, example = "ignore")]
    reentry: Option<Value>,
    /// When mails may go out: `days`, `from`, `until` and `zone`
    #[schema(value_type = Option<Object>)]
    window: Option<Map<String, Value>>,
    /// The events that take people out: their names, or objects with `event`, `map` and `filter`
    #[serde(rename = "exitOn")]
    #[schema(value_type = Option<Vec<Value>>, max_items = 20, example = json!(["subscription.started"]))]
    exit_on: Option<Vec<Value>>,
    /// Mails that an event sends by itself
    #[schema(value_type = Option<Vec<Object>>, max_items = 20)]
    events: Option<Vec<Value>>,
    /// What happens, one after the other: `send`, `wait`, `wait_for`, `choice`, `condition`, `tag`, `set`, `inbox`, `webhook` and `exit`
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 500, example = json!([{"send": "onboarding/welcome"}, {"wait": "2 days"}, {"send": "onboarding/tips"}]))]
    steps: Vec<Value>,
}

impl Sent {
    /// What it says, for this address and this client.
    pub(super) fn read(&self, id: &str, client: &Slug) -> Result<Definition, Problem> {
        let known = [("id", id), ("client", client.as_str())];
        let read = match self {
            Self::Json(value) => from_json_for(value.clone(), &known),
            Self::Yaml(text) => read_for(text, &known),
        };
        read.map_err(told)
    }

    /// It can be read, and cannot be put.
    pub(super) fn refused(&self, mut faults: Vec<Fault>) -> Problem {
        if let Self::Yaml(text) = self {
            mark(text, &mut faults);
            faults.sort_by_key(|fault| fault.line);
        }
        told(faults)
    }
}

fn told(faults: Vec<Fault>) -> Problem {
    let more = faults.len().saturating_sub(TOLD);
    let violation = |fault: Fault| {
        let path = fault.path();
        let field = if path.is_empty() { "definition".to_owned() } else { path };
        let message = match fault.line {
            Some(line) => format!("line {line}: {}", fault.message),
            None => fault.message,
        };
        Violation { field, message }
    };
    let violations = faults.into_iter().take(TOLD).map(violation).collect();
    Problem::invalid_and_more(violations, more)
}

impl FromRequest<V1> for Sent {
    type Rejection = Response;

    async fn from_request(request: Request, v1: &V1) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let bytes = Bytes::from_request(request, v1).await;
        let bytes = bytes.map_err(axum::response::IntoResponse::into_response)?;
        parse(&kind, &bytes).map_err(Problem::into_response)
    }
}

fn parse(kind: &str, bytes: &[u8]) -> Result<Sent, Problem> {
    let is_yaml = match kind {
        "application/json" => false,
        "application/yaml" | "application/x-yaml" | "text/yaml" => true,
        _ => {
            let detail =
                "send JSON or YAML, with Content-Type: application/json or application/yaml";
            return Err(Problem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
    };
    if bytes.len() > MAX_BYTES {
        let detail = format!("a definition has at most {} KB", MAX_BYTES / 1024);
        return Err(Problem::from_status(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let bad = |detail: String| Problem::from_status(StatusCode::BAD_REQUEST, detail);
    if is_yaml {
        let text =
            std::str::from_utf8(bytes).map_err(|_| bad("the body is not UTF-8".to_owned()))?;
        return Ok(Sent::Yaml(text.to_owned()));
    }
    let value = serde_json::from_slice(bytes);
    value.map(Sent::Json).map_err(|error| bad(format!("the body is not JSON: {error}")))
}
