//! E-mail addresses: checked, and normalised before they become a key.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use email_address::{EmailAddress as Syntax, Options};

/// The longest address, by RFC 5321.
const MAX_BYTES: usize = 254;

/// An address that mail can be sent to. Two of them are equal if they are the same when normalised: without spaces
/// around, in lower case, the domain as IDNA writes it. What somebody typed is kept beside.
#[derive(Debug, Clone)]
pub struct EmailAddress {
    normal: String,
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("use an e-mail address such as ada@example.org")]
    Malformed,
    #[error("an e-mail address has at most 254 characters")]
    TooLong,
    #[error("the domain of the e-mail address is not one on the internet")]
    Domain,
}

impl EmailAddress {
    /// As it is compared and stored under.
    pub fn as_str(&self) -> &str {
        &self.normal
    }

    /// As somebody wrote it, without spaces around.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    pub fn domain(&self) -> &str {
        self.normal.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl FromStr for EmailAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let typed = text.trim();
        // What a header or a key would take for something else, and white space inside a quoted part.
        if typed.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(AddressError::Malformed);
        }
        let (local, domain) = typed.rsplit_once('@').ok_or(AddressError::Malformed)?;
        if local.is_empty()
            || domain.is_empty()
            || local.starts_with('"')
            || domain.starts_with('[')
        {
            return Err(AddressError::Malformed);
        }
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| AddressError::Domain)?;
        if !domain.contains('.') || domain.ends_with('.') {
            return Err(AddressError::Domain);
        }
        let normal = format!("{}@{domain}", local.to_lowercase());
        if normal.len() > MAX_BYTES || typed.len() > 2 * MAX_BYTES {
            return Err(AddressError::TooLong);
        }
        let options = Options::default().without_display_text().without_domain_literal();
        Syntax::parse_with_options(&normal, options).map_err(|_| AddressError::Malformed)?;
        Ok(Self { normal, typed: typed.to_owned() })
    }
}

impl PartialEq for EmailAddress {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

impl Eq for EmailAddress {}

impl Hash for EmailAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normal.hash(state);
    }
}

impl PartialOrd for EmailAddress {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EmailAddress {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.normal.cmp(&other.normal)
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.normal)
    }
}

#[cfg(test)]
mod tests {
    use super::EmailAddress;

    fn check(typed: &str, normal: &str) {
        let parsed = typed.parse::<EmailAddress>();
        let said = parsed.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        assert_eq!(said, normal, "{typed:?}");
    }

    #[test]
    fn an_address_has_one_form() {
        check(" Ada@Example.ORG ", "ada@example.org");
        check("ada+x@example.org", "ada+x@example.org");
        check("a|b@example.org", "a|b@example.org");
        check("ada@bücher.example", "ada@xn--bcher-kva.example");
        check("ÄDA@example.org", "äda@example.org");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let malformed = "use an e-mail address such as ada@example.org";
        for typed in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "a b@example.org",
            "a@b@example.org",
            "\"a\"@example.org",
        ] {
            check(typed, malformed);
        }
        for typed in
            ["a\r\nb@example.org", "a..b@example.org", "Ada <ada@example.org>", "a@[127.0.0.1]"]
        {
            check(typed, malformed);
        }
        for typed in ["ada@localhost", "ada@example.org.", "ada@-x.org", "ada@exa_mple.org"] {
            check(typed, "the domain of the e-mail address is not one on the internet");
        }
        check(&format!("a@{}.org", "x".repeat(63)), &format!("a@{}.org", "x".repeat(63)));
        check(
            &format!("a@{}org", "xxxxxxxxx.".repeat(26)),
            "the domain of the e-mail address is not one on the internet",
        );
    }
}
