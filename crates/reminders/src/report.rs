//! The numbers: what is owed, what came in after a reminder, and what was decided.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, Number, Query, SortRange, StoreError};

use crate::money::{Currency, Money};
use crate::read::{self, ListingError};
use crate::record::{Draft, Paid, Sent, State, Status, damaged, time, whole};

/// So many are read at once.
const PAGE: usize = 100;

/// Of a time, both ends included. Drafts are kept for 30 days, so what is not about sent mail or money reaches back so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is owed now.
    pub outstanding: BTreeMap<Currency, Number>,
    pub customers_outstanding: u64,
    /// What was paid in that time after a reminder had named it.
    pub recovered: BTreeMap<Currency, Number>,
    pub drafted: u64,
    pub approved: u64,
    pub rejected: u64,
    pub sent: u64,
    pub failed: u64,
    pub expired: u64,
    pub superseded: u64,
    pub withdrawn: u64,
    /// From the draft to the approval that let it go, of those that were approved in that time.
    pub median_time_to_approve: Option<Duration>,
}

/// What is owed is of now, and all else of the time between these two.
pub async fn report(cx: &Cx, from: Timestamp, to: Timestamp) -> Result<Report, ListingError> {
    let range = read::between(from, to)?;
    let (mut report, mut waits) = (Report::default(), Vec::new());
    each(cx, read::of_status("overdue"), |item| {
        let Some(owed) = State::read(item)?.owed else { return Ok(()) };
        report.customers_outstanding += 1;
        add(&mut report.outstanding, owed.money)
    })
    .await?;
    each(cx, read::of_status("paid").range(range.clone()), |item| {
        let paid = Paid::read(item)?;
        match (paid.recovered_after, paid.money) {
            // What was too much was not asked for.
            (Some(_), Some(money)) => {
                let counts = paid.over.map_or(Some(money), |over| money.less(&over));
                counts.map_or(Ok(()), |counts| add(&mut report.recovered, counts))
            }
            _ => Ok(()),
        }
    })
    .await?;
    let is_within = |at: Timestamp| whole(from) <= at && at <= whole(to);
    let mut decided = |report: &mut Report, created: Timestamp, approved: Option<Timestamp>| {
        report.drafted += u64::from(is_within(created));
        if let Some(approved) = approved.filter(|approved| is_within(*approved)) {
            report.approved += 1;
            waits.push(approved.duration_since(created));
        }
    };
    // What was drafted or approved in that time has become something else in it or after it.
    each(cx, read::of_status("sent").range(SortRange::Ge(time(from))), |item| {
        let sent = Sent::read(item)?;
        report.sent += u64::from(is_within(sent.sent_at));
        decided(&mut report, sent.drafted_at, sent.approved_at);
        Ok(())
    })
    .await?;
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Sent) {
        let query = read::of_status(status.as_str()).filter(read::is_draft());
        each(cx, query.range(SortRange::Ge(time(from))), |item| {
            let draft = Draft::read(item)?;
            decided(&mut report, draft.created_at, draft.approved_at);
            if is_within(draft.changed_at) {
                match status {
                    Status::Failed => report.failed += 1,
                    Status::Rejected => report.rejected += 1,
                    Status::Expired => report.expired += 1,
                    Status::Superseded => report.superseded += 1,
                    Status::Withdrawn => report.withdrawn += 1,
                    Status::Draft | Status::Approved | Status::Sending | Status::Sent => {}
                }
            }
            Ok(())
        })
        .await?;
    }
    report.median_time_to_approve = median(waits);
    Ok(report)
}

/// Looks at all that a query finds.
async fn each(
    cx: &Cx,
    query: Query,
    mut look: impl FnMut(&Item) -> Result<(), StoreError>,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let mut cursor = None;
    loop {
        let page = items.query(query.clone().limit(PAGE).after(cursor)).await?;
        for item in &page.items {
            look(item)?;
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn add(sums: &mut BTreeMap<Currency, Number>, money: Money) -> Result<(), StoreError> {
    let sum = sums.entry(money.currency).or_insert(Number::ZERO);
    *sum = sum.checked_add(money.amount).map_err(|_| damaged("sum"))?;
    Ok(())
}

/// Of an even number of them the middle between the two in the middle.
fn median(mut waits: Vec<SignedDuration>) -> Option<Duration> {
    waits.sort();
    let (low, high) = (waits.get(waits.len().checked_sub(1)? / 2)?, waits.get(waits.len() / 2)?);
    Duration::try_from((*low + *high) / 2).ok()
}
