//! `/v1/lead-events`: what people did anywhere, on its way to their timelines, and one of it by its source's own id.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_leads::identity;
use tidings_leads::ingestion::{self, AcceptError, Accepted, MAX_EVENTS, MAX_IDENTITIES, NewEvent};
use tidings_leads::timeline;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::auth::{Needs, Read, Refusals, Send};
use super::contacts::timeline::LeadEventBody;
use super::input::{Body, Fields, FromFields, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

/// One event, or several as `events`.
pub(super) enum NewLeadEvents {
    One(Box<NewLeadEvent>),
    Many(Vec<NewLeadEvent>),
}

#[derive(ToSchema)]
pub(super) struct NewLeadEvent {
    /// What happened
    #[schema(example = "purchase_completed", max_length = 200)]
    event_type: String,
    /// By what the source knows the person, the best first. Identities of two people make them one, or flag them
    #[schema(min_items = 1, max_items = 20)]
    #[schema(value_type = Vec<LeadIdentity>)]
    identities: Vec<IdentityInput>,
    /// Which system it comes from
    #[schema(example = "shop", max_length = 200, default = "api")]
    source: Option<String>,
    /// What sort of system that is
    #[schema(example = "webhook", max_length = 200, default = "api")]
    source_type: Option<String>,
    /// The source's own id of it: sent again, it is stored once. Without one it is a new event each time
    #[schema(max_length = 512)]
    external_event_id: Option<String>,
    /// When it happened; now, if it is not said. Late events find their place
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<Timestamp>,
    /// What it is about, as you name it
    #[schema(max_length = 512)]
    object_id: Option<String>,
    /// What it is about, as the source names it
    #[schema(max_length = 512)]
    object_id_ref: Option<String>,
    /// The event's own data, up to 64 kB
    #[schema(value_type = Option<Object>)]
    payload: Option<Map<String, Value>>,
    /// What the source sent, before it was read, up to 64 kB
    #[schema(max_length = 65536)]
    raw_payload: Option<String>,
}

/// One address of a person, as it is read.
pub(super) struct IdentityInput(identity::Identity);

/// One address of a person.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `IdentityInput` reads")]
pub(super) struct LeadIdentity {
    /// `email`, `phone`, `whatsapp`, `user_id`, `customer_id`, `anonymous_id` or `custom:<name>`
    #[schema(example = "email", max_length = 71)]
    channel: String,
    #[schema(example = "ada@example.org", max_length = 512)]
    value: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TakenLeadEvents)]
pub(super) struct TakenBody {
    /// One for each that was sent, in the same order
    data: Vec<TakenEventBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TakenLeadEvent)]
pub(super) struct TakenEventBody {
    /// Its id on the timeline, the same for the same `source` and `external_event_id`
    event_id: String,
    /// Yours, or one that was made
    external_event_id: String,
}

/// Tell what people did
///
/// One event, or up to 500 as `events`, each about whoever has its identities: found, or made. It is on the timeline soon
/// after the answer. If anything is wrong with one of them, none is taken. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/lead-events",
    tag = "Leads",
    security(("key" = [])),
    request_body = NewLeadEvents,
    responses(
        (status = 202, description = "They are written down", body = TakenBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn tell(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(new): Body<NewLeadEvents>,
) -> Result<(StatusCode, Json<TakenBody>), Problem> {
    let cx = v1.cx(&who);
    let (is_list, new) = match new {
        NewLeadEvents::Many(events) => (true, events),
        NewLeadEvents::One(event) => (false, vec![*event]),
    };
    let events = new.into_iter().map(|event| NewEvent::from(event).told(&cx)).collect();
    let accepted = ingestion::accept(&cx, events).await;
    let accepted = accepted.map_err(|error| refusal(error, is_list))?;
    let data = accepted.into_iter().map(TakenEventBody::from).collect();
    Ok((StatusCode::ACCEPTED, Json(TakenBody { data })))
}

pub(super) struct ToldAs {
    source: String,
    external_event_id: String,
}

/// Find an event by its source's id
///
/// A list of one, or of none. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/lead-events",
    tag = "Leads",
    security(("key" = [])),
    params(("source" = String, Query), ("external_event_id" = String, Query)),
    responses(
        (status = 200, description = "What was found", body = ListBody<LeadEventBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn find(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(ToldAs { source, external_event_id }): Params<ToldAs>,
) -> Result<Json<ListBody<LeadEventBody>>, Problem> {
    let found = timeline::told_as(&v1.cx(&who), &source, &external_event_id).await?;
    let data = found.into_iter().map(|(owner, event)| (owner.lead_id, event).into());
    Ok(Json(ListBody { data: data.collect(), next_cursor: None }))
}

fn refusal(error: AcceptError, is_list: bool) -> Problem {
    match error {
        AcceptError::Invalid(faults) => {
            let violations = faults.into_iter().map(|(place, fault)| {
                let field = match (is_list, fault.field.is_empty()) {
                    (false, _) => fault.field,
                    (true, true) => format!("events[{place}]"),
                    (true, false) => format!("events[{place}].{}", fault.field),
                };
                Violation { field, message: fault.message }
            });
            Problem::invalid(violations.collect())
        }
        error @ AcceptError::Count => Problem::invalid(vec![Violation {
            field: "events".to_owned(),
            message: error.to_string(),
        }]),
        AcceptError::Store(error) => error.into(),
    }
}

impl From<NewLeadEvent> for NewEvent {
    fn from(new: NewLeadEvent) -> Self {
        Self {
            event_type: new.event_type,
            identities: new
                .identities
                .into_iter()
                .map(|IdentityInput(identity)| identity)
                .collect(),
            source: new.source,
            source_type: new.source_type,
            external_event_id: new.external_event_id,
            occurred_at: new.occurred_at,
            object_id: new.object_id,
            object_id_ref: new.object_id_ref,
            payload: new.payload,
            raw_payload: new.raw_payload,
        }
    }
}

impl FromFields for NewLeadEvents {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        if fields.has("events") {
            return fields.objects_up_to("events", MAX_EVENTS).map(Self::Many);
        }
        NewLeadEvent::from_fields(fields).map(Box::new).map(Self::One)
    }
}

impl FromFields for NewLeadEvent {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let event_type = fields.required("event_type");
        let identities = fields.objects_up_to("identities", MAX_IDENTITIES);
        let source = fields.optional("source");
        let source_type = fields.optional("source_type");
        let external_event_id = fields.optional("external_event_id");
        let occurred_at = fields.optional_time("occurred_at");
        let object_id = fields.optional("object_id");
        let object_id_ref = fields.optional("object_id_ref");
        let payload = fields.optional_object("payload");
        let raw_payload = fields.optional("raw_payload");
        Some(Self {
            event_type: event_type?,
            identities: identities?,
            source: source?,
            source_type: source_type?,
            external_event_id: external_event_id?,
            occurred_at: occurred_at?,
            object_id: object_id?,
            object_id_ref: object_id_ref?,
            payload: payload?,
            raw_payload: raw_payload?,
        })
    }
}

impl FromFields for ToldAs {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (source, id) = (fields.required("source"), fields.required("external_event_id"));
        Some(Self { source: source?, external_event_id: id? })
    }
}

impl FromFields for IdentityInput {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let channel = fields.required::<String>("channel");
        let value = fields.required::<String>("value");
        let (channel, value) = (channel?, value?);
        match identity::Identity::new(&channel, &value) {
            Ok(identity) => Some(Self(identity)),
            Err(error @ identity::IdentityError::Channel) => fields.wrong("channel", error),
            Err(error) => fields.wrong("value", error),
        }
    }
}

impl From<Accepted> for TakenEventBody {
    fn from(accepted: Accepted) -> Self {
        let Accepted { event_id, external_event_id } = accepted;
        Self { event_id, external_event_id }
    }
}

/// Either form of the body.
impl PartialSchema for NewLeadEvents {
    fn schema() -> RefOr<Schema> {
        let one = Ref::from_schema_name("NewLeadEvent");
        let list =
            ArrayBuilder::new().items(one.clone()).min_items(Some(1)).max_items(Some(MAX_EVENTS));
        let many = ObjectBuilder::new().property("events", list).required("events");
        OneOfBuilder::new().item(one).item(many).into()
    }
}

impl ToSchema for NewLeadEvents {
    fn name() -> Cow<'static, str> {
        "NewLeadEvents".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((NewLeadEvent::name().into_owned(), NewLeadEvent::schema()));
        NewLeadEvent::schemas(schemas);
    }
}
