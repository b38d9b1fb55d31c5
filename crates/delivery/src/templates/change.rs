//! New versions, and which of them is active.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidings_access::{Change as Audited, Cx, StorageError};
use tidings_kernel::{
    Cancellation, Condition, Expect, ItemStore, Outgoing, StoreError, Txn, Update, tables,
};
use tidings_templates::{Fault, Part, partials_named};

use super::content::{Content, MAX_STORED, Ready, Validated};
use super::key::TemplateKey;
use super::store::{Current, Status, current, current_item, pointing_to, version_item};

/// So often somebody loads and decides again before he gives up.
const ATTEMPTS: usize = 30;
/// How many partials are looked up for one template.
const MAX_LOADED: usize = 50;

#[derive(Debug, Clone)]
pub struct Put {
    pub key: TemplateKey,
    pub content: Content,
    pub then: Then,
}

/// What becomes of a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Activate,
    KeepAsDraft,
}

/// What a put did.
#[derive(Debug, Clone, PartialEq)]
pub struct PutOutcome {
    pub version: i64,
    /// Whether the content was new. The same content again is the version that there is.
    pub created: bool,
    pub status: Status,
    pub validated: Validated,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the template has faults")]
    Faults(Vec<Fault>),
    #[error("others kept changing the template; try again")]
    Contended,
    #[error("the template could not be saved")]
    Store(#[from] StorageError),
}

#[derive(Debug, Clone)]
pub struct Activate {
    pub key: TemplateKey,
    pub version: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum ActivateError {
    #[error("there is no template {0}")]
    Missing(TemplateKey),
    #[error("template {0} has no version {1}")]
    NoVersion(TemplateKey, i64),
    #[error("others kept changing the template; try again")]
    Contended,
    #[error("the template could not be changed")]
    Store(#[from] StorageError),
}

/// What a put would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub change: Change,
    /// The newest version as it is.
    pub before: Option<Content>,
    pub validated: Validated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Changed,
    /// The newest version is the same, but not active.
    Activated,
    Unchanged,
}

/// Says what is wrong with a content, without storing anything.
pub async fn validate(cx: &Cx, key: &TemplateKey, content: Content) -> Result<Validated, PutError> {
    let items = cx.items().await?;
    Ok(ready(cx, items.as_ref(), (key, content), &BTreeMap::new()).await?.validated())
}

/// Says what a put would do, without storing anything. `partials` are put before it, and count as if they were there.
pub async fn compare(
    cx: &Cx,
    cmd: &Put,
    partials: &BTreeMap<String, String>,
) -> Result<Compared, PutError> {
    let items = cx.items().await?;
    let ready = ready(cx, items.as_ref(), (&cmd.key, cmd.content.clone()), partials).await?;
    let validated = ready.validated();
    let current = current(items.as_ref(), &cmd.key).await.map_err(StorageError::from)?;
    let Some(current) = current else {
        refuse_taken(items.as_ref(), &cmd.key).await?;
        return Ok(Compared { change: Change::Added, before: None, validated });
    };
    let stored = super::read::load(items.as_ref(), &cmd.key, current.latest).await?;
    let change = if current.latest_digest != ready.digest() {
        Change::Changed
    } else if cmd.then == Then::Activate && current.active != Some(current.latest) {
        Change::Activated
    } else {
        Change::Unchanged
    };
    Ok(Compared { change, before: stored.map(|stored| stored.content), validated })
}

/// Templates of reminders are in the same partitions, and theirs alone have a type of content.
async fn refuse_taken(items: &dyn ItemStore, key: &TemplateKey) -> Result<(), PutError> {
    let first = items.get(&tables::EMAIL_TRACKING, &key.version(1)).await;
    let first = first.map_err(StorageError::from)?;
    if first.is_none_or(|item| item.text("content_type").is_none()) {
        return Ok(());
    }
    let message = "a template of reminders has this name; use another key".to_owned();
    Err(PutError::Faults(vec![Fault { part: Part::Subject, line: None, column: None, message }]))
}

/// Stores the next version, unless the newest is the same. Other versions stay as they are.
pub async fn put(cx: &Cx, cmd: Put) -> Result<PutOutcome, PutError> {
    let Put { key, content, then } = cmd;
    let items = cx.items().await?;
    let ready = ready(cx, items.as_ref(), (&key, content), &BTreeMap::new()).await?;
    let validated = ready.validated();
    let digest = ready.digest();
    for _ in 0..ATTEMPTS {
        let before = current(items.as_ref(), &key).await.map_err(StorageError::from)?;
        if before.is_none() {
            refuse_taken(items.as_ref(), &key).await?;
        }
        let next = match &before {
            Some(current) if current.latest_digest == digest => None,
            Some(current) => Some(current.latest + 1),
            None => Some(1),
        };
        let version = next.or(before.as_ref().map(|current| current.latest)).unwrap_or(1);
        let written = match next {
            Some(number) => Some(new_version(cx, &key, (number, &ready), before.as_ref(), then)),
            None => unchanged(cx, &key, before.as_ref(), then),
        };
        let done = match written {
            Some(txn) => commit(items.as_ref(), txn).await?,
            None => true,
        };
        if done {
            let active = then == Then::Activate
                || before.is_some_and(|current| current.active == Some(version));
            let status = if active { Status::Active } else { Status::Draft };
            return Ok(PutOutcome { version, created: next.is_some(), status, validated });
        }
    }
    Err(PutError::Contended)
}

/// Makes a version the active one, in place of the one that was: also an older one, to go back. Doing it again changes
/// nothing.
pub async fn activate(cx: &Cx, cmd: Activate) -> Result<(), ActivateError> {
    let Activate { key, version } = cmd;
    let items = cx.items().await?;
    for _ in 0..ATTEMPTS {
        let before = current(items.as_ref(), &key).await.map_err(StorageError::from)?;
        let Some(before) = before else { return Err(ActivateError::Missing(key)) };
        if !(1..=before.latest).contains(&version) {
            return Err(ActivateError::NoVersion(key, version));
        }
        if before.active == Some(version) {
            return Ok(());
        }
        if commit(items.as_ref(), switch(cx, &key, &before, Some(version))).await? {
            return Ok(());
        }
    }
    Err(ActivateError::Contended)
}

/// From now on no version is active, and nothing can be sent with the template. Doing it again changes nothing.
pub async fn deactivate(cx: &Cx, key: TemplateKey) -> Result<(), ActivateError> {
    let items = cx.items().await?;
    for _ in 0..ATTEMPTS {
        let before = current(items.as_ref(), &key).await.map_err(StorageError::from)?;
        let Some(before) = before else { return Err(ActivateError::Missing(key)) };
        if before.active.is_none()
            || commit(items.as_ref(), switch(cx, &key, &before, None)).await?
        {
            return Ok(());
        }
    }
    Err(ActivateError::Contended)
}

/// A content with the partials that are active now.
async fn ready(
    cx: &Cx,
    items: &dyn ItemStore,
    (key, content): (&TemplateKey, Content),
    before: &BTreeMap<String, String>,
) -> Result<Ready, PutError> {
    let partials = load_partials(items, &content, before).await?;
    let ready = Ready::check(key, content, &partials).map_err(PutError::Faults)?;
    let size = version_item(cx, (key, i64::MAX), &ready, Status::Inactive).size();
    if size > MAX_STORED {
        let message = format!(
            "it takes {} KB to store with its partials, and {} KB can be stored",
            size.div_ceil(1024),
            MAX_STORED / 1024
        );
        let fault = Fault { part: Part::Template, line: None, column: None, message };
        return Err(PutError::Faults(vec![fault]));
    }
    Ok(ready)
}

/// The partials that a content calls, and those that they call. Of what is missing nothing is said here.
async fn load_partials(
    items: &dyn ItemStore,
    content: &Content,
    before: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, StorageError> {
    let source = &content.source;
    let parts = [&source.html, &source.mjml, &source.text, &source.preheader];
    let texts = parts.into_iter().flatten().chain([&source.subject]);
    let mut wanted: Vec<String> = texts.flat_map(|text| partials_named(text)).collect();
    let mut found = BTreeMap::new();
    let mut looked = 0;
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) || looked > 2 * MAX_LOADED {
            continue;
        }
        looked += 1;
        let Some(key) = TemplateKey::partial(&name) else { continue };
        let text = match before.get(&name) {
            Some(text) => Some(text.clone()),
            None => active_body(items, &key).await?,
        };
        let Some(text) = text else { continue };
        wanted.extend(partials_named(&text));
        found.insert(name, text);
    }
    Ok(found)
}

async fn active_body(
    items: &dyn ItemStore,
    key: &TemplateKey,
) -> Result<Option<String>, StorageError> {
    let Some(version) = current(items, key).await?.and_then(|current| current.active) else {
        return Ok(None);
    };
    let item = items.get(&tables::EMAIL_TRACKING, &key.version(version)).await?;
    Ok(item.and_then(|item| item.text("body_template").map(str::to_owned)))
}

fn new_version(
    cx: &Cx,
    key: &TemplateKey,
    (number, ready): (i64, &Ready),
    before: Option<&Current>,
    then: Then,
) -> Txn {
    let (status, active) = match then {
        Then::Activate => (Status::Active, Some(number)),
        Then::KeepAsDraft => (Status::Draft, before.and_then(|current| current.active)),
    };
    let item = version_item(cx, (key, number), ready, status);
    let after = Current { active, ..pointing_to(key, number, ready) };
    let txn = Txn::new().put(&tables::EMAIL_TRACKING, item, Expect::Absent).put(
        &tables::EMAIL_TRACKING,
        current_item(cx, key, &after),
        as_it_was(before),
    );
    let txn = txn.enqueue(audited(cx, "template.put", key, (before, &after)));
    match before.and_then(|current| current.active) {
        Some(old) if then == Then::Activate => txn.update(marked(key, old, Status::Inactive)),
        _ => txn,
    }
}

/// The newest version is the same: at most it becomes active.
fn unchanged(cx: &Cx, key: &TemplateKey, before: Option<&Current>, then: Then) -> Option<Txn> {
    let before = before?;
    let wanted = then == Then::Activate && before.active != Some(before.latest);
    wanted.then(|| switch(cx, key, before, Some(before.latest)))
}

/// One version takes the place of another as the active one.
fn switch(cx: &Cx, key: &TemplateKey, before: &Current, active: Option<i64>) -> Txn {
    let after = Current { active, ..before.clone() };
    let item = current_item(cx, key, &after);
    let action = if active.is_some() { "template.activate" } else { "template.deactivate" };
    let mut txn = Txn::new()
        .put(&tables::EMAIL_TRACKING, item, as_it_was(Some(before)))
        .enqueue(audited(cx, action, key, (Some(before), &after)));
    if let Some(new) = active {
        txn = txn.update(marked(key, new, Status::Active));
    }
    if let Some(old) = before.active {
        txn = txn.update(marked(key, old, Status::Inactive));
    }
    txn
}

/// What the audit log is told: which version is the newest and which is active. The versions themselves stay.
fn audited(
    cx: &Cx,
    action: &'static str,
    key: &TemplateKey,
    (before, after): (Option<&Current>, &Current),
) -> Outgoing {
    let told = |current: &Current| -> Value {
        json!({
            "newest_version": current.latest,
            "active_version": current.active,
            "digest": current.latest_digest,
        })
    };
    let change = Audited::new(action, "template", key);
    cx.audited(&match before {
        Some(before) => change.between(told(before), told(after)),
        None => change.after(told(after)),
    })
}

fn marked(key: &TemplateKey, version: i64, status: Status) -> Update {
    Update::new(&tables::EMAIL_TRACKING, key.version(version))
        .set("status", status.as_str())
        .set("GSI1PK", status.index())
        .expect(Expect::Present)
}

/// The pointer has not changed since it was read.
fn as_it_was(before: Option<&Current>) -> Expect {
    let Some(before) = before else { return Expect::Absent };
    let latest = Condition::eq("latest_version", before.latest);
    Expect::That(latest.and(match before.active {
        Some(active) => Condition::eq("active_version", active),
        None => Condition::not_exists("active_version"),
    }))
}

/// Whether it was made; if not, somebody else was faster.
async fn commit(items: &dyn ItemStore, txn: Txn) -> Result<bool, StorageError> {
    match items.transact(txn).await {
        Ok(()) => Ok(true),
        Err(error) if lost(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn lost(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict => true,
        StoreError::Cancelled(reasons) => reasons.iter().any(|reason| {
            matches!(reason, Cancellation::ConditionFailed { .. } | Cancellation::Conflict)
        }),
        other => other.is_condition_failed(),
    }
}
