//! Settings of a tenant (kind TS) and the configuration of an inbox (kind IC).

use std::collections::BTreeMap;

use tidings_kernel::{Item, StoreError, Value, Workspace, tables};

use super::Reading;
use crate::keys::{self, InboxKey};
use crate::ttl::Ttl;

/// What holds for all inboxes of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantSettings {
    pub title: String,
    pub ttl: Option<Ttl>,
    /// Which pages may ask for a user's messages from a browser.
    pub allowed_origins: Vec<String>,
    /// How old public messages may be that a user sees who comes for the first time.
    pub look_back: Option<Ttl>,
    /// Who changed it last.
    pub uid: String,
    /// Counts its changes.
    pub rev: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    pub title: String,
    pub description: String,
    /// By category, and `default`.
    pub ttl: BTreeMap<String, Ttl>,
    /// Who changed it last.
    pub uid: String,
    /// Counts its changes.
    pub rev: i64,
}

impl TenantSettings {
    /// What holds where nothing was said.
    pub const LOOK_BACK: Ttl = Ttl::days(7);

    pub fn look_back(&self) -> Ttl {
        self.look_back.unwrap_or(Self::LOOK_BACK)
    }

    pub fn to_item(&self, tenant: &Workspace) -> Item {
        let mut item = tables::INBOX.bare_item(&keys::tenant_settings(tenant));
        item.set("kind", "TS");
        item.set("title", self.title.as_str());
        if let Some(ttl) = self.ttl {
            item.set("ttl", ttl.to_string());
        }
        let origins = self.allowed_origins.iter().map(|origin| origin.as_str().into());
        item.set("allowed_origins", origins.collect::<Vec<Value>>());
        if let Some(look_back) = self.look_back {
            item.set("look_back", look_back.to_string());
        }
        item.set("tenant_key", tenant.as_str());
        item.set("uid", self.uid.as_str());
        item.set("rev", self.rev);
        item
    }

    /// Settings that were never made are those of a new tenant.
    pub fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let from = Reading { item, what: "a tenant's settings" };
        let origins = match item.get("allowed_origins") {
            Some(Value::L(list)) => list.iter().filter_map(Value::as_text).collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            title: from.owned("title").unwrap_or_default(),
            ttl: ttl(from, "ttl")?,
            allowed_origins: origins.into_iter().map(ToOwned::to_owned).collect(),
            look_back: ttl(from, "look_back")?,
            uid: from.owned("uid").unwrap_or_default(),
            rev: from.count("rev"),
        })
    }
}

impl Configuration {
    pub fn to_item(&self, tenant: &Workspace, inbox: &InboxKey) -> Item {
        let mut item = tables::INBOX.bare_item(&keys::configuration(tenant, inbox));
        item.set("kind", "IC");
        item.set("title", self.title.as_str());
        item.set("description", self.description.as_str());
        let ttl = self.ttl.iter().map(|(name, ttl)| (name.clone(), ttl.to_string().into()));
        item.set("ttl", ttl.collect::<BTreeMap<String, Value>>());
        item.set("tenant_key", tenant.as_str());
        item.set("inbox_key", inbox.as_str());
        item.set("uid", self.uid.as_str());
        item.set("rev", self.rev);
        item
    }

    pub fn read(item: &Item) -> Result<(InboxKey, Self), StoreError> {
        let from = Reading { item, what: "the configuration of an inbox" };
        let mut ttl = BTreeMap::new();
        if let Some(Value::M(times)) = item.get("ttl") {
            for (name, time) in times {
                let time = time.as_text().and_then(|time| time.parse().ok());
                ttl.insert(name.clone(), time.ok_or_else(|| from.damaged("ttl"))?);
            }
        }
        let configuration = Self {
            title: from.owned("title").unwrap_or_default(),
            description: from.owned("description").unwrap_or_default(),
            ttl,
            uid: from.owned("uid").unwrap_or_default(),
            rev: from.count("rev"),
        };
        Ok((from.parsed("inbox_key")?, configuration))
    }
}

fn ttl(from: Reading<'_>, name: &str) -> Result<Option<Ttl>, StoreError> {
    from.item.text(name).map(|_| from.parsed(name)).transpose()
}
