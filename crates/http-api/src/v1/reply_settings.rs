//! `/v1/settings/replies`: to whom the workspace passes replies on.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tidings_signals::replies::settings::{self, PassOn};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = ReplySettings)]
pub(super) struct RepliesBody {
    /// An e-mail address; `off`: to nobody; `default`: as the installation is configured
    #[schema(example = "support@example.org", max_length = 254)]
    forward_to: String,
}

pub(super) struct ToSet(PassOn);

impl FromFields for ToSet {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required::<PassOn>("forward_to").map(Self)
    }
}

/// Show to whom replies are passed on
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/replies",
    tag = "Settings",
    security(("key" = [])),
    responses((status = 200, description = "What is in force", body = RepliesBody), Refusals)
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<RepliesBody>, Problem> {
    Ok(Json(settings::show(&v1.cx(&who)).await?.into()))
}

/// Set to whom replies are passed on
///
/// Replies to messages of this workspace only. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/replies",
    tag = "Settings",
    security(("key" = [])),
    request_body = RepliesBody,
    responses(
        (status = 200, description = "What is in force now", body = RepliesBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(ToSet(pass_on)): Body<ToSet>,
) -> Result<Json<RepliesBody>, Problem> {
    Ok(Json(settings::put(&v1.cx(&who), pass_on).await?.into()))
}

impl From<PassOn> for RepliesBody {
    fn from(pass_on: PassOn) -> Self {
        Self { forward_to: pass_on.to_string() }
    }
}
