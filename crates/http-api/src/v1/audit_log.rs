//! `/v1/audit-log`: who changed what in the caller's workspace, from what to what.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::audit::{self, Filter, Listed, Position};
use tidings_access::{Limit, Page};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Refusals};
use super::events::Name;
use super::input::{Cursor, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(super) struct EntryBody {
    #[schema(minimum = 1)]
    id: i64,
    /// `key:` and the public id of a key, `operator`, `worker` or `user`
    #[schema(example = "key:3fQ9xK2mVb7T")]
    actor: String,
    #[schema(example = "client.disable")]
    action: String,
    #[schema(example = "client")]
    target_type: String,
    #[schema(example = "shop")]
    target_id: String,
    /// What it was before, as far as it changed; without personal data
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
    /// What it is now, as far as it changed; without personal data
    #[schema(value_type = Option<Object>)]
    after: Option<Value>,
    #[schema(value_type = String, format = DateTime)]
    happened_at: Timestamp,
}

pub(super) struct Asked {
    filter: Filter,
    after: Option<Place>,
    limit: Limit,
}

struct Place(Position);

impl Cursor for Place {
    const LIST: &'static str = "audit-log";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let actor = fields.optional::<Name>("actor");
        let action = fields.optional::<Name>("action");
        let target_type = fields.optional::<Name>("target_type");
        let target_id = fields.optional::<Name>("target_id");
        let since = fields.optional_time("since");
        let until = fields.optional_time("until");
        let listing = Listing::<Place>::from_fields(fields);
        let text = |name: Option<Name>| name.map(|Name(text)| text);
        let filter = Filter {
            actor: text(actor?),
            action: text(action?),
            target_type: text(target_type?),
            target_id: text(target_id?),
            since: since?,
            until: until?,
        };
        let Listing { after, limit } = listing?;
        Some(Self { filter, after, limit })
    }
}

/// List who changed what
///
/// The newest first. A page may be shorter than its limit, even empty: the list ends where `next_cursor` is null. An entry
/// can come a moment after its change. Needs the scope `manage`.
#[utoipa::path(
    get,
    path = "/v1/audit-log",
    tag = "Access",
    security(("key" = [])),
    params(
        ("actor" = Option<String>, Query, description = "Who did it: `key:<public id>`, `operator`, `worker` or `user`", max_length = 255),
        ("action" = Option<String>, Query, description = "An action such as `client.disable`, or all of an area: `client`", max_length = 255),
        ("target_type" = Option<String>, Query, description = "The kind of thing that was changed", max_length = 255),
        ("target_id" = Option<String>, Query, description = "Which one", max_length = 255),
        ("since" = Option<String>, Query, description = "At this time or after it", format = DateTime),
        ("until" = Option<String>, Query, description = "Before this time", format = DateTime),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of entries", body = ListBody<EntryBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Params(asked): Params<Asked>,
) -> Result<Json<ListBody<EntryBody>>, Problem> {
    let cx = v1.cx(&who);
    let after = asked.after.map(|Place(position)| position);
    let found = audit::list(&cx, asked.filter, after, asked.limit).await?;
    Ok(ListBody::answer(Page { items: found.items, next: found.next.map(Place) }))
}

impl From<Listed> for EntryBody {
    fn from(entry: Listed) -> Self {
        let Listed { id, actor, action, target_type, target_id, before, after, happened_at } =
            entry;
        Self { id, actor, action, target_type, target_id, before, after, happened_at }
    }
}
