//! `/v1/webhook-deliveries`: what each webhook was told, how often that was tried, and telling it again.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::Limit;
use tidings_webhooks::DeliveryId;
use tidings_webhooks::deliveries::{
    self, Attempt, Delivery, Details, EndpointReplayError, FindError, ReplayError, Replayed, Status,
};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Cursor, Fields, FromFields, Listing, Params};
use super::webhooks::numbered;
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = WebhookDelivery)]
pub(super) struct DeliveryBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(minimum = 1)]
    webhook_id: i64,
    /// What the endpoint sees as `webhook-id`, the same at every attempt
    #[schema(example = "evt_0123456789abcdef0123456789abcdef")]
    event_id: String,
    #[schema(example = "email.sent")]
    event_type: String,
    #[schema(value_type = String, pattern = "^(pending|delivered|failed)$")]
    status: &'static str,
    /// Why it failed: `exhausted`, `endpoint_gone`, `endpoint_disabled`, `lost` (nobody came to try it) or `erased`
    #[schema(example = "exhausted")]
    failure: Option<String>,
    /// Since it was made or last replayed
    #[schema(minimum = 0)]
    attempts: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = WebhookDeliveryDetails)]
pub(super) struct DetailsBody {
    #[serde(flatten)]
    delivery: DeliveryBody,
    /// What the endpoint is told; null when it was erased or is older than 30 days
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    /// The newest first, up to 50
    tried: Vec<AttemptBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = WebhookAttempt)]
pub(super) struct AttemptBody {
    /// What the endpoint answered, if it did
    #[schema(minimum = 100, maximum = 999)]
    status_code: Option<i64>,
    /// The beginning of its answer
    #[schema(max_length = 1024)]
    answer: Option<String>,
    /// Why there was none
    error: Option<String>,
    #[schema(minimum = 0)]
    duration_ms: i64,
    #[schema(value_type = String, format = DateTime)]
    attempted_at: Timestamp,
}

#[derive(ToSchema)]
pub(super) struct ReplaySince {
    /// Deliveries that were made since then and failed are tried again
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReplayedDeliveries)]
pub(super) struct ReplayedBody {
    #[schema(minimum = 0, maximum = 1000)]
    replayed: u64,
    /// There may be more: ask again
    more: bool,
}

/// Which deliveries of a webhook.
pub(super) struct Which {
    status: Option<Status>,
    before: Option<DeliveryId>,
    limit: Limit,
}

/// List what a webhook was told
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/webhooks/{webhook_id}/deliveries",
    tag = "Webhooks",
    security(("key" = [])),
    params(
        ("webhook_id" = i64, Path, minimum = 1),
        ("status" = Option<String>, Query, description = "Only these: pending, delivered or failed"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of deliveries", body = ListBody<DeliveryBody>),
        (status = 404, description = "There is no such webhook", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
    Params(Which { status, before, limit }): Params<Which>,
) -> Result<Json<ListBody<DeliveryBody>>, Problem> {
    let (cx, id) = (v1.cx(&who), numbered(&id)?);
    Ok(ListBody::answer(deliveries::list(&cx, id, status, before, limit).await?))
}

/// Send a webhook an event that means nothing
///
/// `webhook.test`, whatever types it wants: so its owner sees that all is well. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/test",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    responses(
        (status = 202, description = "It is on its way", body = DeliveryBody),
        (status = 404, description = "There is no such webhook", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is disabled", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn test(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<DeliveryBody>), Problem> {
    let delivery = deliveries::send_test(&v1.cx(&who), numbered(&id)?).await?;
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}

/// Tell a webhook again what it has missed
///
/// Deliveries that failed, up to 1,000 at a time, with the same `webhook-id`. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}/replay",
    tag = "Webhooks",
    security(("key" = [])),
    params(("webhook_id" = i64, Path, minimum = 1)),
    request_body = ReplaySince,
    responses(
        (status = 202, description = "They are on their way", body = ReplayedBody),
        (status = 404, description = "There is no such webhook", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is disabled", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn replay_failed(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
    Body(ReplaySince { since }): Body<ReplaySince>,
) -> Result<(StatusCode, Json<ReplayedBody>), Problem> {
    let Replayed { count, more } =
        deliveries::replay_failed(&v1.cx(&who), numbered(&id)?, since).await?;
    Ok((StatusCode::ACCEPTED, Json(ReplayedBody { replayed: count, more })))
}

/// Show a delivery
///
/// With what was told and each attempt. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/webhook-deliveries/{delivery_id}",
    tag = "Webhooks",
    security(("key" = [])),
    params(("delivery_id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The delivery", body = DetailsBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<DetailsBody>, Problem> {
    Ok(Json(deliveries::find(&v1.cx(&who), delivery(&id)?).await?.into()))
}

/// Tell it again
///
/// Also what was delivered: from the first attempt on, with the same `webhook-id`. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/webhook-deliveries/{delivery_id}/replay",
    tag = "Webhooks",
    security(("key" = [])),
    params(("delivery_id" = i64, Path, minimum = 1)),
    responses(
        (status = 202, description = "It is on its way", body = DeliveryBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is still being tried, its webhook is disabled, or what it told is not kept any more", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn replay(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<DeliveryBody>), Problem> {
    let delivery = deliveries::replay(&v1.cx(&who), delivery(&id)?).await?;
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}

fn delivery(text: &str) -> Result<DeliveryId, Problem> {
    let id = DeliveryId::from_text(text);
    id.ok_or_else(|| Problem::not_found("there is no such delivery"))
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let status = fields.optional("status");
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { status: status?, before: after, limit })
    }
}

impl FromFields for ReplaySince {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.optional_time("since")? {
            Some(since) => Some(Self { since }),
            None => fields.wrong("since", "this is required"),
        }
    }
}

impl From<Delivery> for DeliveryBody {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.get(),
            webhook_id: delivery.endpoint.get(),
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            status: delivery.status.as_str(),
            failure: delivery.failure,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
        }
    }
}

impl From<Details> for DetailsBody {
    fn from(details: Details) -> Self {
        Self {
            payload: details.payload(),
            tried: details.attempts.into_iter().map(AttemptBody::from).collect(),
            delivery: details.delivery.into(),
        }
    }
}

impl From<Attempt> for AttemptBody {
    fn from(attempt: Attempt) -> Self {
        Self {
            status_code: attempt.status_code,
            answer: attempt.answer,
            error: attempt.error,
            duration_ms: attempt.duration_ms,
            attempted_at: attempt.attempted_at,
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

impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Missing(_) => Self::not_found(error),
            ReplayError::Pending(_) | ReplayError::Forgotten(_) | ReplayError::Disabled(_) => {
                Self::conflict(error)
            }
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<EndpointReplayError> for Problem {
    fn from(error: EndpointReplayError) -> Self {
        match error {
            EndpointReplayError::Missing(_) => Self::not_found(error),
            EndpointReplayError::Disabled(_) => Self::conflict(error),
            EndpointReplayError::Store(error) => error.into(),
        }
    }
}
