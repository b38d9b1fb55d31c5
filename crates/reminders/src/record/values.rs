//! Values of items as ours, and ours as values. What cannot be read is damage, and told as such.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{Item, Number, StoreError, Value};

use crate::ids::InvoiceId;
use crate::money::{Currency, Money};
use crate::record::Invoice;

/// `2025-09-21T14:30:22Z`: whole seconds, which sort as they read.
pub(crate) fn time(at: Timestamp) -> String {
    format!("{:.0}", whole(at))
}

/// Without the part of a second, which no record has.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The second from which something is gone.
pub(crate) fn ttl(at: Timestamp, days: i64) -> i64 {
    at.saturating_add(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MAX).as_second()
}

pub(crate) fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt(Box::new(std::io::Error::other(format!(
        "a reminder has no readable {what}"
    ))))
}

/// Reads the attributes of one item.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a Item);

impl<'a> Reader<'a> {
    pub(super) fn text(self, name: &str) -> Result<&'a str, StoreError> {
        self.0.text(name).ok_or_else(|| damaged(name))
    }

    pub(super) fn optional(self, name: &str) -> Option<String> {
        self.0.text(name).map(ToOwned::to_owned)
    }

    pub(super) fn integer(self, name: &str) -> Result<i64, StoreError> {
        self.0.integer(name).ok_or_else(|| damaged(name))
    }

    pub(super) fn parsed<T: std::str::FromStr>(self, name: &str) -> Result<T, StoreError> {
        self.0.text(name).and_then(|text| text.parse().ok()).ok_or_else(|| damaged(name))
    }

    pub(super) fn optional_time(self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        self.0.text(name).map(|text| text.parse().map_err(|_| damaged(name))).transpose()
    }

    pub(super) fn money(self, amount: &str) -> Result<Money, StoreError> {
        let number = self.0.get(amount).and_then(Value::as_number);
        let amount = number.ok_or_else(|| damaged(amount))?;
        Ok(Money { amount, currency: self.parsed("currency")? })
    }

    pub(super) fn list(self, name: &str) -> &'a [Value] {
        match self.0.get(name) {
            Some(Value::L(list)) => list,
            _ => &[],
        }
    }

    pub(super) fn texts(self, name: &str) -> Vec<String> {
        self.list(name).iter().filter_map(|value| value.as_text().map(ToOwned::to_owned)).collect()
    }
}

pub(crate) fn time_of(map: &BTreeMap<String, Value>, name: &str) -> Option<Timestamp> {
    map.get(name)?.as_text()?.parse().ok()
}

pub(super) fn text_of(map: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    map.get(name)?.as_text().map(ToOwned::to_owned)
}

pub(super) fn number_of(map: &BTreeMap<String, Value>, name: &str) -> Option<Number> {
    map.get(name)?.as_number()
}

pub(super) fn map(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::M(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(super) fn texts<T: ToString>(texts: impl IntoIterator<Item = T>) -> Value {
    Value::L(texts.into_iter().map(|text| Value::S(text.to_string())).collect())
}

/// The facts of invoices, which the seed has no place for.
pub(super) fn invoices(invoices: &[Invoice]) -> Value {
    let one = |invoice: &Invoice| {
        let mut fields = vec![("id", invoice.id.as_str().into())];
        fields.extend(invoice.amount.map(|money| ("amount", money.amount.into())));
        fields.extend(invoice.due.map(|due| ("due", due.to_string().into())));
        map(fields)
    };
    Value::L(invoices.iter().map(one).collect())
}

pub(super) fn read_invoices(
    reader: Reader<'_>,
    name: &str,
    currency: Currency,
) -> Result<Vec<Invoice>, StoreError> {
    let read = |value: &Value| {
        let Value::M(map) = value else { return Err(damaged(name)) };
        let id: Option<InvoiceId> = text_of(map, "id").and_then(|id| id.parse().ok());
        Ok(Invoice {
            id: id.ok_or_else(|| damaged(name))?,
            amount: number_of(map, "amount").map(|amount| Money { amount, currency }),
            due: text_of(map, "due").and_then(|due| due.parse().ok()),
        })
    };
    reader.list(name).iter().map(read).collect()
}
