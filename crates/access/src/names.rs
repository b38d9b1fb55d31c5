//! What things are called: slugs for programs, display names for people.

use std::fmt;
use std::str::FromStr;

/// The name of a thing in URLs and commands: 1 to 40 of `a-z`, `0-9` and `-`, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 40 lower-case letters, digits and hyphens, not beginning with a hyphen")]
pub struct SlugError;

/// A name for people: 1 to 100 characters on one line, without space around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DisplayName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 100 characters on one line")]
pub struct NameError;

impl Slug {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let well_formed =
            (1..=40).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('-');
        if well_formed { Ok(Self(text.to_owned())) } else { Err(SlugError) }
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DisplayName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Slug> for DisplayName {
    fn from(slug: &Slug) -> Self {
        Self(slug.0.clone())
    }
}

impl FromStr for DisplayName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let well_formed =
            (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(NameError) }
    }
}

impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{DisplayName, Slug};

    #[test]
    fn a_slug_fits_a_url() {
        for good in ["a", "shop-2", "0", &"a".repeat(40)] {
            assert!(good.parse::<Slug>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "Shop", "a_b", "a/b", "é", &"a".repeat(41)] {
            assert!(bad.parse::<Slug>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_display_name_fits_a_line() {
        for (text, name) in [(" The shop ", "The shop"), ("Käse & Söhne", "Käse & Söhne")] {
            assert_eq!(text.parse::<DisplayName>().unwrap().as_str(), name);
        }
        for bad in ["", "  ", "two\nlines", "\0", &"ä".repeat(101)] {
            assert!(bad.parse::<DisplayName>().is_err(), "{bad:?}");
        }
    }
}
