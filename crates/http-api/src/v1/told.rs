//! `POST /v1/events`, and the calls of Segment's libraries: what callers tell of people.
//!
//! Not here: what became of messages (`events`), and what an event does (`tidings_sequences::events`).

use std::borrow::Cow;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_kernel::EmailAddress;
use tidings_sequences::events::{self, AcceptError, Accepted, Event, MAX_EVENTS, Wrong, segment};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::V1;
use super::auth::{Needs, Refusals, Send};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody, Violation};

/// What a batch has its calls in.
const LIST: &str = "batch";

type Told = (StatusCode, Json<ToldBody>);

/// One event, or several as `events`.
pub(super) enum NewEvents {
    One(NewEvent),
    Many(Vec<NewEvent>),
}

#[derive(ToSchema)]
pub(super) struct NewEvent {
    /// What happened: 1 to 100 letters, digits, spaces inside, and `. _ : - /`. `subscriber.subscribed` writes the
    /// contact down with `firstName`, `attributes` and `tags` of the data, `identify` with each field as an attribute.
    /// What begins with `email.`, `subscriber.unsubscribed` or `subscriber.suppressed` is told by Tidings itself
    #[schema(example = "user.signed_up", max_length = 100)]
    name: String,
    /// Makes it safe to tell again: within 60 days, each id counts once
    #[schema(max_length = 255)]
    message_id: Option<String>,
    /// To whom it happened. It may also be in the data, where the sequences find it
    #[schema(value_type = Option<String>, format = Email, example = "ada@example.org", max_length = 254)]
    email: Option<EmailAddress>,
    /// What your product calls the person: enough once an `identify` had it together with the address
    #[schema(max_length = 255)]
    user_id: Option<String>,
    /// When it happened, for your own use: it comes into the data as `timestamp`
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<Timestamp>,
    /// What is told of it: up to 32 KB, and 8 deep
    #[schema(value_type = Option<Object>)]
    data: Map<String, Value>,
}

/// A call of Segment's libraries.
#[derive(ToSchema)]
#[schema(as = SegmentCall)]
#[expect(dead_code, reason = "it describes what is read in `segment`, which leaves the rest alone")]
pub(super) struct CallBody {
    /// `track` or `identify`; needed in a batch only, where others are taken and ignored
    #[schema(example = "track")]
    r#type: Option<String>,
    /// What happened, of a `track`
    #[schema(example = "Order Completed", max_length = 100)]
    event: Option<String>,
    /// What your product calls the person. If it is an address, it is the person's
    #[schema(rename = "userId", max_length = 255)]
    user_id: Option<String>,
    /// The browser or device. What was told under it alone goes on the timeline of whoever is named together with it
    #[schema(rename = "anonymousId", max_length = 255)]
    anonymous_id: Option<String>,
    /// The data of a `track`. An `email` in it is the person's address
    #[schema(value_type = Option<Object>)]
    properties: Option<Map<String, Value>>,
    /// What is known of the person, of an `identify`: `email`, `firstName`, `timezone`, and what else becomes an attribute
    #[schema(value_type = Option<Object>)]
    traits: Option<Map<String, Value>>,
    /// An address in `traits.email` is the person's
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
    #[schema(value_type = Option<String>, format = DateTime)]
    timestamp: Option<Timestamp>,
    /// Within 60 days, each id counts once
    #[schema(rename = "messageId", max_length = 255)]
    message_id: Option<String>,
}

/// Several calls of Segment's libraries.
#[derive(ToSchema)]
#[schema(as = SegmentBatch)]
#[expect(dead_code, reason = "it describes what is read in `segment`, which leaves the rest alone")]
pub(super) struct BatchBody {
    #[schema(min_items = 1, max_items = 100)]
    batch: Vec<CallBody>,
}

/// Whatever the fields are.
pub(super) struct Call(Map<String, Value>);

#[derive(Serialize, ToSchema)]
#[schema(as = ToldEvents)]
pub(super) struct ToldBody {
    /// One for each that was told, in the same order
    data: Vec<ToldEventBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ToldEvent)]
pub(super) struct ToldEventBody {
    /// What logs call it; null for a call in a batch that means nothing here
    #[schema(example = "ca978112ca1bbdcafac231b39a23dc4d")]
    id: Option<String>,
    /// Yours, or one that was made
    message_id: Option<String>,
    /// It was told before, and nothing is done with it now
    replayed: bool,
}

/// Tell what happened to people
///
/// One event, or up to 100 as `events`. Sequences begin, go on and end with them, soon after the answer. If anything is
/// wrong with one of them, none is taken. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/events",
    tag = "Events",
    security(("key" = [])),
    request_body = NewEvents,
    responses(
        (status = 202, description = "They are written down", body = ToldBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn tell(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(new): Body<NewEvents>,
) -> Result<Told, Problem> {
    let (prefix, new) = match new {
        NewEvents::Many(events) => (Some("events"), events),
        NewEvents::One(event) => (None, vec![event]),
    };
    let events = new.into_iter().map(Event::from).collect();
    let accepted = events::accept(&v1.cx(&who), events).await;
    Ok(answer(accepted.map_err(|error| refusal(error, prefix))?.into_iter().map(Some)))
}

/// Tell what a user did, as Segment's libraries do
///
/// The address is that in `properties`, in `traits`, in `context.traits`, or the `userId` if it is one. Fields that mean
/// nothing here are left alone. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/track",
    tag = "Events",
    security(("key" = [])),
    request_body = CallBody,
    responses(
        (status = 202, description = "It is written down", body = ToldBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn track(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(Call(call)): Body<Call>,
) -> Result<Told, Problem> {
    one(&v1, &who, segment::track(&call)).await
}

/// Tell what is known of a user, as Segment's libraries do
///
/// The contact is written down: each trait is an attribute, and from then on the `userId` is enough to know who it is.
/// Traits that no attribute can be are left out. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/identify",
    tag = "Events",
    security(("key" = [])),
    request_body = CallBody,
    responses(
        (status = 202, description = "It is written down", body = ToldBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn identify(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(Call(call)): Body<Call>,
) -> Result<Told, Problem> {
    one(&v1, &who, segment::identify(&call)).await
}

/// Tell several things, as Segment's libraries do
///
/// Up to 100 calls, each with its `type`. `page`, `screen`, `group`, `alias` and `delete` mean nothing here, and are
/// ignored. If anything is wrong with one of them, none is taken. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/batch",
    tag = "Events",
    security(("key" = [])),
    request_body = BatchBody,
    responses(
        (status = 202, description = "They are written down", body = ToldBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn batch(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(Call(call)): Body<Call>,
) -> Result<Told, Problem> {
    let calls = segment::batch(&call).map_err(|wrong| match wrong.first() {
        // Of the list itself.
        Some(one) if one.field == LIST => violations(wrong, None),
        _ => violations(wrong, Some(LIST)),
    })?;
    let meant: Vec<bool> = calls.iter().map(Option::is_some).collect();
    let events: Vec<Event> = calls.into_iter().flatten().collect();
    let accepted = if events.is_empty() {
        Vec::new()
    } else {
        let accepted = events::accept(&v1.cx(&who), events).await;
        accepted.map_err(|error| refusal(error, Some(LIST)))?
    };
    let mut accepted = accepted.into_iter();
    Ok(answer(meant.into_iter().map(|meant| meant.then(|| accepted.next()).flatten())))
}

async fn one(v1: &V1, who: &Needs<Send>, read: Result<Event, Vec<Wrong>>) -> Result<Told, Problem> {
    let event = read.map_err(|wrong| violations(wrong, None))?;
    let accepted = events::accept(&v1.cx(who), vec![event]).await;
    Ok(answer(accepted.map_err(|error| refusal(error, None))?.into_iter().map(Some)))
}

fn answer(accepted: impl Iterator<Item = Option<Accepted>>) -> Told {
    let body = |accepted: Option<Accepted>| match accepted {
        Some(Accepted { id, message_id, replayed }) => {
            ToldEventBody { id: Some(id), message_id: Some(message_id), replayed }
        }
        None => ToldEventBody { id: None, message_id: None, replayed: false },
    };
    (StatusCode::ACCEPTED, Json(ToldBody { data: accepted.map(body).collect() }))
}

fn refusal(error: AcceptError, list: Option<&str>) -> Problem {
    match error {
        AcceptError::Invalid(wrong) => violations(wrong, list),
        error @ AcceptError::Count => Problem::invalid(vec![Violation {
            field: list.unwrap_or_default().to_owned(),
            message: error.to_string(),
        }]),
        AcceptError::Store(error) => error.into(),
    }
}

/// `list` is what they are in, if there are several.
fn violations(wrong: Vec<Wrong>, list: Option<&str>) -> Problem {
    let violation = |wrong: Wrong| {
        let field = match (list, wrong.field.is_empty()) {
            (None, _) => wrong.field,
            (Some(list), true) => format!("{list}[{}]", wrong.event),
            (Some(list), false) => format!("{list}[{}].{}", wrong.event, wrong.field),
        };
        Violation { field, message: wrong.message }
    };
    let mut violations: Vec<_> = wrong.into_iter().map(violation).collect();
    let more = violations.len().saturating_sub(MAX_EVENTS / 2);
    violations.truncate(MAX_EVENTS / 2);
    Problem::invalid_and_more(violations, more)
}

impl FromFields for NewEvents {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        if fields.has("events") {
            return fields.objects("events").map(Self::Many);
        }
        NewEvent::from_fields(fields).map(Self::One)
    }
}

/// One or the other: no derive describes that without a tag.
impl PartialSchema for NewEvents {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name(NewEvent::name());
        let several =
            ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(MAX_EVENTS));
        let several = ObjectBuilder::new().property("events", several).required("events");
        OneOfBuilder::new().item(one()).item(several).into()
    }
}

impl ToSchema for NewEvents {
    fn name() -> Cow<'static, str> {
        "NewEvents".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((NewEvent::name().into_owned(), NewEvent::schema()));
        NewEvent::schemas(schemas);
    }
}

impl FromFields for NewEvent {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let name = fields.required::<Name>("name");
        let (message_id, user_id) = (fields.optional("message_id"), fields.optional("user_id"));
        let email = fields.optional("email");
        let occurred_at = fields.optional_time("occurred_at");
        let data = fields.optional_object("data");
        Some(Self {
            name: name?.0,
            message_id: message_id?,
            email: email?,
            user_id: user_id?,
            occurred_at: occurred_at?,
            data: data?.unwrap_or_default(),
        })
    }
}

impl FromFields for Call {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self(fields.everything()))
    }
}

/// What an event that callers tell may be called.
struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        events::check_told_name(text).map(|()| Self(text.to_owned()))
    }
}

impl From<NewEvent> for Event {
    fn from(new: NewEvent) -> Self {
        let NewEvent { name, message_id, email, user_id, occurred_at, data } = new;
        Self { message_id, name, email, user_id, anonymous_id: None, occurred_at, data }
    }
}
