//! `/inbox/v1/{inbox}/messages` and `/counts`: what is in an inbox.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use tidings_inbox::keys::Category;
use tidings_inbox::read::{self, Cursor, Listing};
use utoipa::ToSchema;

use super::{Answer, CountsBody, MessageBody, Visit};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::Refusals;
use crate::v1::input::{Fields, FromFields, Params};

/// How many messages a page has if nobody says so.
const LIMIT: usize = 30;

/// A page of messages, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxPage)]
pub(in crate::v1) struct PageBody {
    #[schema(max_items = 100)]
    messages: Vec<MessageBody>,
    /// Where the next page begins, or null on the last. A page may be shorter than `limit` and not be the last
    next_cursor: Option<String>,
    counts: CountsBody,
}

/// Which messages are wanted: the query.
pub(in crate::v1) struct Which(Listing);

/// List the messages of an inbox
///
/// Those of the user and those for everyone, newest first, without archived ones. With an API key and the header
/// `X-User-Id` it is that user's inbox. Needs the scope `inbox:user`.
#[utoipa::path(
    get,
    path = "/inbox/v1/{inbox}/messages",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the answer before"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 30", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
        ("category" = Option<String>, Query, description = "Only messages of this category", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("unread" = Option<bool>, Query, description = "Only unread ones"),
        ("archived" = Option<bool>, Query, description = "Those that were archived, instead of those that were not")
    ),
    responses(
        (status = 200, description = "A page of messages, with how many there are", body = PageBody),
        (status = 304, description = "The answer is the one with this `ETag`"),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    visit: Visit,
    headers: HeaderMap,
    Params(Which(listing)): Params<Which>,
) -> Result<Response, Problem> {
    let (cx, reader) = (&visit.cx, visit.reader.clone());
    let open = read::open(cx, &v1.services.inbox, reader).await?;
    let (name, rev) = (visit.name_of(&format!("{listing:?}")), open.rev());
    if let Some(kept) = v1.pages.get(&name, &rev, cx.now()) {
        return Ok(kept.unless_known(&headers));
    }
    let page = open.list(cx, listing).await?;
    let first_expires = page.messages.iter().map(|shown| shown.message.expires).min();
    let answer = Answer::new(&PageBody {
        messages: page.messages.into_iter().map(MessageBody::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
        counts: CountsBody::new(page.counts, visit.user(&v1)),
    });
    v1.pages.keep(&name, rev, (cx.now(), first_expires), answer.clone());
    Ok(answer.unless_known(&headers))
}

/// Show a message of an inbox
///
/// Needs the scope `inbox:user`.
#[utoipa::path(
    get,
    path = "/inbox/v1/{inbox}/messages/{message_id}",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("message_id" = String, Path, description = "The id of the message"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    responses(
        (status = 200, description = "The message", body = MessageBody),
        (status = 304, description = "The answer is the one with this `ETag`"),
        (status = 422, description = "`X-User-Id` is missing or wrong", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "The user has no such message, or not any more", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    visit: Visit,
    headers: HeaderMap,
    Path((_inbox, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("there is no such message in this inbox");
    let id = id.parse().map_err(|_| missing())?;
    let found = read::message(&visit.cx, &v1.services.inbox, &visit.reader, &id).await?;
    Ok(Answer::new(&MessageBody::from(found.ok_or_else(missing)?)).unless_known(&headers))
}

/// Count the messages of an inbox
///
/// All and unread ones, by category too. Needs the scope `inbox:user`.
#[utoipa::path(
    get,
    path = "/inbox/v1/{inbox}/counts",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the answer before")
    ),
    responses(
        (status = 200, description = "How many there are", body = CountsBody),
        (status = 304, description = "The answer is the one with this `ETag`"),
        (status = 422, description = "`X-User-Id` is missing or wrong", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn counts(
    State(v1): State<V1>,
    visit: Visit,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (cx, reader) = (&visit.cx, visit.reader.clone());
    let open = read::open(cx, &v1.services.inbox, reader).await?;
    let (name, rev) = (visit.name_of("counts"), open.rev());
    if let Some(kept) = v1.pages.get(&name, &rev, cx.now()) {
        return Ok(kept.unless_known(&headers));
    }
    let answer = Answer::new(&CountsBody::new(open.counts(), visit.user(&v1)));
    v1.pages.keep(&name, rev, (cx.now(), None), answer.clone());
    Ok(answer.unless_known(&headers))
}

impl Visit {
    /// What an answer is kept under: whose inbox it is of, and what was asked for. No name of a user or an inbox has a `#`.
    fn name_of(&self, asked: &str) -> String {
        let (workspace, reader) = (self.cx.workspace_id().get(), &self.reader);
        format!("{workspace}#{}#{}#{asked}", reader.inbox, reader.uid)
    }
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let limit = match fields.optional::<String>("limit")?.map(|text| text.parse::<usize>()) {
            None => Some(LIMIT),
            Some(Ok(limit @ 1..=read::MAX_LIMIT)) => Some(limit),
            Some(_) => fields.wrong("limit", "use a number from 1 to 100"),
        };
        let cursor = fields.optional::<Cursor>("cursor");
        let category = fields.optional::<Category>("category");
        let unread = flag(fields, "unread");
        let archived = flag(fields, "archived");
        Some(Self(Listing {
            limit: limit?,
            cursor: cursor?,
            category: category?,
            unread_only: unread?,
            archived: archived?,
        }))
    }
}

/// A yes or no of a query, where everything is a text.
fn flag(fields: &mut Fields, name: &'static str) -> Option<bool> {
    match fields.optional::<String>(name)?.as_deref() {
        None | Some("false") => Some(false),
        Some("true") => Some(true),
        Some(_) => fields.wrong(name, "use true or false"),
    }
}
