//! `/v1/suppressions`: addresses that get no mail at all.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_kernel::EmailAddress;
use tidings_people::suppression::{
    self, Kind, Lift, LiftError, Reason, Suppress, Suppressed, Suppression,
};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::contacts::escaped;
use super::input::{Body, Cursor, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Suppression)]
pub(super) struct SuppressionBody {
    #[schema(format = Email, example = "ada@example.org")]
    email: String,
    /// `Permanent`, `Complaint`, `Transient` or `Manual`
    #[schema(example = "Permanent")]
    r#type: &'static str,
    #[schema(example = "General")]
    reason: String,
    /// When what it is because of happened
    #[schema(value_type = String, format = DateTime)]
    suppressed_at: Timestamp,
    /// The event that it is because of
    source: Option<String>,
    /// Who did it, if it was no event
    actor: Option<String>,
    note: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LiftedSuppression)]
pub(super) struct LiftedBody {
    #[serde(flatten)]
    suppression: SuppressionBody,
    /// The list of the mail provider, if it has one of its own: `lifted` there too, `not_reached` (it may go on refusing
    /// mail to the address: remove it there by hand), or `none`
    #[schema(pattern = "^(lifted|not_reached|none)$", example = "none")]
    provider: &'static str,
}

#[derive(ToSchema)]
pub(super) struct NewSuppression {
    #[schema(value_type = String, format = Email, min_length = 3, max_length = 254, example = "ada@example.org")]
    email: EmailAddress,
    /// `Permanent`, `Complaint`, `Transient` or `Manual` (default)
    #[schema(value_type = Option<String>, example = "Manual")]
    r#type: Option<Kind>,
    #[schema(value_type = String, min_length = 1, max_length = 500, example = "asked us by phone")]
    reason: Reason,
    #[schema(value_type = Option<String>, min_length = 1, max_length = 500)]
    note: Option<Reason>,
}

/// Why a suppression is lifted.
pub(super) struct Why {
    reason: Reason,
}

/// List suppressed addresses
///
/// In the order of the addresses. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/suppressions",
    tag = "Suppressions",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of suppressions", body = ListBody<SuppressionBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<EmailAddress>,
) -> Result<Json<ListBody<SuppressionBody>>, Problem> {
    Ok(ListBody::answer(suppression::list(&v1.cx(&who), after, limit).await?))
}

/// Suppress an address
///
/// Nothing is sent there any more, whatever the person agrees to. The address need not be a contact's. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/suppressions",
    tag = "Suppressions",
    security(("key" = [])),
    request_body = NewSuppression,
    responses(
        (status = 200, description = "It was before", body = SuppressionBody),
        (status = 201, description = "It is now", body = SuppressionBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn add(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewSuppression>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let location = format!("/v1/suppressions/{}", escaped(&new.email));
    let cmd = Suppress {
        email: new.email,
        kind: new.r#type.unwrap_or(Kind::Manual),
        reason: new.reason,
        source: None,
        note: new.note,
        at: cx.now(),
    };
    let provider = v1.services.provider_suppressions.as_deref();
    let done = suppression::suppress_everywhere(&cx, cmd, provider).await?;
    let (status, suppression) = match done {
        Suppressed::New(suppression) => (StatusCode::CREATED, suppression),
        Suppressed::Already(suppression) => (StatusCode::OK, suppression),
        Suppressed::Stale => {
            return Err(Problem::conflict(
                "the suppression was lifted this very moment; try again",
            ));
        }
    };
    Ok((status, [(header::LOCATION, location)], Json(SuppressionBody::from(suppression))))
}

/// Show why an address is suppressed
///
/// Also if whoever had it was erased. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/suppressions/{email}",
    tag = "Suppressions",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    responses(
        (status = 200, description = "The suppression", body = SuppressionBody),
        (status = 404, description = "The address is not suppressed", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
) -> Result<Json<SuppressionBody>, Problem> {
    let status = suppression::status(&v1.cx(&who), &named(&email)?).await?;
    status.suppression.map(|found| Json(found.into())).ok_or_else(not_suppressed)
}

/// Lift a suppression
///
/// Mail can go there again, as far as consent allows. Bounces from before do not bring it back. It needs a reason, which is
/// kept. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/suppressions/{email}",
    tag = "Suppressions",
    security(("key" = [])),
    params(
        ("email" = String, Path, format = Email, max_length = 254),
        ("reason" = String, Query, description = "Why it is lifted", min_length = 1, max_length = 500)
    ),
    responses(
        (status = 200, description = "What was lifted", body = LiftedBody),
        (status = 404, description = "The address is not suppressed", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "There is no reason", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn lift(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Params(Why { reason }): Params<Why>,
) -> Result<Json<LiftedBody>, Problem> {
    let lift = Lift { email: named(&email)?, reason };
    let provider = v1.services.provider_suppressions.as_deref();
    let (was, there) = suppression::lift_everywhere(&v1.cx(&who), lift, provider).await?;
    Ok(Json(LiftedBody { suppression: was.into(), provider: there.as_str() }))
}

fn named(text: &str) -> Result<EmailAddress, Problem> {
    text.parse().map_err(|_| not_suppressed())
}

fn not_suppressed() -> Problem {
    Problem::not_found(LiftError::Missing)
}

impl FromFields for NewSuppression {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (email, kind) = (fields.required("email"), fields.optional("type"));
        let (reason, note) = (fields.required("reason"), fields.optional("note"));
        Some(Self { email: email?, r#type: kind?, reason: reason?, note: note? })
    }
}

impl FromFields for Why {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required("reason").map(|reason| Self { reason })
    }
}

impl Cursor for EmailAddress {
    const LIST: &'static str = "suppressions";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl From<Suppression> for SuppressionBody {
    fn from(suppression: Suppression) -> Self {
        Self {
            email: suppression.email.to_string(),
            r#type: suppression.kind.as_str(),
            reason: suppression.reason,
            suppressed_at: suppression.suppressed_at,
            source: suppression.source,
            actor: suppression.actor,
            note: suppression.note,
        }
    }
}

impl From<LiftError> for Problem {
    fn from(error: LiftError) -> Self {
        match error {
            LiftError::Missing => not_suppressed(),
            LiftError::Store(error) => error.into(),
        }
    }
}
