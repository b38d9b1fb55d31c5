//! `/v1/messages`: transactional mail, one message to one person.

mod new;
mod shown;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use tidings_access::{Limit, Slug};
use tidings_delivery::ledger::Source;
use tidings_delivery::transactional::{
    self, AcceptError, CancelError, Find, FindError, List, MAX_KEY, MessageId, Settle, SettleError,
    Status, Wrong,
};
use tidings_kernel::EmailAddress;
use tidings_signals::replies::ReceiveError;
use tidings_signals::{queries, tracking};

pub(super) use self::new::{Batch, NewMessage, NewSettlement};
pub(super) use self::shown::ResultBody;
use self::shown::{AcceptedBody, BatchBody, EventsBody, MessageBody, PreviewBody, ShownBody};
use super::auth::{Manage, Needs, Read, Refusals, Send};
use super::input::{Body, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

/// `:99` has to fit behind it.
pub(super) const MAX_BATCH_KEY: usize = MAX_KEY - 3;
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Which messages are wanted: the query of the list.
pub(super) struct Which {
    status: Option<Status>,
    sequence: Option<Slug>,
    to: Option<EmailAddress>,
    after: Option<MessageId>,
    limit: Limit,
}

/// Send a message
///
/// It is written down and sent soon, once: the answer comes before that. Asking again with the same key gives the same
/// message, marked with `Idempotency-Replayed: true`. A person who must not be written to is no error: the message is
/// `skipped`, with the reason. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "Messages",
    security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 255)),
    request_body = NewMessage,
    responses(
        (status = 202, description = "It is written down", body = AcceptedBody),
        (status = 404, description = "There is no such active template", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "A request with this key is being worked on", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or the key was used for another message", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn send(
    State(v1): State<V1>,
    who: Needs<Send>,
    headers: HeaderMap,
    Body(new): Body<NewMessage>,
) -> Result<impl IntoResponse, Problem> {
    let key = with_header(new.idempotency_key.clone(), header_key(&headers, MAX_KEY)?)?;
    let key = key.map(unreserved).transpose()?;
    let send = new.into_send(who.caller().client_id, key);
    let accepted = v1.services.messages.accept_together(&v1.cx(&who), send).await?;
    let mut headers = HeaderMap::new();
    if accepted.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/messages/{}", accepted.id)) {
        headers.insert(header::LOCATION, location);
    }
    Ok((StatusCode::ACCEPTED, headers, Json(AcceptedBody::from(accepted))))
}

/// Send up to 100 messages
///
/// Each has an answer of its own, in the same order; what is right is accepted whatever is wrong with the others. With
/// a key in the header, the messages that have none of their own get `<key>:<index>`. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/messages/batch",
    tag = "Messages",
    security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 252)),
    request_body = Batch,
    responses(
        (status = 200, description = "What became of each", body = BatchBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn send_batch(
    State(v1): State<V1>,
    who: Needs<Send>,
    headers: HeaderMap,
    Body(batch): Body<Batch>,
) -> Result<Json<BatchBody>, Problem> {
    let base = header_key(&headers, MAX_BATCH_KEY)?.map(unreserved).transpose()?;
    let (mut sends, mut refused) = (Vec::new(), Vec::new());
    for (place, message) in batch.messages.into_iter().enumerate() {
        refused.push(match message {
            Ok(new) => {
                let of_batch = || base.as_ref().map(|base| format!("{base}:{place}"));
                match new.idempotency_key.clone().map(unreserved).transpose() {
                    Ok(key) => {
                        let key = key.or_else(of_batch);
                        sends.push(new.into_send(who.caller().client_id, key));
                        None
                    }
                    Err(problem) => Some(problem),
                }
            }
            Err(problem) => Some(problem),
        });
    }
    let accepted = if sends.is_empty() {
        Vec::new()
    } else {
        v1.services.messages.accept_many(&v1.cx(&who), sends).await?
    };
    let mut accepted = accepted.into_iter();
    let data = refused.into_iter().filter_map(|refused| match refused {
        Some(problem) => Some(ResultBody::from(problem)),
        None => accepted.next().map(|answer| match answer {
            Ok(accepted) => ResultBody::from(accepted),
            Err(error) => ResultBody::from(Problem::from(error)),
        }),
    });
    Ok(Json(BatchBody { data: data.collect() }))
}

/// See what would be sent
///
/// The message as it would be, and whether it would go to this person now. Nothing is written down. Needs the scope
/// `send`.
#[utoipa::path(
    post,
    path = "/v1/messages/dry-run",
    tag = "Messages",
    security(("key" = [])),
    request_body = NewMessage,
    responses(
        (status = 200, description = "What it would be", body = PreviewBody),
        (status = 404, description = "There is no such active template", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn dry_run(
    State(v1): State<V1>,
    who: Needs<Send>,
    Body(new): Body<NewMessage>,
) -> Result<Json<PreviewBody>, Problem> {
    let send = new.into_send(who.caller().client_id, None);
    let preview = v1.services.messages.dry_run(&v1.cx(&who), &send).await?;
    Ok(Json(preview.into()))
}

/// List the messages of this client
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/messages",
    tag = "Messages",
    security(("key" = [])),
    params(
        ("status" = Option<String>, Query, description = "Only those with this status", pattern = "^(queued|claimed|sent|failed|skipped|cancelled|uncertain|delivered|bounced|complained)$"),
        ("sequence" = Option<String>, Query, description = "Only those of this sequence", pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("to" = Option<String>, Query, description = "Only those to this address", format = Email),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of messages", body = ListBody<MessageBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(which): Params<Which>,
) -> Result<Json<ListBody<MessageBody>>, Problem> {
    let Which { status, sequence, to, after, limit } = which;
    let sequence = sequence.map(|sequence| sequence.to_string());
    let list = List { client: who.caller().client_id, status, sequence, to, after, limit };
    Ok(ListBody::answer(transactional::list(&v1.cx(&who), list).await?))
}

/// Show a message
///
/// With its bodies as they were sent. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/messages/{id}",
    tag = "Messages",
    security(("key" = [])),
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The message", body = ShownBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<ShownBody>, Problem> {
    let find = named(&id, &who)?;
    Ok(Json(transactional::show(&v1.cx(&who), find).await?.into()))
}

/// Show what happened to a message
///
/// In order: where it was on its way, and each event of the provider and the reader by its type, as `/v1/events` has
/// it, up to the newest 200. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/messages/{id}/events",
    tag = "Messages",
    security(("key" = [])),
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "What happened", body = EventsBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn events(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<EventsBody>, Problem> {
    let (cx, find) = (v1.cx(&who), named(&id, &who)?);
    let message = transactional::show(&cx, find).await?.message;
    let email = message.email.as_deref().and_then(|email| email.parse().ok());
    let source = Source::Transactional(find.id.get());
    let since = message.times.created_at;
    let events = match &email {
        Some(email) => queries::of_message(&cx, (source, email), since).await?,
        // Nothing is known of who is erased.
        None => Vec::new(),
    };
    Ok(Json(EventsBody::new(transactional::history(&message), events)))
}

/// Cancel a message
///
/// As long as nobody is sending it. Doing it twice changes nothing. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/messages/{id}/cancel",
    tag = "Messages",
    security(("key" = [])),
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "It will not be sent", body = MessageBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is too late", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn cancel(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(id): Path<String>,
) -> Result<Json<MessageBody>, Problem> {
    let find = named(&id, &who)?;
    Ok(Json(transactional::cancel(&v1.cx(&who), find).await?.into()))
}

/// Settle a message that nobody knows about
///
/// A message is `uncertain` if it was handed over and no answer came. It is not sent again by itself; here a person
/// says what became of it, or has it sent once more (`resend`), as also a message that has failed. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/messages/{id}/settle",
    tag = "Messages",
    security(("key" = [])),
    params(("id" = i64, Path, minimum = 1)),
    request_body = NewSettlement,
    responses(
        (status = 200, description = "It is settled", body = MessageBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is not uncertain, or cannot be sent again", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn settle(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
    Body(new): Body<NewSettlement>,
) -> Result<Json<MessageBody>, Problem> {
    let message = named(&id, &who)?;
    let settle = Settle { message, outcome: new.outcome(), reason: new.reason };
    Ok(Json(transactional::settle(&v1.cx(&who), settle).await?.into()))
}

#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = Recomputed)]
pub(super) struct RecomputedBody {
    /// How many of its opens and clicks have another verdict now
    changed: usize,
}

/// Decide anew who opened and clicked a message
///
/// From the facts that were kept; the counters follow. Doing it again changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/messages/{id}/recompute",
    tag = "Messages",
    security(("key" = [])),
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "It is decided anew", body = RecomputedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn recompute(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
) -> Result<Json<RecomputedBody>, Problem> {
    let (cx, find) = (v1.cx(&who), named(&id, &who)?);
    transactional::show(&cx, find).await?;
    let source = Source::Transactional(find.id.get());
    let changed = tracking::recompute(&cx, source).await.map_err(ReceiveError::Record)?;
    Ok(Json(RecomputedBody { changed }))
}

/// What cannot be an id is no message's; another client's message is none either.
fn named<S>(text: &str, who: &Needs<S>) -> Result<Find, Problem> {
    let id = text.parse::<i64>().ok().filter(|id| *id > 0);
    let id = id.ok_or_else(|| Problem::not_found("there is no such message"))?;
    Ok(Find { id: MessageId::from(id), client: Some(who.caller().client_id) })
}

pub(super) fn header_key(headers: &HeaderMap, most: usize) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=most).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let told = format!("use 1 to {most} printable ASCII characters");
            Err(one_wrong("Idempotency-Key", &told))
        }
    }
}

/// Keys that we make ourselves are not for callers: theirs would be taken for ours.
pub(super) fn unreserved(key: String) -> Result<String, Problem> {
    match transactional::check_key(&key) {
        Ok(()) => Ok(key),
        Err(wrong) => Err(one_wrong(&wrong.field, &wrong.message)),
    }
}

/// The key of the body and that of the header are one.
fn with_header(body: Option<String>, header: Option<String>) -> Result<Option<String>, Problem> {
    match (body, header) {
        (Some(body), Some(header)) if body != header => {
            Err(one_wrong("idempotency_key", "the header Idempotency-Key says something else"))
        }
        (body, header) => Ok(body.or(header)),
    }
}

fn one_wrong(field: &str, message: &str) -> Problem {
    Problem::invalid(vec![Violation { field: field.to_owned(), message: message.to_owned() }])
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (status, sequence) = (fields.optional("status"), fields.optional("sequence"));
        let to = fields.optional("to");
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { status: status?, sequence: sequence?, to: to?, after, limit })
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        let told = error.to_string();
        match error {
            AcceptError::Invalid(wrong) => {
                let violation = |Wrong { field, message }| Violation { field, message };
                Self::invalid(wrong.into_iter().map(violation).collect())
            }
            AcceptError::NoTemplate(_) | AcceptError::NoVersion(..) => {
                Self::new(StatusCode::NOT_FOUND, "template_not_found", told)
            }
            AcceptError::KeyReused(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", told)
            }
            AcceptError::InFlight => {
                Self::new(StatusCode::CONFLICT, "idempotency_key_in_use", told)
                    .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
            }
            AcceptError::BatchSize => one_wrong("messages", &told),
            AcceptError::Store(error) => error.into(),
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Missing(_) => Self::not_found(error),
            FindError::Store(error) => error.into(),
        }
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Missing(_) => Self::not_found(error),
            CancelError::TooLate { .. } => Self::conflict(error),
            CancelError::Store(error) => error.into(),
        }
    }
}

impl From<SettleError> for Problem {
    fn from(error: SettleError) -> Self {
        match error {
            SettleError::Missing(_) => Self::not_found(error),
            SettleError::NotUncertain { .. }
            | SettleError::NotOver { .. }
            | SettleError::Erased(_)
            | SettleError::Reminder(_) => Self::conflict(error),
            SettleError::Reason => one_wrong("reason", &error.to_string()),
            SettleError::Store(error) => error.into(),
        }
    }
}
