//! User tokens: how the app on somebody's device proves whose inbox it may see.
//!
//! A back end asks for a pair: a token (`tdu_…`) that opens the inboxes of one user for an hour or so, and one (`tdr_…`)
//! that gets the next pair. All that a token says is inside it, signed under the rotating keys (`access::signing`): the
//! workspace, the user, which inboxes, until when, and what it is for. No table knows them, so none can be taken back by
//! itself; what ends them is their time, a workspace that is disabled, a signing key that is revoked, and that their user was forgotten or
//! signed out after they were issued. When that was follows from until when they are good. That of a token that opens inboxes is looked up when
//! one is opened (`view`), which costs nothing there.
//!
//! Not here: how a token travels, and what its owner may then do (`http-api`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tidings_access::signing::{Keyring, ProveError, Refused, SigningKeys};
use tidings_access::{Access, Cx, StorageError};

use crate::forgotten;
use crate::keys::{InboxKey, UserId};

/// What tokens of users begin with.
pub const PREFIX: &str = "tdu_";
const REFRESH_PREFIX: &str = "tdr_";
/// No token of ours is longer.
pub const MAX_TOKEN_BYTES: usize = 6_000;
/// So many inboxes one token can name.
pub const MAX_INBOXES: usize = 10;
/// In seconds.
pub const LIFETIME: i64 = 3_600;
pub const MAX_LIFETIME: i64 = 86_400;
/// How long a device may be away and still get the next pair. When a token was issued is told by it, so that with another number those
/// that are out there seem to be of another time.
pub const REFRESH_DAYS: i64 = 30;
const REFRESH_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * REFRESH_DAYS);

/// Makes and reads tokens. Clones share the keys.
#[derive(Clone)]
pub struct Tokens {
    keys: SigningKeys,
}

/// Whom a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub uid: UserId,
    /// The only ones that it opens. None: all of the workspace.
    pub inboxes: Vec<InboxKey>,
    /// In seconds.
    pub lifetime: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    pub token: String,
    pub expires_at: Timestamp,
    pub refresh_token: String,
    pub refresh_expires_at: Timestamp,
}

/// Somebody whose token is good, and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    pub uid: UserId,
    pub inboxes: Vec<InboxKey>,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// The key that signed it.
    pub signed_by: i64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error("a token lives for 1 to {MAX_LIFETIME} seconds")]
    Lifetime,
    #[error("a token names at most {MAX_INBOXES} inboxes")]
    TooMany,
}

/// Why a token is refused. That is for the log: to the caller all but the last are one.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("it was not made by us")]
    Invalid,
    #[error("it has expired")]
    Expired,
    #[error("its workspace is disabled")]
    WorkspaceDisabled,
    #[error("its user was forgotten or signed out after it was issued")]
    Forgotten,
    #[error("the token could not be looked up")]
    Store(#[from] StorageError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Purpose {
    #[serde(rename = "user")]
    Visit,
    #[serde(rename = "refresh")]
    Refresh,
}

/// What is signed. The names are short because they travel with every request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    #[serde(rename = "p")]
    purpose: Purpose,
    #[serde(rename = "k")]
    key: i64,
    #[serde(rename = "w")]
    workspace: i64,
    #[serde(rename = "u")]
    uid: UserId,
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    inboxes: Vec<InboxKey>,
    /// In milliseconds since 1970.
    #[serde(rename = "e")]
    expires_at: i64,
    /// Of the tokens, in seconds: those that a refresh gets live as long as the first.
    #[serde(rename = "l")]
    lifetime: i64,
}

impl Tokens {
    pub fn new(keys: SigningKeys) -> Self {
        Self { keys }
    }

    /// Makes a pair for a user of the workspace.
    pub async fn issue(&self, cx: &Cx, cmd: Issue) -> Result<Issued, IssueError> {
        if !(1..=MAX_LIFETIME).contains(&cmd.lifetime) {
            return Err(IssueError::Lifetime);
        }
        if cmd.inboxes.len() > MAX_INBOXES {
            return Err(IssueError::TooMany);
        }
        self.follow(cx.now()).await;
        Ok(self.pair(cx.workspace_id().get(), &cmd, cx.now()))
    }

    /// Who presents a token, and what he may reach.
    pub async fn visitor(&self, access: &Access, token: &str) -> Result<(Cx, Visitor), TokenError> {
        let (cx, claims) = self.read(access, Purpose::Visit, token).await?;
        let (issued_at, expires_at) = (claims.issued_at(), at(claims.expires_at));
        let Claims { uid, inboxes, key: signed_by, .. } = claims;
        Ok((cx, Visitor { uid, inboxes, issued_at, expires_at, signed_by }))
    }

    /// Whether what a key has signed is still good: for somebody who was let in a while ago, and is still there.
    pub async fn is_key_good(&self, now: Timestamp, key: i64) -> bool {
        self.follow(now).await;
        self.keys.current().mac(key).is_some()
    }

    /// The next pair, which is good for the same, and whose it is.
    pub async fn refresh(
        &self,
        access: &Access,
        token: &str,
    ) -> Result<(Cx, UserId, Issued), TokenError> {
        let (cx, claims) = self.read(access, Purpose::Refresh, token).await?;
        if forgotten::was_since(&cx, &claims.uid, claims.issued_at()).await? {
            return Err(TokenError::Forgotten);
        }
        let issue = Issue { uid: claims.uid, inboxes: claims.inboxes, lifetime: claims.lifetime };
        let issued = self.pair(claims.workspace, &issue, cx.now());
        Ok((cx, issue.uid, issued))
    }

    /// The same word for the same user of the same workspace as long as the key is the newest. It tells no more.
    pub fn pseudonym(&self, cx: &Cx, uid: &UserId) -> String {
        self.keys.current().pseudonym(&format!("inbox user {} {uid}", cx.workspace_id().get()))
    }

    /// Another node may have made a new key. While the store does not answer, the one that we know goes on signing.
    async fn follow(&self, now: Timestamp) {
        if let Err(error) = self.keys.refresh(now).await {
            tracing::warn!(error = %tidings_kernel::causes(&error), "The signing keys could not be read again");
        }
    }

    fn pair(&self, workspace: i64, issue: &Issue, now: Timestamp) -> Issued {
        let expires_at = now + SignedDuration::from_secs(issue.lifetime);
        let refresh_expires_at = now + REFRESH_LIFETIME;
        let keys = self.keys.current();
        let make = |purpose, expires_at: Timestamp| {
            let claims = Claims {
                purpose,
                key: keys.newest(),
                workspace,
                uid: issue.uid.clone(),
                inboxes: issue.inboxes.clone(),
                expires_at: expires_at.as_millisecond(),
                lifetime: issue.lifetime,
            };
            sign(&keys, &claims)
        };
        Issued {
            token: make(Purpose::Visit, expires_at),
            expires_at,
            refresh_token: make(Purpose::Refresh, refresh_expires_at),
            refresh_expires_at,
        }
    }

    async fn read(
        &self,
        access: &Access,
        purpose: Purpose,
        token: &str,
    ) -> Result<(Cx, Claims), TokenError> {
        let now = access.now();
        let proven = self.keys.prove(now, |keys| verify(keys, purpose, token)).await;
        let claims = proven.map_err(|error| match error {
            ProveError::Invalid => TokenError::Invalid,
            ProveError::Store(error) => TokenError::Store(error.into()),
        })?;
        if at(claims.expires_at) <= now {
            return Err(TokenError::Expired);
        }
        match access.visiting(claims.workspace).await.map_err(StorageError::from)? {
            Some(cx) => Ok((cx, claims)),
            None => Err(TokenError::WorkspaceDisabled),
        }
    }
}

impl Visitor {
    pub fn may_open(&self, inbox: &InboxKey) -> bool {
        self.inboxes.is_empty() || self.inboxes.contains(inbox)
    }
}

impl TokenError {
    /// A word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid => "token_invalid",
            Self::Expired => "token_expired",
            Self::WorkspaceDisabled => "workspace_disabled",
            Self::Forgotten => "user_forgotten",
            Self::Store(_) => "store",
        }
    }
}

impl Claims {
    fn issued_at(&self) -> Timestamp {
        let lifetime = match self.purpose {
            Purpose::Visit => SignedDuration::from_secs(self.lifetime),
            Purpose::Refresh => REFRESH_LIFETIME,
        };
        at(self.expires_at).checked_sub(lifetime).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Self::Visit => PREFIX,
            Self::Refresh => REFRESH_PREFIX,
        }
    }
}

/// `prefix · claims · . · MAC`, the latter two in base64url.
fn sign(keys: &Keyring, claims: &Claims) -> String {
    let said = serde_json::to_vec(claims).expect("claims are texts and numbers");
    let mac = keys.mac(claims.key).expect("the newest key is one of them");
    let mac = feed(mac, &said).finalize().into_bytes();
    let (said, mac) = (URL_SAFE_NO_PAD.encode(said), URL_SAFE_NO_PAD.encode(mac));
    format!("{}{said}.{mac}", claims.purpose.prefix())
}

fn verify(keys: &Keyring, purpose: Purpose, token: &str) -> Result<Claims, Refused> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Refused::Invalid);
    }
    let read = || {
        let (said, mac) = token.strip_prefix(purpose.prefix())?.split_once('.')?;
        let said = URL_SAFE_NO_PAD.decode(said).ok()?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let claims: Claims = serde_json::from_slice(&said).ok()?;
        Some((said, mac, claims))
    };
    let (said, mac, claims) = read().ok_or(Refused::Invalid)?;
    let ours = keys.mac(claims.key).ok_or(Refused::UnknownKey)?;
    // It compares in the same time whether much, little or nothing is alike.
    feed(ours, &said).verify_slice(&mac).map_err(|_| Refused::Invalid)?;
    // The prefix is for people; this is what was signed.
    if claims.purpose == purpose { Ok(claims) } else { Err(Refused::Invalid) }
}

fn feed(mut mac: Hmac<Sha256>, said: &[u8]) -> Hmac<Sha256> {
    mac.update(b"tidings inbox token\0");
    mac.update(said);
    mac
}

/// A time that cannot be is long over.
fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jiff::ToSpan as _;
    use tidings_access::signing::{self, SigningKeys};
    use tidings_access::workspaces;
    use tidings_testbed::{Bed, each_store};

    use super::{Issue, IssueError, LIFETIME, TokenError, Tokens};

    async fn tokens(bed: &Bed) -> Tokens {
        Tokens::new(SigningKeys::load(bed.access.database(), bed.access.now()).await.unwrap())
    }

    fn ada() -> Issue {
        let inboxes = vec!["app".parse().unwrap()];
        Issue { uid: "ada".parse().unwrap(), inboxes, lifetime: LIFETIME }
    }

    each_store!(
        a_token_says_who_it_is_until_it_expires,
        a_refresh_gets_the_next_pair_and_opens_nothing,
        no_bit_of_a_token_can_be_changed,
        a_disabled_workspace_lets_nobody_in,
        a_revoked_key_ends_what_it_has_signed,
        no_refresh_outlives_its_user,
    );

    async fn a_token_says_who_it_is_until_it_expires(bed: &Bed) {
        let (tokens, cx) = (tokens(bed).await, bed.cx().await);
        let other = bed.make_workspace("other").await;
        let issued = tokens.issue(&cx, ada()).await.unwrap();
        assert!(issued.token.starts_with("tdu_") && issued.token.len() < 200, "{}", issued.token);
        let (found, visitor) = tokens.visitor(&bed.access, &issued.token).await.unwrap();
        assert_eq!(found.workspace(), cx.workspace());
        assert_eq!(visitor.uid.as_str(), "ada");
        assert_eq!(visitor.expires_at, issued.expires_at);
        assert!(visitor.may_open(&"app".parse().unwrap()));
        assert!(!visitor.may_open(&"web".parse().unwrap()));

        let theirs = tokens.issue(&other, Issue { inboxes: vec![], ..ada() }).await.unwrap();
        let (found, visitor) = tokens.visitor(&bed.access, &theirs.token).await.unwrap();
        assert_eq!(found.workspace(), other.workspace());
        assert!(visitor.may_open(&"web".parse().unwrap()));
        let names = [&cx, &other].map(|cx| tokens.pseudonym(cx, &visitor.uid));
        assert_ne!(names[0], names[1]);

        bed.clock.advance((LIFETIME * 1_000 - 1).milliseconds());
        tokens.visitor(&bed.access, &issued.token).await.unwrap();
        bed.clock.advance(1.millisecond());
        let late = tokens.visitor(&bed.access, &issued.token).await;
        assert!(matches!(late, Err(TokenError::Expired)));

        for lifetime in [0, -1, super::MAX_LIFETIME + 1, i64::MAX] {
            let refused = tokens.issue(&cx, Issue { lifetime, ..ada() }).await;
            assert_eq!(refused, Err(IssueError::Lifetime));
        }
        let inboxes = vec!["app".parse().unwrap(); 11];
        assert_eq!(tokens.issue(&cx, Issue { inboxes, ..ada() }).await, Err(IssueError::TooMany));
        let widest = "ü".repeat(128);
        let inboxes = vec![widest.parse().unwrap(); 10];
        let widest = Issue { uid: widest.parse().unwrap(), inboxes, lifetime: super::MAX_LIFETIME };
        let issued = tokens.issue(&cx, widest).await.unwrap();
        tokens.visitor(&bed.access, &issued.token).await.unwrap();
    }

    async fn a_refresh_gets_the_next_pair_and_opens_nothing(bed: &Bed) {
        let (tokens, cx) = (tokens(bed).await, bed.cx().await);
        let first = tokens.issue(&cx, Issue { lifetime: 60, ..ada() }).await.unwrap();
        let swapped = |token: &str, from, to| token.replacen(from, to, 1);
        for wrong in [first.refresh_token.clone(), swapped(&first.refresh_token, "tdr_", "tdu_")] {
            let refused = tokens.visitor(&bed.access, &wrong).await;
            assert!(matches!(refused, Err(TokenError::Invalid)));
        }
        for wrong in [first.token.clone(), swapped(&first.token, "tdu_", "tdr_")] {
            let refused = tokens.refresh(&bed.access, &wrong).await;
            assert!(matches!(refused, Err(TokenError::Invalid)));
        }
        bed.clock.advance(29 * 24.hours());
        let (_, uid, next) = tokens.refresh(&bed.access, &first.refresh_token).await.unwrap();
        assert_eq!(uid.as_str(), "ada");
        assert_eq!(next.expires_at, bed.access.now() + 1.minute());
        let (_, visitor) = tokens.visitor(&bed.access, &next.token).await.unwrap();
        assert_eq!((visitor.uid.as_str(), visitor.inboxes.len()), ("ada", 1));
        bed.clock.advance(24.hours());
        let late = tokens.refresh(&bed.access, &first.refresh_token).await;
        assert!(matches!(late, Err(TokenError::Expired)));
        tokens.refresh(&bed.access, &next.refresh_token).await.unwrap();
    }

    async fn no_bit_of_a_token_can_be_changed(bed: &Bed) {
        let (tokens, cx) = (tokens(bed).await, bed.cx().await);
        let good = tokens.issue(&cx, ada()).await.unwrap().token;
        let (said, mac) = good.strip_prefix("tdu_").unwrap().split_once('.').unwrap();
        let parts = [said, mac].map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        for part in 0..2 {
            for bit in 0..parts[part].len() * 8 {
                let mut changed = parts.clone();
                changed[part][bit / 8] ^= 1 << (bit % 8);
                let [said, mac] = changed.map(|part| URL_SAFE_NO_PAD.encode(part));
                let read = tokens.visitor(&bed.access, &format!("tdu_{said}.{mac}")).await;
                assert!(matches!(read, Err(TokenError::Invalid)), "part {part} bit {bit}");
            }
        }
        let longer = "A".repeat(100_000);
        let cut = &good[..good.len() - 1];
        for text in ["", "tdu_", "tdu_.", "tdg_x", "ü", cut, &format!("{good}A"), &longer] {
            let read = tokens.visitor(&bed.access, text).await;
            assert!(matches!(read, Err(TokenError::Invalid)), "{}", text.len());
        }
    }

    async fn a_disabled_workspace_lets_nobody_in(bed: &Bed) {
        let (tokens, cx) = (tokens(bed).await, bed.cx().await);
        let issued = tokens.issue(&cx, ada()).await.unwrap();
        tokens.visitor(&bed.access, &issued.token).await.unwrap();
        workspaces::disable(&bed.access, cx.workspace().clone()).await.unwrap();
        let refused = tokens.visitor(&bed.access, &issued.token).await;
        assert!(matches!(refused, Err(TokenError::WorkspaceDisabled)));
        let refused = tokens.refresh(&bed.access, &issued.refresh_token).await;
        assert!(matches!(refused, Err(TokenError::WorkspaceDisabled)));
        workspaces::enable(&bed.access, cx.workspace().clone()).await.unwrap();
        tokens.visitor(&bed.access, &issued.token).await.unwrap();
    }

    async fn a_revoked_key_ends_what_it_has_signed(bed: &Bed) {
        let (tokens, cx, database) = (tokens(bed).await, bed.cx().await, bed.access.database());
        let old = tokens.issue(&cx, ada()).await.unwrap();
        let key = signing::list(database).await.unwrap()[0].id;
        signing::rotate(database, bed.access.now()).await.unwrap();
        bed.advance(2).await;
        let new = tokens.issue(&bed.cx().await, ada()).await.unwrap();
        tokens.visitor(&bed.access, &old.token).await.unwrap();
        signing::revoke(database, key, bed.access.now()).await.unwrap();
        bed.advance(2).await;
        let refused = tokens.visitor(&bed.access, &old.token).await;
        assert!(matches!(refused, Err(TokenError::Invalid)));
        tokens.visitor(&bed.access, &new.token).await.unwrap();
    }

    async fn no_refresh_outlives_its_user(bed: &Bed) {
        let (tokens, other) = (tokens(bed).await, bed.make_workspace("other").await);
        let cx = bed.cx().await;
        let theirs = tokens.issue(&other, ada()).await.unwrap();
        let old = tokens.issue(&cx, Issue { lifetime: 60, ..ada() }).await.unwrap();
        bed.clock.advance(20 * 24.hours());
        let (_, _, next) = tokens.refresh(&bed.access, &old.refresh_token).await.unwrap();
        let (_, visitor) = tokens.visitor(&bed.access, &next.token).await.unwrap();
        assert_eq!(visitor.issued_at, bed.access.now());
        crate::forget(&bed.cx().await, &ada().uid).await.unwrap();
        bed.clock.advance(1.millisecond());
        for days in [0, 9, 20] {
            bed.clock.advance((days * 24).hours());
            for token in [&old.refresh_token, &next.refresh_token] {
                let refused = tokens.refresh(&bed.access, token).await;
                assert!(
                    matches!(refused, Err(TokenError::Forgotten | TokenError::Expired)),
                    "{days} days later"
                );
            }
        }
        let anew = tokens.issue(&bed.cx().await, ada()).await.unwrap();
        tokens.refresh(&bed.access, &anew.refresh_token).await.unwrap();
        let theirs = tokens.refresh(&bed.access, &theirs.refresh_token).await;
        assert!(matches!(theirs, Err(TokenError::Expired)), "its user was forgotten by nobody");
    }
}
