//! Links: the addresses in our mails that lead back to us, and the proof that we made them.
//!
//! Here: the pixel, a click, unsubscribe, preferences and confirmation as URLs, our own Message-ID, and who reads them
//! again. All that a link says is inside it, signed; no table is asked. Not here: what happens when somebody follows
//! one (`signals::tracking`), and where in a mail they stand (`templates`).
//!
//! A link works for years: a key that has signed once proves until it is revoked (`access::signing`).

mod message_id;
mod target;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use jiff::Timestamp;
use tidings_access::signing::{Keyring, ProveError, SigningKeys};
use tidings_sql::{Database, DatabaseError};

pub use target::{MAX_TARGET_BYTES, is_target, location};
pub use token::{Purpose, has_our_form};

use token::Token;

/// No token of ours is longer.
pub const MAX_TOKEN_BYTES: usize = 160;

/// The row in the ledger that a message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Of `transactional_messages`.
    Transactional(i64),
    /// Of `campaign_recipients`.
    Recipient(i64),
}

/// Whom a mail went to, and what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addressee {
    pub workspace: i64,
    pub source: Source,
    pub contact: i64,
    pub client: i64,
    pub audience: Option<i64>,
    pub topic: Option<i64>,
}

/// Who asked to be subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confirmation {
    pub workspace: i64,
    pub subscription: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this link is not one of ours")]
    Invalid,
    #[error("the keys that prove links could not be read")]
    Store(#[from] DatabaseError),
}

impl From<ProveError> for ReadError {
    fn from(error: ProveError) -> Self {
        match error {
            ProveError::Invalid => Self::Invalid,
            ProveError::Store(error) => Self::Store(error),
        }
    }
}

/// Makes and reads links. Clones share the keys.
#[derive(Clone)]
pub struct Links {
    keys: SigningKeys,
    public_url: Arc<str>,
}

impl Links {
    /// Loads the keys, and makes the first if there is none. `public_url` is where the world reaches us.
    pub async fn load(
        database: &Database,
        public_url: &str,
        now: Timestamp,
    ) -> Result<Self, DatabaseError> {
        let keys = SigningKeys::load(database, now).await?;
        Ok(Self { keys, public_url: public_url.trim_end_matches('/').into() })
    }

    /// What they are signed with, for others who sign.
    pub fn signing_keys(&self) -> &SigningKeys {
        &self.keys
    }

    /// An image of one pixel that tells us that the mail was opened.
    pub fn pixel(&self, to: &Addressee) -> String {
        format!("{}/t/o/{}.gif", self.public_url, self.sign(Purpose::Open, to, b""))
    }

    /// A way to the target that leads past us. `None` for what is not a web address or too long: it stays as it is.
    pub fn click(&self, to: &Addressee, target: &str) -> Option<String> {
        if !is_target(target) {
            return None;
        }
        let token = self.sign(Purpose::Click, to, target.as_bytes());
        let target: String = url::form_urlencoded::byte_serialize(target.as_bytes()).collect();
        Some(format!("{}/t/c/{token}?u={target}", self.public_url))
    }

    /// For the List-Unsubscribe header and for the text of the mail.
    pub fn unsubscribe(&self, to: &Addressee) -> String {
        format!("{}/u/{}", self.public_url, self.sign(Purpose::Unsubscribe, to, b""))
    }

    pub fn preferences(&self, to: &Addressee) -> String {
        format!("{}/p/{}", self.public_url, self.sign(Purpose::Preferences, to, b""))
    }

    /// The same from one of our own pages.
    pub fn preferences_path(&self, to: &Addressee) -> String {
        format!("/p/{}", self.sign(Purpose::Preferences, to, b""))
    }

    /// For the mail that asks whether it was really this person. The row of the confirmation says until when.
    pub fn confirm(&self, workspace: i64, subscription: i64) -> String {
        let token = Token::Confirmation(Confirmation { workspace, subscription });
        format!("{}/confirm/{}", self.public_url, token::sign(&self.keys(), &token, b""))
    }

    /// Our own Message-ID, with the angle brackets. Whatever answers to it is known without a search.
    pub fn message_id(&self, source: &Source, workspace: i64, domain: &str) -> String {
        format!("<{}@{domain}>", message_id::sign(&self.keys(), workspace, *source))
    }

    pub async fn read_open(&self, token: &str, now: Timestamp) -> Result<Addressee, ReadError> {
        self.read(Purpose::Open, token, b"", now).await
    }

    /// The token proves this target and no other.
    pub async fn read_click(
        &self,
        token: &str,
        target: &str,
        now: Timestamp,
    ) -> Result<Addressee, ReadError> {
        if !is_target(target) {
            return Err(ReadError::Invalid);
        }
        self.read(Purpose::Click, token, target.as_bytes(), now).await
    }

    pub async fn read_unsubscribe(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Addressee, ReadError> {
        self.read(Purpose::Unsubscribe, token, b"", now).await
    }

    pub async fn read_preferences(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Addressee, ReadError> {
        self.read(Purpose::Preferences, token, b"", now).await
    }

    pub async fn read_confirm(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Confirmation, ReadError> {
        match self.verify(Purpose::Confirm, token, b"", now).await? {
            Token::Confirmation(confirmation) => Ok(confirmation),
            Token::Addressee(..) => Err(ReadError::Invalid),
        }
    }

    /// The workspace and the row that a Message-ID of ours names, with or without its angle brackets.
    pub async fn read_message_id(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<(i64, Source), ReadError> {
        Ok(self.keys.prove(now, |keys| message_id::read(keys, text)).await?)
    }

    /// Something about a person that we must recognise but not know, such as an IP address.
    pub fn pseudonym(&self, text: &str) -> String {
        self.keys().pseudonym(text)
    }

    /// Follows other nodes in what they sign with. For whoever makes many links: before each batch.
    pub async fn refresh(&self, now: Timestamp) -> Result<(), DatabaseError> {
        self.keys.refresh(now).await
    }

    fn sign(&self, purpose: Purpose, to: &Addressee, bound: &[u8]) -> String {
        token::sign(&self.keys(), &Token::Addressee(purpose, *to), bound)
    }

    async fn read(
        &self,
        purpose: Purpose,
        token: &str,
        bound: &[u8],
        now: Timestamp,
    ) -> Result<Addressee, ReadError> {
        match self.verify(purpose, token, bound, now).await? {
            Token::Addressee(_, addressee) => Ok(addressee),
            Token::Confirmation(_) => Err(ReadError::Invalid),
        }
    }

    async fn verify(
        &self,
        purpose: Purpose,
        text: &str,
        bound: &[u8],
        now: Timestamp,
    ) -> Result<Token, ReadError> {
        Ok(self.keys.prove(now, |keys| token::verify(keys, purpose, text, bound)).await?)
    }

    fn keys(&self) -> Arc<Keyring> {
        self.keys.current()
    }
}
