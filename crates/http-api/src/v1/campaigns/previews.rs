//! Looking ahead: whom a campaign would go to, in one answer or told while everybody is counted.
//!
//! One answer looks at so many contacts at most, so that it comes in time. With `Accept: application/x-ndjson` all are
//! counted, however many there are: it goes on only as fast as somebody reads, and ends when he hangs up.

use std::convert::Infallible;
use std::ops::ControlFlow;

use axum::Json;
use axum::body::{Body as Sent, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tidings_access::Cx;
use tidings_outreach::campaigns::dry_run::Running;
use utoipa::ToSchema;

use super::new::{NewCampaign, Written};
use super::shown::PreviewBody;
use super::the_campaign;
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Needs, Read, Refusals};
use crate::v1::input::Body;

const KIND: &str = "application/x-ndjson";
/// So many contacts one answer looks at.
const LOOKED_AT: u64 = 100_000;

/// A line of a preview that is told while it goes on
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignPreviewLine)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Told {
    /// So far
    Progress {
        /// How many contacts were looked at
        #[schema(minimum = 0)]
        looked_at: u64,
        /// How many are meant
        #[schema(minimum = 0)]
        count: u64,
        /// How many of them would get it
        #[schema(minimum = 0)]
        sendable: u64,
    },
    /// All of it. The last line.
    Done(PreviewBody),
    /// It ended before its end. The last line instead.
    Problem {
        /// As any other problem, but for the id of the request, which is in the header of the answer
        #[schema(value_type = Object)]
        problem: serde_json::Value,
    },
}

/// See whom a campaign would go to
///
/// How many it means, how many of them would not get it and why, and some who would. Nothing is changed. It looks at up to
/// about 100,000 contacts; `complete` says whether that was everybody. With `Accept: application/x-ndjson` everybody is
/// looked at, and it is told while that goes on, a line of JSON at a time. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/preview",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    responses(
        (status = 200, description = "Whom it would go to", content(
            (PreviewBody = "application/json"),
            (Told = "application/x-ndjson")
        )),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn preview(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cx = v1.cx(&who);
    let campaign = the_campaign(&cx, &campaign, &who).await?;
    let running = Running::of_campaign(&cx, &campaign).await?;
    answer(cx, running, &headers).await
}

/// See whom a campaign would go to that is not written down
///
/// The same for a campaign that is only sent along. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/preview",
    tag = "Campaigns",
    security(("key" = [])),
    request_body = NewCampaign,
    responses(
        (status = 200, description = "Whom it would go to", content(
            (PreviewBody = "application/json"),
            (Told = "application/x-ndjson")
        )),
        (status = 422, description = "The body is wrong; a condition with the place in it", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn preview_unsaved(
    State(v1): State<V1>,
    who: Needs<Read>,
    headers: HeaderMap,
    Body(new): Body<Written>,
) -> Result<Response, Problem> {
    let cx = v1.cx(&who);
    let running = Running::of_draft(&cx, new.of(who.caller().client_id)).await?;
    answer(cx, running, &headers).await
}

async fn answer(cx: Cx, mut running: Running, headers: &HeaderMap) -> Result<Response, Problem> {
    if !is_told(headers) {
        while running.page(&cx).await?.is_continue() {
            if running.so_far().preview.looked_at >= LOOKED_AT {
                break;
            }
        }
        return Ok(Json(PreviewBody::from(running.so_far())).into_response());
    }
    // What is wrong before the first line is a problem like any other.
    let first = running.page(&cx).await?;
    let lines = stream::unfold(Some((cx, running, first)), next).map(|told| {
        let mut line = serde_json::to_vec(&told).unwrap_or_default();
        line.push(b'\n');
        Ok::<_, Infallible>(Bytes::from(line))
    });
    Ok(([(header::CONTENT_TYPE, KIND)], Sent::from_stream(lines)).into_response())
}

/// The page before, told; and the next one counted.
type Counted = Option<(Cx, Running, ControlFlow<()>)>;

async fn next(state: Counted) -> Option<(Told, Counted)> {
    let (cx, mut running, more) = state?;
    let so_far = running.so_far();
    if more.is_break() {
        return Some((Told::Done(so_far.into()), None));
    }
    let counted = so_far.preview;
    match running.page(&cx).await {
        Ok(more) => {
            let (looked_at, count, sendable) = (counted.looked_at, counted.count, counted.sendable);
            Some((Told::Progress { looked_at, count, sendable }, Some((cx, running, more))))
        }
        Err(error) => Some((Told::Problem { problem: Problem::from(error).body() }, None)),
    }
}

/// Whether the caller wants to be told while it goes on.
fn is_told(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(KIND))
}
