//! Changing a draft, which makes another edition of it, and rejecting one.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{StoreError, Txn};
use tidings_people::race;
use tidings_webhooks::EventType;

use super::MAX_NAME;
use crate::drafting::{self, Customer, Facts};
use crate::ids::DraftId;
use crate::record::{ContentType, Draft, Edition, Status, hash_of, whole};
use crate::settings::{self, Settings};
use crate::wrong::{Found, Wrong, listed};
use crate::{case, escalate, news, rules};

/// The longest reason.
const MAX_REASON: usize = 500;
/// So many earlier editions are kept, and so much of them: an item has its bounds.
const MAX_EDITIONS: usize = 20;
const MAX_EDITION_BYTES: usize = 200_000;

/// A change of a draft. What is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    pub subject: Option<String>,
    pub content: Option<String>,
    pub content_type: Option<ContentType>,
    pub facts: Option<Facts>,
    /// The edition that was seen. Somebody else's edit in the meantime is not overwritten.
    pub edition: Option<i64>,
    pub by: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("there is no draft {0}")]
    Missing(DraftId),
    #[error("draft {draft} is {status} and cannot be edited any more")]
    NotEditable { draft: DraftId, status: Status },
    #[error("draft {draft} was edited since: it is edition {edition} now")]
    Edited { draft: DraftId, edition: i64 },
    #[error("paid already: {}", .0.join(", "))]
    Paid(Vec<String>),
    #[error("the edit is wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("the edit could not be written")]
    Store(#[from] StorageError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    pub draft: DraftId,
    /// Why. 1 to 500 characters.
    pub reason: String,
    pub by: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RejectError {
    #[error("there is no draft {0}")]
    Missing(DraftId),
    #[error("draft {draft} is {status} and cannot be rejected any more")]
    NotOpen { draft: DraftId, status: Status },
    #[error("the rejection is wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("the rejection could not be written")]
    Store(#[from] StorageError),
}

/// Makes another edition, which has to be approved again. An edit that changes nothing leaves everything as it is.
pub async fn edit(cx: &Cx, draft: &DraftId, edit: Edit) -> Result<Draft, EditError> {
    check_edit(&edit).map_err(EditError::Invalid)?;
    let settings = settings::get(cx).await?;
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let found = case::load_draft(items.as_ref(), draft).await.map_err(in_edit)?;
        let before = found.ok_or_else(|| EditError::Missing(draft.clone()))?;
        let Some(after) = edited(&before, &edit, &settings, cx.now())? else { return Ok(before) };
        let mut state =
            case::load_state(items.as_ref(), &before.customer).await.map_err(in_edit)?;
        let mut txn = Txn::new();
        if let (Some(facts), Some(name), Some(email)) = (&edit.facts, &after.name, &after.email) {
            let asked = (&facts.owed, facts.invoices.as_slice());
            let paid = case::paid_among(items.as_ref(), &after.customer, asked).await;
            let paid = paid.map_err(in_edit)?;
            if !paid.is_empty() {
                return Err(EditError::Paid(paid));
            }
            let (name, email) = (name.clone(), email.clone());
            let customer = Customer { id: after.customer.clone(), name, email };
            let owed = state.clone();
            drafting::owes(&mut state, &customer, facts, cx.now());
            txn = drafting::found_by(txn, &customer, facts, cx.now());
            txn = news::owing(cx, txn, &owed, &state, news::Owing::Noted);
        }
        txn = txn.and(case::written(&after, &state)).arm(case::expiry(cx, &after));
        txn = news::audited(cx, txn, "reminder.edit", (Some(&before), &after));
        let told = news::announced(cx, txn, &after, EventType::ApprovalRequested).await;
        match items.transact(told.map_err(StorageError::from)?).await {
            Ok(()) => {
                tracing::info!(draft = %after.id, edition = after.edition, "Reminder {} was edited", after.id);
                return Ok(Draft { rev: after.rev + 1, ..after });
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(in_edit(error)),
        }
    }
    Err(in_edit(StoreError::Conflict))
}

/// It is not sent. Doing it again changes nothing.
pub async fn reject(cx: &Cx, cmd: Reject) -> Result<Draft, RejectError> {
    let mut found = Found::default();
    found.line("by", &cmd.by, MAX_NAME);
    found.line("reason", &cmd.reason, MAX_REASON);
    found.into_result().map_err(RejectError::Invalid)?;
    let policy = settings::get(cx).await?.policy;
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let found = case::load_draft(items.as_ref(), &cmd.draft).await.map_err(in_rejection)?;
        let before = found.ok_or_else(|| RejectError::Missing(cmd.draft.clone()))?;
        match before.status {
            Status::Draft | Status::Approved => {}
            Status::Rejected => return Ok(before),
            status => return Err(RejectError::NotOpen { draft: before.id, status }),
        }
        let mut state =
            case::load_state(items.as_ref(), &before.customer).await.map_err(in_rejection)?;
        let why = (Status::Rejected, Some(cmd.reason.trim().to_owned()));
        let mut after = case::moved(&before, &mut state, why, cx.now());
        after.decided_by = Some(cmd.by.trim().to_owned());
        let txn = escalate::armed(cx, case::written(&after, &state), &state, &policy);
        let txn = news::audited(cx, txn, "reminder.reject", (Some(&before), &after));
        let told = news::announced(cx, txn, &after, EventType::ApprovalRejected).await;
        match items.transact(told.map_err(StorageError::from)?).await {
            Ok(()) => {
                tracing::info!(draft = %after.id, "Reminder {} was rejected", after.id);
                return Ok(Draft { rev: after.rev + 1, ..after });
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(in_rejection(error)),
        }
    }
    Err(in_rejection(StoreError::Conflict))
}

fn check_edit(edit: &Edit) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    found.line("by", &edit.by, MAX_NAME);
    drafting::check_content(&mut found, edit.subject.as_deref(), edit.content.as_deref());
    if let Some(facts) = &edit.facts {
        drafting::check_facts(&mut found, facts);
    }
    found.into_result()
}

/// The next edition. `None` if nothing is another one.
fn edited(
    before: &Draft,
    edit: &Edit,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<Draft>, EditError> {
    let (draft, status) = (before.id.clone(), before.status);
    if !matches!(status, Status::Draft | Status::Approved) {
        return Err(EditError::NotEditable { draft, status });
    }
    if edit.edition.is_some_and(|edition| edition != before.edition) {
        return Err(EditError::Edited { draft, edition: before.edition });
    }
    let mut after = before.clone();
    if let Some(subject) = &edit.subject {
        after.subject = Some(subject.trim().to_owned());
    }
    if let Some(content) = &edit.content {
        after.content = Some(drafting::lines(content));
    }
    after.content_type = edit.content_type.unwrap_or(before.content_type);
    if let Some(facts) = &edit.facts {
        after.owed = facts.owed;
        after.invoices.clone_from(&facts.invoices);
    }
    after.hash = hash_of(&after);
    if after.hash == before.hash && after.invoices == before.invoices {
        return Ok(None);
    }
    let now = whole(now);
    after.editions.push(Edition {
        edition: before.edition,
        hash: before.hash.clone(),
        replaced_by: edit.by.trim().to_owned(),
        replaced_at: now,
        subject: before.subject.clone().unwrap_or_default(),
        content: before.content.clone().unwrap_or_default(),
        amount: before.owed,
    });
    let size = |editions: &[Edition]| editions.iter().map(|one| one.content.len()).sum::<usize>();
    while after.editions.len() > MAX_EDITIONS || size(&after.editions) > MAX_EDITION_BYTES {
        after.editions.remove(0);
    }
    after.edition += 1;
    after.status = Status::Draft;
    after.approvals.clear();
    after.approvals_needed = settings.approvals_needed(&after.owed);
    after.approved_at = None;
    after.decided_by = None;
    after.template = None;
    after.changed_at = now;
    // Somebody is at work on it, so it waits anew; but no longer than it is kept.
    let latest = rules::later(before.created_at, settings::MAX_EXPIRES_AFTER);
    after.expires_at = rules::later(now, settings.draft_expires_after).min(latest);
    Ok(Some(after))
}

fn in_edit(error: StoreError) -> EditError {
    EditError::Store(error.into())
}

fn in_rejection(error: StoreError) -> RejectError {
    RejectError::Store(error.into())
}
