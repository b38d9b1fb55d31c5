//! What is still known of an erased address: a keyed hash of it, and that it must not be written to.
//!
//! The key is a workspace's own and never changes: with another key the hash of the same address would be another one,
//! and the suppression would be forgotten.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;
use tidings_access::Cx;
use tidings_kernel::{EmailAddress, Item, Key, hex, tables};
use tidings_sql::{DatabaseError, Param, Tx};

use super::record::Suppression;
use crate::keys;

/// What a workspace hashes addresses with.
#[derive(Clone)]
pub(crate) struct Secret(String);

/// What an erased person was, as far as it binds us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Memory {
    pub(crate) suppression: Option<Suppression>,
    pub(crate) unsubscribed_at: Option<Timestamp>,
}

impl Secret {
    /// `None` if nobody was ever erased in this workspace.
    pub(crate) fn find(tx: &mut Tx<'_>, cx: &Cx) -> Result<Option<Self>, DatabaseError> {
        let sql = "SELECT secret FROM suppression_keys WHERE workspace_id = $1";
        let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get())])?;
        rows.first().map(|row| row.text(0).map(|text| Self(text.to_owned()))).transpose()
    }

    pub(crate) fn find_or_make(tx: &mut Tx<'_>, cx: &Cx) -> Result<Self, DatabaseError> {
        if let Some(found) = Self::find(tx, cx)? {
            return Ok(found);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        let secret = hex(&bytes);
        let sql = "INSERT INTO suppression_keys (workspace_id, secret, created_at)
                   VALUES ($1, $2, $3) ON CONFLICT (workspace_id) DO NOTHING";
        let workspace = Param::Int(cx.workspace_id().get());
        let now = Param::Int(cx.now().as_millisecond());
        tx.execute(sql, &[workspace, Param::Text(&secret), now])?;
        // Somebody else may have been faster, and the first one counts.
        Self::find(tx, cx)?.ok_or(DatabaseError::NoRow)
    }

    /// In hex. It says nothing of the address to whoever lacks the secret.
    pub(crate) fn hash(&self, email: &EmailAddress) -> String {
        self.mac(email.as_str().as_bytes())
    }

    /// Of what is no address. It begins with what no address can, so that neither is taken for the other.
    pub(crate) fn hash_text(&self, text: &str) -> String {
        self.mac(format!("\n{text}").as_bytes())
    }

    fn mac(&self, bytes: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .expect("a key of this hash can have any length");
        mac.update(bytes);
        hex(&mac.finalize().into_bytes())
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
