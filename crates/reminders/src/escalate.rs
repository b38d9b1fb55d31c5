//! The policy of escalation: drafts the next reminder when its time has come, and never sends one.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Map;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Cursor, EmailAddress, Invalid, StoreError, Txn};

use crate::drafting::{self, Choose, Customer, DraftError, Facts, New, Text};
use crate::ids::{CustomerId, Kind};
use crate::record::{Draft, State, Status, whole};
use crate::settings::{self, Policy};
use crate::{case, read, rules};

/// Whoever wrote what the policy wrote.
const POLICY: &str = "policy";
/// So long it waits while another draft is open, or after one came to nothing.
const A_DAY: SignedDuration = SignedDuration::from_hours(24);
/// So long after somebody rejected what it drafted, and while somebody must not be written to.
const A_WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
/// So many customers are looked at in one transaction: a timer counts twice in it.
const PAGE: usize = 25;

/// When the next reminder of a customer is to be drafted, if ever.
pub(crate) fn due(state: &State, policy: &Policy) -> Option<Timestamp> {
    let owed = state.owed.as_ref().filter(|_| policy.on)?;
    let history = state.history();
    let kind = rules::next(&history);
    let counts = |at: &Timestamp| state.settled.is_none_or(|settled| *at > settled);
    let due = match kind {
        Kind::First => {
            let due = owed.invoices.iter().filter_map(|invoice| invoice.due).min();
            let due = due.and_then(|due| due.to_zoned(TimeZone::UTC).ok());
            let due = due.map_or(owed.since, |due| due.timestamp());
            Some(rules::later(due, policy.first_after_due))
        }
        Kind::Second => Some(rules::later(history.first?, policy.second_after)),
        // After the last one there is nothing to threaten with.
        Kind::Final if history.last.as_ref().is_some_and(counts) => None,
        Kind::Final => Some(rules::later(history.second?, policy.final_after)),
    };
    due.map(|due| state.held.map_or(due, |held| due.max(held)))
}

/// A draft has ended without being sent: the policy goes on, and does not at once do again what somebody would not have.
pub(crate) fn hold(state: &mut State, (draft, ended): (&Draft, Status), now: Timestamp) {
    let wait = match ended {
        Status::Rejected if draft.created_by == POLICY => A_WEEK,
        Status::Rejected | Status::Expired | Status::Failed | Status::Withdrawn => A_DAY,
        Status::Draft | Status::Approved | Status::Sending | Status::Sent | Status::Superseded => {
            return;
        }
    };
    state.held = Some(whole(now.saturating_add(wait).unwrap_or(Timestamp::MAX)));
}

/// The policy looks at the customer when his next reminder is due, if ever.
pub(crate) fn armed(cx: &Cx, txn: Txn, state: &State, policy: &Policy) -> Txn {
    match due(state, policy) {
        Some(due) => txn.arm(case::escalation(cx, &state.customer, due.max(cx.now()))),
        None => txn,
    }
}

/// Looks at a page of those who owe something, since the policy was set, and says that it goes on with the next one. Told
/// twice, it finds the same timers.
pub(crate) async fn arm(cx: &Cx, cursor: Option<String>) -> Result<(), StorageError> {
    let policy = settings::get(cx).await?.policy;
    if !policy.on {
        return Ok(());
    }
    let items = cx.items().await?;
    let query = read::of_status("overdue").limit(PAGE).after(cursor.map(Cursor::from));
    let page = match items.query(query).await {
        // Nobody but us makes them.
        Err(StoreError::Invalid(Invalid::BadCursor)) => return Ok(()),
        page => page?,
    };
    let mut txn = Txn::new();
    for item in &page.items {
        txn = armed(cx, txn, &State::read(item)?, &policy);
    }
    if let Some(next) = page.cursor {
        txn = txn.enqueue(case::arming(cx, Some(next.as_str().to_owned())));
    }
    if txn != Txn::new() {
        items.transact(txn).await?;
    }
    Ok(())
}

/// Drafts the next reminder if it is time. `Err` with a text is what an operator has to see to.
pub(crate) async fn escalate(
    cx: &Cx,
    customer: &CustomerId,
) -> Result<Result<(), String>, StorageError> {
    let policy = settings::get(cx).await?.policy;
    let items = cx.items().await?;
    let case = case::load(items.as_ref(), customer).await?;
    let Some(due) = due(&case.state, &policy) else { return Ok(Ok(())) };
    if due > cx.now() {
        return again(cx, customer, due).await;
    }
    // What somebody else has drafted, the policy does not replace.
    if case.open.is_some() {
        return again(cx, customer, after(cx, A_DAY)).await;
    }
    let kind = rules::next(&case.state.history());
    let Some(new) = new(&case.state, kind, &policy) else { return Ok(Ok(())) };
    match drafting::draft(cx, new).await {
        Ok(_) | Err(DraftError::Paid(_) | DraftError::KeyReused(_)) => Ok(Ok(())),
        // He may be written to again some day.
        Err(DraftError::Suppressed(_)) => again(cx, customer, after(cx, A_WEEK)).await,
        Err(DraftError::TooEarly { allowed_from, .. }) => again(cx, customer, allowed_from).await,
        Err(DraftError::InProgress(_)) => again(cx, customer, after(cx, A_DAY)).await,
        Err(DraftError::Store(error)) => Err(error),
        Err(error @ (DraftError::Invalid(_) | DraftError::NeedsBefore { .. })) => {
            Ok(Err(format!("the policy could not draft for customer {customer}: {error}")))
        }
    }
}

fn after(cx: &Cx, wait: SignedDuration) -> Timestamp {
    cx.now().saturating_add(wait).unwrap_or(Timestamp::MAX)
}

async fn again(
    cx: &Cx,
    customer: &CustomerId,
    due: Timestamp,
) -> Result<Result<(), String>, StorageError> {
    let txn = Txn::new().arm(case::escalation(cx, customer, due));
    cx.items().await?.transact(txn).await?;
    Ok(Ok(()))
}

/// `None` if the person was erased.
fn new(state: &State, kind: Kind, policy: &Policy) -> Option<New> {
    let email: EmailAddress = state.email.as_deref()?.parse().ok()?;
    let owed = state.owed.as_ref()?;
    let text = match policy.template(kind) {
        Some(id) => Text::Template { id: id.to_owned(), variables: Map::new() },
        None => Text::DefaultTemplate,
    };
    let before = kind.before().and_then(|before| state.last(before));
    let after = before.map_or(owed.since, |last| last.at);
    Some(New {
        customer: Customer { id: state.customer.clone(), name: state.name.clone()?, email },
        choose: Choose::Kind(kind),
        facts: Facts { owed: owed.money, invoices: owed.invoices.clone() },
        text,
        created_by: POLICY.to_owned(),
        // Once for each time: after the one before, and after a draft of this one that came to nothing.
        idempotency_key: Some(match state.held {
            Some(held) => format!("{POLICY}/{}/{kind}/{after}/{held}", state.customer),
            None => format!("{POLICY}/{}/{kind}/{after}", state.customer),
        }),
    })
}
