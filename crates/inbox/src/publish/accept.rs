//! Accepting a post: once, with everything that must be true together.
//!
//! The transaction that accepts a post holds what makes the same request known again, and what gets it done: the copies
//! themselves if they are few, a job if they are more, a timer if its time has not come. What does not fit into a transaction, the users
//! of a large post, is written before it (`draft`).

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Actor, Cx, StorageError};
use tidings_jobs::contracts::InboxTask;
use tidings_kernel::{
    Cancellation, Condition, Expect, Item, ItemStore, StoreError, Timer, Txn, queues, tables,
};

use super::check::{Checked, check};
use super::copies::Copies;
use super::draft::{Draft, PAGES};
use super::redact::SAFETY;
use super::{
    MAX_AT_ONCE, MAX_PUBLIC, MAX_TOGETHER, NewPost, Published, audited, everyone, job, message,
    post as load, walk,
};
use crate::Inbox;
use crate::ids::MessageId;
use crate::keys::{self, InboxKey, PAGE, UserId};
use crate::race::{ATTEMPTS, lost};
use crate::records::{Accepted, Audience, EXPIRY, Post, State};
use crate::settings::{self, MAX_CATEGORIES, Registered};
use crate::timeline;
use crate::wrong::{Wrong, listed};

/// A post is known at least so long, also if its messages live shorter.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("the post was refused: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("another request had the same host_system_id: its post is {0}")]
    OtherRequest(MessageId),
    #[error(
        "this inbox has {MAX_PUBLIC} messages to everyone, and no room for more until some expire or are redacted"
    )]
    Full,
    #[error("others kept changing the same inboxes")]
    Busy,
    #[error("the post could not be accepted")]
    Store(#[source] StorageError),
}

impl From<StorageError> for PublishError {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Busy,
            error => Self::Store(error.into()),
        }
    }
}

impl Inbox {
    /// Publishes a message to users or to everyone. Afterwards the post exists, and whatever happens to this process all of its users
    /// get it once: up to 1,000 of them before the answer. The same request with the same `host_system_id` is answered
    /// as the first one was, and publishes nothing.
    pub async fn publish(
        &self,
        cx: &Cx,
        inbox: &InboxKey,
        new: NewPost,
    ) -> Result<Published, PublishError> {
        let checked = check(new, cx.now()).map_err(PublishError::Invalid)?;
        if let Some(before) = accepted(cx, inbox, &checked).await? {
            return replay(cx, inbox, &before, &checked.fingerprint).await;
        }
        let in_force = settings::in_force(cx, inbox).await?;
        let due = checked.send_at.unwrap_or_else(|| cx.now());
        let ttl = checked.expires_in.unwrap_or_else(|| in_force.ttl(checked.category.as_ref()));
        let category = checked.category.as_ref();
        let registered = settings::register(cx, inbox, category, in_force.categories).await?;
        if registered == Registered::Full {
            return Err(no_more_categories());
        }
        let (uids, post) = draft(checked, cx.now(), due, ttl.after(due));
        let is_crowded = registered == Registered::Crowded;
        let accepting = Accepting { inbox: self, cx, key: inbox, post, is_crowded };
        match uids {
            None => accepting.everyone().await,
            Some(uids) => accepting.users(&uids).await,
        }
    }
}

fn no_more_categories() -> PublishError {
    let message =
        format!("must be one of the {MAX_CATEGORIES} that this inbox has: it has no room for more");
    PublishError::Invalid(vec![Wrong { field: "category".to_owned(), message }])
}

/// That the same request, or another with its id, came before.
async fn accepted(
    cx: &Cx,
    inbox: &InboxKey,
    checked: &Checked,
) -> Result<Option<Accepted>, StorageError> {
    let Some(host_system_id) = &checked.host_system_id else { return Ok(None) };
    let key = keys::host(cx.workspace(), inbox, host_system_id);
    let found = cx.items().await?.get(&tables::INBOX, &key).await?;
    Ok(found.as_ref().map(Accepted::read).transpose()?)
}

async fn replay(
    cx: &Cx,
    inbox: &InboxKey,
    before: &Accepted,
    fingerprint: &str,
) -> Result<Published, PublishError> {
    if before.fingerprint != fingerprint {
        return Err(PublishError::OtherRequest(before.id.clone()));
    }
    let post = load(cx, inbox, &before.id).await?;
    // A post is kept as long as the mark of its request, but expired items go one by one.
    let (recipients, state) = post.map_or((0, State::Done), |post| (post.recipients, post.state));
    Ok(Published { id: before.id.clone(), recipients, state, replayed: true })
}

/// The post, and whom it is for.
fn draft(
    checked: Checked,
    now: Timestamp,
    due: Timestamp,
    expires: Timestamp,
) -> (Option<Vec<UserId>>, Post) {
    let least = due.checked_add(KEPT).unwrap_or(Timestamp::MAX);
    let audience = if checked.uids.is_some() { Audience::Users } else { Audience::Everyone };
    let post = Post {
        // The id is of the time when readers get it, so that they see messages in that order.
        id: MessageId::new(due),
        sender: checked.sender,
        audience,
        label: checked.label,
        category: checked.category,
        host_system_id: checked.host_system_id,
        fingerprint: checked.fingerprint,
        recipients: checked.uids.as_ref().map_or(0, |uids| uids.len() as i64),
        state: if checked.send_at.is_some() { State::Scheduled } else { State::Delivering },
        delivered: 0,
        redacted: 0,
        content: Some(checked.content),
        accepted_at: now,
        send_at: checked.send_at,
        expires,
        kept_until: expires.max(least),
    };
    (checked.uids, post)
}

struct Accepting<'a> {
    inbox: &'a Inbox,
    cx: &'a Cx,
    key: &'a InboxKey,
    post: Post,
    /// Its category may be taken off the list of those that the inbox has.
    is_crowded: bool,
}

/// What became of the transaction.
enum Written {
    Yes,
    /// Its request was accepted before.
    Before(Accepted),
    /// Load and decide again.
    Again,
}

impl Accepting<'_> {
    async fn everyone(&self) -> Result<Published, PublishError> {
        if self.post.state == State::Scheduled {
            let txn = self.timed(self.begin(&self.post));
            return self.until_written(txn).await;
        }
        let done = Post { state: State::Done, content: None, ..self.post.clone() };
        let base = self.begin(&done);
        match everyone::put(self.cx, self.inbox, (self.key, &self.post), &base).await {
            Ok(everyone::Put::Done) => {
                self.inbox.hints.changed(self.cx.workspace(), self.key, None);
                Ok(self.published(State::Done))
            }
            Ok(everyone::Put::Full) => Err(PublishError::Full),
            Ok(everyone::Put::Lost(reasons)) => match before(reasons)? {
                Some(before) => self.replay(&before).await,
                None => Err(PublishError::Busy),
            },
            Err(StorageError::Items(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn users(&self, uids: &[UserId]) -> Result<Published, PublishError> {
        if self.post.state == State::Scheduled {
            return self.with_pages(self.timed(self.begin(&self.post)), uids).await;
        }
        if uids.len() <= MAX_TOGETHER {
            return self.together(uids).await;
        }
        let job = message(self.cx, self.key, &self.post.id, InboxTask::Deliver);
        let at_once = uids.len() <= MAX_AT_ONCE;
        let txn = self.begin(&self.post);
        let txn = txn.enqueue(if at_once { job.delayed(SAFETY) } else { job });
        let published = self.with_pages(txn, uids).await?;
        if published.replayed || !at_once {
            return Ok(published);
        }
        let post = self.post.clone();
        match walk::page(self.inbox, self.cx, self.key, post).await {
            Ok(post) => Ok(Published { state: post.state, ..published }),
            // It is accepted, and a worker goes on with it.
            Err(error) => {
                tracing::warn!(
                    post.id = %published.id,
                    error = %tidings_kernel::causes(&error),
                    "Post {} goes on in the queue",
                    published.id
                );
                Ok(published)
            }
        }
    }

    /// Accepts and delivers in one transaction.
    async fn together(&self, uids: &[UserId]) -> Result<Published, PublishError> {
        let items = self.cx.items().await?;
        let done = Post {
            state: State::Done,
            delivered: self.post.recipients,
            content: None,
            ..self.post.clone()
        };
        let known = timeline::known(self.cx, uids).await?;
        for _ in 0..ATTEMPTS {
            let txn = self.begin(&done).put(&tables::INBOX, self.page(1, uids), Expect::Anything);
            let copies = Copies { cx: self.cx, inbox: self.key, post: &self.post, known: &known };
            let txn = copies.put(items.as_ref(), txn, uids).await?;
            match self.write(items.as_ref(), txn).await? {
                Written::Yes => {
                    for uid in uids {
                        self.inbox.hints.changed(self.cx.workspace(), self.key, Some(uid));
                    }
                    return Ok(self.published(State::Done));
                }
                Written::Before(before) => return self.replay(&before).await,
                Written::Again => {}
            }
        }
        Err(PublishError::Busy)
    }

    /// The beginning of every transaction that accepts: that the request is new, and the post.
    fn begin(&self, post: &Post) -> Txn {
        let tenant = self.cx.workspace();
        let mut txn = Txn::new();
        if let Some(accepted) = post.accepted_item(tenant, self.key) {
            // One that is past its time may still be there, and means nothing any more.
            let past = Condition::Le(EXPIRY.into(), self.cx.now().as_second().into());
            let free = Condition::not_exists("id").or(past);
            txn = txn.put(&tables::INBOX, accepted, Expect::That(free));
        }
        // What goes to named users is a message like any other; what goes to everyone is an act of whoever runs the app.
        if post.audience == Audience::Everyone && *self.cx.actor() != Actor::Worker {
            txn = txn.enqueue(audited(self.cx, "post.publish", self.key, (None, post)));
        }
        txn = txn.put(&tables::INBOX, post.to_item(tenant, self.key), Expect::Absent);
        if let Some(filed) = post.filed_item(tenant, self.key) {
            txn = txn.put(&tables::INBOX, filed, Expect::Anything);
        }
        match &post.category {
            Some(category) if self.is_crowded => {
                let list = keys::categories(tenant, self.key);
                txn.check(&tables::INBOX, list, settings::still_noted(category))
            }
            _ => txn,
        }
    }

    /// Accepts with the users in the same transaction, or after they were written.
    async fn with_pages(&self, txn: Txn, uids: &[UserId]) -> Result<Published, PublishError> {
        if uids.len() <= PAGE {
            let txn = txn.put(&tables::INBOX, self.page(1, uids), Expect::Anything);
            return self.until_written(txn).await;
        }
        let draft = Draft { cx: self.cx, inbox: self.key, id: &self.post.id };
        let accepted = self.after_pages(draft, txn, uids).await;
        if matches!(&accepted, Ok(published) if !published.replayed) {
            return accepted;
        }
        // If it was accepted all the same, there is no draft to give up.
        if let Err(error) = draft.give_up().await {
            let error = tidings_kernel::causes(&error);
            tracing::warn!(post.id = %self.post.id, error, "A post that was not accepted is cleared away later");
        }
        accepted
    }

    async fn after_pages(
        &self,
        draft: Draft<'_>,
        txn: Txn,
        uids: &[UserId],
    ) -> Result<Published, PublishError> {
        draft.begin(&self.post).await?;
        for (at, some) in uids.chunks(PAGE * PAGES).enumerate() {
            let numbered = some.chunks(PAGE).zip(at * PAGES + 1..);
            let pages = numbered.map(|(uids, number)| self.page(number, uids)).collect();
            if !draft.write(pages).await? {
                return Err(PublishError::Busy);
            }
        }
        self.until_written(draft.accepted(txn)).await
    }

    fn page(&self, number: usize, uids: &[UserId]) -> Item {
        self.post.recipients_item(self.cx.workspace(), self.key, number, uids)
    }

    /// With the timer of a post whose time has not come.
    fn timed(&self, txn: Txn) -> Txn {
        let Some(due) = self.post.send_at else { return txn };
        txn.arm(Timer {
            key: keys::timer(self.key, &self.post.id),
            due,
            queue: &queues::INBOX_POSTS,
            body: job(self.cx, self.key, &self.post.id, InboxTask::Deliver),
        })
    }

    async fn until_written(&self, txn: Txn) -> Result<Published, PublishError> {
        let items = self.cx.items().await?;
        for _ in 0..ATTEMPTS {
            match self.write(items.as_ref(), txn.clone()).await? {
                Written::Yes => return Ok(self.published(self.post.state)),
                Written::Before(before) => return self.replay(&before).await,
                Written::Again => {}
            }
        }
        Err(PublishError::Busy)
    }

    async fn write(&self, items: &dyn ItemStore, txn: Txn) -> Result<Written, PublishError> {
        match items.transact(txn).await {
            Ok(()) => Ok(Written::Yes),
            Err(StoreError::Cancelled(reasons)) if self.post.host_system_id.is_some() => {
                match before(reasons.clone())? {
                    Some(before) => Ok(Written::Before(before)),
                    None if lost(&StoreError::Cancelled(reasons.clone())) => Ok(Written::Again),
                    None => Err(StoreError::Cancelled(reasons).into()),
                }
            }
            Err(error) if lost(&error) => Ok(Written::Again),
            Err(error) => Err(error.into()),
        }
    }

    async fn replay(&self, before: &Accepted) -> Result<Published, PublishError> {
        replay(self.cx, self.key, before, &self.post.fingerprint).await
    }

    fn published(&self, state: State) -> Published {
        let (id, recipients) = (self.post.id.clone(), self.post.recipients);
        Published { id, recipients, state, replayed: false }
    }
}

/// Who was faster with the same request, by why the first write of a transaction was refused.
fn before(reasons: Vec<Cancellation>) -> Result<Option<Accepted>, StoreError> {
    match reasons.into_iter().next() {
        Some(Cancellation::ConditionFailed { current: Some(current) }) => {
            Accepted::read(&current).map(Some)
        }
        _ => Ok(None),
    }
}
