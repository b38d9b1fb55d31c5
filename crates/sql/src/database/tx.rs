//! A transaction, its parameters and its rows, the same on both engines.

use std::collections::BTreeSet;
use std::error::Error;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::postgres::Session;
use super::sqlite::statements;
use super::{DatabaseError, Dialect};

/// An open transaction. It is committed or rolled back by whoever opened it.
pub struct Tx<'c> {
    connection: Connection<'c>,
    /// PostgreSQL has met another transaction: whatever the closure answers, it must run again.
    pub(super) conflict: bool,
    /// The first statement that failed. PostgreSQL forgets the whole transaction then, so a unit that goes on
    /// all the same must not be committed, on either engine.
    pub(super) failed: Option<DatabaseError>,
    /// How many statements there may still be. What is not in a transaction has one.
    left: usize,
    /// Whom to wake once this is committed.
    pub(super) wakes: BTreeSet<&'static str>,
}

enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c mut Session),
}

/// A value for a `$1` of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Param<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// For `unnest` on PostgreSQL.
    Texts(&'a [Option<&'a str>]),
    /// For `unnest` on PostgreSQL.
    Ints(&'a [Option<i64>]),
}

/// One column of a row. A boolean is 0 or 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub(super) Vec<Cell>);

impl<'c> Tx<'c> {
    pub(crate) fn on_sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self::on(Connection::Sqlite(connection))
    }

    pub(crate) fn on_postgres(session: &'c mut Session) -> Self {
        Self::on(Connection::Postgres(session))
    }

    /// A session without a transaction: more than one statement would not see the same.
    pub(super) fn of_one_statement(session: &'c mut Session) -> Self {
        Self { left: 1, ..Self::on_postgres(session) }
    }

    fn on(connection: Connection<'c>) -> Self {
        Self { connection, conflict: false, failed: None, left: usize::MAX, wakes: BTreeSet::new() }
    }

    /// Once this is committed, whoever waits for `name` is woken, on every node.
    pub(crate) fn wake(&mut self, name: &'static str) {
        self.wakes.insert(name);
    }

    pub fn dialect(&self) -> Dialect {
        match self.connection {
            Connection::Sqlite(_) => Dialect::Sqlite,
            Connection::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a statement and tells how many rows it touched. If it fails, the unit can only end.
    pub fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DatabaseError> {
        self.count_statement()?;
        let done = match &mut self.connection {
            Connection::Sqlite(connection) => {
                statements::execute(connection, sql, params).map_err(Fault::from)
            }
            Connection::Postgres(session) => session.execute(sql, params).map_err(Fault::from),
        };
        self.noting_failure(done)
    }

    /// Runs a statement once for each set of values, and tells how many rows each touched.
    pub(crate) fn execute_each<'a>(
        &mut self,
        sql: &str,
        sets: impl Iterator<Item = Vec<Param<'a>>>,
    ) -> Result<Vec<u64>, DatabaseError> {
        self.count_statement()?;
        let done = match &mut self.connection {
            Connection::Sqlite(connection) => {
                statements::execute_each(connection, sql, sets).map_err(Fault::from)
            }
            Connection::Postgres(session) => sets
                .map(|params| session.execute(sql, &params))
                .collect::<Result<_, _>>()
                .map_err(Fault::from),
        };
        self.noting_failure(done)
    }

    /// Runs a statement and returns its rows. The statement bounds their number.
    pub fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DatabaseError> {
        self.count_statement()?;
        let rows = match &mut self.connection {
            Connection::Sqlite(connection) => {
                statements::query(connection, sql, params).map_err(Fault::from)
            }
            Connection::Postgres(session) => session.query(sql, params).map_err(Fault::from),
        };
        self.noting_failure(rows)
    }

    /// Runs a statement of SQLite once for each set of values, and tells the text that each finds first.
    pub(crate) fn first_text_each<'a, const N: usize>(
        &mut self,
        connection: &rusqlite::Connection,
        sql: &str,
        sets: impl Iterator<Item = [Param<'a>; N]>,
    ) -> Result<Vec<Option<String>>, DatabaseError> {
        let found = statements::first_text_each(connection, sql, sets);
        self.noting_failure(found.map_err(Fault::from))
    }

    /// The connection of SQLite, for what that engine alone does well.
    pub(crate) fn sqlite(&self) -> Option<&'c rusqlite::Connection> {
        match self.connection {
            Connection::Sqlite(connection) => Some(connection),
            Connection::Postgres(_) => None,
        }
    }

    /// Runs several statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), DatabaseError> {
        let done = match &mut self.connection {
            Connection::Sqlite(connection) => connection.execute_batch(sql).map_err(Fault::from),
            Connection::Postgres(session) => session.batch(sql).map_err(Fault::from),
        };
        self.noting_failure(done)
    }

    fn count_statement(&mut self) -> Result<(), DatabaseError> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| {
            let why = std::io::Error::other("a glance has one statement; use `read` for more");
            DatabaseError::Statement(Arc::new(why))
        })?;
        Ok(())
    }

    pub(super) fn noting_failure<T>(
        &mut self,
        result: Result<T, Fault>,
    ) -> Result<T, DatabaseError> {
        result.map_err(|fault| {
            self.conflict |= fault.conflict;
            self.failed.get_or_insert_with(|| fault.error.clone());
            fault.error
        })
    }
}

/// Why a statement failed, and whether running its transaction again may help.
pub(super) struct Fault {
    error: DatabaseError,
    conflict: bool,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self { error: error.into(), conflict: false }
    }
}

impl From<postgres::Error> for Fault {
    fn from(error: postgres::Error) -> Self {
        if is_conflict(&error) {
            return Self { error: DatabaseError::Conflict, conflict: true };
        }
        Self { error: error.into(), conflict: false }
    }
}

/// A serialization failure, a deadlock, or a lock that was not had in time: the same transaction may succeed if
/// it runs again.
pub(super) fn is_conflict(error: &postgres::Error) -> bool {
    error.code().is_some_and(|state| matches!(state.code(), "40001" | "40P01" | "55P03"))
}

impl Row {
    pub(super) fn of_postgres(row: &postgres::Row) -> Result<Self, postgres::Error> {
        (0..row.len()).map(|column| row.try_get(column)).collect::<Result<_, _>>().map(Self)
    }

    pub fn cell(&self, column: usize) -> &Cell {
        self.0.get(column).unwrap_or(&Cell::Null)
    }

    pub fn int(&self, column: usize) -> Result<i64, DatabaseError> {
        match self.cell(column) {
            Cell::Int(value) => Ok(*value),
            other => Err(other.unexpected(column, "an integer")),
        }
    }

    pub fn text(&self, column: usize) -> Result<&str, DatabaseError> {
        match self.cell(column) {
            Cell::Text(value) => Ok(value),
            other => Err(other.unexpected(column, "text")),
        }
    }

    pub fn optional_text(&self, column: usize) -> Result<Option<&str>, DatabaseError> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, DatabaseError> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            _ => self.int(column).map(Some),
        }
    }

    /// Times are milliseconds since 1970.
    pub fn time(&self, column: usize) -> Result<Timestamp, DatabaseError> {
        Timestamp::from_millisecond(self.int(column)?)
            .map_err(|_| DatabaseError::damaged(column, "a time"))
    }

    pub fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, DatabaseError> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            _ => self.time(column).map(Some),
        }
    }

    /// A text that means something: `expected` says what.
    pub fn parsed<T: FromStr>(
        &self,
        column: usize,
        expected: &'static str,
    ) -> Result<T, DatabaseError> {
        self.text(column)?.parse().map_err(|_| DatabaseError::damaged(column, expected))
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// As it stands in every column of a time: in milliseconds.
impl From<Timestamp> for Param<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Int(at.as_millisecond())
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Cell {
    fn unexpected(&self, column: usize, expected: &'static str) -> DatabaseError {
        let found = match self {
            Cell::Null => "nothing",
            Cell::Int(_) => "an integer",
            Cell::Real(_) => "a real number",
            Cell::Text(_) => "text",
            Cell::Bytes(_) => "bytes",
        };
        DatabaseError::Column { column, found, expected }
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Int(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Text(bytes) => Cell::Text(text(bytes)),
            ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        }
    }
}

/// Nearly always it is right as it is, which is faster to find out than to look for what is not.
fn text(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Param::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Param::Int(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Param::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Param::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Param::Texts(_) | Param::Ints(_) => {
                let reason = "SQLite has no arrays: run the statement once for each value";
                return Err(rusqlite::Error::ToSqlConversionFailure(reason.into()));
            }
        })
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Param::Null => Ok(IsNull::Yes),
            Param::Int(value) if *kind == Type::INT4 => i32::try_from(*value)?.to_sql(kind, out),
            Param::Int(value) if *kind == Type::BOOL => (*value != 0).to_sql(kind, out),
            Param::Int(value) => value.to_sql(kind, out),
            // The wire form of json is its text.
            Param::Text(text) => text.to_sql(&Type::TEXT, out),
            Param::Bytes(bytes) => bytes.to_sql(kind, out),
            Param::Texts(texts) => texts.to_sql(kind, out),
            Param::Ints(ints) => ints.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [
            Type::BOOL,
            Type::INT4,
            Type::INT8,
            Type::TEXT,
            Type::VARCHAR,
            Type::JSON,
            Type::BYTEA,
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
        ]
        .contains(kind)
    }

    to_sql_checked!();
}

impl<'a> postgres::types::FromSql<'a> for Cell {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Cell::Int(i64::from(bool::from_sql(kind, raw)?)),
            Type::INT2 => Cell::Int(i64::from(i16::from_sql(kind, raw)?)),
            Type::INT4 => Cell::Int(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT8 => Cell::Int(i64::from_sql(kind, raw)?),
            Type::FLOAT8 => Cell::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => Cell::Bytes(raw.to_vec()),
            _ => Cell::Text(String::from_utf8(raw.to_vec())?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Cell::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT8,
            Type::BYTEA,
            Type::TEXT,
            Type::VARCHAR,
            Type::NAME,
            Type::JSON,
        ]
        .contains(kind)
    }
}
