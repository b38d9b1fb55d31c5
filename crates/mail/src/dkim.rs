//! DKIM: a signature over the headers and the body, by which a reader's provider knows whose mail it is (RFC 6376).
//!
//! Relaxed canonicalisation for both, RSA-SHA256 or Ed25519-SHA256 (RFC 8463), whichever the key is. Not here: making
//! keys, publishing them in DNS, and checking other people's signatures.

mod keys;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};

pub use keys::{DkimKeys, TwoKeys};

/// What is signed, where the message has it. Both list headers are among them, as RFC 8058 asks.
const SIGNED: [&str; 14] = [
    "from",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "reply-to",
    "mime-version",
    "content-type",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "list-id",
    "feedback-id",
    "auto-submitted",
];

/// Signs in the name of a domain.
pub struct Dkim {
    domain: String,
    selector: String,
    key: Key,
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DkimError {
    #[error("the DKIM domain and selector are names such as example.org and mail2026")]
    Name,
    #[error(
        "the DKIM key is not a private key in PEM: PKCS#8 (BEGIN PRIVATE KEY) or PKCS#1 (BEGIN RSA PRIVATE KEY)"
    )]
    Pem,
    #[error("the DKIM key cannot be used: {0}")]
    Key(String),
    #[error("the message could not be signed")]
    Sign,
}

impl Dkim {
    /// `pem` holds an RSA key of 2048 bits or more, or an Ed25519 key.
    pub fn new(domain: &str, selector: &str, pem: &str) -> Result<Self, DkimError> {
        for name in [domain, selector] {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
            if !(1..=253).contains(&name.len()) || !name.chars().all(allowed) {
                return Err(DkimError::Name);
            }
        }
        Ok(Self {
            domain: domain.to_ascii_lowercase(),
            selector: selector.to_owned(),
            key: read_key(pem)?,
        })
    }

    /// What DNS must say at `selector._domainkey.domain`.
    pub fn record(&self) -> (String, String) {
        let name = format!("{}._domainkey.{}", self.selector, self.domain);
        let value = match &self.key {
            Key::Rsa(key) => {
                format!(
                    "v=DKIM1; k=rsa; p={}",
                    STANDARD.encode(rsa_public_info(key.public().as_ref()))
                )
            }
            Key::Ed25519(key) => {
                format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(key.public_key().as_ref()))
            }
        };
        (name, value)
    }

    /// The message with a signature in front.
    pub fn sign(&self, mime: &[u8]) -> Result<Vec<u8>, DkimError> {
        let (head, body) = split(mime);
        let headers = fields(head);
        let body_hash = STANDARD.encode(digest(&SHA256, &relaxed_body(body)));

        let mut names: Vec<&str> = Vec::new();
        let mut signed = Vec::new();
        for name in SIGNED {
            // The last of several is signed first, RFC 6376 §5.4.2; a letter of ours has one of each.
            for field in headers.iter().rev().filter(|field| field.is(name)) {
                names.push(name);
                signed.extend_from_slice(&relaxed_field(field));
                signed.extend_from_slice(b"\r\n");
            }
        }
        // Once more than there are: nobody can put a second one in front.
        names.push("from");
        let algorithm = match self.key {
            Key::Rsa(_) => "rsa-sha256",
            Key::Ed25519(_) => "ed25519-sha256",
        };
        let unsigned = format!(
            "DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed; d={};\r\n s={};\r\n h={};\r\n bh={body_hash};\r\n b=",
            self.domain,
            self.selector,
            names.join(":\r\n  "),
        );
        if let Some(own) = fields(unsigned.as_bytes()).first() {
            signed.extend_from_slice(&relaxed_field(own));
        }
        let signature = STANDARD.encode(self.key.sign(&signed)?);

        let mut written = Vec::with_capacity(mime.len() + 1024);
        written.extend_from_slice(unsigned.as_bytes());
        for (index, piece) in signature.as_bytes().chunks(70).enumerate() {
            if index > 0 {
                written.extend_from_slice(b"\r\n  ");
            }
            written.extend_from_slice(piece);
        }
        written.extend_from_slice(b"\r\n");
        written.extend_from_slice(mime);
        Ok(written)
    }
}

impl std::fmt::Debug for Dkim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dkim({}._domainkey.{})", self.selector, self.domain)
    }
}

impl Key {
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, DkimError> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), bytes, &mut signature)
                    .map_err(|_| DkimError::Sign)?;
                Ok(signature)
            }
            // RFC 8463: the signature is over the hash.
            Self::Ed25519(key) => Ok(key.sign(digest(&SHA256, bytes).as_ref()).as_ref().to_vec()),
        }
    }
}

fn read_key(pem: &str) -> Result<Key, DkimError> {
    let begin = pem.find("-----BEGIN ").ok_or(DkimError::Pem)?;
    let rest = &pem[begin + "-----BEGIN ".len()..];
    let (label, rest) = rest.split_once("-----").ok_or(DkimError::Pem)?;
    let (text, _) = rest.split_once("-----END ").ok_or(DkimError::Pem)?;
    let text: String = text.split_whitespace().collect();
    let der = STANDARD.decode(text).map_err(|_| DkimError::Pem)?;
    let refused = |error: ring::error::KeyRejected| DkimError::Key(error.to_string());
    match label {
        "RSA PRIVATE KEY" => {
            RsaKeyPair::from_der(&der).map(|key| Key::Rsa(Box::new(key))).map_err(refused)
        }
        "PRIVATE KEY" => match Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            Ok(key) => Ok(Key::Ed25519(Box::new(key))),
            Err(_) => {
                RsaKeyPair::from_pkcs8(&der).map(|key| Key::Rsa(Box::new(key))).map_err(refused)
            }
        },
        _ => Err(DkimError::Pem),
    }
}

/// A public key as DNS has it: `SubjectPublicKeyInfo` around what ring gives.
fn rsa_public_info(public: &[u8]) -> Vec<u8> {
    const RSA_ENCRYPTION: [u8; 15] =
        [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let mut bits = vec![0];
    bits.extend_from_slice(public);
    let mut inside = RSA_ENCRYPTION.to_vec();
    inside.extend(tagged(0x03, &bits));
    tagged(0x30, &inside)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut written = vec![tag];
    match significant {
        [short] if *short < 0x80 => written.push(*short),
        long => {
            written.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            written.extend_from_slice(long);
        }
    }
    written.extend_from_slice(content);
    written
}

/// A header with its folds.
struct Field<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl Field<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.trim_ascii_end().eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Headers with the break that ends the last one, and the body after the empty line.
fn split(mime: &[u8]) -> (&[u8], &[u8]) {
    match mime.windows(4).position(|window| window == b"\r\n\r\n") {
        Some(at) => (&mime[..at + 2], &mime[at + 4..]),
        None => (mime, &[]),
    }
}

fn fields(head: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < head.len() {
        let mut end = start;
        loop {
            end = match head[end..].windows(2).position(|window| window == b"\r\n") {
                Some(at) => end + at + 2,
                None => head.len(),
            };
            if !matches!(head.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let field = &head[start..end];
        if let Some(colon) = field.iter().position(|byte| *byte == b':') {
            found.push(Field { name: &field[..colon], value: &field[colon + 1..] });
        }
        start = end;
    }
    found
}

/// RFC 6376 §3.4.2, without the break at the end.
fn relaxed_field(field: &Field<'_>) -> Vec<u8> {
    let mut written = field.name.trim_ascii_end().to_ascii_lowercase();
    written.push(b':');
    let words = field.value.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            written.push(b' ');
        }
        written.extend_from_slice(word);
    }
    written
}

/// RFC 6376 §3.4.4.
fn relaxed_body(body: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(body.len());
    let mut empty_lines = 0;
    let mut rest = body;
    while !rest.is_empty() {
        let (line, after) = match rest.windows(2).position(|window| window == b"\r\n") {
            Some(at) => (&rest[..at], &rest[at + 2..]),
            None => (rest, &[][..]),
        };
        rest = after;
        let start = written.len();
        for _ in 0..empty_lines {
            written.extend_from_slice(b"\r\n");
        }
        let content = written.len();
        relax_line(line, &mut written);
        if written.len() == content {
            written.truncate(start);
            empty_lines += 1;
        } else {
            written.extend_from_slice(b"\r\n");
            empty_lines = 0;
        }
    }
    written
}

fn relax_line(line: &[u8], written: &mut Vec<u8>) {
    let mut space = false;
    for byte in line {
        if matches!(byte, b' ' | b'\t') {
            space = true;
        } else {
            if space {
                written.push(b' ');
                space = false;
            }
            written.push(*byte);
        }
    }
}
