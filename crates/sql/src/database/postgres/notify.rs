//! Telling the other nodes, by `NOTIFY`, and hearing from them, by `LISTEN`.
//!
//! Each has a thread and, from its first use, a connection. The notification is not part of the transaction that it
//! is about: PostgreSQL lets only one notifying transaction commit at a time, and waits for the disk meanwhile. One
//! that is lost with its node costs those who wait a moment, until they look by themselves.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator as _;

use super::super::{DatabaseError, Wakers, spawn};
use super::Server;

const CHANNEL: &str = "tidings";
/// How long a thread that listens takes to notice that it is to end.
const TURN: Duration = Duration::from_millis(250);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

pub(super) fn start(
    server: &Arc<Server>,
    wakers: &Arc<Wakers>,
) -> Result<Vec<JoinHandle<()>>, DatabaseError> {
    let (teller, to_tell) = async_channel::bounded(1);
    let (listener, to_hear) = async_channel::bounded(1);
    wakers.connect(teller, listener);
    // Nobody needs to hear his own words again.
    let node = format!("{:016x}", fastrand::u64(..));
    let telling = Notifier { server: Arc::clone(server), wakers: Arc::clone(wakers), node };
    let hearing = telling.clone();
    Ok(vec![
        spawn("postgres-notify", move || telling.tell_all(&to_tell))?,
        spawn("postgres-listen", move || hearing.hear_all(&to_hear))?,
    ])
}

#[derive(Clone)]
struct Notifier {
    server: Arc<Server>,
    wakers: Arc<Wakers>,
    node: String,
}

impl Notifier {
    fn tell_all(&self, words: &async_channel::Receiver<()>) {
        let mut session = None;
        while words.recv_blocking().is_ok() {
            let names = self.wakers.take_told();
            let told = self.session(&mut session).and_then(|client| {
                for name in names {
                    let payload = format!("{} {name}", self.node);
                    client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &payload])?;
                }
                Ok(())
            });
            if let Err(error) = told {
                tracing::debug!(%error, "The other nodes could not be told");
                session = None;
            }
        }
    }

    fn hear_all(&self, words: &async_channel::Receiver<()>) {
        // Until somebody waits here there is nobody to wake.
        while words.recv_blocking().is_ok() {
            while !words.is_closed() {
                if let Err(error) = self.hear(words) {
                    tracing::debug!(%error, "The connection that listens was lost");
                    thread::sleep(PAUSE_AFTER_FAILURE);
                }
            }
        }
    }

    /// Listens until it is to end, or the connection is lost.
    fn hear(&self, words: &async_channel::Receiver<()>) -> Result<(), DatabaseError> {
        let mut session = None;
        let client = self.session(&mut session)?;
        client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
        self.wakers.wake_all();
        while !words.is_closed() {
            let mut notifications = client.notifications();
            let mut heard = notifications.timeout_iter(TURN);
            // While others are busy the time-out begins anew with each word, and never comes.
            while let Some(notification) = heard.next()? {
                if let Some((node, name)) = notification.payload().split_once(' ')
                    && node != self.node
                {
                    self.wakers.wake_named(name);
                }
                if words.is_closed() {
                    return Ok(());
                }
            }
            drop(heard);
            drop(notifications);
            if client.is_closed() {
                return Err(super::closed());
            }
        }
        Ok(())
    }

    fn session<'s>(
        &self,
        session: &'s mut Option<super::Session>,
    ) -> Result<&'s mut postgres::Client, DatabaseError> {
        if session.as_ref().is_none_or(|session| session.client.is_closed()) {
            *session = Some(self.server.connect()?);
        }
        Ok(&mut session.as_mut().expect("it was made above").client)
    }
}
