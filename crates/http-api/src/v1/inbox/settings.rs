//! `/v1/inbox-settings`: what holds for all inboxes of the workspace.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;
use tidings_inbox::records::TenantSettings;
use tidings_inbox::settings::{self, NewSettings, SettingsError};
use utoipa::ToSchema;

use super::{acting, invalid};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{InboxAdmin, Needs, Refusals};
use crate::v1::input::{Body, Fields, FromFields};

#[derive(Serialize, ToSchema)]
#[schema(as = InboxSettings)]
pub(in crate::v1) struct SettingsBody {
    title: String,
    /// How long messages live where their inbox says nothing; 30 days without
    #[schema(example = "30d")]
    ttl: Option<String>,
    /// Pages of which origins may ask from a browser; * is all
    #[schema(max_items = 50, example = json!(["https://app.example.org"]))]
    allowed_origins: Vec<String>,
    /// Messages to everyone from how long before his first visit a user sees
    #[schema(example = "7d")]
    look_back: String,
    /// Who made them
    updated_by: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = NewInboxSettings)]
#[expect(dead_code, reason = "it describes what `Draft` reads")]
pub(in crate::v1) struct ToSet {
    #[schema(max_length = 200)]
    title: Option<String>,
    /// How long messages live: days, minutes or seconds, at most 730 days
    #[schema(example = "30d", pattern = "^[0-9]+[dms]$")]
    ttl: Option<String>,
    #[schema(max_items = 50, example = json!(["https://app.example.org"]))]
    allowed_origins: Option<Vec<String>>,
    #[schema(example = "7d", pattern = "^[0-9]+[dms]$")]
    look_back: Option<String>,
}

pub(in crate::v1) struct Draft(NewSettings);

/// Show the settings of inboxes
///
/// Needs the scope `inbox:admin`.
#[utoipa::path(
    get,
    path = "/v1/inbox-settings",
    tag = "Inboxes",
    security(("key" = [])),
    responses((status = 200, description = "What is in force", body = SettingsBody), Refusals)
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
) -> Result<Json<SettingsBody>, Problem> {
    Ok(Json(settings::tenant(&v1.cx(&who)).await?.into()))
}

/// Set the settings of inboxes
///
/// All at once: what is left out no longer holds. Needs the scope `inbox:admin`.
#[utoipa::path(
    put,
    path = "/v1/inbox-settings",
    tag = "Inboxes",
    security(("key" = [])),
    params(("X-Admin-Id" = Option<String>, Header, description = "Who does it; without it, the client", max_length = 128)),
    request_body = ToSet,
    responses(
        (status = 200, description = "What is in force now", body = SettingsBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn put(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    headers: HeaderMap,
    Body(Draft(draft)): Body<Draft>,
) -> Result<Json<SettingsBody>, Problem> {
    let acting = acting(&v1, &who, &headers)?;
    let set = settings::put_tenant(&acting.cx, NewSettings { uid: acting.name, ..draft }).await?;
    v1.services.inbox.settings.forget(acting.cx.workspace());
    Ok(Json(set.into()))
}

impl FromFields for Draft {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let title = fields.optional::<String>("title");
        let ttl = fields.optional::<String>("ttl");
        let allowed_origins = fields.optional_list::<String>("allowed_origins");
        let look_back = fields.optional::<String>("look_back");
        Some(Self(NewSettings {
            title: title?.unwrap_or_default(),
            ttl: ttl?,
            allowed_origins: allowed_origins?.unwrap_or_default(),
            look_back: look_back?,
            uid: String::new(),
        }))
    }
}

impl From<TenantSettings> for SettingsBody {
    fn from(settings: TenantSettings) -> Self {
        Self {
            look_back: settings.look_back().to_string(),
            title: settings.title,
            ttl: settings.ttl.map(|ttl| ttl.to_string()),
            allowed_origins: settings.allowed_origins,
            updated_by: Some(settings.uid).filter(|uid| !uid.is_empty()),
        }
    }
}

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::Invalid(wrongs) => invalid(wrongs),
            SettingsError::Busy => Self::unavailable(error),
            SettingsError::Store(error) => error.into(),
        }
    }
}
