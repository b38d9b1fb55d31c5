//! Money that came in: what asks for it is withdrawn, and what is owed is less.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_jobs::contracts::ReminderTask;
use tidings_kernel::{ItemStore, Query, StoreError, Txn, tables};
use tidings_people::race;

use crate::case::{self, Case};
use crate::drafting::MAX_INVOICES;
use crate::ids::{CustomerId, DraftId, InvoiceId, Kind};
use crate::keys;
use crate::money::Money;
use crate::news::{self, Owing};
use crate::owing::{self, After, Refused};
use crate::record::{Account, Draft, Invoice, Paid, Sent, State, Status, Unclaimed, whole};
use crate::wrong::{Found, Wrong, listed};
use crate::{escalate, settings};

/// The longest reference.
const MAX_REFERENCE: usize = 255;
/// So many reminders of a customer are looked at.
const LOOKED_AT: usize = 100;
/// Nobody was paid longer ago than that, or later than tomorrow.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const A_DAY: SignedDuration = SignedDuration::from_hours(24);

/// A payment. Without an invoice the customer has paid all that he owed; without an amount, all of the invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Whoever knows the invoice only leaves it out: then it is looked up among what was drafted.
    pub customer: Option<CustomerId>,
    pub invoice: Option<InvoiceId>,
    pub money: Option<Money>,
    /// Now, if it is left out.
    pub paid_at: Option<Timestamp>,
    /// What the caller's books or bank call it: told twice, it counts once. Needed without an invoice, and for every
    /// payment of an invoice but one.
    pub reference: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub payment: Paid,
    /// What is left of the invoice, if it was paid in part.
    pub left: Option<Money>,
    /// What is not sent because of it.
    pub withdrawn: Option<DraftId>,
    /// It was told before, and nothing was done now.
    pub replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PaidError {
    #[error("the payment is wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("nobody is known to owe invoice {0}: name the customer")]
    UnknownInvoice(InvoiceId),
    #[error(
        "payment {0} was told before, with another amount: each payment has a reference of its own"
    )]
    Reused(String),
    #[error("the payment could not be written")]
    Store(#[from] StorageError),
}

/// Writes a payment down, once, and withdraws the open draft that asks for it, approved or not. What is in the hands of the
/// mail core already is taken back if nobody is sending it.
pub async fn paid(cx: &Cx, payment: Payment) -> Result<Recorded, PaidError> {
    check(&payment, cx.now()).map_err(PaidError::Invalid)?;
    let items = cx.items().await?;
    let customer = whose(items.as_ref(), &payment).await?;
    for _ in 0..race::ATTEMPTS {
        let case = case::load(items.as_ref(), &customer).await.map_err(stored)?;
        let reference = reference_of(&payment);
        let key = match &payment.invoice {
            Some(invoice) => keys::paid(&customer, invoice, &reference),
            None => keys::paid_all(&customer, &reference),
        };
        let known = items.get(&tables::EMAIL_TRACKING, &key).await.map_err(stored)?;
        if let Some(known) = known {
            return replayed(items.as_ref(), Paid::read(&known).map_err(stored)?, &payment).await;
        }
        let effect = effect(items.as_ref(), &case, (&customer, &payment)).await?;
        let record = Paid {
            customer: customer.clone(),
            invoice: payment.invoice.clone(),
            reference,
            money: effect.money,
            over: effect.over,
            paid_at: whole(payment.paid_at.unwrap_or(cx.now())),
            recovered_after: reminded(items.as_ref(), &case.state, payment.invoice.as_ref())
                .await?,
        };
        let left = effect.account.left;
        let (txn, withdrawn) = to_commit(cx, &case, (&record, effect)).await?;
        match items.transact(txn).await {
            Ok(()) => {
                tracing::info!(customer = %customer, withdrawn = ?withdrawn.as_ref().map(DraftId::as_str), "A payment of customer {customer} was noted");
                return Ok(Recorded { payment: record, left, withdrawn, replayed: false });
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(stored(error)),
        }
    }
    Err(stored(StoreError::Conflict))
}

/// Keeps a payment of an invoice that nobody is known to owe, so that it is not asked for once somebody is. Told twice, it
/// counts once.
pub(crate) async fn keep(
    cx: &Cx,
    invoice: &InvoiceId,
    (reference, money): (&str, Option<Money>),
) -> Result<(), StorageError> {
    let (items, key) = (cx.items().await?, keys::unclaimed(invoice));
    for _ in 0..race::ATTEMPTS {
        let known = items.get(&tables::EMAIL_TRACKING, &key).await?;
        let known = known.as_ref().map(Unclaimed::read).transpose()?;
        let mut kept = known.unwrap_or_default();
        if !kept.add(reference, money) {
            return Ok(());
        }
        match items.transact(kept.put(Txn::new(), &key, cx.now())).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Whether somebody can have been paid then.
pub(crate) fn is_likely(at: Timestamp, now: Timestamp) -> bool {
    at.duration_since(now) <= A_DAY && now.duration_since(at) <= MAX_AGE
}

/// Without one, an invoice is paid once.
fn reference_of(payment: &Payment) -> String {
    let invoice = payment.invoice.as_ref().map(|invoice| invoice.as_str().to_owned());
    payment.reference.clone().or(invoice).unwrap_or_default()
}

async fn replayed(
    items: &dyn ItemStore,
    known: Paid,
    payment: &Payment,
) -> Result<Recorded, PaidError> {
    if payment.money.is_some_and(|money| known.money != Some(money)) {
        return Err(PaidError::Reused(known.reference));
    }
    let left = match &known.invoice {
        Some(invoice) => account(items, &known.customer, invoice).await?.left,
        None => None,
    };
    Ok(Recorded { payment: known, left, withdrawn: None, replayed: true })
}

async fn account(
    items: &dyn ItemStore,
    customer: &CustomerId,
    invoice: &InvoiceId,
) -> Result<Account, PaidError> {
    let found = items.get(&tables::EMAIL_TRACKING, &keys::account(customer, invoice)).await;
    let found = found.map_err(stored)?.as_ref().map(Account::read).transpose();
    Ok(found.map_err(stored)?.unwrap_or_default())
}

/// What the payment makes of what is owed.
async fn effect(
    items: &dyn ItemStore,
    case: &Case,
    (customer, payment): (&CustomerId, &Payment),
) -> Result<After, PaidError> {
    let owed = case.state.owed.as_ref();
    let after = match &payment.invoice {
        Some(invoice) => {
            let before = account(items, customer, invoice).await?;
            let asked = case.open.as_ref().map(Draft::asked);
            owing::pay_invoice(owed, asked, (invoice, payment.money), before)
        }
        None => owing::pay_everything(owed, payment.money).map(|(money, over)| After {
            owed: None,
            account: Account { covered: true, ..Account::default() },
            money,
            over,
        }),
    };
    after.map_err(|refused| {
        let (field, message) = match refused {
            Refused::Currency(owed) => ("currency", format!("{owed} is owed: use its currency")),
            Refused::TooLittle(owed) => {
                ("invoice_id", format!("{owed} is owed: name the invoice that a part of it is for"))
            }
        };
        PaidError::Invalid(vec![Wrong { field: field.to_owned(), message }])
    })
}

fn check(payment: &Payment, now: Timestamp) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    if payment.paid_at.is_some_and(|at| !is_likely(at, now)) {
        found.tell("paid_at", "use a time of the last ten years, and at most a day from now");
    }
    if let Some(reference) = &payment.reference {
        found.line("reference", reference, MAX_REFERENCE);
    }
    if payment.invoice.is_none() {
        if payment.customer.is_none() {
            found.tell("customer_id", "name the customer, or the invoice that he has paid");
        }
        if payment.reference.is_none() {
            found.tell(
                "reference",
                "a payment without an invoice needs one, so that it counts once",
            );
        }
    }
    found.into_result()
}

/// Who has paid.
async fn whose(items: &dyn ItemStore, payment: &Payment) -> Result<CustomerId, PaidError> {
    let invoice = match (&payment.customer, &payment.invoice) {
        (Some(customer), _) => return Ok(customer.clone()),
        (None, Some(invoice)) => invoice,
        (None, None) => return Err(PaidError::Invalid(Vec::new())),
    };
    let query = Query::new(&tables::EMAIL_TRACKING, keys::invoice(invoice))
        .begins_with(keys::CUSTOMER)
        .limit(2);
    let found = items.query(query).await.map_err(stored)?.items;
    let mut ids = found.iter().filter_map(|item| item.text("customer_id")?.parse().ok());
    match (ids.next(), ids.next()) {
        (None, _) => Err(PaidError::UnknownInvoice(invoice.clone())),
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(PaidError::Invalid(vec![Wrong {
            field: "customer_id".to_owned(),
            message: format!("several customers have an invoice {invoice}: name the one who paid"),
        }])),
    }
}

/// The last reminder that named the invoice; of a payment of everything, the last one since nothing was owed.
async fn reminded(
    items: &dyn ItemStore,
    state: &State,
    invoice: Option<&InvoiceId>,
) -> Result<Option<Kind>, PaidError> {
    let query = Query::new(&tables::EMAIL_TRACKING, keys::customer(&state.customer))
        .begins_with(keys::SENT)
        .backward()
        .limit(LOOKED_AT);
    for item in items.query(query).await.map_err(stored)?.items {
        let sent = Sent::read(&item).map_err(stored)?;
        let is_it = match invoice {
            Some(invoice) => sent.invoices.contains(invoice),
            None => state.settled.is_none_or(|settled| sent.sent_at > settled),
        };
        if is_it {
            return Ok(Some(sent.kind));
        }
    }
    Ok(None)
}

/// The payment, what is owed after it, and what is not sent because of it.
async fn to_commit(
    cx: &Cx,
    case: &Case,
    (record, effect): (&Paid, After),
) -> Result<(Txn, Option<DraftId>), PaidError> {
    let mut state = case.state.clone();
    let mut txn = record.put(Txn::new(), cx.now());
    for invoice in paid_by(&state, case.open.as_ref(), record) {
        txn = effect.account.put(txn, &keys::account(&state.customer, &invoice), cx.now());
    }
    // Who he is was not told now: he is known no longer than he is found.
    state.told_at.get_or_insert(whole(cx.now()));
    state.owed = effect.owed;
    if state.owed.is_none() {
        // Sent in this very second counts as before it.
        state.settled = Some(whole(cx.now()));
        txn = txn.cancel_timer(keys::escalation_timer(&state.customer));
    }
    let names = |draft: &&Draft| record.invoice.as_ref().is_none_or(|id| draft.names(id));
    let mut withdrawn = None;
    match case.open.as_ref().filter(names) {
        Some(draft) if draft.status == Status::Sending => {
            txn = txn.enqueue(case::ask(cx, ReminderTask::TakeBack, &draft.id));
        }
        // Also if it was paid in part: it asks for more than is left.
        Some(draft) => {
            let what = match (&record.invoice, &effect.account.left) {
                (None, _) => "everything".to_owned(),
                (Some(invoice), None) => invoice.to_string(),
                (Some(invoice), Some(left)) => case::left_of(invoice, left),
            };
            let why = (Status::Withdrawn, Some(format!("paid: {what}")));
            let after = case::moved(draft, &mut state, why, cx.now());
            txn = after.put(txn).cancel_timer(keys::expiry_timer(&draft.id));
            txn = news::audited(cx, txn, "reminder.withdraw", (Some(draft), &after));
            withdrawn = Some(draft.id.clone());
            // Of what is left the policy may remind him.
            let policy = settings::get(cx).await?.policy;
            txn = escalate::armed(cx, txn, &state, &policy);
        }
        None => {}
    }
    let digits = |money: Option<Money>| money.map(|money| money.digits());
    let change = Change::new("reminder.paid", "customer", &state.customer).after(json!({
        "invoice": record.invoice.as_ref().map(InvoiceId::as_str),
        "amount": digits(record.money),
        "currency": record.money.map(|money| money.currency.to_string()),
        "over": digits(record.over),
        "left": digits(effect.account.left),
        "withdrawn": withdrawn.as_ref().map(DraftId::as_str),
    }));
    txn = news::owing(cx, txn, &case.state, &state, Owing::Paid(record.invoice.as_ref()));
    Ok((state.put(txn).enqueue(cx.audited(&change)), withdrawn))
}

/// Whoever pays everything pays each invoice that is known: none of them is asked for again.
fn paid_by(state: &State, open: Option<&Draft>, record: &Paid) -> Vec<InvoiceId> {
    if let Some(invoice) = &record.invoice {
        return vec![invoice.clone()];
    }
    let owed = state.owed.iter().flat_map(|owed| &owed.invoices);
    let asked = open.iter().flat_map(|open| &open.invoices);
    let mut all: Vec<_> = owed.chain(asked).map(|one: &Invoice| one.id.clone()).collect();
    all.sort();
    all.dedup();
    all.truncate(MAX_INVOICES);
    all
}

fn stored(error: StoreError) -> PaidError {
    PaidError::Store(error.into())
}
