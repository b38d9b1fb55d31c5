//! How people go through a sequence: drawn, counted, and tried without sending anything.

use std::str::FromStr;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_kernel::EmailAddress;
use tidings_sequences::definition::{self as defined, EventNameError, check_event_name};
use tidings_sequences::executions::{self, Simulate, SimulateError};
use utoipa::ToSchema;

use super::bodies::{FunnelBody, SimulatedBody};
use super::{data, missing, no_version, the_sequence};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Needs, Read, Refusals};
use crate::v1::input::{Body, Fields, FromFields, Params};

/// Between which years a walk can begin that is only tried.
const YEARS: std::ops::Range<i16> = 2000..2100;

pub(in crate::v1) struct OfVersion {
    /// The active one if there is none.
    version: Option<i64>,
}

#[derive(ToSchema)]
#[schema(as = SimulateSequence)]
#[expect(dead_code, reason = "`NewSimulation` is read; this says how it looks")]
pub(in crate::v1) struct NewSimulationBody {
    /// Whose attributes, tags and history conditions ask. It need not be a contact
    #[schema(format = Email, max_length = 254, example = "ada@example.org")]
    email: String,
    /// When it begins, from 2000 to 2099; now if left out
    #[schema(format = DateTime)]
    at: Option<String>,
    /// The data of the event that lets the person in: up to 32 KB, and 8 deep
    #[schema(value_type = Option<Object>)]
    data: Option<Map<String, Value>>,
    /// The events that come while they are waited for. All others do not
    #[schema(max_items = 100, example = json!(["project.created"]))]
    events: Option<Vec<String>>,
}

pub(in crate::v1) struct NewSimulation {
    email: EmailAddress,
    at: Option<Timestamp>,
    data: Value,
    events: Vec<EventName>,
}

struct EventName(String);

/// Draw a sequence
///
/// As a flowchart in the language of Mermaid. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/mermaid",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("version" = Option<i64>, Query, description = "The active one if left out", minimum = 1)
    ),
    responses(
        (status = 200, description = "The flowchart", body = String, content_type = "text/plain"),
        (status = 404, description = "There is no such sequence or version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn mermaid(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    Params(OfVersion { version }): Params<OfVersion>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let (id, active) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let version = version.unwrap_or(active.version);
    let program = v1.services.versions.program(&cx, id.as_str(), version).await?;
    let drawn = defined::mermaid(&program.ok_or_else(no_version)?.definition);
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], drawn))
}

/// Show how people went through a sequence
///
/// How many came to each step of one version, and what became of them there. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/funnel",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("version" = Option<i64>, Query, description = "The active one if left out", minimum = 1)
    ),
    responses(
        (status = 200, description = "The numbers", body = FunnelBody),
        (status = 404, description = "There is no such sequence or version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn funnel(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    Params(OfVersion { version }): Params<OfVersion>,
) -> Result<Json<FunnelBody>, Problem> {
    let cx = v1.cx(&who);
    let (id, active) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let version = version.unwrap_or(active.version);
    let program = v1.services.versions.program(&cx, id.as_str(), version).await?;
    let program = program.ok_or_else(no_version)?;
    Ok(Json(executions::funnel(&cx, &program, version).await?.into()))
}

/// Walk through a sequence without sending anything
///
/// What the person would get, and when. Waits pass in no time; conditions are asked as they are now; what is waited for
/// comes if `events` names it. Nothing is changed. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/sequences/{sequence}/simulate",
    tag = "Sequences",
    security(("key" = [])),
    params(("sequence" = String, Path, description = "Its id", max_length = 40)),
    request_body = NewSimulationBody,
    responses(
        (status = 200, description = "The walk", body = SimulatedBody),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn simulate(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    Body(new): Body<NewSimulation>,
) -> Result<Json<SimulatedBody>, Problem> {
    let cx = v1.cx(&who);
    let (id, _) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let cmd = Simulate {
        sequence: id.to_string(),
        email: new.email,
        input: new.data,
        at: new.at.unwrap_or_else(|| cx.now()),
        assumed: new.events.into_iter().map(|EventName(name)| name).collect(),
    };
    Ok(Json(executions::simulate(&cx, &v1.services.versions, &cmd).await?.into()))
}

impl FromFields for OfVersion {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.optional::<i64>("version")? {
            Some(version) if version < 1 => fields.wrong("version", "use a number from 1 on"),
            version => Some(Self { version }),
        }
    }
}

impl FromFields for NewSimulation {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (email, data) = (fields.required("email"), data(fields));
        let events = fields.optional_list("events");
        let at = match fields.optional_time("at") {
            Some(Some(at)) if !YEARS.contains(&at.to_zoned(jiff::tz::TimeZone::UTC).year()) => {
                fields.wrong("at", "use a time from 2000 to 2099")
            }
            at => at,
        };
        let events = events?.unwrap_or_default();
        Some(Self { email: email?, at: at?, data: data?, events })
    }
}

impl FromStr for EventName {
    type Err = EventNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_event_name(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl From<SimulateError> for Problem {
    fn from(error: SimulateError) -> Self {
        match error {
            SimulateError::Missing(_) => missing(),
            SimulateError::Store(error) => error.into(),
        }
    }
}
