//! The secret that an endpoint shares with us, and what it signs.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Standard Webhooks asks for 24 to 64 bytes.
const BYTES: usize = 32;

/// `whsec_` and the Base64 of random bytes. It is shown when it is made, and at no other time.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn generate() -> Self {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        Self(format!("{PREFIX}{}", BASE64_STANDARD.encode(bytes)))
    }

    /// As it was written by `expose`.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret as its owner has to keep it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// One signature, with its version: `v1,<Base64>`.
    fn sign(&self, content: &str) -> String {
        let encoded = self.0.strip_prefix(PREFIX).unwrap_or(&self.0);
        // What is no Base64 was not made here; it still must not go out unsigned.
        let key = BASE64_STANDARD.decode(encoded).unwrap_or_else(|_| self.0.as_bytes().to_vec());
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length is a key");
        mac.update(content.as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The header `webhook-signature`: one signature by each secret that is good, the newest first.
pub(crate) fn signatures(secrets: &[Secret], id: &str, seconds: i64, body: &str) -> String {
    let content = format!("{id}.{seconds}.{body}");
    let signed: Vec<_> = secrets.iter().map(|secret| secret.sign(&content)).collect();
    signed.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Secret, signatures};

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn it_signs_as_the_standard_does() {
        let secret = Secret::stored("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = signatures(
            std::slice::from_ref(&secret),
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
    }

    #[test]
    fn secrets_differ_and_each_signs_for_itself() {
        let (new, old) = (Secret::generate(), Secret::generate());
        assert_ne!(new, old);
        assert!(new.expose().starts_with("whsec_"));
        let both = signatures(&[new.clone(), old.clone()], "a", 1, "{}");
        let each = [signatures(&[new], "a", 1, "{}"), signatures(&[old], "a", 1, "{}")];
        assert_eq!(both, each.join(" "));
    }
}
