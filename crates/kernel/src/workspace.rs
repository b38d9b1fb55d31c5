//! The name of a workspace: the owner of everything, and the namespace of its items.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that is safe as a key column in SQL and as a part of a table name in DynamoDB: 1 to 40 of
/// `a-z`, `0-9` and `-`, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Workspace(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a workspace name: use 1 to 40 lower-case letters, digits and hyphens, not beginning with a hyphen"
)]
pub struct WorkspaceError(String);

impl Workspace {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Workspace {
    type Err = WorkspaceError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let well_formed =
            (1..=40).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('-');
        if well_formed { Ok(Self(name.to_owned())) } else { Err(WorkspaceError(name.to_owned())) }
    }
}

impl TryFrom<String> for Workspace {
    type Error = WorkspaceError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<Workspace> for String {
    fn from(workspace: Workspace) -> Self {
        workspace.0
    }
}

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Workspace;

    #[test]
    fn a_name_must_fit_a_table_name() {
        for good in ["a", "acme", "acme-2", "0", &"a".repeat(40)] {
            assert!(good.parse::<Workspace>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "Acme", "a_b", "a.b", "a#b", "é", &"a".repeat(41)] {
            assert!(bad.parse::<Workspace>().is_err(), "{bad}");
        }
    }
}
