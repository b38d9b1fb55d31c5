//! What is still known of an erased address: a keyed hash of it, and that it must not be written to.
//!
//! The key of the hash is a workspace's own (`access::erasure`).

use jiff::Timestamp;
use tidings_access::{Cx, erasure};
use tidings_kernel::{EmailAddress, Item, Key, tables};
use tidings_sql::{DatabaseError, Tx};

use super::record::Suppression;
use crate::keys;

/// What a workspace hashes addresses with.
#[derive(Clone)]
pub(crate) struct Secret(erasure::Secret);

/// What an erased person was, as far as it binds us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Memory {
    pub(crate) suppression: Option<Suppression>,
    pub(crate) unsubscribed_at: Option<Timestamp>,
}

impl Secret {
    /// `None` if nothing was ever hashed in this workspace.
    pub(crate) fn find(tx: &mut Tx<'_>, cx: &Cx) -> Result<Option<Self>, DatabaseError> {
        Ok(erasure::Secret::find(tx, cx)?.map(Self))
    }

    pub(crate) fn find_or_make(tx: &mut Tx<'_>, cx: &Cx) -> Result<Self, DatabaseError> {
        erasure::Secret::find_or_make(tx, cx).map(Self)
    }

    /// In hex. It says nothing of the address to whoever lacks the secret.
    pub(crate) fn hash(&self, email: &EmailAddress) -> String {
        self.0.hash(email.as_str())
    }

    /// Of what is no address. It begins with what no address can, so that neither is taken for the other.
    pub(crate) fn hash_text(&self, text: &str) -> String {
        self.0.hash(&format!("\n{text}"))
    }

    pub(crate) fn key(&self, email: &EmailAddress) -> Key {
        Key::new(format!("SUPPRESSED#{}", self.hash(email)), keys::SUPPRESSION)
    }
}

/// What stands for "only unsubscribed" where a type of suppression would be.
pub(super) const UNSUBSCRIBED: &str = "Unsubscribed";

impl Memory {
    pub(crate) fn is_empty(&self) -> bool {
        self.suppression.is_none() && self.unsubscribed_at.is_none()
    }

    /// Nothing in it tells who it was: a reason or a note that somebody wrote could.
    pub(crate) fn to_item(&self, key: &Key) -> Item {
        let mut item = tables::MAIN.bare_item(key);
        match &self.suppression {
            Some(suppression) => {
                item.set("type", suppression.kind.as_str());
                item.set("suppressedAt", keys::time(suppression.suppressed_at));
            }
            None => item.set("type", UNSUBSCRIBED),
        }
        item.set("reason", "erased");
        if let Some(at) = self.unsubscribed_at {
            item.set("unsubscribedAt", keys::time(at));
        }
        item
    }

    pub(crate) fn read(email: &EmailAddress, item: &Item) -> Self {
        let only_unsubscribed = item.text("type") == Some(UNSUBSCRIBED);
        let suppression = (!only_unsubscribed).then(|| Suppression::read(email.clone(), item));
        let unsubscribed_at = crate::contacts::profile::time(item, "unsubscribedAt");
        Self { suppression, unsubscribed_at }
    }
}
