//! What a key may do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Send messages and start campaigns.
    Send,
    /// Look at everything but secrets.
    Read,
    /// Change clients, keys and settings.
    Manage,
    /// The inbox of one user, as that user's application.
    InboxUser,
    /// Everybody's inbox.
    InboxAdmin,
    /// Report what people did.
    Events,
    /// Draft reminders and edit drafts. It approves nothing: a program that writes is not the person who decides.
    RemindersDraft,
    /// Approve and reject drafts of reminders, too.
    RemindersApprove,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no scope {0:?}: use send, read, manage, inbox:user, inbox:admin, events, reminders:draft or reminders:approve"
)]
pub struct ScopeError(String);

/// So much of a word that is no scope is told back: it can be as long as a request.
const ECHOED: usize = 40;

impl Scope {
    pub const ALL: [Self; 8] = [
        Self::Send,
        Self::Read,
        Self::Manage,
        Self::InboxUser,
        Self::InboxAdmin,
        Self::Events,
        Self::RemindersDraft,
        Self::RemindersApprove,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Manage => "manage",
            Self::InboxUser => "inbox:user",
            Self::InboxAdmin => "inbox:admin",
            Self::Events => "events",
            Self::RemindersDraft => "reminders:draft",
            Self::RemindersApprove => "reminders:approve",
        }
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| ScopeError(text.chars().take(ECHOED).collect()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of them, always in the same order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Whoever manages a workspace can decide about its reminders, too.
    pub fn can_approve_reminders(&self) -> bool {
        self.has(Scope::RemindersApprove) || self.has(Scope::Manage)
    }

    /// Whoever decides about reminders can write them, too. Nothing else follows from drafting.
    pub fn can_draft_reminders(&self) -> bool {
        self.has(Scope::RemindersDraft) || self.can_approve_reminders()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }

    /// Those that the other set does not have.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.iter().filter(|scope| !other.has(*scope)).collect()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::Value::from_iter(self.iter().map(Scope::as_str)).to_string()
    }

    /// A word that this program does not know gives no right: a newer node may have written it.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let words: Vec<String> = serde_json::from_str(text).ok()?;
        Some(words.iter().filter_map(|word| word.parse().ok()).collect())
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(Scope::as_str).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Scopes};

    #[test]
    fn scopes_are_stored_as_words_and_read_back() {
        let some: Scopes = [Scope::InboxUser, Scope::Send].into_iter().collect();
        assert_eq!(some.to_json(), r#"["send","inbox:user"]"#);
        assert_eq!(Scopes::from_json(&some.to_json()), Some(some));
        assert_eq!(Scopes::from_json(&Scopes::all().to_json()), Some(Scopes::all()));
        assert_eq!(Scopes::from_json(r#"["root"]"#), Some(Scopes::default()));
        assert_eq!(Scopes::from_json("send"), None);
    }

    #[test]
    fn who_drafts_reminders_does_not_approve_them() {
        let check = |scope: Scope, drafts: bool, approves: bool| {
            let scopes = Scopes::from_iter([scope]);
            let found = (scopes.can_draft_reminders(), scopes.can_approve_reminders());
            assert_eq!(found, (drafts, approves), "{scope}");
        };
        check(Scope::RemindersDraft, true, false);
        check(Scope::RemindersApprove, true, true);
        check(Scope::Manage, true, true);
        check(Scope::Send, false, false);
        check(Scope::Read, false, false);
    }

    #[test]
    fn a_long_word_is_not_told_back_whole() {
        let error = "é".repeat(1_000_000).parse::<Scope>().unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
        assert!(error.to_string().contains("ééé"), "{error}");
    }

    #[test]
    fn what_goes_beyond_is_named() {
        let (few, more) = (Scopes::from_iter([Scope::Read]), Scopes::all());
        assert!(few.beyond(&more).is_empty());
        assert_eq!(
            more.beyond(&few).to_string(),
            "send, manage, inbox:user, inbox:admin, events, reminders:draft, reminders:approve"
        );
    }
}
