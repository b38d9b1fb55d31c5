//! `/inbox/v1/{inbox}/messages/read` and the like: what a user does with messages.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::Category;
use tidings_inbox::marks::{self, MAX_IDS, Mark, ReadAll, Receipt};
use tidings_inbox::read;
use utoipa::ToSchema;

use super::{CountsBody, Visit};
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::Refusals;
use crate::v1::input::{Body, Fields, FromFields, OptionalBody};

#[derive(ToSchema)]
#[schema(as = InboxMarks)]
pub(in crate::v1) struct Ids {
    /// Those that the user does not have, or not any more, are passed over
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 50, example = json!(["0GV8YLWQ3K9D0F2XZ"]))]
    ids: Vec<MessageId>,
}

/// How messages are marked now.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxMarked)]
pub(in crate::v1) struct MarkedBody {
    #[schema(max_items = 50)]
    receipts: Vec<ReceiptBody>,
    counts: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = InboxReceipt)]
pub(in crate::v1) struct ReceiptBody {
    id: String,
    unread: bool,
    /// In milliseconds since 1970, as the others
    read_at: Option<i64>,
    seen_at: Option<i64>,
    archived_at: Option<i64>,
}

#[derive(ToSchema)]
#[schema(as = InboxReadAll)]
pub(in crate::v1) struct All {
    /// Only messages of this category
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9._-]{1,64}$")]
    category: Option<Category>,
    /// What is newer than this message stays as it is: the newest that was on the screen
    #[schema(value_type = Option<String>, example = "0GV8YLWQ3K9D0F2XZ", pattern = "^[0-9A-Z]{17}$")]
    up_to: Option<MessageId>,
}

/// Up to where all is read now.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxReadUpTo)]
pub(in crate::v1) struct ReadUpToBody {
    up_to: String,
    counts: CountsBody,
}

/// Mark messages as read
///
/// The first time counts. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/read",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Ids,
    responses(
        (status = 200, description = "How they are marked now", body = MarkedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn read(
    State(v1): State<V1>,
    visit: Visit,
    Body(ids): Body<Ids>,
) -> Result<Json<MarkedBody>, Problem> {
    mark(&v1, visit, Mark::Read, &ids).await
}

/// Mark messages as unread
///
/// An archived message comes back by it. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/unread",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Ids,
    responses(
        (status = 200, description = "How they are marked now", body = MarkedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn unread(
    State(v1): State<V1>,
    visit: Visit,
    Body(ids): Body<Ids>,
) -> Result<Json<MarkedBody>, Problem> {
    mark(&v1, visit, Mark::Unread, &ids).await
}

/// Mark messages as seen
///
/// They were shown, and need not have been read. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/seen",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Ids,
    responses(
        (status = 200, description = "How they are marked now", body = MarkedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn seen(
    State(v1): State<V1>,
    visit: Visit,
    Body(ids): Body<Ids>,
) -> Result<Json<MarkedBody>, Problem> {
    mark(&v1, visit, Mark::Seen, &ids).await
}

/// Archive messages
///
/// They are read by it, and no longer listed. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/archive",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Ids,
    responses(
        (status = 200, description = "How they are marked now", body = MarkedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn archive(
    State(v1): State<V1>,
    visit: Visit,
    Body(ids): Body<Ids>,
) -> Result<Json<MarkedBody>, Problem> {
    mark(&v1, visit, Mark::Archive, &ids).await
}

/// Take messages out of the archive
///
/// They stay read. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/unarchive",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Ids,
    responses(
        (status = 200, description = "How they are marked now", body = MarkedBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body or `X-User-Id` is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn unarchive(
    State(v1): State<V1>,
    visit: Visit,
    Body(ids): Body<Ids>,
) -> Result<Json<MarkedBody>, Problem> {
    mark(&v1, visit, Mark::Unarchive, &ids).await
}

/// Mark all messages as read
///
/// Or all of a category, however many they are. Needs the scope `inbox:user`.
#[utoipa::path(
    put,
    path = "/inbox/v1/{inbox}/messages/read-all",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128)
    ),
    request_body = Option<All>,
    responses(
        (status = 200, description = "Up to where all is read now", body = ReadUpToBody),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or too many unread messages are newer than `up_to`", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn read_all(
    State(v1): State<V1>,
    visit: Visit,
    OptionalBody(All { category, up_to }): OptionalBody<All>,
) -> Result<Json<ReadUpToBody>, Problem> {
    let (cx, inbox) = (&visit.cx, &v1.services.inbox);
    let read = marks::read_all(cx, inbox, &visit.reader, ReadAll { category, up_to }).await?;
    let counts = read::counts(cx, inbox, &visit.reader).await?;
    Ok(Json(ReadUpToBody {
        up_to: read.id.to_string(),
        counts: CountsBody::new(counts, visit.user(&v1)),
    }))
}

async fn mark(v1: &V1, visit: Visit, mark: Mark, ids: &Ids) -> Result<Json<MarkedBody>, Problem> {
    let (cx, inbox) = (&visit.cx, &v1.services.inbox);
    let receipts = marks::mark(cx, inbox, &visit.reader, mark, &ids.ids).await?;
    let counts = read::counts(cx, inbox, &visit.reader).await?;
    let receipts = receipts.into_iter().map(ReceiptBody::from).collect();
    Ok(Json(MarkedBody { receipts, counts: CountsBody::new(counts, visit.user(v1)) }))
}

impl From<Receipt> for ReceiptBody {
    fn from(receipt: Receipt) -> Self {
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millisecond);
        Self {
            id: receipt.id.to_string(),
            unread: receipt.is_unread,
            read_at: millis(receipt.read_at),
            seen_at: millis(receipt.seen_at),
            archived_at: millis(receipt.archived_at),
        }
    }
}

impl FromFields for Ids {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let ids: Vec<MessageId> = fields.required_list("ids")?;
        if ids.len() > MAX_IDS {
            return fields.wrong("ids", format_args!("use a list of at most {MAX_IDS} texts"));
        }
        Some(Self { ids })
    }
}

impl FromFields for All {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (category, up_to) = (fields.optional("category"), fields.optional("up_to"));
        Some(Self { category: category?, up_to: up_to? })
    }
}
