//! `/v1/inboxes`: what is set for single inboxes. An inbox needs none of it: it is there as soon as somebody publishes to it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tidings_inbox::keys::{self, InboxKey};
use tidings_inbox::records::Configuration;
use tidings_inbox::settings::{self, NewConfiguration};
use utoipa::ToSchema;

use super::{acting, after, key, number};
use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{InboxAdmin, Needs, Refusals};
use crate::v1::input::{Body, Cursor, Fields, FromFields, Listing, cursor_text};
use crate::v1::{ListBody, V1};

#[derive(Serialize, ToSchema)]
#[schema(as = Inbox)]
pub(in crate::v1) struct InboxBody {
    #[schema(example = "app", max_length = 128)]
    key: String,
    title: String,
    description: String,
    /// How long messages live, by category; `default` is for all others
    #[schema(value_type = Object, example = json!({"default": "30d", "orders": "90d"}))]
    ttl: BTreeMap<String, String>,
    /// Who made it
    updated_by: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = NewInbox)]
#[expect(dead_code, reason = "it describes what `Draft` reads")]
pub(in crate::v1) struct ToSet {
    #[schema(max_length = 200)]
    title: Option<String>,
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// How long messages live, by category; `default` is for all others
    #[schema(value_type = Option<Object>, example = json!({"default": "30d", "orders": "90d"}))]
    ttl: Option<BTreeMap<String, String>>,
}

pub(in crate::v1) struct Draft(NewConfiguration);

/// List the inboxes
///
/// Those for which something is set, by their keys. Needs the scope `inbox:admin`.
#[utoipa::path(
    get,
    path = "/v1/inboxes",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of inboxes", body = ListBody<InboxBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    listing: Listing<InboxKey>,
) -> Result<Json<ListBody<InboxBody>>, Problem> {
    let cx = v1.cx(&who);
    let place = listing.after.map(|inbox| keys::configuration(cx.workspace(), &inbox));
    let page = settings::inboxes(&cx, number(listing.limit), after(place.as_ref())).await?;
    let last = page.inboxes.last().map(|(inbox, _)| inbox.clone());
    let next_cursor = page.next.and(last).as_ref().map(cursor_text);
    let data = page.inboxes.into_iter().map(|(inbox, set)| InboxBody::new(&inbox, set)).collect();
    Ok(Json(ListBody { data, next_cursor }))
}

/// Show an inbox
///
/// What is set for it. Needs the scope `inbox:admin`.
#[utoipa::path(
    get,
    path = "/v1/inboxes/{inbox}",
    tag = "Inboxes",
    security(("key" = [])),
    params(("inbox" = String, Path, description = "The key of the inbox")),
    responses(
        (status = 200, description = "What is set", body = InboxBody),
        (status = 404, description = "Nothing is set for this inbox", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path(inbox): Path<String>,
) -> Result<Json<InboxBody>, Problem> {
    let inbox = key(&inbox)?;
    let found = settings::inbox(&v1.cx(&who), &inbox).await?;
    Ok(Json(InboxBody::new(&inbox, found.ok_or_else(missing)?)))
}

/// Set up an inbox
///
/// All at once: what is left out no longer holds. Messages that are there keep their time. Needs the scope `inbox:admin`.
#[utoipa::path(
    put,
    path = "/v1/inboxes/{inbox}",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox: 1 to 128 characters without #"),
        ("X-Admin-Id" = Option<String>, Header, description = "Who does it; without it, the client", max_length = 128)
    ),
    request_body = ToSet,
    responses(
        (status = 200, description = "What is set now", body = InboxBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn put(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path(inbox): Path<String>,
    headers: HeaderMap,
    Body(Draft(draft)): Body<Draft>,
) -> Result<Json<InboxBody>, Problem> {
    let inbox = key(&inbox)?;
    let acting = acting(&v1, &who, &headers)?;
    let new = NewConfiguration { uid: acting.name, ..draft };
    let set = settings::put_inbox(&acting.cx, &inbox, new).await?;
    Ok(Json(InboxBody::new(&inbox, set)))
}

/// Forget what is set for an inbox
///
/// From then on it has everything as the workspace has it. Its messages stay. Needs the scope `inbox:admin`.
#[utoipa::path(
    delete,
    path = "/v1/inboxes/{inbox}",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-Admin-Id" = Option<String>, Header, description = "Who does it; without it, the client", max_length = 128)
    ),
    responses(
        (status = 204, description = "Nothing is set for it any more"),
        (status = 404, description = "Nothing was set for this inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The header is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn delete(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path(inbox): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (inbox, acting) = (key(&inbox)?, acting(&v1, &who, &headers)?);
    match settings::delete_inbox(&acting.cx, &inbox).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing()),
    }
}

fn missing() -> Problem {
    Problem::not_found("nothing is set for this inbox")
}

impl InboxBody {
    fn new(inbox: &InboxKey, set: Configuration) -> Self {
        Self {
            key: inbox.to_string(),
            title: set.title,
            description: set.description,
            ttl: set.ttl.into_iter().map(|(name, ttl)| (name, ttl.to_string())).collect(),
            updated_by: Some(set.uid).filter(|uid| !uid.is_empty()),
        }
    }
}

impl FromFields for Draft {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let title = fields.optional::<String>("title");
        let description = fields.optional::<String>("description");
        let given = fields.optional_object("ttl")?.unwrap_or_default();
        let mut ttl = BTreeMap::new();
        for (name, value) in given {
            match value {
                Value::String(time) => drop(ttl.insert(name, time)),
                _ => drop(fields.wrong::<()>(&format!("ttl.{name}"), "use a text such as 30d")),
            }
        }
        let (title, description) = (title?.unwrap_or_default(), description?.unwrap_or_default());
        Some(Self(NewConfiguration { title, description, ttl, uid: String::new() }))
    }
}

impl Cursor for InboxKey {
    const LIST: &'static str = "inboxes";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}
