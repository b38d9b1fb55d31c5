//! `/v1/sequences/{sequence}/enrolments`: letting everybody in whom a condition means.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tidings_kernel::hex;
use tidings_outreach::audience::{Condition, unknown_names};
use tidings_sequences::executions::{
    self, BeginError, EnrolmentId, Refusal, begin_enrolment, begin_enrolment_once,
};
use utoipa::ToSchema;

use super::bodies::EnrolmentBody;
use super::people::MAX_KEY;
use super::{data, missing, the_sequence};
use crate::problem::{Problem, ProblemBody, Violation};
use crate::v1::V1;
use crate::v1::auth::{Needs, Read, Refusals, Send};
use crate::v1::input::{Body, Fields, FromFields};
use crate::v1::messages::header_key;

#[derive(ToSchema)]
#[schema(as = NewEnrolment)]
#[expect(dead_code, reason = "`NewEnrolment` is read; this says how it looks")]
pub(in crate::v1) struct NewEnrolmentBody {
    /// Whom it means: a condition over tags, attributes, features, memory, audiences and addresses, with `all`, `any` and
    /// `not`; `{}` is everybody
    #[schema(value_type = Object, example = json!({"tag": "trial"}))]
    r#where: Map<String, Value>,
    /// What the steps can ask and the mails can say, as if an event had told it: up to 32 KB, and 8 deep
    #[schema(value_type = Option<Object>)]
    data: Option<Map<String, Value>>,
}

pub(in crate::v1) struct NewEnrolment {
    condition: Condition,
    data: Value,
}

/// Let many people into a sequence
///
/// Everybody whom the condition means, as far as they may come in. It goes on in the background; the answer says where to
/// look. Asking the same again with the same key gives what was begun then; something else with it is refused. Needs the scope
/// `send`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/enrolments",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 255)
    ),
    request_body = NewEnrolmentBody,
    responses(
        (status = 202, description = "It has begun; Location says where to look", body = EnrolmentBody),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Nobody may come in; `reason` says why", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, a condition with the place in it; or the key was used for something else", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn begin(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(sequence): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewEnrolment>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let (id, active) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let key = header_key(&headers, MAX_KEY)?;
    if !active.takes_people {
        return Err(Refusal::Paused.into());
    }
    let unknown = unknown_names(&cx, &new.condition).await?;
    if !unknown.is_empty() {
        let violation = |message| Violation { field: "where".to_owned(), message };
        return Err(Problem::invalid(unknown.into_iter().map(violation).collect()));
    }
    let (versions, what) = (&v1.services.versions, (new.condition, new.data));
    let named = key.map(|key| format!("{}/{id}/{key}", who.caller().client_id));
    let begun = match named.and_then(|key| made_from(&key)) {
        Some(own) => begin_enrolment_once(&cx, versions, id.as_str(), what, own).await?,
        None => begin_enrolment(&cx, versions, id.as_str(), what).await?,
    };
    let location = format!("/v1/sequences/{id}/enrolments/{}", begun.id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(EnrolmentBody::from(begun))))
}

/// Show how far an enrolment is
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/enrolments/{enrolment}",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("enrolment" = String, Path, description = "The id of the enrolment", pattern = "^[0-9a-f]{32}$")
    ),
    responses(
        (status = 200, description = "How far it is", body = EnrolmentBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path((sequence, enrolment)): Path<(String, String)>,
) -> Result<Json<EnrolmentBody>, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let none = || Problem::not_found("there is no such enrolment");
    let enrolment = EnrolmentId::parse(&enrolment).ok_or_else(none)?;
    let found = executions::enrolment(&cx, &enrolment).await?;
    let own = found.filter(|found| found.sequence == id.as_str());
    Ok(Json(own.ok_or_else(none)?.into()))
}

impl From<BeginError> for Problem {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Missing(_) => missing(),
            BeginError::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", error)
            }
            BeginError::Store(error) => error.into(),
        }
    }
}

/// The id of what a caller calls so.
fn made_from(key: &str) -> Option<EnrolmentId> {
    EnrolmentId::parse(hex(&Sha256::digest(key)).get(..32)?)
}

impl FromFields for NewEnrolment {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let condition = match fields.value("where") {
            None => fields.wrong("where", "this is required; {} is everybody"),
            Some(given) => match Condition::parse(&given, "where") {
                Ok(condition) => Some(condition),
                Err(wrong) => {
                    for one in wrong {
                        fields.wrong::<()>(&one.path, one.message);
                    }
                    None
                }
            },
        };
        let data = data(fields);
        Some(Self { condition: condition?, data: data? })
    }
}
