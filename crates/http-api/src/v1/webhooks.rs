//! `/v1/webhooks`: the endpoints of others that are told what happens.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_webhooks::endpoints::{
    self, Create, CreateError, Description, Endpoint, FindError, Issued, Update, UpdateError,
};
use tidings_webhooks::{EndpointId, EndpointUrl, EventType, EventTypes};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Cursor, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(super) struct WebhookBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(example = "https://example.org/hooks")]
    url: String,
    #[schema(max_length = 200)]
    description: Option<String>,
    /// What it is told; an empty list means everything, also what later versions tell
    #[schema(example = json!(["email.sent", "email.bounced"]))]
    event_types: Vec<&'static str>,
    /// Since when it is told nothing
    #[schema(value_type = Option<String>, format = DateTime)]
    disabled_at: Option<Timestamp>,
    /// `manual`, `failing` (for more than three days) or `gone` (it answered 410)
    #[schema(example = "failing")]
    disabled_reason: Option<String>,
    /// How many attempts have failed in a row
    #[schema(minimum = 0)]
    failures: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    failing_since: Option<Timestamp>,
    /// Until when the secret before this one signs as well
    #[schema(value_type = Option<String>, format = DateTime)]
    previous_secret_until: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = IssuedWebhook)]
pub(super) struct IssuedBody {
    /// Proves that a request comes from us. It is shown only now.
    #[schema(
        example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwc2VjcmV0MQ==",
        pattern = "^whsec_[A-Za-z0-9+/]+={0,2}$"
    )]
    secret: String,
    #[serde(flatten)]
    webhook: WebhookBody,
}

#[derive(ToSchema)]
pub(super) struct NewWebhook {
    /// Where to post to: https, on the public internet, port 443 or 80
    #[schema(value_type = String, example = "https://example.org/hooks", max_length = 2048)]
    url: EndpointUrl,
    /// What it is for
    #[schema(value_type = Option<String>, example = "The shop's CRM", min_length = 1, max_length = 200)]
    description: Option<Description>,
    /// What it is told; left out, everything
    #[schema(value_type = Option<Vec<String>>, example = json!(["email.sent", "email.bounced"]), min_items = 1, max_items = 100)]
    event_types: Option<EventTypes>,
}

/// What is left out stays as it is.
#[derive(ToSchema)]
pub(super) struct WebhookChange {
    #[schema(value_type = Option<String>, example = "https://example.org/hooks", max_length = 2048)]
    url: Option<EndpointUrl>,
    /// A null removes it
    #[schema(value_type = Option<String>, example = "The shop's CRM", min_length = 1, max_length = 200)]
    description: Option<Option<Description>>,
    /// What it is told from now on; `["*"]` means everything
    #[schema(value_type = Option<Vec<String>>, example = json!(["email.sent", "email.bounced"]), min_items = 1, max_items = 100)]
    event_types: Option<EventTypes>,
}

/// List the webhooks
///
/// In the order in which they were made. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/webhooks",
    tag = "Webhooks",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of webhooks", body = ListBody<WebhookBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<EndpointId>,
) -> Result<Json<ListBody<WebhookBody>>, Problem> {
    Ok(ListBody::answer(endpoints::list(&v1.cx(&who), after, limit).await?))
}

/// Make a webhook
///
/// From now on it is told what happens, at least once each, in no strict order. The answer holds its secret, which is
/// not shown again. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks",
    tag = "Webhooks",
    security(("key" = [])),
    request_body = NewWebhook,
    responses(
        (status = 201, description = "It is there", body = IssuedBody),
        (status = 409, description = "There are 20 already", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewWebhook>,
) -> Result<impl IntoResponse, Problem> {
    let create = Create {
        url: new.url,
        description: new.description,
        event_types: new.event_types.unwrap_or_default(),
    };
    let issued = endpoints::create(&v1.cx(&who), &v1.services.targets, create).await?;
    let location = format!("/v1/webhooks/{}", issued.endpoint.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(IssuedBody::from(issued))))
}

/// Show a webhook
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/webhooks/{webhook_id}",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The webhook", body = WebhookBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<WebhookBody>, Problem> {
    Ok(Json(endpoints::find(&v1.cx(&who), numbered(&id)?).await?.into()))
}

/// Change a webhook
///
/// What is still to be told goes to the new URL. Needs the scope `manage`.
#[utoipa::path(
    patch,
    path = "/v1/webhooks/{webhook_id}",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    request_body = WebhookChange,
    responses(
        (status = 200, description = "It is changed", body = WebhookBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn update(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
    Body(change): Body<WebhookChange>,
) -> Result<Json<WebhookBody>, Problem> {
    let WebhookChange { url, description, event_types } = change;
    let update = Update { url, description, event_types };
    let (cx, id) = (v1.cx(&who), numbered(&id)?);
    Ok(Json(endpoints::update(&cx, &v1.services.targets, id, update).await?.into()))
}

/// Delete a webhook
///
/// It is told nothing more. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/webhooks/{webhook_id}",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn delete(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    endpoints::delete(&v1.cx(&who), numbered(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a webhook a new secret
///
/// For 24 hours the secret before signs as well, so that the receiver can change over. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/rotate-secret",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The new secret, shown only now", body = IssuedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn rotate_secret(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<Json<IssuedBody>, Problem> {
    Ok(Json(endpoints::rotate_secret(&v1.cx(&who), numbered(&id)?).await?.into()))
}

/// Switch a webhook off
///
/// What happens meanwhile is not kept for it. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/disable",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "It is told nothing", body = WebhookBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn disable(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<Json<WebhookBody>, Problem> {
    Ok(Json(endpoints::disable(&v1.cx(&who), numbered(&id)?).await?.into()))
}

/// Switch a webhook on
///
/// Also one that was switched off because it failed. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/enable",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "It is told what happens", body = WebhookBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn enable(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<Json<WebhookBody>, Problem> {
    Ok(Json(endpoints::enable(&v1.cx(&who), numbered(&id)?).await?.into()))
}

/// What cannot be an id is no webhook's.
pub(super) fn numbered(text: &str) -> Result<EndpointId, Problem> {
    let id = EndpointId::from_text(text);
    id.ok_or_else(|| Problem::not_found("there is no such webhook"))
}

impl FromFields for NewWebhook {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (url, description) = (fields.required("url"), fields.optional("description"));
        let event_types = event_types(fields);
        Some(Self { url: url?, description: description?, event_types: event_types? })
    }
}

impl FromFields for WebhookChange {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (url, description) = (fields.optional("url"), fields.clearable("description"));
        let event_types = event_types(fields);
        Some(Self { url: url?, description: description?, event_types: event_types? })
    }
}

/// A type, or `*` for all of them.
struct Wanted(Option<EventType>);

impl std::str::FromStr for Wanted {
    type Err = tidings_webhooks::EventTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" { Ok(Self(None)) } else { text.parse().map(|one| Self(Some(one))) }
    }
}

fn event_types(fields: &mut Fields) -> Option<Option<EventTypes>> {
    let wanted = fields.optional_list::<Wanted>("event_types")?;
    let Some(wanted) = wanted else { return Some(None) };
    if wanted.is_empty() {
        return fields.wrong("event_types", "name at least one type, or * for all of them");
    }
    let some: Option<Vec<EventType>> = wanted.into_iter().map(|one| one.0).collect();
    Some(Some(some.map_or(EventTypes::All, |some| some.into_iter().collect())))
}

impl From<Endpoint> for WebhookBody {
    fn from(endpoint: Endpoint) -> Self {
        let (disabled_at, disabled_reason) = match endpoint.disabled {
            Some(disabled) => (Some(disabled.at), Some(disabled.reason)),
            None => (None, None),
        };
        Self {
            id: endpoint.id.get(),
            url: endpoint.url,
            description: endpoint.description,
            event_types: endpoint.event_types.words(),
            disabled_at,
            disabled_reason,
            failures: endpoint.failures,
            failing_since: endpoint.failing_since,
            previous_secret_until: endpoint.previous_secret_until,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}

impl From<Issued> for IssuedBody {
    fn from(issued: Issued) -> Self {
        Self { secret: issued.secret.expose().to_owned(), webhook: issued.endpoint.into() }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Target(error) => wrong_url(&error),
            CreateError::Full => Self::conflict(error),
            CreateError::Store(error) => error.into(),
        }
    }
}

impl From<UpdateError> for Problem {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Missing(_) => Self::not_found(error),
            UpdateError::Target(error) => wrong_url(&error),
            UpdateError::Store(error) => error.into(),
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

fn wrong_url(error: &tidings_webhooks::TargetError) -> Problem {
    Problem::invalid(vec![Violation { field: "url".to_owned(), message: error.to_string() }])
}
