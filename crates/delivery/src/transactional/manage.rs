//! Looking at messages and cancelling them. What a person decides about a message that nobody knows about is in `settle`.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, ClientId, Cx, Limit, Page, StorageError};
use tidings_jobs::contracts::{Contract as _, TransactionalEmail};
use tidings_kernel::{EmailAddress, TimerChange};
use tidings_people::contacts::{ERASED_KEY, with_person};
use tidings_sql::{DatabaseError, Param, Tx};

use super::reminder;
use super::store::{self, SELECT};
use super::{Message, MessageId, Status};

/// The most characters of a reason.
pub const MAX_REASON: usize = 500;

/// What nobody has sent yet and somebody might: what waits, and what its queue gave up, which may be put back.
const WAITS: &str = "(status = 'queued' OR (status = 'failed' AND given_up_at IS NOT NULL))";

/// Which message, and whose: a client sees no other client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Find {
    pub id: MessageId,
    /// `None` for whoever may see those of all clients.
    pub client: Option<ClientId>,
}

/// A message with its bodies: as they were sent, or, before that, what they will be made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub message: Message,
    pub html: Option<String>,
    pub text: Option<String>,
}

/// Something that happened to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    pub kind: &'static str,
    pub at: Timestamp,
    /// Why, where somebody said so.
    pub reason: Option<String>,
}

/// Which messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub client: ClientId,
    pub status: Option<Status>,
    /// Only those of this sequence.
    pub sequence: Option<String>,
    /// Only those to this address.
    pub to: Option<EmailAddress>,
    /// The last one of the page before.
    pub after: Option<MessageId>,
    pub limit: Limit,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no message {0}")]
    Missing(MessageId),
    #[error("the message could not be reached")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    #[error("there is no message {0}")]
    Missing(MessageId),
    #[error("message {id} is {status}, and only a queued one can be cancelled")]
    TooLate { id: MessageId, status: Status },
    #[error("the message could not be cancelled")]
    Store(#[from] DatabaseError),
}

pub async fn show(cx: &Cx, find: Find) -> Result<Found, FindError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within, find)).await
}

/// The newest first.
pub async fn list(cx: &Cx, list: List) -> Result<Page<Message, MessageId>, DatabaseError> {
    let workspace = cx.workspace_id().get();
    let find = cx.database().read(move |tx| {
        let after = list.after.map_or(i64::MAX, MessageId::get);
        // Written out, so that the index of the statuses serves.
        let status = list.status.map(|status| format!(" AND status = '{status}'"));
        let mut params = vec![
            Param::Int(workspace),
            Param::Int(list.client.get()),
            Param::Int(after),
            Param::Int(list.limit.and_one()),
        ];
        let mut clauses = status.unwrap_or_default();
        if let Some(sequence) = &list.sequence {
            params.push(Param::Text(sequence));
            clauses += &format!(" AND sequence_id = ${}", params.len());
        }
        // One person has few messages: they are found by him, and not by going through all of the client's.
        let (mut person, mut id) = (String::new(), "id");
        if let Some(to) = &list.to {
            params.push(Param::Text(to.as_str()));
            let place = format!("${}", params.len());
            (person, id) = (with_person(&place), "id + 0");
            clauses += &format!(" AND email = {place} AND lead_id IN (SELECT id FROM person)");
        }
        let sql = format!(
            "{person} {SELECT} WHERE workspace_id = $1 AND client_id = $2 AND {id} < $3{clauses} ORDER BY {id} DESC LIMIT $4"
        );
        let found = tx.query(&sql, &params)?.iter().map(store::read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, list.limit, |message: &Message| message.id))
    });
    find.await
}

/// What was handed over without an answer, of all clients, the oldest first. What a crash has left behind counts
/// from the moment its claim is over, whether or not a worker has come by since.
pub async fn uncertain(
    cx: &Cx,
    after: Option<MessageId>,
    limit: Limit,
) -> Result<Page<Message, MessageId>, DatabaseError> {
    let (workspace, now) = (cx.workspace_id().get(), cx.now().as_millisecond());
    let find = cx.database().read(move |tx| {
        let after = Param::Int(after.map_or(0, MessageId::get));
        let most = Param::Int(limit.and_one());
        let known = format!(
            "{SELECT} WHERE workspace_id = $1 AND id > $2 AND status = 'uncertain' ORDER BY id LIMIT $3"
        );
        let mut rows = tx.query(&known, &[Param::Int(workspace), after, most])?;
        let left = format!(
            "{SELECT} WHERE workspace_id = $1 AND id > $2 AND status = 'claimed' AND claimed_until <= $4
                        AND handed_at IS NOT NULL ORDER BY id LIMIT $3"
        );
        rows.extend(tx.query(&left, &[Param::Int(workspace), after, most, Param::Int(now)])?);
        let mut found =
            rows.iter().map(store::read).collect::<Result<Vec<_>, DatabaseError>>()?;
        found.sort_by_key(|message| message.id);
        Ok(Page::cut(found, limit, |message: &Message| message.id))
    });
    find.await
}

/// From now on it is not sent, if nobody is sending it. Doing it again changes nothing.
pub async fn cancel(cx: &Cx, find: Find) -> Result<Message, CancelError> {
    let within = cx.clone();
    let cancel = cx.database().write_committed(move |tx| {
        let missing = |error| match error {
            FindError::Missing(id) => CancelError::Missing(id),
            FindError::Store(error) => CancelError::Store(error),
        };
        let before = load(tx, &within, find).map_err(missing)?.message;
        let sql = format!(
            "UPDATE transactional_messages SET status = 'cancelled', given_up_at = NULL, updated_at = $3
             WHERE workspace_id = $1 AND id = $2 AND {WAITS}"
        );
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(find.id.get()),
            Param::Int(within.now().as_millisecond()),
        ];
        if tx.execute(&sql, &params)? == 1 {
            cancelled(tx, &within, (find.id, before.status.as_str()))?;
            tell_reminder(tx, &within, &before)?;
        }
        let message = load(tx, &within, find).map_err(missing)?.message;
        match message.status {
            Status::Cancelled => Ok(message),
            status => Err(CancelError::TooLate { id: message.id, status }),
        }
    });
    cancel.await
}

/// From now on nothing is sent of what an execution has left to send, but for what somebody is sending: tells how many
/// messages that were. Doing it again changes nothing. The reason is kept with each of them.
pub async fn cancel_queued_of(
    cx: &Cx,
    execution: &str,
    reason: &str,
) -> Result<usize, StorageError> {
    let (within, execution) = (cx.clone(), execution.to_owned());
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
    let cancel = cx.database().write_committed(move |tx| {
        let his = [Param::Int(within.workspace_id().get()), Param::Text(&execution)];
        let sql = format!(
            "SELECT id, status FROM transactional_messages WHERE workspace_id = $1 AND execution_id = $2 AND {WAITS}"
        );
        let rows = tx.query(&sql, &his)?;
        for row in &rows {
            cancelled(tx, &within, (MessageId::from(row.int(0)?), row.text(1)?))?;
        }
        let sql = format!(
            "UPDATE transactional_messages SET status = 'cancelled', given_up_at = NULL, last_error = $3, updated_at = $4
             WHERE workspace_id = $1 AND execution_id = $2 AND {WAITS}"
        );
        let params = [his[0], his[1], Param::Text(&reason), Param::from(within.now())];
        tx.execute(&sql, &params)?;
        Ok::<_, DatabaseError>(rows.len())
    });
    Ok(cancel.await?)
}

/// What follows from a message that is cancelled.
fn cancelled(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, before): (MessageId, &str),
) -> Result<(), DatabaseError> {
    let change = Change::new("message.cancel", "message", id)
        .between(json!({ "status": before }), json!({ "status": "cancelled" }));
    cx.record_change(tx, &change)?;
    let timer = TimerChange::Cancel(timer_key(id));
    Ok(tx.change_timer(cx.workspace(), &timer)?)
}

pub(super) fn tell_reminder(
    tx: &mut Tx<'_>,
    cx: &Cx,
    message: &Message,
) -> Result<(), DatabaseError> {
    let about = (message.id.get(), message.reminder.as_deref());
    reminder::tell(tx, cx.workspace_id().get(), about, cx.now())
}

/// What happened to it, in order, as far as the ledger knows.
pub fn history(message: &Message) -> Vec<Happened> {
    let times = &message.times;
    let ended = |status| (message.status == status).then_some(times.updated_at);
    let all = [
        ("queued", Some(times.created_at), None),
        ("skipped", ended(Status::Skipped), message.skip_reason.as_ref()),
        ("cancelled", ended(Status::Cancelled), None),
        ("handed_over", times.handed_at, None),
        ("uncertain", ended(Status::Uncertain), message.last_error.as_ref()),
        ("failed", ended(Status::Failed), message.last_error.as_ref()),
        ("sent", times.sent_at, None),
        ("delivered", times.delivered_at, None),
        ("bounced", times.bounced_at, None),
        ("complained", times.complained_at, None),
        ("opened", times.first_opened_at, None),
        ("clicked", times.first_clicked_at, None),
        ("unsubscribed", times.unsubscribed_at, None),
    ];
    let mut happened: Vec<_> = all
        .into_iter()
        .filter_map(|(kind, at, reason)| Some(Happened { kind, at: at?, reason: reason.cloned() }))
        .collect();
    happened.sort_by_key(|one| one.at);
    happened
}

pub(super) fn load(tx: &mut Tx<'_>, cx: &Cx, find: Find) -> Result<Found, FindError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND id = $2");
    let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(find.id.get())])?;
    let row = rows.first().ok_or(FindError::Missing(find.id))?;
    let message = store::read(row)?;
    if find.client.is_some_and(|client| client != message.client) {
        return Err(FindError::Missing(find.id));
    }
    let sql = "SELECT html_body, text_body FROM transactional_messages WHERE id = $1";
    let bodies = tx.query(sql, &[Param::Int(find.id.get())])?;
    let bodies = bodies.first().ok_or(FindError::Missing(find.id))?;
    let body = |column| Ok::<_, DatabaseError>(bodies.optional_text(column)?.map(str::to_owned));
    Ok(Found { message, html: body(0)?, text: body(1)? })
}

/// The timer of a message that is scheduled.
pub(super) fn timer_key(id: MessageId) -> String {
    format!("transactional/{id}")
}

/// Whether the body of a queue speaks of this row: by its key, or by what stands for it.
pub(super) fn is_key_of((id, row_key): (MessageId, &str), key: &str) -> bool {
    // A body from before an erasure has the key that the row had then. Its client and its id are those of the row.
    row_key == key || stands_for(id) == key || row_key.starts_with(ERASED_KEY)
}

fn stands_for(id: MessageId) -> String {
    format!("message:{id}")
}

/// The body that a worker is asked with to send a message. A key that can hold an address is not put into it: nobody
/// erases anything in a queue.
pub(crate) fn envelope(
    id: MessageId,
    client: ClientId,
    key: &str,
) -> Result<String, DatabaseError> {
    let key = if key.contains('@') { stands_for(id) } else { key.to_owned() };
    let contract = TransactionalEmail {
        transactional_message_id: id.get(),
        client_id: client.get(),
        idempotency_key: key,
        contact_id: None,
        template_id: None,
        template_key: None,
        metadata: None,
    };
    contract.to_body().map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))
}
