//! The one writer of profiles and of the indexes of tags.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Actor, Change, Cx, StorageError};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, Key, Outgoing, StoreError, Txn, Update, tables,
};

use super::erase;
use super::profile::{self, Profile};
use super::rules::{self, Edit, Plan};
use super::store::Known;
use super::{Contact, Flags, UpsertError, Upserted};
use crate::keys;
use crate::news;
use crate::race;
use crate::segments;
use crate::suppression::Suppression;
use crate::suppression::memory::{Memory, Secret};

/// Whose profile it is, as far as the relations know.
pub(crate) struct Person {
    pub(crate) known: Known,
    /// To look whether somebody with this address was erased.
    pub(crate) secret: Option<Secret>,
}

/// The items that an edit depends on.
pub(crate) struct Held {
    pub(crate) profile: Option<Profile>,
    suppression: Option<Item>,
    memory: Memory,
}

pub(crate) async fn write(
    cx: &Cx,
    email: &EmailAddress,
    person: Person,
    edit: &Edit,
) -> Result<Upserted, UpsertError> {
    for _ in 0..race::ATTEMPTS {
        match write_with(cx, email, &person, edit, Txn::new()).await {
            Err(UpsertError::Store(StorageError::Items(error))) if race::lost(&error) => {}
            done => return done,
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

/// The same in one transaction with something else. Whose turn it is to decide again if somebody was faster, the caller knows.
pub(crate) async fn write_with(
    cx: &Cx,
    email: &EmailAddress,
    person: &Person,
    edit: &Edit,
    with: Txn,
) -> Result<Upserted, UpsertError> {
    let items = cx.items().await?;
    let wanted = Held::keys(email, person.secret.as_ref());
    let found = items.batch_get(&tables::MAIN, &wanted).await.map_err(StorageError::from)?;
    let held = Held::read(email, found);
    let before = held.profile.clone().unwrap_or_default();
    let plan = rules::plan(&before, edit)?;
    let created = held.profile.is_none();
    let shown = |profile: &Profile| {
        let flags = held.flags(&person.known);
        Upserted { contact: Contact::new(email.clone(), &person.known, profile, flags), created }
    };
    if !created && plan.is_empty() {
        if !with.writes.is_empty() {
            items.transact(with).await.map_err(StorageError::from)?;
        }
        return Ok(shown(&before));
    }
    let update = held.update(email, &person.known, &plan, cx.now());
    let after = update.apply(held.profile.as_ref().map(Profile::item));
    let after = after.map_err(|error| StorageError::from(StoreError::from(error)))?;
    let mut txn = held.txn(email, update, &plan, cx.now());
    if !created {
        let told = news::updated(cx, person.known.id.get(), email);
        let told = tidings_webhooks::message(cx, &told).await.map_err(StorageError::from)?;
        txn = told.into_iter().fold(txn, Txn::enqueue);
    }
    // What workers do for others is in the log of those.
    if *cx.actor() != Actor::Worker {
        txn = txn.enqueue(audited(cx, &person.known, &plan, created));
    }
    let checks = segments::to_check(cx, &[person.known.id]).await;
    txn = checks.map_err(StorageError::from)?.into_iter().fold(txn, Txn::enqueue);
    items.transact(txn.and(with)).await.map_err(StorageError::from)?;
    erase::take_back(cx, std::slice::from_ref(email)).await?;
    Ok(shown(&after.map(Profile::from).unwrap_or_default()))
}

/// What the audit log is told: which fields are others now, and not what is in them.
fn audited(cx: &Cx, known: &Known, plan: &Plan, created: bool) -> Outgoing {
    let action = if created { "contact.create" } else { "contact.update" };
    let fields = plan.set.keys().map(String::as_str);
    let fields = fields.chain(plan.remove.iter().map(String::as_str));
    let fields: BTreeSet<&str> = fields.chain(plan.tags.as_ref().map(|_| "tags")).collect();
    cx.audited(&Change::new(action, "contact", known.id).after(json!({ "fields": fields })))
}

impl Held {
    /// The keys of the items, in the order in which `read` takes them.
    pub(crate) fn keys(email: &EmailAddress, secret: Option<&Secret>) -> Vec<Key> {
        let mut wanted = vec![keys::profile(email), keys::suppression(email)];
        wanted.extend(secret.map(|secret| secret.key(email)));
        wanted
    }

    pub(crate) fn is_suppressed(&self) -> bool {
        self.suppression.is_some() || self.memory.suppression.is_some()
    }

    pub(crate) fn is_unsubscribed(&self) -> bool {
        let profile = self.profile.as_ref().is_some_and(Profile::unsubscribed);
        profile || self.memory.unsubscribed_at.is_some()
    }

    fn flags(&self, known: &Known) -> Flags {
        let flagged = self.profile.as_ref().is_some_and(Profile::suppressed);
        Flags {
            unsubscribed: known.unsubscribed_at.is_some() || self.is_unsubscribed(),
            suppressed: flagged || self.is_suppressed(),
        }
    }

    pub(crate) fn read(email: &EmailAddress, found: Vec<Option<Item>>) -> Self {
        let mut found = found.into_iter();
        let mut next = || found.next().flatten();
        let (profile, suppression, memory) = (next(), next(), next());
        Self {
            profile: profile.map(Profile::from),
            suppression,
            memory: memory.map(|item| Memory::read(email, &item)).unwrap_or_default(),
        }
    }

    pub(crate) fn update(
        &self,
        email: &EmailAddress,
        known: &Known,
        plan: &Plan,
        now: Timestamp,
    ) -> Update {
        let suppressed = self.is_suppressed();
        let unsubscribed = known.unsubscribed_at.is_some() || self.memory.unsubscribed_at.is_some();
        let mut update = Update::new(&tables::MAIN, keys::profile(email))
            .set("email", email.as_str())
            .set("updatedAt", keys::time(now))
            .set_if_absent("createdAt", keys::time(now))
            .set_if_absent("unsubscribed", unsubscribed)
            .set_if_absent("suppressed", suppressed)
            .expect(self.unchanged());
        for (name, value) in &plan.set {
            update = update.set(name.as_str(), value.clone());
        }
        for name in &plan.remove {
            update = update.remove(name.as_str());
        }
        match &plan.tags {
            Some(tags) => update.set("tags", profile::tag_list(tags)),
            None => update.set_if_absent("tags", profile::tag_list(&Default::default())),
        }
    }

    /// The tags are those that the plan was made for, or the index would get out of step; and so is all else that the
    /// limits were checked for.
    fn unchanged(&self) -> Expect {
        let Some(profile) = &self.profile else { return Expect::Absent };
        let same = |name: &str| match profile.item().get(name) {
            Some(value) => Condition::eq(name, value.clone()),
            None => Condition::not_exists(name),
        };
        // An update makes an item where there is none, so that one is there must be said.
        Expect::That(Condition::exists("PK").and(same("tags")).and(same("updatedAt")))
    }

    pub(crate) fn txn(
        &self,
        email: &EmailAddress,
        update: Update,
        plan: &Plan,
        now: Timestamp,
    ) -> Txn {
        let mut txn = Txn::new().update(update);
        for tag in &plan.tagged {
            txn = txn.put(&tables::MAIN, profile::tag_item(tag, email, now), Expect::Anything);
        }
        for tag in &plan.untagged {
            txn = txn.delete(&tables::MAIN, keys::tag(tag, email), Expect::Anything);
        }
        if self.profile.is_some() || self.suppression.is_some() {
            return txn;
        }
        match &self.memory.suppression {
            // Nobody suppresses the address between our look and our write.
            None => txn.check(&tables::MAIN, keys::suppression(email), Expect::Absent),
            // Whoever asks finds it where suppressions are.
            Some(remembered) => {
                let restored = Suppression { email: email.clone(), ..remembered.clone() };
                txn.put(&tables::MAIN, restored.to_item(), Expect::Absent).put(
                    &tables::MAIN,
                    restored.to_entry(),
                    Expect::Anything,
                )
            }
        }
    }
}
