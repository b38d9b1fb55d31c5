//! What can go wrong with a database.

use std::error::Error;
use std::sync::Arc;

/// Cloned when one failure concerns every unit of a group.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DatabaseError {
    #[error("the database does not answer")]
    Unavailable(#[source] Arc<dyn Error + Send + Sync>),
    /// The connection or the disk failed during the commit.
    #[error("the database did not say whether it made the change")]
    Uncertain(#[source] Arc<dyn Error + Send + Sync>),
    #[error("a statement failed")]
    Statement(#[source] Arc<dyn Error + Send + Sync>),
    #[error("a constraint of the schema does not hold")]
    Constraint(#[source] Arc<dyn Error + Send + Sync>),
    #[error("the database file is damaged")]
    Damaged(#[source] Arc<dyn Error + Send + Sync>),
    #[error("other writers kept changing the same rows")]
    Conflict,
    #[error("another process has kept the database file locked")]
    Locked,
    #[error("the unit of work panicked")]
    Panicked,
    #[error("the database is closed")]
    Closed,
    #[error("a query found no row where there must be one")]
    NoRow,
    #[error("column {column} holds {found} where {expected} must be")]
    Column { column: usize, found: &'static str, expected: &'static str },
    #[error("the file is not a database of Tidings")]
    Foreign,
    #[error(
        "the schema has version {found}, and this program knows only {known}: use the newer program"
    )]
    Newer { found: i64, known: i64 },
    #[error("the database settings are wrong: {0}")]
    Settings(String),
    #[error("the file {path} cannot be used")]
    File { path: String, source: Arc<std::io::Error> },
}

impl DatabaseError {
    /// Somebody has written there who does not know what belongs there.
    pub fn damaged(column: usize, expected: &'static str) -> Self {
        Self::Column { column, found: "something else", expected }
    }

    /// Whether nothing was done and the same thing may work a moment later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Conflict | Self::Locked | Self::Closed)
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let code = error.sqlite_error_code();
        let source = Arc::new(error);
        match code {
            Some(ErrorCode::ConstraintViolation) => Self::Constraint(source),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::NotADatabase) => Self::Foreign,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged(source),
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied,
            ) => Self::Unavailable(source),
            _ => Self::Statement(source),
        }
    }
}

impl From<postgres::Error> for DatabaseError {
    fn from(error: postgres::Error) -> Self {
        let class = error.code().map(|state| state.code().get(..2).unwrap_or_default().to_owned());
        let lost =
            error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        let source = Arc::new(error);
        match class.as_deref() {
            Some("23") => Self::Constraint(source),
            // Connection exceptions, insufficient resources, operator intervention, system errors.
            Some("08" | "53" | "57" | "58") => Self::Unavailable(source),
            None if lost => Self::Unavailable(source),
            // Without a code it is our own mistake: a parameter or a column of another type.
            Some(_) | None => Self::Statement(source),
        }
    }
}
