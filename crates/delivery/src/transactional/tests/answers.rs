//! What the provider's answer makes of a row that changed while it was asked, and of one that it never takes.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidings_access::signing;
use tidings_jobs::Outcome;
use tidings_kernel::{Accepted, Mail, QueueEngine as _, SendError, Sender, queues};
use tidings_sql::{Database, DatabaseError};
use tidings_testbed::{Bed, each_store};
use tokio::sync::Notify;

use super::accept::suppress;
use super::{World, delivery};
use crate::ledger::marks::{self, Mark};
use crate::transactional::{Find, MessageId, Settle, Settled, Status, settle};

each_store!(
    a_message_survives_a_day_of_not_now_and_is_sent_once,
    a_provider_that_never_takes_a_message_fails_it_after_a_day,
    a_provider_that_is_away_costs_nothing,
    what_waits_for_a_connection_is_not_claimed,
    a_provider_that_always_throttles_one_message_fails_it_in_the_end,
    a_message_that_waits_is_not_sent_early_for_a_second_envelope,
    a_late_answer_to_what_was_called_uncertain_brings_it_back_into_the_queue,
    a_late_not_now_to_what_was_called_uncertain_waits_too,
    an_event_before_the_answer_makes_no_second_line_of_the_send_log,
    what_was_uncertain_is_counted_when_it_is_known_to_be_sent,
    a_new_key_signs_within_a_minute,
    others_are_told_what_became_of_a_message_once,
);

/// A provider during whose work something else happens.
struct Meanwhile {
    database: Database,
    sql: Mutex<Option<&'static str>>,
    answer: Result<Accepted, SendError>,
}

#[async_trait]
impl Sender for Meanwhile {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, _: &Mail) -> Result<Accepted, SendError> {
        let sql = self.sql.lock().unwrap().take();
        if let Some(sql) = sql {
            let done = self.database.write(move |tx| tx.execute(sql, &[])).await;
            done.map_err(|error: DatabaseError| error).unwrap();
        }
        self.answer.clone()
    }
}

/// What somebody else does who thinks that the claimant is gone.
const UNCERTAIN: &str = "UPDATE transactional_messages
    SET status = 'uncertain', claimed_by = NULL, claimed_until = NULL";

fn meanwhile(world: &mut World<'_>, sql: &'static str, answer: Result<Accepted, SendError>) {
    let database = world.bed.access.database().clone();
    world.worker.sender = Arc::new(Meanwhile { database, sql: Mutex::new(Some(sql)), answer });
}

/// Works through so many hours in which a provider says "not now" so often, and tells what the message is after each.
async fn statuses_while_not_now(world: &World<'_>, id: MessageId, times: usize) -> Vec<Status> {
    for _ in 0..times {
        world.provider.answers(SendError::Later("451 try again".to_owned()));
    }
    let mut statuses = Vec::new();
    for _ in 0..27 {
        for _ in 0..4 {
            world.work().await;
            world.bed.advance(15).await;
        }
        statuses.push(world.status(id).await);
    }
    statuses
}

async fn a_message_survives_a_day_of_not_now_and_is_sent_once(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let statuses = statuses_while_not_now(&world, id, 9).await;
    assert_eq!(statuses[..24], [Status::Queued; 24]);
    assert_eq!(statuses[26], Status::Sent);
    assert_eq!((world.found(id).await.message.attempts, world.provider.taken_of(id)), (10, 1));
}

async fn a_provider_that_never_takes_a_message_fails_it_after_a_day(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let statuses = statuses_while_not_now(&world, id, 20).await;
    assert_eq!(statuses[..24], [Status::Queued; 24]);
    let message = world.found(id).await.message;
    assert_eq!((message.status, message.attempts), (Status::Failed, 10));
    assert_eq!(message.last_error.as_deref(), Some("not taken now: 451 try again"));
    let depth = bed.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!((depth.ready, depth.dead), (0, 0));
}

/// PostgreSQL alone can be told to say that it is away.
#[tokio::test]
async fn an_answer_waits_for_a_database_that_is_away_for_a_moment() {
    let bed = Bed::postgres().await;
    let world = World::new(&bed).await;
    let id = world.accepted("ada@example.org").await;
    world.run("CREATE SEQUENCE tries").await;
    // A sequence counts on, also in what is not committed.
    world
        .run(
            "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS '
             BEGIN
                IF nextval(''tries'') <= 6 THEN RAISE EXCEPTION ''away'' USING ERRCODE = ''57P03''; END IF;
                RETURN NEW;
             END'",
        )
        .await;
    world
        .run(
            "CREATE TRIGGER away BEFORE UPDATE ON transactional_messages
             FOR EACH ROW WHEN (NEW.status = 'sent') EXECUTE FUNCTION away()",
        )
        .await;
    let envelope = world.envelope(id).await;
    tokio::time::pause();
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    assert_eq!(world.status(id).await, Status::Sent);
    assert_eq!(world.provider.taken_of(id), 1);
}

async fn a_provider_that_is_away_costs_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    for _ in 0..30 {
        world.provider.answers(SendError::Closed("connection refused".to_owned()));
    }
    for _ in 0..30 {
        assert_eq!(world.work().await, 1);
        assert_eq!(world.status(id).await, Status::Queued);
        bed.advance(1).await;
    }
    // Its "not now" is the first: that nobody was there did not count.
    world.provider.answers(SendError::Later("451 try again".to_owned()));
    world.work().await;
    assert_eq!(world.status(id).await, Status::Queued);
    bed.advance(60).await;
    world.work().await;
    assert_eq!(world.status(id).await, Status::Sent);
}

/// As on SQS, which holds a message back for a quarter of an hour at most.
async fn a_message_that_waits_is_not_sent_early_for_a_second_envelope(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    for (error, seconds) in [
        (SendError::Later("451 try again".to_owned()), 60),
        (SendError::Later("451 try again".to_owned()), 5 * 60),
        (SendError::Closed("connection refused".to_owned()), 60),
    ] {
        world.provider.answers(error);
        let left = |outcome: Outcome| match outcome {
            Outcome::Wait { after, .. } => after.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(left(world.handle(&envelope).await), seconds);
        bed.clock.advance(jiff::Span::new().seconds(20));
        assert_eq!(left(world.handle(&envelope).await), seconds - 20);
        assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Queued, 0));
        let rest = i64::try_from(seconds).unwrap() - 20;
        bed.clock.advance(jiff::Span::new().seconds(rest));
    }
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Sent, 1));
}

/// A provider that carries one message at a time, and holds each until it is let go.
#[derive(Default)]
struct Narrow {
    arrived: Notify,
    go: Notify,
}

#[async_trait]
impl Sender for Narrow {
    fn name(&self) -> &'static str {
        "test"
    }

    fn at_once(&self) -> Option<usize> {
        Some(1)
    }

    async fn send(&self, _: &Mail) -> Result<Accepted, SendError> {
        self.arrived.notify_one();
        self.go.notified().await;
        Ok(Accepted::by_all(None))
    }
}

async fn what_waits_for_a_connection_is_not_claimed(bed: &Bed) {
    let mut world = World::new(bed).await;
    let (ada, bob) =
        (world.accepted("ada@example.org").await, world.accepted("bob@example.org").await);
    let narrow = Arc::new(Narrow::default());
    world.worker.sender = Arc::clone(&narrow) as Arc<dyn Sender>;
    let handler = world.worker.handler();
    let (first, second) =
        (delivery(&world.envelope(ada).await), delivery(&world.envelope(bob).await));
    let looking = async {
        narrow.arrived.notified().await;
        for _ in 0..50 {
            let claimed = "transactional_messages WHERE status = 'claimed'";
            assert_eq!(world.count(claimed).await, 1);
        }
        narrow.go.notify_one();
        narrow.arrived.notified().await;
        narrow.go.notify_one();
    };
    let (first, second, ()) =
        tokio::join!(handler.handle(&first), handler.handle(&second), looking);
    assert_eq!((first, second), (Outcome::Done, Outcome::Done));
}

async fn a_provider_that_always_throttles_one_message_fails_it_in_the_end(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let slower = || SendError::Throttled { reason: "454 slower".to_owned(), retry_after: None };
    world.provider.answers(slower());
    world.work().await;
    assert_eq!(world.status(id).await, Status::Queued);
    let often = "UPDATE transactional_messages SET attempts = 300";
    let done = bed.access.database().write(move |tx| tx.execute(often, &[])).await;
    done.map_err(|error: DatabaseError| error).unwrap();
    for _ in 0..10 {
        world.provider.answers(slower());
        bed.advance(24 * 60).await;
        world.work().await;
    }
    assert_eq!(world.status(id).await, Status::Failed);
}

async fn a_late_answer_to_what_was_called_uncertain_brings_it_back_into_the_queue(bed: &Bed) {
    let waiting = async || bed.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap().ready;
    let slower = SendError::Throttled { reason: "slow".to_owned(), retry_after: None };
    let mut world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    for (count, error) in [(2, SendError::Later("451".to_owned())), (3, slower)] {
        meanwhile(&mut world, UNCERTAIN, Err(error));
        world.handle(&envelope).await;
        assert_eq!(world.status(id).await, Status::Queued);
        assert_eq!(
            waiting().await,
            count,
            "whoever called it uncertain has acknowledged the first"
        );
        bed.clock.advance(jiff::Span::new().minutes(1));
    }
    // While it is ours, the message of the queue is as well.
    world.worker.sender = Arc::clone(&world.provider) as Arc<dyn Sender>;
    world.provider.answers(SendError::Later("451".to_owned()));
    world.handle(&envelope).await;
    assert_eq!(waiting().await, 3);
}

async fn a_late_not_now_to_what_was_called_uncertain_waits_too(bed: &Bed) {
    let mut world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.run("DELETE FROM queue_messages").await;
    let envelope = world.envelope(id).await;
    meanwhile(&mut world, UNCERTAIN, Err(SendError::Later("451".to_owned())));
    world.handle(&envelope).await;
    world.worker.sender = Arc::clone(&world.provider) as Arc<dyn Sender>;
    for _ in 0..2 {
        world.work().await;
        assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Queued, 0));
        bed.clock.advance(jiff::Span::new().seconds(30));
    }
    world.work().await;
    assert_eq!((world.status(id).await, world.provider.taken_of(id)), (Status::Sent, 1));
}

async fn an_event_before_the_answer_makes_no_second_line_of_the_send_log(bed: &Bed) {
    let mut world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    // The event's own worker has decided where the line is.
    let event = "UPDATE transactional_messages
        SET status = 'sent', sent_at = 1782907100000, logged_at = 1782907100000";
    meanwhile(&mut world, event, Ok(Accepted::by_all(Some("p-1".to_owned()))));
    for _ in 0..2 {
        assert_eq!(world.handle(&envelope).await, Outcome::Done);
    }
    let log = world.log("ada@example.org").await;
    let places: Vec<_> = log.iter().filter_map(|item| item.text("SK")).collect();
    assert_eq!(places, ["SENT#2026-07-01T11:58:20.000Z"]);
}

/// By the provider's event, which may come again, or by an operator.
async fn what_was_uncertain_is_counted_when_it_is_known_to_be_sent(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let mut ids = Vec::new();
    for email in ["ada@example.org", "bob@example.org", "eve@example.org"] {
        ids.push(world.accepted(email).await);
        world.provider.answers(SendError::Uncertain("lost".to_owned()));
        world.work().await;
    }
    assert_eq!(world.sends().await, 0);
    for _ in 0..2 {
        let row = (cx.workspace_id().get(), crate::links::Source::Transactional(ids[0].get()));
        let now = cx.now();
        let mark = cx.database().write_committed(move |tx| {
            marks::mark(tx, row, Some((Mark::Sent, now)), &marks::Facts::default(), now)
        });
        assert!(mark.await.unwrap());
        world.work().await;
        assert_eq!(world.sends().await, 1);
    }
    for (id, outcome) in [(ids[1], Settled::Sent), (ids[2], Settled::Failed)] {
        let message = Find { id, client: None };
        settle(&cx, Settle { message, outcome, reason: None }).await.unwrap();
        world.work().await;
        world.handle(&world.envelope(id).await).await;
    }
    assert_eq!(world.sends().await, 2);
    assert!(world.log("eve@example.org").await.is_empty());
}

async fn a_new_key_signs_within_a_minute(bed: &Bed) {
    let world = World::new(bed).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = world.accepted("ada@example.org").await;
        world.work().await;
        let mime = String::from_utf8(world.provider.taken().pop().unwrap().mime).unwrap();
        ids.push((id, mime));
        signing::rotate(bed.access.database(), bed.access.now()).await.unwrap();
        bed.advance(2).await;
    }
    let keys = signing::list(bed.access.database()).await.unwrap();
    let signed_by = |mime: &str| {
        let id = mime.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap();
        id.split('.').nth(2).unwrap_or_default().to_owned()
    };
    assert_eq!(keys.len(), 3);
    assert_ne!(signed_by(&ids[0].1), signed_by(&ids[1].1));
    let again =
        crate::links::Links::load(bed.access.database(), "https://x.example", bed.access.now());
    let again = again.await.unwrap();
    for (id, mime) in ids {
        let text = mime.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap();
        let (_, source) = again.read_message_id(text, bed.access.now()).await.unwrap();
        assert_eq!(source, crate::links::Source::Transactional(id.get()));
    }
}

/// What others are told, as `type` and `reason`.
async fn told(bed: &Bed) -> Vec<(String, String)> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'webhook-fanout' ORDER BY id";
    let rows = bed.access.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let read = |row: &tidings_sql::Row| {
        let body: serde_json::Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        assert_eq!(body["data"]["email"], "ada@example.org");
        (text(&body["event_type"]), text(&body["data"]["reason"]))
    };
    rows.iter().map(read).filter(|(kind, _)| kind.starts_with("email.")).collect()
}

async fn others_are_told_what_became_of_a_message_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let sent = world.accepted("ada@example.org").await;
    world.work().await;
    assert!(told(bed).await.is_empty(), "nobody wants to know");
    world
        .run(&format!(
            "INSERT INTO webhook_endpoints (workspace_id, url, event_types, secret, created_at, updated_at)
             VALUES ({}, 'https://example.org/', '[]', 'x', 0, 0)",
            cx.workspace_id().get()
        ))
        .await;
    world.handle(&world.envelope(sent).await).await;
    assert!(told(bed).await.is_empty(), "it was sent before");

    let mut expected = Vec::new();
    let mut expect = |kind: &str, reason: &str| {
        expected.push((kind.to_owned(), reason.to_owned()));
        expected.clone()
    };
    let id = world.accepted("ada@example.org").await;
    world.work().await;
    world.handle(&world.envelope(id).await).await;
    assert_eq!(told(bed).await, expect("email.sent", ""));

    world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Refused("550".to_owned()));
    world.work().await;
    assert_eq!(told(bed).await, expect("email.failed", ""));

    let id = world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Uncertain("lost".to_owned()));
    world.work().await;
    let message = Find { id, client: None };
    let settlement = Settle { message, outcome: Settled::Failed, reason: None };
    settle(&cx, settlement).await.unwrap();
    assert_eq!(told(bed).await, expect("email.failed", ""));

    world.accepted("ada@example.org").await;
    suppress(bed, "ada@example.org").await;
    // That the address is suppressed is told as well.
    expect("email.suppressed", "");
    world.work().await;
    expect("email.skipped", "hard_bounce");
    world.accepted("ada@example.org").await;
    assert_eq!(told(bed).await, expect("email.skipped", "hard_bounce"));
}
