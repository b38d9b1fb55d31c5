//! How reminders look on stdout.

use serde_json::{Map, Value, json};
use tidings_kernel::Number;
use tidings_reminders::rules::Answer;
use tidings_reminders::templates::{Preview, Template};
use tidings_reminders::{
    Currency, Draft, Invoice, Kind, Outstanding, Paid, Recorded, Report, Sent,
};

fn invoices(all: &[Invoice]) -> Value {
    all.iter()
        .map(|one| {
            json!({
                "id": one.id.as_str(),
                "amount": one.amount.map(|money| money.digits()),
                "due": one.due.map(|due| due.to_string()),
            })
        })
        .collect()
}

pub(super) fn draft(draft: &Draft) -> Value {
    let approvals: Vec<Value> = draft
        .approvals
        .iter()
        .map(|one| json!({ "by": one.by, "at": one.at.to_string(), "edition": one.edition }))
        .collect();
    json!({
        "id": draft.id.as_str(),
        "customer_id": draft.customer.as_str(),
        "customer_name": draft.name,
        "customer_email": draft.email.as_ref().map(ToString::to_string),
        "reminder_type": draft.kind.as_str(),
        "status": draft.status.as_str(),
        "reason": draft.reason,
        "overdue_amount": draft.owed.digits(),
        "currency": draft.owed.currency.as_str(),
        "invoices": invoices(&draft.invoices),
        "subject": draft.subject,
        "content": draft.content,
        "content_type": draft.content_type.as_str(),
        "template": draft.template.as_ref().map(|one| format!("{} v{}", one.id, one.version)),
        "created_by": draft.created_by,
        "created_at": draft.created_at.to_string(),
        "expires_at": draft.expires_at.to_string(),
        "edition": draft.edition,
        "hash": draft.hash,
        "approvals": approvals,
        "approvals_needed": draft.approvals_needed,
        "message_id": draft.message,
    })
}

pub(super) fn sent(sent: &Sent) -> Value {
    json!({
        "id": sent.id,
        "customer_id": sent.customer.as_str(),
        "reminder_type": sent.kind.as_str(),
        "sent_at": sent.sent_at.to_string(),
        "approved_by": sent.approved_by,
        "overdue_amount": sent.owed.digits(),
        "currency": sent.owed.currency.as_str(),
        "invoices": sent.invoices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "draft": sent.draft.as_str(),
        "message_id": sent.message,
        "delivery_status": sent.delivery.as_str(),
    })
}

pub(super) fn allowed(kind: Kind, answer: Answer) -> String {
    match answer {
        Answer::Allowed => format!("A {kind} reminder is allowed now."),
        Answer::NotBefore(at) => format!("A {kind} reminder is allowed from {at} on."),
        Answer::Needs(before) => format!("A {kind} reminder needs a {before} one before it."),
    }
}

pub(super) fn answer(kind: Kind, answer: Answer) -> Value {
    let (allowed_from, needs) = match answer {
        Answer::Allowed => (None, None),
        Answer::NotBefore(at) => (Some(at.to_string()), None),
        Answer::Needs(before) => (None, Some(before.as_str())),
    };
    json!({
        "reminder_type": kind.as_str(),
        "allowed": answer == Answer::Allowed,
        "allowed_from": allowed_from,
        "needs": needs,
    })
}

pub(super) fn payment(paid: &Paid) -> Value {
    json!({
        "customer_id": paid.customer.as_str(),
        "invoice_id": paid.invoice.as_ref().map(ToString::to_string),
        "amount": paid.money.map(|money| money.digits()),
        "currency": paid.money.map(|money| money.currency.to_string()),
        "over": paid.over.map(|money| money.digits()),
        "paid_at": paid.paid_at.to_string(),
        "reference": paid.reference,
        "recovered_after": paid.recovered_after.map(Kind::as_str),
    })
}

pub(super) fn paid(recorded: &Recorded) -> Value {
    let mut shown = payment(&recorded.payment);
    shown["left"] = json!(recorded.left.map(|money| money.digits()));
    shown["withdrawn"] = json!(recorded.withdrawn.as_ref().map(ToString::to_string));
    shown["replayed"] = json!(recorded.replayed);
    shown
}

pub(super) fn outstanding(one: &Outstanding) -> Value {
    json!({
        "customer_id": one.customer.as_str(),
        "customer_name": one.name,
        "overdue_amount": one.owed.digits(),
        "currency": one.owed.currency.as_str(),
        "since": one.since.to_string(),
        "invoices": invoices(&one.invoices),
        "open_draft": one.open.as_ref().map(ToString::to_string),
        "last_reminder_type": one.last.map(|(kind, _)| kind.as_str()),
        "last_reminder_at": one.last.map(|(_, at)| at.to_string()),
    })
}

pub(super) fn report(report: &Report) -> Value {
    let sums = |sums: &std::collections::BTreeMap<Currency, Number>| -> Value {
        let one = |(currency, amount): (&Currency, &Number)| {
            (currency.to_string(), Value::String(amount.to_string()))
        };
        Value::Object(sums.iter().map(one).collect::<Map<_, _>>())
    };
    json!({
        "outstanding": sums(&report.outstanding),
        "customers_outstanding": report.customers_outstanding,
        "recovered": sums(&report.recovered),
        "drafted": report.drafted,
        "approved": report.approved,
        "rejected": report.rejected,
        "sent": report.sent,
        "failed": report.failed,
        "expired": report.expired,
        "superseded": report.superseded,
        "withdrawn": report.withdrawn,
        "median_seconds_to_approve": report.median_time_to_approve.map(|time| time.as_secs()),
    })
}

pub(super) fn template(template: &Template) -> Value {
    json!({
        "id": template.id,
        "version": template.version,
        "name": template.name,
        "reminder_type": template.kind.map(Kind::as_str),
        "subject": template.subject,
        "body": template.body,
        "content_type": template.content_type.as_str(),
        "created_at": template.created_at.to_string(),
    })
}

pub(super) fn preview(preview: &Preview) -> Value {
    json!({
        "version": preview.version,
        "subject": preview.subject,
        "content": preview.content,
        "missing": preview.missing,
    })
}
