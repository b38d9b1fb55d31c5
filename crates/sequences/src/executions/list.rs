//! Looking at executions: who is in a sequence, where somebody is, and how many there are.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Cursor, EmailAddress, Query, tables};

use super::{Execution, ExecutionId, keys, leave};

/// So many are on a page at most.
pub(super) const MAX_PAGE: usize = 100;

/// One who is in a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Inside {
    pub id: ExecutionId,
    pub email: EmailAddress,
    pub started_at: Timestamp,
    /// `None` if he has just gone out.
    pub execution: Option<Execution>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct InsidePage {
    pub inside: Vec<Inside>,
    pub next: Option<Cursor>,
}

/// How many are in a sequence now: a count of its partition.
pub async fn active(cx: &Cx, sequence: &str) -> Result<u64, StorageError> {
    let query = Query::new(&tables::MAIN, keys::partition(sequence));
    Ok(cx.items().await?.count(query).await?)
}

/// Who is in a sequence, those who came last first.
pub async fn within(
    cx: &Cx,
    sequence: &str,
    after: Option<Cursor>,
    limit: usize,
) -> Result<InsidePage, StorageError> {
    let items = cx.items().await?;
    let query = Query::new(&tables::MAIN, keys::started_partition(sequence));
    let query = query.backward().after(after).limit(limit.clamp(1, MAX_PAGE));
    let page = items.query(query).await?;
    let lines: Vec<_> = page
        .items
        .iter()
        .filter_map(|line| {
            let (at, id) = line.text("SK")?.rsplit_once('#')?;
            let email: EmailAddress = line.text("email")?.parse().ok()?;
            Some((ExecutionId::parse(id)?, email, at.parse::<Timestamp>().ok()?))
        })
        .collect();
    let wanted: Vec<_> = lines.iter().map(|(id, ..)| keys::state(id)).collect();
    let found = if wanted.is_empty() {
        Vec::new()
    } else {
        items.batch_get(&tables::MAIN, &wanted).await?
    };
    let mut inside = Vec::with_capacity(lines.len());
    for ((id, email, started_at), state) in lines.into_iter().zip(found) {
        let execution = state.as_ref().map(Execution::read).transpose()?;
        inside.push(Inside { id, email, started_at, execution });
    }
    Ok(InsidePage { inside, next: page.cursor })
}

/// Where somebody is, in all sequences that he is in.
pub async fn of_contact(cx: &Cx, email: &EmailAddress) -> Result<Vec<Execution>, StorageError> {
    Ok(leave::of(cx.items().await?.as_ref(), email).await?)
}

/// `None` if it has come to an end.
pub async fn show(cx: &Cx, id: &ExecutionId) -> Result<Option<Execution>, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &keys::state(id)).await?;
    Ok(item.as_ref().map(Execution::read).transpose()?)
}
