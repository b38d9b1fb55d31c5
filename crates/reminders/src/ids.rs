//! What customers, invoices and drafts are called, and which reminders there are.
//!
//! The id of a draft is its sort key without `DRAFT#`: the second in which it was made and its customer, as in
//! `20250921_143022_cust_001`. So an id alone leads to the item, and it fits into a URL.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The longest id of a customer or an invoice.
const MAX_ID: usize = 64;
/// How long the second is in a key: `20250921_143022`.
const SECOND: usize = 15;

/// What the caller's books call a customer. It is no address: ids are in logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomerId(String);

/// What the caller's books call an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InvoiceId(String);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DraftId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("use 1 to {MAX_ID} letters, digits, `.`, `_` and `-`")]
    Customer,
    #[error("use 1 to {MAX_ID} letters, digits, `.`, `_`, `-`, `/` and `:`")]
    Invoice,
    #[error("the id of a draft looks like 20250921_143022_cust_001")]
    Draft,
}

/// The reminders that there are, from the mildest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    First,
    Second,
    Final,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use first, second or final")]
pub struct KindError;

impl CustomerId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InvoiceId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DraftId {
    /// The one of this second.
    pub(crate) fn new(customer: &CustomerId, at: Timestamp) -> Self {
        Self(format!("{}_{customer}", second(at)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn customer(&self) -> CustomerId {
        CustomerId(self.0[SECOND + 1..].to_owned())
    }
}

/// A second as the keys have it.
pub(crate) fn second(at: Timestamp) -> String {
    TimeZone::UTC.to_datetime(at).strftime("%Y%m%d_%H%M%S").to_string()
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Final];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Final => "final",
        }
    }

    /// What must have been sent before.
    pub fn before(self) -> Option<Self> {
        match self {
            Self::First => None,
            Self::Second => Some(Self::First),
            Self::Final => Some(Self::Second),
        }
    }
}

fn is_id(text: &str, besides: &[char]) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    (1..=MAX_ID).contains(&text.len()) && text.chars().all(|c| allowed(c) || besides.contains(&c))
}

impl FromStr for CustomerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if is_id(text, &[]) { Ok(Self(text.to_owned())) } else { Err(IdError::Customer) }
    }
}

impl FromStr for InvoiceId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if is_id(text, &['/', ':']) { Ok(Self(text.to_owned())) } else { Err(IdError::Invoice) }
    }
}

impl FromStr for DraftId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parts = text.split_at_checked(SECOND).and_then(|(at, rest)| {
            let customer: CustomerId = rest.strip_prefix('_')?.parse().ok()?;
            let at = DateTime::strptime("%Y%m%d_%H%M%S", at).ok()?.to_zoned(TimeZone::UTC).ok()?;
            Some(Self::new(&customer, at.timestamp()))
        });
        parts.filter(|id| id.0 == text).ok_or(IdError::Draft)
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(KindError)
    }
}

/// All of these are written as they are. A macro, because a trait cannot be implemented for a list of types.
macro_rules! written {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}
written!(CustomerId, InvoiceId, DraftId, Kind);

#[cfg(test)]
mod tests {
    use super::{CustomerId, DraftId, InvoiceId};

    #[test]
    fn the_id_of_a_draft_leads_to_its_customer() {
        let customer: CustomerId = "cust_001".parse().unwrap();
        let id = DraftId::new(&customer, "2025-09-21T14:30:22.7Z".parse().unwrap());
        assert_eq!(id.as_str(), "20250921_143022_cust_001");
        assert_eq!(id.customer(), customer);
        assert_eq!(id.as_str().parse(), Ok(id));
        for bad in [
            "",
            "cust_001",
            "20250921_143022_",
            "20250921_143022",
            "20250921_143022_a@b",
            "20251321_143022_a",
            "20250921x143022_a",
            "é0250921_143022_a",
            "20250921_143022_a/b",
        ] {
            assert!(bad.parse::<DraftId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_address_is_an_id() {
        for bad in ["", "ada@example.org", "a b", "a/b", "é", &"a".repeat(65)] {
            assert!(bad.parse::<CustomerId>().is_err(), "{bad}");
        }
        for good in ["INV-001", "2025/17", "de:17"] {
            assert!(good.parse::<InvoiceId>().is_ok(), "{good}");
        }
    }
}
