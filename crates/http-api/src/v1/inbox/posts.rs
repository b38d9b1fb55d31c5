//! `/v1/inboxes/{inbox}/messages`: what is published to users or to everyone.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_inbox::ids::MessageId;
use tidings_inbox::publish::{self, NewPost, PublishError, Published, RedactError, To};
use tidings_inbox::records::{Audience, Post, State as Stage};
use tidings_inbox::{keys, publish::MAX_USERS};
use utoipa::ToSchema;

use super::{acting, after, invalid, key, number};
use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{InboxAdmin, Needs, Refusals};
use crate::v1::input::{Body, Cursor, Fields, FromFields, Listing, cursor_text};
use crate::v1::{ListBody, V1};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[derive(ToSchema)]
#[schema(as = NewInboxMessage)]
#[expect(dead_code, reason = "it describes what `Draft` reads")]
pub(in crate::v1) struct NewMessage {
    to: Recipients,
    /// What kind of message it is; an inbox has at most 50 kinds
    #[schema(example = "orders", pattern = "^[A-Za-z0-9._-]{1,64}$")]
    category: Option<String>,
    #[schema(example = "Your order is on its way", min_length = 1, max_length = 200)]
    title: String,
    /// Any JSON, up to 64 KB: the app shows it
    body: Option<Value>,
    /// Where the message leads
    #[schema(example = "/orders/7", max_length = 2048)]
    cta_uri: Option<String>,
    /// Makes it safe to ask again: the same request with the same id is one message
    #[schema(max_length = 200)]
    host_system_id: Option<String>,
    /// Not before then
    #[schema(value_type = Option<String>, format = DateTime)]
    send_at: Option<Timestamp>,
    /// How long it lives, in place of what the settings say: days, minutes or seconds, at most 730 days
    #[schema(example = "30d", pattern = "^[0-9]+[dms]$")]
    expires_in: Option<String>,
}

/// Whom it is for: `everyone`, or `users`.
#[derive(ToSchema)]
#[schema(as = InboxRecipients)]
#[expect(dead_code, reason = "it describes what `Draft` reads")]
pub(in crate::v1) struct Recipients {
    everyone: Option<bool>,
    /// The ids of users, in the words of your app; more than 1,000 get it by and by
    #[schema(max_items = 100_000, example = json!(["ada"]))]
    users: Option<Vec<String>>,
    /// What readers may be told of whom it went to
    #[schema(max_length = 100)]
    label: Option<String>,
}

/// A post, before anybody has looked at more than its form.
pub(in crate::v1) struct Draft(NewPost);

#[derive(Serialize, ToSchema)]
#[schema(as = PublishedInboxMessage)]
pub(in crate::v1) struct PublishedBody {
    #[schema(example = "0GV8YLWQ3K9D0F2XZ", pattern = "^[0-9A-Z]{17}$")]
    id: String,
    /// How many users it is for; 0 if it is for everyone
    recipients: i64,
    /// scheduled, delivering, done, redacting, redacted or cancelled
    #[schema(example = "done")]
    state: &'static str,
    /// Whether the same request came before
    replayed: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = InboxPost)]
pub(in crate::v1) struct PostBody {
    #[schema(example = "0GV8YLWQ3K9D0F2XZ", pattern = "^[0-9A-Z]{17}$")]
    id: String,
    /// scheduled, delivering, done, redacting, redacted or cancelled
    #[schema(example = "done")]
    state: &'static str,
    /// users or everyone
    #[schema(example = "users")]
    audience: &'static str,
    label: Option<String>,
    category: Option<String>,
    host_system_id: Option<String>,
    /// Who sent it: `X-Admin-Id`, or the client
    sender: String,
    /// How many users it is for; 0 if it is for everyone
    recipients: i64,
    /// How many of them have it
    delivered: i64,
    /// From how many of them it was taken away again
    redacted: i64,
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    send_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Publish to an inbox
///
/// To some users or to everyone, now or later. Up to 1,000 users have it with the answer, more get it by and by. The same
/// request with the same `host_system_id` publishes nothing and is answered as the first one. Needs the scope `inbox:admin`.
#[utoipa::path(
    post,
    path = "/v1/inboxes/{inbox}/messages",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox: 1 to 128 characters without #"),
        ("X-Admin-Id" = Option<String>, Header, description = "Who sends it; without it, the client", max_length = 128)
    ),
    request_body = NewMessage,
    responses(
        (status = 201, description = "All have it", body = PublishedBody),
        (status = 202, description = "It is written down, and they get it soon or at its time", body = PublishedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The inbox has as many messages to everyone as it takes", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or another request had this `host_system_id`", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn publish(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path(inbox): Path<String>,
    headers: HeaderMap,
    Body(Draft(post)): Body<Draft>,
) -> Result<Response, Problem> {
    let inbox = key(&inbox)?;
    let acting = acting(&v1, &who, &headers)?;
    let post = NewPost { sender: acting.name, ..post };
    let published = v1.services.inbox.publish(&acting.cx, &inbox, post).await?;
    Ok(answer(&published))
}

pub(in crate::v1) fn answer(published: &Published) -> Response {
    let status = match published.state {
        Stage::Scheduled | Stage::Delivering => StatusCode::ACCEPTED,
        Stage::Done | Stage::Redacting | Stage::Redacted | Stage::Cancelled => StatusCode::CREATED,
    };
    let body = PublishedBody {
        id: published.id.to_string(),
        recipients: published.recipients,
        state: published.state.as_str(),
        replayed: published.replayed,
    };
    let mut response = (status, Json(body)).into_response();
    if published.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// List what was published to an inbox
///
/// Newest first. Needs the scope `inbox:admin`.
#[utoipa::path(
    get,
    path = "/v1/inboxes/{inbox}/messages",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of posts", body = ListBody<PostBody>),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path(inbox): Path<String>,
    listing: Listing<MessageId>,
) -> Result<Json<ListBody<PostBody>>, Problem> {
    let (inbox, cx) = (key(&inbox)?, v1.cx(&who));
    let place = listing.after.map(|id| keys::post(cx.workspace(), &inbox, &id));
    let page = publish::posts(&cx, &inbox, number(listing.limit), after(place.as_ref())).await?;
    let last = page.posts.last().map(|post| post.id.clone());
    let next_cursor = page.next.and(last).as_ref().map(cursor_text);
    Ok(Json(ListBody { data: page.posts.into_iter().map(PostBody::from).collect(), next_cursor }))
}

/// Show what was published
///
/// How far it is. Needs the scope `inbox:admin`.
#[utoipa::path(
    get,
    path = "/v1/inboxes/{inbox}/messages/{message_id}",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("message_id" = String, Path, description = "The id of the message")
    ),
    responses(
        (status = 200, description = "The post", body = PostBody),
        (status = 404, description = "There is no such message, or it was long ago", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path((inbox, id)): Path<(String, String)>,
) -> Result<Json<PostBody>, Problem> {
    let (inbox, id) = (key(&inbox)?, id.parse().map_err(|_| missing(&id))?);
    let found = publish::post(&v1.cx(&who), &inbox, &id).await?;
    Ok(Json(found.ok_or_else(|| missing(id.as_str()))?.into()))
}

/// Take a message away
///
/// From all who have it and from all who would get it; counts are as if it had never been there. One whose time has not come is
/// cancelled. Doing it again changes nothing. Needs the scope `inbox:admin`.
#[utoipa::path(
    delete,
    path = "/v1/inboxes/{inbox}/messages/{message_id}",
    tag = "Inboxes",
    security(("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("message_id" = String, Path, description = "The id of the message"),
        ("X-Admin-Id" = Option<String>, Header, description = "Who does it; without it, the client", max_length = 128)
    ),
    responses(
        (status = 200, description = "Nobody has it any more", body = PostBody),
        (status = 202, description = "It is taken away by and by", body = PostBody),
        (status = 404, description = "There is no such message, or it was long ago", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The header is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn redact(
    State(v1): State<V1>,
    who: Needs<InboxAdmin>,
    Path((inbox, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (inbox, id) = (key(&inbox)?, id.parse().map_err(|_| missing(&id))?);
    let acting = acting(&v1, &who, &headers)?;
    let post = v1.services.inbox.redact(&acting.cx, &inbox, &id).await?;
    let status = match post.state {
        Stage::Redacting => StatusCode::ACCEPTED,
        Stage::Scheduled | Stage::Delivering | Stage::Done | Stage::Redacted | Stage::Cancelled => {
            StatusCode::OK
        }
    };
    Ok((status, Json(PostBody::from(post))).into_response())
}

fn missing(id: &str) -> Problem {
    let id: String = id.chars().take(40).collect();
    Problem::not_found(format!("there is no message {id} in this inbox"))
}

impl FromFields for Draft {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let to = recipients(fields);
        let category = fields.optional::<String>("category");
        let title = fields.required::<String>("title");
        let body = fields.value("body").unwrap_or(Value::Null);
        let cta_uri = fields.optional::<String>("cta_uri");
        let host_system_id = fields.optional::<String>("host_system_id");
        let send_at = fields.optional_time("send_at");
        let expires_in = fields.optional::<String>("expires_in");
        let (to, label) = to?;
        Some(Self(NewPost {
            to,
            label,
            category: category?,
            title: title?,
            body,
            cta_uri: cta_uri?,
            host_system_id: host_system_id?,
            send_at: send_at?,
            expires_in: expires_in?,
            sender: String::new(),
        }))
    }
}

fn recipients(fields: &mut Fields) -> Option<(To, Option<String>)> {
    const FORM: &str = r#"use {"everyone": true} or {"users": ["…"]}"#;
    let mut to: Map<String, Value> = match fields.value("to") {
        None => return fields.wrong("to", "this is required"),
        Some(Value::Object(to)) => to,
        Some(_) => return fields.wrong("to", FORM),
    };
    to.retain(|_, value| !value.is_null());
    let label = match to.remove("label") {
        None => Some(None),
        Some(Value::String(label)) => Some(Some(label)),
        Some(_) => fields.wrong("to.label", "use a text"),
    };
    let everyone = match to.remove("everyone") {
        None => Some(false),
        Some(Value::Bool(everyone)) => Some(everyone),
        Some(_) => fields.wrong("to.everyone", "use true or false"),
    };
    let users = match to.remove("users") {
        None => Some(None),
        Some(Value::Array(users)) => users_of(users, fields).map(Some),
        Some(_) => fields.wrong("to.users", "use a list of texts"),
    };
    for name in to.keys() {
        let told = "there is no such field; there are everyone, users, label";
        fields.wrong::<()>(&format!("to.{name}"), told);
    }
    match (everyone?, users?) {
        (true, None) => Some((To::Everyone, label?)),
        (false, Some(users)) => Some((To::Users(users), label?)),
        (true, Some(_)) => fields.wrong("to", "use everyone or users, and not both"),
        (false, None) => fields.wrong("to", FORM),
    }
}

fn users_of(values: Vec<Value>, fields: &mut Fields) -> Option<Vec<String>> {
    if values.len() > MAX_USERS {
        return fields.wrong("to.users", format_args!("use at most {MAX_USERS} users"));
    }
    let mut users = Vec::with_capacity(values.len());
    let mut good = true;
    for (place, value) in values.into_iter().enumerate() {
        match value {
            Value::String(user) => users.push(user),
            _ => {
                good = false;
                fields.wrong::<()>(&format!("to.users[{place}]"), "use a text");
            }
        }
    }
    good.then_some(users)
}

impl From<Post> for PostBody {
    fn from(post: Post) -> Self {
        Self {
            id: post.id.to_string(),
            state: post.state.as_str(),
            audience: match post.audience {
                Audience::Everyone => "everyone",
                Audience::Users => "users",
            },
            label: post.label,
            category: post.category.map(String::from),
            host_system_id: post.host_system_id,
            sender: post.sender,
            recipients: post.recipients,
            delivered: post.delivered,
            redacted: post.redacted,
            accepted_at: post.accepted_at,
            send_at: post.send_at,
            expires_at: post.expires,
        }
    }
}

impl Cursor for MessageId {
    const LIST: &'static str = "inbox-messages";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl From<PublishError> for Problem {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Invalid(wrongs) => invalid(wrongs),
            PublishError::OtherRequest(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "host_system_id_reused", error)
            }
            PublishError::Full => Self::new(StatusCode::CONFLICT, "inbox_full", error),
            PublishError::Busy => Self::unavailable(error),
            PublishError::Store(error) => error.into(),
        }
    }
}

impl From<RedactError> for Problem {
    fn from(error: RedactError) -> Self {
        match error {
            RedactError::Missing(_) => Self::not_found(error),
            RedactError::Busy => Self::unavailable(error),
            RedactError::Store(error) => error.into(),
        }
    }
}
