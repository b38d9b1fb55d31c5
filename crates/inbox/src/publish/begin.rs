//! Beginning a post whose time has come. How its users get it then, is in `walk`.

use tidings_access::{Cx, StorageError};
use tidings_kernel::Txn;

use super::{everyone, moved};
use crate::Inbox;
use crate::keys::InboxKey;
use crate::race::lost;
use crate::records::{Audience, Post, State};

/// What became of a post whose time has come.
pub(super) enum Begun {
    Yes(Box<Post>),
    /// Somebody was faster, or it was taken back.
    Not,
    /// It is for everyone, and the inbox has no room.
    Full,
}

/// Begins a post that was scheduled, whatever the clock of this node says: its timer was due.
pub(super) async fn begin(
    inbox: &Inbox,
    cx: &Cx,
    key: &InboxKey,
    post: Post,
) -> Result<Begun, StorageError> {
    match post.audience {
        Audience::Users => {
            let after = Post { state: State::Delivering, ..post.clone() };
            let txn = Txn::new().update(moved(cx, key, &post, &after));
            match cx.items().await?.transact(txn).await {
                Ok(()) => Ok(Begun::Yes(Box::new(after))),
                Err(error) if lost(&error) => Ok(Begun::Not),
                Err(error) => Err(error.into()),
            }
        }
        Audience::Everyone => {
            let after = Post { state: State::Done, content: None, ..post.clone() };
            let base = Txn::new().update(moved(cx, key, &post, &after));
            match everyone::put(cx, inbox, (key, &post), &base).await? {
                everyone::Put::Done => {
                    inbox.hints.changed(cx.workspace(), key, None);
                    Ok(Begun::Yes(Box::new(after)))
                }
                everyone::Put::Lost(_) => Ok(Begun::Not),
                everyone::Put::Full => Ok(Begun::Full),
            }
        }
    }
}
