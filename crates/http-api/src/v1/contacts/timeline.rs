//! `/v1/contacts/{email}/timeline`: what happened to a person, in any channel.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_leads::event::StoredEvent;
use tidings_leads::timeline::{self, Listing, MAX_LIMIT, MAX_TYPES};
use tidings_people::contacts::ContactId;
use utoipa::ToSchema;

use super::super::auth::{Needs, Read, Refusals};
use super::super::input::{self, Fields, FromFields, Params};
use super::super::{ListBody, V1};
use super::{identity, nobody};
use crate::problem::{Problem, ProblemBody};

/// So many events come without a word.
const DEFAULT_LIMIT: usize = 50;

#[derive(Serialize, ToSchema)]
#[schema(as = LeadEvent)]
pub(in crate::v1) struct LeadEventBody {
    id: String,
    /// Whose it is now
    contact_id: i64,
    #[schema(example = "email.opened")]
    event_type: String,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    received_at: Timestamp,
    /// In words
    #[schema(example = "opened  “Welcome”")]
    story: String,
    /// `tidings` for what happened here
    source_type: String,
    source: String,
    external_event_id: String,
    object_id: Option<String>,
    object_id_ref: Option<String>,
    #[schema(value_type = Object)]
    payload: Map<String, Value>,
}

/// A place in a timeline.
struct Place(timeline::Cursor);

impl input::Cursor for Place {
    const LIST: &'static str = "timeline";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

pub(in crate::v1) struct Asked(Listing);

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (before, after) = (fields.optional_time("before"), fields.optional_time("after"));
        let types = match fields.optional::<String>("type")? {
            None => Some(Vec::new()),
            Some(types) => {
                let types: Vec<String> =
                    types.split(',').map(|one| one.trim().to_owned()).collect();
                let fits = |one: &String| (1..=200).contains(&one.chars().count());
                if types.len() <= MAX_TYPES && types.iter().all(fits) {
                    Some(types)
                } else {
                    fields.wrong(
                        "type",
                        format_args!("use 1 to {MAX_TYPES} types with commas between"),
                    )
                }
            }
        };
        let limit = match fields.optional::<usize>("limit")? {
            None => Some(DEFAULT_LIMIT),
            Some(limit) if (1..=MAX_LIMIT).contains(&limit) => Some(limit),
            Some(_) => fields.wrong("limit", format_args!("use 1 to {MAX_LIMIT}")),
        };
        let cursor = match fields.optional::<String>("cursor")? {
            None => Some(None),
            Some(text) => match input::read_cursor::<Place>(&text) {
                Some(Place(cursor)) => Some(Some(cursor)),
                None => fields.wrong("cursor", "use a next_cursor of the same list"),
            },
        };
        Some(Self(Listing {
            before: before?,
            after: after?,
            types: types?,
            limit: limit?,
            cursor: cursor?,
        }))
    }
}

/// Show what happened to a person
///
/// The newest first, over all identities and all contacts who were merged into this one. Also for a contact's id.
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/timeline",
    tag = "Leads",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600),
        ("before" = Option<String>, Query, description = "Only what happened before this", format = DateTime),
        ("after" = Option<String>, Query, description = "Only what happened then or later", format = DateTime),
        ("type" = Option<String>, Query, description = "Up to 10 types, with commas between"),
        ("limit" = Option<i64>, Query, description = "1 to 200, default 50", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of events", body = ListBody<LeadEventBody>),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(contact): Path<String>,
    Params(Asked(listing)): Params<Asked>,
) -> Result<Json<ListBody<LeadEventBody>>, Problem> {
    let whom = identity::meant(&contact)?;
    let page = timeline::timeline(&v1.cx(&who), whom, &listing).await?.ok_or_else(nobody)?;
    let (contact, next) = (page.owner.lead_id, page.next.map(Place));
    let items = page.events.into_iter().map(|event| (contact, event)).collect();
    Ok(ListBody::answer(tidings_access::Page { items, next }))
}

impl From<(ContactId, StoredEvent)> for LeadEventBody {
    fn from((contact, event): (ContactId, StoredEvent)) -> Self {
        Self {
            story: timeline::sentence(&event),
            id: event.id,
            contact_id: contact.get(),
            event_type: event.event_type,
            occurred_at: event.occurred_at,
            received_at: event.received_at,
            source_type: event.source_type,
            source: event.source,
            external_event_id: event.external_event_id,
            object_id: event.object_id,
            object_id_ref: event.object_id_ref,
            payload: event.payload,
        }
    }
}
