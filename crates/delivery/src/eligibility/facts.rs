//! What is known of a person when a message is about to go: one read of the relations, one of the items.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, EmailAddress, Item, ItemStore, Query, tables};
use tidings_people::consent::Status;
use tidings_people::keys;
use tidings_people::suppression::{Against, Gate, Kind};

use super::many::{self, ManyRelations};
use super::rules::{Cap, Policy};
use super::settings::Sending;
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

/// What the relations say.
pub(super) struct Relations {
    facts: Facts,
    settings: Sending,
    gate: Gate,
}

pub(super) async fn load(cx: &Cx, question: &Question) -> Result<Relations, StorageError> {
    let (within, mailing, email) = (cx.clone(), question.mailing(), question.email.clone());
    let read = cx
        .database()
        .read(move |tx| many::relations_all(tx, &within, &mailing, std::slice::from_ref(&email)));
    let mut read: ManyRelations = read.await?;
    let facts = read.facts.remove(question.email.as_str()).unwrap_or(read.nobody);
    Ok(Relations { facts, settings: read.settings, gate: read.gate })
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
        .filter(Condition::exists("sequenceId").and(Condition::not_exists("awaited")))
        .backward()
        .limit(usize::from(cap.count));
    let page = items.query(query).await?;
    let time = |item: &Item| {
        let key = item.text("SK")?.strip_prefix("SENT#")?.to_owned();
        item.text("sentAt").unwrap_or(key.get(..24)?).parse().ok()
    };
    Ok(page.items.iter().filter_map(time).collect())
}
