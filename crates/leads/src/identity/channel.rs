//! What a person is known by, in the form in which it is compared.

use std::fmt;

use tidings_jobs::contracts;
use tidings_kernel::EmailAddress;
use tidings_people::contacts::KnownBy;

/// The longest identity, in characters.
pub const MAX_VALUE: usize = 512;
/// The longest name of a channel of the sender's own.
const MAX_NAME: usize = 64;
const CUSTOM: &str = "custom:";

/// Where somebody is known by a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    Email,
    Phone,
    Whatsapp,
    UserId,
    CustomerId,
    AnonymousId,
    /// `custom:<name>`.
    Custom(String),
}

/// One of the things that a person is known by. Two are equal if they are the same when normalised.
#[derive(Debug, Clone)]
pub struct Identity {
    channel: Channel,
    /// The channel as it is stored.
    name: String,
    value: String,
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error(
        "use email, phone, whatsapp, user_id, customer_id, anonymous_id, or custom:<name> with 1 to 64 letters, digits, _, - or ."
    )]
    Channel,
    #[error(transparent)]
    Email(#[from] tidings_kernel::AddressError),
    #[error("use a number with its country, such as +49 30 1234567: + and 7 to 15 digits")]
    Phone,
    #[error("use 1 to {MAX_VALUE} characters without control characters")]
    Value,
}

impl Channel {
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        match text {
            "email" => Ok(Self::Email),
            "phone" => Ok(Self::Phone),
            "whatsapp" => Ok(Self::Whatsapp),
            "user_id" => Ok(Self::UserId),
            "customer_id" => Ok(Self::CustomerId),
            "anonymous_id" => Ok(Self::AnonymousId),
            other => Self::custom(other.strip_prefix(CUSTOM).ok_or(IdentityError::Channel)?),
        }
    }

    fn custom(name: &str) -> Result<Self, IdentityError> {
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if fits { Ok(Self::Custom(name.to_ascii_lowercase())) } else { Err(IdentityError::Channel) }
    }

    /// Whether a system calls one person so and nobody else: two of them are two people. An address or a browser can be
    /// shared.
    pub fn is_strong(&self) -> bool {
        matches!(self, Self::UserId | Self::CustomerId)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Email => f.write_str("email"),
            Self::Phone => f.write_str("phone"),
            Self::Whatsapp => f.write_str("whatsapp"),
            Self::UserId => f.write_str("user_id"),
            Self::CustomerId => f.write_str("customer_id"),
            Self::AnonymousId => f.write_str("anonymous_id"),
            Self::Custom(name) => write!(f, "{CUSTOM}{name}"),
        }
    }
}

impl Identity {
    pub fn new(channel: &str, value: &str) -> Result<Self, IdentityError> {
        Self::on(Channel::parse(channel)?, value)
    }

    pub fn email(address: &EmailAddress) -> Self {
        let (value, typed) = (address.as_str().to_owned(), address.typed().to_owned());
        Self { channel: Channel::Email, name: Channel::Email.to_string(), value, typed }
    }

    fn on(channel: Channel, value: &str) -> Result<Self, IdentityError> {
        let typed = value.trim();
        let normal = match channel {
            Channel::Email => return Ok(Self::email(&typed.parse::<EmailAddress>()?)),
            Channel::Phone => e164(typed)?,
            Channel::Whatsapp => whatsapp(typed)?,
            Channel::UserId | Channel::CustomerId | Channel::AnonymousId | Channel::Custom(_) => {
                typed.to_owned()
            }
        };
        let fits = (1..=MAX_VALUE).contains(&typed.chars().count());
        if !fits || typed.chars().any(char::is_control) {
            return Err(IdentityError::Value);
        }
        let name = channel.to_string();
        Ok(Self { channel, name, value: normal, typed: typed.to_owned() })
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// As it is compared and stored.
    pub fn value(&self) -> &str {
        &self.value
    }

    pub fn known_by(&self) -> KnownBy<'_> {
        KnownBy { channel: &self.name, value: &self.value, typed: &self.typed }
    }
}

/// `+` and digits. Whoever writes a number puts spaces, dashes, dots, slashes and parentheses into it, and 00 for +. A zero in
/// parentheses after the country is the one that is dialled without it.
fn e164(typed: &str) -> Result<String, IdentityError> {
    let plain: String = typed
        .replacen("(0)", "", 1)
        .chars()
        .filter(|c| !matches!(c, ' ' | '\u{a0}' | '-' | '\u{2013}' | '.' | '/' | '(' | ')'))
        .collect();
    let digits = plain.strip_prefix('+').or_else(|| plain.strip_prefix("00"));
    let digits = digits.ok_or(IdentityError::Phone)?;
    let fits = (7..=15).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    if fits { Ok(format!("+{digits}")) } else { Err(IdentityError::Phone) }
}

/// Besides: `whatsapp:` before it as Twilio writes it, the id of a chat after it, and bare digits as Meta tells a `wa_id`, which begins with
/// the country and has no sign of it.
fn whatsapp(typed: &str) -> Result<String, IdentityError> {
    let number = typed.strip_prefix("whatsapp:").unwrap_or(typed);
    let number = ["@s.whatsapp.net", "@c.us"]
        .into_iter()
        .find_map(|chat| number.strip_suffix(chat))
        .unwrap_or(number);
    let is_bare = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare { e164(&format!("+{number}")) } else { e164(number) }
}

impl TryFrom<&contracts::Identity> for Identity {
    type Error = IdentityError;

    fn try_from(told: &contracts::Identity) -> Result<Self, IdentityError> {
        let channel = match &told.channel {
            contracts::Channel::Email => Channel::Email,
            contracts::Channel::Phone => Channel::Phone,
            contracts::Channel::Whatsapp => Channel::Whatsapp,
            contracts::Channel::UserId => Channel::UserId,
            contracts::Channel::CustomerId => Channel::CustomerId,
            contracts::Channel::AnonymousId => Channel::AnonymousId,
            contracts::Channel::Custom(name) => {
                Channel::custom(name.strip_prefix(CUSTOM).unwrap_or(name))?
            }
        };
        Self::on(channel, &told.value)
    }
}

impl From<&Identity> for contracts::Identity {
    fn from(identity: &Identity) -> Self {
        let channel = match &identity.channel {
            Channel::Email => contracts::Channel::Email,
            Channel::Phone => contracts::Channel::Phone,
            Channel::Whatsapp => contracts::Channel::Whatsapp,
            Channel::UserId => contracts::Channel::UserId,
            Channel::CustomerId => contracts::Channel::CustomerId,
            Channel::AnonymousId => contracts::Channel::AnonymousId,
            Channel::Custom(name) => contracts::Channel::Custom(format!("{CUSTOM}{name}")),
        };
        Self { channel, value: identity.typed.clone() }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        (&self.channel, &self.value) == (&other.channel, &other.value)
    }
}

impl Eq for Identity {}

#[cfg(test)]
mod tests {
    use super::Identity;

    fn check(channel: &str, typed: &str, normal: &str) {
        let said = match Identity::new(channel, typed) {
            Ok(identity) => format!("{} {}", identity.channel(), identity.value()),
            Err(_) => "refused".to_owned(),
        };
        assert_eq!(said, normal, "{channel} {typed:?}");
    }

    #[test]
    fn each_channel_has_its_normal_form() {
        check("email", " Ada@Example.ORG ", "email ada@example.org");
        check("email", "ada", "refused");
        check("phone", "+49 (0)30 1234567", "phone +49301234567");
        check("phone", "0044 (0) 20 7946 0000", "phone +442079460000");
        check("phone", "+49 (030) 1234567", "phone +490301234567");
        check("phone", "(0)30 1234567", "refused");
        check("phone", "0049-30-123.45/67", "phone +49301234567");
        check("phone", "030 1234567", "refused");
        check("phone", "+49", "refused");
        check("phone", "+0123456789", "refused");
        check("phone", "+1234567890123456", "refused");
        check("whatsapp", "whatsapp:+4917012345678", "whatsapp +4917012345678");
        check("whatsapp", "4917012345678", "whatsapp +4917012345678");
        check("whatsapp", "4917012345678@s.whatsapp.net", "whatsapp +4917012345678");
        check("whatsapp", "+49 170 12345678", "whatsapp +4917012345678");
        check("whatsapp", "017012345678", "refused");
        check("whatsapp", "123456", "refused");
        check("whatsapp", "1234567890123456", "refused");
        check("whatsapp", "@s.whatsapp.net", "refused");
        check("phone", "4917012345678", "refused");
        check("user_id", "  u1 ", "user_id u1");
        check("user_id", "U1", "user_id U1");
        check("user_id", "", "refused");
        check("anonymous_id", "a\nb", "refused");
        check("custom:Loyalty", "77", "custom:loyalty 77");
        check("custom:", "77", "refused");
        check("custom:a b", "77", "refused");
        check("fax", "77", "refused");
        check("customer_id", &"x".repeat(512), &format!("customer_id {}", "x".repeat(512)));
        check("customer_id", &"x".repeat(513), "refused");
    }
}
