//! A connection to PostgreSQL, driven by the thread that waits for it.
//!
//! A round trip costs more than most statements. So a transaction begins with its first statement, in the same group of
//! packets; what was only read is left without waiting; and each statement is prepared once.
//!
//! Not here: when a transaction is begun, ended or run again (`postgres`), and what a statement says.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use postgres::error::{DbError, Severity};
use postgres::types::ToSql;
use postgres::{Error, Socket, Statement};
use tokio::runtime::{self, Runtime};
use tokio_postgres::Client;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};

use super::super::tx::{Param, Row};

pub(crate) struct Session {
    client: Client,
    wire: Wire,
    statements: HashMap<String, Statement>,
    transaction: Transaction,
}

enum Transaction {
    None,
    /// Begins so with its first statement.
    Coming(&'static str),
    Open,
    /// Its beginning was refused, and who knows what then became of the statement.
    Refused,
}

impl Session {
    pub(super) fn connect<T>(config: &tokio_postgres::Config, tls: T) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket> + Send + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let built = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = built.expect("a thread can make itself a timer and a poll");
        let (client, connection) = runtime.block_on(config.connect(tls))?;
        let wire = Wire { runtime, connection: Some(Box::pin(connection)) };
        let transaction = Transaction::None;
        Ok(Self { client, wire, statements: HashMap::new(), transaction })
    }

    /// The next statement is the first of a transaction.
    pub(crate) fn begin(&mut self, begin: &'static str) {
        self.transaction = Transaction::Coming(begin);
    }

    /// Commits or rolls back, and waits for the answer. What has had no statement needs neither.
    pub(crate) fn end(&mut self, end: &'static str) -> Result<(), Error> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::None | Transaction::Coming(_) => Ok(()),
            Transaction::Open | Transaction::Refused => {
                self.wire.wait(self.client.batch_execute(end))
            }
        }
    }

    /// Rolls back, and does not wait for the answer: whatever comes next on this connection comes after it.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::None | Transaction::Coming(_) => Ok(()),
            Transaction::Open | Transaction::Refused => {
                drop(self.wire.wait(self.client.simple_query_raw("ROLLBACK"))?);
                self.wire.flush();
                Ok(())
            }
        }
    }

    /// Whether it is of no use any more.
    pub(super) fn is_lost(&self) -> bool {
        self.client.is_closed() || matches!(self.transaction, Transaction::Refused)
    }

    /// Runs several statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let begin = self.take_begin();
        let client = &self.client;
        let ran = self.wire.wait(after(client, begin, client.batch_execute(sql)));
        self.noting_failure(ran)
    }

    pub(crate) fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepared(sql)?;
        let begin = self.take_begin();
        let (client, params) = (&self.client, references(params));
        let ran = self.wire.wait(after(client, begin, client.execute(&statement, &params)));
        self.noting_failure(ran)
    }

    pub(crate) fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql)?;
        let begin = self.take_begin();
        let (client, params) = (&self.client, references(params));
        let ran = self.wire.wait(after(client, begin, client.query(&statement, &params)));
        self.noting_failure(ran)?.iter().map(Row::of_postgres).collect()
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.wire.wait(after(&self.client, None, self.client.prepare(sql)));
        let statement = self.noting_failure(prepared)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn take_begin(&mut self) -> Option<&'static str> {
        let Transaction::Coming(begin) = self.transaction else { return None };
        self.transaction = Transaction::Open;
        Some(begin)
    }

    fn noting_failure<T>(&mut self, ran: Result<T, Failed>) -> Result<T, Error> {
        ran.map_err(|failed| {
            let error = match failed {
                Failed::Beginning(error) => {
                    self.transaction = Transaction::Refused;
                    error
                }
                Failed::Statement(error) => error,
            };
            if is_farewell(&error) {
                self.wire.connection = None;
            }
            error
        })
    }
}

/// The server has ended the connection with it, even if that is not seen yet.
fn is_farewell(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

enum Failed {
    Beginning(Error),
    Statement(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

/// Sends the beginning, if there is one, and then the statement, and waits for both.
async fn after<T>(
    client: &Client,
    begin: Option<&str>,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failed> {
    let Some(begin) = begin else { return Ok(statement.await?) };
    // In this order: each is on its way once it has been polled.
    let (begun, ran) = tokio::join!(biased; client.batch_execute(begin), statement);
    begun.map_err(Failed::Beginning)?;
    Ok(ran?)
}

fn references<'a>(params: &'a [Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| param as _).collect()
}

type Connection = dyn Future<Output = Result<(), Error>> + Send;

/// The connection itself. It moves only while somebody waits.
struct Wire {
    runtime: Runtime,
    /// Nothing once it has ended: whoever waits for an answer then gets an error.
    connection: Option<Pin<Box<Connection>>>,
}

impl Wire {
    fn wait<T, E: From<Error>>(
        &mut self,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut asked = pin!(asked);
        let connection = &mut self.connection;
        self.runtime.block_on(poll_fn(|cx| {
            if let Poll::Ready(answer) = asked.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            let Some(open) = connection else { return Poll::Pending };
            let Poll::Ready(ended) = open.as_mut().poll(cx) else { return Poll::Pending };
            *connection = None;
            match ended {
                Ok(()) => asked.as_mut().poll(cx),
                Err(error) => Poll::Ready(Err(error.into())),
            }
        }))
    }

    /// Gives the connection what was asked, without waiting for answers.
    fn flush(&mut self) {
        let connection = &mut self.connection;
        self.runtime.block_on(poll_fn(|cx| {
            if let Some(open) = connection
                && open.as_mut().poll(cx).is_ready()
            {
                *connection = None;
            }
            Poll::Ready(())
        }));
    }
}
