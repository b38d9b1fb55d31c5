//! What has to be kept of somebody's events so that his features follow from it: totals, and a bucket for each day.
//!
//! Adding events in any order gives the same state, and so a late event goes where it belongs. That each is added once is
//! the matter of whoever adds it (`take`, `rebuild`). Here: the state and what an event does to it, without IO. Not here: what is computed of it (`registry`).

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tidings_jobs::contracts::Object;
use tidings_kernel::Number;

use super::kinds::{Kind, is_his_own};
use super::reading;
use crate::event::StoredEvent;

/// So many days are kept besides today. No window is longer.
pub(super) const KEPT_DAYS: i32 = 90;
/// So many invoices are known at most: those that something happened to last.
const MAX_INVOICES: usize = 100;
/// So many messages of inboxes, the newest, and so many inboxes and categories that were read as a whole.
const MAX_MESSAGES: usize = 200;
const MAX_PLACES: usize = 20;
/// How senders call an invoice: as whoever stops reminders at a payment reads it, too (`sequences::events`).
const INVOICE: &[&str] = &["invoice", "invoice_id", "invoiceId", "invoice_number", "invoiceNumber"];
/// So many currencies. Nobody pays in more.
const MAX_CURRENCIES: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct State {
    /// All times are milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_active_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_engaged_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_purchase_at: Option<i64>,
    /// When he last complained or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_left_at: Option<i64>,
    /// When it was last told that a mail was delivered to him, and that one came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_delivered_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_bounced_at: Option<i64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) purchases: i64,
    /// By currency.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) spent: BTreeMap<String, Number>,
    /// The purchase that says what his main currency is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_purchase: Option<FirstPurchase>,
    /// Messages of his inboxes, as `inbox/message`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inbox: BTreeMap<String, Noted>,
    /// When he last read all of an inbox, or of a category in it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inbox_read_at: BTreeMap<String, i64>,
    /// The same of those times when he read up to a message only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inbox_read_to: BTreeMap<String, Vec<ReadTo>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) invoices: BTreeMap<String, Invoice>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "super::days")]
    pub(super) days: BTreeMap<Date, Day>,
}

/// The earliest one that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FirstPurchase {
    at: i64,
    event: String,
    pub(super) currency: String,
}

/// What was heard last of an invoice. One that was settled has nothing open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Invoice {
    at: i64,
    event: String,
    pub(super) currency: String,
    pub(super) open: Number,
}

/// What one event says is to be paid of an invoice.
struct Open {
    currency: String,
    amount: Number,
}

/// What was heard last of a message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    at: i64,
    event: String,
    unread: bool,
    /// The inbox, and the category in it if it has one: what reading all of them is about.
    within: Vec<String>,
}

/// He read all messages up to one, of those that were there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ReadTo {
    at: i64,
    message: String,
}

/// What happened on one day, by UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Day {
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) purchases: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) opens: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) clicks: i64,
    /// How many moods, and their sum.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) moods: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) mood_sum: i64,
    /// When the last marketing mail of the day was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_received_at: Option<i64>,
    /// And when the last one was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_sent_at: Option<i64>,
}

/// So that what is not there takes no room.
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The day of a moment, by UTC.
pub(super) fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

impl State {
    /// Adds an event. `today` only says which days are still kept.
    pub(super) fn add(&mut self, event: &StoredEvent, today: Date) {
        self.forget_before(today);
        if event.is_by_machine() {
            return;
        }
        let at = event.occurred_at.as_millisecond();
        if is_his_own(event) {
            latest(&mut self.last_active_at, at);
        }
        let kind = Kind::of(&event.event_type);
        if let Some(kind) = kind {
            self.add_totals(kind, event, at);
        }
        let day = day_of(event.occurred_at);
        if days_between(day, today) > KEPT_DAYS {
            return;
        }
        let changes = [mood_change(event), kind.and_then(|kind| day_change(kind, event, at))];
        for change in changes.into_iter().flatten() {
            change(self.days.entry(day).or_default());
        }
    }

    fn add_totals(&mut self, kind: Kind, event: &StoredEvent, at: i64) {
        match kind {
            Kind::Purchased => {
                self.purchases += 1;
                latest(&mut self.last_purchase_at, at);
                self.pay(event, at);
            }
            Kind::Refunded => self.refund(event),
            Kind::Opened | Kind::Clicked | Kind::Replied | Kind::Wrote => {
                latest(&mut self.last_engaged_at, at);
            }
            Kind::Left => latest(&mut self.last_left_at, at),
            Kind::InboxPublished | Kind::InboxUnread => self.note(event, at, true),
            Kind::InboxRead | Kind::InboxArchived => {
                self.note(event, at, false);
                latest(&mut self.last_engaged_at, at);
            }
            Kind::InboxGone => self.note(event, at, false),
            Kind::InboxReadAll => {
                self.read_all(event, at);
                latest(&mut self.last_engaged_at, at);
            }
            Kind::InvoiceOverdue => self.invoices(event, at, true),
            Kind::InvoiceSettled => self.invoices(event, at, false),
            Kind::Received => latest(&mut self.last_delivered_at, at),
            Kind::Bounced => latest(&mut self.last_bounced_at, at),
            Kind::Sent => {}
        }
    }

    /// When he had the last marketing mail of a day. Where nothing ever tells that a mail was delivered (over SMTP), it is taken for
    /// delivered when it was sent, if none came back since.
    pub(super) fn received_at(&self, day: &Day) -> Option<i64> {
        let is_told = self.last_delivered_at.is_some();
        let came_back = |sent: &i64| self.last_bounced_at.is_some_and(|bounced| *sent <= bounced);
        let sent = day.last_sent_at.filter(|sent| !is_told && !came_back(sent));
        day.last_received_at.max(sent)
    }

    fn pay(&mut self, event: &StoredEvent, at: i64) {
        let Some(amount) = reading::amount(&event.payload) else { return };
        let currency = reading::currency(&event.payload);
        let this = FirstPurchase { at, event: event.id.clone(), currency: currency.clone() };
        if self.first_purchase.as_ref().is_none_or(|first| this < *first) {
            self.first_purchase = Some(this);
        }
        self.sum(currency, amount);
    }

    /// Some senders tell what was given back as a negative amount. It is less either way.
    fn refund(&mut self, event: &StoredEvent) {
        let Some(amount) = reading::amount(&event.payload) else { return };
        let back = amount.to_string();
        if let Ok(back) = format!("-{}", back.trim_start_matches('-')).parse() {
            self.sum(reading::currency(&event.payload), back);
        }
    }

    fn sum(&mut self, currency: String, amount: Number) {
        let spent = self.spent.entry(currency).or_insert(Number::ZERO);
        // Amounts are bounded so that their sums fit.
        *spent = spent.checked_add(amount).unwrap_or(*spent);
        // The first by name are kept, whatever comes first: which has gone never comes back with a part of its sum.
        if self.spent.len() > MAX_CURRENCIES {
            self.spent.pop_last();
        }
    }

    /// One invoice, or several at once.
    fn invoices(&mut self, event: &StoredEvent, at: i64, overdue: bool) {
        let name = |about: &Object| reading::name(about, INVOICE);
        let open = |about: &Object| Open {
            currency: reading::named_currency(about)
                .unwrap_or_else(|| reading::currency(&event.payload)),
            amount: reading::amount(about).filter(|_| overdue).unwrap_or(Number::ZERO),
        };
        if let Some(Json::Array(several)) = event.payload.get("invoices") {
            let several = several.iter().filter_map(Json::as_object).take(MAX_INVOICES);
            for one in several {
                if let Some(invoice) = name(one) {
                    self.invoice(event, at, (invoice, open(one)));
                }
            }
        } else if let Some(invoice) = name(&event.payload).or_else(|| event.object_id.clone()) {
            self.invoice(event, at, (invoice, open(&event.payload)));
        }
    }

    /// What was heard last counts, whenever it is heard.
    fn invoice(&mut self, event: &StoredEvent, at: i64, (invoice, open): (String, Open)) {
        let Open { currency, amount } = open;
        let (invoice, event) = (reading::short(&invoice), event.id.clone());
        let this = Invoice { at, event, currency, open: amount };
        let is_newer = |known: &Invoice| (known.at, &known.event) < (this.at, &this.event);
        if self.invoices.get(&invoice).is_none_or(is_newer) {
            self.invoices.insert(invoice, this);
        }
        while self.invoices.len() > MAX_INVOICES {
            let oldest = self.invoices.iter().min_by_key(|(_, known)| (known.at, &known.event));
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            self.invoices.remove(&oldest);
        }
    }

    /// As with invoices: what was heard last of a message counts. Read comes after published in the same millisecond.
    /// Messages to everybody are left out: nobody tells when one comes.
    fn note(&mut self, event: &StoredEvent, at: i64, unread: bool) {
        if event.payload.get("public") == Some(&Json::Bool(true)) {
            return;
        }
        let within = places(event);
        let named = reading::name(&event.payload, &["message"]);
        let named = named.or_else(|| event.object_id.clone()).unwrap_or_else(|| event.id.clone());
        let message = format!("{}/{}", within[0], reading::short(&named));
        let this = Noted { at, event: event.id.clone(), unread, within };
        let rank = |noted: &Noted| (noted.at, !noted.unread, noted.event.clone());
        match self.inbox.get_mut(&message) {
            // Only what was published says which category it has.
            Some(known) if rank(known) < rank(&this) => {
                let within = if this.within.len() < known.within.len() {
                    std::mem::take(&mut known.within)
                } else {
                    this.within.clone()
                };
                *known = Noted { within, ..this };
            }
            Some(known) if known.within.len() < this.within.len() => known.within = this.within,
            Some(_) => {}
            None => drop(self.inbox.insert(message, this)),
        }
        while self.inbox.len() > MAX_MESSAGES {
            let oldest = self.inbox.iter().min_by_key(|(name, noted)| (noted.at, *name));
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            self.inbox.remove(&oldest);
        }
    }

    fn read_all(&mut self, event: &StoredEvent, at: i64) {
        let Some(place) = places(event).pop() else { return };
        if let Some(message) = reading::name(&event.payload, &["up_to"]) {
            return self.read_to(place, ReadTo { at, message: reading::short(&message) });
        }
        let known = self.inbox_read_at.entry(place).or_insert(at);
        *known = at.max(*known);
        // Those that were read last are kept. Which has gone was read before all of them, and is back only when it is read again.
        if self.inbox_read_at.len() > MAX_PLACES {
            let oldest = self.inbox_read_at.iter().min_by_key(|(place, at)| (**at, *place));
            let oldest = oldest.map(|(place, _)| place.clone()).unwrap_or_default();
            self.inbox_read_at.remove(&oldest);
        }
    }

    /// Only what is not part of what was read at another time is kept: as a rule that is one, since people read on.
    fn read_to(&mut self, place: String, this: ReadTo) {
        let known = self.inbox_read_to.entry(place).or_default();
        if known.iter().any(|other| other.covers(&this)) {
            return;
        }
        known.retain(|other| !this.covers(other));
        known.push(this);
        known.sort();
        if known.len() > MAX_PLACES {
            known.remove(0);
        }
        // The first by name, as with currencies: several times belong to a place, and a part of them says something else than all.
        if self.inbox_read_to.len() > MAX_PLACES {
            self.inbox_read_to.pop_last();
        }
    }

    /// How many messages are unread, of the newest that are known.
    pub(super) fn unread(&self) -> usize {
        let is_unread = |(message, noted): &(&String, &Noted)| {
            let inbox = noted.within.first().map_or(0, String::len);
            // The key is the inbox, a slash and the id.
            let id = message.get(inbox + 1..).unwrap_or_default();
            let all = noted.within.iter().filter_map(|place| self.inbox_read_at.get(place));
            let some = noted.within.iter().filter_map(|place| self.inbox_read_to.get(place));
            let mut some = some.flatten();
            noted.unread
                && all.max().is_none_or(|read| *read < noted.at)
                && !some.any(|read| noted.at <= read.at && id <= read.message.as_str())
        };
        self.inbox.iter().filter(is_unread).count()
    }

    fn forget_before(&mut self, today: Date) {
        while let Some(entry) = self.days.first_entry()
            && days_between(*entry.key(), today) > KEPT_DAYS
        {
            entry.remove();
        }
    }

    /// What the last so many days have, today among them.
    pub(super) fn last_days(&self, today: Date, days: i32) -> impl Iterator<Item = &Day> {
        let first = today.saturating_sub((days - 1).days());
        self.days.range(first..=today).map(|(_, bucket)| bucket)
    }
}

impl ReadTo {
    fn covers(&self, other: &Self) -> bool {
        self.at >= other.at && self.message >= other.message
    }
}

/// The inbox that an event is about, and the category in it if it names one.
fn places(event: &StoredEvent) -> Vec<String> {
    let named = |name| reading::name(&event.payload, &[name]).map(|named| reading::short(&named));
    let inbox = named("inbox").unwrap_or_default();
    let category = named("category").map(|category| format!("{inbox}#{category}"));
    std::iter::once(inbox).chain(category).collect()
}

/// How many days lie between two, by the calendar.
pub(super) fn days_between(from: Date, to: Date) -> i32 {
    from.until(to).map_or(0, |span| span.get_days())
}

fn latest(known: &mut Option<i64>, at: i64) {
    *known = Some(known.map_or(at, |known| known.max(at)));
}

type Change = Box<dyn FnOnce(&mut Day)>;

/// Whatever it is that has a mood, as memory sees it.
fn mood_change(event: &StoredEvent) -> Option<Change> {
    let mood = reading::mood(&event.payload)?;
    Some(Box::new(move |day| {
        day.moods += 1;
        day.mood_sum += mood;
    }))
}

/// What an event does to its day by what it is.
fn day_change(kind: Kind, event: &StoredEvent, at: i64) -> Option<Change> {
    match kind {
        Kind::Purchased => Some(Box::new(|day| day.purchases += 1)),
        Kind::Opened => Some(Box::new(|day| day.opens += 1)),
        Kind::Clicked => Some(Box::new(|day| day.clicks += 1)),
        Kind::Received if is_marketing(event) => {
            Some(Box::new(move |day| latest(&mut day.last_received_at, at)))
        }
        Kind::Sent if is_marketing(event) => {
            Some(Box::new(move |day| latest(&mut day.last_sent_at, at)))
        }
        Kind::Received
        | Kind::Sent
        | Kind::Bounced
        | Kind::Refunded
        | Kind::Replied
        | Kind::Wrote
        | Kind::Left
        | Kind::InboxPublished
        | Kind::InboxUnread
        | Kind::InboxRead
        | Kind::InboxReadAll
        | Kind::InboxArchived
        | Kind::InboxGone
        | Kind::InvoiceOverdue
        | Kind::InvoiceSettled => None,
    }
}

/// Whether a mail was sent to many or by itself. Who waits for a mail ignores nothing.
fn is_marketing(event: &StoredEvent) -> bool {
    let says = |name: &str| event.payload.get(name).and_then(Json::as_str);
    let kind = says("kind").or_else(|| says("message_kind"));
    match kind {
        Some(kind) => matches!(kind, "campaign" | "sequence" | "marketing"),
        None => event.payload.contains_key("campaign") || event.payload.contains_key("campaign_id"),
    }
}
