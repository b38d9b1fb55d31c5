//! The schema itself refuses what must never be: duplicates, strangers, references into another workspace, words
//! that are no status, and numbers that make no sense. Whatever a feature forgets to check, the database does.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

#[expect(dead_code, reason = "these tests need no file and no second connection")]
mod engines;
mod relation_rows;

use engines::Engine;
use relation_rows::{TABLES, Table};
use tidings_sql::{Database, DatabaseError};

/// Workspaces `a` and `b` with the same things in each. Names in angle brackets stand for ids: `<lead a>` is the
/// lead of workspace `a`, since PostgreSQL gives the numbers.
const GROUND: [&str; 17] = [
    "INSERT INTO workspaces (name, created_at) VALUES ('{w}', 1)",
    "INSERT INTO clients (workspace_id, slug, name, created_at) VALUES (<workspace {w}>, 'shop', 'Shop', 1)",
    "INSERT INTO client_api_keys (workspace_id, client_id, public_id, secret_hash, name, scopes,
         requests_per_second, burst, created_at)
     VALUES (<workspace {w}>, <client {w}>, 'key-of-{w}-012', '{hash}', 'live', '[]', 1, 1, 1)",
    "INSERT INTO leads (workspace_id, display_name, created_at, updated_at) VALUES (<workspace {w}>, '{w}', 1, 1)",
    "INSERT INTO channel_identities (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
     VALUES (<workspace {w}>, <lead {w}>, 'email', 'ada@example.org', 'Ada@Example.org', 1, 1)",
    "INSERT INTO audiences (workspace_id, slug, name, created_at, updated_at)
     VALUES (<workspace {w}>, 'news', 'News', 1, 1)",
    "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, created_at, updated_at)
     VALUES (<workspace {w}>, <lead {w}>, <audience {w}>, 'subscribed', 1, 1)",
    "INSERT INTO topics (workspace_id, slug, name, created_at, updated_at)
     VALUES (<workspace {w}>, 'offers', 'Offers', 1, 1)",
    "INSERT INTO campaigns (workspace_id, client_id, audience_id, external_key, name, created_at, updated_at)
     VALUES (<workspace {w}>, <client {w}>, <audience {w}>, 'spring', 'Spring', 1, 1)",
    "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, created_at, updated_at)
     VALUES (<workspace {w}>, <campaign {w}>, <lead {w}>, 'ada@example.org', 1, 1)",
    "INSERT INTO transactional_messages (workspace_id, client_id, lead_id, idempotency_key, email, created_at,
         updated_at)
     VALUES (<workspace {w}>, <client {w}>, <lead {w}>, 'once', 'ada@example.org', 1, 1)",
    "INSERT INTO confirmations (workspace_id, subscription_id, expires_at, created_at)
     VALUES (<workspace {w}>, <subscription {w}>, 1, 1)",
    "INSERT INTO webhook_endpoints (workspace_id, url, description, secret, created_at, updated_at)
     VALUES (<workspace {w}>, 'https://example.org/', '{w}', 'whsec_', 1, 1)",
    "INSERT INTO webhook_deliveries (workspace_id, endpoint_id, event_id, event_type, body, next_attempt_at, created_at)
     VALUES (<workspace {w}>, <webhook {w}>, 'evt_1', 'email.sent', '{}', 1, 1)",
    "INSERT INTO sequences (workspace_id, slug, client_id, active_version, created_at, updated_at)
     VALUES (<workspace {w}>, 'welcome', <client {w}>, 1, 1, 1)",
    "INSERT INTO sequence_versions (workspace_id, sequence_id, version, definition, hash, created_by, created_at)
     VALUES (<workspace {w}>, <sequence {w}>, 1, '{}', '{hash}', 'cli', 1)",
    "INSERT INTO sequence_listens (workspace_id, event_name, sequence_id, role)
     VALUES (<workspace {w}>, 'user.deleted', <sequence {w}>, 'exit')",
];

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn sqlite_refuses_what_must_never_be() {
    refuses_what_must_never_be(&Engine::memory().await).await;
}

#[tokio::test]
async fn postgres_refuses_what_must_never_be() {
    refuses_what_must_never_be(&Engine::postgres().await).await;
}

async fn refuses_what_must_never_be(engine: &Engine) {
    let database = engine.database();
    lay_ground(database).await;
    for table in TABLES {
        for change in table.refused {
            let sql = insert(table, change);
            let refused = run(database, &sql).await;
            assert!(matches!(refused, Err(DatabaseError::Constraint(_))), "{sql}: {refused:?}");
        }
        // Only now: what was refused must have been refused for the change, and for nothing else.
        let sql = insert(table, &[]);
        run(database, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    for (what, sql) in [
        ("a client with keys", "DELETE FROM clients WHERE slug = 'shop'"),
        ("a lead with a history", "DELETE FROM leads WHERE display_name = 'a'"),
        ("a workspace that owns something", "DELETE FROM workspaces WHERE name = 'b'"),
        ("a lead merged into itself", "UPDATE leads SET merged_into_id = id, merged_at = 1"),
        ("a row moved to another workspace", "UPDATE leads SET workspace_id = <workspace b>"),
    ] {
        let refused = run(database, sql).await;
        assert!(matches!(refused, Err(DatabaseError::Constraint(_))), "{what}: {refused:?}");
    }
}

#[tokio::test]
async fn a_name_of_a_revoked_key_can_be_used_again() {
    for engine in [Engine::memory().await, Engine::postgres().await] {
        let database = engine.database();
        lay_ground(database).await;
        let keys = TABLES.iter().find(|table| table.name == "client_api_keys").unwrap();
        run(database, "UPDATE client_api_keys SET revoked_at = 2").await.unwrap();
        run(database, &insert(keys, &[("name", "'live'")])).await.unwrap();
    }
}

#[tokio::test]
async fn only_what_is_still_to_be_sent_needs_an_address() {
    for engine in [Engine::memory().await, Engine::postgres().await] {
        let database = engine.database();
        lay_ground(database).await;
        for table in ["campaign_recipients", "transactional_messages"] {
            let set = async |change: &str| {
                run(database, &format!("UPDATE {table} SET {change}")).await.map(drop)
            };
            set("email = NULL, status = 'skipped', skip_reason = 'no address'").await.unwrap();
            let refused = set("status = 'queued'").await;
            assert!(matches!(refused, Err(DatabaseError::Constraint(_))), "{table}: {refused:?}");
            set("status = 'queued', email = 'ada@example.org'").await.unwrap();
            let refused = set("email = NULL").await;
            assert!(matches!(refused, Err(DatabaseError::Constraint(_))), "{table}: {refused:?}");
            set("status = 'sent', sent_at = 1").await.unwrap();
            set("email = NULL").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_campaign_needs_no_audience_and_a_message_can_be_put_off_and_cancelled() {
    for engine in [Engine::memory().await, Engine::postgres().await] {
        let database = engine.database();
        lay_ground(database).await;
        run(database, "UPDATE campaigns SET audience_id = NULL").await.unwrap();
        run(database, "UPDATE transactional_messages SET scheduled_at = 5").await.unwrap();
        run(database, "UPDATE transactional_messages SET status = 'cancelled'").await.unwrap();
    }
}

async fn lay_ground(database: &Database) {
    for workspace in ["a", "b"] {
        for sql in GROUND {
            run(database, &sql.replace("{w}", workspace)).await.unwrap();
        }
    }
    let second = "INSERT INTO leads (workspace_id, display_name, created_at, updated_at)
                  VALUES (<workspace a>, 'second', 1, 1)";
    run(database, second).await.unwrap();
    for sql in [
        "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, created_at, updated_at)
         VALUES (<workspace a>, <second lead a>, <audience a>, 'pending', 1, 1)",
        "INSERT INTO workspace_settings (workspace_id, updated_at) VALUES (<workspace b>, 1)",
    ] {
        run(database, sql).await.unwrap();
    }
}

/// The good row with some of its columns changed.
fn insert(table: &Table, change: &[(&str, &str)]) -> String {
    let mut row = table.row.to_vec();
    for (column, value) in change {
        match row.iter_mut().find(|(name, _)| name == column) {
            Some(found) => found.1 = value,
            None => row.push((column, value)),
        }
    }
    let (columns, values): (Vec<&str>, Vec<&str>) = row.into_iter().unzip();
    format!("INSERT INTO {} ({}) VALUES ({})", table.name, columns.join(", "), values.join(", "))
}

async fn run(database: &Database, sql: &str) -> Result<u64, DatabaseError> {
    let sql = with_ids(sql);
    database.write(move |tx| tx.execute(&sql, &[])).await
}

fn with_ids(sql: &str) -> String {
    let mut sql = sql.replace("{hash}", HASH);
    for w in ["a", "b"] {
        let workspace = format!("(SELECT id FROM workspaces WHERE name = '{w}')");
        let of = |table: &str, filter: &str| {
            format!("(SELECT min(id) FROM {table} WHERE workspace_id = {workspace} AND {filter})")
        };
        for (name, id) in [
            ("workspace", workspace.clone()),
            ("client", of("clients", "slug = 'shop'")),
            ("lead", of("leads", &format!("display_name = '{w}'"))),
            ("second lead", of("leads", "display_name = 'second'")),
            ("audience", of("audiences", "slug = 'news'")),
            ("topic", of("topics", "slug = 'offers'")),
            ("campaign", of("campaigns", "external_key = 'spring'")),
            ("subscription", of("subscriptions", "status = 'subscribed'")),
            ("message", of("transactional_messages", "idempotency_key = 'once'")),
            ("second subscription", of("subscriptions", "lead_id <> (SELECT min(id) FROM leads)")),
            ("webhook", of("webhook_endpoints", "url = 'https://example.org/'")),
            ("sequence", of("sequences", "slug = 'welcome'")),
            ("delivery", of("webhook_deliveries", "event_id = 'evt_1'")),
        ] {
            sql = sql.replace(&format!("<{name} {w}>"), &id);
        }
    }
    sql
}
