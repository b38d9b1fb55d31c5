//! That a user was forgotten or signed out, and when: so that nobody who was let in before then brings him back, or comes in.
//!
//! It is kept under a keyed hash of his id (`access::erasure`), as long as a token from before could be good. Whoever
//! comes for the first time under an id is held against it, in the transaction that makes his counts; they remember it from
//! then on, so that no later look has to ask.

use jiff::{SignedDuration, Timestamp};
use tidings_access::erasure::Secret;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, Expect, Item, Key, Put, tables};
use tidings_sql::DatabaseError;

use crate::keys::{self, UserId};
use crate::records::EXPIRY;
use crate::tokens::REFRESH_DAYS;

/// When somebody was forgotten or signed out, in milliseconds since 1970.
const AT: &str = "at";
/// A day longer than any token: clocks of nodes differ.
const KEPT: SignedDuration = SignedDuration::from_hours(24 * (REFRESH_DAYS + 1));

/// Where it stands that a user was forgotten.
pub(crate) async fn key(cx: &Cx, uid: &UserId) -> Result<Key, StorageError> {
    let within = cx.clone();
    let found = cx.database().read(move |tx| Secret::find(tx, &within));
    let found: Result<Option<Secret>, DatabaseError> = found.await;
    let secret = match found? {
        Some(secret) => secret,
        None => {
            // Whoever is forgotten next must be found in the same place.
            let within = cx.clone();
            cx.database().write(move |tx| Secret::find_or_make(tx, &within)).await?
        }
    };
    // No address begins like this, nor any other name that is hashed.
    let hash = secret.hash(&format!("\ninbox user\n{uid}"));
    Ok(keys::forgotten(cx.workspace(), &hash))
}

/// From now on whoever was let in under this id until now is refused.
pub(crate) async fn remember(cx: &Cx, uid: &UserId) -> Result<(), StorageError> {
    let item = note(cx, uid).await?;
    cx.items().await?.put(Put::new(&tables::INBOX, item)).await?;
    Ok(())
}

/// What says so once it is stored. Where another node's clock is ahead of ours, it says what that has said.
pub(crate) async fn note(cx: &Cx, uid: &UserId) -> Result<Item, StorageError> {
    let key = key(cx, uid).await?;
    let before = at(cx.items().await?.get(&tables::INBOX, &key).await?.as_ref());
    let until = cx.now().checked_add(KEPT).unwrap_or(Timestamp::MAX);
    let item = tables::INBOX.bare_item(&key);
    let now = cx.now().as_millisecond();
    Ok(item.with(AT, before.unwrap_or(now).max(now)).with(EXPIRY, until.as_second()))
}

/// Whether somebody who was let in at this time was forgotten since.
pub(crate) async fn was_since(
    cx: &Cx,
    uid: &UserId,
    let_in: Timestamp,
) -> Result<bool, StorageError> {
    let found = cx.items().await?.get(&tables::INBOX, &key(cx, uid).await?).await?;
    Ok(is_since(at(found.as_ref()), Some(let_in)))
}

/// When that was, by what stands at the key.
pub(crate) fn at(found: Option<&Item>) -> Option<i64> {
    found?.integer(AT)
}

/// Whether that was after somebody was let in, or in the same moment. Nobody who proves just now who he is was forgotten since.
pub(crate) fn is_since(at: Option<i64>, let_in: Option<Timestamp>) -> bool {
    at.zip(let_in).is_some_and(|(at, let_in)| let_in.as_millisecond() <= at)
}

/// That nobody of this id was forgotten since it was looked up.
pub(crate) fn still(cx: &Cx, at: Option<i64>) -> Expect {
    Expect::That(match at {
        Some(at) => Condition::eq(AT, at),
        // What is past its time may still be there, and means nothing any more.
        None => {
            let past = Condition::Le(EXPIRY.into(), cx.now().as_second().into());
            Condition::not_exists(AT).or(past)
        }
    })
}
