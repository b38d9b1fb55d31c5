//! The workers of the queues of mail that goes out, on both engines, with the examples of the contracts.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, Receipt, queues};
use tidings_sql::{Database, DatabaseError, PostgresOptions, Tls};
use tidings_testkit::PostgresDatabase;

use super::Ledger;

const CAMPAIGN: &str = r#"{"contract":"campaign-email","version":1,"campaign_id":55,"batch_id":"campaign-55-batch-0001","campaign_recipient_ids":[501,502],"idempotency_key":"campaign-55-batch-0001","metadata":{"source":"scheduler"}}"#;

struct World {
    ledger: Ledger,
    /// Takes its tables with it when it goes, which is last.
    server: Option<PostgresDatabase>,
}

impl World {
    async fn memory() -> Self {
        Self::on(Database::memory().await.unwrap(), None).await
    }

    async fn postgres() -> Self {
        let server = PostgresDatabase::schema();
        let options = PostgresOptions { connections: 4, tls: Tls::Disable };
        Self::on(Database::postgres(&server.url, options).await.unwrap(), Some(server)).await
    }

    /// The rows that the examples of the contracts are about, not sent yet.
    async fn on(database: Database, server: Option<PostgresDatabase>) -> Self {
        let world = Self { ledger: Ledger::new(database), server };
        for sql in [
            "INSERT INTO workspaces (id, name, created_at) VALUES (1, 'acme', 0)",
            "INSERT INTO clients (id, workspace_id, slug, name, created_at)
             VALUES (7, 1, 'shop', 'Shop', 0)",
            "INSERT INTO leads (id, workspace_id, created_at, updated_at) VALUES (22, 1, 0, 0)",
            "INSERT INTO leads (id, workspace_id, created_at, updated_at) VALUES (23, 1, 0, 0)",
            "INSERT INTO audiences (id, workspace_id, slug, name, created_at, updated_at)
             VALUES (1, 1, 'all', 'All', 0, 0)",
            "INSERT INTO campaigns (id, workspace_id, client_id, audience_id, name, status, created_at, updated_at)
             VALUES (55, 1, 7, 1, 'Spring', 'sending', 0, 0)",
            "INSERT INTO campaign_recipients (id, workspace_id, campaign_id, lead_id, email, ses_message_id, created_at, updated_at)
             VALUES (501, 1, 55, 22, 'ada@example.org', 'ses-1', 0, 0)",
            "INSERT INTO campaign_recipients (id, workspace_id, campaign_id, lead_id, email, created_at, updated_at)
             VALUES (502, 1, 55, 23, 'bob@example.org', 0, 0)",
            "INSERT INTO transactional_messages (id, workspace_id, client_id, lead_id, idempotency_key, email, created_at, updated_at)
             VALUES (101, 1, 7, 22, 'client-7:password-reset:req-123', 'ada@example.org', 0, 0)",
        ] {
            world.run(sql).await;
        }
        world
    }

    async fn run(&self, sql: &str) {
        // The examples have ids of their own, which nobody may choose otherwise.
        let sql = match self.server {
            Some(_) if sql.starts_with("INSERT") => {
                sql.replacen("VALUES", "OVERRIDING SYSTEM VALUE VALUES", 1)
            }
            _ => sql.to_owned(),
        };
        let done = self.ledger.database.write(move |tx| tx.execute(&sql, &[]).map(drop)).await;
        done.map_err(|error: DatabaseError| format!("{error:?}")).unwrap();
    }

    async fn handle(&self, queue: &str, body: &str) -> Outcome {
        let handlers = self.ledger.handlers();
        let (_, handler): &(_, Arc<dyn Handler>) =
            handlers.iter().find(|(one, _)| one.name == queue).unwrap();
        let delivery = Delivery {
            id: "m".into(),
            body: body.into(),
            receives: 1,
            enqueued_at: Timestamp::UNIX_EPOCH,
            receipt: Receipt("r".into()),
        };
        handler.handle(&delivery).await
    }
}

tidings_testkit::each_engine!(
    a_batch_of_a_campaign_is_decided_by_its_rows,
    what_breaks_its_contract_is_given_up,
);

async fn a_batch_of_a_campaign_is_decided_by_its_rows(world: &World) {
    let queue = queues::CAMPAIGN_EMAIL.name;
    let waiting = Outcome::wait("no mail provider is configured", super::PAUSE);
    assert_eq!(world.handle(queue, CAMPAIGN).await, waiting);
    world.run("UPDATE campaigns SET status = 'paused'").await;
    let paused = Outcome::wait("campaign 55 is paused", super::PAUSE);
    assert_eq!(world.handle(queue, CAMPAIGN).await, paused);
    world.run("UPDATE campaigns SET status = 'cancelled'").await;
    assert_eq!(world.handle(queue, CAMPAIGN).await, Outcome::Done);
    world.run("UPDATE campaigns SET status = 'sending'").await;
    world.run("UPDATE campaign_recipients SET status = 'sent', sent_at = 1 WHERE id = 501").await;
    assert_eq!(world.handle(queue, CAMPAIGN).await, waiting, "one of them is still to be sent");
    world
        .run("UPDATE campaign_recipients SET status = 'skipped', skip_reason = 'x' WHERE id = 502")
        .await;
    assert_eq!(world.handle(queue, CAMPAIGN).await, Outcome::Done);
    let foreign = CAMPAIGN.replace("[501,502]", "[501,501,777]");
    let expected =
        Outcome::retry("1 of 2 recipients of batch campaign-55-batch-0001 are not of campaign 55");
    assert_eq!(world.handle(queue, &foreign).await, expected);
}

async fn what_breaks_its_contract_is_given_up(world: &World) {
    for (queue, _) in world.ledger.handlers() {
        for body in ["{", "[]", r#"{"contract":"nope","version":1}"#] {
            let outcome = world.handle(queue.name, body).await;
            assert!(matches!(outcome, Outcome::Dead { .. }), "{queue} {body}: {outcome:?}");
        }
    }
}
