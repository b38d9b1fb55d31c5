//! Making a draft: from a template with the facts of the invoices, or in somebody's own words.

mod check;
mod many;
mod text;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, ItemStore, Key, StoreError, Txn, tables,
};
use tidings_people::race;
use tidings_webhooks::EventType;

use crate::case::{self, Case};
use crate::ids::{CustomerId, DraftId, Kind};
use crate::money::Money;
use crate::record::{
    ContentType, Draft, FOUND_DAYS, Invoice, Owed, State, Status, damaged, hash_of, ttl, whole,
};
use crate::rules::{self, Answer};
use crate::settings::{self, Settings};
use crate::wrong::{Wrong, listed};
use crate::{keys, news, send};

pub use check::{MAX_CONTENT, MAX_INVOICES};
pub(crate) use check::{content as check_content, facts as check_facts, is_bidi, lines};
pub use many::{BulkError, BulkReport, LeftOut, MAX_ROWS, Overdue, draft_many, note_overdue};
use text::Written;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    pub id: CustomerId,
    pub name: String,
    pub email: EmailAddress,
}

/// What a customer owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub owed: Money,
    /// 1 to 50.
    pub invoices: Vec<Invoice>,
}

/// Which reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choose {
    Kind(Kind),
    /// The one that comes next for this customer.
    Next,
}

/// What it says.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// Exactly this. It is no template.
    Written { subject: String, content: String, content_type: ContentType },
    /// The active version of a template, with variables besides those that every template has.
    Template { id: String, variables: Map<String, Value> },
    /// The template that the settings name for this kind, else the active one of its type.
    DefaultTemplate,
}

#[derive(Debug, Clone, PartialEq)]
pub struct New {
    pub customer: Customer,
    pub choose: Choose,
    pub facts: Facts,
    pub text: Text,
    /// The person, program or agent that wrote it.
    pub created_by: String,
    /// With the same key the same draft is made once.
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafted {
    pub draft: Draft,
    /// It was there already.
    pub replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    #[error("the draft was not made: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("a {kind} reminder is allowed from {allowed_from} on")]
    TooEarly { kind: Kind, allowed_from: Timestamp },
    #[error("a {kind} reminder needs a {needs} one before it")]
    NeedsBefore { kind: Kind, needs: Kind },
    #[error("paid already: {}", .0.join(", "))]
    Paid(Vec<String>),
    #[error("the customer must not be written to: {0}")]
    Suppressed(&'static str),
    #[error("draft {0} of this customer is approved or being sent")]
    InProgress(DraftId),
    #[error("this idempotency key was used for another draft: {0}")]
    KeyReused(DraftId),
    #[error("the draft could not be written")]
    Store(#[from] StorageError),
}

/// Writes a draft down, which waits for somebody to approve it. An unapproved one of the same customer is superseded.
pub async fn draft(cx: &Cx, new: New) -> Result<Drafted, DraftError> {
    check::new(&new).map_err(DraftError::Invalid)?;
    let items = cx.items().await?;
    let settings = settings::get(cx).await?;
    let hash = check::fingerprint(&new);
    for _ in 0..race::ATTEMPTS {
        if let Some(known) = known(items.as_ref(), &new, &hash).await? {
            return Ok(known);
        }
        let case = case::load(items.as_ref(), &new.customer.id).await.map_err(stored)?;
        let kind = decide(cx, items.as_ref(), &case, (&new, &settings)).await?;
        let written = text::write(cx, &new, kind, &settings).await?;
        let id = free_id(items.as_ref(), &new.customer.id, cx.now()).await.map_err(stored)?;
        let draft = make(cx, &new, (id, kind), written, &settings);
        let txn = to_commit(cx, &new, &case, &draft);
        let txn = match &new.idempotency_key {
            Some(key) => {
                // One that is past its time may not be swept yet.
                let free = Condition::not_exists("draft")
                    .or(Condition::Le("ttl".into(), cx.now().as_second().into()));
                let mark = marked(key, &hash, &draft);
                txn.put(&tables::EMAIL_TRACKING, mark, Expect::That(free))
            }
            None => txn,
        };
        let requested = EventType::ApprovalRequested;
        let txn = news::announced(cx, txn, &draft, requested).await.map_err(StorageError::from)?;
        match items.transact(txn).await {
            Ok(()) => {
                tracing::info!(draft = %draft.id, kind = %draft.kind, "Reminder {} was drafted", draft.id);
                return Ok(Drafted { draft: Draft { rev: 1, ..draft }, replayed: false });
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(stored(error)),
        }
    }
    Err(stored(StoreError::Conflict))
}

/// What was drafted under the same key before.
async fn known(
    items: &dyn ItemStore,
    new: &New,
    hash: &str,
) -> Result<Option<Drafted>, DraftError> {
    let Some(key) = &new.idempotency_key else { return Ok(None) };
    let found =
        items.get(&tables::EMAIL_TRACKING, &keys::idempotency(key)).await.map_err(stored)?;
    let Some(found) = found else { return Ok(None) };
    let id = found.text("draft").and_then(|id| id.parse::<DraftId>().ok());
    let id = id.ok_or_else(|| stored(damaged("draft")))?;
    if found.text("request_hash") != Some(hash) {
        return Err(DraftError::KeyReused(id));
    }
    let draft = case::load_draft(items, &id).await.map_err(stored)?;
    Ok(draft.map(|draft| Drafted { draft, replayed: true }))
}

/// Which reminder it is, if it may be drafted.
async fn decide(
    cx: &Cx,
    items: &dyn ItemStore,
    case: &Case,
    (new, settings): (&New, &Settings),
) -> Result<Kind, DraftError> {
    if let Some(open) = case.open.as_ref().filter(|open| open.status != Status::Draft) {
        return Err(DraftError::InProgress(open.id.clone()));
    }
    refuse_paid(items, &new.customer.id, &new.facts).await?;
    let history = case.state.history();
    let kind = match new.choose {
        Choose::Kind(kind) => kind,
        Choose::Next => rules::next(&history),
    };
    match rules::ask(&history, &settings.days, kind, cx.now()) {
        Answer::Allowed => {}
        Answer::NotBefore(allowed_from) => return Err(DraftError::TooEarly { kind, allowed_from }),
        Answer::Needs(needs) => return Err(DraftError::NeedsBefore { kind, needs }),
    }
    // Which client sends it makes no difference to who must not be written to.
    let client = settings.find_client(cx).await?.unwrap_or_else(|| ClientId::from(0));
    match send::refusal(cx, &new.customer.email, client).await? {
        Some(reason) => Err(DraftError::Suppressed(reason)),
        None => Ok(kind),
    }
}

async fn refuse_paid(
    items: &dyn ItemStore,
    customer: &CustomerId,
    facts: &Facts,
) -> Result<(), DraftError> {
    let asked = (&facts.owed, facts.invoices.as_slice());
    let paid = case::paid_among(items, customer, asked).await.map_err(stored)?;
    if paid.is_empty() { Ok(()) } else { Err(DraftError::Paid(paid)) }
}

/// The first second that no draft of the customer has.
async fn free_id(
    items: &dyn ItemStore,
    customer: &CustomerId,
    now: Timestamp,
) -> Result<DraftId, StoreError> {
    let mut at = now;
    loop {
        let id = DraftId::new(customer, at);
        if items.get(&tables::EMAIL_TRACKING, &keys::draft(&id)).await?.is_none() {
            return Ok(id);
        }
        at = at.saturating_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
    }
}

fn make(
    cx: &Cx,
    new: &New,
    (id, kind): (DraftId, Kind),
    written: Written,
    settings: &Settings,
) -> Draft {
    let now = whole(cx.now());
    let mut draft = Draft {
        id,
        customer: new.customer.id.clone(),
        name: Some(new.customer.name.trim().to_owned()),
        email: Some(new.customer.email.clone()),
        subject: Some(written.subject),
        content: Some(written.content),
        content_type: written.content_type,
        kind,
        status: Status::Draft,
        reason: None,
        created_at: now,
        created_by: new.created_by.clone(),
        owed: new.facts.owed,
        invoices: new.facts.invoices.clone(),
        template: written.template,
        hash: String::new(),
        edition: 1,
        approvals: Vec::new(),
        approvals_needed: settings.approvals_needed(&new.facts.owed),
        approved_at: None,
        decided_by: None,
        expires_at: rules::later(now, settings.draft_expires_after),
        changed_at: now,
        message: None,
        sent: None,
        editions: Vec::new(),
        before: None,
        client: None,
        sender: None,
        rev: 0,
    };
    draft.hash = hash_of(&draft);
    draft
}

fn to_commit(cx: &Cx, new: &New, case: &Case, draft: &Draft) -> Txn {
    let mut state = case.state.clone();
    owes(&mut state, &new.customer, &new.facts, cx.now());
    state.open = Some(draft.id.clone());
    let mut txn = case::written(draft, &state).arm(case::expiry(cx, draft));
    txn = found_by(txn, &new.customer, &new.facts, cx.now());
    txn = news::audited(cx, txn, "reminder.draft", (None, draft));
    txn = news::owing(cx, txn, &case.state, &state, news::Owing::Noted);
    if let Some(open) = &case.open {
        let reason = Some(format!("draft {} took its place", draft.id));
        let mut unused = state.clone();
        let gone = case::moved(open, &mut unused, (Status::Superseded, reason), cx.now());
        txn = gone.put(txn).cancel_timer(keys::expiry_timer(&open.id));
        txn = news::audited(cx, txn, "reminder.supersede", (Some(open), &gone));
    }
    txn
}

/// From now on he owes this.
pub(crate) fn owes(state: &mut State, customer: &Customer, facts: &Facts, now: Timestamp) {
    state.told_at = Some(whole(now));
    state.name = Some(customer.name.trim().to_owned());
    state.email = Some(customer.email.typed().to_owned());
    let due = facts.invoices.iter().filter_map(|invoice| invoice.due).min();
    let due = due.and_then(|due| due.to_zoned(TimeZone::UTC).ok()).map(|due| due.timestamp());
    let since = state.owed.as_ref().map(|owed| owed.since).or(due).unwrap_or(now);
    let (money, invoices) = (facts.owed, facts.invoices.clone());
    state.owed = Some(Owed { money, since: whole(since), invoices });
}

/// The items by which a customer is found by an invoice or an address of his.
pub(crate) fn found_by(txn: Txn, customer: &Customer, facts: &Facts, now: Timestamp) -> Txn {
    let sort = keys::customer(&customer.id);
    let invoices = facts.invoices.iter().map(|invoice| keys::invoice(&invoice.id));
    let partitions = invoices.chain([keys::address(&customer.email)]);
    partitions.fold(txn, |txn, partition| {
        let item = tables::EMAIL_TRACKING
            .bare_item(&Key::new(partition, sort.as_str()))
            .with("customer_id", customer.id.as_str())
            .with("ttl", ttl(now, FOUND_DAYS));
        txn.put(&tables::EMAIL_TRACKING, item, Expect::Anything)
    })
}

fn marked(key: &str, hash: &str, draft: &Draft) -> Item {
    tables::EMAIL_TRACKING
        .bare_item(&keys::idempotency(key))
        .with("draft", draft.id.as_str())
        .with("request_hash", hash)
        .with("ttl", ttl(draft.created_at, 30))
}

fn stored(error: StoreError) -> DraftError {
    DraftError::Store(error.into())
}

impl DraftError {
    /// A word for reports and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::TooEarly { .. } => "too_early",
            Self::NeedsBefore { .. } => "needs_before",
            Self::Paid(_) => "paid",
            Self::Suppressed(_) => "suppressed",
            Self::InProgress(_) => "in_progress",
            Self::KeyReused(_) => "key_reused",
            Self::Store(_) => "store",
        }
    }
}
