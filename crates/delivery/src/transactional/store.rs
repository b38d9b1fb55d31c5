//! The rows of `transactional_messages`, and the statements on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{self, ContactId, ERASED_KEY};
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::copies::{self, LateCopy};
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
    /// Whether he was a contact a moment ago.
    pub(super) is_known: bool,
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

/// What tells it from all others of the workspace.
pub(super) type Name<'n> = (ClientId, &'n str);

impl New {
    pub(super) fn name(&self) -> Name<'_> {
        (self.client, &self.key)
    }
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
    pub(super) late_copies: Vec<LateCopy>,
    pub(super) state: State,
}

/// What is there under an idempotency key.
#[derive(Debug, Clone)]
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

/// Writes them down, each for the contact with its address. Tells those whose name was not taken.
pub(super) fn insert_all<'n>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contacts: &HashMap<String, ContactId>,
    all: &[&'n New],
) -> Result<HashMap<Name<'n>, MessageId>, DatabaseError> {
    let into = "INSERT INTO transactional_messages (
                    workspace_id, client_id, lead_id, topic_id, idempotency_key, request_hash, email, template_key,
                    template_version, from_email, from_name, reply_to, subject, html_body, text_body, context, envelope,
                    metadata, status, skip_reason, scheduled_at, created_at, updated_at, sequence_id, execution_id,
                    kind, audience_id, reminder, sequence_step)";
    let then = "ON CONFLICT (workspace_id, client_id, idempotency_key) DO NOTHING
                RETURNING id, client_id, idempotency_key";
    let rows = all.iter().map(|new| {
        let contact = contacts.get(new.to.as_str()).ok_or(DatabaseError::NoRow)?;
        Ok(columns(cx, *contact, new))
    });
    let rows: Vec<Vec<Param<'_>>> = rows.collect::<Result<_, DatabaseError>>()?;
    let mut ids = HashMap::new();
    for row in tx.insert_all(into, &rows, then)? {
        let name = (ClientId::from(row.int(1)?), row.text(2)?.to_owned());
        ids.insert(name, MessageId::from(row.int(0)?));
    }
    let mut made = Vec::with_capacity(ids.len());
    for new in all {
        if let Some(id) = ids.remove(&(new.client, new.key.clone())) {
            made.push((id, *new));
        }
    }
    name_others(tx, cx, &made)?;
    Ok(made.into_iter().map(|(id, new)| (new.name(), id)).collect())
}

fn columns<'n>(cx: &Cx, contact: ContactId, new: &'n New) -> Vec<Param<'n>> {
    let status = if new.skip_reason.is_some() { Status::Skipped } else { Status::Queued };
    let (inline, purpose) = (new.inline.as_ref(), &new.purpose);
    let now = Param::Int(cx.now().as_millisecond());
    vec![
        Param::Int(cx.workspace_id().get()),
        Param::Int(new.client.get()),
        Param::Int(contact.get()),
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
        now,
        now,
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
    ]
}

/// Writes down whom messages name besides, so that an erasure finds them.
fn name_others(tx: &mut Tx<'_>, cx: &Cx, made: &[(MessageId, &New)]) -> Result<(), DatabaseError> {
    let workspace = Param::Int(cx.workspace_id().get());
    let mut rows = Vec::new();
    for (id, new) in made {
        let row =
            |email| vec![workspace, Param::Text(EmailAddress::as_str(email)), Param::Int(id.get())];
        rows.extend(new.named.iter().map(row));
    }
    let into = "INSERT INTO message_addresses (workspace_id, email, message_id)";
    tx.insert_all(into, &rows, "").map(drop)
}

fn text(text: Option<&String>) -> Param<'_> {
    text.map_or(Param::Null, |text| Param::Text(text))
}

/// What is there under names, or was before somebody was erased whose address is in one.
pub(super) fn known<'n>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    names: &[Name<'n>],
) -> Result<HashMap<Name<'n>, Known>, DatabaseError> {
    let mut all = HashMap::new();
    for (client, keys) in by_client(names) {
        let mut found = known_as(tx, cx, client, &keys)?;
        all.extend(keys.iter().filter_map(|key| Some(((client, *key), found.remove(*key)?))));
    }
    let rest: Vec<Name<'n>> =
        names.iter().copied().filter(|name| !all.contains_key(name)).collect();
    all.extend(known_before_erasure(tx, cx, &rest)?);
    Ok(all)
}

pub(super) fn known_before_erasure<'n>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    names: &[Name<'n>],
) -> Result<HashMap<Name<'n>, Known>, DatabaseError> {
    let mut all = HashMap::new();
    for (client, keys) in by_client(names) {
        let kept = contacts::erased_keys(tx, cx, &keys)?;
        let hashed: Vec<&str> = kept.iter().map(|(_, hashed)| hashed.as_str()).collect();
        let mut found = known_as(tx, cx, client, &hashed)?;
        all.extend(
            kept.iter().filter_map(|(key, hashed)| Some(((client, *key), found.remove(hashed)?))),
        );
    }
    Ok(all)
}

fn by_client<'n>(names: &[Name<'n>]) -> HashMap<ClientId, Vec<&'n str>> {
    let mut keys: HashMap<ClientId, Vec<&'n str>> = HashMap::new();
    for (client, key) in names {
        keys.entry(*client).or_default().push(key);
    }
    keys
}

fn known_as(
    tx: &mut Tx<'_>,
    cx: &Cx,
    client: ClientId,
    keys: &[&str],
) -> Result<HashMap<String, Known>, DatabaseError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT m.idempotency_key, m.id, m.request_hash, m.status, m.skip_reason, m.scheduled_at
               FROM {given} JOIN transactional_messages m ON m.id = (
                   SELECT one.id FROM transactional_messages one
                   WHERE one.workspace_id = $1 AND one.client_id = $2 AND one.idempotency_key = given.value)";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(client.get())];
    let rows = tx.query_among(sql, &params, Among::Texts(keys))?;
    let read = |row: &Row| {
        let known = Known {
            id: MessageId::from(row.int(1)?),
            hash: row.optional_text(2)?.map(str::to_owned),
            status: row.parsed(3, "a status")?,
            skip_reason: row.optional_text(4)?.map(str::to_owned),
            scheduled_at: row.optional_time(5)?,
        };
        Ok((row.text(0)?.to_owned(), known))
    };
    rows.iter().map(read).collect()
}

/// For the worker, who knows nothing but the id.
pub(super) fn sendable(tx: &mut Tx<'_>, id: i64) -> Result<Option<Sendable>, DatabaseError> {
    let sql = "SELECT workspace_id, client_id, lead_id, topic_id, idempotency_key, email, template_key,
                      template_version, from_email, from_name, reply_to, subject, html_body, text_body, rendered_at,
                      context, envelope, attempts, logged_at, ses_message_id, status, claimed_until,
                      handed_at, scheduled_at, sequence_id, execution_id, kind, audience_id, reminder,
                      sequence_step, late_copies, given_up_at, not_before
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
        late_copies: copies::read(row.optional_text(30)?)?,
        state: State {
            status: row.parsed(20, "a status")?,
            claimed_until: row.optional_time(21)?,
            handed_at: row.optional_time(22)?,
            scheduled_at: row.optional_time(23)?,
            not_before: row.optional_time(32)?,
            is_given_up: row.optional_int(31)?.is_some(),
        },
    })
}

/// Without the bodies: a page of messages must not bring megabytes.
pub(super) const SELECT: &str =
    "SELECT id, client_id, lead_id, email, idempotency_key, template_key, template_version, from_email, from_name,
            reply_to, subject, metadata, status, skip_reason, last_error, attempts, provider, ses_message_id,
            open_count, click_count, created_at, updated_at, scheduled_at, handed_at, sent_at, delivered_at,
            bounced_at, complained_at, first_opened_at, first_clicked_at, unsubscribed_at, sequence_id, execution_id,
            reminder, sequence_step, late_copies
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
        late_copies: copies::read(row.optional_text(35)?)?,
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
