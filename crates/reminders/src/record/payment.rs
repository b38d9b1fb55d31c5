//! Money that came in, as an item.

use jiff::Timestamp;
use tidings_kernel::{Expect, Item, Key, StoreError, Txn, tables};

use super::Paid;
use super::values::{Reader, time, ttl};
use crate::keys;

const KEPT_DAYS: i64 = 365;

impl Paid {
    pub(crate) fn key(&self) -> Key {
        match &self.invoice {
            Some(invoice) => keys::paid(&self.customer, invoice, &self.reference),
            None => keys::paid_all(&self.customer, &self.reference),
        }
    }

    /// Writes it if it is not there. It is kept from when it was told, however long ago it was paid.
    pub(crate) fn put(&self, txn: Txn, now: Timestamp) -> Txn {
        let item = self.to_item().with("ttl", ttl(now, KEPT_DAYS));
        txn.put(&tables::EMAIL_TRACKING, item, Expect::Absent)
    }

    fn to_item(&self) -> Item {
        let mut item = tables::EMAIL_TRACKING.bare_item(&self.key());
        item.set("GSI1PK", keys::status("paid"));
        item.set("GSI1SK", time(self.paid_at));
        item.set("customer_id", self.customer.as_str());
        item.set("paid_at", time(self.paid_at));
        item.set("reference", self.reference.as_str());
        if let Some(invoice) = &self.invoice {
            item.set("invoice_id", invoice.as_str());
        }
        if let Some(money) = &self.money {
            item.set("amount", money.amount);
            item.set("currency", money.currency.as_str());
        }
        if let Some(over) = &self.over {
            item.set("over", over.amount);
        }
        if let Some(kind) = self.recovered_after {
            item.set("recovered_after", kind.as_str());
        }
        item
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let reader = Reader(item);
        Ok(Self {
            customer: reader.parsed("customer_id")?,
            invoice: item.text("invoice_id").map(|_| reader.parsed("invoice_id")).transpose()?,
            reference: reader.text("reference")?.to_owned(),
            money: item.get("amount").map(|_| reader.money("amount")).transpose()?,
            over: item.get("over").map(|_| reader.money("over")).transpose()?,
            paid_at: reader.parsed("paid_at")?,
            recovered_after: item
                .text("recovered_after")
                .map(|_| reader.parsed("recovered_after"))
                .transpose()?,
        })
    }
}
