//! A backlog in one queue is no work for another. Work is counted here, not timed: `bench queue` has the times.

use tidings_kernel::queues;
use tidings_testkit::PostgresDatabase;

use super::rows::{NEXT_VISIBLE, TAKE_ON_POSTGRES, TAKE_ON_SQLITE};
use crate::database::{Database, DatabaseError, Param, PostgresOptions, Tls, Tx};

/// Puts 100,000 messages into `campaign-email`, all of them visible.
fn backlog(tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO queue_messages (queue, id, visible_at, enqueued_at, body)
               WITH RECURSIVE numbers (n) AS (
                   SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)
               SELECT $1, 'id-' || n, 1, 1, 'x' FROM numbers";
    tx.execute(sql, &[Param::Text(queues::CAMPAIGN_EMAIL.name)]).map(drop)
}

/// What a database says of how it does a statement, for the queue that is empty.
fn explain(tx: &mut Tx<'_>, how: &str, statement: &str) -> Result<Vec<String>, DatabaseError> {
    let all = [
        Param::Text(queues::TRANSACTIONAL_EMAIL.name),
        Param::Int(2),
        Param::Int(100),
        Param::Int(3),
    ];
    let named = (1..=4).filter(|n| statement.contains(&format!("${n}"))).count();
    let column = if how.contains("QUERY PLAN") { 3 } else { 0 };
    let rows = tx.query(&format!("{how} {statement}"), &all[..named])?;
    rows.iter().map(|row| row.text(column).map(str::to_owned)).collect()
}

#[tokio::test]
async fn sqlite_does_not_look_at_the_backlog_of_another_queue() {
    let database = Database::memory().await.unwrap();
    database.write(backlog).await.unwrap();
    for statement in [NEXT_VISIBLE, TAKE_ON_SQLITE] {
        let plan =
            database.write(move |tx| explain(tx, "EXPLAIN QUERY PLAN", statement)).await.unwrap();
        let on_table = plan.iter().filter(|step| step.contains("queue_messages"));
        for step in on_table {
            assert!(step.contains("USING") && step.contains("(queue=?"), "{step} in {plan:#?}");
        }
        assert!(plan.iter().any(|step| step.contains("queue_messages_visible")), "{plan:#?}");
    }
}

#[tokio::test]
async fn postgresql_does_not_look_at_the_backlog_of_another_queue() {
    let server = PostgresDatabase::schema();
    let options = PostgresOptions { connections: 2, tls: Tls::Disable };
    let database = Database::postgres(&server.url, options).await.unwrap();
    database.write(backlog).await.unwrap();
    for statement in [NEXT_VISIBLE, TAKE_ON_POSTGRES] {
        let how = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF)";
        let plan = database.write_committed(move |tx| explain(tx, how, statement)).await.unwrap();
        let told = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
        let pages: u64 = told
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|part| part.split_once('=')?.1.parse::<u64>().ok())
            .sum();
        // The way down the index. The backlog has some thousand pages.
        assert!(told.is_some() && pages < 30, "{plan:#?}");
    }
}

#[tokio::test]
async fn a_dead_letter_is_forgotten_after_ninety_days() {
    let database = Database::memory().await.unwrap();
    let bury = database.write(|tx| {
        for died_at in 1..=5 {
            let sql =
                "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
                       VALUES ('q', 'id-' || $1, 1, 1, $1 * 86400000, 'broken', 'x')";
            tx.execute(sql, &[Param::Int(died_at)])?;
        }
        Ok::<_, DatabaseError>(())
    });
    bury.await.unwrap();
    let day = |days: i64| jiff::Timestamp::from_second(days * 86_400).unwrap();
    for (now, batch, expected) in [(91, 10, 0), (94, 2, 2), (94, 10, 1), (94, 10, 0), (200, 10, 2)]
    {
        let forgotten = super::forget_dead_letters(&database, day(now), batch).await.unwrap();
        assert_eq!(forgotten, expected, "day {now}");
    }
}
