//! Everything about one contact.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Item, Query, tables};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::profile::{Profile, time};
use super::store::{self, Known};
use super::{Contact, ContactId, Flags, Validation};
use crate::keys;
use crate::suppression::{self, Gate, Suppression};

/// So many lines of the send log are shown, the newest first.
const SENT: usize = 20;
/// So many executions, and of the relations so many rows of each kind.
const SHOWN: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Everything {
    pub contact: Contact,
    pub suppression: Option<Suppression>,
    pub identities: Vec<Identity>,
    pub subscriptions: Vec<Subscribed>,
    pub topics: Vec<TopicPreference>,
    pub executions: Vec<Execution>,
    /// The newest lines of the send log.
    pub sent: Vec<Sent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub channel: String,
    pub value: String,
    pub typed: String,
    pub validation: Validation,
    pub validation_reason: Option<String>,
    pub validated_at: Option<Timestamp>,
    pub verified_at: Option<Timestamp>,
    pub bounced_at: Option<Timestamp>,
    pub complained_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    pub audience: String,
    /// `None` if it is to the whole audience.
    pub client: Option<String>,
    pub status: String,
    pub verified_at: Option<Timestamp>,
    pub unsubscribed_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPreference {
    pub topic: String,
    pub is_on: bool,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub sequence: String,
    /// What it is known by.
    pub execution_arn: Option<String>,
    pub started_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What the message is known by: `t-101` or `c-501`.
    pub message: Option<String>,
    pub provider_message_id: Option<String>,
    pub template: Option<String>,
    pub subject: Option<String>,
    pub sequence: Option<String>,
    pub sent_at: Option<Timestamp>,
}

struct Relations {
    known: Known,
    gate: Gate,
    identities: Vec<Identity>,
    subscriptions: Vec<Subscribed>,
    topics: Vec<TopicPreference>,
}

/// `None` if nobody has this address.
pub async fn get(cx: &Cx, email: &EmailAddress) -> Result<Option<Everything>, StorageError> {
    let (within, address) = (cx.clone(), email.clone());
    let relations = cx.database().read(move |tx| relations(tx, &within, &address));
    let Some(relations) = relations.await? else { return Ok(None) };
    let items = cx.items().await?;
    let found = items.batch_get(&tables::MAIN, &relations.gate.keys(email)).await?;
    let against = relations.gate.read(email, &found);
    let flags = Flags::of(Some(&relations.known), &against);
    let profile = found.into_iter().next().flatten().map(Profile::from).unwrap_or_default();
    let of = |prefix: &str| Query::new(&tables::MAIN, keys::subscriber(email)).begins_with(prefix);
    let executions = items.query(of("EXEC#").limit(SHOWN)).await?.items;
    let sent = items.query(of("SENT#").backward().limit(SENT)).await?.items;
    Ok(Some(Everything {
        contact: Contact::new(email.clone(), &relations.known, &profile, flags),
        suppression: against.suppression,
        identities: relations.identities,
        subscriptions: relations.subscriptions,
        topics: relations.topics,
        executions: executions.iter().map(execution).collect(),
        sent: sent.iter().map(line).collect(),
    }))
}

fn execution(item: &Item) -> Execution {
    let id = item.text("sequenceId").or_else(|| item.text("SK")?.strip_prefix("EXEC#"));
    Execution {
        sequence: id.unwrap_or_default().to_owned(),
        execution_arn: item.text("executionArn").map(ToOwned::to_owned),
        started_at: time(item, "startedAt"),
    }
}

fn line(item: &Item) -> Sent {
    let text = |name: &str| item.text(name).map(ToOwned::to_owned);
    Sent {
        message: text("message"),
        provider_message_id: text("sesMessageId"),
        template: text("templateKey"),
        subject: text("subject"),
        sequence: text("sequenceId"),
        sent_at: time(item, "sentAt"),
    }
}

fn relations(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
) -> Result<Option<Relations>, DatabaseError> {
    let Some(known) = store::find(tx, cx, email)? else { return Ok(None) };
    let identities = rows_of(
        tx,
        known.id,
        &format!(
            "SELECT {IDENTITY} FROM channel_identities WHERE lead_id = $1 ORDER BY id LIMIT $2"
        ),
        identity,
    )?;
    let subscriptions = rows_of(
        tx,
        known.id,
        "SELECT a.slug, c.slug, s.status, s.verified_at, s.unsubscribed_at, s.created_at
         FROM subscriptions s JOIN audiences a ON a.id = s.audience_id LEFT JOIN clients c ON c.id = s.client_id
         WHERE s.lead_id = $1 ORDER BY s.id LIMIT $2",
        |row| {
            Ok(Subscribed {
                audience: row.text(0)?.to_owned(),
                client: row.optional_text(1)?.map(ToOwned::to_owned),
                status: row.text(2)?.to_owned(),
                verified_at: row.optional_time(3)?,
                unsubscribed_at: row.optional_time(4)?,
                created_at: row.time(5)?,
            })
        },
    )?;
    let topics = rows_of(
        tx,
        known.id,
        "SELECT t.slug, p.status, p.updated_at
         FROM topic_preferences p JOIN topics t ON t.id = p.topic_id
         WHERE p.lead_id = $1 ORDER BY t.slug LIMIT $2",
        |row| {
            Ok(TopicPreference {
                topic: row.text(0)?.to_owned(),
                is_on: row.text(1)? == "on",
                updated_at: row.time(2)?,
            })
        },
    )?;
    let gate = suppression::gate(tx, cx)?;
    Ok(Some(Relations { known, gate, identities, subscriptions, topics }))
}

/// The columns that `identity` reads.
pub(super) const IDENTITY: &str =
    "channel, value, typed_value, verified_at, bounced_at, complained_at, created_at,
    validation_status, validation_reason, validated_at";

pub(super) fn identity(row: &Row) -> Result<Identity, DatabaseError> {
    Ok(Identity {
        channel: row.text(0)?.to_owned(),
        value: row.text(1)?.to_owned(),
        typed: row.text(2)?.to_owned(),
        verified_at: row.optional_time(3)?,
        bounced_at: row.optional_time(4)?,
        complained_at: row.optional_time(5)?,
        created_at: row.time(6)?,
        validation: row.parsed(7, "a status of a validation")?,
        validation_reason: row.optional_text(8)?.map(ToOwned::to_owned),
        validated_at: row.optional_time(9)?,
    })
}

fn rows_of<T>(
    tx: &mut Tx<'_>,
    contact: ContactId,
    sql: &str,
    read: impl Fn(&Row) -> Result<T, DatabaseError>,
) -> Result<Vec<T>, DatabaseError> {
    let params = [Param::Int(contact.get()), Param::Int(SHOWN as i64)];
    tx.query(sql, &params)?.iter().map(read).collect()
}
