//! Who gives a key, and that nobody gives more than he has.

use jiff::Timestamp;

use super::{Create, CreateError, Rate};
use crate::scopes::Scopes;

/// Whoever asks for a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granter {
    /// Who has the machine has everything.
    Operator,
    /// A caller, with what his own key allows.
    Key { scopes: Scopes, rate: Rate, expires_at: Option<Timestamp> },
}

/// Something that a new key was to have more of than the key that gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("your own key may make {0} requests a second, and cannot give more")]
    PerSecond(u32),
    #[error("your own key may make {0} requests at once, and cannot give more")]
    Burst(u32),
    #[error("your own key expires at {0}, and cannot give one that works longer")]
    Expiry(Timestamp),
}

/// Refuses a key that could do more than the one that gives it, or could do it faster or longer.
pub(super) fn check(cmd: &Create) -> Result<(), CreateError> {
    let Granter::Key { scopes, rate, expires_at } = &cmd.granted_by else { return Ok(()) };
    let beyond = cmd.scopes.beyond(scopes);
    if !beyond.is_empty() {
        return Err(CreateError::Beyond(beyond));
    }
    let mut excess = Vec::new();
    if cmd.rate.per_second() > rate.per_second() {
        excess.push(Excess::PerSecond(rate.per_second()));
    }
    if cmd.rate.burst() > rate.burst() {
        excess.push(Excess::Burst(rate.burst()));
    }
    if let Some(end) = *expires_at
        && cmd.expires_at.is_none_or(|at| at > end)
    {
        excess.push(Excess::Expiry(end));
    }
    if excess.is_empty() { Ok(()) } else { Err(CreateError::Excessive(excess)) }
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan};

    use super::{Create, CreateError, Granter, Rate, check};
    use crate::scopes::{Scope, Scopes};

    fn end() -> Timestamp {
        "2030-01-31T12:00:00Z".parse().unwrap()
    }

    /// What is said to a key with 5 requests a second, 10 at once, until `end`.
    fn said(rate: (i64, i64), expires_at: Option<Timestamp>) -> String {
        let scopes = Scopes::from_iter([Scope::Manage]);
        let own = Rate::new(5, 10).unwrap();
        let create = Create {
            client: "shop".parse().unwrap(),
            name: "live".parse().unwrap(),
            scopes: scopes.clone(),
            rate: Rate::new(rate.0, rate.1).unwrap(),
            expires_at,
            granted_by: Granter::Key { scopes, rate: own, expires_at: Some(end()) },
        };
        let operators = Create { granted_by: Granter::Operator, ..create.clone() };
        check(&operators).expect("an operator is not bound");
        match check(&create) {
            Ok(()) => "given".to_owned(),
            Err(CreateError::Excessive(excess)) => {
                excess.iter().map(|one| format!("{one}\n")).collect()
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    #[test]
    fn a_key_gives_neither_faster_nor_longer_ones_than_itself() {
        let second = "your own key may make 5 requests a second, and cannot give more\n";
        let burst = "your own key may make 10 requests at once, and cannot give more\n";
        let expiry =
            "your own key expires at 2030-01-31T12:00:00Z, and cannot give one that works longer\n";
        let (at_end, later) = (Some(end()), Some(end() + 1.millisecond()));
        for (rate, expires_at, expected) in [
            ((5, 10), at_end, "given"),
            ((1, 1), Some(end() - 1.hour()), "given"),
            ((6, 10), at_end, second),
            ((5, 11), at_end, burst),
            ((5, 10), later, expiry),
            ((5, 10), None, expiry),
            ((6, 11), None, &[second, burst, expiry].concat()),
        ] {
            assert_eq!(said(rate, expires_at), expected, "{rate:?} {expires_at:?}");
        }
    }
}
