//! `/v1/inbound`: mail that came in, from whoever receives it for the workspace.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tidings_signals::replies::{ReceiveError, Received};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Refusals};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody};

/// The whole mail.
pub(super) struct Mail(Vec<u8>);

#[derive(ToSchema)]
#[expect(dead_code, reason = "`Mail` reads it; this says how it looks")]
pub(super) struct InboundMail {
    /// The whole mail as it came, headers and body
    #[schema(min_length = 1)]
    mime: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = InboundResult)]
pub(super) struct InboundBody {
    /// `reply`: a person answered; `automatic`: a machine did; `unproven`: nobody can say who did; `bounce`, `complaint`, `delay`: a mail server told that of a
    /// message of ours; `duplicate`: it came before; `ignored`: see `reason`
    #[schema(pattern = "^(reply|automatic|unproven|bounce|complaint|delay|duplicate|ignored)$")]
    status: &'static str,
    /// `unknown_sender`, `delivery_report` or `erased`
    reason: Option<&'static str>,
}

impl FromFields for Mail {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required::<String>("mime").map(|mime| Self(mime.into_bytes()))
    }
}

impl FromRequest<V1> for Mail {
    type Rejection = Response;

    async fn from_request(request: Request, v1: &V1) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("message/rfc822") {
            let bytes = Bytes::from_request(request, v1).await;
            return bytes.map(|bytes| Self(bytes.to_vec())).map_err(|error| error.into_response());
        }
        Body::from_request(request, v1).await.map(|Body(mail)| mail)
    }
}

/// Hand over a mail that came in
///
/// As `message/rfc822`, or as JSON with the mail in `mime`. If a contact wrote it, it is recorded as a reply to the message that
/// it answers, once. A delivery report (RFC 3464) or a complaint (RFC 5965) about a message of ours is recorded as what it
/// tells, once. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/inbound",
    tag = "Events",
    security(("key" = [])),
    request_body(content(
        (InboundMail = "application/json"),
        (String = "message/rfc822")
    )),
    responses(
        (status = 202, description = "What became of it", body = InboundBody),
        (status = 400, description = "The body is not JSON", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "The body is neither a mail nor JSON", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "It is not a mail", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn receive(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Mail(mime): Mail,
) -> Result<(StatusCode, Json<InboundBody>), Problem> {
    let cx = v1.cx(&who);
    let (status, reason) = match v1.services.replies.receive(&cx, &mime).await? {
        Received::Reply => ("reply", None),
        Received::Automatic => ("automatic", None),
        Received::Unproven => ("unproven", None),
        Received::Told(what) => (what, None),
        Received::Before => ("duplicate", None),
        Received::Ignored(why) => ("ignored", Some(why.as_str())),
    };
    Ok((StatusCode::ACCEPTED, Json(InboundBody { status, reason })))
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        use tidings_signals::events::RecordError;
        match error {
            ReceiveError::Unreadable(error) => {
                Self::from_status(StatusCode::UNPROCESSABLE_ENTITY, error)
            }
            ReceiveError::Record(RecordError::Store(error)) => error.into(),
            ReceiveError::Record(error) if error.is_passing() => Self::unavailable(error),
            ReceiveError::Record(error) => Self::internal(error),
        }
    }
}
