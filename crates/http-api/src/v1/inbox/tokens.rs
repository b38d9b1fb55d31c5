//! `/v1/inbox-tokens`: how a back end lets one of its users in to his inbox, and ends that.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use tidings_inbox::keys::{InboxKey, UserId};
use tidings_inbox::sign_out;
use tidings_inbox::tokens::{Issue, IssueError, Issued, LIFETIME, MAX_INBOXES, MAX_LIFETIME};
use utoipa::ToSchema;

use super::acting;
use crate::problem::{Problem, ProblemBody, Violation};
use crate::v1::V1;
use crate::v1::auth::{InboxAdmin, InboxUser, Needs, Refusals};
use crate::v1::input::{Body, Fields, FromFields, Params};

#[derive(ToSchema)]
#[schema(as = NewInboxToken)]
#[expect(dead_code, reason = "it describes what `Draft` reads")]
pub(in crate::v1) struct ToMake {
    /// Who the user is, in the words of your app
    #[schema(example = "ada", max_length = 128)]
    user_id: String,
    /// The only inboxes that it opens; without, all of the workspace
    #[schema(max_items = 10, example = json!(["app"]))]
    inboxes: Option<Vec<String>>,
    /// How long the token is good, in seconds
    #[schema(default = 3600, minimum = 1, maximum = 86_400)]
    expires_in: Option<i64>,
}

pub(in crate::v1) struct Draft(Issue);

/// Whose tokens: the query.
pub(in crate::v1) struct Whose(UserId);

/// A token for a device, and one that gets the next pair. They are shown once.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxTokens)]
pub(in crate::v1) struct TokensBody {
    #[schema(example = "tdu_…")]
    token: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    #[schema(example = "tdr_…")]
    refresh_token: String,
    #[schema(value_type = String, format = DateTime)]
    refresh_expires_at: Timestamp,
}

/// Make a token for a user
///
/// His app can see and mark his messages with it, and nobody else's. Needs the scope `inbox:user`.
#[utoipa::path(
    post,
    path = "/v1/inbox-tokens",
    tag = "Inboxes",
    security(("key" = [])),
    request_body = ToMake,
    responses(
        (status = 201, description = "The tokens", body = TokensBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn create(
    State(v1): State<V1>,
    who: Needs<InboxUser>,
    Body(Draft(issue)): Body<Draft>,
) -> Result<(StatusCode, Json<TokensBody>), Problem> {
    let issued = v1.services.tokens.issue(&v1.cx(&who), issue).await?;
    Ok((StatusCode::CREATED, Json(issued.into())))
}

/// Sign a user out
///
/// Every token that he has is refused from now on, refresh tokens too, and his streams end. His messages stay, and a new token lets him in. Needs
/// the scope `inbox:admin`.
#[utoipa::path(
    delete,
    path = "/v1/inbox-tokens",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("X-Admin-Id" = Option<String>, Header, description = "Who does it; without it, the client", max_length = 128),
        ("user_id" = String, Query, description = "The user, in the words of your app", max_length = 128)
    ),
    responses(
        (status = 204, description = "He is signed out"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn end(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    headers: HeaderMap,
    Params(Whose(user)): Params<Whose>,
) -> Result<StatusCode, Problem> {
    let acting = acting(&v1, &who, &headers)?;
    sign_out(&acting.cx, &v1.services.inbox, &user).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl FromFields for Whose {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self(fields.required("user_id")?))
    }
}

impl FromFields for Draft {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let uid = fields.required::<UserId>("user_id");
        let inboxes = fields.optional_list::<InboxKey>("inboxes");
        let lifetime = fields.optional_integer("expires_in");
        let lifetime = match lifetime?.unwrap_or(LIFETIME) {
            seconds @ 1..=MAX_LIFETIME => Some(seconds),
            _ => fields.wrong("expires_in", IssueError::Lifetime),
        };
        let inboxes = match inboxes?.unwrap_or_default() {
            inboxes if inboxes.len() <= MAX_INBOXES => Some(inboxes),
            _ => fields.wrong("inboxes", IssueError::TooMany),
        };
        Some(Self(Issue { uid: uid?, inboxes: inboxes?, lifetime: lifetime? }))
    }
}

impl From<Issued> for TokensBody {
    fn from(issued: Issued) -> Self {
        Self {
            token: issued.token,
            expires_at: issued.expires_at,
            refresh_token: issued.refresh_token,
            refresh_expires_at: issued.refresh_expires_at,
        }
    }
}

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        let field = match error {
            IssueError::Lifetime => "expires_in",
            IssueError::TooMany => "inboxes",
        };
        Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    }
}
