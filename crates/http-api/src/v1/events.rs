//! `/v1/events`: what became of messages, and what people did with them.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Limit, Page};
use tidings_kernel::EmailAddress;
use tidings_signals::queries::{self, Filter, ListError, Of, Stored};
use utoipa::ToSchema;

use super::auth::{Needs, Read, Refusals};
use super::input::{self, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventBody {
    /// What tells it from others
    id: Option<String>,
    /// What happened
    #[schema(
        example = "delivery",
        pattern = "^(send|delivery|open|click|bounce|complaint|reject|reply|unsubscribe|delay|rendering_failure)$"
    )]
    r#type: String,
    #[schema(format = Email, example = "ada@example.org")]
    email: String,
    /// When it happened, not when we heard of it
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    /// The message: `t-` and the id of a transactional one, `c-` and that of a campaign's recipient
    #[schema(example = "t-101")]
    message: Option<String>,
    template_key: Option<String>,
    sequence_id: Option<String>,
    subject: Option<String>,
    provider_message_id: Option<String>,
    /// Where a click led
    url: Option<String>,
    user_agent: Option<String>,
    /// Whether a person or a machine did it, and why we think so
    #[schema(value_type = Option<Object>)]
    verdict: Option<serde_json::Value>,
    bounce: Option<BounceBody>,
    /// What kind of complaint
    feedback_type: Option<String>,
    /// Why it was rejected, delayed or not rendered
    reason: Option<String>,
    /// What a reply says
    body: Option<String>,
    /// A machine wrote the reply
    auto_reply: bool,
    /// Somebody else may have written the reply: the provider says that its sender is not proven (DMARC)
    unproven: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Bounce)]
pub(super) struct BounceBody {
    #[schema(example = "Permanent")]
    r#type: String,
    #[schema(example = "General")]
    subtype: Option<String>,
    /// What it says of the address: `hard` suppresses, `soft` does after five in a row, `content` and `unknown` do not
    #[schema(pattern = "^(hard|soft|content|unknown)$")]
    class: Option<String>,
    #[schema(example = "5.1.1")]
    status: Option<String>,
    diagnostic: Option<String>,
}

/// A place in a list of events.
pub(super) struct Place(tidings_kernel::Cursor);

impl input::Cursor for Place {
    const LIST: &'static str = "events";

    fn to_text(&self) -> String {
        self.0.as_str().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned().into()))
    }
}

pub(super) struct Asked {
    filter: Filter,
    after: Option<Place>,
    limit: Limit,
}

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let contact = fields.optional::<EmailAddress>("contact");
        let template = fields.optional::<Name>("template");
        let sequence = fields.optional::<Name>("sequence");
        let kind = fields.optional::<String>("type");
        let from = fields.optional_time("from");
        let to = fields.optional_time("to");
        let listing = Listing::<Place>::from_fields(fields);
        let of = match (contact?, template?, sequence?) {
            (Some(email), None, None) => Some(Of::Contact(email)),
            (None, Some(Name(key)), None) => Some(Of::Template(key)),
            (None, None, Some(Name(id))) => Some(Of::Sequence(id)),
            _ => fields.wrong("contact", "use exactly one of contact, template and sequence"),
        };
        let Listing { after, limit } = listing?;
        Some(Self { filter: Filter { of: of?, kind: kind?, from: from?, to: to? }, after, limit })
    }
}

/// The key of a template or the id of a sequence.
pub(super) struct Name(pub(super) String);

impl std::str::FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let usable =
            (1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if usable { Ok(Self(text.to_owned())) } else { Err("use a name of 1 to 255 characters") }
    }
}

/// List the events of a contact, a template or a sequence
///
/// The newest first. Give exactly one of `contact`, `template` and `sequence`; a campaign is asked for by its key as a
/// sequence. A page may be shorter than its limit, even empty: the list ends where `next_cursor` is null. Needs the
/// scope `read`.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "Events",
    security(("key" = [])),
    params(
        ("contact" = Option<String>, Query, description = "An e-mail address", max_length = 254),
        ("template" = Option<String>, Query, description = "The key of a template", max_length = 255),
        ("sequence" = Option<String>, Query, description = "The id of a sequence or the key of a campaign", max_length = 255),
        ("type" = Option<String>, Query, description = "Only events of this type",
            pattern = "^(send|delivery|open|click|bounce|complaint|reject|reply|unsubscribe|delay|rendering_failure)$"),
        ("from" = Option<String>, Query, description = "Not before this time", format = DateTime),
        ("to" = Option<String>, Query, description = "Not after this time", format = DateTime),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of events", body = ListBody<EventBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(asked): Params<Asked>,
) -> Result<Json<ListBody<EventBody>>, Problem> {
    let cx = v1.cx(&who);
    let after = asked.after.map(|Place(cursor)| cursor);
    let found = queries::list(&cx, &asked.filter, after, asked.limit).await?;
    Ok(ListBody::answer(Page { items: found.items, next: found.next.map(Place) }))
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        let field = match error {
            ListError::Backwards => "to",
            ListError::Cursor => "cursor",
            ListError::Kind => "type",
            ListError::Store(error) => return error.into(),
        };
        Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    }
}

impl From<Stored> for EventBody {
    fn from(event: Stored) -> Self {
        let bounce = event.bounce_type.map(|kind| BounceBody {
            r#type: kind,
            subtype: event.bounce_subtype,
            class: event.bounce_class,
            status: event.status,
            diagnostic: event.diagnostic,
        });
        Self {
            id: event.id,
            r#type: event.kind,
            email: event.email,
            occurred_at: event.occurred_at,
            message: event.message,
            template_key: event.template_key,
            sequence_id: event.sequence_id,
            subject: event.subject,
            provider_message_id: event.provider_message_id,
            url: event.url,
            user_agent: event.user_agent,
            verdict: event.verdict,
            bounce,
            feedback_type: event.feedback_type,
            reason: event.reason,
            body: event.body,
            auto_reply: event.auto_reply,
            unproven: event.unproven,
        }
    }
}
