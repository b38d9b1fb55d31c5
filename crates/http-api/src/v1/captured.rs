//! `/v1/captured`: mail that was kept instead of sent.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_delivery::capture::{self, Captured, CapturedId, FindError, Opened};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::Listing;
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = CapturedMail)]
pub(super) struct CapturedBody {
    #[schema(minimum = 1)]
    id: i64,
    /// The envelope's sender
    #[schema(example = "shop@example.org")]
    from: String,
    /// Everybody who would have got it
    #[schema(example = json!(["ada@example.net"]))]
    to: Vec<String>,
    #[schema(example = "Welcome")]
    subject: Option<String>,
    /// What the provider would have given back with each event
    #[schema(value_type = Object)]
    tags: serde_json::Map<String, serde_json::Value>,
    /// How large the whole message is
    #[schema(minimum = 0)]
    bytes: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OpenedMail)]
pub(super) struct OpenedBody {
    #[serde(flatten)]
    mail: CapturedBody,
    text: Option<String>,
    html: Option<String>,
}

/// What was forgotten.
#[derive(Serialize, ToSchema)]
pub(super) struct ClearedBody {
    #[schema(minimum = 0)]
    cleared: u64,
}

/// List captured mail
///
/// The newest first. Mail is captured while `mail.provider` is `capture`. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/captured",
    tag = "Captured mail",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of messages", body = ListBody<CapturedBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<CapturedId>,
) -> Result<Json<ListBody<CapturedBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(capture::list(&cx, after, limit).await?))
}

/// Show a captured message
///
/// With its text and its HTML. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/captured/{captured_id}",
    tag = "Captured mail",
    security(("key" = [])),
    params(("captured_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The message", body = OpenedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<OpenedBody>, Problem> {
    let cx = v1.cx(&who);
    let Opened { captured, text, html } = capture::find(&cx, numbered(&id)?).await?;
    Ok(Json(OpenedBody { mail: captured.into(), text, html }))
}

/// Show a captured message as it would have gone out
///
/// Headers and body, RFC 5322. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/captured/{captured_id}/raw",
    tag = "Captured mail",
    security(("key" = [])),
    params(("captured_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The message", content_type = "message/rfc822", body = String),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn raw(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let mime = capture::raw(&cx, numbered(&id)?).await?;
    // It may hold anything, and must never be shown as a page of ours.
    let headers = [
        (header::CONTENT_TYPE, "message/rfc822"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"message.eml\""),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, mime))
}

/// Forget all captured mail
///
/// Of the workspace. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/captured",
    tag = "Captured mail",
    security(("key" = [])),
    responses(
        (status = 200, description = "It is gone", body = ClearedBody),
        Refusals
    )
)]
pub(super) async fn clear(
    State(v1): State<V1>,
    who: Needs<Manage>,
) -> Result<Json<ClearedBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(ClearedBody { cleared: capture::clear(&cx).await? }))
}

/// What cannot be an id is no message's.
fn numbered(text: &str) -> Result<CapturedId, Problem> {
    let id = text.parse::<i64>().ok().filter(|id| *id > 0).map(CapturedId::from);
    id.ok_or_else(|| Problem::not_found("there is no such captured mail"))
}

impl From<Captured> for CapturedBody {
    fn from(captured: Captured) -> Self {
        Self {
            id: captured.id.get(),
            from: captured.from,
            to: captured.to,
            subject: captured.subject,
            tags: captured.tags,
            bytes: captured.bytes,
            created_at: captured.created_at,
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Missing(_) => Self::not_found(error),
            FindError::Store(error) => error.into(),
        }
    }
}
