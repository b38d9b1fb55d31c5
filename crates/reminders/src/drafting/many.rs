//! Lists of overdue customers: each is drafted, or noted, by himself.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{StoreError, Txn};
use tidings_people::race;

use super::{
    Customer, DraftError, Drafted, Facts, New, check, draft, found_by, owes, refuse_paid, stored,
};
use crate::ids::CustomerId;
use crate::record::Owed;
use crate::settings::{self, Settings};
use crate::{case, escalate, news};

/// The most customers of one list.
pub const MAX_ROWS: usize = 500;

/// What a customer owes, without a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    pub customer: Customer,
    pub facts: Facts,
}

/// Somebody of a list for whom no draft was made, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which of them, from 0.
    pub row: usize,
    pub customer: CustomerId,
    /// A word: `too_early`, `needs_before`, `paid`, `suppressed`, `in_progress`, `invalid`, `duplicate`, `key_reused`.
    pub reason: &'static str,
    pub detail: String,
    pub allowed_from: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BulkReport {
    pub drafted: Vec<Drafted>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    #[error("use 1 to {MAX_ROWS} customers")]
    Count,
    /// Those before it are drafted; asking again with the same idempotency keys goes on.
    #[error("the list could not be worked through")]
    Store(#[from] StorageError),
}

/// The same for a list of overdue customers, each by himself: the report says who was left out and why.
pub async fn draft_many(cx: &Cx, rows: Vec<New>) -> Result<BulkReport, BulkError> {
    if !(1..=MAX_ROWS).contains(&rows.len()) {
        return Err(BulkError::Count);
    }
    let (mut report, mut seen) = (BulkReport::default(), HashSet::new());
    for (row, new) in rows.into_iter().enumerate() {
        let customer = new.customer.id.clone();
        if !seen.insert(customer.clone()) {
            report.left_out.push(LeftOut::twice(row, customer));
            continue;
        }
        match draft(cx, new).await {
            Ok(drafted) => report.drafted.push(drafted),
            Err(DraftError::Store(error)) => return Err(error.into()),
            Err(error) => report.left_out.push(LeftOut::because(row, customer, &error)),
        }
    }
    Ok(report)
}

/// Writes down what customers owe, without drafting anything now. If the policy of escalation is on, it drafts in time.
/// Tells who was left out and why.
pub async fn note_overdue(cx: &Cx, rows: Vec<Overdue>) -> Result<BulkReport, BulkError> {
    if !(1..=MAX_ROWS).contains(&rows.len()) {
        return Err(BulkError::Count);
    }
    let settings = settings::get(cx).await?;
    let (mut report, mut seen) = (BulkReport::default(), HashSet::new());
    for (row, overdue) in rows.into_iter().enumerate() {
        let customer = overdue.customer.id.clone();
        if !seen.insert(customer.clone()) {
            report.left_out.push(LeftOut::twice(row, customer));
            continue;
        }
        match note(cx, &overdue, &settings).await {
            Ok(()) => {}
            Err(DraftError::Store(error)) => return Err(error.into()),
            Err(error) => report.left_out.push(LeftOut::because(row, customer, &error)),
        }
    }
    Ok(report)
}

async fn note(cx: &Cx, overdue: &Overdue, settings: &Settings) -> Result<(), DraftError> {
    check::overdue(overdue).map_err(DraftError::Invalid)?;
    let items = cx.items().await?;
    let customer = &overdue.customer.id;
    for _ in 0..race::ATTEMPTS {
        let mut state = case::load_state(items.as_ref(), customer).await.map_err(stored)?;
        refuse_paid(items.as_ref(), customer, &overdue.facts).await?;
        let before = state.clone();
        owes(&mut state, &overdue.customer, &overdue.facts, cx.now());
        let mut txn = found_by(state.put(Txn::new()), &overdue.customer, &overdue.facts, cx.now());
        txn = news::owing(cx, txn, &before, &state, news::Owing::Noted);
        txn = escalate::armed(cx, txn, &state, &settings.policy);
        let (before, after) = (before.owed.as_ref().map(told), state.owed.as_ref().map(told));
        // The books say the same every night.
        if before != after {
            let change = Change::new("reminder.overdue", "customer", customer);
            let change = change.between(before.unwrap_or_default(), after.unwrap_or_default());
            txn = txn.enqueue(cx.audited(&change));
        }
        match items.transact(txn).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(stored(error)),
        }
    }
    Err(stored(StoreError::Conflict))
}

/// What is owed, for the audit log: nobody's name.
fn told(owed: &Owed) -> Value {
    json!({
        "amount": owed.money.digits(),
        "currency": owed.money.currency.as_str(),
        "invoices": owed.invoices.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
    })
}

impl LeftOut {
    fn twice(row: usize, customer: CustomerId) -> Self {
        let detail = "the list has this customer before".to_owned();
        Self { row, customer, reason: "duplicate", detail, allowed_from: None }
    }

    fn because(row: usize, customer: CustomerId, error: &DraftError) -> Self {
        let allowed_from = match error {
            DraftError::TooEarly { allowed_from, .. } => Some(*allowed_from),
            _ => None,
        };
        Self { row, customer, reason: error.reason(), detail: error.to_string(), allowed_from }
    }
}
