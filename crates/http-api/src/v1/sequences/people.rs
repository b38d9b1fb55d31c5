//! Who is in a sequence: looking, letting somebody in, taking somebody out, and not waiting any longer.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tidings_access::{ClientId, Cx, Page};
use tidings_kernel::{EmailAddress, hex};
use tidings_people::contacts::{self, Attributes, FirstName};
use tidings_sequences::executions::{
    self, Enrol, EnrolError, Entered, Execution, ExecutionId, Person, Refusal, SkipError,
};
use utoipa::ToSchema;

use super::bodies::{EntryBody, ExecutionBody};
use super::{Place, data, missing, most, own, the_sequence, unlisted};
use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{Needs, Read, Refusals, Send};
use crate::v1::contacts::{addressed, attributes, nobody};
use crate::v1::input::{Body, Fields, FromFields, Listing};
use crate::v1::messages::header_key;
use crate::v1::{ListBody, V1};

/// So long a caller's key can be.
pub(super) const MAX_KEY: usize = 255;
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[derive(ToSchema)]
#[expect(dead_code, reason = "`NewEntry` is read; this says how it looks")]
pub(in crate::v1) struct NewExecution {
    #[schema(format = Email, max_length = 254, example = "ada@example.org")]
    email: String,
    /// Written down, as everything that is known of the person
    #[schema(min_length = 1, max_length = 100, example = "Ada")]
    first_name: Option<String>,
    #[schema(value_type = Option<Object>, example = json!({"plan": "pro"}))]
    attributes: Option<Map<String, Value>>,
    /// What the steps can ask and the mails can say, as if an event had told it: up to 32 KB, and 8 deep
    #[schema(value_type = Option<Object>, example = json!({"trial_ends": "2030-01-31"}))]
    data: Option<Map<String, Value>>,
}

/// Somebody who is to come in.
pub(in crate::v1) struct NewEntry {
    email: EmailAddress,
    first_name: Option<FirstName>,
    attributes: Attributes,
    data: Value,
}

/// List who is in a sequence
///
/// Those who came last first. A page may be shorter than its limit: the list ends where `next_cursor` is null. Needs the
/// scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/executions",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of executions", body = ListBody<ExecutionBody>),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    Listing { after, limit }: Listing<Place<false>>,
) -> Result<Json<ListBody<ExecutionBody>>, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let after = after.map(|Place(cursor)| cursor);
    let page = executions::within(&cx, id.as_str(), after, most(limit)).await;
    let page = page.map_err(unlisted)?;
    // Whoever has just gone out is in it no more.
    let items = page.inside.into_iter().filter_map(|inside| inside.execution).collect();
    let page: Page<Execution, _> = Page { items, next: page.next.map(Place::<false>) };
    Ok(ListBody::answer(page))
}

/// Let somebody into a sequence
///
/// What is known of the person is written down first, whether or not he may come in. Once somebody has come in with a key,
/// asking again with it for the same person changes nothing for 60 days, whatever has happened since, and is answered with
/// `replayed` and `Idempotency-Replayed: true`. Whoever must not be written to, or does not want to be, is refused; `reason`
/// says why. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/executions",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 255)
    ),
    request_body = NewExecution,
    responses(
        (status = 201, description = "The person is in it now", body = EntryBody),
        (status = 200, description = "Nothing was changed; `outcome` says why", body = EntryBody),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The person may not come in, or nobody may; `reason` says why", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn enrol(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(sequence): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewEntry>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let key = header_key(&headers, MAX_KEY)?;
    let cause = key.map(|key| cause(who.caller().client_id, &new.email, &key));
    let NewEntry { email, first_name, attributes, data } = new;
    let cmd = Enrol {
        sequence: id.to_string(),
        email: email.clone(),
        person: Person { first_name, attributes, tags: None },
        input: data,
        cause,
        told_at: None,
    };
    let entered = executions::enrol(&cx, &v1.services.versions, cmd).await?;
    let mut headers = HeaderMap::new();
    if entered == Entered::Before {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let there = Whereabouts { email: &email, sequence: id.as_str() };
    let (status, body) = answer(&cx, entered, &there).await?;
    Ok((status, headers, Json(body)))
}

/// Take somebody out of a sequence
///
/// A mail that is not sent yet is not sent any more. Needs the scope `send`.
#[utoipa::path(
    delete,
    path = "/v1/sequences/{sequence}/executions/{email}",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("email" = String, Path, format = Email, max_length = 254)
    ),
    responses(
        (status = 204, description = "The person is not in it any more"),
        (status = 404, description = "There is no such sequence, or the person is not in it", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn stop(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path((sequence, email)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let email = addressed(&email)?;
    let was_in = executions::stop(&cx, &v1.services.versions, &email, id.as_str()).await?;
    match was_in {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("this person is not in the sequence")),
    }
}

/// Show which sequences somebody is in
///
/// Those of this client, with the step where the person is and when it goes on. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/executions",
    tag = "Sequences",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    responses(
        (status = 200, description = "Where the person is; all on one page", body = ListBody<ExecutionBody>),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn of_contact(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
) -> Result<Json<ListBody<ExecutionBody>>, Problem> {
    let cx = v1.cx(&who);
    let email = addressed(&email)?;
    let found = executions::of_contact(&cx, &email).await?;
    if found.is_empty() && !contacts::is_known(&cx, &email).await? {
        return Err(nobody());
    }
    let (mut asked, mut data) = (BTreeMap::<String, bool>::new(), Vec::new());
    for execution in found {
        let is_own = match asked.get(&execution.sequence) {
            Some(is_own) => *is_own,
            None => {
                let is_own = own(&v1, &cx, &who, &execution.sequence).await?.is_some();
                asked.insert(execution.sequence.clone(), is_own);
                is_own
            }
        };
        if is_own {
            data.push(execution.into());
        }
    }
    Ok(Json(ListBody { data, next_cursor: None }))
}

/// Let an execution wait no longer
///
/// It goes on at once. What it waits for counts as not having come. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/executions/{execution}/skip",
    tag = "Sequences",
    security(("key" = [])),
    params(("execution" = String, Path, description = "Its id", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "Where it is now", body = ExecutionBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It does not wait", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn skip(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(execution): Path<String>,
) -> Result<Json<ExecutionBody>, Problem> {
    let cx = v1.cx(&who);
    let id = execution_id(&execution)?;
    let found = executions::show(&cx, &id).await?.ok_or_else(no_execution)?;
    // Whose it is decides whether there is one.
    own(&v1, &cx, &who, &found.sequence).await?.ok_or_else(no_execution)?;
    Ok(Json(executions::skip_wait(&cx, &v1.services.versions, &id).await?.into()))
}

/// What cannot be an id is no execution's.
pub(super) fn execution_id(text: &str) -> Result<ExecutionId, Problem> {
    ExecutionId::parse(text).ok_or_else(no_execution)
}

fn no_execution() -> Problem {
    Problem::not_found("there is no such execution")
}

/// A key is one client's, and for one person: the same key for somebody else lets him in, too.
fn cause(client: ClientId, email: &EmailAddress, key: &str) -> String {
    let person = hex(&Sha256::digest(email.as_str()));
    format!("api/{client}/{}/{key}", person.get(..32).unwrap_or(&person))
}

/// Where to look for somebody who was in before.
struct Whereabouts<'a> {
    email: &'a EmailAddress,
    sequence: &'a str,
}

async fn answer(
    cx: &Cx,
    entered: Entered,
    there: &Whereabouts<'_>,
) -> Result<(StatusCode, EntryBody), Problem> {
    let new = |outcome, execution: Execution| {
        let execution = Some(execution.into());
        (StatusCode::CREATED, EntryBody { outcome, execution, again_at: None })
    };
    let (outcome, again_at) = match entered {
        Entered::Began(execution) => return Ok(new("began", *execution)),
        Entered::Restarted(execution) => return Ok(new("restarted", *execution)),
        Entered::AlreadyIn(_) => ("already_in", None),
        Entered::TooSoon { again_at } => ("too_soon", Some(again_at)),
        Entered::Before | Entered::Over => ("replayed", None),
        Entered::Refused(refusal) => return Err(refusal.into()),
    };
    let mut inside = executions::of_contact(cx, there.email).await?.into_iter();
    let execution = inside.find(|one| one.sequence == there.sequence).map(Into::into);
    Ok((StatusCode::OK, EntryBody { outcome, execution, again_at }))
}

impl FromFields for NewEntry {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (email, first_name) = (fields.required("email"), fields.optional("first_name"));
        let (attributes, data) = (attributes(fields), data(fields));
        let (email, first_name, attributes) = (email?, first_name?, attributes?);
        Some(Self { email, first_name, attributes, data: data? })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (reason, detail) = match refusal {
            Refusal::Paused => {
                ("paused", "this sequence is paused or archived: nobody comes in".to_owned())
            }
            Refusal::Person(reason) => {
                (reason.as_str(), format!("this person may not come in: {}", reason.as_str()))
            }
        };
        Self::new(StatusCode::CONFLICT, "enrolment_refused", detail).because(reason)
    }
}

impl From<EnrolError> for Problem {
    fn from(error: EnrolError) -> Self {
        match error {
            EnrolError::Missing(_) => missing(),
            EnrolError::Person(error) => error.into(),
            EnrolError::Store(error) => error.into(),
        }
    }
}

impl From<SkipError> for Problem {
    fn from(error: SkipError) -> Self {
        match error {
            SkipError::Missing(_) => no_execution(),
            SkipError::NotWaiting(_) => Self::conflict(error),
            SkipError::Store(error) => error.into(),
        }
    }
}
