//! Signing a user out: whatever he was let in by is refused from now on, and his streams end. What he has stays his.
//!
//! It is written down where it would be that he was forgotten (`forgotten`): there a refresh finds it, and a first look. And it is
//! written into his counts in every inbox, which all other looks read.

use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{Condition, Expect, StoreError, Txn, tables};

use crate::Inbox;
use crate::counting::Counting;
use crate::forget::noted;
use crate::forgotten;
use crate::keys::{self, InboxKey, UserId};
use crate::race::ATTEMPTS;
use crate::records::FORGOTTEN_AT;

/// Ends every token of a user that was made until now, refresh tokens too, and his streams. It can be cut short and done again. Who
/// comes with a key comes in as before.
pub async fn sign_out(cx: &Cx, inbox: &Inbox, user: &UserId) -> Result<(), StorageError> {
    let note = forgotten::note(cx, user).await?;
    let at = forgotten::at(Some(&note)).unwrap_or_else(|| cx.now().as_millisecond());
    // The id of a user is whatever the app calls him by, so the log has the hash under which it is written down.
    let hash = note.text("SK").and_then(|sort| sort.strip_prefix(keys::FORGOTTEN));
    let change = Change::new("inbox_user.sign_out", "inbox_user", hash.unwrap_or_default());
    let txn = Txn::new().enqueue(cx.audited(&change));
    cx.items().await?.transact(txn.put(&tables::INBOX, note, Expect::Anything)).await?;
    let mut after = None;
    loop {
        let (inboxes, next) = noted(cx, after).await?;
        for key in &inboxes {
            if turn_out(cx, (key, user), at).await? {
                inbox.hints.changed(cx.workspace(), key, Some(user));
            }
        }
        after = next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Tells whether there was anybody. Whoever comes to an inbox for the first time later finds what is written down.
async fn turn_out(
    cx: &Cx,
    (inbox, user): (&InboxKey, &UserId),
    at: i64,
) -> Result<bool, StorageError> {
    let items = cx.items().await?;
    let earlier = Condition::Lt(FORGOTTEN_AT.into(), at.into());
    let earlier = Condition::not_exists(FORGOTTEN_AT).or(earlier);
    for _ in 0..ATTEMPTS {
        let all = Counting::of_user(cx.workspace(), inbox, user).all().set(FORGOTTEN_AT, at);
        let is_there = Condition::exists("rev").and(earlier.clone());
        match items.update(all.expect(Expect::That(is_there))).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_condition_failed() => return Ok(false),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
