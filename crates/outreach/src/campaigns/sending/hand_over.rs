//! The hot path: those of a batch who may be written to are handed to the provider, some at a time.
//!
//! The commit that hands the next ones over also has the answers for those before. So there is one commit for each
//! handful, and a crash leaves one handful uncertain at most. While the provider works on one handful, the letters of
//! the next are written. Nobody is claimed for whom there is no place at the provider: a batch takes places for a handful
//! before its first claim, and keeps them for those after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tidings_access::StorageError;
use tidings_delivery::ledger::Source;
use tidings_delivery::pace::Lane;
use tidings_delivery::sent::Line;
use tidings_kernel::{Accepted, EmailAddress, SendError, Sender};

use super::Worker;
use super::entry::{Entry, Run, Written};
use super::marks::{Given, Taken};
use super::paper::{Desk, Person, Unwritten};
use super::places::Held;
use super::rules::{self, Refused};

/// For a turn that comes this soon it is worth to wait; for others the batch goes back to the queue.
const SOON: Duration = Duration::from_millis(250);
/// How long a batch waits for its turns in all, and for its places, while nothing is handed over.
const MOST_WAITS: Duration = Duration::from_secs(2);
/// For so long holds what was asked about people. Whoever is not handed over by then is asked about again: he may have left
/// in the meantime.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// A letter that is ready to go.
struct Ready {
    given: Given,
    email: EmailAddress,
    subject: String,
    template_key: Option<String>,
    mail: tidings_kernel::Mail,
}

/// Why it ended before everybody was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The campaign is not sending any more: what is to be done now, its row says.
    LookAgain,
    Wait(&'static str, Duration),
}

pub(super) struct HandOver<'a> {
    pub(super) worker: &'a Worker,
    pub(super) run: Arc<Run>,
    /// Without one nobody can be written to, and it says why.
    desk: Result<Desk<'a>, &'static str>,
    /// Those whose letters are not written yet.
    pub(super) people: VecDeque<Person>,
    /// What is to be written down with the next commit.
    pub(super) entry: Entry,
    ready: VecDeque<Ready>,
    /// The places of those who are claimed, until their answers are written down.
    held: Option<Held<'a>>,
    /// Those for whom the provider was asked since the last commit.
    asked: Vec<Ready>,
    /// What the send log has to say.
    pub(super) lines: Vec<Line>,
    /// How many the provider has taken.
    pub(super) taken: usize,
}

impl<'a> HandOver<'a> {
    pub(super) fn new(
        worker: &'a Worker,
        run: Arc<Run>,
        desk: Result<Desk<'a>, &'static str>,
        entry: Entry,
    ) -> Self {
        Self {
            worker,
            run,
            desk,
            people: VecDeque::new(),
            entry,
            ready: VecDeque::new(),
            held: None,
            asked: Vec::new(),
            lines: Vec::new(),
            taken: 0,
        }
    }

    /// Hands over as many as it can. What the provider said of the last ones is in `entry`, still to be written down.
    pub(super) async fn run(&mut self) -> Result<Option<Stop>, StorageError> {
        let began = self.worker.access.now();
        let at_once = self.worker.places.handful;
        self.write_some(at_once).await;
        while !self.ready.is_empty() {
            if !self.take_places().await {
                let after = Duration::from_secs(1);
                return Ok(Some(Stop::Wait("the provider has its hands full", after)));
            }
            if self.worker.is_stopped() {
                // If it were interrupted later, nobody would know of those whom the provider has just then.
                return Ok(Some(Stop::Wait("this node stops", Duration::ZERO)));
            }
            let now = self.worker.access.now();
            if now.duration_since(began) > FRESH {
                return Ok(Some(Stop::Wait("it took long", Duration::ZERO)));
            }
            let most = self.ready.len().min(at_once);
            let count = match self.turn(most).await? {
                Ok(count) => count,
                Err(after) => {
                    let after = after.max(Duration::from_secs(1));
                    return Ok(Some(Stop::Wait("its turn has not come", after)));
                }
            };
            let next: Vec<Ready> = self.ready.drain(..count).collect();
            self.entry.claims = next.iter().map(|ready| ready.given.clone()).collect();
            let written = self.commit().await?;
            if !written.sending {
                return Ok(Some(Stop::LookAgain));
            }
            let claimed = |ready: &Ready| written.claimed.contains(&ready.given.id);
            self.asked = next.into_iter().filter(claimed).collect();
            if let Some(stop) = self.ask(at_once).await {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// Sees that it has its places, unless that takes too long: those who are ready must not become old meanwhile.
    async fn take_places(&mut self) -> bool {
        if self.held.is_none() {
            let left = self.ready.len() + self.people.len();
            self.held = self.worker.places.take(left, MOST_WAITS).await;
        }
        self.held.is_some()
    }

    /// Lets others have its places. All answers are written down by then.
    pub(super) fn leave(&mut self) {
        self.held = None;
    }

    /// Hands over whom it has claimed, and writes the next letters meanwhile.
    async fn ask(&mut self, at_once: usize) -> Option<Stop> {
        let asked = std::mem::take(&mut self.asked);
        let sender = Arc::clone(&self.worker.sender);
        let (answers, ()) = join(send_all(sender.as_ref(), &asked), self.write_some(at_once)).await;
        let mut stop = None;
        for (place, answer) in answers {
            let Some(ready) = asked.get(place) else { continue };
            if let Err(error) = &answer
                && let Refused::Stop(after) = rules::refused(error, ready.given.attempts)
            {
                stop = Some(Stop::Wait("the provider takes no mail now", after));
            }
            // The claim has counted the attempt.
            let given = Given::new(ready.given.id, ready.given.attempts + 1);
            self.entry.answers.push((given, answer));
        }
        self.asked = asked;
        stop
    }

    /// Writes letters until so many are ready. Between any two, others come to their turn.
    async fn write_some(&mut self, count: usize) {
        while self.ready.len() < count {
            let Some(person) = self.people.pop_front() else { return };
            self.write(person, self.worker.access.now());
            let mut waited = false;
            std::future::poll_fn(|context| {
                if waited {
                    return Poll::Ready(());
                }
                waited = true;
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    fn write(&mut self, person: Person, now: Timestamp) {
        let given = Given::new(person.row.id, person.row.attempts);
        let template_key = person.paper.template_key().map(ToOwned::to_owned);
        let email = person.email.clone();
        let written = match &self.desk {
            Ok(desk) => desk.write(person, now),
            Err(why) => Err(Unwritten::new("no_sender", *why)),
        };
        match written {
            Ok(written) => self.ready.push_back(Ready {
                given,
                email,
                subject: written.subject,
                template_key,
                mail: written.mail,
            }),
            Err(why) => self.entry.fails.push(given.word(why.kind).text(&why.text)),
        }
    }

    /// Takes the right to hand over up to `most`, and tells how many. `Err` says when to come again, if that is not soon.
    async fn turn(&mut self, most: usize) -> Result<Result<usize, Duration>, StorageError> {
        let mut waits = Duration::ZERO;
        loop {
            let now = self.worker.access.now();
            let not_before = match self.worker.pace.turn(Lane::Campaign, most, now).await {
                Ok(count) => return Ok(Ok(count)),
                Err(not_before) => not_before,
            };
            // Answers are written down before anything is waited for.
            if !self.entry.answers.is_empty() {
                self.commit().await?;
            }
            let wait = not_before.wait_from(now);
            waits += wait;
            if wait > SOON || waits > MOST_WAITS {
                return Ok(Err(wait));
            }
            tidings_jobs::wait(wait).await;
        }
    }

    /// Writes down what there is to write down.
    pub(super) async fn commit(&mut self) -> Result<Written, StorageError> {
        let entry = std::mem::take(&mut self.entry);
        let written = self.worker.write(&self.run, entry).await?;
        self.entry.later.extend_from_slice(&written.put_off);
        let asked = std::mem::take(&mut self.asked);
        self.taken += written.taken.len();
        for taken in &written.taken {
            if let Some(ready) = asked.iter().find(|ready| ready.given.id == taken.id) {
                self.lines.extend(self.line(ready, taken));
            }
        }
        Ok(written)
    }

    fn line(&self, ready: &Ready, taken: &Taken) -> Option<Line> {
        // Who was erased in the meantime has no log.
        taken.email.as_ref()?;
        Some(Line {
            email: ready.email.clone(),
            at: taken.logged_at,
            source: Source::Recipient(taken.id),
            subject: ready.subject.clone(),
            template_key: ready.template_key.clone(),
            sequence_id: Some(self.run.campaign.key()),
            awaited: false,
            provider_message_id: taken.provider_message_id.clone(),
        })
    }
}

impl HandOver<'_> {
    /// The line of somebody who was sent to before.
    pub(super) fn line_of(&self, person: Person, now: Timestamp) -> Option<Line> {
        let at = person.row.logged_at?;
        let (email, source) = (person.email.clone(), person.row.source());
        let provider_message_id = person.row.provider_message_id.clone();
        let template_key = person.paper.template_key().map(ToOwned::to_owned);
        let subject = self.desk.as_ref().ok().and_then(|desk| desk.subject(person, now));
        Some(Line {
            email,
            at,
            source,
            // It was rendered when it was sent, so it can be rendered; and if not, the line says what it was part of.
            subject: subject.unwrap_or_else(|| self.run.campaign.name.clone()),
            template_key,
            sequence_id: Some(self.run.campaign.key()),
            awaited: false,
            provider_message_id,
        })
    }
}

/// The answers as they come, each with the place of its letter.
async fn send_all(
    sender: &dyn Sender,
    letters: &[Ready],
) -> Vec<(usize, Result<Accepted, SendError>)> {
    let mut under_way = FuturesUnordered::new();
    for (place, ready) in letters.iter().enumerate() {
        under_way.push(async move { (place, sender.send(&ready.mail).await) });
    }
    let mut answers = Vec::with_capacity(letters.len());
    while let Some(answer) = under_way.next().await {
        answers.push(answer);
    }
    answers
}
