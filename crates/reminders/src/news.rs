//! What others are told of a change: webhooks, the audit log, and the person's timeline. All go with the transaction of the
//! change.
//!
//! Nothing told to webhooks and the log names the customer but by his id: states, amounts and hashes. The log names whoever
//! decided. Webhooks get the reason of a rejection, which is in somebody's own words. A timeline is found by the address, or by the
//! customer's id.

use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_jobs::happened::{Happened, by_customer_id, by_email};
use tidings_kernel::{EmailAddress, Number, Outgoing, Txn};
use tidings_sql::DatabaseError;
use tidings_webhooks::{Announcement, EventType, message};

use crate::ids::InvoiceId;
use crate::record::{Draft, Owed, State, Status, time};

/// Adds what others are told of it, if somebody wants to know.
pub(crate) async fn announced(
    cx: &Cx,
    txn: Txn,
    draft: &Draft,
    event_type: EventType,
) -> Result<Txn, DatabaseError> {
    let data = json!({
        "draft": draft.id.as_str(),
        "customer_id": draft.customer.as_str(),
        "reminder_type": draft.kind.as_str(),
        "status": draft.status.as_str(),
        "overdue_amount": draft.owed.digits(),
        "currency": draft.owed.currency.as_str(),
        "overdue_invoices": draft.invoices.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        "edition": draft.edition,
        "content_hash": draft.hash,
        "reason": draft.reason,
        "message_id": draft.message,
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    data.retain(|_, value| !value.is_null());
    let announcement = Announcement {
        event_id: format!("{}/{}", draft.id, draft.edition),
        event_type,
        occurred_at: cx.now(),
        data,
    };
    let told: Option<Outgoing> = message(cx, &announcement).await?;
    let told = told.into_iter().chain(happened(cx, draft, event_type));
    Ok(told.fold(txn, Txn::enqueue))
}

/// For the timeline of whoever it is for: that it was sent, or was not. What is decided before is nothing that happened to
/// him.
fn happened(cx: &Cx, draft: &Draft, event_type: EventType) -> Option<Outgoing> {
    let event_type = match event_type {
        EventType::ReminderSent => "reminder.sent",
        EventType::ReminderFailed => "reminder.failed",
        _ => return None,
    };
    let payload = json!({
        "reminder_type": draft.kind.as_str(),
        "amount": draft.owed.digits(),
        "currency": draft.owed.currency.as_str(),
        "message": draft.message,
    });
    let happened = Happened {
        event_type,
        cause: format!("{}/{}", draft.id, draft.edition),
        who: by_email(draft.email.as_ref()?.as_str()),
        at: cx.now(),
        object_id: Some(draft.id.to_string()),
        payload: payload.as_object().cloned().unwrap_or_default(),
    };
    Some(happened.to_message(cx.workspace(), cx.now()))
}

/// Why somebody owes something else than before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owing<'a> {
    /// Somebody who knows it has said what he owes.
    Noted,
    /// He paid an invoice, or everything.
    Paid(Option<&'a InvoiceId>),
}

/// Adds what his timeline is told of what he owes from now on, and of what he owes no more. It is told by his id and by his
/// address: so whoever has the address as a contact is known by the id too.
pub(crate) fn owing(cx: &Cx, txn: Txn, before: &State, after: &State, why: Owing<'_>) -> Txn {
    let has = |owed: Option<&Owed>, id: &InvoiceId| {
        owed.is_some_and(|owed| owed.invoices.iter().any(|one| one.id == *id))
    };
    let known = before.owed.iter().flat_map(|owed| &owed.invoices).map(|invoice| &invoice.id);
    let (settled, paid) = match why {
        Owing::Noted => ("invoice.cancelled", None),
        Owing::Paid(invoice) => {
            ("invoice.paid", invoice.filter(|id| !has(before.owed.as_ref(), id)))
        }
    };
    let gone = known.chain(paid).filter(|id| !has(after.owed.as_ref(), id));
    let gone: Vec<Value> = gone.map(|id| json!({ "invoice": id.as_str() })).collect();
    let mut told = Vec::new();
    if !gone.is_empty() {
        told.push((settled, json!({ "invoices": gone })));
    }
    let said = |owed: &Owed| (owed.money, owed.invoices.clone());
    if let Some(owed) = after.owed.as_ref()
        && before.owed.as_ref().map(said) != Some(said(owed))
    {
        told.push(("invoice.overdue", to_pay(owed)));
    }
    let email = after.email.as_deref().and_then(|email| email.parse::<EmailAddress>().ok());
    told.into_iter().fold(txn, |txn, (event_type, payload)| {
        let happened = Happened {
            event_type,
            // Every change of what he owes writes his state, and counts it.
            cause: format!("{}/{}", after.customer, after.rev),
            who: by_customer_id(after.customer.as_str()),
            at: cx.now(),
            object_id: None,
            payload: payload.as_object().cloned().unwrap_or_default(),
        };
        let also = email.as_ref().map(|email| by_email(email.as_str()));
        txn.enqueue(happened.to_message_of(also, cx.workspace(), cx.now()))
    })
}

/// What he owes, invoice by invoice. Where nobody says how much each is, all of it stands with the first.
fn to_pay(owed: &Owed) -> Value {
    let each = owed.invoices.iter().map(|invoice| invoice.amount.map(|money| money.amount));
    let each: Option<Vec<Number>> = each.collect();
    let sum = |each: &Vec<Number>| {
        each.iter().try_fold(Number::ZERO, |sum, amount| sum.checked_add(*amount))
    };
    let each = each
        .filter(|each| sum(each).is_ok_and(|sum| sum == owed.money.amount))
        .unwrap_or_else(|| {
            let rest = std::iter::repeat(Number::ZERO);
            std::iter::once(owed.money.amount).chain(rest).take(owed.invoices.len()).collect()
        });
    let invoices = owed.invoices.iter().zip(each).map(
        |(invoice, amount)| json!({ "invoice": invoice.id.as_str(), "amount": amount.to_string() }),
    );
    json!({
        "amount": owed.money.digits(),
        "currency": owed.money.currency.as_str(),
        "invoices": invoices.collect::<Vec<_>>(),
    })
}

/// The same of what was to be sent and was not. That something is not needed any more is no failure.
pub(crate) async fn failed(cx: &Cx, txn: Txn, draft: &Draft) -> Result<Txn, StorageError> {
    match draft.status {
        Status::Failed => Ok(announced(cx, txn, draft, EventType::ReminderFailed).await?),
        _ => Ok(txn),
    }
}

/// Adds the entry of the audit log.
pub(crate) fn audited(
    cx: &Cx,
    txn: Txn,
    action: &'static str,
    (before, after): (Option<&Draft>, &Draft),
) -> Txn {
    let change = Change::new(action, "reminder", &after.id);
    let change = match before {
        Some(before) => change.between(told(before), told(after)),
        None => change.after(told(after)),
    };
    txn.enqueue(cx.audited(&change))
}

fn told(draft: &Draft) -> Value {
    let approved_by: Vec<_> = draft.approvals.iter().map(|one| one.by.as_str()).collect();
    // Why somebody rejects is his own words, which may name anybody.
    let reason = draft.reason.as_ref().filter(|_| draft.status != Status::Rejected);
    json!({
        "status": draft.status.as_str(),
        "kind": draft.kind.as_str(),
        "edition": draft.edition,
        "hash": draft.hash,
        "amount": draft.owed.digits(),
        "currency": draft.owed.currency.as_str(),
        "invoices": draft.invoices.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        "approved_by": approved_by,
        "reason": reason,
        "decided_by": draft.decided_by,
        "created_by": draft.created_by,
        "created_at": time(draft.created_at),
        "message": draft.message,
    })
}
