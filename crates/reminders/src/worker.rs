//! The worker of `reminder-steps`: what has to happen to a reminder when nobody waits for it.
//!
//! Each task can be done twice, late, or on two nodes at once: what it finds tells whether there is something to do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, Cx, StorageError};
use tidings_delivery::transactional::Messages;
use tidings_jobs::contracts::{Pays, ReminderStep, ReminderTask};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::causes;

use crate::ids::{CustomerId, DraftId, InvoiceId};
use crate::money::Money;
use crate::pay::{self, PaidError, Payment};
use crate::send::{self, Trouble};
use crate::{escalate, outcome};

/// Steps that were worked on, by what was to be done and what became of it.
const METRIC: &str = "tidings_reminder_steps_total";
/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How long it waits for another worker that does the same.
const A_MOMENT: Duration = Duration::from_secs(2);

/// What the worker stands on.
#[derive(Clone)]
pub struct Tools {
    pub access: Access,
    pub messages: Messages,
}

#[derive(Clone)]
pub struct Worker {
    tools: Tools,
}

/// How a step ended that met no trouble with a store.
enum Done {
    Well,
    /// It cannot be done, now or later.
    Never(String),
}

impl Worker {
    pub fn new(tools: Tools) -> Self {
        Self { tools }
    }

    pub fn handler(&self) -> Arc<dyn Handler> {
        for_contract(self.clone())
    }

    async fn step(&self, step: &ReminderStep) -> Result<Done, Trouble> {
        let working = self.tools.access.working_in(&step.workspace).await;
        let Some(cx) = working.map_err(StorageError::from)? else {
            return Ok(Done::Never("a step of a reminder is of no workspace".to_owned()));
        };
        let draft = step.draft.as_deref().and_then(|id| id.parse::<DraftId>().ok());
        let customer = step.customer_id.as_deref().and_then(|id| id.parse::<CustomerId>().ok());
        match (step.task, draft, customer) {
            (ReminderTask::Send, Some(id), _) => {
                send::send(&cx, &self.tools.messages, &id).await?;
            }
            (ReminderTask::Outcome, Some(id), _) => {
                let Some(message) = step.message_id else { return Ok(incomplete()) };
                outcome::learn(&cx, &id, message).await?;
            }
            (ReminderTask::TakeBack, Some(id), _) => send::take_back(&cx, &id).await?,
            (ReminderTask::Expire, Some(id), _) => outcome::expire(&cx, &id).await?,
            (ReminderTask::Escalate, _, Some(customer)) => {
                if let Err(why) = escalate::escalate(&cx, &customer).await? {
                    return Ok(Done::Never(why));
                }
            }
            (ReminderTask::Paid, _, customer) => return paid(&cx, step, customer).await,
            (ReminderTask::Arm, _, _) => escalate::arm(&cx, step.cursor.clone()).await?,
            (_, None, _) | (_, _, None) => return Ok(incomplete()),
        }
        Ok(Done::Well)
    }
}

fn incomplete() -> Done {
    Done::Never("a step of a reminder does not say what it is about".to_owned())
}

/// Money that an event told of. What cannot be read is never taken for something else: an operator has to see to it.
async fn paid(cx: &Cx, step: &ReminderStep, customer: Option<CustomerId>) -> Result<Done, Trouble> {
    let event = step.reference.as_deref().unwrap_or("without an id");
    let never = |why: &str| Ok(Done::Never(format!("event {event} tells of a payment and {why}")));
    let invoice = step.invoice_id.as_deref().and_then(|id| id.parse::<InvoiceId>().ok());
    if step.invoice_id.is_some() != invoice.is_some()
        || step.customer_id.is_some() != customer.is_some()
    {
        return never("names an invoice or a customer that cannot be read");
    }
    let is_all = step.pays == Some(Pays::Everything) && customer.is_some();
    if invoice.is_none() && !is_all {
        return never("names no invoice that can be read, and does not say who paid everything");
    }
    let money = match (step.amount.as_deref(), step.currency.as_deref()) {
        (None, _) => None,
        (Some(amount), currency) => match Money::new(amount, currency.unwrap_or_default()) {
            Ok(money) => Some(money),
            Err(error) => return never(&format!("its amount cannot be read: {error}")),
        },
    };
    let payment = Payment {
        customer,
        invoice,
        money,
        paid_at: step.occurred_at.filter(|at| pay::is_likely(*at, cx.now())),
        reference: step.reference.clone(),
    };
    let mut told = pay::paid(cx, payment.clone()).await;
    if let Err(PaidError::UnknownInvoice(invoice)) = &told {
        // Many invoices are paid that nobody was ever reminded of, and some before anybody is.
        pay::keep(cx, invoice, (event, money)).await?;
        // Whoever was written down as owing it in the meantime has not seen it.
        told = pay::paid(cx, payment).await;
    }
    match told {
        Ok(_) | Err(PaidError::UnknownInvoice(_)) => Ok(Done::Well),
        Err(error @ (PaidError::Invalid(_) | PaidError::Reused(_))) => {
            never(&format!("it was not taken: {error}"))
        }
        Err(PaidError::Store(error)) => Err(error.into()),
    }
}

#[async_trait]
impl Work<ReminderStep> for Worker {
    async fn work(&self, step: ReminderStep) -> Outcome {
        let task = format!("{:?}", step.task).to_lowercase();
        // What is no id may be an address, and is in no log.
        let draft = step.draft.as_deref().filter(|id| id.parse::<DraftId>().is_ok());
        let customer = step.customer_id.as_deref().filter(|id| id.parse::<CustomerId>().is_ok());
        let about = draft.or(customer).unwrap_or("a payment");
        let (ended, outcome) = match self.step(&step).await {
            Ok(Done::Well) => ("done", Outcome::Done),
            Ok(Done::Never(why)) => {
                tracing::warn!(task, why, "A step of reminders cannot be done");
                ("dead", Outcome::dead(why))
            }
            Err(Trouble::Busy) => {
                ("wait", Outcome::wait(format!("{task} of {about} is worked on"), A_MOMENT))
            }
            Err(Trouble::Store(error)) => {
                let why = format!("{task} of {about} could not be done: {}", causes(&error));
                // A store that is away is no fault of the step, and uses up none of its tries.
                let passing = error.is_passing();
                let outcome =
                    if passing { Outcome::wait(why, STORE_PAUSE) } else { Outcome::retry(why) };
                ("again", outcome)
            }
        };
        metrics::counter!(METRIC, "task" => task, "outcome" => ended).increment(1);
        outcome
    }
}
