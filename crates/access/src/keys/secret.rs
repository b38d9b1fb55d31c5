//! A key as text: `tdg_<public id>_<secret>`. The public id finds the row, the secret proves the right to it.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const PREFIX: &str = "tdg_";
const PUBLIC_LENGTH: usize = 12;
/// 43 characters out of 62 hold 256 bits.
const SECRET_LENGTH: usize = 43;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The half of a key that may be seen: in lists, logs and URLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicId(String);

/// A whole key. It is shown when it is made, and at no other time.
pub struct ApiKey {
    public_id: PublicId,
    secret: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a key: keys look like tdg_…_…")]
pub struct MalformedKey;

/// The SHA-256 of a secret in hex, as it is stored. A random secret of 256 bits needs no slow hash: nobody can
/// try them all, and every request pays for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretHash(String);

impl ApiKey {
    pub(crate) fn generate() -> Self {
        Self { public_id: PublicId(random(PUBLIC_LENGTH)), secret: random(SECRET_LENGTH) }
    }

    pub fn public_id(&self) -> &PublicId {
        &self.public_id
    }

    /// The key as its owner has to present it.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}_{}", self.public_id, self.secret)
    }

    pub(crate) fn hash(&self) -> SecretHash {
        let digest = Sha256::digest(self.secret.as_bytes());
        SecretHash(tidings_kernel::hex(&digest))
    }

    /// Compares in the same time whether much, little or nothing is alike, and also if there is no such key: how
    /// long an answer takes must not tell which ids exist.
    pub(crate) fn proves(&self, stored: Option<&SecretHash>) -> bool {
        let nobody = SecretHash("0".repeat(64));
        let is_equal = self.hash().0.as_bytes().ct_eq(stored.unwrap_or(&nobody).0.as_bytes());
        bool::from(is_equal) && stored.is_some()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, secret hidden)", self.public_id)
    }
}

impl FromStr for ApiKey {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (public_id, secret) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(MalformedKey)?;
        if !is_text_of(secret, SECRET_LENGTH) {
            return Err(MalformedKey);
        }
        Ok(Self { public_id: public_id.parse()?, secret: secret.to_owned() })
    }
}

impl PublicId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublicId {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_text_of(text, PUBLIC_LENGTH) { Ok(Self(text.to_owned())) } else { Err(MalformedKey) }
    }
}

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SecretHash {
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_text_of(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Characters from the operating system's randomness, each as likely as any other: bytes above the last multiple
/// of 62 are thrown away, or the first characters of the alphabet would come more often.
fn random(length: usize) -> String {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        let usable = bytes.iter().filter(|byte| **byte < 248);
        let characters = usable.map(|byte| char::from(ALPHABET[usize::from(*byte) % 62]));
        text.extend(characters.take(length - text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ApiKey, random};

    #[test]
    fn a_key_survives_being_written_down() {
        let key = ApiKey::generate();
        let text = key.expose();
        assert_eq!(text.len(), 4 + 12 + 1 + 43);
        let read: ApiKey = text.parse().unwrap();
        assert_eq!(read.public_id(), key.public_id());
        assert!(read.proves(Some(&key.hash())));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let good = ApiKey::generate().expose();
        for bad in [
            "",
            "tdg_",
            "tdg__",
            &good[1..],
            &good[..good.len() - 1],
            &format!("{good}a"),
            &format!("{good}_"),
            &good.replace("tdg", "sk"),
            &good.replacen('_', "-", 1),
            &format!(" {good}"),
            &format!("{}é", &good[..good.len() - 2]),
        ] {
            assert!(bad.parse::<ApiKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_right_secret_proves() {
        let (key, other) = (ApiKey::generate(), ApiKey::generate());
        assert!(key.proves(Some(&key.hash())));
        assert!(!key.proves(Some(&other.hash())));
        assert!(!key.proves(None));
        // One character is enough, wherever it is.
        let text = key.expose();
        for place in text.len() - 43..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'a' { b'b' } else { b'a' };
            let changed: ApiKey = String::from_utf8(changed).unwrap().parse().unwrap();
            assert!(!changed.proves(Some(&key.hash())), "{place}");
        }
    }

    #[test]
    fn the_secret_does_not_show() {
        let key = ApiKey::generate();
        let shown = format!("{key:?}");
        assert!(shown.contains(key.public_id().as_str()));
        assert!(!shown.contains(&key.secret), "{shown}");
        assert!(!key.hash().as_str().contains(&key.secret));
    }

    #[test]
    fn chance_uses_the_whole_alphabet_and_does_not_repeat() {
        let long = random(20_000);
        assert_eq!(long.chars().collect::<HashSet<_>>().len(), 62);
        let keys: HashSet<_> = (0..1000).map(|_| ApiKey::generate().expose()).collect();
        assert_eq!(keys.len(), 1000);
    }
}
