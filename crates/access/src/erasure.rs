//! What is left of a name that must not be known any more: a keyed hash, by which it is known again if it comes again.
//!
//! The key is a workspace's own and never changes: with another key the hash of the same name would be another one, and
//! what binds us would be forgotten. What is remembered under a hash is with whoever remembers it.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tidings_kernel::hex;
use tidings_sql::{DatabaseError, Param, Tx};

use crate::access::Cx;

/// What a workspace hashes names with.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// `None` if nobody has needed one in this workspace yet.
    pub fn find(tx: &mut Tx<'_>, cx: &Cx) -> Result<Option<Self>, DatabaseError> {
        let sql = "SELECT secret FROM suppression_keys WHERE workspace_id = $1";
        let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get())])?;
        rows.first().map(|row| row.text(0).map(|text| Self(text.to_owned()))).transpose()
    }

    pub fn find_or_make(tx: &mut Tx<'_>, cx: &Cx) -> Result<Self, DatabaseError> {
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

    /// In hex. It says nothing of the text to whoever lacks the secret. Whoever hashes another kind of name lets it begin with
    /// what no other kind can.
    pub fn hash(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .expect("a key of this hash can have any length");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes())
    }
}
