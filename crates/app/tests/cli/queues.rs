//! Queues as an operator meets them, and the workers outside of the server.

use insta::assert_snapshot;
use tidings_sql::{Database, DatabaseError, SqliteOptions};

use crate::world::World;

const EXAMPLES: [(&str, &str); 4] = [
    (
        "transactional-email",
        r#"{"contract":"transactional-email","version":1,"transactional_message_id":101,"client_id":7,"contact_id":22,"template_id":4,"template_key":"password-reset","idempotency_key":"client-7:password-reset:req-123","metadata":{"trace_id":"trace-1"}}"#,
    ),
    (
        "campaign-email",
        r#"{"contract":"campaign-email","version":1,"campaign_id":55,"batch_id":"campaign-55-batch-0001","campaign_recipient_ids":[501,502],"idempotency_key":"campaign-55-batch-0001","metadata":{"source":"scheduler"}}"#,
    ),
    (
        "ses-webhooks",
        r#"{"contract":"ses-webhooks","version":1,"provider":"ses","provider_event_id":"sns-message-123","notification_type":"bounce","received_at":"2026-05-24T12:00:00Z","ses_message_id":"ses-message-123","metadata":{"mail_timestamp":"2026-05-24T11:59:59Z"}}"#,
    ),
    (
        "email-events",
        r#"{"contract":"email-events","version":1,"event_id":"track-open-123","event_type":"open","occurred_at":"2026-05-24T12:00:01Z","idempotency_key":"open:tracking-token-123:2026-05-24T12:00:01Z","campaign_recipient_id":501,"tracking_token":"tracking-token-123","metadata":{"user_agent":"Mozilla/5.0"}}"#,
    ),
];

/// The rows that the examples are about, sent already.
const ROWS: [&str; 9] = [
    "INSERT INTO workspaces (id, name, created_at) VALUES (1, 'acme', 0)",
    "INSERT INTO clients (id, workspace_id, slug, name, created_at) VALUES (7, 1, 'shop', 'Shop', 0)",
    "INSERT INTO leads (id, workspace_id, created_at, updated_at) VALUES (22, 1, 0, 0), (23, 1, 0, 0)",
    "INSERT INTO audiences (id, workspace_id, slug, name, created_at, updated_at)
     VALUES (1, 1, 'all', 'All', 0, 0)",
    "INSERT INTO campaigns (id, workspace_id, client_id, audience_id, name, status, created_at, updated_at)
     VALUES (55, 1, 7, 1, 'Spring', 'sending', 0, 0)",
    "INSERT INTO campaign_recipients
         (id, workspace_id, campaign_id, lead_id, email, status, sent_at, ses_message_id, created_at, updated_at)
     VALUES (501, 1, 55, 22, 'ada@example.org', 'sent', 1, 'ses-message-123', 0, 0)",
    "INSERT INTO campaign_recipients
         (id, workspace_id, campaign_id, lead_id, email, status, sent_at, created_at, updated_at)
     VALUES (502, 1, 55, 23, 'bob@example.org', 'sent', 1, 0, 0)",
    "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, due_at, fed_at)
     VALUES (1, 55, 1, '[501, 502]', 2, 0, 0)",
    "INSERT INTO transactional_messages
         (id, workspace_id, client_id, lead_id, idempotency_key, email, status, sent_at, created_at, updated_at)
     VALUES (101, 1, 7, 22, 'client-7:password-reset:req-123', 'ada@example.org', 'sent', 1, 0, 0)",
];

/// Runs statements on the world's database, and gives what the last one finds, a line a row.
fn sql(world: &World, statements: &[&str]) -> String {
    let path = world.path("tidings.db");
    let statements: Vec<_> = statements.iter().map(|sql| (*sql).to_owned()).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let database = Database::sqlite(&path, SqliteOptions::default()).await.unwrap();
        let found = database.write(move |tx| {
            let mut found = Vec::new();
            for sql in &statements {
                found = tx.query(sql, &[])?;
            }
            Ok::<_, DatabaseError>(found)
        });
        let found = found.await.unwrap();
        database.close().await;
        found.iter().map(|row| format!("{row:?}\n")).collect()
    })
}

fn event(records: &[(&str, &str)]) -> String {
    let records: Vec<_> = records
        .iter()
        .map(|(id, body)| serde_json::json!({"messageId": id, "body": body}))
        .collect();
    serde_json::json!({"Records": records}).to_string()
}

#[test]
fn the_examples_of_the_contracts_are_handled() {
    let world = World::new();
    sql(&world, &ROWS);
    let look = "SELECT status, bounced_at, first_opened_at FROM campaign_recipients ORDER BY id";
    // Twice, as SQS may deliver them: the second time changes nothing.
    for _ in 0..2 {
        for (queue, body) in EXAMPLES {
            let ran = world.run_with_input(&["worker", "handle", queue], &event(&[("m", body)]));
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (0, "{\"batchItemFailures\":[]}\n"),
                "{queue}"
            );
        }
        // The example of a bounce does not say whether it is for good, so the message counts as sent.
        let rows =
            "Row([Text(\"sent\"), Null, Int(1779624001000)])\nRow([Text(\"sent\"), Null, Null])\n";
        assert_eq!(sql(&world, &[look]), rows);
    }
}

#[test]
fn a_probe_that_comes_twice_leaves_one_mark() {
    let world = World::new();
    let probe =
        r#"{"contract":"probe","version":1,"run":"r","number":1,"sent_at":"2026-05-24T12:00:00Z"}"#;
    for _ in 0..2 {
        let ran = world.run_with_input(&["worker", "handle", "probe"], &event(&[("m", probe)]));
        assert_eq!(ran.stdout, "{\"batchItemFailures\":[]}\n");
    }
    let look = "SELECT run, number, deliveries FROM probes";
    assert_eq!(sql(&world, &[look]), "Row([Text(\"r\"), Int(1), Int(2)])\n");
}

#[test]
fn a_bad_record_fails_alone_and_says_why() {
    let world = World::new();
    sql(&world, &ROWS);
    let (_, good) = EXAMPLES[0];
    let newer = good.replace("\"version\":1", "\"version\":2");
    let negative = good.replace("\"client_id\":7", "\"client_id\":-7");
    let input = event(&[("1", good), ("2", "{"), ("3", &newer), ("4", &negative), ("5", good)]);
    let ran = world.run_with_input(&["worker", "handle", "transactional-email"], &input);
    assert_snapshot!(ran.stdout, @r#"{"batchItemFailures":[{"itemIdentifier":"2"},{"itemIdentifier":"3"},{"itemIdentifier":"4"}]}"#);
    for reason in ["not JSON", "must be 1, but is 2", "client_id must be a positive integer"] {
        assert!(ran.stderr.contains(reason), "{reason}: {}", ran.stderr);
    }
    let ran = world.run_with_input(&["worker", "handle", "transactional-email"], "[]");
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.stderr.lines().next().unwrap());
    let ran = world.run_with_input(&["worker", "handle", "lead-ingestion"], &event(&[("1", "{")]));
    assert_eq!(ran.stdout, "{\"batchItemFailures\":[{\"itemIdentifier\":\"1\"}]}\n");
}

#[test]
fn what_is_given_up_can_be_looked_at_and_put_back() {
    let world = World::new();
    let refused = world.run(&["queues", "send", "probe", r#"{"contract":"probe","version":1}"#]);
    assert_eq!(refused.code, 2);
    assert_snapshot!(refused.stderr);
    // A server that only works meets a message about a row that another client owns.
    sql(&world, &ROWS);
    let foreign = EXAMPLES[0].1.replace("\"client_id\":7", "\"client_id\":8");
    assert_eq!(world.ok(&["queues", "send", "transactional-email", &foreign]), "{\"sent\":1}\n");
    let mut server = world.serve(&["--roles", "worker"]);
    server.wait_for_line("A message was given up");
    server.stop();
    let list = world.ok(&["queues", "list"]);
    assert!(
        list.starts_with(r#"{"queue":"transactional-email","ready":0,"hidden":0,"dead":1}"#),
        "{list}"
    );
    let dead = world.ok(&["queues", "dead", "transactional-email"]);
    let letter: serde_json::Value = serde_json::from_str(&dead).unwrap();
    assert_eq!(letter["body"]["client_id"], 8);
    assert_snapshot!(letter["reason"].as_str().unwrap());
    let id = letter["id"].as_str().unwrap();
    let replay = |argument| world.ok(&["queues", "replay", "transactional-email", argument]);
    assert_eq!(replay("nothing-of-ours"), "{\"replayed\":0}\n");
    assert_eq!(replay(id), "{\"replayed\":1}\n");
    assert_eq!(world.ok(&["queues", "dead", "transactional-email"]), "");
    assert_eq!(world.ok(&["queues", "purge", "transactional-email", "--all"]), "{\"purged\":0}\n");
}

#[test]
fn probes_come_through_a_server_and_not_without_one() {
    let world = World::new();
    let ran = world.run(&["queues", "probe", "--count", "2", "--wait", "1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("\"handled\":0"), "{}", ran.stdout);
    assert_snapshot!(ran.stderr);
    let server = world.serve(&["--roles", "worker"]);
    let summary = world.ok(&["queues", "probe", "--count", "700"]);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["sent"], &summary["handled"]), (&700.into(), &700.into()));
    let metrics = server.get("/metrics");
    assert!(
        metrics.contains("tidings_jobs_total{queue=\"probe\",outcome=\"done\"} 702"),
        "{metrics}"
    );
    server.stop();
}

#[test]
fn a_server_without_the_role_worker_leaves_messages_alone() {
    let world = World::new();
    let server = world.serve(&["--roles", "http,scheduler"]);
    let ran = world.run(&["queues", "probe", "--count", "1", "--wait", "1"]);
    assert_eq!(ran.code, 1);
    server.stop();
    let bad = world.run(&["serve", "--roles", "http,cook"]);
    assert_eq!(bad.code, 2);
    assert_snapshot!(bad.stderr);
}
