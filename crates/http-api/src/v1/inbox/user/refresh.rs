//! `/inbox/v1/tokens/refresh`: how a device stays in.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tidings_access::keys::Rate;
use utoipa::ToSchema;

use super::{admit, cors};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::inbox::tokens::TokensBody;
use crate::v1::input::{Body, Fields, FromFields};

#[derive(ToSchema)]
#[schema(as = InboxRefresh)]
pub(in crate::v1) struct Refresh {
    /// The `refresh_token` of the pair before
    #[schema(example = "tdr_…", max_length = 6000)]
    refresh_token: String,
}

/// Get the next pair of tokens
///
/// For the same user and inboxes, and as long as the first. Needs no key: the refresh token is the proof.
#[utoipa::path(
    post,
    path = "/inbox/v1/tokens/refresh",
    tag = "Inbox of a user",
    request_body = Refresh,
    responses(
        (status = 200, description = "The next pair", body = TokensBody),
        (status = 401, description = "The token is not valid (any more)", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "Pages of this origin may not ask", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "This user asks too often; see Retry-After", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn refresh(
    State(v1): State<V1>,
    headers: HeaderMap,
    Body(body): Body<Refresh>,
) -> Result<Json<TokensBody>, Problem> {
    let access = &v1.services.access;
    let refreshed = v1.services.tokens.refresh(access, &body.refresh_token).await;
    let (cx, uid, issued) = refreshed.map_err(admit::refused)?;
    let key = (cx.workspace_id().get(), uid);
    if let Some(seconds) = v1.visitors.take(key, Rate::default(), cx.now()).retry_after {
        return Err(admit::too_often(seconds));
    }
    cors::check(&v1.services.inbox, &cx, &headers).await?;
    Ok(Json(issued.into()))
}

impl FromFields for Refresh {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self { refresh_token: fields.required("refresh_token")? })
    }
}
