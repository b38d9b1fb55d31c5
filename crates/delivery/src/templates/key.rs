//! What a template is called.

use std::fmt;
use std::str::FromStr;

use tidings_kernel::Key;

/// A path such as `onboarding/welcome`: 1 to 200 characters, parts of `a-z`, `0-9`, `_` and `-` with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateKey(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "use 1 to 200 lower-case letters, digits, _ and -, in parts with / between them, such as onboarding/welcome"
)]
pub struct KeyError;

/// Where partials live.
const PARTIALS: &str = "partials/";

impl TemplateKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is called by others and never sent by itself.
    pub fn is_partial(&self) -> bool {
        self.0.starts_with(PARTIALS)
    }

    /// The key of a partial by the name that `include` uses.
    pub(super) fn partial(name: &str) -> Option<Self> {
        format!("{PARTIALS}{name}").parse().ok()
    }

    fn partition(&self) -> String {
        format!("TEMPLATE#{self}")
    }

    pub(super) fn version(&self, number: i64) -> Key {
        Key::new(self.partition(), format!("VERSION#{number}"))
    }

    pub(super) fn current(&self) -> Key {
        Key::new(self.partition(), "CURRENT")
    }
}

impl FromStr for TemplateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let part = |part: &str| !part.is_empty() && part.chars().all(allowed);
        let well_formed = text.len() <= 200 && text.split('/').all(part);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(KeyError) }
    }
}

impl fmt::Display for TemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::TemplateKey;

    #[test]
    fn a_key_is_a_path() {
        for good in ["a", "onboarding/welcome", "reminder_first", "a/b/c-1", &"a".repeat(200)] {
            assert!(good.parse::<TemplateKey>().is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "A", "a b", "a.html", "../a", "ä", &"a".repeat(201)] {
            assert!(bad.parse::<TemplateKey>().is_err(), "{bad}");
        }
    }
}
