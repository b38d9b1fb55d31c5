//! `/v1/contacts/{email}/memory` and `/features`: what was learned of a person, and his numbers.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::{Cx, Limit, StorageError};
use tidings_kernel::{StoreError, plain};
use tidings_leads::features::{self, Features, UpkeepTask};
use tidings_leads::identity::{Owner, find};
use tidings_leads::memory::{
    self, CERTAIN, Listing, Memory, MemoryKey, MemoryType, Remember, RememberError,
};
use utoipa::ToSchema;

use super::identity::meant;
use super::nobody;
use crate::problem::{Problem, ProblemBody, Violation};
use crate::v1::auth::{Manage, Needs, Read, Refusals};
use crate::v1::input::{Body, Fields, FromFields, Params};
use crate::v1::{ListBody, V1};

/// So many characters the name of a source has.
const MAX_SOURCE: usize = 100;

#[derive(Serialize, ToSchema)]
#[schema(as = Memory)]
pub(in crate::v1) struct MemoryBody {
    #[schema(example = "preference")]
    r#type: String,
    #[schema(example = "colour")]
    key: String,
    value: Value,
    /// From 0 to 1
    #[schema(value_type = f64)]
    confidence: Value,
    /// Which derivation, `rule:<name>`, or who stated it
    source: String,
    /// The events that it rests on, at most 50, the newest first
    source_event_ids: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Features)]
pub(in crate::v1) struct FeaturesBody {
    /// By name; one that says nothing is not there
    #[schema(value_type = Object, example = json!({"monetary_total": 129.9, "recency_days": 3}))]
    features: Value,
    /// What the engagement score is made of
    engagement_score_parts: Vec<Value>,
    /// Null if nothing has been computed yet
    #[schema(value_type = Option<String>, format = DateTime)]
    computed_at: Option<Timestamp>,
}

/// A rebuild of everybody.
#[derive(Serialize, ToSchema)]
#[schema(as = Rebuild)]
pub(in crate::v1) struct RebuildBody {
    #[schema(value_type = Option<String>, format = DateTime)]
    begun_at: Option<Timestamp>,
    /// So many people were asked for
    done: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
}

/// Something to remember.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described; `Said` reads it")]
#[schema(as = NewMemory)]
pub(in crate::v1) struct NewMemory {
    /// At most 4 KB
    value: Value,
    /// Above 0 and at most 1; 1 if left out
    confidence: Option<f64>,
    /// Who says so; `api` if left out
    #[schema(max_length = 100)]
    source: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

pub(in crate::v1) struct Said {
    value: Value,
    confidence: i64,
    source: String,
    expires_at: Option<Timestamp>,
}

pub(in crate::v1) struct Wanted(Listing);

pub(in crate::v1) struct AsOf(Option<Timestamp>);

/// List what was learned of a contact
///
/// In the order of type and key. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/memory",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600),
        ("type" = Option<String>, Query, description = "Only this type", pattern = "^[a-z][a-z0-9_-]{0,63}$"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of it", body = ListBody<MemoryBody>),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn memory(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
    Params(Wanted(listing)): Params<Wanted>,
) -> Result<Json<ListBody<MemoryBody>>, Problem> {
    let cx = v1.cx(&who);
    let owner = owner(&cx, &email).await?;
    let page = match memory::list(&cx, &owner.lead_organization_id, listing).await {
        Err(StorageError::Items(StoreError::Invalid(_))) => {
            return Err(wrong("cursor", "use a next_cursor of the same list"));
        }
        answer => answer?.ok_or_else(nobody)?,
    };
    let data = page.memories.into_iter().map(MemoryBody::from).collect();
    Ok(Json(ListBody { data, next_cursor: page.next }))
}

/// Show one thing that was learned of a contact
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/memory/{type}/{key}",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600),
        ("type" = String, Path, pattern = "^[a-z][a-z0-9_-]{0,63}$"),
        ("key" = String, Path, max_length = 200)
    ),
    responses(
        (status = 200, description = "The memory", body = MemoryBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn memory_one(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path((email, memory_type, key)): Path<(String, String, String)>,
) -> Result<Json<MemoryBody>, Problem> {
    let cx = v1.cx(&who);
    let owner = owner(&cx, &email).await?;
    let missing = || Problem::not_found("nothing like this is remembered");
    let (Ok(memory_type), Ok(key)) = (memory_type.parse(), key.parse()) else {
        return Err(missing());
    };
    let found = memory::get(&cx, &owner.lead_organization_id, &memory_type, &key).await?;
    found.map(|found| Json(found.into())).ok_or_else(missing)
}

/// Remember something of a contact
///
/// In place of what was stated before. An event that says something newer counts more. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/contacts/{email}/memory/{type}/{key}",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600),
        ("type" = String, Path, pattern = "^[a-z][a-z0-9_-]{0,63}$"),
        ("key" = String, Path, max_length = 200)
    ),
    request_body = NewMemory,
    responses(
        (status = 200, description = "What is remembered now", body = MemoryBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or the name is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn remember(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((email, memory_type, key)): Path<(String, String, String)>,
    Body(said): Body<Said>,
) -> Result<Json<MemoryBody>, Problem> {
    let cx = v1.cx(&who);
    let owner = owner(&cx, &email).await?;
    let memory_type: MemoryType =
        memory_type.parse().map_err(|error| wrong("type", &format!("{error}")))?;
    let key: MemoryKey = key.parse().map_err(|error| wrong("key", &format!("{error}")))?;
    let Said { value, confidence, source, expires_at } = said;
    let remember = Remember { memory_type, key, value, confidence, source, expires_at };
    Ok(Json(memory::remember(&cx, &owner.lead_organization_id, remember).await?.into()))
}

/// Forget what was stated of a contact
///
/// What events say of it counts again. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/contacts/{email}/memory/{type}/{key}",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity", max_length = 600),
        ("type" = String, Path, pattern = "^[a-z][a-z0-9_-]{0,63}$"),
        ("key" = String, Path, max_length = 200)
    ),
    responses(
        (status = 204, description = "It counts no more"),
        (status = 404, description = "Nothing like this was stated", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn forget_memory(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((email, memory_type, key)): Path<(String, String, String)>,
) -> Result<StatusCode, Problem> {
    let cx = v1.cx(&who);
    let owner = owner(&cx, &email).await?;
    let missing = || Problem::not_found("nothing like this was stated");
    let (Ok(memory_type), Ok(key)) = (memory_type.parse(), key.parse()) else {
        return Err(missing());
    };
    let was_stated = memory::forget(&cx, &owner.lead_organization_id, (&memory_type, &key)).await?;
    if was_stated { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}

/// Show the features of a contact
///
/// As they were last computed, or as of any moment of the past, computed from the events. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/features",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600),
        ("as_of" = Option<String>, Query, description = "A moment that is not in the future", format = DateTime)
    ),
    responses(
        (status = 200, description = "The features", body = FeaturesBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn features(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
    Params(AsOf(as_of)): Params<AsOf>,
) -> Result<Json<FeaturesBody>, Problem> {
    let cx = v1.cx(&who);
    let id = owner(&cx, &email).await?.lead_organization_id;
    let found = match as_of {
        Some(moment) if moment > cx.now() => {
            return Err(wrong("as_of", "use a moment that is not in the future"));
        }
        Some(moment) => features::as_of(&cx, &id, moment).await?,
        None => features::get(&cx, &id).await?,
    };
    found.map(|features| Json(features.into())).ok_or_else(nobody)
}

/// Derive memory and features of a contact again
///
/// From all events, by the workers. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contacts/{email}/rebuild",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600)),
    responses(
        (status = 202, description = "It will be done"),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn rebuild(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
) -> Result<StatusCode, Problem> {
    let cx = v1.cx(&who);
    let owner = owner(&cx, &email).await?;
    features::ask_for_rebuild(&cx, &owner.lead_organization_id).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Derive memory and features of everybody again
///
/// Page by page, by the workers. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/rebuild",
    tag = "Contacts",
    security(("key" = [])),
    responses((status = 202, description = "It is begun", body = RebuildBody), Refusals)
)]
pub(in crate::v1) async fn rebuild_all(
    State(v1): State<V1>,
    who: Needs<Manage>,
) -> Result<(StatusCode, Json<RebuildBody>), Problem> {
    let cx = v1.cx(&who);
    features::rebuild_all(&cx).await?;
    Ok((StatusCode::ACCEPTED, Json(progress(&cx).await?)))
}

/// Show how far the last rebuild of everybody is
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/rebuild",
    tag = "Contacts",
    security(("key" = [])),
    responses((status = 200, description = "How far it is", body = RebuildBody), Refusals)
)]
pub(in crate::v1) async fn rebuild_progress(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<RebuildBody>, Problem> {
    Ok(Json(progress(&v1.cx(&who)).await?))
}

async fn progress(cx: &Cx) -> Result<RebuildBody, Problem> {
    let progress = features::progress(cx, UpkeepTask::Rebuild).await?;
    Ok(RebuildBody {
        begun_at: progress.as_ref().map(|progress| progress.at),
        done: progress.as_ref().map_or(0, |progress| progress.done),
        finished_at: progress.and_then(|progress| progress.finished_at),
    })
}

/// Whoever is meant.
async fn owner(cx: &Cx, contact: &str) -> Result<Owner, Problem> {
    find(cx, meant(contact)?).await?.ok_or_else(nobody)
}

fn wrong(field: &str, message: &str) -> Problem {
    Problem::invalid(vec![Violation { field: field.to_owned(), message: message.to_owned() }])
}

impl FromFields for Said {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let value = fields.value("value");
        let value = value.or_else(|| fields.wrong("value", "this is required"));
        let confidence = match fields.value("confidence") {
            None => Some(CERTAIN),
            Some(given) => {
                let given = given.as_f64().filter(|given| *given > 0.0 && *given <= 1.0);
                match given.map(|given| (given * CERTAIN as f64).round() as i64) {
                    Some(given) if given > 0 => Some(given),
                    _ => fields.wrong("confidence", "use a number above 0 and at most 1"),
                }
            }
        };
        let source = match fields.optional::<String>("source")? {
            None => Some("api".to_owned()),
            Some(source) => {
                let source = source.trim().to_owned();
                let fits = (1..=MAX_SOURCE).contains(&source.chars().count())
                    && !source.chars().any(char::is_control);
                let message = "use 1 to 100 characters on one line";
                if fits { Some(source) } else { fields.wrong("source", message) }
            }
        };
        let expires_at = fields.optional_time("expires_at");
        Some(Self {
            value: value?,
            confidence: confidence?,
            source: source?,
            expires_at: expires_at?,
        })
    }
}

impl FromFields for Wanted {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let memory_type = fields.optional::<MemoryType>("type");
        let limit = fields.optional::<Limit>("limit");
        let cursor = fields.optional::<String>("cursor");
        let limit = usize::try_from(limit?.unwrap_or_default().and_one() - 1).unwrap_or_default();
        Some(Self(Listing { memory_type: memory_type?, limit, cursor: cursor? }))
    }
}

impl FromFields for AsOf {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.optional_time("as_of").map(Self)
    }
}

impl From<Memory> for MemoryBody {
    fn from(memory: Memory) -> Self {
        Self {
            r#type: memory.memory_type.to_string(),
            key: memory.key.to_string(),
            value: plain::from_value(&memory.value),
            confidence: plain::from_value(&tidings_kernel::Value::N(memory.confidence)),
            source: memory.source,
            source_event_ids: memory.source_event_ids,
            created_at: memory.created_at,
            updated_at: memory.updated_at,
            expires_at: memory.expires_at,
        }
    }
}

impl From<Features> for FeaturesBody {
    fn from(features: Features) -> Self {
        Self {
            features: plain::from_value(&tidings_kernel::Value::M(features.values)),
            engagement_score_parts: features.score.iter().map(plain::from_value).collect(),
            computed_at: features.computed_at,
        }
    }
}

impl From<RememberError> for Problem {
    fn from(error: RememberError) -> Self {
        match error {
            RememberError::Nobody => nobody(),
            RememberError::Value => wrong("value", &error.to_string()),
            RememberError::Past => wrong("expires_at", &error.to_string()),
            RememberError::Store(error) => error.into(),
        }
    }
}
