//! The worker of `confirmation-mail`: sees that those who wait to be asked are asked.
//!
//! A file can make a million people wait at once, so mails are made only while there is room for a campaign's: what others
//! wait for goes before it. Its turn a mail takes when it is handed over, as any other. What cannot be made is given up, and
//! made when it is put back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, Cx, StorageError};
use tidings_jobs::contracts::ConfirmationAsk;
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::causes;
use tidings_people::consent::SubscriptionId;
use tidings_people::consent::confirmations::{self, Request};
use tidings_sql::{Among, DatabaseError, Param};

use super::mail;
use crate::ledger::answers;
use crate::links::Links;
use crate::pace::{Lane, NotBefore, Pace};
use crate::transactional::{AcceptError, Messages, Send};

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How long a mail waits that somebody else is just making.
const A_MOMENT: Duration = Duration::from_secs(5);

/// What the worker stands on.
#[derive(Clone)]
pub struct Worker {
    pub access: Access,
    pub messages: Messages,
    pub links: Links,
    pub pace: Arc<Pace>,
}

impl Worker {
    pub fn handler(self) -> Arc<dyn Handler> {
        for_contract(self)
    }
}

#[async_trait]
impl Work<ConfirmationAsk> for Worker {
    async fn work(&self, message: ConfirmationAsk) -> Outcome {
        match self.ask(&message).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let reason = format!("nobody could be asked to confirm: {}", causes(&error));
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }
}

/// What became of mails that were to be made.
#[derive(Default)]
struct Made {
    count: usize,
    /// Somebody else is making one of them, and may not come to the end of it.
    in_flight: bool,
    /// Why some were not accepted, if so.
    refused: Option<String>,
}

impl Worker {
    async fn ask(&self, message: &ConfirmationAsk) -> Result<Outcome, StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else {
            return Ok(Outcome::Done);
        };
        let mut ids = not_made(&cx, message).await?;
        let mut made = Made::default();
        while !ids.is_empty() {
            let room = match self.pace.room(Lane::Campaign, ids.len(), self.access.now()).await {
                Ok(room) => made.count + room,
                Err(not_before) => return Ok(self.wait(ids.len(), not_before)),
            };
            self.links.refresh(cx.now()).await?;
            while made.count < room && !ids.is_empty() {
                // Who is not to be asked takes no room, and another one has it.
                let rest = ids.split_off(ids.len().min(room - made.count));
                self.make(&cx, message, ids, &mut made).await?;
                ids = rest;
            }
        }
        Ok(match made.refused {
            _ if made.in_flight => Outcome::wait("somebody else makes the same mail", A_MOMENT),
            Some(why) => Outcome::dead(format!("people could not be asked to confirm: {why}")),
            None => Outcome::Done,
        })
    }

    fn wait(&self, left: usize, not_before: NotBefore) -> Outcome {
        let after = answers::until(not_before.0, self.access.now());
        Outcome::wait(format!("{left} mails wait for their turn"), after)
    }

    async fn make(
        &self,
        cx: &Cx,
        message: &ConfirmationAsk,
        ids: Vec<SubscriptionId>,
        made: &mut Made,
    ) -> Result<(), StorageError> {
        let asked = confirmations::request_all(cx, ids, message.send).await?;
        // Who has confirmed or left meanwhile, or was asked often enough today, is not asked.
        let requests = asked.into_iter().filter_map(Result::ok);
        let to_mail = |request: Request| {
            let id = request.subscription.id.get();
            let url = self.links.confirm(cx.workspace_id().get(), id);
            mail(request, message.client_id.into(), url)
        };
        let mails: Vec<Send> = requests.map(to_mail).collect();
        if mails.is_empty() {
            return Ok(());
        }
        for answer in self.messages.accept_many(cx, mails).await.map_err(stored)? {
            match answer {
                // With another key the link is another text, and the mail is the one that was made before.
                Ok(_) | Err(AcceptError::KeyReused(_)) => made.count += 1,
                Err(AcceptError::InFlight) => made.in_flight = true,
                Err(AcceptError::Store(error)) => return Err(error),
                Err(error) => made.refused = Some(causes(&error)),
            }
        }
        Ok(())
    }
}

fn stored(error: AcceptError) -> StorageError {
    match error {
        AcceptError::Store(error) => error,
        // There is at least one mail, and a message names no more than a batch has.
        _ => DatabaseError::NoRow.into(),
    }
}

/// Those whose mail is no message yet, by its key: whoever made it necessary mostly makes it himself. It may be another client who
/// was asked for the same audience.
async fn not_made(cx: &Cx, message: &ConfirmationAsk) -> Result<Vec<SubscriptionId>, StorageError> {
    let (workspace, send) = (cx.workspace_id().get(), message.send);
    let named = message.subscriptions.clone();
    let look = cx.database().glance(move |tx| {
        let sql = "SELECT s.id FROM {given} JOIN subscriptions s ON s.id = given.value
                   WHERE s.workspace_id = $1 AND EXISTS (
                       SELECT 1 FROM clients JOIN transactional_messages one
                         ON one.workspace_id = $1 AND one.client_id = clients.id
                         AND one.idempotency_key = 'confirm:' || CAST(s.id AS TEXT) || $2
                       WHERE clients.workspace_id = $1)";
        let after = format!(":{send}");
        let params = [Param::Int(workspace), Param::Text(&after)];
        let rows = tx.query_among(sql, &params, Among::Ints(&named))?;
        rows.iter().map(|row| row.int(0)).collect::<Result<HashSet<i64>, DatabaseError>>()
    });
    let made = look.await?;
    let ids = message.subscriptions.iter().filter(|id| !made.contains(id));
    Ok(ids.copied().map(SubscriptionId::from).collect())
}
