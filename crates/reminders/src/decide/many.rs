//! Approving many drafts at once that are of one template.

use std::collections::{BTreeMap, HashSet};

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Number, tables};

use super::{Approve, ApproveError, Approved, MAX_NAME, Seen, approval, approve};
use crate::ids::DraftId;
use crate::keys;
use crate::money::{Currency, Money};
use crate::record::Draft;
use crate::settings::{self, Settings};
use crate::wrong::{Found, Wrong, listed};

/// Many that are alike. 1 to the limit of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveMany {
    pub drafts: Vec<(DraftId, Seen)>,
    pub by: String,
}

/// What became of one of them.
#[derive(Debug)]
pub struct Decided {
    pub draft: DraftId,
    pub outcome: Result<Approved, ApproveError>,
}

#[derive(Debug, Default)]
pub struct BatchReport {
    pub decided: Vec<Decided>,
}

/// Then none of them was approved.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    #[error("use 1 to {0} drafts")]
    Count(u32),
    #[error("the drafts are not all of one template and version: {}", .0.iter().map(DraftId::as_str).collect::<Vec<_>>().join(", "))]
    NotAlike(Vec<DraftId>),
    #[error("together they are {total}, and at most {limit} can be approved at once")]
    TooMuch { total: String, limit: String },
    #[error("the approvals are wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    /// Some of them cannot be approved, and so none was.
    #[error("some of the drafts cannot be approved")]
    Refused(Vec<(DraftId, ApproveError)>),
    #[error("the approvals could not be written")]
    Store(#[from] StorageError),
}

/// Approves many that are of one template and version. If something is wrong with one of them, none is approved; what
/// happens while they are is told of each.
pub async fn approve_many(cx: &Cx, cmd: ApproveMany) -> Result<BatchReport, BatchError> {
    let mut found = Found::default();
    found.line("by", &cmd.by, MAX_NAME);
    let distinct: HashSet<_> = cmd.drafts.iter().map(|(id, _)| id).collect();
    if distinct.len() < cmd.drafts.len() {
        found.tell("drafts", "each can be in the list once");
    }
    found.into_result().map_err(BatchError::Invalid)?;
    let settings = settings::get(cx).await?;
    if cmd.drafts.is_empty() || cmd.drafts.len() > settings.batch_limit as usize {
        return Err(BatchError::Count(settings.batch_limit));
    }
    let drafts = look(cx, &cmd, &settings).await?;
    alike(&drafts)?;
    within(&drafts, &settings)?;
    let mut report = BatchReport::default();
    for (draft, seen) in cmd.drafts {
        let approve = approve(cx, Approve { draft: draft.clone(), seen, by: cmd.by.clone() });
        report.decided.push(Decided { draft, outcome: approve.await });
    }
    Ok(report)
}

/// All of them, if each can be approved.
async fn look(cx: &Cx, cmd: &ApproveMany, settings: &Settings) -> Result<Vec<Draft>, BatchError> {
    let items = cx.items().await?;
    let wanted: Vec<_> = cmd.drafts.iter().map(|(id, _)| keys::draft(id)).collect();
    let found = items.batch_get(&tables::EMAIL_TRACKING, &wanted).await;
    let found = found.map_err(StorageError::from)?;
    let (mut drafts, mut refused) = (Vec::new(), Vec::new());
    for ((id, seen), item) in cmd.drafts.iter().zip(found) {
        let draft = item.as_ref().map(Draft::read).transpose().map_err(StorageError::from)?;
        let one = Approve { draft: id.clone(), seen: seen.clone(), by: cmd.by.clone() };
        match draft.ok_or_else(|| ApproveError::Missing(id.clone())) {
            Ok(draft) => match approval(&draft, &one, settings, cx) {
                Ok(_) => drafts.push(draft),
                Err(error) => refused.push((id.clone(), error)),
            },
            Err(error) => refused.push((id.clone(), error)),
        }
    }
    if refused.is_empty() { Ok(drafts) } else { Err(BatchError::Refused(refused)) }
}

/// Whoever has seen one has seen them all: they are of one template, and nobody has edited them since.
fn alike(drafts: &[Draft]) -> Result<(), BatchError> {
    let first = drafts.first().and_then(|draft| draft.template.as_ref());
    let odd = |draft: &&Draft| draft.template.is_none() || draft.template.as_ref() != first;
    let odd: Vec<_> = drafts.iter().filter(odd).map(|draft| draft.id.clone()).collect();
    if odd.is_empty() { Ok(()) } else { Err(BatchError::NotAlike(odd)) }
}

fn within(drafts: &[Draft], settings: &Settings) -> Result<(), BatchError> {
    let mut sums: BTreeMap<Currency, Number> = BTreeMap::new();
    for draft in drafts {
        let sum = sums.entry(draft.owed.currency).or_insert(Number::ZERO);
        *sum =
            sum.checked_add(draft.owed.amount).expect("a hundred amounts of 19 digits fit in 38");
    }
    for (currency, amount) in sums {
        let limit = settings.batch_amount_limit.get(&currency);
        if let Some(limit) = limit.filter(|limit| amount > **limit) {
            let total = Money { amount, currency }.to_string();
            let limit = Money { amount: *limit, currency }.to_string();
            return Err(BatchError::TooMuch { total, limit });
        }
    }
    Ok(())
}
