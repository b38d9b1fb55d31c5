//! Publishing: a post comes in once, reaches each of its users once, and can be taken away again.
//!
//! A post is an item that says whom it is for and how far it is; it changes in the transaction that stores copies of its
//! message and counts them, and each change expects the one before. So a request, a job and a timer can come twice, and a
//! process can end anywhere: who goes on finds out from the post where that is. A message to everyone is one item,
//! whatever their number.
//!
//! Here: what a post may be (`check`), how it is accepted (`accept`, `draft`), begun when its time has come (`begin`), brought to its users or
//! taken away from them (`walk`, `copies`, `everyone`, `redact`), and the worker of the queue `inbox-posts` (`worker`). Not here: what readers do with messages.

mod accept;
mod begin;
mod check;
mod copies;
mod draft;
mod everyone;
mod redact;
#[cfg(test)]
mod tests;
mod walk;
mod worker;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, InboxPost, InboxTask};
use tidings_kernel::{
    Condition, Cursor, Expect, Outgoing, Query, StoreError, Txn, Update, queues, tables,
};

pub use accept::PublishError;
pub use check::check_uri;
pub use redact::{CancelError, RedactError};
pub use worker::handler;

use crate::ids::MessageId;
use crate::keys::{self, InboxKey};
use crate::records::{Post, State};

/// So many users can be named in one post.
pub const MAX_USERS: usize = 100_000;
/// So many users have it before the answer.
pub const MAX_AT_ONCE: usize = 1_000;
/// So many public messages an inbox can have at a time: each reader's node keeps a list of them.
pub const MAX_PUBLIC: i64 = 20_000;
/// So many users have it in the transaction that accepts it.
const MAX_TOGETHER: usize = 20;
/// So many copies are in one transaction: three items each, the post, the page of its users, and the job or the line that goes with them.
const CHUNK: usize = 32;
/// The same where a timeline is told of each.
const CHUNK_TOLD: usize = 24;
/// So many posts are on a page.
const MAX_PAGE: usize = 100;

/// Whom a post is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    Everyone,
    Users(Vec<String>),
}

/// A post as somebody asked for it. Nothing of it was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPost {
    pub to: To,
    /// What readers are told of whom it went to.
    pub label: Option<String>,
    pub category: Option<String>,
    pub title: String,
    pub body: Json,
    pub cta_uri: Option<String>,
    /// By which the same request is known again.
    pub host_system_id: Option<String>,
    /// Not before then; one that is past means now.
    pub send_at: Option<Timestamp>,
    /// How long it lives, in place of what the settings say.
    pub expires_in: Option<String>,
    /// Who sends it, for readers and operators.
    pub sender: String,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub id: MessageId,
    /// How many users it is for; 0 if it is for everyone.
    pub recipients: i64,
    pub state: State,
    /// Whether it was accepted before, and this is the answer to the same request again.
    pub replayed: bool,
}

/// Some posts, the newest first, and where to go on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostPage {
    pub posts: Vec<Post>,
    pub next: Option<Cursor>,
}

/// How far a post is. `None` if there is none with this id, or it is forgotten.
pub async fn post(cx: &Cx, inbox: &InboxKey, id: &MessageId) -> Result<Option<Post>, StorageError> {
    let key = keys::post(cx.workspace(), inbox, id);
    let found = cx.items().await?.get(&tables::INBOX, &key).await?;
    Ok(found.as_ref().map(Post::read).transpose()?)
}

/// The posts of an inbox, the newest first.
pub async fn posts(
    cx: &Cx,
    inbox: &InboxKey,
    limit: usize,
    after: Option<Cursor>,
) -> Result<PostPage, StorageError> {
    let query = Query::new(&tables::INBOX, keys::posts(cx.workspace(), inbox))
        .begins_with(keys::POSTS)
        .backward()
        .limit(limit.clamp(1, MAX_PAGE))
        .after(after);
    let page = cx.items().await?.query(query).await?;
    let posts = page.items.iter().map(Post::read).collect::<Result<_, StoreError>>()?;
    Ok(PostPage { posts, next: page.cursor })
}

/// What a worker is told of a post.
fn job(cx: &Cx, inbox: &InboxKey, id: &MessageId, task: InboxTask) -> String {
    let job = InboxPost {
        workspace: cx.workspace().clone(),
        inbox: inbox.as_str().to_owned(),
        id: id.as_str().to_owned(),
        task,
    };
    job.to_body().expect("the key of an inbox and an id are within their bounds")
}

fn message(cx: &Cx, inbox: &InboxKey, id: &MessageId, task: InboxTask) -> Outgoing {
    Outgoing::new(&queues::INBOX_POSTS, job(cx, inbox, id, task))
}

/// Moves a post from what it was when it was loaded.
fn moved(cx: &Cx, inbox: &InboxKey, before: &Post, after: &Post) -> Update {
    let unchanged = Condition::eq("state", before.state.as_str())
        .and(Condition::eq("delivered", before.delivered))
        .and(Condition::eq("redacted", before.redacted));
    let update = Update::new(&tables::INBOX, keys::post(cx.workspace(), inbox, &before.id))
        .set("state", after.state.as_str())
        .set("delivered", after.delivered)
        .set("redacted", after.redacted)
        .expect(Expect::That(unchanged));
    let update = if after.content.is_none() { update.remove("message") } else { update };
    if after.label.is_none() { update.remove("label") } else { update }
}

/// A post of whose category there are no messages any more.
fn unfiled(cx: &Cx, inbox: &InboxKey, post: &Post, txn: Txn) -> Txn {
    let Some(category) = &post.category else { return txn };
    let key = keys::filed(cx.workspace(), inbox, category, &post.id);
    txn.delete(&tables::INBOX, key, Expect::Anything)
}

/// What the audit log is told of a post that was made for everyone, or taken away.
fn audited(
    cx: &Cx,
    action: &'static str,
    inbox: &InboxKey,
    (before, after): (Option<&Post>, &Post),
) -> Outgoing {
    let told =
        |post: &Post| json!({ "state": post.state.to_string(), "recipients": post.recipients });
    let change = Change::new(action, "post", format_args!("{inbox}/{}", after.id));
    cx.audited(&match before {
        Some(before) => change.before(told(before)).after(told(after)),
        None => change.after(told(after)),
    })
}
