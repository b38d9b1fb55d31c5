//! Whether people come into a sequence. Whoever is in it goes on, whatever is done here.

use axum::Json;
use axum::extract::{Path, State};
use tidings_sequences::versions::{self as stored, SetStatusError, Status};

use super::bodies::SequenceBody;
use super::{missing, the_sequence, with_count};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Manage, Needs, Refusals};

/// Let nobody into a sequence
///
/// Whoever is in it goes on. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/pause",
    tag = "Sequences",
    security(("key" = [])),
    params(("sequence" = String, Path, description = "Its id", max_length = 40)),
    responses(
        (status = 200, description = "As it is now", body = SequenceBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn pause(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(sequence): Path<String>,
) -> Result<Json<SequenceBody>, Problem> {
    set(&v1, &who, &sequence, Status::Paused).await
}

/// Let people into a sequence again
///
/// One that was archived, too. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/resume",
    tag = "Sequences",
    security(("key" = [])),
    params(("sequence" = String, Path, description = "Its id", max_length = 40)),
    responses(
        (status = 200, description = "As it is now", body = SequenceBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn resume(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(sequence): Path<String>,
) -> Result<Json<SequenceBody>, Problem> {
    set(&v1, &who, &sequence, Status::Active).await
}

/// Put a sequence away
///
/// Nobody comes in any more; whoever is in it goes on. Writing it again makes it active. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/archive",
    tag = "Sequences",
    security(("key" = [])),
    params(("sequence" = String, Path, description = "Its id", max_length = 40)),
    responses(
        (status = 200, description = "As it is now", body = SequenceBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn archive(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(sequence): Path<String>,
) -> Result<Json<SequenceBody>, Problem> {
    set(&v1, &who, &sequence, Status::Archived).await
}

async fn set(
    v1: &V1,
    who: &Needs<Manage>,
    sequence: &str,
    status: Status,
) -> Result<Json<SequenceBody>, Problem> {
    let cx = v1.cx(who);
    let (id, _) = the_sequence(v1, &cx, who, sequence).await?;
    let changed = stored::set_status(&cx, id.as_str(), status).await?;
    Ok(Json(with_count(&cx, changed).await?))
}

impl From<SetStatusError> for Problem {
    fn from(error: SetStatusError) -> Self {
        match error {
            SetStatusError::Missing(_) => missing(),
            SetStatusError::Store(error) => error.into(),
        }
    }
}
