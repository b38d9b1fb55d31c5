//! The keys of the items, as seed 002 has them, and of what we keep besides.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tidings_kernel::{EmailAddress, Key, hex};

use crate::ids::{CustomerId, DraftId, InvoiceId, Kind, second};

pub(crate) const INDEX: &str = "GSI1";
pub(crate) const SENT: &str = "SENT#";
pub(crate) const PAID: &str = "PAID#";
pub(crate) const CUSTOMER: &str = "CUSTOMER#";
pub(crate) const VERSION: &str = "VERSION#";

/// The partition of everything about one customer.
pub(crate) fn customer(id: &CustomerId) -> String {
    format!("{CUSTOMER}{id}")
}

pub(crate) fn draft(id: &DraftId) -> Key {
    Key::new(customer(&id.customer()), format!("DRAFT#{id}"))
}

/// What every change of a customer's reminders expects unchanged.
pub(crate) fn state(id: &CustomerId) -> Key {
    Key::new(customer(id), "STATE")
}

pub(crate) fn sent_sort(at: Timestamp, kind: Kind) -> String {
    format!("{SENT}{}_{kind}", second(at))
}

pub(crate) fn sent(id: &CustomerId, sort: &str) -> Key {
    Key::new(customer(id), sort)
}

/// One payment of an invoice. No invoice has a `#` in its name.
pub(crate) fn paid(id: &CustomerId, invoice: &InvoiceId, reference: &str) -> Key {
    Key::new(customer(id), format!("{PAID}{invoice}#{reference}"))
}

/// What is left of an invoice after all that was paid of it.
pub(crate) fn account(id: &CustomerId, invoice: &InvoiceId) -> Key {
    Key::new(customer(id), format!("INVOICE#{invoice}"))
}

/// What was paid of an invoice that nobody is known to owe.
pub(crate) fn unclaimed(invoice: &InvoiceId) -> Key {
    Key::new(self::invoice(invoice), "PAID")
}

/// A payment of all that was owed. No invoice can be called so.
pub(crate) fn paid_all(id: &CustomerId, reference: &str) -> Key {
    Key::new(customer(id), format!("{PAID}*{reference}"))
}

pub(crate) fn template(id: &str) -> String {
    format!("TEMPLATE#{id}")
}

/// The tenth sorts before the second: whoever wants the newest looks at the numbers.
pub(crate) fn version(id: &str, version: i64) -> Key {
    Key::new(template(id), format!("{VERSION}{version}"))
}

/// Which version of a template is the active one.
pub(crate) fn active(id: &str) -> Key {
    Key::new(template(id), "ACTIVE")
}

pub(crate) fn settings() -> Key {
    Key::new("SETTINGS", "REMINDERS")
}

/// Who owes an invoice: for those who know the invoice only. The sort keys are partitions of customers.
pub(crate) fn invoice(id: &InvoiceId) -> String {
    format!("INVOICE#{id}")
}

/// Which customers have an address: for whoever erases it.
pub(crate) fn address(email: &EmailAddress) -> String {
    tidings_people::keys::reminded(email)
}

/// What was drafted under an idempotency key.
pub(crate) fn idempotency(key: &str) -> Key {
    Key::new(format!("KEY#{}", hex(&Sha256::digest(key))), "DRAFT")
}

/// The partition of a status in the index.
pub(crate) fn status(word: &str) -> String {
    format!("STATUS#{word}")
}

pub(crate) fn expiry_timer(id: &DraftId) -> String {
    format!("reminder/expire/{id}")
}

pub(crate) fn escalation_timer(id: &CustomerId) -> String {
    format!("reminder/next/{id}")
}
