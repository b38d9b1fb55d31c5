//! What is known of a customer: what he owes, when he was reminded last, and which draft is open. Every change of his
//! reminders expects this unchanged.

use jiff::Timestamp;
use tidings_kernel::{Condition, Expect, Item, StoreError, Txn, Value, tables};

use super::values::{Reader, damaged, invoices, map, read_invoices, text_of, time, time_of, ttl};
use crate::ids::{CustomerId, DraftId, Kind};
use crate::keys;
use crate::money::Money;
use crate::record::Invoice;
use crate::rules::History;

/// So long a customer is known, and found by an invoice or an address: longer than anything of his is kept.
pub(crate) const FOUND_DAYS: i64 = 400;

/// When a reminder of a kind was sent last, or is being sent, and by which draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) at: Timestamp,
    pub(crate) draft: DraftId,
}

/// What a customer owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) money: Money,
    pub(crate) since: Timestamp,
    pub(crate) invoices: Vec<Invoice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) customer: CustomerId,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) open: Option<DraftId>,
    pub(crate) owed: Option<Owed>,
    pub(crate) settled: Option<Timestamp>,
    /// The policy drafts nothing before that, since a draft has ended without being sent.
    pub(crate) held: Option<Timestamp>,
    /// When somebody last told what he owes, or first told of him: from then on this is kept for `FOUND_DAYS`.
    pub(crate) told_at: Option<Timestamp>,
    /// Counts the changes. 0 if nothing is stored yet.
    pub(crate) rev: i64,
    last: [Option<Last>; 3],
}

const LAST: [&str; 3] = ["last_first", "last_second", "last_final"];

impl State {
    /// Of somebody whom nothing is known of.
    pub(crate) fn new(customer: CustomerId) -> Self {
        Self {
            customer,
            name: None,
            email: None,
            open: None,
            owed: None,
            settled: None,
            held: None,
            told_at: None,
            rev: 0,
            last: [None, None, None],
        }
    }

    pub(crate) fn last(&self, kind: Kind) -> Option<&Last> {
        self.last[kind as usize].as_ref()
    }

    pub(crate) fn set_last(&mut self, kind: Kind, last: Option<Last>) {
        self.last[kind as usize] = last;
    }

    pub(crate) fn history(&self) -> History {
        let at = |kind| self.last(kind).map(|last| last.at);
        History {
            first: at(Kind::First),
            second: at(Kind::Second),
            last: at(Kind::Final),
            settled: self.settled,
        }
    }

    /// It is not this draft that is open, from now on.
    pub(crate) fn close(&mut self, draft: &DraftId) {
        if self.open.as_ref() == Some(draft) {
            self.open = None;
        }
    }

    /// Writes it if nobody else has in the meantime.
    pub(crate) fn put(&self, txn: Txn) -> Txn {
        let same = match self.rev {
            0 => match self.told_at {
                // One that is past its time may not be swept yet.
                Some(now) => Condition::not_exists("rev")
                    .or(Condition::Le("ttl".into(), now.as_second().into())),
                None => Condition::not_exists("rev"),
            },
            rev => Condition::eq("rev", rev),
        };
        txn.put(&tables::EMAIL_TRACKING, self.to_item(), Expect::That(same))
    }

    fn to_item(&self) -> Item {
        let mut item = tables::EMAIL_TRACKING.bare_item(&keys::state(&self.customer));
        item.set("customer_id", self.customer.as_str());
        item.set("rev", self.rev + 1);
        for (name, text) in [("customer_name", &self.name), ("customer_email", &self.email)] {
            if let Some(text) = text {
                item.set(name, text.as_str());
            }
        }
        if let Some(open) = &self.open {
            item.set("open", open.as_str());
        }
        for (name, at) in
            [("settled_at", self.settled), ("held_until", self.held), ("told_at", self.told_at)]
        {
            if let Some(at) = at {
                item.set(name, time(at));
            }
        }
        if let Some(at) = self.told_at {
            item.set("ttl", ttl(at, FOUND_DAYS));
        }
        for (name, last) in LAST.iter().zip(&self.last) {
            if let Some(last) = last {
                item.set(name, last.to_value());
            }
        }
        if let Some(owed) = &self.owed {
            item.set("overdue_amount", owed.money.amount);
            item.set("currency", owed.money.currency.as_str());
            item.set("since", time(owed.since));
            item.set("invoice_facts", invoices(&owed.invoices));
            item.set("GSI1PK", keys::status("overdue"));
            item.set("GSI1SK", time(owed.since));
        }
        item
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let reader = Reader(item);
        let owed = match item.get("overdue_amount") {
            None => None,
            Some(_) => {
                let money = reader.money("overdue_amount")?;
                Some(Owed {
                    money,
                    since: reader.parsed("since")?,
                    invoices: read_invoices(reader, "invoice_facts", money.currency)?,
                })
            }
        };
        let mut state = Self {
            name: reader.optional("customer_name"),
            email: reader.optional("customer_email"),
            open: item.text("open").map(|_| reader.parsed("open")).transpose()?,
            owed,
            settled: reader.optional_time("settled_at")?,
            held: reader.optional_time("held_until")?,
            told_at: reader.optional_time("told_at")?,
            rev: reader.integer("rev")?,
            ..Self::new(reader.parsed("customer_id")?)
        };
        for (name, last) in LAST.iter().zip(&mut state.last) {
            *last = item.get(name).map(|value| Last::read(value, name)).transpose()?;
        }
        Ok(state)
    }
}

impl Last {
    pub(crate) fn to_value(&self) -> Value {
        map([("at", time(self.at).into()), ("draft", self.draft.as_str().into())])
    }

    pub(crate) fn read(value: &Value, name: &str) -> Result<Self, StoreError> {
        let Value::M(fields) = value else { return Err(damaged(name)) };
        let at = time_of(fields, "at");
        let draft = text_of(fields, "draft").and_then(|draft| draft.parse().ok());
        let both = at.zip(draft).map(|(at, draft)| Self { at, draft });
        both.ok_or_else(|| damaged(name))
    }
}
