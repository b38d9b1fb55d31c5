//! The rows of `transactional_messages`, and the statements on them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{self, ERASED_KEY};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::purpose::Purpose;
use super::request::{Calendar, Lines, Part, Tracking};
use super::rules::State;
use super::{Message, MessageId, Status, Times};
use crate::eligibility::Kind;

/// What keys that no caller gave begin with.
const OWN_KEY: &str = "auto:";

/// A message to be written down.
#[derive(Debug, Clone)]
pub(super) struct New {
    pub(super) client: ClientId,
    pub(super) purpose: Purpose,
    pub(super) key: String,
    pub(super) hash: String,
    pub(super) to: EmailAddress,
    /// Whom it names besides.
    pub(super) named: BTreeSet<EmailAddress>,
    pub(super) template: Option<(String, i64)>,
    pub(super) from_email: String,
    pub(super) from_name: Option<String>,
    pub(super) reply_to: Option<String>,
    /// Of what is not a stored template: what is to be rendered.
    pub(super) inline: Option<Source>,
    /// As JSON.
    pub(super) context: String,
    pub(super) envelope: String,
    pub(super) metadata: String,
    pub(super) skip_reason: Option<&'static str>,
    pub(super) scheduled_at: Option<Timestamp>,
}

/// Subject and bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) subject: String,
    pub(super) html: Option<String>,
    pub(super) text: Option<String>,
}

/// What the column `envelope` holds: how the mail is put together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Envelope {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cc: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) bcc: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) calendar: Option<Calendar>,
    #[serde(default)]
    pub(super) tracking: Tracking,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sender: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) test: bool,
    #[serde(default, skip_serializing_if = "Lines::is_empty")]
    pub(super) lines: Lines,
}

/// A row that is to be sent.
#[derive(Debug, Clone)]
pub(super) struct Sendable {
    pub(super) id: MessageId,
    pub(super) workspace: i64,
    pub(super) client: ClientId,
    pub(super) contact: i64,
    pub(super) purpose: Purpose,
    pub(super) key: String,
    pub(super) email: Option<String>,
    pub(super) template: Option<(String, i64)>,
    pub(super) from_email: Option<String>,
    pub(super) from_name: Option<String>,
    pub(super) reply_to: Option<String>,
    /// Rendered if `rendered`, else what is to be rendered, where it is not a stored template.
    pub(super) content: Option<Source>,
    pub(super) rendered: bool,
    pub(super) context: Map<String, Value>,
    pub(super) envelope: Envelope,
    pub(super) attempts: i64,
    pub(super) logged_at: Option<Timestamp>,
    pub(super) provider_message_id: Option<String>,
    pub(super) state: State,
}

/// What is there under an idempotency key.
pub(super) struct Known {
    pub(super) id: MessageId,
    pub(super) hash: Option<String>,
    pub(super) status: Status,
    pub(super) skip_reason: Option<String>,
    pub(super) scheduled_at: Option<Timestamp>,
}

/// A key that nobody else has.
pub(super) fn own_key() -> String {
    format!("{OWN_KEY}{:032x}", fastrand::u128(..))
}

/// Writes it down for a contact. `None` if its key is taken.
pub(super) fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: i64,
    new: &New,
) -> Result<Option<MessageId>, DatabaseError> {
    let sql = "INSERT INTO transactional_messages (
                   workspace_id, client_id, lead_id, topic_id, idempotency_key, request_hash, email, template_key,
                   template_version, from_email, from_name, reply_to, subject, html_body, text_body, context, envelope,
                   metadata, status, skip_reason, scheduled_at, created_at, updated_at, sequence_id, execution_id,
                   kind, audience_id, reminder, sequence_step)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
                       $21, $22, $22, $23, $24, $25, $26, $27, $28)
               ON CONFLICT (workspace_id, client_id, idempotency_key) DO NOTHING RETURNING id";
    let status = if new.skip_reason.is_some() { Status::Skipped } else { Status::Queued };
    let (inline, purpose) = (new.inline.as_ref(), &new.purpose);
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(new.client.get()),
        Param::Int(contact),
        purpose.topic.map_or(Param::Null, Param::Int),
        Param::Text(&new.key),
        Param::Text(&new.hash),
        Param::Text(new.to.as_str()),
        text(new.template.as_ref().map(|(key, _)| key)),
        new.template.as_ref().map_or(Param::Null, |(_, version)| Param::Int(*version)),
        Param::Text(&new.from_email),
        text(new.from_name.as_ref()),
        text(new.reply_to.as_ref()),
        text(inline.map(|source| &source.subject)),
        text(inline.and_then(|source| source.html.as_ref())),
        text(inline.and_then(|source| source.text.as_ref())),
        Param::Text(&new.context),
        Param::Text(&new.envelope),
        Param::Text(&new.metadata),
        Param::Text(status.as_str()),
        new.skip_reason.map_or(Param::Null, Param::Text),
        new.scheduled_at.map_or(Param::Null, |at| Param::Int(at.as_millisecond())),
        Param::Int(cx.now().as_millisecond()),
        text(purpose.sequence.as_ref()),
        text(purpose.execution.as_ref()),
        // What a reminder is, its own column says.
        Param::Text(match purpose.kind {
            Kind::Reminder => Kind::Transactional.as_str(),
            kind => kind.as_str(),
        }),
        purpose.audience.map_or(Param::Null, Param::Int),
        text(purpose.reminder.as_ref()),
        text(purpose.step.as_ref()),
    ];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let id = row.int(0)?;
    for email in &new.named {
        let sql =
            "INSERT INTO message_addresses (workspace_id, email, message_id) VALUES ($1, $2, $3)";
        let workspace = Param::Int(cx.workspace_id().get());
        tx.execute(sql, &[workspace, Param::Text(email.as_str()), Param::Int(id)])?;
    }
    Ok(Some(MessageId::from(id)))
}

fn text(text: Option<&String>) -> Param<'_> {
    text.map_or(Param::Null, |text| Param::Text(text))
}

/// What is there under a key, or was before somebody was erased whose address is in it.
pub(super) fn known(
    tx: &mut Tx<'_>,
    cx: &Cx,
    client: ClientId,
    key: &str,
) -> Result<Option<Known>, DatabaseError> {
    match known_as(tx, cx, client, key)? {
        Some(found) => Ok(Some(found)),
        None => known_before_erasure(tx, cx, client, key),
    }
}

pub(super) fn known_before_erasure(
    tx: &mut Tx<'_>,
    cx: &Cx,
    client: ClientId,
    key: &str,
) -> Result<Option<Known>, DatabaseError> {
    match contacts::erased_key(tx, cx, key)? {
        Some(key) => known_as(tx, cx, client, &key),
        None => Ok(None),
    }
}

fn known_as(
    tx: &mut Tx<'_>,
    cx: &Cx,
    client: ClientId,
    key: &str,
) -> Result<Option<Known>, DatabaseError> {
    let sql =
        "SELECT id, request_hash, status, skip_reason, scheduled_at FROM transactional_messages
               WHERE workspace_id = $1 AND client_id = $2 AND idempotency_key = $3";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(client.get()), Param::Text(key)];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Known {
        id: MessageId::from(row.int(0)?),
        hash: row.optional_text(1)?.map(str::to_owned),
        status: row.parsed(2, "a status")?,
        skip_reason: row.optional_text(3)?.map(str::to_owned),
        scheduled_at: row.optional_time(4)?,
    }))
}

/// For the worker, who knows nothing but the id.
pub(super) fn sendable(tx: &mut Tx<'_>, id: i64) -> Result<Option<Sendable>, DatabaseError> {
    let sql = "SELECT workspace_id, client_id, lead_id, topic_id, idempotency_key, email, template_key,
                      template_version, from_email, from_name, reply_to, subject, html_body, text_body, rendered_at,
                      context, envelope, attempts, logged_at, ses_message_id, status, claimed_until,
                      handed_at, scheduled_at, sequence_id, execution_id, kind, audience_id, reminder,
                      sequence_step
               FROM transactional_messages WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(id)])?;
    rows.first().map(|row| read_sendable(id, row)).transpose()
}

fn read_sendable(id: i64, row: &Row) -> Result<Sendable, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(str::to_owned));
    let template = match (text(6)?, row.optional_int(7)?) {
        (Some(key), Some(version)) => Some((key, version)),
        _ => None,
    };
    let subject = text(11)?;
    let (html, plain) = (text(12)?, text(13)?);
    let reminder = text(28)?;
    let kind = match &reminder {
        Some(_) => Kind::Reminder,
        None => row.parsed(26, "a kind of message")?,
    };
    Ok(Sendable {
        id: MessageId::from(id),
        workspace: row.int(0)?,
        client: ClientId::from(row.int(1)?),
        contact: row.int(2)?,
        purpose: Purpose {
            kind,
            topic: row.optional_int(3)?,
            audience: row.optional_int(27)?,
            sequence: text(24)?,
            execution: text(25)?,
            step: text(29)?,
            reminder,
        },
        key: row.text(4)?.to_owned(),
        email: text(5)?,
        template,
        from_email: text(8)?,
        from_name: text(9)?,
        reply_to: text(10)?,
        content: subject.map(|subject| Source { subject, html, text: plain }),
        rendered: row.optional_int(14)?.is_some(),
        context: json(row, 15)?,
        envelope: json(row, 16)?,
        attempts: row.int(17)?,
        logged_at: row.optional_time(18)?,
        provider_message_id: text(19)?,
        state: State {
            status: row.parsed(20, "a status")?,
            claimed_until: row.optional_time(21)?,
            handed_at: row.optional_time(22)?,
            scheduled_at: row.optional_time(23)?,
        },
    })
}

/// Without the bodies: a page of messages must not bring megabytes.
pub(super) const SELECT: &str =
    "SELECT id, client_id, lead_id, email, idempotency_key, template_key, template_version, from_email, from_name,
            reply_to, subject, metadata, status, skip_reason, last_error, attempts, provider, ses_message_id,
            open_count, click_count, created_at, updated_at, scheduled_at, handed_at, sent_at, delivered_at,
            bounced_at, complained_at, first_opened_at, first_clicked_at, unsubscribed_at, sequence_id, execution_id,
            reminder, sequence_step
     FROM transactional_messages";

pub(super) fn read(row: &Row) -> Result<Message, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(str::to_owned));
    Ok(Message {
        id: MessageId::from(row.int(0)?),
        client: ClientId::from(row.int(1)?),
        contact: row.int(2)?,
        email: text(3)?,
        idempotency_key: text(4)?
            .filter(|key| !key.starts_with(OWN_KEY) && !key.starts_with(ERASED_KEY)),
        template_key: text(5)?,
        template_version: row.optional_int(6)?,
        from_email: text(7)?,
        from_name: text(8)?,
        reply_to: text(9)?,
        subject: text(10)?,
        metadata: json(row, 11)?,
        sequence_id: text(31)?,
        execution_id: text(32)?,
        reminder: text(33)?,
        sequence_step: text(34)?,
        status: row.parsed(12, "a status")?,
        skip_reason: text(13)?,
        last_error: text(14)?,
        attempts: row.int(15)?,
        provider: text(16)?,
        provider_message_id: text(17)?,
        open_count: row.int(18)?,
        click_count: row.int(19)?,
        times: Times {
            created_at: row.time(20)?,
            updated_at: row.time(21)?,
            scheduled_at: row.optional_time(22)?,
            handed_at: row.optional_time(23)?,
            sent_at: row.optional_time(24)?,
            delivered_at: row.optional_time(25)?,
            bounced_at: row.optional_time(26)?,
            complained_at: row.optional_time(27)?,
            first_opened_at: row.optional_time(28)?,
            first_clicked_at: row.optional_time(29)?,
            unsubscribed_at: row.optional_time(30)?,
        },
    })
}

fn json<T: for<'a> Deserialize<'a>>(row: &Row, column: usize) -> Result<T, DatabaseError> {
    serde_json::from_str(row.text(column)?).map_err(|_| DatabaseError::Column {
        column,
        found: "other JSON",
        expected: "what this version writes there",
    })
}
