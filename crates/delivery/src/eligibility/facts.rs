//! What is known of a person when a message is about to go: one read of the relations, one of the items.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::{Condition, EmailAddress, Item, ItemStore, Query, tables};
use tidings_people::consent::{AudienceId, Status, TopicId};
use tidings_people::keys;
use tidings_people::suppression::{self, Against, Gate, Kind};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::rules::{Cap, Policy};
use super::settings::{self, Sending};
use super::{Question, Reason};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact, and none follows from another")]
pub struct Facts {
    /// Whether there is a contact with this address.
    pub known: bool,
    pub suppressed: Option<Reason>,
    pub erased_at: Option<Timestamp>,
    /// Since when he wants nothing but transactional mail, as the relation has it.
    pub unsubscribed_at: Option<Timestamp>,
    /// The same, as his profile has it. Either is enough.
    pub unsubscribed_mark: bool,
    /// His subscription to the whole audience.
    pub audience_wide: Option<Standing>,
    /// His subscription to this client's part of it.
    pub client_part: Option<Standing>,
    /// Whether the audience wants confirmed subscriptions.
    pub double_opt_in: bool,
    pub topic_off: bool,
    /// What was found out of the address.
    pub invalid: bool,
    pub verified: bool,
    pub zone: Option<TimeZone>,
    /// When marketing mail was sent to him within the window of the cap, the newest first.
    pub sent: Vec<Timestamp>,
}

/// How a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub status: Status,
    pub verified: bool,
    pub agreed_at: Option<Timestamp>,
    pub unsubscribed_at: Option<Timestamp>,
}

/// What the relations say, read in somebody's transaction.
pub(crate) struct Relations {
    facts: Facts,
    settings: Sending,
    gate: Gate,
}

pub(crate) fn relations(
    tx: &mut Tx<'_>,
    cx: &Cx,
    question: &Question,
) -> Result<Relations, DatabaseError> {
    Ok(Relations {
        facts: from_relations(tx, cx, question)?,
        gate: suppression::gate(tx, cx)?,
        settings: settings::load(tx, cx)?,
    })
}

pub(super) async fn load(cx: &Cx, question: &Question) -> Result<Relations, StorageError> {
    let (within, asked) = (cx.clone(), question.clone());
    Ok(cx.database().read(move |tx| relations(tx, &within, &asked)).await?)
}

/// What the items say besides.
pub(super) async fn complete(
    cx: &Cx,
    question: &Question,
    Relations { mut facts, settings, gate }: Relations,
) -> Result<(Facts, Policy), StorageError> {
    let policy = settings.policy();
    let against = gate.look(cx, &question.email).await?;
    facts.unsubscribed_mark = against.unsubscribed;
    facts.suppressed = suppressed(&against);
    if let Some(cap) = policy.cap.filter(|_| question.kind.is_marketing()) {
        facts.sent = sent(cx.items().await?.as_ref(), &question.email, cap, cx.now()).await?;
    }
    Ok((facts, policy))
}

fn from_relations(tx: &mut Tx<'_>, cx: &Cx, question: &Question) -> Result<Facts, DatabaseError> {
    let workspace = Param::Int(cx.workspace_id().get());
    let mut facts = Facts::default();
    if let Some(audience) = question.audience {
        let sql = "SELECT double_opt_in FROM audiences WHERE workspace_id = $1 AND id = $2";
        let rows = tx.query(sql, &[workspace, Param::Int(audience.get())])?;
        facts.double_opt_in = rows.first().map_or(Ok(0), |row| row.int(0))? == 1;
    }
    let sql = "SELECT l.id, l.unsubscribed_at, l.erased_at, l.timezone, i.validation_status, i.verified_at
               FROM channel_identities i
               JOIN leads l ON l.workspace_id = i.workspace_id AND l.id = i.lead_id
               WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
    let rows = tx.query(sql, &[workspace, Param::Text(question.email.as_str())])?;
    let Some(row) = rows.first() else { return Ok(facts) };
    let contact = Param::Int(row.int(0)?);
    facts.known = true;
    facts.unsubscribed_at = row.optional_time(1)?;
    facts.erased_at = row.optional_time(2)?;
    facts.zone = zone(row.optional_text(3)?);
    facts.invalid = row.text(4)? == "invalid";
    facts.verified = row.optional_time(5)?.is_some();
    if let Some(audience) = question.audience {
        (facts.audience_wide, facts.client_part) =
            standings(tx, [workspace, contact], audience, question.client)?;
    }
    if let Some(topic) = question.topic {
        facts.topic_off = is_off(tx, [workspace, contact], topic)?;
    }
    Ok(facts)
}

type Standings = (Option<Standing>, Option<Standing>);

fn standings(
    tx: &mut Tx<'_>,
    [workspace, contact]: [Param<'_>; 2],
    audience: AudienceId,
    client: ClientId,
) -> Result<Standings, DatabaseError> {
    let sql = "SELECT client_id, status, verified_at, agreed_at, unsubscribed_at FROM subscriptions
               WHERE workspace_id = $1 AND lead_id = $2 AND audience_id = $3
                 AND (client_id = $4 OR client_id IS NULL)";
    let params = [workspace, contact, Param::Int(audience.get()), Param::Int(client.get())];
    let (mut whole, mut part) = (None, None);
    for row in tx.query(sql, &params)? {
        let standing = Standing {
            status: row.parsed(1, "the status of a subscription")?,
            verified: row.optional_time(2)?.is_some(),
            agreed_at: row.optional_time(3)?,
            unsubscribed_at: row.optional_time(4)?,
        };
        match row.optional_int(0)? {
            None => whole = Some(standing),
            Some(_) => part = Some(standing),
        }
    }
    Ok((whole, part))
}

fn is_off(
    tx: &mut Tx<'_>,
    [workspace, contact]: [Param<'_>; 2],
    topic: TopicId,
) -> Result<bool, DatabaseError> {
    let sql = "SELECT status FROM topic_preferences
               WHERE workspace_id = $1 AND lead_id = $2 AND topic_id = $3";
    let rows = tx.query(sql, &[workspace, contact, Param::Int(topic.get())])?;
    let status = rows.first().map(|row: &Row| row.text(0)).transpose()?;
    Ok(status == Some("off"))
}

/// Somebody may have written what is no zone. He gets the workspace's.
pub(super) fn zone(name: Option<&str>) -> Option<TimeZone> {
    name.and_then(|name| TimeZone::get(name).ok())
}

pub(super) fn suppressed(against: &Against) -> Option<Reason> {
    match &against.suppression {
        Some(suppression) => Some(match suppression.kind {
            // Nobody could be reached, once for ever or again and again: to a sender it is the same.
            Kind::Permanent | Kind::Transient => Reason::HardBounce,
            Kind::Complaint => Reason::Complaint,
            Kind::Manual => Reason::Manual,
        }),
        // Nobody knows why any more, and that is reason enough.
        None => against.flagged.then_some(Reason::HardBounce),
    }
}

/// No more of the send log than the cap needs, however long it is.
pub(super) async fn sent(
    items: &dyn ItemStore,
    email: &EmailAddress,
    cap: Cap,
    now: Timestamp,
) -> Result<Vec<Timestamp>, StorageError> {
    let line = |at| keys::sent(email, at).sort.unwrap_or_default();
    // Only what a sequence or a campaign sent counts: the line says which. What is sent in this very millisecond counts,
    // whatever follows the time in its key.
    let query = Query::new(&tables::MAIN, keys::subscriber(email))
        .between(line(cap.since(now)), format!("{}~", line(now)))
        .filter(Condition::exists("sequenceId"))
        .backward()
        .limit(usize::from(cap.count));
    let page = items.query(query).await?;
    let time = |item: &Item| {
        let key = item.text("SK")?.strip_prefix("SENT#")?.to_owned();
        item.text("sentAt").unwrap_or(key.get(..24)?).parse().ok()
    };
    Ok(page.items.iter().filter_map(time).collect())
}
