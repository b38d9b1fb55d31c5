//! What people decide about a draft: to approve it, to change it, or to reject it.

mod edit;
mod many;

use jiff::Timestamp;
use tidings_access::{Actor, Cx, StorageError};
use tidings_jobs::contracts::ReminderTask;
use tidings_kernel::{StoreError, Txn};
use tidings_people::race;
use tidings_webhooks::EventType;

use crate::ids::DraftId;
use crate::record::{Approval, Draft, Status, whole};
use crate::settings::{self, Settings};
use crate::wrong::{Found, Wrong, listed};
use crate::{case, news};

pub use edit::{Edit, EditError, Reject, RejectError, edit, reject};
pub use many::{ApproveMany, BatchError, BatchReport, Decided, approve_many};

/// The longest name of a person who decides.
const MAX_NAME: usize = 100;

/// What the person had before his eyes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Hash(String),
    Edition(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    pub draft: DraftId,
    pub seen: Seen,
    /// The person. 1 to 100 characters.
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    pub draft: Draft,
    /// How many more people have to approve it before it is sent.
    pub missing: u32,
    /// It was approved by this person before, and nothing was done now.
    pub replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("there is no draft {0}")]
    Missing(DraftId),
    #[error("draft {draft} was edited since: it is edition {edition} now")]
    Edited { draft: DraftId, edition: i64, hash: String },
    #[error("draft {draft} is {status}, and only a draft can be approved")]
    NotDraft { draft: DraftId, status: Status, reason: Option<String> },
    #[error("draft {draft} expired at {at}")]
    Expired { draft: DraftId, at: Timestamp },
    /// Nobody knows yet as whom reminders are sent.
    #[error("set the client that reminders are sent with in their settings, and a sender of it")]
    NoSender,
    /// Two people are two keys: anybody can say another name.
    #[error("draft {0} needs another person, with another key than the one that has approved it")]
    SameKey(DraftId),
    #[error("the approval is wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("the approval could not be written")]
    Store(#[from] StorageError),
}

/// Approves exactly what was seen. Once enough people have, it will be sent, if the rules still allow it then.
pub async fn approve(cx: &Cx, cmd: Approve) -> Result<Approved, ApproveError> {
    let mut found = Found::default();
    found.line("by", &cmd.by, MAX_NAME);
    found.into_result().map_err(ApproveError::Invalid)?;
    let settings = settings::get(cx).await?;
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let before = case::load_draft(items.as_ref(), &cmd.draft).await.map_err(in_approval)?;
        let before = before.ok_or_else(|| ApproveError::Missing(cmd.draft.clone()))?;
        let after = match approval(&before, &cmd, &settings, cx)? {
            Step::Replayed(missing) => {
                return Ok(Approved { draft: before, missing, replayed: true });
            }
            Step::Write(after) => *after,
        };
        ready(cx, &settings).await?;
        let mut txn =
            news::audited(cx, after.put(Txn::new()), "reminder.approve", (Some(&before), &after));
        if after.status == Status::Approved {
            txn = txn.enqueue(case::ask(cx, ReminderTask::Send, &after.id));
            let told = news::announced(cx, txn, &after, EventType::ApprovalApproved).await;
            txn = told.map_err(StorageError::from)?;
        }
        match items.transact(txn).await {
            Ok(()) => {
                let missing = missing(&after);
                tracing::info!(draft = %after.id, missing, "Reminder {} was approved", after.id);
                let draft = Draft { rev: after.rev + 1, ..after };
                return Ok(Approved { draft, missing, replayed: false });
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(in_approval(error)),
        }
    }
    Err(in_approval(StoreError::Conflict))
}

enum Step {
    /// So many approvals are missing.
    Replayed(u32),
    Write(Box<Draft>),
}

/// What an approval makes of a draft. Pure, but for the time and the actor.
fn approval(
    draft: &Draft,
    cmd: &Approve,
    settings: &Settings,
    cx: &Cx,
) -> Result<Step, ApproveError> {
    let id = || draft.id.clone();
    let is_same = match &cmd.seen {
        Seen::Hash(hash) => *hash == draft.hash,
        Seen::Edition(edition) => *edition == draft.edition,
    };
    let past = matches!(draft.status, Status::Approved | Status::Sending | Status::Sent);
    if draft.status != Status::Draft && !past {
        let (status, reason) = (draft.status, draft.reason.clone());
        return Err(ApproveError::NotDraft { draft: id(), status, reason });
    }
    if !is_same {
        let (edition, hash) = (draft.edition, draft.hash.clone());
        return Err(ApproveError::Edited { draft: id(), edition, hash });
    }
    if past {
        return Ok(Step::Replayed(0));
    }
    if draft.expires_at <= cx.now() {
        return Err(ApproveError::Expired { draft: id(), at: draft.expires_at });
    }
    let (now, by) = (whole(cx.now()), cmd.by.trim().to_owned());
    let mut after = draft.clone();
    after.approvals_needed = settings.approvals_needed(&draft.owed);
    let is_known = draft.approvals.iter().any(|one| is_same_person(&one.by, &by));
    if is_known && missing(&after) > 0 {
        return Ok(Step::Replayed(missing(&after)));
    }
    let actor = cx.actor().to_string();
    let is_key = matches!(cx.actor(), Actor::Key(_));
    let had_it = draft.approvals.iter().any(|one| one.actor == actor);
    if !is_known && settings.distinct_keys && is_key && had_it && after.approvals_needed > 1 {
        return Err(ApproveError::SameKey(id()));
    }
    if !is_known {
        let (hash, edition) = (draft.hash.clone(), draft.edition);
        after.approvals.push(Approval { by: by.clone(), actor, at: now, hash, edition });
    }
    if missing(&after) == 0 {
        after.status = Status::Approved;
        after.approved_at = Some(now);
        after.changed_at = now;
        after.decided_by = Some(by);
    }
    Ok(Step::Write(Box::new(after)))
}

/// `Ada` and ` ADA ` are one.
fn is_same_person(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

fn missing(draft: &Draft) -> u32 {
    let given = u32::try_from(draft.approvals.len()).unwrap_or(u32::MAX);
    draft.approvals_needed.saturating_sub(given)
}

/// Whoever approves hears now that nobody knows as whom it would be sent.
async fn ready(cx: &Cx, settings: &Settings) -> Result<(), ApproveError> {
    let Some(client) = settings.find_client(cx).await? else { return Err(ApproveError::NoSender) };
    if settings::has_sender(cx, client, settings.sender.as_ref()).await? {
        Ok(())
    } else {
        Err(ApproveError::NoSender)
    }
}

fn in_approval(error: StoreError) -> ApproveError {
    ApproveError::Store(error.into())
}
