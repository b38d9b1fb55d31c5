//! `/v1/sequences/{sequence}/failed`: executions that could not go on, and what is done about them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use tidings_access::Page;
use tidings_sequences::executions::{self, Refusal, RetryError};

use super::bodies::{ExecutionBody, FailedBody};
use super::people::execution_id;
use super::{Place, most, the_sequence, unlisted};
use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{Manage, Needs, Read, Refusals, Send};
use crate::v1::input::Listing;
use crate::v1::{ListBody, V1};

/// List the failed executions of a sequence
///
/// The last first, each with why it failed. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/failed",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of failed executions", body = ListBody<FailedBody>),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    Listing { after, limit }: Listing<Place<true>>,
) -> Result<Json<ListBody<FailedBody>>, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let after = after.map(|Place(cursor)| cursor);
    let page = executions::list_failed(&cx, id.as_str(), after, most(limit)).await;
    let page = page.map_err(unlisted)?;
    Ok(ListBody::answer(Page { items: page.failed, next: page.next.map(Place::<true>) }))
}

/// Try a failed execution again
///
/// It goes on with the step that it failed at, with as much time as it had when it began. Whoever may not be written to by
/// now, or has met an exit of the sequence since, is refused. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/failed/{execution}/retry",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("execution" = String, Path, description = "The id of the execution", pattern = "^[0-9a-f]{32}$")
    ),
    responses(
        (status = 200, description = "It is on its way", body = ExecutionBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The person is in the sequence again, or may not come in again; `reason` says why", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn retry(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path((sequence, execution)): Path<(String, String)>,
) -> Result<Json<ExecutionBody>, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let execution = execution_id(&execution)?;
    Ok(Json(executions::retry(&cx, &v1.services.versions, id.as_str(), &execution).await?.into()))
}

/// Forget a failed execution
///
/// Nothing is kept of it but that there was one. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/sequences/{sequence}/failed/{execution}",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("execution" = String, Path, description = "The id of the execution", pattern = "^[0-9a-f]{32}$")
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn forget(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((sequence, execution)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let execution = execution_id(&execution)?;
    executions::drop_failed(&cx, id.as_str(), &execution).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<RetryError> for Problem {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::Missing(_) => Self::not_found("there is no such failed execution"),
            RetryError::InAgain => Self::conflict(error),
            RetryError::Refused(reason) => Refusal::Person(reason).into(),
            RetryError::Left => {
                let detail = error.to_string();
                Self::new(StatusCode::CONFLICT, "enrolment_refused", detail).because("left")
            }
            RetryError::Store(error) => error.into(),
        }
    }
}
