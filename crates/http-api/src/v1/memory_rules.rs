//! `/v1/memory-rules`: what a workspace wants to be remembered besides what is built in.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::Slug;
use tidings_leads::memory::RuleSet;
use tidings_leads::memory::rules::{self, Change, Kept, PutError, from_json};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = MemoryRules)]
pub(super) struct RulesBody {
    name: String,
    description: Option<String>,
    /// See docs/memory-features.md
    rules: Vec<Value>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MemoryRulesList)]
pub(super) struct AllBody {
    data: Vec<RulesBody>,
}

/// Some rules.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described; `Given` reads it")]
#[schema(as = NewMemoryRules, example = json!({"rules": [{
    "name": "coffee", "on": "product_viewed", "where": [{"path": "$.category", "equals": "coffee"}],
    "type": "interest", "key": "category:{$.category}", "value": "$.category", "confidence": 0.6,
    "expires_after": "90d"
}]}))]
pub(super) struct NewRules {
    #[schema(max_length = 500)]
    description: Option<String>,
    /// 1 to 50
    rules: Vec<Value>,
}

pub(super) struct Given(RuleSet);

/// List the memory rules
///
/// At most 50 sets, in the order of their names. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/memory-rules",
    tag = "Memory rules",
    security(("key" = [])),
    responses((status = 200, description = "All of them", body = AllBody), Refusals)
)]
pub(super) async fn list(State(v1): State<V1>, who: Needs<Read>) -> Result<Json<AllBody>, Problem> {
    let all = rules::list(&v1.cx(&who)).await?;
    Ok(Json(AllBody { data: all.into_iter().map(RulesBody::from).collect() }))
}

/// Show a set of memory rules
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/memory-rules/{rules}",
    tag = "Memory rules",
    security(("key" = [])),
    params(("rules" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    responses(
        (status = 200, description = "The rules", body = RulesBody),
        (status = 404, description = "There are none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(name): Path<String>,
) -> Result<Json<RulesBody>, Problem> {
    let found = rules::get(&v1.cx(&who), &named(&name)?).await?;
    found.map(|kept| Json(kept.into())).ok_or_else(missing)
}

/// Put a set of memory rules
///
/// They count for events from now on; a rebuild holds earlier ones against them too. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/memory-rules/{rules}",
    tag = "Memory rules",
    security(("key" = [])),
    params(("rules" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    request_body = NewRules,
    responses(
        (status = 200, description = "They took the place of others, or were there", body = RulesBody),
        (status = 201, description = "They are new", body = RulesBody),
        (status = 404, description = "This cannot be a name", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "There are 50 sets already", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The rules are wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(name): Path<String>,
    Body(Given(set)): Body<Given>,
) -> Result<(StatusCode, Json<RulesBody>), Problem> {
    let (kept, change) = rules::put(&v1.cx(&who), &named(&name)?, set).await?;
    let status = match change {
        Change::Added => StatusCode::CREATED,
        Change::Changed | Change::Unchanged => StatusCode::OK,
    };
    Ok((status, Json(kept.into())))
}

/// Delete a set of memory rules
///
/// What was derived by them stays until it expires or is rebuilt. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/memory-rules/{rules}",
    tag = "Memory rules",
    security(("key" = [])),
    params(("rules" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    responses(
        (status = 204, description = "They are gone"),
        (status = 404, description = "There are none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn delete(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let was_there = rules::delete(&v1.cx(&who), &named(&name)?).await?;
    if was_there { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}

fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| missing())
}

fn missing() -> Problem {
    Problem::not_found("there are no memory rules of this name")
}

impl FromFields for Given {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match from_json(&Value::Object(fields.everything())) {
            Ok(set) => Some(Self(set)),
            Err(faults) => {
                for fault in faults {
                    fields.wrong::<()>(&fault.path(), fault.message);
                }
                None
            }
        }
    }
}

impl From<Kept> for RulesBody {
    fn from(kept: Kept) -> Self {
        let mut json = kept.set.to_json();
        let rules = match json.get_mut("rules").map(Value::take) {
            Some(Value::Array(rules)) => rules,
            _ => Vec::new(),
        };
        Self {
            name: kept.name.to_string(),
            description: kept.set.description,
            rules,
            updated_at: kept.updated_at,
        }
    }
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::TooMany => Self::conflict(error),
            PutError::Store(error) => error.into(),
        }
    }
}
