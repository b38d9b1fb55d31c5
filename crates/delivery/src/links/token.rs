//! A token: what a link says, as bytes, with the proof behind.
//!
//! `version · purpose · key · fields · MAC`, in base64url. Numbers are written seven bits to a byte, so that most take
//! one to three. The MAC is HMAC-SHA-256 over everything before it, of which 128 bits are kept, and for a click over
//! the target too: it need not be in the token, because it stands beside it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tidings_access::signing::{Keyring, Refused};

use super::{Addressee, Confirmation, MAX_TOKEN_BYTES, Source};

const VERSION: u8 = 1;
/// Bytes that are kept of a MAC.
const MAC: usize = 16;

/// What a token may be used for. It is signed: the pixel of a mail cannot unsubscribe its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    Open,
    Click,
    Unsubscribe,
    Preferences,
    Confirm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Addressee(Purpose, Addressee),
    Confirmation(Confirmation),
}

impl Purpose {
    fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Click => 2,
            Self::Unsubscribe => 3,
            Self::Preferences => 4,
            Self::Confirm => 5,
        }
    }
}

impl Source {
    pub(super) fn parts(self) -> (u8, i64) {
        match self {
            Self::Transactional(id) => (1, id),
            Self::Recipient(id) => (2, id),
        }
    }

    pub(super) fn from_parts(kind: u8, id: i64) -> Option<Self> {
        match kind {
            1 => Some(Self::Transactional(id)),
            2 => Some(Self::Recipient(id)),
            _ => None,
        }
    }
}

impl Token {
    fn purpose(&self) -> Purpose {
        match self {
            Self::Addressee(purpose, _) => *purpose,
            Self::Confirmation(_) => Purpose::Confirm,
        }
    }
}

/// The token as text, bound to what stands beside it.
pub(super) fn sign(keys: &Keyring, token: &Token, bound: &[u8]) -> String {
    let (key, mac) = keys.signing();
    let mut bytes = vec![VERSION, token.purpose().code()];
    put(&mut bytes, key);
    match token {
        Token::Addressee(_, to) => {
            let (kind, row) = to.source.parts();
            put(&mut bytes, to.workspace);
            bytes.push(kind);
            for id in [row, to.contact, to.client] {
                put(&mut bytes, id);
            }
            put(&mut bytes, to.audience.unwrap_or(0));
            put(&mut bytes, to.topic.unwrap_or(0));
        }
        Token::Confirmation(confirmation) => {
            put(&mut bytes, confirmation.workspace);
            put(&mut bytes, confirmation.subscription);
        }
    }
    let mac = feed(mac, &bytes, bound).finalize().into_bytes();
    bytes.extend_from_slice(&mac[..MAC]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What the token says, if one of our keys made it for this purpose.
pub(super) fn verify(
    keys: &Keyring,
    purpose: Purpose,
    text: &str,
    bound: &[u8],
) -> Result<Token, Refused> {
    if text.len() > MAX_TOKEN_BYTES {
        return Err(Refused::Invalid);
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Refused::Invalid)?;
    let end = bytes.len().checked_sub(MAC).ok_or(Refused::Invalid)?;
    let (said, mac) = bytes.split_at(end);
    let mut rest = said;
    if byte(&mut rest)? != VERSION || byte(&mut rest)? != purpose.code() {
        return Err(Refused::Invalid);
    }
    let ours = keys.mac(take(&mut rest)?).ok_or(Refused::UnknownKey)?;
    // It compares in the same time whether much, little or nothing is alike.
    feed(ours, said, bound).verify_truncated_left(mac).map_err(|_| Refused::Invalid)?;
    let token = match purpose {
        Purpose::Confirm => {
            let (workspace, subscription) = (take(&mut rest)?, take(&mut rest)?);
            Token::Confirmation(Confirmation { workspace, subscription })
        }
        Purpose::Open | Purpose::Click | Purpose::Unsubscribe | Purpose::Preferences => {
            Token::Addressee(purpose, addressee(&mut rest)?)
        }
    };
    if rest.is_empty() { Ok(token) } else { Err(Refused::Invalid) }
}

/// Whether a text begins like our tokens, good or not, whole or cut off: with the version and a purpose below 16.
/// Others who see opens and clicks may have tokens of their own.
pub fn has_our_form(text: &str) -> bool {
    text.starts_with("AQ")
}

fn addressee(rest: &mut &[u8]) -> Result<Addressee, Refused> {
    let workspace = take(rest)?;
    let kind = byte(rest)?;
    let source = Source::from_parts(kind, take(rest)?).ok_or(Refused::Invalid)?;
    let (contact, client) = (take(rest)?, take(rest)?);
    let some = |id: i64| (id != 0).then_some(id);
    let (audience, topic) = (some(take(rest)?), some(take(rest)?));
    Ok(Addressee { workspace, source, contact, client, audience, topic })
}

/// The bytes of a token begin with their version and end where the purpose says, so nothing can move from one part
/// to the other.
fn feed(mut mac: Hmac<Sha256>, said: &[u8], bound: &[u8]) -> Hmac<Sha256> {
    mac.update(b"tidings link\0");
    mac.update(&(said.len() as u64).to_be_bytes());
    mac.update(said);
    mac.update(bound);
    mac
}

/// Seven bits to a byte, the lowest first; the highest bit says that more follow. Ids are not negative.
fn put(bytes: &mut Vec<u8>, id: i64) {
    let mut rest = id.unsigned_abs();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn take(rest: &mut &[u8]) -> Result<i64, Refused> {
    let mut value: u64 = 0;
    for shift in (0..63).step_by(7) {
        let next = byte(rest)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return i64::try_from(value).map_err(|_| Refused::Invalid);
        }
    }
    Err(Refused::Invalid)
}

fn byte(rest: &mut &[u8]) -> Result<u8, Refused> {
    let (first, others) = rest.split_first().ok_or(Refused::Invalid)?;
    *rest = others;
    Ok(*first)
}
