//! What is stored of a suppression, and what a write of it assumes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, ItemStore, Key, StoreError, Txn, Update, tables,
};
use tidings_sql::{DatabaseError, Param, Tx};

use super::memory::{Memory, Secret};
use super::record::{Kind, Suppression};
use super::{Lift, Suppress};
use crate::contacts::ContactId;
use crate::contacts::profile::{Profile, time};
use crate::keys;

/// All that stands under an address and bears on its suppression.
pub(super) struct Held {
    email: EmailAddress,
    pub(super) suppression: Option<Suppression>,
    /// The same as it is stored.
    stored: Option<Item>,
    pub(super) lifted_at: Option<Timestamp>,
    pub(super) bounces: Option<Item>,
    has_profile: bool,
    /// The profile says that it is suppressed, whether or not something says why.
    pub(super) flagged: bool,
}

impl Held {
    pub(super) async fn load(
        items: &Arc<dyn ItemStore>,
        email: &EmailAddress,
    ) -> Result<Self, StorageError> {
        let wanted = [
            keys::suppression(email),
            keys::lifted(email),
            keys::profile(email),
            keys::bounces(email),
        ];
        let mut found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
        let mut next = || found.next().flatten();
        let (suppression, lifted, profile, bounces) = (next(), next(), next(), next());
        Ok(Self {
            email: email.clone(),
            suppression: suppression.as_ref().map(|item| Suppression::read(email.clone(), item)),
            stored: suppression,
            lifted_at: lifted.and_then(|item| time(&item, "liftedAt")),
            bounces,
            has_profile: profile.is_some(),
            flagged: profile.is_some_and(|item| Profile::from(item).suppressed()),
        })
    }

    /// What is still known of somebody who had this address and was erased.
    pub(super) async fn remembered(
        &self,
        items: &Arc<dyn ItemStore>,
        secret: Option<&Secret>,
    ) -> Result<Option<(Key, Memory)>, StorageError> {
        let Some(secret) = secret else { return Ok(None) };
        let key = secret.key(&self.email);
        let found = items.get(&tables::MAIN, &key).await?;
        Ok(found.map(|item| (key, Memory::read(&self.email, &item))))
    }

    pub(super) fn expected_suppression(&self) -> Expect {
        Suppression::unchanged(self.stored.as_ref())
    }

    pub(super) fn expected_lift(&self) -> Expect {
        match self.lifted_at {
            Some(at) => same_time("liftedAt", at),
            None => Expect::Absent,
        }
    }

    /// Nobody has lifted anything meanwhile.
    pub(super) fn unchanged_by(&self, txn: Txn) -> Txn {
        txn.check(&tables::MAIN, keys::lifted(&self.email), self.expected_lift())
    }

    /// The flag of the profile follows, if there is a profile: none is made.
    pub(super) fn flag_profile(&self, txn: Txn, suppressed: bool, now: Timestamp) -> Txn {
        let key = keys::profile(&self.email);
        if !self.has_profile {
            return txn.check(&tables::MAIN, key, Expect::Absent);
        }
        let flag = Update::new(&tables::MAIN, key)
            .set("suppressed", suppressed)
            .set("updatedAt", keys::time(now))
            .expect(Expect::Present);
        txn.update(flag)
    }

    /// And without the bounces that led to it.
    pub(super) fn without_suppression(&self, txn: Txn) -> Txn {
        let bounces = keys::bounces(&self.email);
        self.without_suppression_alone(txn).delete(&tables::MAIN, bounces, Expect::Anything)
    }

    pub(super) fn without_suppression_alone(&self, txn: Txn) -> Txn {
        let suppression = keys::suppression(&self.email);
        txn.delete(&tables::MAIN, suppression, self.expected_suppression()).delete(
            &tables::MAIN,
            keys::suppression_entry(&self.email),
            Expect::Anything,
        )
    }
}

fn same_time(name: &str, at: Timestamp) -> Expect {
    Expect::That(Condition::eq(name, keys::time(at)))
}

pub(super) fn lifted_item(cx: &Cx, cmd: &Lift, was: &Suppression) -> Item {
    tables::MAIN
        .bare_item(&keys::lifted(&cmd.email))
        .with("liftedAt", keys::time(cx.now()))
        .with("reason", cmd.reason.as_str())
        .with("actor", cx.actor().to_string())
        .with("type", was.kind.as_str())
        .with("suppressedAt", keys::time(was.suppressed_at))
}

pub(super) async fn secret(cx: &Cx) -> Result<Option<Secret>, DatabaseError> {
    let within = cx.clone();
    cx.database().read(move |tx| Secret::find(tx, &within)).await
}

/// What a provider said of an address is kept with the identity too, for filters. Tells whose it is.
pub(super) async fn mark(cx: &Cx, cmd: &Suppress) -> Result<Option<ContactId>, DatabaseError> {
    let (within, cmd) = (cx.clone(), cmd.clone());
    let mark = cx.database().write(move |tx| {
        mark_identity(tx, &within, &cmd.email, (cmd.kind, cmd.at))?;
        let told = json!({ "kind": cmd.kind.as_str(), "since": cmd.at.to_string() });
        record(tx, &within, &cmd.email, |target| {
            Change::new("suppression.add", target.0, target.1).after(told.clone())
        })
    });
    mark.await
}

/// The same once more, of a suppression that is there.
pub(super) async fn mark_again(cx: &Cx, current: &Suppression) -> Result<(), DatabaseError> {
    let (within, current) = (cx.clone(), current.clone());
    let since = (current.kind, current.suppressed_at);
    cx.database().write(move |tx| mark_identity(tx, &within, &current.email, since)).await
}

fn mark_identity(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
    (kind, at): (Kind, Timestamp),
) -> Result<(), DatabaseError> {
    let column = match kind {
        Kind::Permanent | Kind::Transient => "bounced_at",
        Kind::Complaint => "complained_at",
        Kind::Manual => return Ok(()),
    };
    let sql = format!(
        "UPDATE channel_identities SET {column} = $3, updated_at = $4
         WHERE workspace_id = $1 AND channel = 'email' AND value = $2
           AND ({column} IS NULL OR {column} > $3)"
    );
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Text(email.as_str()),
        Param::Int(at.as_millisecond()),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(&sql, &params)?;
    Ok(())
}

pub(super) async fn unmark(
    cx: &Cx,
    was: &Suppression,
    action: &'static str,
) -> Result<(), DatabaseError> {
    let (within, email) = (cx.clone(), was.email.clone());
    let told = json!({ "kind": was.kind.as_str(), "since": was.suppressed_at.to_string() });
    let unmark = cx.database().write(move |tx| {
        let sql = "UPDATE channel_identities
                   SET bounced_at = NULL, complained_at = NULL, updated_at = $3
                   WHERE workspace_id = $1 AND channel = 'email' AND value = $2";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(email.as_str()),
            Param::Int(within.now().as_millisecond()),
        ];
        tx.execute(sql, &params)?;
        let change =
            |target: (_, String)| Change::new(action, target.0, target.1).before(told.clone());
        record(tx, &within, &email, change).map(drop)
    });
    unmark.await
}

/// The log has no addresses: a contact's id, or the keyed hash of an address that is nobody's.
fn record(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
    change: impl Fn((&'static str, String)) -> Change,
) -> Result<Option<ContactId>, DatabaseError> {
    let known = crate::contacts::store::find(tx, cx, email)?;
    let target = match &known {
        Some(known) => ("contact", known.id.to_string()),
        None => ("address", Secret::find_or_make(tx, cx)?.hash(email)),
    };
    cx.record_change(tx, &change(target))?;
    Ok(known.map(|known| known.id))
}

impl From<StoreError> for super::LiftError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}
