//! What is done with a campaign: trying it, starting, stopping and ending it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use tidings_access::Cx;
use tidings_outreach::campaigns::control::{self, Changed, ControlError, Start};
use tidings_outreach::campaigns::test_send::{self, TestSend};

use super::new::{NewReason, NewStart, NewTestSend, StartCampaign};
use super::shown::{CampaignBody, ChangedBody, RetriedBody, TestedBody};
use super::{one_wrong, slugs, the_campaign, violations, which};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Needs, Refusals, Send};
use crate::v1::input::{Body, OptionalBody};
use crate::v1::messages::{MAX_BATCH_KEY, header_key, unreserved};

/// Start or schedule a campaign
///
/// From the start on its content is frozen. Without a body it goes when the campaign itself says, which is now if it says
/// nothing. Starting what was started changes nothing. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/start",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<StartCampaign>,
    responses(
        (status = 200, description = "It is under way, or scheduled", body = ChangedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It was cancelled or has failed", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or what it needs is not there: a template, a sender", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn start(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewStart>,
) -> Result<Json<ChangedBody>, Problem> {
    let cx = v1.cx(&who);
    let campaign = which(&cx, &campaign, &who).await?;
    let changed = control::start(&cx, Start { campaign, when: new.when }).await?;
    answer(&cx, changed).await
}

/// Pause a campaign
///
/// What is being handed over goes out; nothing else does until it is resumed. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/pause",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<NewReason>,
    responses(
        (status = 200, description = "It is paused", body = ChangedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is not under way", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn pause(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewReason>,
) -> Result<Json<ChangedBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    answer(&cx, control::pause(&cx, find, new.reason).await?).await
}

/// Let a paused campaign go on
///
/// With what it did before. One that stopped by itself because of bounces or complaints does not do so again. Needs the
/// scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/resume",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<NewReason>,
    responses(
        (status = 200, description = "It goes on", body = ChangedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is not paused", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or it cannot start: a template or a sender is not there", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn resume(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewReason>,
) -> Result<Json<ChangedBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    answer(&cx, control::resume(&cx, find, new.reason).await?).await
}

/// Cancel a campaign
///
/// For good. Whoever has not been sent to yet is not sent to any more. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/cancel",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<NewReason>,
    responses(
        (status = 200, description = "It is cancelled", body = ChangedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is at its end", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn cancel(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewReason>,
) -> Result<Json<ChangedBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    answer(&cx, control::cancel(&cx, find, new.reason).await?).await
}

/// Send again where it failed
///
/// To those and to nobody else; what is uncertain is not sent again. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/retry-failed",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<NewReason>,
    responses(
        (status = 200, description = "How many are sent to again", body = RetriedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is neither sent nor paused while sending", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn retry_failed(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewReason>,
) -> Result<Json<RetriedBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    let retried = control::retry_failed(&cx, find, new.reason).await?;
    let slugs = slugs(&cx, &retried.campaign).await?;
    let campaign = CampaignBody::new(retried.campaign, &slugs);
    Ok(Json(RetriedBody { recipients: retried.recipients, campaign }))
}

/// Send a campaign to a few people to try it
///
/// Real mails, to 1 to 25 addresses, with `[Test] ` before the subject, `test: true` in their metadata and no tracking. They
/// are transactional messages and count for nothing in the campaign. With variants everybody gets each of them, unless one
/// is named. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/test",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 250)
    ),
    request_body = NewTestSend,
    responses(
        (status = 200, description = "What became of each", body = TestedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn test(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(campaign): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewTestSend>,
) -> Result<Json<TestedBody>, Problem> {
    let cx = v1.cx(&who);
    let campaign = the_campaign(&cx, &campaign, &who).await?;
    let cmd = TestSend {
        campaign,
        to: new.to,
        variant: new.variant,
        context: new.context,
        idempotency_key: header_key(&headers, MAX_BATCH_KEY)?.map(unreserved).transpose()?,
    };
    Ok(Json(test_send::test(&cx, &v1.services.messages, cmd).await?.into()))
}

async fn answer(cx: &Cx, changed: Changed) -> Result<Json<ChangedBody>, Problem> {
    let slugs = slugs(cx, &changed.campaign).await?;
    let campaign = CampaignBody::new(changed.campaign, &slugs);
    Ok(Json(ChangedBody { changed: changed.changed, campaign }))
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Missing(_) => Self::not_found("there is no such campaign"),
            ControlError::Illegal { .. } => Self::conflict(error),
            ControlError::Invalid(wrong) => Self::invalid(violations(wrong)),
            ControlError::Reason => one_wrong("reason", &error.to_string()),
            ControlError::Contended => Self::from_status(StatusCode::SERVICE_UNAVAILABLE, error),
            ControlError::Store(error) => error.into(),
        }
    }
}
