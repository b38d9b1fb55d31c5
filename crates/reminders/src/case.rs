//! A customer's reminders as they are now, and how an open one ends.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, ReminderStep, ReminderTask};
use tidings_kernel::{ItemStore, Outgoing, StoreError, Timer, Txn, queues, tables};

use crate::ids::{CustomerId, DraftId, InvoiceId};
use crate::money::Money;
use crate::record::{Account, Draft, Invoice, Standing, State, Status, Unclaimed, whole};
use crate::{escalate, keys};

/// The guard, and the draft that is open.
pub(crate) struct Case {
    pub(crate) state: State,
    pub(crate) open: Option<Draft>,
}

pub(crate) async fn load(items: &dyn ItemStore, customer: &CustomerId) -> Result<Case, StoreError> {
    let state = load_state(items, customer).await?;
    let open = match &state.open {
        // It is gone once it was kept for its time.
        Some(id) => load_draft(items, id).await?.filter(|draft| draft.status.is_open()),
        None => None,
    };
    Ok(Case { state, open })
}

pub(crate) async fn load_state(
    items: &dyn ItemStore,
    customer: &CustomerId,
) -> Result<State, StoreError> {
    match items.get(&tables::EMAIL_TRACKING, &keys::state(customer)).await? {
        Some(item) => State::read(&item),
        None => Ok(State::new(customer.clone())),
    }
}

pub(crate) async fn load_draft(
    items: &dyn ItemStore,
    id: &DraftId,
) -> Result<Option<Draft>, StoreError> {
    let found = items.get(&tables::EMAIL_TRACKING, &keys::draft(id)).await?;
    found.as_ref().map(Draft::read).transpose()
}

/// Which of these invoices are paid, or so far paid that less is left than is asked for: what can be told of each. What
/// was paid of an invoice before anybody was known to owe it counts, too.
pub(crate) async fn paid_among(
    items: &dyn ItemStore,
    customer: &CustomerId,
    (sum, invoices): (&Money, &[Invoice]),
) -> Result<Vec<String>, StoreError> {
    if invoices.is_empty() {
        return Ok(Vec::new());
    }
    let of_customer = invoices.iter().map(|one| keys::account(customer, &one.id));
    let of_nobody = invoices.iter().map(|one| keys::unclaimed(&one.id));
    let wanted: Vec<_> = of_customer.chain(of_nobody).collect();
    let found = items.batch_get(&tables::EMAIL_TRACKING, &wanted).await?;
    let (known, unclaimed) = found.split_at(invoices.len());
    let mut paid = Vec::new();
    for ((invoice, known), unclaimed) in invoices.iter().zip(known).zip(unclaimed) {
        let asked = invoice.amount.or((invoices.len() == 1).then_some(*sum));
        let known = known.as_ref().map(Account::read).transpose()?;
        let unclaimed = unclaimed.as_ref().map(Unclaimed::read).transpose()?;
        let both = [known, unclaimed.map(|unclaimed| unclaimed.account())];
        for account in both.into_iter().flatten() {
            match account.standing(asked) {
                Standing::Open => continue,
                Standing::Covered => paid.push(invoice.id.to_string()),
                Standing::Less(left) => paid.push(left_of(&invoice.id, &left)),
            }
            break;
        }
    }
    Ok(paid)
}

/// What is told of an invoice that is paid in part.
pub(crate) fn left_of(invoice: &InvoiceId, left: &Money) -> String {
    format!("{invoice} ({left} is left)")
}

/// The same draft in another status. If that is its end, it is not the open one any more.
pub(crate) fn moved(
    draft: &Draft,
    state: &mut State,
    (status, reason): (Status, Option<String>),
    now: Timestamp,
) -> Draft {
    if !status.is_open() {
        state.close(&draft.id);
        escalate::hold(state, (draft, status), now);
    }
    Draft { status, reason, changed_at: whole(now), ..draft.clone() }
}

/// Writes the draft and the guard, if both are what they were. What would have let the draft expire goes with its end.
pub(crate) fn written(draft: &Draft, state: &State) -> Txn {
    let txn = draft.put(state.put(Txn::new()));
    if draft.status.is_open() { txn } else { txn.cancel_timer(keys::expiry_timer(&draft.id)) }
}

fn step(cx: &Cx, task: ReminderTask) -> ReminderStep {
    ReminderStep::new(cx.workspace().clone(), task)
}

fn body(step: &ReminderStep) -> String {
    step.to_body().expect("ids are within their bounds")
}

/// Asks the worker to do something with a draft.
pub(crate) fn ask(cx: &Cx, task: ReminderTask, draft: &DraftId) -> Outgoing {
    let step = ReminderStep { draft: Some(draft.as_str().to_owned()), ..step(cx, task) };
    Outgoing::new(&queues::REMINDER_STEPS, body(&step))
}

/// Lets a draft expire if nobody has decided by then.
pub(crate) fn expiry(cx: &Cx, draft: &Draft) -> Timer {
    let about = Some(draft.id.as_str().to_owned());
    let step = ReminderStep { draft: about, ..step(cx, ReminderTask::Expire) };
    Timer {
        key: keys::expiry_timer(&draft.id),
        due: draft.expires_at,
        queue: &queues::REMINDER_STEPS,
        body: body(&step),
    }
}

/// Goes on with everybody who owes something, after this page.
pub(crate) fn arming(cx: &Cx, cursor: Option<String>) -> Outgoing {
    let step = ReminderStep { cursor, ..step(cx, ReminderTask::Arm) };
    Outgoing::new(&queues::REMINDER_STEPS, body(&step))
}

/// Looks then whether a customer's next reminder is to be drafted.
pub(crate) fn escalation(cx: &Cx, customer: &CustomerId, due: Timestamp) -> Timer {
    let about = Some(customer.as_str().to_owned());
    let step = ReminderStep { customer_id: about, ..step(cx, ReminderTask::Escalate) };
    Timer {
        key: keys::escalation_timer(customer),
        due,
        queue: &queues::REMINDER_STEPS,
        body: body(&step),
    }
}
