//! What a person decides about a message that nobody knows about, or that has failed.

use serde_json::json;
use tidings_access::{Change, Cx};
use tidings_kernel::Outgoing;
use tidings_sql::{DatabaseError, Param, Tx};

use super::manage::{Find, FindError, MAX_REASON, envelope, load, tell_reminder};
use super::news::{self, About, News};
use super::purpose::queue_of;
use super::{Message, MessageId, Status};
use crate::links::Source;

/// What a person found out about a message that nobody knew about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    pub message: Find,
    pub outcome: Settled,
    /// How it is known. Up to 500 characters.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Sent,
    Failed,
    /// Whatever became of it, it is sent once more. Also for one that has failed.
    Resend,
}

#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    #[error("there is no message {0}")]
    Missing(MessageId),
    #[error("message {id} is {status}, and only an uncertain one can be settled")]
    NotUncertain { id: MessageId, status: Status },
    #[error("message {id} is {status}, and only an uncertain or a failed one can be sent again")]
    NotOver { id: MessageId, status: Status },
    #[error("whoever message {0} was for is erased")]
    Erased(MessageId),
    #[error("message {0} is a reminder that has failed, and a reminder is drafted again")]
    Reminder(MessageId),
    #[error("a reason has at most {MAX_REASON} characters, and no control characters")]
    Reason,
    #[error("the message could not be settled")]
    Store(#[from] DatabaseError),
}

/// Says what became of a message that nobody knew about. If it was sent, the send log will say so; if it is to be sent
/// again, it is as if it had never been tried.
pub async fn settle(cx: &Cx, cmd: Settle) -> Result<Message, SettleError> {
    if cmd.reason.as_ref().is_some_and(|reason| {
        reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control)
    }) {
        return Err(SettleError::Reason);
    }
    let within = cx.clone();
    let settle = cx.database().write_committed(move |tx| {
        let missing = |error| match error {
            FindError::Missing(id) => SettleError::Missing(id),
            FindError::Store(error) => SettleError::Store(error),
        };
        let before = load(tx, &within, cmd.message).map_err(missing)?.message;
        if !mark_settled(tx, &within, &cmd)? {
            let now = load(tx, &within, cmd.message).map_err(missing)?.message;
            return Err(not_settled(&cmd, &now));
        }
        let (action, after, told) = match cmd.outcome {
            Settled::Sent => ("message.settle_sent", "sent", Some(News::Sent)),
            Settled::Failed => ("message.settle_failed", "failed", Some(News::Failed)),
            // Others are told when the provider has it.
            Settled::Resend => ("message.resend", "queued", None),
        };
        let change = Change::new(action, "message", before.id)
            .between(json!({ "status": before.status.as_str() }), json!({ "status": after }));
        within.record_change(tx, &change)?;
        if let Some(told) = told {
            let about = about(&before);
            news::tell_about(&within, tx, &about, &told, within.now())?;
            tell_reminder(tx, &within, &before)?;
        }
        if cmd.outcome != Settled::Failed {
            // The worker sends it, or finds that it was sent and sees that the send log says so.
            let sql = "SELECT idempotency_key FROM transactional_messages WHERE id = $1";
            let rows = tx.query(sql, &[Param::Int(before.id.get())])?;
            let key = rows.first().ok_or(DatabaseError::NoRow)?.text(0)?.to_owned();
            let body = envelope(before.id, before.client, &key)?;
            let queue = queue_of(before.sequence_id.as_deref());
            tx.enqueue(&Outgoing::new(queue, body), within.now()).map_err(DatabaseError::from)?;
        }
        Ok(load(tx, &within, cmd.message).map_err(missing)?.message)
    });
    settle.await
}

fn about(message: &Message) -> About<'_> {
    About {
        source: Source::Transactional(message.id.get()),
        client: message.client.get(),
        contact: message.contact,
        email: message.email.as_deref(),
        template_key: message.template_key.as_deref(),
        campaign: None,
        sequence: message.sequence_id.as_deref(),
    }
}

fn not_settled(cmd: &Settle, now: &Message) -> SettleError {
    let (id, status) = (now.id, now.status);
    match cmd.outcome {
        Settled::Sent | Settled::Failed => SettleError::NotUncertain { id, status },
        Settled::Resend if now.email.is_none() => SettleError::Erased(id),
        Settled::Resend if now.status == Status::Failed => SettleError::Reminder(id),
        Settled::Resend => SettleError::NotOver { id, status },
    }
}

fn mark_settled(tx: &mut Tx<'_>, cx: &Cx, cmd: &Settle) -> Result<bool, DatabaseError> {
    let uncertain = "status = 'uncertain'";
    let (change, wanted) = match cmd.outcome {
        Settled::Sent => ("status = 'sent', sent_at = COALESCE(sent_at, handed_at, $3)", uncertain),
        Settled::Failed => ("status = 'failed'", uncertain),
        Settled::Resend => (
            "status = 'queued', handed_at = NULL, refusals = 0, given_up_at = NULL, not_before = NULL",
            "status = 'uncertain' OR (status = 'failed' AND reminder IS NULL)",
        ),
    };
    let known = if cmd.outcome == Settled::Resend { "AND email IS NOT NULL" } else { "" };
    let sql = format!(
        "UPDATE transactional_messages
         SET {change}, last_error = COALESCE($4, last_error), updated_at = $3,
             claimed_by = NULL, claimed_until = NULL
         WHERE workspace_id = $1 AND id = $2 {known} AND ({wanted}
               OR (status = 'claimed' AND claimed_until <= $3 AND handed_at IS NOT NULL))"
    );
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(cmd.message.id.get()),
        Param::Int(cx.now().as_millisecond()),
        cmd.reason.as_deref().map_or(Param::Null, Param::Text),
    ];
    Ok(tx.execute(&sql, &params)? == 1)
}
