//! Telling the other nodes, by `NOTIFY`, and hearing from them, by `LISTEN`.
//!
//! Each has a thread and, from its first use, a connection. The notification is not part of the transaction that it
//! is about: PostgreSQL lets only one notifying transaction commit at a time, and waits for the disk meanwhile. One
//! that is lost with its node costs those who wait a moment, until they look by themselves.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator as _;

use super::super::wakers::{Heard, Told};
use super::super::{DatabaseError, Wakers, spawn};
use super::Server;

const CHANNEL: &str = "tidings";
/// How long a thread that listens takes to notice that it is to end.
const TURN: Duration = Duration::from_millis(250);
/// PostgreSQL takes less than 8,000 bytes.
const MAX_PAYLOAD: usize = 7_900;
/// What begins a notification with words, after the node: `=<topic>`, and a line for each. Names of queues begin otherwise.
const WORDS: char = '=';
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
            let payloads = payloads(&self.node, &self.wakers.take_told());
            let told = self.session(&mut session).and_then(|client| {
                for payload in &payloads {
                    client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, payload])?;
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
                    self.pass_on(name);
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

    fn pass_on(&self, told: &str) {
        let Some(words) = told.strip_prefix(WORDS) else { return self.wakers.wake_named(told) };
        let mut lines = words.lines();
        let topic = lines.next().unwrap_or_default();
        let mut lines = lines.peekable();
        if lines.peek().is_none() {
            self.wakers.heard(topic, Heard::Missed);
        }
        for word in lines {
            self.wakers.heard(topic, Heard::Word(word.into()));
        }
    }

    fn session<'s>(
        &self,
        session: &'s mut Option<postgres::Client>,
    ) -> Result<&'s mut postgres::Client, DatabaseError> {
        if session.as_ref().is_none_or(postgres::Client::is_closed) {
            let mut client = self.server.dial()?;
            // A notification is a commit; one that a crash loses is one that nobody needs any more.
            client.batch_execute("SET synchronous_commit = off")?;
            *session = Some(client);
        }
        Ok(session.as_mut().expect("it was made above"))
    }
}

/// As few notifications as it takes.
fn payloads(node: &str, told: &Told) -> Vec<String> {
    let mut payloads: Vec<String> =
        told.names.iter().map(|name| format!("{node} {name}")).collect();
    payloads.extend(told.missed.iter().map(|topic| format!("{node} {WORDS}{topic}")));
    let mut open: Option<(&str, String)> = None;
    for (topic, word) in &told.words {
        match &mut open {
            Some((last, payload))
                if last == topic && payload.len() + 1 + word.len() <= MAX_PAYLOAD =>
            {
                payload.push('\n');
                payload.push_str(word);
            }
            _ => {
                let begun = format!("{node} {WORDS}{topic}\n{word}");
                payloads.extend(open.replace((topic, begun)).map(|(_, payload)| payload));
            }
        }
    }
    payloads.extend(open.map(|(_, payload)| payload));
    payloads
}

#[cfg(test)]
mod tests {
    use super::{MAX_PAYLOAD, Told, payloads};

    #[test]
    fn words_share_a_notification_as_far_as_they_fit() {
        let mut told = Told::default();
        told.names.insert("probe");
        told.missed.insert("other");
        for number in 0..100 {
            told.words.insert(("inbox", format!("{number:0>200}")));
        }
        told.words.insert(("other", "last".to_owned()));
        let payloads = payloads("n", &told);
        assert_eq!(payloads[..2], ["n probe".to_owned(), "n =other".to_owned()]);
        assert_eq!(payloads.len(), 2 + 3 + 1);
        assert!(payloads.iter().all(|payload| payload.len() <= MAX_PAYLOAD));
        let words = payloads[2..].iter().flat_map(|payload| payload.lines().skip(1)).count();
        assert_eq!(words, 101);
        assert_eq!(payloads[5], "n =other\nlast");
    }
}
