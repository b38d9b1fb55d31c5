//! `/v1/me`: whose key this is. A first call that can hardly go wrong.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::{AnyKey, Refusals};

#[derive(Serialize, ToSchema)]
pub(super) struct MeBody {
    #[schema(example = "acme")]
    workspace: String,
    /// The slug of the client that the key belongs to
    #[schema(example = "shop")]
    client: String,
    key: MyKeyBody,
}

#[derive(Serialize, ToSchema)]
struct MyKeyBody {
    #[schema(example = "4fR9aZkQ0b2X")]
    public_id: String,
    #[schema(example = json!(["send", "read"]))]
    scopes: Vec<&'static str>,
    requests_per_second: u32,
    burst: u32,
}

/// Whose key is this
///
/// Any key may ask.
#[utoipa::path(
    get,
    path = "/v1/me",
    tag = "Access",
    security(("key" = [])),
    responses((status = 200, description = "The key is good", body = MeBody), Refusals)
)]
pub(super) async fn show(AnyKey(caller): AnyKey) -> Json<MeBody> {
    Json(MeBody {
        workspace: caller.workspace.to_string(),
        client: caller.client.to_string(),
        key: MyKeyBody {
            public_id: caller.public_id.to_string(),
            scopes: caller.scopes.iter().map(tidings_access::Scope::as_str).collect(),
            requests_per_second: caller.rate.per_second(),
            burst: caller.rate.burst(),
        },
    })
}
