//! Suppression: addresses that must not be written to, whatever anyone has agreed to.
//!
//! Here: why and since when an address is suppressed, what lifts that again, and how bounces add up. No import, upsert or
//! erasure weakens it: of an erased person a keyed hash remains. Not here: what a person has agreed to (`consent`), and reading bounces off the wire
//! (`signals`). Whoever reads them decides what they are: a mail that was refused for its content (too large, an attachment,
//! a full mailbox) says nothing about the address, and nobody calls this for it.

mod bounces;
mod everywhere;
mod gate;
mod kept;
pub(crate) mod memory;
pub(crate) mod record;
#[cfg(test)]
mod rows;
mod store;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use tidings_access::{Cx, Limit, Page, StorageError, in_millis};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Key, Query, SortRange, StoreError, Txn, tables,
};

use crate::contacts;
use crate::heard;
use crate::keys;
use crate::news;
use crate::race;
use memory::{Memory, Secret};
use store::Held;

pub use bounces::{delivered, transient_bounce};
pub use everywhere::{
    AtProvider, erase_contact_everywhere, erase_everywhere, lift_everywhere, suppress_everywhere,
};
pub use gate::{Against, Gate, Loaded, Looked, gate};
pub use record::{Kind, KindError, Reason, ReasonError, Suppression};

#[derive(Debug, Clone)]
pub struct Suppress {
    pub email: EmailAddress,
    pub kind: Kind,
    pub reason: Reason,
    /// The event that it is because of, if it is one.
    pub source: Option<String>,
    pub note: Option<Reason>,
    /// When that happened, not when we heard of it.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suppressed {
    New(Suppression),
    /// It was before. What is kept is the earliest event, and one that lasts rather than transient bounces.
    Already(Suppression),
    /// It happened before somebody lifted the suppression, and nothing was done.
    Stale,
}

#[derive(Debug, Clone)]
pub struct Lift {
    pub email: EmailAddress,
    pub reason: Reason,
}

#[derive(Debug, thiserror::Error)]
pub enum LiftError {
    #[error("this address is not suppressed")]
    Missing,
    #[error("the suppression could not be lifted")]
    Store(#[from] StorageError),
}

/// What is known against writing to an address. A gate asks this, and also finds what was known of somebody who was erased.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    pub suppression: Option<Suppression>,
    /// Somebody with this address unsubscribed from everything and was then erased.
    pub unsubscribed_before_erasure: bool,
}

/// From now on nothing is sent there. Doing it again changes nothing, except that an earlier event takes the place of a later
/// one, and what lasts takes the place of transient bounces.
pub async fn suppress(cx: &Cx, cmd: Suppress) -> Result<Suppressed, StorageError> {
    let cmd = Suppress { at: in_millis(cmd.at), ..cmd };
    let items = cx.items().await?;
    let erased_at = contacts::erased_at(cx, &cmd.email).await?;
    let mut told = None;
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, &cmd.email).await?;
        // SES repeats a bounce for up to a day. One from before the lift must not bring the suppression back; what
        // somebody decides here is decided now.
        if cmd.source.is_some() && held.lifted_at.is_some_and(|lifted| cmd.at <= lifted) {
            return Ok(Suppressed::Stale);
        }
        let suppression = describe(cx, &cmd);
        if let Some(current) = &held.suppression
            && !suppression.replaces(current)
        {
            return Ok(Suppressed::Already(current.clone()));
        }
        // Once: what happens here may happen again after a crash, but not because somebody else was faster.
        let contact = match told {
            Some(contact) => contact,
            None => *told.insert(store::mark(cx, &cmd).await?),
        };
        let txn = held.unchanged_by(Txn::new().put(
            &tables::MAIN,
            suppression.to_entry(),
            Expect::Anything,
        ));
        let mut txn = txn.put(&tables::MAIN, suppression.to_item(), held.expected_suppression());
        if held.suppression.is_none() {
            let told =
                tidings_webhooks::message(cx, &news::suppressed(&suppression, contact)).await?;
            txn = told.into_iter().fold(txn, Txn::enqueue);
            txn = txn.enqueue(heard::suppressed(&suppression).to_message(cx));
        }
        match items.transact(held.flag_profile(txn, true, cx.now())).await {
            Ok(()) => {}
            Err(error) if race::lost(&error) => continue,
            Err(error) => return Err(error.into()),
        }
        // Whoever was erased meanwhile is suppressed by the hash alone.
        if contacts::erased_at(cx, &cmd.email).await? != erased_at {
            contacts::take_back(cx, std::slice::from_ref(&cmd.email)).await?;
        }
        return Ok(match held.suppression {
            Some(_) => Suppressed::Already(suppression),
            None => Suppressed::New(suppression),
        });
    }
    Err(StoreError::Conflict.into())
}

/// The same for an address whose person is erased: a keyed hash of it is kept, and nothing that tells who it was. What
/// was remembered before stays.
pub async fn remember_erased(
    cx: &Cx,
    email: &EmailAddress,
    kind: Kind,
    at: Timestamp,
) -> Result<(), StorageError> {
    let (items, at) = (cx.items().await?, in_millis(at));
    let within = cx.clone();
    let secret = cx.database().write(move |tx| Secret::find_or_make(tx, &within)).await?;
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, email).await?;
        if held.lifted_at.is_some_and(|lifted| at <= lifted) {
            return Ok(());
        }
        let found = held.remembered(&items, Some(&secret)).await?;
        let expected = match &found {
            Some((_, memory)) if memory.suppression.is_some() => return Ok(()),
            Some(_) => Expect::That(Condition::eq("type", memory::UNSUBSCRIBED)),
            None => Expect::Absent,
        };
        let unsubscribed_at = found.and_then(|(_, memory)| memory.unsubscribed_at);
        let suppression = Suppression {
            email: email.clone(),
            kind,
            reason: "erased".to_owned(),
            suppressed_at: at,
            source: None,
            actor: None,
            note: None,
        };
        let memory = Memory { suppression: Some(suppression), unsubscribed_at };
        let item = memory.to_item(&secret.key(email));
        match items.transact(Txn::new().put(&tables::MAIN, item, expected)).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// The address can be written to again, as far as consent allows. Events from before cannot bring the suppression back.
pub async fn lift(cx: &Cx, cmd: Lift) -> Result<Suppression, LiftError> {
    let items = cx.items().await.map_err(LiftError::Store)?;
    let secret = store::secret(cx).await.map_err(StorageError::from)?;
    let mut told = false;
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, &cmd.email).await?;
        let memory = held.remembered(&items, secret.as_ref()).await?;
        let remembered = memory.as_ref().and_then(|(_, memory)| memory.suppression.clone());
        let flagged = held.flagged.then(|| unexplained(cx, &cmd.email));
        let Some(was) = held.suppression.clone().or(remembered).or(flagged) else {
            return Err(LiftError::Missing);
        };
        // First: if we die after it, the address is still suppressed, and this can be done again.
        if !std::mem::replace(&mut told, true) {
            store::unmark(cx, &was, "suppression.lift").await.map_err(StorageError::from)?;
        }
        let mut txn = held.without_suppression(Txn::new());
        if held.suppression.is_some() || held.flagged {
            txn = txn.put(&tables::MAIN, store::lifted_item(cx, &cmd, &was), held.expected_lift());
        }
        if let Some((key, memory)) = memory {
            txn = forget(txn, &key, &memory);
        }
        match items.transact(held.flag_profile(txn, false, cx.now())).await {
            Ok(()) => return Ok(was),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

/// By address.
pub async fn list(
    cx: &Cx,
    after: Option<EmailAddress>,
    limit: Limit,
) -> Result<Page<Suppression, EmailAddress>, StorageError> {
    let range = match after {
        Some(after) => SortRange::Gt(keys::subscriber(&after)),
        None => SortRange::All,
    };
    let wanted = usize::try_from(limit.and_one()).unwrap_or(1);
    let query = Query::new(&tables::MAIN, keys::SUPPRESSIONS).range(range).limit(wanted);
    let found = cx.items().await?.query(query).await?.items;
    let read = found.iter().filter_map(|item| {
        let email: EmailAddress = item.text("email")?.parse().ok()?;
        Some(Suppression::read(email, item))
    });
    Ok(Page::cut(read.collect(), limit, |suppression| suppression.email.clone()))
}

/// Of this address, or of whoever had it and was erased.
pub async fn status(cx: &Cx, email: &EmailAddress) -> Result<Status, StorageError> {
    let items = cx.items().await?;
    let secret = store::secret(cx).await?;
    let mut wanted = vec![keys::suppression(email)];
    wanted.extend(secret.map(|secret| secret.key(email)));
    let found = items.batch_get(&tables::MAIN, &wanted).await?;
    let current = found.first().and_then(Option::as_ref);
    let current = current.map(|item| Suppression::read(email.clone(), item));
    let memory = found.get(1).and_then(Option::as_ref).map(|item| Memory::read(email, item));
    let memory = memory.unwrap_or_default();
    Ok(Status {
        suppression: current.or(memory.suppression),
        unsubscribed_before_erasure: memory.unsubscribed_at.is_some(),
    })
}

fn describe(cx: &Cx, cmd: &Suppress) -> Suppression {
    Suppression {
        email: cmd.email.clone(),
        kind: cmd.kind,
        reason: cmd.reason.as_str().to_owned(),
        suppressed_at: cmd.at,
        source: cmd.source.clone(),
        actor: cmd.source.is_none().then(|| cx.actor().to_string()),
        note: cmd.note.as_ref().map(|note| note.as_str().to_owned()),
    }
}

/// The flag of the profile blocks by itself; nobody knows why any more.
fn unexplained(cx: &Cx, email: &EmailAddress) -> Suppression {
    Suppression {
        email: email.clone(),
        kind: Kind::Manual,
        reason: "unknown".to_owned(),
        suppressed_at: in_millis(cx.now()),
        source: None,
        actor: None,
        note: None,
    }
}

/// Of the suppression. That somebody unsubscribed is not ours to forget.
fn forget(txn: Txn, key: &Key, memory: &Memory) -> Txn {
    let rest = Memory { suppression: None, ..memory.clone() };
    if rest.is_empty() {
        txn.delete(&tables::MAIN, key.clone(), Expect::Anything)
    } else {
        txn.put(&tables::MAIN, rest.to_item(key), Expect::Anything)
    }
}
