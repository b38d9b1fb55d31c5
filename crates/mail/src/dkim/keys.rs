//! The keys of an installation that sends for several domains.

use tidings_kernel::EmailAddress;

use super::Dkim;

/// Each key is for the mail of its domain, and of what is below it.
#[derive(Debug, Default)]
pub struct DkimKeys {
    keys: Vec<Dkim>,
    /// Whether the first one is for all other mail as well.
    has_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are two DKIM keys for {0}, and a domain signs with one")]
pub struct TwoKeys(pub String);

impl DkimKeys {
    /// `default` is also for mail of a domain that has no key: its signature says who has sent it, though not that its sender
    /// is who he says.
    pub fn new(default: Option<Dkim>, others: Vec<Dkim>) -> Result<Self, TwoKeys> {
        let has_default = default.is_some();
        let keys: Vec<Dkim> = default.into_iter().chain(others).collect();
        for (place, one) in keys.iter().enumerate() {
            if keys.iter().take(place).any(|before| before.domain == one.domain) {
                return Err(TwoKeys(one.domain.clone()));
            }
        }
        Ok(Self { keys, has_default })
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Dkim> {
        self.keys.iter()
    }

    /// What mail from this address is signed with: the key of its domain, else that of the nearest domain above it. Without
    /// one it is not signed.
    pub fn of(&self, from: &EmailAddress) -> Option<&Dkim> {
        let above = |key: &&Dkim| {
            let rest = from.domain().strip_suffix(&key.domain);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let nearest = self.keys.iter().filter(above).max_by_key(|key| key.domain.len());
        nearest.or_else(|| self.keys.first().filter(|_| self.has_default))
    }
}
