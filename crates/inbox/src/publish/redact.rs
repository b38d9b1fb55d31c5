//! Taking a post back: before its time has come, or away from those who have it.

use std::time::Duration;

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::InboxTask;
use tidings_kernel::{StoreError, Txn};

use super::{MAX_AT_ONCE, audited, everyone, message, moved, post as load, unfiled, walk};
use crate::Inbox;
use crate::ids::MessageId;
use crate::keys::{self, InboxKey};
use crate::race::{ATTEMPTS, lost};
use crate::records::{Audience, Post, State};

/// A worker looks after what should have been done before the answer, in case it was not.
pub(super) const SAFETY: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    #[error("there is no post {0} in this inbox")]
    Missing(MessageId),
    #[error("others kept changing the post")]
    Busy,
    #[error("the post could not be taken away")]
    Store(#[source] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    #[error("there is no post {0} in this inbox")]
    Missing(MessageId),
    #[error("the post is {0}, and only one whose time has not come can be cancelled")]
    NotScheduled(State),
    #[error("others kept changing the post")]
    Busy,
    #[error("the post could not be cancelled")]
    Store(#[source] StorageError),
}

impl From<StorageError> for RedactError {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl From<StoreError> for RedactError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl From<StorageError> for CancelError {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl Inbox {
    /// Takes a post back whose time has not come. Nobody will get it.
    pub async fn cancel(
        &self,
        cx: &Cx,
        inbox: &InboxKey,
        id: &MessageId,
    ) -> Result<Post, CancelError> {
        for _ in 0..ATTEMPTS {
            let post = load(cx, inbox, id).await?;
            let post = post.ok_or_else(|| CancelError::Missing(id.clone()))?;
            match post.state {
                State::Cancelled => return Ok(post),
                State::Scheduled => {}
                other => return Err(CancelError::NotScheduled(other)),
            }
            if let Some(cancelled) = cancel(cx, inbox, &post).await? {
                return Ok(cancelled);
            }
        }
        Err(CancelError::Busy)
    }

    /// Takes a post away from all who have it, and from all who would have got it; their counts are as if it had never
    /// been there. From many users it is taken away by and by: then the post is `redacting`. What was taken away
    /// before, stays so.
    pub async fn redact(
        &self,
        cx: &Cx,
        inbox: &InboxKey,
        id: &MessageId,
    ) -> Result<Post, RedactError> {
        for _ in 0..ATTEMPTS {
            let post = load(cx, inbox, id).await?;
            let post = post.ok_or_else(|| RedactError::Missing(id.clone()))?;
            let redacted = match (post.state, post.audience) {
                (State::Cancelled | State::Redacting | State::Redacted, _) => return Ok(post),
                (State::Scheduled, _) => cancel(cx, inbox, &post).await?,
                (State::Delivering | State::Done, Audience::Everyone) => {
                    everyone::redact(cx, inbox, &post).await?
                }
                (State::Delivering | State::Done, Audience::Users) => {
                    begin(cx, inbox, &post).await?
                }
            };
            let Some(redacted) = redacted else { continue };
            if redacted.audience == Audience::Everyone {
                self.hints.changed(cx.workspace(), inbox, None);
            }
            if redacted.state == State::Redacting && redacted.delivered <= MAX_AT_ONCE as i64 {
                return Ok(walk::page(self, cx, inbox, redacted).await?);
            }
            return Ok(redacted);
        }
        Err(RedactError::Busy)
    }
}

/// `None` if somebody was faster.
async fn cancel(cx: &Cx, inbox: &InboxKey, post: &Post) -> Result<Option<Post>, StorageError> {
    let after = post.taken_back(State::Cancelled);
    let txn = Txn::new()
        .update(moved(cx, inbox, post, &after))
        .cancel_timer(keys::timer(inbox, &post.id))
        .enqueue(audited(cx, "post.cancel", inbox, (Some(post), &after)));
    write(cx, unfiled(cx, inbox, post, txn), after).await
}

/// From now on nobody gets it any more. `None` if somebody was faster.
async fn begin(cx: &Cx, inbox: &InboxKey, post: &Post) -> Result<Option<Post>, StorageError> {
    let mut after = post.taken_back(State::Redacting);
    let mut txn = Txn::new();
    if post.delivered == 0 {
        after.state = State::Redacted;
        txn = unfiled(cx, inbox, post, txn);
    } else {
        let job = message(cx, inbox, &post.id, InboxTask::Redact);
        let now = post.delivered > MAX_AT_ONCE as i64;
        txn = txn.enqueue(if now { job } else { job.delayed(SAFETY) });
    }
    txn = txn.enqueue(audited(cx, "post.redact", inbox, (Some(post), &after)));
    write(cx, txn.update(moved(cx, inbox, post, &after)), after).await
}

async fn write(cx: &Cx, txn: Txn, after: Post) -> Result<Option<Post>, StorageError> {
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(Some(after)),
        Err(error) if lost(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
