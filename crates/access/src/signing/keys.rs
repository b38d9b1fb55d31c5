//! The keys in `signing_keys`. None is ever deleted, but it can be revoked; no secret leaves this folder.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde_json::json;
use sha2::Sha256;
use tidings_kernel::hex;
use tidings_sql::{Database, DatabaseError, Param, Row, Tx};

use crate::audit::{self, Change, Who};

/// Bytes of a secret.
const SECRET: usize = 32;
/// Nobody rotates that often; it bounds what a node keeps.
const MOST: i64 = 10_000;

/// A key as it may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningKey {
    pub id: i64,
    pub created_at: Timestamp,
    /// Since then it neither signs nor proves.
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    #[error("there is no key {0}")]
    Missing(i64),
    #[error("key {0} is the only one that is left")]
    Only(i64),
    #[error("the key could not be saved")]
    Store(#[from] DatabaseError),
}

/// All keys that were not revoked, oldest first, at least one.
pub struct Keyring {
    keys: Vec<(i64, [u8; SECRET])>,
}

impl Keyring {
    /// The newest key, which signs.
    pub fn newest(&self) -> i64 {
        self.keys.last().map_or(0, |(id, _)| *id)
    }

    /// A MAC under this key, still to be fed. `None` if we do not know the key.
    pub fn mac(&self, id: i64) -> Option<Hmac<Sha256>> {
        let at = self.keys.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(Hmac::new_from_slice(&self.keys[at].1).expect("a MAC takes a key of any length"))
    }

    /// A MAC under the newest key, still to be fed, with the id that finds it again.
    pub fn signing(&self) -> (i64, Hmac<Sha256>) {
        let newest = self.newest();
        (newest, self.mac(newest).expect("the newest key is one of them"))
    }

    /// The same text gives the same pseudonym as long as the key is the newest; nobody can go back without the key.
    pub fn pseudonym(&self, text: &str) -> String {
        let (_, mut mac) = self.signing();
        mac.update(b"tidings pseudonym\0");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes()[..16])
    }
}

/// Makes a key that signs from now on; a node follows within a minute. What older keys have signed stays good.
pub async fn rotate(database: &Database, now: Timestamp) -> Result<SigningKey, DatabaseError> {
    let secret = new_secret();
    database
        .write(move |tx| {
            let sql =
                "INSERT INTO signing_keys (secret, created_at) VALUES ($1, $2) RETURNING id, created_at, revoked_at";
            let rows = tx.query(sql, &[Param::Text(&secret), Param::Int(now.as_millisecond())])?;
            let made = shown(rows.first().ok_or(DatabaseError::NoRow)?)?;
            let told = json!({ "revoked": false });
            let change = Change::new("signing_key.create", "signing_key", made.id).after(told);
            audit::record(tx, (None, Who::OPERATOR, now), &change)?;
            Ok(made)
        })
        .await
}

/// What this key has signed proves nothing any more, and the newest of the others signs; a node follows within a minute.
/// Doing it again changes nothing.
pub async fn revoke(
    database: &Database,
    id: i64,
    now: Timestamp,
) -> Result<SigningKey, RevokeError> {
    let revoke = database.write(move |tx| {
        let others = "SELECT id FROM signing_keys WHERE id <> $1 AND revoked_at IS NULL LIMIT 1";
        if tx.query(others, &[id.into()])?.is_empty() {
            return Err(RevokeError::Only(id));
        }
        let sql = "UPDATE signing_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        if tx.execute(sql, &[id.into(), now.into()])? > 0 {
            let change = Change::new("signing_key.revoke", "signing_key", id)
                .between(json!({ "revoked": false }), json!({ "revoked": true }));
            audit::record(tx, (None, Who::OPERATOR, now), &change)?;
        }
        let sql = "SELECT id, created_at, revoked_at FROM signing_keys WHERE id = $1";
        let rows = tx.query(sql, &[id.into()])?;
        Ok(shown(rows.first().ok_or(RevokeError::Missing(id))?)?)
    });
    revoke.await
}

/// All keys, oldest first. The last one that was not revoked signs.
pub async fn list(database: &Database) -> Result<Vec<SigningKey>, DatabaseError> {
    let sql = "SELECT id, created_at, revoked_at FROM signing_keys ORDER BY id LIMIT $1";
    database.read(move |tx| tx.query(sql, &[Param::Int(MOST)])?.iter().map(shown).collect()).await
}

pub(super) async fn load_or_make(
    database: &Database,
    now: Timestamp,
) -> Result<Keyring, DatabaseError> {
    let keyring = database.read(load).await?;
    if !keyring.keys.is_empty() {
        return Ok(keyring);
    }
    let secret = new_secret();
    database
        .write(move |tx| {
            let keyring = load(tx)?;
            // Two nodes may begin at once; the second finds the key of the first.
            if !keyring.keys.is_empty() {
                return Ok(keyring);
            }
            let sql = "INSERT INTO signing_keys (secret, created_at) VALUES ($1, $2)";
            tx.execute(sql, &[Param::Text(&secret), Param::Int(now.as_millisecond())])?;
            load(tx)
        })
        .await
}

fn load(tx: &mut Tx<'_>) -> Result<Keyring, DatabaseError> {
    // The newest ones, should there ever be more than we keep.
    let sql =
        "SELECT id, secret FROM signing_keys WHERE revoked_at IS NULL ORDER BY id DESC LIMIT $1";
    let rows = tx.query(sql, &[Param::Int(MOST)])?;
    let keys: Result<Vec<_>, _> = rows.iter().rev().map(read).collect();
    Ok(Keyring { keys: keys? })
}

fn read(row: &Row) -> Result<(i64, [u8; SECRET]), DatabaseError> {
    let secret = unhex(row.text(1)?);
    let secret = secret.ok_or_else(|| DatabaseError::damaged(1, "64 hex digits"))?;
    Ok((row.int(0)?, secret))
}

fn shown(row: &Row) -> Result<SigningKey, DatabaseError> {
    Ok(SigningKey { id: row.int(0)?, created_at: row.time(1)?, revoked_at: row.optional_time(2)? })
}

fn new_secret() -> String {
    let mut secret = [0; SECRET];
    getrandom::fill(&mut secret).expect("the operating system gives randomness");
    hex(&secret)
}

/// Exactly so many bytes, in lower case as `hex` writes them.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let is_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
