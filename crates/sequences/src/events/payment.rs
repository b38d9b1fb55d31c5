//! Reading an `invoice.paid` event: who paid what. Not here: what that means for reminders (`reminders`), which is asked for
//! with a message.

use serde_json::Value;
use tidings_jobs::contracts::{Contract as _, Pays, ReminderStep, ReminderTask, SequenceEvent};
use tidings_kernel::Workspace;

/// The longest id of a customer or an invoice.
const MAX_ID: usize = 64;
/// How products call an invoice and a customer: what features of leads understand is understood here, too.
const INVOICE: [&str; 5] =
    ["invoice_id", "invoiceId", "invoice", "invoice_number", "invoiceNumber"];
const CUSTOMER: [&str; 2] = ["customer_id", "customerId"];

/// A field that has several names.
enum Told {
    /// None of them is there.
    Nothing,
    /// One is, and what is in it is no id.
    Unreadable,
    Id(String),
}

/// The message for the reminders. `None` if it says neither who paid nor what.
///
/// What is there and cannot be read is never taken for something else: such a message names nothing, and whoever works on
/// it buries it, where an operator finds it with the id of the event. All that somebody owes is paid only by an event that
/// says so, with `everything: true`. An address is no id, and does not get into a queue.
pub(super) fn step(workspace: &Workspace, event: &SequenceEvent, data: &Value) -> Option<String> {
    let mut step = ReminderStep {
        reference: Some(event.event_id.clone()),
        occurred_at: Some(event.occurred_at),
        ..ReminderStep::new(workspace.clone(), ReminderTask::Paid)
    };
    step.amount = text(data.get("amount"), MAX_ID);
    step.currency = text(data.get("currency"), 3);
    let everything = data.get("everything") == Some(&Value::Bool(true));
    let has_amount = data.get("amount").is_some_and(|amount| !amount.is_null());
    match (told(data, &INVOICE, &['/', ':']), told(data, &CUSTOMER, &[])) {
        (Told::Nothing, Told::Nothing) if !everything => return None,
        // It could be any amount.
        _ if has_amount && step.amount.is_none() => {}
        // Whose it is, the reminders know.
        (Told::Id(invoice), customer) => {
            step.invoice_id = Some(invoice);
            step.customer_id = customer.id();
        }
        (Told::Nothing, customer) if everything => {
            let user = event.user_id.clone().filter(|id| is_id(id, &[]));
            step.customer_id = match customer {
                Told::Nothing => user,
                Told::Id(_) | Told::Unreadable => customer.id(),
            };
            step.pays = Some(Pays::Everything);
        }
        (Told::Nothing | Told::Unreadable, _) => {}
    }
    step.to_body().ok()
}

impl Told {
    fn id(self) -> Option<String> {
        match self {
            Self::Id(id) => Some(id),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

/// The first of these names that has an id.
fn told(data: &Value, names: &[&str], besides: &[char]) -> Told {
    let mut is_there = false;
    for value in names.iter().filter_map(|name| data.get(name)).filter(|value| !value.is_null()) {
        is_there = true;
        if let Some(id) = text(Some(value), MAX_ID).filter(|id| is_id(id, besides)) {
            return Told::Id(id);
        }
    }
    if is_there { Told::Unreadable } else { Told::Nothing }
}

fn text(value: Option<&Value>, most: usize) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().to_owned(),
        // A number is written as it was told, so an amount stays exact.
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty() && text.chars().count() <= most).then_some(text)
}

/// As the reminders have them.
fn is_id(text: &str, besides: &[char]) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    (1..=MAX_ID).contains(&text.len()) && text.chars().all(|c| allowed(c) || besides.contains(&c))
}
