//! Settings of a tenant and configurations of its inboxes.
//!
//! Whoever publishes reads all that concern one inbox at once, in one request of three small items, so what was changed on one
//! node holds at once on all of them. Which pages may ask is kept in memory for a moment (`kept`). Which categories an inbox has is
//! in `categories`. An inbox needs no configuration: one that has none has everything as the tenant has it.

mod categories;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{Condition, Cursor, Expect, Query, StoreError, Txn, tables};
use url::Url;

pub use self::categories::MAX_CATEGORIES;
pub(crate) use self::categories::{Registered, register, still_noted};
pub use self::kept::Kept;
use crate::keys::{self, Category, InboxKey};
use crate::race::{ATTEMPTS, lost};
use crate::records::{Categories, Configuration, TenantSettings};
use crate::ttl::{self, Ttl};
use crate::wrong::{Wrong, Wrongs, listed};

const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 2_000;
const MAX_ORIGINS: usize = 50;
const MAX_ORIGIN: usize = 300;
/// Every category, and the default.
const MAX_TIMES: usize = MAX_CATEGORIES + 1;
/// So many inboxes are on a page.
const MAX_PAGE: usize = 100;

/// Settings of a tenant, as somebody wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewSettings {
    pub title: String,
    pub ttl: Option<String>,
    pub allowed_origins: Vec<String>,
    pub look_back: Option<String>,
    /// Who makes them.
    pub uid: String,
}

/// The configuration of an inbox, as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewConfiguration {
    pub title: String,
    pub description: String,
    pub ttl: BTreeMap<String, String>,
    /// Who makes it.
    pub uid: String,
}

/// All that was set and concerns one inbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InForce {
    pub tenant: TenantSettings,
    pub inbox: Configuration,
    pub categories: Categories,
}

/// Some inboxes that have a configuration, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxPage {
    pub inboxes: Vec<(InboxKey, Configuration)>,
    pub next: Option<Cursor>,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the settings were refused: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("others kept changing the settings")]
    Busy,
    #[error("the settings could not be saved")]
    Store(#[source] StorageError),
}

impl From<StorageError> for SettingsError {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl From<StoreError> for SettingsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// What holds for an inbox now.
pub async fn in_force(cx: &Cx, inbox: &InboxKey) -> Result<InForce, StorageError> {
    let tenant = cx.workspace();
    let wanted = [
        keys::tenant_settings(tenant),
        keys::configuration(tenant, inbox),
        keys::categories(tenant, inbox),
    ];
    let found = cx.items().await?.batch_get(&tables::INBOX, &wanted).await?;
    let at = |place: usize| found.get(place).and_then(Option::as_ref);
    let inbox = at(1).map(Configuration::read).transpose()?;
    Ok(InForce {
        tenant: TenantSettings::read(at(0))?,
        inbox: inbox.map(|(_, inbox)| inbox).unwrap_or_default(),
        categories: Categories::read(at(2))?,
    })
}

impl InForce {
    /// How long a message of this category lives.
    pub fn ttl(&self, category: Option<&Category>) -> Ttl {
        ttl::of(category.map(Category::as_str), &self.inbox.ttl, self.tenant.ttl)
    }
}

/// The settings of the tenant. Where there are none, they are those of a new one.
pub async fn tenant(cx: &Cx) -> Result<TenantSettings, StorageError> {
    let key = keys::tenant_settings(cx.workspace());
    let found = cx.items().await?.get(&tables::INBOX, &key).await?;
    Ok(TenantSettings::read(found.as_ref())?)
}

/// Replaces the settings of the tenant. Doing it again changes nothing.
pub async fn put_tenant(cx: &Cx, new: NewSettings) -> Result<TenantSettings, SettingsError> {
    let mut settings = check_tenant(new).map_err(SettingsError::Invalid)?;
    let items = cx.items().await?;
    for _ in 0..ATTEMPTS {
        let before = tenant(cx).await?;
        settings.rev = before.rev;
        if settings == before {
            return Ok(before);
        }
        settings.rev += 1;
        let change = Change::new("inbox_settings.put", "workspace", cx.workspace())
            .between(told(&before), told(&settings));
        let item = settings.to_item(cx.workspace());
        let txn = Txn::new().put(&tables::INBOX, item, unchanged(before.rev));
        match items.transact(txn.enqueue(cx.audited(&change))).await {
            Ok(()) => {
                cx.database().tell(kept::TOPIC, cx.workspace().as_str());
                return Ok(settings);
            }
            Err(error) if lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(SettingsError::Busy)
}

/// The configuration of an inbox, if it has one.
pub async fn inbox(cx: &Cx, inbox: &InboxKey) -> Result<Option<Configuration>, StorageError> {
    let key = keys::configuration(cx.workspace(), inbox);
    let found = cx.items().await?.get(&tables::INBOX, &key).await?;
    let found = found.as_ref().map(Configuration::read).transpose()?;
    Ok(found.map(|(_, configuration)| configuration))
}

/// Inboxes that have a configuration, by their keys.
pub async fn inboxes(
    cx: &Cx,
    limit: usize,
    after: Option<Cursor>,
) -> Result<InboxPage, StorageError> {
    let query = Query::new(&tables::INBOX, keys::tenant(cx.workspace()))
        .begins_with(keys::CONFIGURATIONS)
        .limit(limit.clamp(1, MAX_PAGE))
        .after(after);
    let page = cx.items().await?.query(query).await?;
    let inboxes = page.items.iter().map(Configuration::read).collect::<Result<_, _>>()?;
    Ok(InboxPage { inboxes, next: page.cursor })
}

/// Replaces the configuration of an inbox. Doing it again changes nothing.
pub async fn put_inbox(
    cx: &Cx,
    key: &InboxKey,
    new: NewConfiguration,
) -> Result<Configuration, SettingsError> {
    let mut configuration = check_inbox(new).map_err(SettingsError::Invalid)?;
    let items = cx.items().await?;
    for _ in 0..ATTEMPTS {
        let before = inbox(cx, key).await?;
        let rev = before.as_ref().map_or(0, |before| before.rev);
        configuration.rev = rev;
        if before.as_ref() == Some(&configuration) {
            return Ok(configuration);
        }
        configuration.rev += 1;
        let change = Change::new("inbox.put", "inbox", key);
        let change = match &before {
            Some(before) => change.between(told_of(before), told_of(&configuration)),
            None => change.after(told_of(&configuration)),
        };
        let item = configuration.to_item(cx.workspace(), key);
        let txn = Txn::new().put(&tables::INBOX, item, unchanged(rev));
        match items.transact(txn.enqueue(cx.audited(&change))).await {
            Ok(()) => return Ok(configuration),
            Err(error) if lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(SettingsError::Busy)
}

/// Takes the configuration of an inbox away: from now on it has everything as the tenant has it. Its messages stay.
/// Tells whether there was one.
pub async fn delete_inbox(cx: &Cx, key: &InboxKey) -> Result<bool, StorageError> {
    let items = cx.items().await?;
    for _ in 0..ATTEMPTS {
        let Some(before) = inbox(cx, key).await? else { return Ok(false) };
        let change = Change::new("inbox.delete", "inbox", key).before(told_of(&before));
        let place = keys::configuration(cx.workspace(), key);
        let txn = Txn::new().delete(&tables::INBOX, place, unchanged(before.rev));
        match items.transact(txn.enqueue(cx.audited(&change))).await {
            Ok(()) => return Ok(true),
            Err(error) if lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// As the audit log has it.
fn told(settings: &TenantSettings) -> Json {
    json!({
        "title": settings.title,
        "ttl": settings.ttl.map(|ttl| ttl.to_string()),
        "allowed_origins": settings.allowed_origins,
        "look_back": settings.look_back.map(|ttl| ttl.to_string()),
    })
}

fn told_of(configuration: &Configuration) -> Json {
    let ttl: BTreeMap<&String, String> =
        configuration.ttl.iter().map(|(name, ttl)| (name, ttl.to_string())).collect();
    json!({
        "title": configuration.title,
        "description": configuration.description,
        "ttl": ttl,
    })
}

/// What has a `rev` is as it was loaded; 0 is the one of what was not there.
fn unchanged(rev: i64) -> Expect {
    match rev {
        0 => Expect::That(Condition::not_exists("rev")),
        rev => Expect::That(Condition::eq("rev", rev)),
    }
}

fn check_tenant(new: NewSettings) -> Result<TenantSettings, Vec<Wrong>> {
    let mut wrongs = Wrongs::default();
    wrongs.text("title", &new.title, (0, MAX_TITLE));
    let ttl = new.ttl.and_then(|ttl| wrongs.take("ttl", ttl.parse::<Ttl>()));
    let look_back = new.look_back.and_then(|time| wrongs.take("look_back", time.parse::<Ttl>()));
    if new.allowed_origins.len() > MAX_ORIGINS {
        wrongs.add("allowed_origins", format!("must be at most {MAX_ORIGINS}"));
    }
    let mut allowed_origins: Vec<String> = Vec::new();
    for (place, text) in new.allowed_origins.iter().take(MAX_ORIGINS).enumerate() {
        match origin(text) {
            Some(origin) if allowed_origins.contains(&origin) => {}
            Some(origin) => allowed_origins.push(origin),
            None => wrongs.add(
                format!("allowed_origins[{place}]"),
                "must be an origin like https://app.example.org, or *",
            ),
        }
    }
    wrongs.into_result()?;
    let (title, uid) = (new.title, new.uid);
    Ok(TenantSettings { title, ttl, allowed_origins, look_back, uid, rev: 0 })
}

/// The origin as browsers write it.
fn origin(text: &str) -> Option<String> {
    if text == "*" {
        return Some(text.to_owned());
    }
    let url = (text.len() <= MAX_ORIGIN).then(|| Url::parse(text).ok()).flatten()?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    bare.then(|| url.origin().ascii_serialization())
}

fn check_inbox(new: NewConfiguration) -> Result<Configuration, Vec<Wrong>> {
    let mut wrongs = Wrongs::default();
    wrongs.text("title", &new.title, (0, MAX_TITLE));
    if new.description.chars().count() > MAX_DESCRIPTION {
        wrongs.add("description", format!("must have at most {MAX_DESCRIPTION} characters"));
    }
    if new.description.contains('\0') {
        wrongs.add("description", "must not have the character U+0000");
    }
    if new.ttl.len() > MAX_TIMES {
        wrongs.add("ttl", format!("must be at most {MAX_TIMES}"));
    }
    let mut ttl = BTreeMap::new();
    for (name, time) in new.ttl.into_iter().take(MAX_TIMES) {
        let shown: String = name.chars().take(64).collect();
        let field = format!("ttl.{shown}");
        let known = wrongs.take(&field, name.parse::<Category>());
        if let (Some(_), Some(time)) = (known, wrongs.take(&field, time.parse::<Ttl>())) {
            ttl.insert(name, time);
        }
    }
    wrongs.into_result()?;
    Ok(Configuration { title: new.title, description: new.description, ttl, uid: new.uid, rev: 0 })
}
