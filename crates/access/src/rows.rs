//! Ids of rows, and times as the columns keep them.

use jiff::Timestamp;

/// Ids of rows, each a type of its own. A macro, because ids that are one type would be mixed up one day.
#[macro_export]
macro_rules! row_ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(i64);

        impl $name {
            pub fn get(self) -> i64 {
                self.0
            }
        }

        /// It gives no right to anything: rows are looked for inside a workspace.
        impl From<i64> for $name {
            fn from(id: i64) -> Self {
                Self(id)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

row_ids! {
    ClientId
    KeyId
}

/// It gives the right to everything inside, so it comes only out of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceId(pub(crate) i64);

impl WorkspaceId {
    pub fn get(self) -> i64 {
        self.0
    }
}

/// A time as it comes back from its column.
pub fn in_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).expect("it is between two times that exist")
}
