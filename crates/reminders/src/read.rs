//! Looking at reminders: the queries of seed 002, and a few more.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, Cursor, Invalid, Item, Query, SortRange, StoreError, tables};

use crate::ids::{CustomerId, DraftId, Kind};
use crate::money::Money;
use crate::record::{Draft, Invoice, Paid, Sent, State, Status, damaged, time};
use crate::rules::{self, Answer};
use crate::{case, keys, settings};

const MAX_LIMIT: usize = 100;

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// 1 to 100.
    pub limit: usize,
    /// Where the part before ended.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// What a customer owes, as far as was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outstanding {
    pub customer: CustomerId,
    pub name: Option<String>,
    pub owed: Money,
    pub since: Timestamp,
    pub invoices: Vec<Invoice>,
    /// The draft that is open, if one is.
    pub open: Option<DraftId>,
    /// What was sent last.
    pub last: Option<(Kind, Timestamp)>,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no draft {0}")]
    Missing(DraftId),
    #[error("the draft could not be read")]
    Store(#[from] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error("use a limit of 1 to 100")]
    Limit,
    #[error("the cursor is none of this list's")]
    Cursor,
    #[error("the end is before the beginning")]
    Range,
    #[error("the list could not be read")]
    Store(#[from] StorageError),
}

pub async fn get(cx: &Cx, id: &DraftId) -> Result<Draft, FindError> {
    let found = case::load_draft(cx.items().await?.as_ref(), id).await;
    found.map_err(StorageError::from)?.ok_or_else(|| FindError::Missing(id.clone()))
}

/// Drafts that wait for an approval, the oldest first.
pub async fn pending(cx: &Cx, listing: Listing) -> Result<Page<Draft>, ListingError> {
    by_status(cx, Status::Draft, listing).await
}

/// Drafts in this status, by the time they came into it. Those that were sent are in `sent_between`.
pub async fn by_status(
    cx: &Cx,
    status: Status,
    listing: Listing,
) -> Result<Page<Draft>, ListingError> {
    list(cx, of_status(status.as_str()).filter(is_draft()), listing, Draft::read).await
}

/// What was sent to a customer, the newest first.
pub async fn history(
    cx: &Cx,
    customer: &CustomerId,
    listing: Listing,
) -> Result<Page<Sent>, ListingError> {
    list(cx, of_customer(customer, keys::SENT), listing, Sent::read).await
}

/// All drafts of a customer that are kept, the newest first.
pub async fn drafts_of(
    cx: &Cx,
    customer: &CustomerId,
    listing: Listing,
) -> Result<Page<Draft>, ListingError> {
    list(cx, of_customer(customer, "DRAFT#"), listing, Draft::read).await
}

/// What of one kind was sent to a customer since then, the newest first. At most 100.
pub async fn recent(
    cx: &Cx,
    customer: &CustomerId,
    kind: Kind,
    since: Timestamp,
) -> Result<Vec<Sent>, StorageError> {
    let is_it = Condition::eq("reminder_type", kind.as_str())
        .and(Condition::Gt("sent_date".into(), time(since).into()));
    let query = of_customer(customer, keys::SENT).filter(is_it).limit(MAX_LIMIT);
    let found = cx.items().await?.query(query).await?.items;
    Ok(found.iter().map(Sent::read).collect::<Result<_, _>>()?)
}

/// All that was sent from the first time to the second, both included.
pub async fn sent_between(
    cx: &Cx,
    from: Timestamp,
    to: Timestamp,
    listing: Listing,
) -> Result<Page<Sent>, ListingError> {
    let query = of_status("sent").range(between(from, to)?);
    list(cx, query, listing, Sent::read).await
}

/// For each kind whether it may be sent to this customer now, and from when on if not.
pub async fn allowed(cx: &Cx, customer: &CustomerId) -> Result<Vec<(Kind, Answer)>, StorageError> {
    let days = settings::get(cx).await?.days;
    let history = case::load_state(cx.items().await?.as_ref(), customer).await?.history();
    let ask = |kind| (kind, rules::ask(&history, &days, kind, cx.now()));
    Ok(Kind::ALL.map(ask).to_vec())
}

/// Which round of reminders a customer is in: what was sent to him last of each kind, and when nothing was owed. Another one
/// with each reminder that is sent, and the same while one is only drafted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round(String);

impl Round {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub async fn round(cx: &Cx, customer: &CustomerId) -> Result<Round, StorageError> {
    let history = case::load_state(cx.items().await?.as_ref(), customer).await?.history();
    let times = [history.first, history.second, history.last, history.settled];
    let times = times.map(|at| at.map(time).unwrap_or_default());
    Ok(Round(format!("{}/{}", rules::next(&history), times.join("/"))))
}

/// Who owes something, the longest first.
pub async fn outstanding(cx: &Cx, listing: Listing) -> Result<Page<Outstanding>, ListingError> {
    let read = |item: &Item| {
        let state = State::read(item)?;
        let last = Kind::ALL.into_iter().filter_map(|kind| Some((kind, state.last(kind)?.at)));
        let last = last.max_by_key(|(kind, at)| (*at, *kind));
        let owed = state.owed.ok_or_else(|| damaged("overdue_amount"))?;
        Ok(Outstanding {
            customer: state.customer,
            name: state.name,
            owed: owed.money,
            since: owed.since,
            invoices: owed.invoices,
            open: state.open,
            last,
        })
    };
    list(cx, of_status("overdue"), listing, read).await
}

/// What a customer has paid, as far as was told.
pub async fn payments(
    cx: &Cx,
    customer: &CustomerId,
    listing: Listing,
) -> Result<Page<Paid>, ListingError> {
    list(cx, of_customer(customer, keys::PAID), listing, Paid::read).await
}

pub(crate) fn of_status(word: &str) -> Query {
    Query::new(&tables::EMAIL_TRACKING, keys::status(word)).index(keys::INDEX)
}

/// Drafts only: others have statuses, too.
pub(crate) fn is_draft() -> Condition {
    Condition::exists("content_hash")
}

fn of_customer(customer: &CustomerId, prefix: &str) -> Query {
    Query::new(&tables::EMAIL_TRACKING, keys::customer(customer)).begins_with(prefix).backward()
}

pub(crate) fn between(from: Timestamp, to: Timestamp) -> Result<SortRange, ListingError> {
    if from > to {
        return Err(ListingError::Range);
    }
    Ok(SortRange::Between(time(from), time(to)))
}

async fn list<T>(
    cx: &Cx,
    query: Query,
    listing: Listing,
    read: impl Fn(&Item) -> Result<T, StoreError>,
) -> Result<Page<T>, ListingError> {
    if !(1..=MAX_LIMIT).contains(&listing.limit) {
        return Err(ListingError::Limit);
    }
    let query = query.limit(listing.limit).after(listing.cursor.map(Cursor::from));
    let page = match cx.items().await?.query(query).await {
        Ok(page) => page,
        Err(StoreError::Invalid(Invalid::BadCursor)) => return Err(ListingError::Cursor),
        Err(error) => return Err(StorageError::from(error).into()),
    };
    let items = page.items.iter().map(read).collect::<Result<_, _>>();
    let items = items.map_err(StorageError::from)?;
    Ok(Page { items, next: page.cursor.map(|cursor| cursor.as_str().to_owned()) })
}
