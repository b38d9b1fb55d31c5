//! `/inbox/v1`: an inbox as its user has it. A device comes with a token of its user, a back end with a key and the
//! user's id; web pages of the origins that the workspace allows may ask from a browser.
//!
//! Here: who is let in (`admit`, `cors`), and how messages and counts look. Times are milliseconds since 1970, as programs
//! on devices have them.

mod admit;
mod cors;
mod kept;
mod marks;
mod messages;
mod refresh;
mod stream;

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::options;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_inbox::read::{Counts, Shown};
use tidings_inbox::tokens::TokenError;
use tidings_inbox::{LookError, marks::MarkError};
use tidings_kernel::hex;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(in crate::v1) use admit::{Admitted, admit};
pub(in crate::v1) use kept::Pages;

use crate::problem::{Problem, Violation};
use crate::v1::V1;
use crate::{Limits, around};
use admit::Visit;
use kept::Answer;

/// How many streams are open.
pub const STREAMS_METRIC: &str = "tidings_inbox_streams";

/// What needs a token, or a key and the id of a user.
pub(in crate::v1) fn described() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(messages::list))
        .routes(routes!(messages::show))
        .routes(routes!(messages::counts))
        .routes(routes!(marks::read))
        .routes(routes!(marks::unread))
        .routes(routes!(marks::seen))
        .routes(routes!(marks::archive))
        .routes(routes!(marks::unarchive))
        .routes(routes!(marks::read_all))
        .routes(routes!(stream::open))
}

/// What has its proof in the body.
pub(in crate::v1) fn described_without_token() -> OpenApiRouter<V1> {
    OpenApiRouter::new().routes(routes!(refresh::refresh))
}

/// What everybody may ask from a page has `cors` outside of all else: who was refused by what is around every route is told so too.
pub(in crate::v1) fn router(state: &V1, limits: Limits) -> Router<V1> {
    let (with_token, description) = described().split_for_parts();
    let (without, other) = described_without_token().split_for_parts();
    let with_token = with_token.route_layer(from_fn_with_state(state.clone(), admit::admit));
    let paths = description.paths.paths.keys().chain(other.paths.paths.keys());
    let routes = paths.fold(with_token.merge(without), |routes, path| {
        routes.route(path, options(cors::asks_first))
    });
    around(routes, limits).layer(from_fn(cors::answer))
}

/// A message as its reader has it.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxMessage)]
pub(in crate::v1) struct MessageBody {
    #[schema(example = "0GV8YLWQ3K9D0F2XZ", pattern = "^[0-9A-Z]{17}$")]
    id: String,
    title: String,
    /// Whatever the sender gave
    body: Value,
    /// Where it leads
    cta_uri: Option<String>,
    category: Option<String>,
    /// What readers are told of whom it went to
    label: Option<String>,
    sender: String,
    /// When it came, in milliseconds since 1970
    received: i64,
    read_at: Option<i64>,
    seen_at: Option<i64>,
    archived_at: Option<i64>,
    /// From when it is gone
    expires_at: i64,
    /// Whether it is for everyone
    public: bool,
    unread: bool,
}

/// How many messages there are.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxCounts)]
pub(in crate::v1) struct CountsBody {
    /// Read or not, archived or not, as long as they have not expired
    total: i64,
    unread: i64,
    categories: BTreeMap<String, CountBody>,
    /// A word that is the same for the same user; it means nothing else
    user: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = InboxCount)]
pub(in crate::v1) struct CountBody {
    total: i64,
    unread: i64,
}

impl From<Shown> for MessageBody {
    fn from(shown: Shown) -> Self {
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millisecond);
        let message = shown.message;
        let (title, body, cta_uri) = match message.content {
            Some(content) => (content.title, content.body, content.cta_uri),
            None => Default::default(),
        };
        Self {
            id: message.id.to_string(),
            title,
            body,
            cta_uri,
            category: message.category.map(String::from),
            label: message.label,
            sender: message.sender,
            received: message.received.as_millisecond(),
            read_at: millis(shown.read_at),
            seen_at: millis(shown.seen_at),
            archived_at: millis(shown.archived_at),
            expires_at: message.expires.as_millisecond(),
            public: shown.is_public,
            unread: shown.is_unread,
        }
    }
}

impl CountsBody {
    fn new(counts: Counts, user: String) -> Self {
        let count = |(category, count): (_, tidings_inbox::read::Count)| {
            (String::from(category), CountBody { total: count.total, unread: count.unread })
        };
        let categories = counts.categories.into_iter().map(count).collect();
        Self { total: counts.total, unread: counts.unread, categories, user }
    }
}

impl Answer {
    fn new(body: &impl Serialize) -> Self {
        let text = serde_json::to_string(body).expect("what we answer has a JSON form");
        let digest = Sha256::digest(text.as_bytes());
        let tag = format!("\"{}\"", hex(&digest[..12]));
        let tag = HeaderValue::try_from(tag).expect("hex digits in quotes");
        Self { text: text.into(), tag }
    }

    /// The answer, or that the caller has it already. It is for this caller alone, and his browser asks before it shows it
    /// again.
    fn unless_known(self, asked: &HeaderMap) -> Response {
        let known = asked.get_all(header::IF_NONE_MATCH).iter().any(|value| {
            let mut tags = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            tags.any(|one| {
                one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == self.tag.as_bytes()
            })
        });
        let mut response = if known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, "application/json")], self.text).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.tag);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.append(header::VARY, HeaderValue::from_static("authorization, x-user-id"));
        response
    }
}

impl From<LookError> for Problem {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Forgotten => admit::refused(TokenError::Forgotten),
            LookError::Busy => Self::unavailable(error),
            LookError::Store(error) => error.into(),
        }
    }
}

impl From<MarkError> for Problem {
    fn from(error: MarkError) -> Self {
        let wrong = |field: &str, error: &MarkError| {
            Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
        };
        match error {
            MarkError::TooMany(_) => wrong("ids", &error),
            MarkError::TooManyNewer(_) => wrong("up_to", &error),
            MarkError::Forgotten => admit::refused(TokenError::Forgotten),
            MarkError::Busy => Self::unavailable(error),
            MarkError::Store(error) => error.into(),
        }
    }
}
