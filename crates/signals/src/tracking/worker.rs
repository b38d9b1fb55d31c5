//! The worker of `email-events`: what our own endpoints saw becomes an engagement event, counted once.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value as Json;
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_delivery::links::{Addressee, ReadError, has_our_form};
use tidings_jobs::contracts::{EmailEvent, EventType};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::EmailAddress;
use tidings_people::consent::Proof;
use tidings_sql::{DatabaseError, Param};

use super::choices::{self, Scope};
use super::verdict::{Action, Facts, decide};
use super::{ChoiceError, Tracking, evidence, reader, recompute};
use crate::events::{Event, EventKind, RecordError, Recorded, STORE_PAUSE, record};

/// Who works on `email-events`. After `keep_days` what was seen is forgotten, but stays counted.
pub fn handler(tracking: Tracking, keep_days: Option<u32>) -> Arc<dyn Handler> {
    for_contract(Worker { tracking, keep_days })
}

struct Worker {
    tracking: Tracking,
    keep_days: Option<u32>,
}

/// Why an event is not recorded.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("event {0} is not about a message of ours")]
    Foreign(String),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the event could not be worked on")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for WorkError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

#[async_trait]
impl Work<EmailEvent> for Worker {
    async fn work(&self, event: EmailEvent) -> Outcome {
        let error = match self.record(event).await {
            Ok(()) => return Outcome::Done,
            Err(error) => error,
        };
        let reason = tidings_kernel::causes(&error).to_string();
        let (wait, passing) = match &error {
            WorkError::Foreign(_) => (None, false),
            WorkError::Record(error) => (error.wait_for(), error.is_passing()),
            WorkError::Store(error) => (error.is_passing().then_some(STORE_PAUSE), false),
        };
        match wait {
            Some(after) => Outcome::wait(reason, after),
            None if passing => Outcome::retry(reason),
            None => Outcome::dead(reason),
        }
    }
}

impl Worker {
    async fn record(&self, event: EmailEvent) -> Result<(), WorkError> {
        let (workspace, source, to) = self.about(&event).await?;
        let access = &self.tracking.access;
        let foreign = || WorkError::Foreign(event.event_id.clone());
        let cx = access.working_for(workspace).await?.ok_or_else(foreign)?;
        let found = cx.database().read(move |tx| Message::find(tx, source)).await?;
        let found = found.filter(|message| message.workspace == workspace);
        // The row is written before its links are: it is there, or it never was.
        let message = found.ok_or_else(foreign)?;
        // Nothing is kept of whoever is erased.
        let Some(email) = &message.email else { return Ok(()) };
        let email: EmailAddress = email.parse().map_err(|_| foreign())?;
        match event.event_type {
            EventType::Open => self.saw(&cx, &event, (&message, email), Action::Open).await,
            EventType::Click => self.saw(&cx, &event, (&message, email), Action::Click).await,
            EventType::Unsubscribe => {
                let mut recorded = Event::new(
                    event.idempotency_key.as_str(),
                    EventKind::Unsubscribe,
                    email,
                    event.occurred_at,
                );
                recorded.source = Some(source);
                recorded.keep_days = self.keep_days;
                record(&cx, recorded).await?;
                match to {
                    Some(to) => self.take_back(&cx, to, &event).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// The workspace and the row. A token of ours proves them. Without one, or with one of another system's making,
    /// whoever could write into the queue is believed, and the row says whose it is.
    async fn about(
        &self,
        event: &EmailEvent,
    ) -> Result<(i64, Source, Option<Addressee>), WorkError> {
        let foreign = || WorkError::Foreign(event.event_id.clone());
        let named = match (event.campaign_recipient_id, event.transactional_message_id) {
            (Some(id), _) => Some(Source::Recipient(id)),
            (None, Some(id)) => Some(Source::Transactional(id)),
            (None, None) => None,
        };
        let token = event.tracking_token.as_deref();
        let Some(token) = token.filter(|token| has_our_form(token) || named.is_none()) else {
            let source = named.ok_or_else(foreign)?;
            let database = self.tracking.access.database();
            let found = database.read(move |tx| Message::find(tx, source)).await?;
            return Ok((found.ok_or_else(foreign)?.workspace, source, None));
        };
        let (links, now) = (&self.tracking.links, self.tracking.access.now());
        let read = match event.event_type {
            EventType::Open => links.read_open(token, now).await,
            EventType::Click => {
                links.read_click(token, event.url.as_deref().unwrap_or_default(), now).await
            }
            EventType::Unsubscribe => match links.read_unsubscribe(token, now).await {
                Err(ReadError::Invalid) => links.read_preferences(token, now).await,
                read => read,
            },
        };
        let to = match read {
            Ok(to) => to,
            Err(ReadError::Invalid) => return Err(foreign()),
            Err(ReadError::Store(error)) => return Err(error.into()),
        };
        if named.is_some_and(|named| named != to.source) {
            return Err(foreign());
        }
        Ok((to.workspace, to.source, Some(to)))
    }

    /// Somebody or something opened or clicked.
    async fn saw(
        &self,
        cx: &Cx,
        event: &EmailEvent,
        (message, email): (&Message, EmailAddress),
        action: Action,
    ) -> Result<(), WorkError> {
        let (at, source) = (event.occurred_at, message.source);
        let said = said(event, action);
        let way = evidence::way(cx, source).await?;
        let clicks = match action {
            Action::Click => evidence::clicks(cx, message, &email, recompute::near(at)).await?,
            Action::Open => Vec::new(),
        };
        let facts = evidence::complete(said, at, way, (event.url.as_deref(), &clicks));
        let kind = match action {
            Action::Open => EventKind::Open,
            Action::Click => EventKind::Click,
        };
        let mut seen = Event::new(event.idempotency_key.as_str(), kind, email.clone(), at);
        seen.source = Some(source);
        seen.keep_days = self.keep_days;
        seen.url.clone_from(&event.url);
        seen.user_agent.clone_from(&facts.user_agent);
        seen.verdict = Some(decide(&facts).json(&facts));
        let recorded = record(cx, seen).await?;
        // Also if it was recorded before: the one who did may have died here.
        if facts.other_links_2s > 0 && recorded != Recorded::Erased {
            recompute::recompute_around(cx, message, &email, at).await?;
        }
        Ok(())
    }

    /// Carries out what the reader asked for, should whoever took it in have died before. What he has said since then
    /// counts, so nothing is done once there is anything newer.
    async fn take_back(&self, cx: &Cx, to: Addressee, event: &EmailEvent) -> Result<(), WorkError> {
        let Some(reader) = reader::find(&self.tracking.access, to).await? else { return Ok(()) };
        let (workspace, contact) = (cx.workspace_id().get(), reader.contact);
        let since = event.occurred_at.as_millisecond();
        let sql = "SELECT id FROM consent_log
                   WHERE workspace_id = $1 AND lead_id = $2 AND happened_at > $3 LIMIT 1";
        let newer = cx.database().read(move |tx| {
            tx.query(sql, &[Param::Int(workspace), Param::Int(contact), Param::Int(since)])
        });
        if !newer.await?.is_empty() {
            return Ok(());
        }
        let word =
            event.metadata.as_ref().and_then(|said| said.get("scope")).and_then(Json::as_str);
        let scope = word.and_then(Scope::from_word).unwrap_or_else(|| Scope::of(&to));
        match choices::leave(&reader, scope, Proof::default()).await {
            // Whom or what it was about is gone meanwhile.
            Ok(()) | Err(ChoiceError::Nobody | ChoiceError::NotOffered) => Ok(()),
            Err(ChoiceError::Store(error)) => Err(error.into()),
            Err(ChoiceError::Invalid | ChoiceError::Suppressed | ChoiceError::Expired) => {
                Err(WorkError::Foreign(event.event_id.clone()))
            }
        }
    }
}

/// What the request said of itself.
fn said(event: &EmailEvent, action: Action) -> Facts {
    let said = |name: &str| event.metadata.as_ref().and_then(|metadata| metadata.get(name));
    let text = |name: &str| said(name).and_then(Json::as_str).map(str::to_owned);
    let flag = |name: &str| said(name).and_then(Json::as_bool).unwrap_or(false);
    Facts {
        action,
        head: text("method").as_deref() == Some("HEAD"),
        user_agent: text("user_agent"),
        prefetch: flag("prefetch"),
        gpc: flag("gpc"),
        ip_hash: text("ip_hash"),
        ..Facts::default()
    }
}
