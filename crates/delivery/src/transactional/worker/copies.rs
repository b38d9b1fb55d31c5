//! Handing over the copies that the server did not take with their message: each in a mail of its own, to nobody else.
//!
//! They go the way of a message: everything that can go wrong happens before the claim, and the claim is the last commit
//! before the server is asked. The queue keeps the message until each of them has its end.

use std::time::Duration;

use tidings_access::{Cx, StorageError};
use tidings_jobs::Outcome;
use tidings_kernel::{EmailAddress, Mail, SendError};
use tidings_sql::DatabaseError;
use tokio::sync::Semaphore;

use super::prepare::COPY;
use super::{Worker, overtaken, tell_turned_away};
use crate::eligibility::{self, Verdict};
use crate::ledger::{answers, insist};
use crate::transactional::copies::{self, CopyStatus, LateCopy, Next};
use crate::transactional::store::Sendable;

/// The next copy is looked at after this.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Worker {
    /// Sees to one copy of a message that was sent, and says when to come again for the others.
    pub(super) async fn see_to_copies(
        &self,
        row: &Sendable,
        places: Option<&Semaphore>,
    ) -> Result<Outcome, StorageError> {
        let id = row.id;
        match copies::next(&row.late_copies, self.access.now()) {
            Next::Nothing => Ok(Outcome::Done),
            Next::Wait(after) => Ok(Outcome::wait(format!("copies of message {id} wait"), after)),
            Next::GiveUp(copy) => {
                tracing::warn!(message.id = %id, "Nobody knows whether a copy of message {id} was sent");
                let why = "it was handed over, and the process ended before an answer came";
                let ended = copy.clone().ended(CopyStatus::Uncertain, why);
                self.change_copy(row, (copy, ended)).await
            }
            Next::Send(copy) => self.send_copy(row, copy, places).await,
        }
    }

    async fn send_copy(
        &self,
        row: &Sendable,
        copy: &LateCopy,
        places: Option<&Semaphore>,
    ) -> Result<Outcome, StorageError> {
        let id = row.id;
        // Who was erased has no message, and so nobody gets a copy of it.
        let Some(cx) = self.access.working_for(row.workspace).await? else {
            return Ok(Outcome::Done);
        };
        let Some(to) = row.email.as_deref().and_then(|text| text.parse().ok()) else {
            return Ok(Outcome::Done);
        };
        let mail = match self.mail_of_copy(&cx, row, (&to, copy)).await? {
            Ok(mail) => mail,
            Err((status, why)) => {
                let ended = copy.clone().ended(status, &why);
                return self.change_copy(row, (copy, ended)).await;
            }
        };
        let now = self.access.now();
        if let Err(not_before) = self.pace.turn(row.purpose.lane(), 1, now).await {
            let after = answers::until(not_before.0, now);
            return Ok(Outcome::wait(format!("a copy of message {id} waits for its turn"), after));
        }
        let place = match places {
            // It is closed by nobody.
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        let claimed = copy.clone().claimed(self.access.now());
        if self.changed(row, (copy, &claimed), None).await?.is_none() {
            return Ok(overtaken(row));
        }
        let answer = self.sender.send(&mail).await;
        drop(place);
        let error = answer.err();
        let answered = claimed.clone().answered(error.as_ref(), self.access.now());
        let write = || self.changed(row, (&claimed, &answered), error.as_ref());
        let copies = insist(&self.access, write).await?;
        tracing::info!(message.id = %id, "A copy of message {id} is {}", answered.status.as_str());
        Ok(self.after(row, copies.as_deref()))
    }

    /// The message as it was handed over, to one who was to get a copy. Or why he gets none.
    async fn mail_of_copy(
        &self,
        cx: &Cx,
        row: &Sendable,
        (to, copy): (&EmailAddress, &LateCopy),
    ) -> Result<Result<Mail, (CopyStatus, String)>, StorageError> {
        let Ok(address) = copy.to.parse::<EmailAddress>() else {
            return Ok(Err((CopyStatus::Failed, "its address cannot be read".to_owned())));
        };
        let asked = COPY.question(row.client, address.clone());
        match eligibility::check(cx, &asked).await?.verdict {
            Verdict::Send => {}
            Verdict::Skip(reason) | Verdict::Defer { reason, .. } => {
                return Ok(Err((CopyStatus::Skipped, reason.as_str().to_owned())));
            }
        }
        let ready = self.prepare(cx, row, to).await?;
        Ok(match ready {
            Ok(ready) => Ok(Mail { to: vec![address], ..ready.mail }),
            Err(why) => Err((CopyStatus::Failed, why)),
        })
    }

    async fn change_copy(
        &self,
        row: &Sendable,
        (before, after): (&LateCopy, LateCopy),
    ) -> Result<Outcome, StorageError> {
        let copies = self.changed(row, (before, &after), None).await?;
        Ok(self.after(row, copies.as_deref()))
    }

    /// What is left to do after a change, if it was made.
    pub(super) fn after(&self, row: &Sendable, copies: Option<&[LateCopy]>) -> Outcome {
        let Some(copies) = copies else { return overtaken(row) };
        let id = row.id;
        match copies::next(copies, self.access.now()) {
            Next::Nothing => Outcome::Done,
            Next::Wait(after) => Outcome::wait(format!("copies of message {id} wait"), after),
            Next::Send(_) | Next::GiveUp(_) => {
                Outcome::wait(format!("message {id} has other copies"), AT_ONCE)
            }
        }
    }

    /// Changes a copy that is still as it was, and tells all of them as they are then. What the server said of the address
    /// is told in the same commit.
    async fn changed(
        &self,
        row: &Sendable,
        (before, after): (&LateCopy, &LateCopy),
        error: Option<&SendError>,
    ) -> Result<Option<Vec<LateCopy>>, StorageError> {
        let (row, before, after) = (row.clone(), before.clone(), after.clone());
        let (error, now) = (error.cloned(), self.access.now());
        let change = self.access.database().write(move |tx| {
            let changed = copies::change(tx, row.id, (&before, &after))?;
            if let (Some(_), Some(error)) = (&changed, &error) {
                tell_turned_away(tx, &row, (Some(&after.to), error), now)?;
            }
            Ok::<_, DatabaseError>(changed)
        });
        Ok(change.await?)
    }
}
