//! What was paid of an invoice, as an item: with its customer, or with the invoice alone while nobody is known to owe it.

use jiff::Timestamp;
use tidings_kernel::{Condition, Expect, Item, Key, StoreError, Txn, Value, tables};

use super::values::{damaged, map, number_of, text_of, ttl};
use crate::money::Money;

const KEPT_DAYS: i64 = 365;
/// So many payments of an invoice of nobody are told apart.
const MOST: usize = 100;

/// What is known of an invoice from its payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    /// Nothing of it is asked for any more.
    pub(crate) covered: bool,
    /// What is left, if its amount was known when some of it was paid.
    pub(crate) left: Option<Money>,
    /// What was paid, if its amount was not known.
    pub(crate) paid: Option<Money>,
}

/// Whether something can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Covered,
    /// Not so much: this is left.
    Less(Money),
}

impl Account {
    /// Whether so much can be asked for. Whoever asks for no amount asks for all of it.
    pub(crate) fn standing(&self, asked: Option<Money>) -> Standing {
        let same = |money: &Money| asked.is_none_or(|asked| asked.currency == money.currency);
        let above = |money: &Money| asked.is_some_and(|asked| asked.amount > money.amount);
        match (self.covered, self.left.filter(same), self.paid.filter(same)) {
            (true, _, _) => Standing::Covered,
            (false, Some(left), _) if above(&left) => Standing::Less(left),
            // It was paid before anybody said how much it is; what is asked for is less than that, or as much.
            (false, None, Some(paid)) if !above(&paid) => Standing::Covered,
            (false, _, _) => Standing::Open,
        }
    }

    /// Writes it. Whoever does writes the customer's guard, too, so nobody else does in the meantime.
    pub(crate) fn put(&self, txn: Txn, key: &Key, now: Timestamp) -> Txn {
        let mut item = tables::EMAIL_TRACKING.bare_item(key);
        item.set("covered", self.covered);
        item.set("ttl", ttl(now, KEPT_DAYS));
        for (name, money) in [("left", self.left), ("paid", self.paid)] {
            if let Some(money) = money {
                item.set(name, written(&money));
            }
        }
        txn.put(&tables::EMAIL_TRACKING, item, Expect::Anything)
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let money = |name: &str| {
            let read = |value: &Value| read(value).ok_or_else(|| damaged(name));
            item.get(name).map(read).transpose()
        };
        let covered = matches!(item.get("covered"), Some(Value::Bool(true)));
        Ok(Self { covered, left: money("left")?, paid: money("paid")? })
    }
}

/// Payments of an invoice that nobody is known to owe, each by its reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unclaimed {
    payments: Vec<(String, Option<Money>)>,
    rev: i64,
}

impl Unclaimed {
    /// Tells whether it was not there.
    pub(crate) fn add(&mut self, reference: &str, money: Option<Money>) -> bool {
        if self.payments.iter().any(|(known, _)| known == reference) {
            return false;
        }
        self.payments.push((reference.to_owned(), money));
        while self.payments.len() > MOST {
            self.payments.remove(0);
        }
        true
    }

    /// What they come to. Of amounts that do not add up nobody can say what is left.
    pub(crate) fn account(&self) -> Account {
        let mut account = Account::default();
        for (_, money) in &self.payments {
            let sum = match (account.paid, money) {
                (None, Some(money)) => Some(*money),
                (Some(paid), Some(money)) => paid.plus(money),
                (_, None) => None,
            };
            match sum {
                Some(sum) => account.paid = Some(sum),
                None => account.covered = true,
            }
        }
        account
    }

    /// Writes it if nobody else has in the meantime.
    pub(crate) fn put(&self, txn: Txn, key: &Key, now: Timestamp) -> Txn {
        // One that is past its time may not be swept yet.
        let free =
            Condition::not_exists("rev").or(Condition::Le("ttl".into(), now.as_second().into()));
        let same = if self.rev == 0 { free } else { Condition::eq("rev", self.rev) };
        let one = |(reference, money): &(String, Option<Money>)| {
            let mut fields = vec![("reference", reference.as_str().into())];
            fields.extend(money.map(|money| ("money", written(&money))));
            map(fields)
        };
        let item = tables::EMAIL_TRACKING
            .bare_item(key)
            .with("payments", Value::L(self.payments.iter().map(one).collect()))
            .with("rev", self.rev + 1)
            .with("ttl", ttl(now, KEPT_DAYS));
        txn.put(&tables::EMAIL_TRACKING, item, Expect::That(same))
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let Some(Value::L(list)) = item.get("payments") else { return Err(damaged("payments")) };
        let one = |value: &Value| {
            let Value::M(fields) = value else { return None };
            let money = fields.get("money").map(|money| read(money).ok_or(()));
            Some((text_of(fields, "reference")?, money.transpose().ok()?))
        };
        let payments = list.iter().map(one).collect::<Option<_>>();
        Ok(Self {
            payments: payments.ok_or_else(|| damaged("payments"))?,
            rev: item.integer("rev").ok_or_else(|| damaged("rev"))?,
        })
    }
}

fn written(money: &Money) -> Value {
    map([("amount", money.amount.into()), ("currency", money.currency.as_str().into())])
}

fn read(value: &Value) -> Option<Money> {
    let Value::M(fields) = value else { return None };
    let currency = text_of(fields, "currency")?.parse().ok()?;
    Some(Money { amount: number_of(fields, "amount")?, currency })
}
