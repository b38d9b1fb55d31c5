//! One SQL engine over SQLite and PostgreSQL.
//!
//! Here: `Database` (a unit of work is a closure over a transaction), its migrations, backup and restore, and
//! the items of the kernel's model stored as plain JSON rows. Not here: what is stored (the features), and
//! DynamoDB (`aws`).

mod backup;
mod database;
mod items;
mod migrations;
mod queues;

pub use backup::{BackupError, BackupProgress, RestoreError, backup, restore};
pub use database::{
    Among, Cell, Database, DatabaseError, Dialect, Heard, Param, PostgresOptions, Row,
    SqliteOptions, Tls, Tx,
};
pub use items::{SqlItems, Streams};
pub use queues::{EnqueueError, SqlQueues, forget_dead_letters};
