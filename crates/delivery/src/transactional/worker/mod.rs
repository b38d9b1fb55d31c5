//! The worker of `transactional-email` and of `sequence-email`: from a row to the provider, once.
//!
//! The mail is made in `prepare`. What is decided is in `rules`, and each change of the row in `marks`. Everything that can go wrong before the
//! provider is called happens before the claim; the claim, which also says that the message is being handed over, is
//! the last commit before the call, and there is a place for the message at the provider by then. So a crash leaves a
//! message either untouched or uncertain, and never sent twice.
//! The queue keeps its message until the send log has its line.

mod copies;
mod given_up;
mod prepare;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_access::{Access, Cx, StorageError};
use tidings_jobs::contracts::TransactionalEmail;
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{Accepted, EmailAddress, Lane, SendError, Sender};
use tidings_sql::{DatabaseError, Tx};
use tokio::sync::Semaphore;

use self::prepare::Ready;
use super::copies::LateCopy;
use super::letter::{self, Text};
use super::manage::is_key_of;
use super::marks::{self, Frozen};
use super::news::{self, News};
use super::rules::{self, Step};
use super::store::{self, Sendable};
use super::{MessageId, Status, reminder, sequence};
use crate::eligibility::rules::Cap;
use crate::eligibility::{self, Claiming, Reason, Verdict};
use crate::ledger::answers::{self, Refusal};
use crate::ledger::insist;
use crate::ledger::turned_away::{self, TurnedAway};
use crate::links::Links;
use crate::pace::Pace;
use crate::sent::{self, Line};
use crate::templates::Templates;

/// How long a message waits that somebody else was faster with.
const A_MOMENT: Duration = Duration::from_secs(5);
/// How long a message waits while a store cannot be used. It may be for as long as that takes.
const STORE_PAUSE: Duration = Duration::from_secs(15);

/// What came of asking for a message.
enum Claim {
    Made,
    Overtaken,
    /// The person has had enough since it was asked whether he may get it.
    PutOff(Timestamp),
}

/// What a worker stands on. Clones share it.
#[derive(Clone)]
pub struct Worker {
    pub access: Access,
    pub templates: Templates,
    pub links: Links,
    pub sender: Arc<dyn Sender>,
    pub pace: Arc<Pace>,
    pub settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Names this process in the claims.
    pub node: String,
    /// How long the send log is kept, if not for ever.
    pub ttl_days: Option<u32>,
}

impl Worker {
    pub fn handler(&self) -> Arc<dyn Handler> {
        let places = self.sender.at_once().map(Semaphore::new);
        for_contract(Bounded { worker: self.clone(), places })
    }
}

/// A worker, and how many messages it may have claimed at once: as many as the provider carries. What is claimed and
/// still waits for a connection would be uncertain after a crash, although it never left.
struct Bounded {
    worker: Worker,
    places: Option<Semaphore>,
}

#[async_trait]
impl Work<TransactionalEmail> for Bounded {
    async fn work(&self, message: TransactionalEmail) -> Outcome {
        let id = message.transactional_message_id;
        match self.worker.deliver(&message, self.places.as_ref()).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let causes = tidings_kernel::causes(&error);
                let reason = format!("message {id} could not be worked on: {causes}");
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }

    async fn given_up(&self, message: TransactionalEmail, reason: &str) {
        let id = message.transactional_message_id;
        if let Err(error) = self.worker.give_up(&message, reason).await {
            let error = tidings_kernel::causes(&error);
            tracing::error!(
                message.id = id,
                error,
                "Message {id} was given up, and could not be marked"
            );
        }
    }
}

impl Worker {
    async fn deliver(
        &self,
        message: &TransactionalEmail,
        places: Option<&Semaphore>,
    ) -> Result<Outcome, StorageError> {
        let id = message.transactional_message_id;
        let Some(row) = self.access.database().glance(move |tx| store::sendable(tx, id)).await?
        else {
            return Ok(Outcome::retry(format!("there is no transactional message {id}")));
        };
        if row.client.get() != message.client_id
            || !is_key_of((row.id, &row.key), &message.idempotency_key)
        {
            return Ok(Outcome::dead(format!(
                "transactional message {id} is another client's, or has another idempotency key"
            )));
        }
        let now = self.access.now();
        match rules::next(&row.state, now) {
            Step::Acknowledge => Ok(Outcome::Done),
            Step::Log => {
                self.log(&row).await?;
                self.see_to_copies(&row, places).await
            }
            Step::Wait(after) => {
                Ok(Outcome::wait(format!("message {id} is not to be sent now"), after))
            }
            Step::GiveUp => {
                let gone = row.clone();
                let give_up = move |tx: &mut Tx<'_>| {
                    let marked = marks::uncertain(tx, &gone, now)?;
                    if marked {
                        reminder::tell_of(tx, &gone, now)?;
                    }
                    Ok(marked)
                };
                if !self.mark(give_up).await? {
                    return Ok(overtaken(&row));
                }
                tracing::warn!(message.id = id, "Nobody knows whether message {id} was sent");
                Ok(Outcome::Done)
            }
            Step::Revive => {
                let gone = row.clone();
                let revived = self.mark(move |tx| marks::revived(tx, &gone, now)).await?;
                if !revived {
                    return Ok(Outcome::Done);
                }
                tracing::info!(message.id = id, "Message {id} was given up, and is tried again");
                self.send(row, places).await
            }
            Step::Send => self.send(row, places).await,
        }
    }

    async fn send(
        &self,
        row: Sendable,
        places: Option<&Semaphore>,
    ) -> Result<Outcome, StorageError> {
        let id = row.id;
        let Some(cx) = self.access.working_for(row.workspace).await? else {
            return Ok(Outcome::dead(format!("message {id} is of no workspace")));
        };
        let to = row.email.as_deref().and_then(|text| text.parse::<EmailAddress>().ok());
        let Some(to) = to else { return self.fail(&cx, &row, "its address cannot be read").await };
        let asked = row.purpose.question(row.client, to.clone());
        let (explanation, cap) = eligibility::check_capped(&cx, &asked).await?;
        match explanation.verdict {
            Verdict::Send => {}
            Verdict::Skip(reason) => return self.skip(&cx, &row, reason.as_str()).await,
            Verdict::Defer { reason, until } => return Ok(put_off(id, reason, (until, cx.now()))),
        }
        let now = self.access.now();
        if let Err(not_before) = self.pace.turn(row.purpose.lane(), 1, now).await {
            let after = answers::until(not_before.0, now);
            return Ok(Outcome::wait(format!("message {id} waits for its turn"), after));
        }
        let ready = match self.prepare(&cx, &row, &to).await? {
            Ok(ready) => ready,
            Err(why) => return self.fail(&cx, &row, &why).await,
        };
        let place = match places {
            // It is closed by nobody.
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        match self.claim(&row, &ready, cap).await? {
            Claim::Made => {}
            Claim::Overtaken => return Ok(overtaken(&row)),
            Claim::PutOff(until) => {
                return Ok(put_off(id, Reason::FrequencyCap, (until, self.access.now())));
            }
        }
        let answer = self.sender.send(&ready.mail).await;
        drop(place);
        match answer {
            Ok(accepted) => {
                let row = self.accepted(&cx, row, ready.content, accepted).await?;
                let Some(row) = row else { return Ok(Outcome::Done) };
                self.log(&row).await?;
                // Copies are made of what the row says then: this one is from before it was rendered.
                Ok(self.after(&row, Some(&row.late_copies)))
            }
            Err(error) => self.refused(&cx, &row, &error).await,
        }
    }

    /// The last commit before the provider is called.
    async fn claim(
        &self,
        row: &Sendable,
        ready: &Ready,
        cap: Option<Cap>,
    ) -> Result<Claim, DatabaseError> {
        let (row, node, now) = (row.clone(), self.settings.node.clone(), self.access.now());
        let (content, message_id) = (ready.content.clone(), ready.message_id.clone());
        let database = match row.purpose.lane() {
            Lane::Transactional => self.access.database().urgent(),
            Lane::Campaign => self.access.database().clone(),
        };
        let claim = database.write_committed(move |tx| {
            if let Some(until) = had_enough(tx, &row, cap, now)? {
                return Ok(Claim::PutOff(until));
            }
            let frozen = Frozen {
                subject: &content.subject,
                html: content.html.as_deref(),
                text: &content.text,
                message_id: &message_id,
            };
            let claimed = marks::claim(tx, &row, &node, &frozen, now)?;
            Ok(if claimed { Claim::Made } else { Claim::Overtaken })
        });
        claim.await
    }

    /// The row as it is now. `None` if it did not wait for this answer.
    async fn accepted(
        &self,
        cx: &Cx,
        mut row: Sendable,
        content: Text,
        accepted: Accepted,
    ) -> Result<Option<Sendable>, StorageError> {
        let (provider, now) = (self.sender.name(), self.access.now());
        let (cx, claimed, provider_id) = (cx.clone(), row.clone(), accepted.provider_id.clone());
        let left_out = accepted.left_out;
        let refused: Vec<_> =
            left_out.iter().map(|(to, error)| LateCopy::refused(to, error, now)).collect();
        let known = self.insist(move |tx| {
            let answer = (provider, provider_id.as_deref(), refused.as_slice());
            let known = marks::accepted(tx, &claimed, answer, now)?;
            if known.is_some() {
                news::tell(&cx, tx, &claimed, &News::Sent, now)?;
                reminder::tell_of(tx, &claimed, now)?;
                for (to, error) in &left_out {
                    tell_turned_away(tx, &claimed, (Some(to.as_str()), error), now)?;
                }
            }
            Ok(known)
        });
        let Some(known) = known.await? else {
            let id = row.id;
            tracing::warn!(message.id = %id, "An answer for message {id} came when it had its end");
            return Ok(None);
        };
        tracing::info!(message.id = %row.id, provider, "Message {} accepted by {provider}", row.id);
        row.content = Some(store::Source { subject: content.subject, html: None, text: None });
        row.email = known.email;
        row.provider_message_id = accepted.provider_id;
        row.logged_at = Some(known.logged_at);
        row.late_copies = known.late_copies;
        Ok(Some(row))
    }

    async fn refused(
        &self,
        cx: &Cx,
        row: &Sendable,
        error: &SendError,
    ) -> Result<Outcome, StorageError> {
        let id = row.id;
        let before = u32::try_from(row.attempts).unwrap_or(u32::MAX - 1);
        let (refusal, provider) = (answers::refused_again(error, before), self.sender.name());
        let (claimed, said, now) = (row.clone(), error.clone(), self.access.now());
        let (cx, decided) = (cx.clone(), refusal.clone());
        let known = self.insist(move |tx| {
            let text = said.to_string();
            let became = marks::refused(tx, &claimed, &decided, (provider, &text), now)?;
            let status = became.map(|(status, _)| status);
            if status == Some(Status::Failed) {
                news::tell(&cx, tx, &claimed, &News::Failed, now)?;
            }
            if matches!(status, Some(Status::Failed | Status::Bounced | Status::Uncertain)) {
                reminder::tell_of(tx, &claimed, now)?;
            }
            if status == Some(Status::Bounced) {
                tell_turned_away(tx, &claimed, (claimed.email.as_deref(), &said), now)?;
            }
            Ok(became)
        });
        let became = known.await?;
        // What the provider said is in the row: it may name a person.
        Ok(match refusal {
            Refusal::Again if matches!(became, Some((Status::Failed, _))) => {
                tracing::warn!(message.id = %id, provider, "Message {id} was refused too often");
                Outcome::Done
            }
            Refusal::Failed | Refusal::Bounced => {
                tracing::info!(message.id = %id, provider, "Message {id} was refused for good");
                Outcome::Done
            }
            // It does not count as a delivery of the queue: the row counts by itself, and the queue would not wait as long.
            Refusal::Again => {
                let times = became.map_or(1, |(_, times)| times);
                let reason = format!("the provider did not take message {id} now");
                Outcome::wait(reason, answers::not_now(times))
            }
            Refusal::Later(after) => {
                Outcome::wait(format!("the provider takes no mail now; message {id} waits"), after)
            }
            Refusal::Uncertain => {
                tracing::warn!(message.id = %id, provider, "Nobody knows whether message {id} was sent");
                Outcome::Done
            }
        })
    }

    /// Sees that the send log has its line.
    async fn log(&self, row: &Sendable) -> Result<(), StorageError> {
        // Who was erased in the meantime has no log.
        let email = row.email.as_deref().and_then(|text| text.parse().ok());
        let (Some(email), Some(cx)) = (email, self.access.working_for(row.workspace).await?) else {
            return Ok(());
        };
        let at = match row.logged_at {
            Some(at) => at,
            None => {
                let (row, now) = (row.clone(), self.access.now());
                self.mark(move |tx| marks::logged(tx, &row, now)).await?
            }
        };
        let line = Line {
            email,
            at,
            source: letter::source(row),
            subject: row.content.as_ref().map_or(String::new(), |content| content.subject.clone()),
            template_key: row.template.as_ref().map(|(key, _)| key.clone()),
            sequence_id: row.purpose.sequence.clone(),
            awaited: row.purpose.is_awaited_part(),
            provider_message_id: row.provider_message_id.clone(),
        };
        sent::record(&cx, &line, self.settings.ttl_days).await.map(drop)
    }

    async fn fail(&self, cx: &Cx, row: &Sendable, why: &str) -> Result<Outcome, StorageError> {
        let (cx, gone, why, now) = (cx.clone(), row.clone(), why.to_owned(), self.access.now());
        let mark = self.mark(move |tx| {
            let marked = marks::failed(tx, &gone, &why, now)?;
            if marked {
                news::tell(&cx, tx, &gone, &News::Failed, now)?;
                reminder::tell_of(tx, &gone, now)?;
            }
            Ok(marked)
        });
        if !mark.await? {
            return Ok(overtaken(row));
        }
        tracing::info!(message.id = %row.id, "Message {} cannot be sent", row.id);
        Ok(Outcome::Done)
    }

    async fn skip(
        &self,
        cx: &Cx,
        row: &Sendable,
        reason: &'static str,
    ) -> Result<Outcome, StorageError> {
        let (cx, gone, now) = (cx.clone(), row.clone(), self.access.now());
        let mark = self.mark(move |tx| {
            let marked = marks::skipped(tx, &gone, reason, now)?;
            if marked {
                news::tell(&cx, tx, &gone, &News::Skipped(reason), now)?;
                reminder::tell_of(tx, &gone, now)?;
                sequence::tell_skipped(tx, &cx, &gone.purpose, gone.id)?;
            }
            Ok(marked)
        });
        if !mark.await? {
            return Ok(overtaken(row));
        }
        tracing::info!(message.id = %row.id, reason, "Message {} is not sent", row.id);
        Ok(Outcome::Done)
    }

    async fn mark<T: Send + 'static>(
        &self,
        mark: impl FnMut(&mut Tx<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        self.access.database().write_committed(mark).await
    }

    /// Writes an answer down, however the database stumbles: without it the message is uncertain.
    async fn insist<T: Send + 'static>(
        &self,
        mark: impl Fn(&mut Tx<'_>) -> Result<T, DatabaseError> + Send + Clone + 'static,
    ) -> Result<T, StorageError> {
        let write = move || {
            let mark = mark.clone();
            async move { Ok(self.mark(move |tx| mark(tx)).await?) }
        };
        insist(&self.access, write).await
    }
}

/// Tells that nobody is at an address, if that is what the server said.
fn tell_turned_away(
    tx: &mut Tx<'_>,
    row: &Sendable,
    (email, said): (Option<&str>, &SendError),
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let (Some(email), SendError::NoSuchAddress { reason, status }) = (email, said) else {
        return Ok(());
    };
    let (workspace, source, attempt) = (row.workspace, letter::source(row), row.attempts + 1);
    let turned_away = TurnedAway { workspace, source, attempt, email, status, said: reason };
    turned_away::tell(tx, &turned_away, now)
}

/// Until when the person must not get it, if there is a cap, counting what is handed over just now.
fn had_enough(
    tx: &mut Tx<'_>,
    row: &Sendable,
    cap: Option<Cap>,
    now: Timestamp,
) -> Result<Option<Timestamp>, DatabaseError> {
    let (Some(cap), Some(email)) = (cap, row.email.as_deref()) else { return Ok(None) };
    let this = Claiming { source: letter::source(row), contact: row.contact, email };
    let waits = eligibility::put_off(tx, row.workspace, cap, &[this], now)?;
    Ok(waits.into_iter().next().flatten())
}

fn put_off(id: MessageId, reason: Reason, (until, now): (Timestamp, Timestamp)) -> Outcome {
    let after = answers::until(until, now);
    Outcome::wait(format!("message {id} waits: {}", reason.as_str()), after)
}

/// The row is not what it was when it was loaded: it is looked at again.
fn overtaken(row: &Sendable) -> Outcome {
    Outcome::wait(format!("somebody else was faster with message {}", row.id), A_MOMENT)
}
