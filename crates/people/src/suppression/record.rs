//! A suppression as an item and as a value.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use tidings_kernel::{Condition, EmailAddress, Expect, Item, tables};

use crate::contacts::profile::time;
use crate::keys;

/// Why an address must not be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A provider said that nobody is there and nobody will be.
    Permanent,
    /// Somebody called our mail spam.
    Complaint,
    /// Nobody could be reached again and again.
    Transient,
    /// Somebody here decided it.
    Manual,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use Permanent, Complaint, Transient or Manual")]
pub struct KindError;

/// Some words on why: 1 to 500 characters on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 500 characters on one line")]
pub struct ReasonError;

/// An address that gets no mail at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    pub email: EmailAddress,
    pub kind: Kind,
    pub reason: String,
    /// When what it is because of happened.
    pub suppressed_at: Timestamp,
    /// The event that it is because of.
    pub source: Option<String>,
    /// Who did it, if it was no event.
    pub actor: Option<String>,
    pub note: Option<String>,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Permanent, Self::Complaint, Self::Transient, Self::Manual];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "Permanent",
            Self::Complaint => "Complaint",
            Self::Transient => "Transient",
            Self::Manual => "Manual",
        }
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let same = |kind: &Self| kind.as_str().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(same).ok_or(KindError)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Reason {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a provider wrote, made to fit.
    pub fn clipped(text: &str) -> Self {
        let line: String =
            text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect();
        let line = line.trim();
        Self(if line.is_empty() { "General" } else { line }.to_owned())
    }
}

impl FromStr for Reason {
    type Err = ReasonError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let well_formed =
            (1..=500).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(ReasonError) }
    }
}

impl Suppression {
    /// Whether this one takes the place of another. What adds up from transient bounces can be withdrawn by a delivery, so
    /// anything else is stronger; of two that are as strong the earlier one counts, and of two at the same time always the
    /// same one. So it comes to the same in any order.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        match (self.kind == Kind::Transient, other.kind == Kind::Transient) {
            (true, false) => false,
            (false, true) => true,
            _ => self.order() < other.order(),
        }
    }

    fn order(&self) -> (Timestamp, u8, Option<&str>, &str) {
        (self.suppressed_at, self.kind as u8, self.source.as_deref(), &self.reason)
    }

    /// That what is stored is still this item, as far as it matters.
    pub(crate) fn unchanged(item: Option<&Item>) -> Expect {
        let Some(item) = item else { return Expect::Absent };
        let same = |name: &str| match item.get(name) {
            Some(value) => Condition::eq(name, value.clone()),
            None => Condition::not_exists(name),
        };
        Expect::That(same("suppressedAt").and(same("type")).and(same("source")).and(same("reason")))
    }

    /// What is there blocks, whatever it says: a type that we do not know counts as the strictest.
    pub(crate) fn read(email: EmailAddress, item: &Item) -> Self {
        let text = |name: &str| item.text(name).map(ToOwned::to_owned);
        Self {
            email,
            kind: item.text("type").and_then(|kind| kind.parse().ok()).unwrap_or(Kind::Permanent),
            reason: text("reason").unwrap_or_else(|| "General".to_owned()),
            suppressed_at: time(item, "suppressedAt").unwrap_or(Timestamp::UNIX_EPOCH),
            source: text("source"),
            actor: text("actor"),
            note: text("note"),
        }
    }

    pub(crate) fn to_item(&self) -> Item {
        let item = tables::MAIN.bare_item(&keys::suppression(&self.email));
        self.described(item)
    }

    /// Its line in the list of all.
    pub(crate) fn to_entry(&self) -> Item {
        let item = tables::MAIN.bare_item(&keys::suppression_entry(&self.email));
        self.described(item.with("email", self.email.as_str()))
    }

    fn described(&self, item: Item) -> Item {
        let mut item = item
            .with("type", self.kind.as_str())
            .with("reason", self.reason.as_str())
            .with("suppressedAt", keys::time(self.suppressed_at));
        for (name, value) in
            [("source", &self.source), ("actor", &self.actor), ("note", &self.note)]
        {
            if let Some(value) = value {
                item.set(name, value.as_str());
            }
        }
        item
    }
}
