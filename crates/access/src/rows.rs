//! How ids, times and names lie in the columns.

use std::str::FromStr;

use jiff::Timestamp;
use tidings_sql::{Cell, DatabaseError, Row};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) i64);

        impl $name {
            pub fn get(self) -> i64 {
                self.0
            }
        }
    )*};
}

// A macro, because three ids that are one type would be mixed up one day.
ids! {
    WorkspaceId
    ClientId
    KeyId
}

/// For a number out of a cursor. It gives no right to anything: a key is looked for inside a workspace. An id of a
/// workspace would, so that one comes only out of the database.
impl From<i64> for KeyId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

/// A time as it comes back from its column.
pub(crate) fn in_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).expect("it is between two times that exist")
}

pub(crate) fn maybe_time(row: &Row, column: usize) -> Result<Option<Timestamp>, DatabaseError> {
    match row.cell(column) {
        Cell::Null => Ok(None),
        _ => time(row, column).map(Some),
    }
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Timestamp, DatabaseError> {
    Timestamp::from_millisecond(row.int(column)?).map_err(|_| damaged(column, "a time"))
}

pub(crate) fn parsed<T: FromStr>(
    row: &Row,
    column: usize,
    expected: &'static str,
) -> Result<T, DatabaseError> {
    row.text(column)?.parse().map_err(|_| damaged(column, expected))
}

/// Somebody else than this crate has written there.
pub(crate) fn damaged(column: usize, expected: &'static str) -> DatabaseError {
    DatabaseError::Column { column, found: "something else", expected }
}
