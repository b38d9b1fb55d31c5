//! The schema, version by version, run at the start under a lock.
//!
//! One text serves both engines; only the names of a few types differ. A migration that was released is never
//! edited: the next change is the next file.

use crate::database::{DatabaseError, Dialect, Param, Session, Tx};

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 17] = [
    Migration { version: 1, name: "items", sql: include_str!("0001_items.sql") },
    Migration { version: 2, name: "changes", sql: include_str!("0002_changes.sql") },
    Migration { version: 3, name: "relations", sql: include_str!("0003_relations.sql") },
    Migration { version: 4, name: "queues", sql: include_str!("0004_queues.sql") },
    Migration { version: 5, name: "mail", sql: include_str!("0005_mail.sql") },
    Migration { version: 6, name: "campaigns", sql: include_str!("0006_campaigns.sql") },
    Migration { version: 7, name: "sequences", sql: include_str!("0007_sequences.sql") },
    Migration { version: 8, name: "audit", sql: include_str!("0008_audit.sql") },
    Migration { version: 9, name: "reminders", sql: include_str!("0009_reminders.sql") },
    Migration { version: 10, name: "leads", sql: include_str!("0010_leads.sql") },
    Migration { version: 11, name: "erasures", sql: include_str!("0011_erasures.sql") },
    Migration { version: 12, name: "segments", sql: include_str!("0012_segments.sql") },
    Migration { version: 13, name: "signals", sql: include_str!("0013_signals.sql") },
    Migration { version: 14, name: "sequence_steps", sql: include_str!("0014_sequence_steps.sql") },
    Migration { version: 15, name: "pace", sql: include_str!("0015_pace.sql") },
    Migration { version: 16, name: "copies", sql: include_str!("0016_copies.sql") },
    Migration { version: 17, name: "recipients", sql: include_str!("0017_recipients.sql") },
];

const LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (CAST(CURRENT_TIMESTAMP AS TEXT))
)";

/// The database itself refuses to alter what is in the audit log.
const APPEND_ONLY_SQLITE: &str = "
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
    BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
    BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;";
const APPEND_ONLY_POSTGRES: &str = "
CREATE FUNCTION audit_log_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'the audit log can only be added to'; END $$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuses();";

/// Any number: all nodes must use the same one, and nothing else in the database may.
const POSTGRES_LOCK: &str =
    "SET lock_timeout = 0; SET statement_timeout = 0; SELECT pg_advisory_lock(5012087)";
const POSTGRES_UNLOCK: &str = "SELECT pg_advisory_unlock(5012087)";

pub(crate) fn run_sqlite(connection: &rusqlite::Connection) -> Result<(), DatabaseError> {
    apply_on_sqlite(connection, &MIGRATIONS)
}

fn apply_on_sqlite(
    connection: &rusqlite::Connection,
    migrations: &[Migration],
) -> Result<(), DatabaseError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match apply(&mut Tx::on_sqlite(connection), migrations) {
        Ok(()) => Ok(connection.execute_batch("COMMIT")?),
        Err(error) => {
            connection.execute_batch("ROLLBACK")?;
            Err(error)
        }
    }
}

pub(crate) fn run_postgres(session: &mut Session) -> Result<(), DatabaseError> {
    apply_on_postgres(session, &MIGRATIONS)
}

fn apply_on_postgres(session: &mut Session, migrations: &[Migration]) -> Result<(), DatabaseError> {
    session.batch(POSTGRES_LOCK)?;
    session.begin("BEGIN READ WRITE");
    let applied = apply(&mut Tx::on_postgres(session), migrations);
    session.end(if applied.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    session.batch(POSTGRES_UNLOCK)?;
    applied
}

/// All that is missing, in one transaction: a schema is never left between two versions.
fn apply(tx: &mut Tx<'_>, migrations: &[Migration]) -> Result<(), DatabaseError> {
    tx.batch(LEDGER)?;
    let found = version(tx)?;
    let known = migrations.last().map_or(0, |migration| migration.version);
    if found > known {
        return Err(DatabaseError::Newer { found, known });
    }
    for migration in migrations.iter().filter(|migration| migration.version > found) {
        tx.batch(&in_dialect(tx.dialect(), migration.sql))?;
        let params = [Param::Int(migration.version), Param::Text(migration.name)];
        tx.execute("INSERT INTO schema_migrations (version, name) VALUES ($1, $2)", &params)?;
        tracing::info!(version = migration.version, name = migration.name, "Schema migrated");
    }
    Ok(())
}

/// The version the schema has.
pub(crate) fn version(tx: &mut Tx<'_>) -> Result<i64, DatabaseError> {
    let sql = "SELECT coalesce(max(version), 0) FROM schema_migrations";
    tx.query(sql, &[])?.first().ok_or(DatabaseError::NoRow)?.int(0)
}

fn in_dialect(dialect: Dialect, sql: &str) -> String {
    let types: [(&str, &str); 5] = match dialect {
        Dialect::Sqlite => [
            ("{key}", "TEXT"),
            ("{json}", "TEXT"),
            ("{blob}", "BLOB"),
            // Numbers must not come back after the newest rows are deleted.
            ("{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT"),
            ("{append_only audit_log}", APPEND_ONLY_SQLITE),
        ],
        Dialect::Postgres => [
            // Keys compare as bytes, as in DynamoDB, whatever the language of the database.
            ("{key}", "TEXT COLLATE \"C\""),
            ("{json}", "JSON"),
            ("{blob}", "BYTEA"),
            ("{serial}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
            ("{append_only audit_log}", APPEND_ONLY_POSTGRES),
        ],
    };
    types.iter().fold(sql.to_owned(), |sql, (token, name)| sql.replace(token, name))
}

#[cfg(test)]
mod tests;
