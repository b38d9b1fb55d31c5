//! Trying the queues: messages that do nothing but leave a mark, so that an operator sees that each came through.
//!
//! Here: the worker of the queue `probe`, the marks, and the heartbeat, which is a probe that nobody counts. Not
//! here: the command that sends them (`queues_command`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_jobs::contracts::{Contract as _, Probe};
use tidings_jobs::{Handler, Outcome, Schedule, ScheduleError, Work, for_contract};
use tidings_kernel::{Clock, Outgoing, queues};
use tidings_sql::{Database, DatabaseError, Param};

/// The run of the probes that nobody counts.
const HEARTBEAT: &str = "heartbeat";
pub(crate) const HEARTBEAT_METRIC: &str = "tidings_heartbeat_seconds";

pub(crate) fn handler(database: &Database, clock: &Arc<dyn Clock>) -> Arc<dyn Handler> {
    for_contract(Mark { database: database.clone(), clock: Arc::clone(clock) })
}

struct Mark {
    database: Database,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Work<Probe> for Mark {
    async fn work(&self, probe: Probe) -> Outcome {
        let now = self.clock.now();
        if probe.run == HEARTBEAT {
            let took = Duration::try_from(now.duration_since(probe.sent_at)).unwrap_or_default();
            metrics::histogram!(HEARTBEAT_METRIC).record(took);
            return Outcome::Done;
        }
        let marked = self.database.write_committed(move |tx| {
            // One row for each probe, however often it comes.
            let sql = "INSERT INTO probes (run, number, sent_at, handled_at, deliveries)
                       VALUES ($1, $2, $3, $4, 1)
                       ON CONFLICT (run, number) DO UPDATE SET deliveries = probes.deliveries + 1";
            let params = [
                Param::Text(&probe.run),
                Param::Int(probe.number),
                Param::Int(probe.sent_at.as_millisecond()),
                Param::Int(now.as_millisecond()),
            ];
            tx.execute(sql, &params)
        });
        match marked.await {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::retry(format!("the mark cannot be made: {error}")),
        }
    }
}

/// A message through the queues now and then, whose way is measured.
pub(crate) fn heartbeat(cron: &str, clock: &Arc<dyn Clock>) -> Result<Schedule, ScheduleError> {
    // Timed from when it is sent: one that was missed is not slow.
    let clock = Arc::clone(clock);
    Schedule::new(HEARTBEAT, cron, "UTC", move |_| probe(HEARTBEAT, 1, clock.now()))
}

pub(crate) fn probe(run: &str, number: i64, sent_at: Timestamp) -> Outgoing {
    let probe = Probe { run: run.to_owned(), number, sent_at };
    Outgoing::new(&queues::PROBE, probe.to_body().expect("a probe keeps to its contract"))
}

/// What came through of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) handled: i64,
    pub(crate) deliveries: i64,
    pub(crate) last_handled_at: i64,
}

pub(crate) async fn marks(database: &Database, run: &str) -> Result<Marks, DatabaseError> {
    let run = run.to_owned();
    database
        .read(move |tx| {
            let sql = "SELECT count(*), CAST(coalesce(sum(deliveries), 0) AS BIGINT),
                              coalesce(max(handled_at), 0)
                       FROM probes WHERE run = $1";
            let rows = tx.query(sql, &[Param::Text(&run)])?;
            let row = rows.first().ok_or(DatabaseError::NoRow)?;
            Ok(Marks {
                handled: row.int(0)?,
                deliveries: row.int(1)?,
                last_handled_at: row.int(2)?,
            })
        })
        .await
}

/// How long the probe took that was slower than this part of all, in milliseconds.
pub(crate) async fn slower_than(
    database: &Database,
    run: &str,
    handled: i64,
    part: f64,
) -> Result<i64, DatabaseError> {
    let run = run.to_owned();
    let place = ((handled as f64 * part).ceil() as i64 - 1).clamp(0, (handled - 1).max(0));
    database
        .read(move |tx| {
            let sql = "SELECT handled_at - sent_at FROM probes WHERE run = $1
                       ORDER BY handled_at - sent_at LIMIT 1 OFFSET $2";
            let rows = tx.query(sql, &[Param::Text(&run), Param::Int(place)])?;
            rows.first().map_or(Ok(0), |row| row.int(0))
        })
        .await
}

/// Removes the marks of a run, and those of runs that nobody cared to remove: a probe that was delivered twice may
/// leave its second mark after the first was removed.
pub(crate) async fn forget(
    database: &Database,
    run: &str,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let (run, a_day_ago) = (run.to_owned(), now.as_millisecond() - 24 * 60 * 60 * 1000);
    let sql = "DELETE FROM probes WHERE run = $1 OR sent_at < $2";
    let params = move |tx: &mut tidings_sql::Tx<'_>| {
        tx.execute(sql, &[Param::Text(&run), Param::Int(a_day_ago)]).map(drop)
    };
    database.write_committed(params).await
}
