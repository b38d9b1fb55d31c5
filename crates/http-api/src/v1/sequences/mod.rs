//! `/v1/sequences`: mails that go out by themselves, one step after the other. Writing them down and looking at them is
//! here, letting nobody in in `control`, who is in them in `people`, who could not go on in `failed`, letting many in at
//! once in `enrolments`, and what came of it or would come of it in `walks`.

mod bodies;
pub(super) mod control;
mod definition;
pub(super) mod enrolments;
pub(super) mod failed;
pub(super) mod people;
pub(super) mod walks;

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::future::try_join_all;
use serde_json::{Map, Value};
use tidings_access::{Cx, Limit, Page, Slug, StorageError};
use tidings_kernel::Invalid;
use tidings_sequences::definition as defined;
use tidings_sequences::events::check_data;
use tidings_sequences::executions;
use tidings_sequences::versions::{
    self as stored, Active, Change, Compared, List, PutError, Sequence, Status,
};
use tidings_signals::queries;

use self::bodies::{PutBody, SequenceBody, ShownBody, VersionBody, VersionShownBody};
use self::definition::{NewSequence, Sent};
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{self, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

/// Which sequences are wanted: the query of the list.
pub(super) struct Which {
    status: Option<Status>,
    after: Option<After>,
    limit: Limit,
}

/// A place in the list of sequences.
pub(super) struct After(Slug);

/// A place in the list of versions.
pub(super) struct Before(i64);

/// A place in a list that is kept as items, each list with a name of its own.
pub(super) struct Place<const FAILED: bool>(tidings_kernel::Cursor);

/// How a definition is put.
pub(super) struct How {
    dry_run: bool,
}

/// List the sequences of this client
///
/// In the order of their ids, each with how many people are in it now. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("status" = Option<String>, Query, description = "Only those with this status", pattern = "^(active|paused|archived)$"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of sequences", body = ListBody<SequenceBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(which): Params<Which>,
) -> Result<Json<ListBody<SequenceBody>>, Problem> {
    let cx = v1.cx(&who);
    let Which { status, after, limit } = which;
    let after = after.map(|After(slug)| slug);
    let list = List { client: Some(who.caller().client_id), status, after, limit };
    let Page { items, next } = stored::list(&cx, list).await?;
    let counts = items.iter().map(|one| executions::active(&cx, &one.id));
    let counts = try_join_all(counts).await?;
    let items = items.into_iter().zip(counts).collect();
    Ok(ListBody::<SequenceBody>::answer(Page { items, next: next.map(After) }))
}

/// Write a sequence
///
/// The definition as JSON or as YAML: the same that a file for `tidings apply` has; its JSON Schema is served at
/// `/docs/sequence.schema.json`. What differs from the active version becomes a new version, and whoever is in the
/// sequence stays with his. What was archived is active again. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/sequences/{sequence}",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40, pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("dry_run" = Option<bool>, Query, description = "Only say what it would do")
    ),
    request_body(content(
        (NewSequence = "application/json"),
        (String = "application/yaml"),
        (String = "text/yaml")
    )),
    responses(
        (status = 200, description = "What it did, or would do", body = PutBody),
        (status = 201, description = "The sequence is new", body = PutBody),
        (status = 409, description = "Another client has a sequence of this id", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The definition or the query is wrong: all faults, with the place and, in YAML, the line", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(sequence): Path<String>,
    Params(How { dry_run }): Params<How>,
    sent: Sent,
) -> Result<impl IntoResponse, Problem> {
    let (cx, client) = (v1.cx(&who), who.caller().client_id);
    let definition = sent.read(&sequence, &who.caller().client)?;
    let (change, version) = if dry_run {
        let there = v1.services.versions.active(&cx, definition.id.as_str()).await?;
        if there.is_some_and(|there| there.client != client) {
            return Err(taken());
        }
        let compared = stored::compare(&cx, &definition, &BTreeSet::new()).await;
        let Compared { change, version, .. } = compared.map_err(|error| refused(&sent, error))?;
        (change, version)
    } else {
        let put = stored::put_of(&cx, client, &definition).await;
        let put = put.map_err(|error| refused(&sent, error))?.ok_or_else(taken)?;
        (put.change, put.version)
    };
    let id = definition.id.to_string();
    let location = format!("/v1/sequences/{id}");
    let is_new = change == Change::Created && !dry_run;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = PutBody { id, change: change.as_str(), version, dry_run };
    Ok((status, [(header::LOCATION, location)], Json(body)))
}

/// Show a sequence
///
/// With its active definition, how many people are in it, and what became of its mails. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}",
    tag = "Sequences",
    security(("key" = [])),
    params(("sequence" = String, Path, description = "Its id", max_length = 40)),
    responses(
        (status = 200, description = "The sequence", body = ShownBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
) -> Result<Json<ShownBody>, Problem> {
    let cx = v1.cx(&who);
    let id = named(&sequence)?;
    let shown = stored::show(&cx, id.as_str()).await?;
    let own = |shown: &stored::Shown| shown.sequence.client == who.caller().client_id;
    let stored::Shown { sequence, definition, .. } = shown.filter(own).ok_or_else(missing)?;
    let counts = queries::sequence(&cx, &sequence.id).await?.unwrap_or_default();
    let sequence = with_count(&cx, sequence).await?;
    Ok(Json(ShownBody { sequence, definition, counts: counts.into() }))
}

/// List the versions of a sequence
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/versions",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of versions", body = ListBody<VersionBody>),
        (status = 404, description = "There is no such sequence", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn versions(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence): Path<String>,
    listing: Listing<Before>,
) -> Result<Json<ListBody<VersionBody>>, Problem> {
    let cx = v1.cx(&who);
    let (id, active) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let before = listing.after.map(|Before(version)| version);
    let Page { items, next } = stored::versions(&cx, id.as_str(), before, listing.limit).await?;
    let items = items.into_iter().map(|one| VersionBody::new(one, active.version)).collect();
    Ok(ListBody::<VersionBody>::answer(Page { items, next: next.map(Before) }))
}

/// Show a version of a sequence
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/sequences/{sequence}/versions/{version}",
    tag = "Sequences",
    security(("key" = [])),
    params(
        ("sequence" = String, Path, description = "Its id", max_length = 40),
        ("version" = i64, Path, description = "The number of the version", minimum = 1)
    ),
    responses(
        (status = 200, description = "The version", body = VersionShownBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn version(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path((sequence, version)): Path<(String, String)>,
) -> Result<Json<VersionShownBody>, Problem> {
    let cx = v1.cx(&who);
    let (id, active) = the_sequence(&v1, &cx, &who, &sequence).await?;
    let version = version.parse().map_err(|_| no_version())?;
    let definition = stored::definition_of(&cx, id.as_str(), version).await?;
    let definition = definition.ok_or_else(no_version)?;
    let active = version == active.version;
    Ok(Json(VersionShownBody { version, active, definition }))
}

/// The form of a definition, for editors. They have no key.
pub(super) async fn schema() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/schema+json")], defined::schema().to_string())
}

/// What cannot be an id is no sequence's.
fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| missing())
}

async fn the_sequence<S>(
    v1: &V1,
    cx: &Cx,
    who: &Needs<S>,
    text: &str,
) -> Result<(Slug, Active), Problem> {
    let id = named(text)?;
    let own = own(v1, cx, who, id.as_str()).await?;
    Ok((id, own.ok_or_else(missing)?))
}

/// Another client's sequence is none.
async fn own<S>(
    v1: &V1,
    cx: &Cx,
    who: &Needs<S>,
    id: &str,
) -> Result<Option<Active>, StorageError> {
    let found = v1.services.versions.active(cx, id).await?;
    Ok(found.filter(|found| found.client == who.caller().client_id))
}

async fn with_count(cx: &Cx, sequence: Sequence) -> Result<SequenceBody, Problem> {
    let active = executions::active(cx, &sequence.id).await?;
    Ok(SequenceBody::from((sequence, active)))
}

fn missing() -> Problem {
    Problem::not_found("there is no such sequence")
}

fn no_version() -> Problem {
    Problem::not_found("this sequence has no such version")
}

fn taken() -> Problem {
    Problem::conflict("another client has a sequence of this id; use another id")
}

fn one_wrong(field: &str, message: &str) -> Problem {
    Problem::invalid(vec![Violation { field: field.to_owned(), message: message.to_owned() }])
}

fn refused(sent: &Sent, error: PutError) -> Problem {
    match error {
        PutError::Faults(faults) => sent.refused(faults),
        PutError::Store(error) => error.into(),
    }
}

/// What went wrong with a list that is kept as items.
fn unlisted(error: StorageError) -> Problem {
    match error {
        StorageError::Items(tidings_kernel::StoreError::Invalid(Invalid::BadCursor)) => {
            one_wrong("cursor", "use a next_cursor of the same list")
        }
        error => error.into(),
    }
}

/// As a number of items.
fn most(limit: Limit) -> usize {
    usize::try_from(limit.and_one() - 1).unwrap_or(1)
}

/// What the steps can ask and the mails can say, as if an event had told it.
fn data(fields: &mut Fields) -> Option<Value> {
    let data: Map<String, Value> = fields.optional_object("data")?.unwrap_or_default();
    match check_data(&data) {
        Ok(()) => Some(Value::Object(data)),
        Err(message) => fields.wrong("data", message),
    }
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let status = fields.optional("status");
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { status: status?, after, limit })
    }
}

impl FromFields for How {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let dry_run = fields.optional::<bool>("dry_run")?;
        Some(Self { dry_run: dry_run.unwrap_or(false) })
    }
}

impl input::Cursor for After {
    const LIST: &'static str = "sequences";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl input::Cursor for Before {
    const LIST: &'static str = "sequence-versions";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|version| *version > 0).map(Self)
    }
}

impl<const FAILED: bool> input::Cursor for Place<FAILED> {
    const LIST: &'static str = if FAILED { "failed-executions" } else { "executions" };

    fn to_text(&self) -> String {
        self.0.as_str().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned().into()))
    }
}
