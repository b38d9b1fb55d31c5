//! Erasing a person: afterwards nothing here says who it was, and nobody is written to again who must not be.
//!
//! It begins in one transaction of the relations: the identities go, and a row of `erasures` says which addresses are still
//! to be cleaned. From then on whoever comes with the address is somebody new. The rest follows in bounded steps, each of
//! which can be done twice; a call after a crash goes on where the last one ended, and `resume` does if nobody calls. What webhooks were told goes with the relations. Whoever was merged into him is erased with him.

mod identities;
mod late;
mod learned;
mod ledger;
mod letters;
mod reminders;
mod walks;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Access, Cx, StorageError};
use tidings_inbox::keys::UserId;
use tidings_kernel::{
    Condition, EmailAddress, Expect, ItemStore, Query, StoreError, Table, Txn, tables,
};
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::ContactId;
use super::profile::Profile;
use super::store;
use crate::consent::erased;
use crate::keys;
use crate::news;
use crate::race;
use crate::segments;
use crate::suppression::memory::{Memory, Secret};
use crate::suppression::{Kind, Suppression};

/// So many items are deleted at once.
const ITEMS: usize = 100;
/// After so long whoever began an erasure is taken to have died over it.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

pub use identities::{was_address_of, was_erased_since};
pub(crate) use late::erased_at;
pub use late::{take_back, take_back_erased, was_erased};
pub use ledger::{ERASED_KEY, FORWARD_KEY, erased_keys};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erased {
    /// Whether there was something to erase.
    pub erased: bool,
}

/// What is still to be done.
pub(super) struct Work {
    contact: Option<ContactId>,
    addresses: Vec<EmailAddress>,
    /// What products call him: his inboxes are under these.
    user_ids: Vec<UserId>,
    unsubscribed_at: Option<Timestamp>,
    secret: Secret,
}

/// Afterwards nothing tells who this was. It can be cut short at any point, and called again until it says that there was nothing
/// left to erase.
pub async fn erase(cx: &Cx, email: &EmailAddress) -> Result<Erased, StorageError> {
    let mut erased = false;
    loop {
        let (within, address) = (cx.clone(), email.clone());
        let work = cx.database().write(move |tx| begin(tx, &within, &address)).await?;
        erased |= carry_out(cx, &work).await?;
        // One that was cut short long ago can stand before the one of today.
        let Some(contact) = work.contact else { return Ok(Erased { erased }) };
        finish(cx, contact).await?;
    }
}

/// The same of a contact who may have no address. `None` if there is no such contact. Called again it goes on where it was cut
/// short, and so does `resume`.
pub async fn erase_contact(cx: &Cx, contact: ContactId) -> Result<Option<Erased>, StorageError> {
    let within = cx.clone();
    let begun = cx.database().write(move |tx| begin_contact(tx, &within, contact)).await?;
    match begun {
        Begun::Nobody => Ok(None),
        Begun::Has(email) => erase(cx, &email).await.map(Some),
        Begun::Family { family, erased } => {
            for one in family {
                resume_one(cx, one).await?;
            }
            Ok(Some(Erased { erased }))
        }
    }
}

/// Goes on with what was begun and cut short, so many at most: nobody may ever ask for it again. What is under way
/// elsewhere is given some time. Tells how many are done now.
pub async fn resume(access: &Access, batch: usize) -> Result<usize, StorageError> {
    let before = access.now().saturating_sub(PATIENCE).unwrap_or(Timestamp::UNIX_EPOCH);
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let find = access.database().read(move |tx| {
        let sql = "SELECT workspace_id, lead_id FROM erasures
                   WHERE done_at IS NULL AND begun_at < $1 ORDER BY begun_at, id LIMIT $2";
        let rows = tx.query(sql, &[Param::Int(before.as_millisecond()), Param::Int(batch)])?;
        rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<Vec<_>, _>>()
    });
    let open: Result<Vec<(i64, i64)>, DatabaseError> = find.await;
    let mut done = 0;
    for (workspace, lead) in open? {
        let Some(cx) = access.working_for(workspace).await? else { continue };
        match resume_one(&cx, ContactId::from(lead)).await {
            Ok(()) => done += 1,
            // The others need not wait for this one.
            Err(error) => {
                let error = tidings_kernel::causes(&error);
                tracing::warn!(
                    workspace,
                    contact = lead,
                    error,
                    "An erasure could not be finished"
                );
            }
        }
    }
    Ok(done)
}

async fn resume_one(cx: &Cx, contact: ContactId) -> Result<(), StorageError> {
    let within = cx.clone();
    let load = cx.database().write(move |tx| {
        let secret = Secret::find_or_make(tx, &within)?;
        let rows = tx.query(
            &format!("{OPEN} AND e.lead_id = $2"),
            &[Param::Int(within.workspace_id().get()), Param::Int(contact.get())],
        )?;
        rows.first().map(|row| Work::read(row, secret)).transpose()
    });
    let work: Result<Option<Work>, DatabaseError> = load.await;
    let Some(work) = work? else { return Ok(()) };
    carry_out(cx, &work).await?;
    Ok(finish(cx, contact).await?)
}

async fn carry_out(cx: &Cx, work: &Work) -> Result<bool, StorageError> {
    let items = cx.items().await?;
    if let Some(contact) = work.contact {
        ledger::clear_own(cx, contact, (&work.secret, &work.addresses)).await?;
        learned::clear(cx, contact).await?;
    }
    for user in &work.user_ids {
        tidings_inbox::forget(cx, user).await?;
    }
    let mut any = work.contact.is_some();
    for address in &work.addresses {
        any |= ledger::clear_mentions(cx, &work.secret, address).await?;
        ledger::clear_filters(cx, address).await?;
        any |= clear_items(&items, work, address, cx.now()).await?;
        delete_captured(cx, address).await?;
        letters::clear(cx, address).await?;
    }
    Ok(any)
}

/// What comes in between, a bounce or somebody new with the address, is met by the next round.
async fn clear_items(
    items: &Arc<dyn ItemStore>,
    work: &Work,
    email: &EmailAddress,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let mut any = false;
    for _ in 0..race::ATTEMPTS {
        let mut found = forget(items, work, email, now).await?;
        found |= walks::end(items, email, now).await?;
        found |= reminders::clear(items, email, now).await?;
        found |= delete_all(items, &tables::MAIN, email).await?;
        found |= delete_all(items, &tables::EVENTS, email).await?;
        if !found {
            return Ok(any);
        }
        any = true;
    }
    Err(StoreError::Conflict.into())
}

/// Finds what is to be erased, or what an earlier call has begun. The relations are clean when it ends, but for the ledger.
pub(super) fn begin(tx: &mut Tx<'_>, cx: &Cx, email: &EmailAddress) -> Result<Work, DatabaseError> {
    let secret = Secret::find_or_make(tx, cx)?;
    let hash = secret.hash(email);
    tidings_webhooks::erase(tx, cx, email)?;
    if let Some(known) = store::find(tx, cx, email)? {
        clear_family(tx, cx, known.id, (&hash, &secret))?;
    }
    under_way(tx, cx, email, &hash, secret)
}

/// What erasing a contact has begun with.
enum Begun {
    Nobody,
    /// He has an address: everything is found by that.
    Has(EmailAddress),
    /// All whom he is, and whether anything was there now.
    Family {
        family: Vec<ContactId>,
        erased: bool,
    },
}

fn begin_contact(tx: &mut Tx<'_>, cx: &Cx, contact: ContactId) -> Result<Begun, DatabaseError> {
    let Some((root, is_erased)) = learned::root(tx, cx, contact)? else {
        return Ok(Begun::Nobody);
    };
    if is_erased {
        let family = learned::family(tx, root)?;
        return Ok(Begun::Family { family, erased: false });
    }
    if let Some(email) = addresses_of(tx, root)?.iter().find_map(|email| email.parse().ok()) {
        return Ok(Begun::Has(email));
    }
    let secret = Secret::find_or_make(tx, cx)?;
    // Stands where others have the hash of the address that was asked for. No address has it.
    let nothing = "0".repeat(64);
    let family = clear_family(tx, cx, root, (&nothing, &secret))?;
    Ok(Begun::Family { family, erased: true })
}

/// Takes a person out of the relations, with whoever was merged into him: each has rows and events of his own.
fn clear_family(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (hash, secret): (&str, &Secret),
) -> Result<Vec<ContactId>, DatabaseError> {
    let addresses = addresses_of(tx, contact)?;
    let mut hashes = Vec::new();
    for address in addresses.iter().filter_map(|address| address.parse().ok()) {
        tidings_webhooks::erase(tx, cx, &address)?;
        hashes.push(secret.hash(&address));
    }
    let json = serde_json::to_string(&addresses).expect("texts have a JSON form");
    let family = learned::family(tx, contact)?;
    let users = user_ids_of(tx, &family)?;
    identities::remember(tx, cx, &family, secret)?;
    for one in &family {
        // What they say is gone with the next step.
        erased::remember(tx, *one, &hashes)?;
        clear_relations(tx, cx, *one)?;
        enter(tx, cx, *one, [hash, &json, &users])?;
    }
    segments::changed(tx, cx, &family)?;
    cx.record(tx, "contact.erase", "contact", &contact.to_string())?;
    tidings_webhooks::announce(cx, tx, &news::deleted(cx, contact.get()))?;
    Ok(family)
}

/// From now on it is known that there is something to be cleaned, whoever dies over it.
fn enter(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    [hash, addresses, user_ids]: [&str; 3],
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO erasures (workspace_id, lead_id, address_hash, addresses, begun_at, user_ids)
                   VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (lead_id) DO UPDATE SET address_hash = excluded.address_hash,
                       addresses = excluded.addresses, user_ids = excluded.user_ids, done_at = NULL";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Text(hash),
        Param::Text(addresses),
        Param::Int(cx.now().as_millisecond()),
        Param::Text(user_ids),
    ];
    tx.execute(sql, &params).map(drop)
}

/// Erasures that were begun and not ended.
const OPEN: &str =
    "SELECT e.lead_id, CAST(e.addresses AS TEXT), l.unsubscribed_at, CAST(e.user_ids AS TEXT)
                    FROM erasures e JOIN leads l ON l.id = e.lead_id
                    WHERE e.workspace_id = $1 AND e.done_at IS NULL";

/// What was begun last, by this call or by one that was cut short, of the person who had this address, whichever of his
/// addresses it was begun by.
fn under_way(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
    hash: &str,
    secret: Secret,
) -> Result<Work, DatabaseError> {
    let sql = format!(
        "{OPEN} AND (e.address_hash = $2 OR CAST(e.addresses AS TEXT) LIKE $3 ESCAPE '!')
         ORDER BY e.id LIMIT 1"
    );
    let pattern = quoted(email);
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(hash), Param::Text(&pattern)];
    let rows = tx.query(&sql, &params)?;
    let Some(row) = rows.first() else {
        // Nobody's, but there can be items: a suppression, or events of somebody who was never a contact.
        let (contact, addresses, user_ids) = (None, vec![email.clone()], Vec::new());
        return Ok(Work { contact, addresses, user_ids, unsubscribed_at: None, secret });
    };
    let mut work = Work::read(row, secret)?;
    if !work.addresses.contains(email) {
        work.addresses.push(email.clone());
    }
    Ok(work)
}

impl Work {
    /// Of a row of `OPEN`.
    fn read(row: &Row, secret: Secret) -> Result<Self, DatabaseError> {
        let addresses: Vec<String> = serde_json::from_str(row.text(1)?).unwrap_or_default();
        let addresses = addresses.iter().filter_map(|address| address.parse().ok()).collect();
        let contact = Some(ContactId::from(row.int(0)?));
        let users = row.optional_text(3)?.map(serde_json::from_str::<Vec<String>>);
        let users = users.and_then(Result::ok).unwrap_or_default();
        // One that no inbox can have has no messages in any.
        let user_ids = users.iter().filter_map(|user| user.parse().ok()).collect();
        let unsubscribed_at = row.optional_time(2)?;
        Ok(Self { contact, addresses, user_ids, unsubscribed_at, secret })
    }
}

/// What a JSON list with this address in it looks like, for `LIKE`.
fn quoted(email: &EmailAddress) -> String {
    let escaped = email.as_str().replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%\"{escaped}\"%")
}

fn addresses_of(tx: &mut Tx<'_>, contact: ContactId) -> Result<Vec<String>, DatabaseError> {
    let sql = "SELECT value FROM channel_identities
               WHERE lead_id = $1 AND channel = 'email' ORDER BY id LIMIT $2";
    let rows = tx.query(sql, &[Param::Int(contact.get()), Param::Int(store::MAX_ADDRESSES)])?;
    rows.iter().map(|row| row.text(0).map(ToOwned::to_owned)).collect()
}

/// As a JSON list.
fn user_ids_of(tx: &mut Tx<'_>, family: &[ContactId]) -> Result<String, DatabaseError> {
    let ids: Vec<i64> = family.iter().map(|one| one.get()).collect();
    let sql = "SELECT value FROM channel_identities WHERE lead_id {among} AND channel = 'user_id'";
    let rows = tx.query_among(sql, &[], Among::Ints(&ids))?;
    let users: Vec<&str> = rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    Ok(serde_json::to_string(&users).expect("texts have a JSON form"))
}

fn clear_relations(tx: &mut Tx<'_>, cx: &Cx, contact: ContactId) -> Result<(), DatabaseError> {
    for sql in [
        "DELETE FROM confirmations WHERE subscription_id IN (
             SELECT id FROM subscriptions WHERE lead_id = $1)",
        "DELETE FROM subscriptions WHERE lead_id = $1",
        "DELETE FROM topic_preferences WHERE lead_id = $1",
        "UPDATE consent_log SET ip = NULL, user_agent = NULL, reason = NULL WHERE lead_id = $1",
        "DELETE FROM channel_identities WHERE lead_id = $1",
    ] {
        tx.execute(sql, &[Param::Int(contact.get())])?;
    }
    // Who was merged stays merged into somebody erased: then nobody can take them apart.
    let sql =
        "UPDATE leads SET erased_at = $2, updated_at = $2, display_name = NULL, locale = NULL,
                   timezone = NULL, attributes = '{}'
               WHERE id = $1";
    let params = [Param::Int(contact.get()), Param::Int(cx.now().as_millisecond())];
    tx.execute(sql, &params).map(drop)
}

/// The profile with its tags and the suppression with its bounces go in the transaction that writes down what must be remembered of them.
async fn forget(
    items: &Arc<dyn ItemStore>,
    work: &Work,
    email: &EmailAddress,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let memory_key = work.secret.key(email);
    let wanted =
        [keys::profile(email), keys::suppression(email), memory_key.clone(), keys::bounces(email)];
    for _ in 0..race::ATTEMPTS {
        let mut found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
        let mut next = || found.next().flatten();
        let (profile, suppression, memory, bounces) = (next(), next(), next(), next());
        let before = memory.as_ref().map(|item| Memory::read(email, item)).unwrap_or_default();
        let profile = profile.map(Profile::from);
        let expected = Suppression::unchanged(suppression.as_ref());
        let suppression = suppression.map(|item| Suppression::read(email.clone(), &item));
        let after = remembered(&before, profile.as_ref(), suppression.as_ref(), work, now);
        let nothing = profile.is_none() && suppression.is_none() && bounces.is_none();
        if nothing && after == before {
            return Ok(false);
        }
        let mut txn = Txn::new()
            .delete(&tables::MAIN, keys::suppression(email), expected)
            .delete(&tables::MAIN, keys::suppression_entry(email), Expect::Anything)
            .delete(&tables::MAIN, keys::bounces(email), Expect::Anything)
            .delete(&tables::MAIN, keys::profile(email), unchanged(profile.as_ref()));
        for tag in profile.iter().flat_map(Profile::tags) {
            txn = txn.delete(&tables::MAIN, keys::tag(&tag, email), Expect::Anything);
        }
        if !after.is_empty() {
            txn = txn.put(&tables::MAIN, after.to_item(&memory_key), Expect::Anything);
        }
        match items.transact(txn).await {
            Ok(()) => return Ok(!nothing),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// The strictest of what is known now and what was known of an earlier one with this address.
fn remembered(
    before: &Memory,
    profile: Option<&Profile>,
    suppression: Option<&Suppression>,
    work: &Work,
    now: Timestamp,
) -> Memory {
    let flagged = profile.filter(|profile| profile.suppressed()).map(|_| Suppression {
        email: work.addresses[0].clone(),
        kind: Kind::Manual,
        reason: String::new(),
        suppressed_at: now,
        source: None,
        actor: None,
        note: None,
    });
    let suppression = match (suppression, &before.suppression) {
        (Some(now), Some(before)) if !before.replaces(now) => Some(now.clone()),
        (Some(now), None) => Some(now.clone()),
        (_, before) => before.clone().or(flagged),
    };
    let unsubscribed = profile.is_some_and(Profile::unsubscribed).then_some(now);
    let unsubscribed_at = before.unsubscribed_at.or(work.unsubscribed_at).or(unsubscribed);
    Memory { suppression, unsubscribed_at }
}

/// With the tags whose entries go too, and the flags that are remembered.
fn unchanged(profile: Option<&Profile>) -> Expect {
    let Some(profile) = profile else { return Expect::Absent };
    let same = |name: &str| match profile.item().get(name) {
        Some(value) => Condition::eq(name, value.clone()),
        None => Condition::not_exists(name),
    };
    Expect::That(same("tags").and(same("unsubscribed")).and(same("suppressed")))
}

/// All but the profile and the suppression: those go only with what must be remembered of them.
async fn delete_all(
    items: &Arc<dyn ItemStore>,
    table: &'static Table,
    email: &EmailAddress,
) -> Result<bool, StorageError> {
    let kept = [keys::profile(email), keys::suppression(email)];
    let (mut any, mut cursor) = (false, None);
    loop {
        let query = Query::new(table, keys::subscriber(email)).after(cursor).limit(ITEMS);
        let page = items.query(query).await?;
        let (mut txn, mut writes) = (Txn::new(), 0);
        for item in &page.items {
            let key = table.key_of(item).map_err(StoreError::from)?;
            if !kept.contains(&key) {
                txn = txn.delete(table, key, Expect::Anything);
                writes += 1;
            }
        }
        if writes > 0 {
            items.transact(txn).await?;
            any = true;
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(any);
        }
    }
}

/// Mail that was kept to look at instead of being sent.
async fn delete_captured(cx: &Cx, email: &EmailAddress) -> Result<(), DatabaseError> {
    let sql = "DELETE FROM captured_mails
               WHERE workspace_id = $1 AND LOWER(CAST(rcpt_to AS TEXT)) LIKE $2 ESCAPE '!'";
    let (workspace, pattern) = (cx.workspace_id().get(), quoted(email));
    let delete = cx.database().write(move |tx| {
        tx.execute(sql, &[Param::Int(workspace), Param::Text(&pattern)]).map(drop)
    });
    delete.await
}

/// Now nothing tells the addresses any more, this row neither.
async fn finish(cx: &Cx, contact: ContactId) -> Result<(), DatabaseError> {
    let now = cx.now().as_millisecond();
    let finish = cx.database().write(move |tx| {
        let sql = "UPDATE erasures SET addresses = NULL, user_ids = NULL, done_at = $2
                   WHERE lead_id = $1 AND done_at IS NULL";
        tx.execute(sql, &[Param::Int(contact.get()), Param::Int(now)]).map(drop)
    });
    finish.await
}
