//! PostgreSQL: a pool of threads, each with a connection.
//!
//! A unit is one serializable transaction. When PostgreSQL says that it met another one, it runs again after a
//! short, random wait, a bounded number of times. A lost connection is made anew; only if it was lost during
//! the commit is the outcome unknown, and then the caller is told so.

mod notify;
mod session;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use postgres::NoTls;
use postgres::config::SslMode;
use postgres::error::Severity;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Tls};
use super::tx::is_conflict;
use super::unit::{Isolation, Unit, Verdict, run_guarded};
use super::{Database, DatabaseError, Dialect, Lane, QUEUE, Shared, Tx, Wakers, spawn};
use crate::migrations;

pub(crate) use session::Session;

const MAX_ATTEMPTS: u32 = 40;
/// A server that does not answer is not asked as often: every attempt may take its whole time-out.
const MAX_RECONNECTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How many connections this process works with: half of them write, the others read. An eighth only looks up items by their
    /// keys, for all who ask at the same time. Two more tell other nodes and hear from them.
    pub connections: usize,
    pub tls: Tls,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { connections: 16, tls: Tls::default() }
    }
}

pub(super) fn open(url: &str, options: &PostgresOptions) -> Result<Database, DatabaseError> {
    let server = Arc::new(Server::new(url, &options.tls)?);
    let mut first = server.connect()?;
    migrations::run_postgres(&mut first)?;
    drop(first);
    let wakers = Arc::new(Wakers::default());
    let mut threads = notify::start(&server, &wakers)?;
    let (writers, writes) = async_channel::bounded(QUEUE);
    let (readers, reads) = async_channel::bounded(QUEUE);
    let (lookers, looks) = async_channel::bounded(QUEUE);
    let half = options.connections.div_ceil(2).max(1);
    let looking = half.div_ceil(4);
    for (kind, access, units, count) in [
        ("write", Access::Write, writes, half),
        ("read", Access::Read, reads, half.saturating_sub(looking).max(1)),
        ("look", Access::Read, looks, looking),
    ] {
        for number in 0..count {
            let (server, wakers) = (Arc::clone(&server), Arc::clone(&wakers));
            let worker = Worker { server, session: None, access, wakers };
            let units = units.clone();
            let name = format!("postgres-{kind}-{number}");
            threads.push(spawn(&name, move || worker.run(&units))?);
        }
    }
    let threads = Mutex::new(threads);
    let (dialect, glances) = (Dialect::Postgres, Arc::default());
    let (path, urgent, lookers) = (None, None, Some(lookers));
    let shared =
        Shared { dialect, path, writers, urgent, readers, lookers, glances, threads, wakers };
    Ok(Database(Arc::new(shared), Lane::Ordinary))
}

const WRITE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE";
/// What is right by itself touches few rows of a table that fills and empties within seconds, so statistics are always
/// of another time. By them PostgreSQL would sort a whole queue to take one batch; it is to follow the indexes, more than the session
/// does anyway (`by_keys`).
const WRITE_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_sort = off";
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// How to reach the server.
struct Server {
    config: tokio_postgres::Config,
    tls: Option<MakeRustlsConnect>,
}

impl Server {
    fn new(url: &str, tls: &Tls) -> Result<Self, DatabaseError> {
        let mut config: tokio_postgres::Config = url
            .parse()
            // The error would show the URL, and the URL may hold a password.
            .map_err(|_| DatabaseError::Settings("the URL of PostgreSQL cannot be read".into()))?;
        let tls = tls::connector(tls)?;
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.application_name("tidings");
        // A server that has vanished must be noticed before whoever waits for us does.
        config.keepalives_idle(Duration::from_secs(15));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(30));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        Ok(Self { config, tls })
    }

    fn connect(&self) -> Result<Session, DatabaseError> {
        let session = match &self.tls {
            Some(tls) => Session::connect(&self.config, tls.clone()),
            None => Session::connect(&self.config, NoTls),
        };
        let unreachable = |error| DatabaseError::Unavailable(Arc::new(error));
        let mut session = session.map_err(unreachable)?;
        // A node that stands still in a transaction loses its locks before those who wait for them give up.
        let patience = "SET idle_in_transaction_session_timeout = '10s';
                        SET lock_timeout = '20s';
                        SET statement_timeout = '60s'";
        // Compiling a statement takes longer than running any of ours.
        let no_jit = "SET jit = off";
        // Everything of ours is found by keys, a page at a time. A plan is kept for as long as a session lives, and one that
        // was made while a table was small would go through all of it when it is large.
        let by_keys =
            "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";
        // Whoever is to write says so when he begins. So a unit that only reads cannot, and a statement whose `BEGIN`
        // was lost, which goes out with it, cannot write by itself.
        let only_read = "SET default_transaction_read_only = on";
        let settings = format!("{patience};{no_jit};{by_keys};{only_read}");
        session.batch(&settings).map_err(unreachable)?;
        Ok(session)
    }

    /// A connection that is not for units of work.
    fn dial(&self) -> Result<postgres::Client, DatabaseError> {
        let config = postgres::Config::from(self.config.clone());
        let client = match &self.tls {
            Some(tls) => config.connect(tls.clone()),
            None => config.connect(NoTls),
        };
        client.map_err(|error| DatabaseError::Unavailable(Arc::new(error)))
    }
}

struct Worker {
    server: Arc<Server>,
    session: Option<Session>,
    access: Access,
    wakers: Arc<Wakers>,
}

#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Write,
}

enum Attempt {
    Settled(Result<(), DatabaseError>),
    Again(DatabaseError),
}

impl Worker {
    fn run(mut self, units: &async_channel::Receiver<Box<dyn Unit>>) {
        while let Ok(mut unit) = units.recv_blocking() {
            let outcome = self.settle(&mut *unit);
            unit.finish(outcome);
        }
    }

    fn settle(&mut self, unit: &mut dyn Unit) -> Result<(), DatabaseError> {
        let mut last = DatabaseError::Conflict;
        for attempt in 0..MAX_ATTEMPTS {
            match self.attempt(unit) {
                Attempt::Settled(outcome) => return outcome,
                Attempt::Again(error) => last = error,
            }
            if attempt >= MAX_RECONNECTS && matches!(last, DatabaseError::Unavailable(_)) {
                break;
            }
            metrics::counter!("tidings_postgres_retries_total").increment(1);
            thread::sleep(wait_before(attempt));
        }
        Err(last)
    }

    fn attempt(&mut self, unit: &mut dyn Unit) -> Attempt {
        if unit.is_glance() {
            return self.glance(unit);
        }
        let access = self.access;
        let begin = match (access, unit.isolation()) {
            (Access::Read, _) => READ,
            (Access::Write, Isolation::Serializable) => WRITE,
            (Access::Write, Isolation::ReadCommitted) => WRITE_COMMITTED,
        };
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => return Attempt::Again(error),
        };
        session.begin(begin);
        let mut tx = Tx::on_postgres(session);
        let verdict = run_guarded(unit, &mut tx);
        let (conflict, wakes) = (tx.conflict, std::mem::take(&mut tx.wakes));
        if session.is_lost() {
            return self.again_without_session(closed());
        }
        match verdict {
            Ok(Verdict::Commit) if !conflict => {
                let attempt = self.commit();
                if matches!(attempt, Attempt::Settled(Ok(()))) {
                    self.wakers.wake(&wakes);
                }
                attempt
            }
            verdict => {
                let left = match access {
                    Access::Read => session.leave(),
                    Access::Write => session.end("ROLLBACK"),
                };
                if let Err(error) = left {
                    return self.again_without_session(error.into());
                }
                match verdict {
                    _ if conflict => Attempt::Again(DatabaseError::Conflict),
                    verdict => Attempt::Settled(verdict.map(drop)),
                }
            }
        }
    }

    /// One statement by itself is one snapshot, and spares two round trips.
    fn glance(&mut self, unit: &mut dyn Unit) -> Attempt {
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => return Attempt::Again(error),
        };
        let mut tx = Tx::of_one_statement(session);
        let ran = run_guarded(unit, &mut tx);
        let conflict = tx.conflict;
        if session.is_lost() {
            return self.again_without_session(closed());
        }
        if conflict {
            return Attempt::Again(DatabaseError::Conflict);
        }
        Attempt::Settled(ran.map(drop))
    }

    fn commit(&mut self) -> Attempt {
        let session = self.session.as_mut().expect("it has an open transaction");
        match session.end("COMMIT") {
            Ok(()) => Attempt::Settled(Ok(())),
            Err(error) if is_conflict(&error) => Attempt::Again(DatabaseError::Conflict),
            // A server that dies of the commit may find it done when it comes back.
            Err(error) if is_refusal(&error) => Attempt::Settled(Err(error.into())),
            Err(error) => {
                self.session = None;
                Attempt::Settled(Err(DatabaseError::Uncertain(Arc::new(error))))
            }
        }
    }

    fn session(&mut self) -> Result<&mut Session, DatabaseError> {
        if self.session.as_ref().is_none_or(Session::is_lost) {
            self.session = Some(self.server.connect()?);
        }
        Ok(self.session.as_mut().expect("it was made above"))
    }

    fn again_without_session(&mut self, error: DatabaseError) -> Attempt {
        self.session = None;
        Attempt::Again(error)
    }
}

/// Whether the server said no, and lives.
fn is_refusal(error: &postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(postgres::error::DbError::parsed_severity);
    severity == Some(Severity::Error)
}

fn closed() -> DatabaseError {
    DatabaseError::Unavailable(Arc::new(std::io::Error::other("the connection was lost")))
}

/// Doubles up to the longest wait, and then some time up to that, so that two that met do not meet again.
fn wait_before(attempt: u32) -> Duration {
    let longest = FIRST_WAIT.saturating_mul(1 << attempt.min(16)).min(LONGEST_WAIT);
    longest.mul_f64(fastrand::f64())
}
