//! The worker of `email-events`: what our own endpoints saw becomes an engagement event, counted once.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_delivery::links::{Addressee, ReadError, has_our_form};
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{EmailAddress, Outgoing, queues};
use tidings_people::consent::{self, Proof};
use tidings_sql::{DatabaseError, Param};

use super::choices::{self, Scope};
use super::sight::{has_waited, see, set_waited};
use super::verdict::{Action, Facts};
use super::{ChoiceError, Tracking, reader};
use crate::events::{Event, EventKind, RecordError, STORE_PAUSE, record_of};

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
        let found = cx.database().glance(move |tx| Message::find(tx, source)).await?;
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
                record_of(&cx, recorded, Some(&message)).await?;
                let to = to.unwrap_or_else(|| addressee(&message));
                self.take_back(&cx, to, &event).await
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
            let found = database.glance(move |tx| Message::find(tx, source)).await?;
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
        let kind = match action {
            Action::Open => EventKind::Open,
            Action::Click => EventKind::Click,
        };
        let mut seen = Event::new(event.idempotency_key.as_str(), kind, email, event.occurred_at);
        seen.source = Some(message.source);
        seen.keep_days = self.keep_days;
        seen.url.clone_from(&event.url);
        let again = (!has_waited(event.metadata.as_ref())).then(|| again(event));
        Ok(see(cx, message, seen, said(event, action), again).await?)
    }

    /// Carries out what the reader asked for, should whoever took it in have died before. What he has said since then
    /// counts, so nothing is done once he has given the same back.
    async fn take_back(&self, cx: &Cx, to: Addressee, event: &EmailEvent) -> Result<(), WorkError> {
        let Some(reader) = reader::find(&self.tracking.access, to).await? else { return Ok(()) };
        let word =
            event.metadata.as_ref().and_then(|said| said.get("scope")).and_then(Json::as_str);
        let scope = word.and_then(Scope::from_word).unwrap_or_else(|| Scope::of(&to));
        if gave_back_since(cx, reader.contact, scope.meant(&to), event.occurred_at).await? {
            return Ok(());
        }
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

/// Whom the row says that the mail went to.
fn addressee(message: &Message) -> Addressee {
    Addressee {
        workspace: message.workspace,
        source: message.source,
        contact: message.contact,
        client: message.client,
        audience: message.audience,
        topic: message.topic,
    }
}

/// Whether he has agreed again since then to just what he had left. Whatever else he has said takes nothing back.
async fn gave_back_since(
    cx: &Cx,
    contact: i64,
    scope: Option<consent::Scope>,
    since: Timestamp,
) -> Result<bool, DatabaseError> {
    let (audience, client) = match scope {
        Some(consent::Scope::Client(audience, client)) => (audience.get(), client.get()),
        Some(consent::Scope::Audience(audience)) => (audience.get(), 0),
        Some(consent::Scope::Global) | None => (0, 0),
    };
    let (workspace, since) = (cx.workspace_id().get(), since.as_millisecond());
    let sql = "SELECT id FROM consent_log
               WHERE workspace_id = $1 AND lead_id = $2 AND happened_at > $3
                 AND COALESCE(audience_id, 0) = $4 AND COALESCE(client_id, 0) = $5 AND topic_id IS NULL
                 AND action IN ('subscribed', 'confirmed', 'resubscribed') LIMIT 1";
    let newer = cx.database().read(move |tx| {
        tx.query(sql, &[workspace, contact, since, audience, client].map(Param::Int))
    });
    Ok(!newer.await?.is_empty())
}

/// The same event, to come once more.
fn again(event: &EmailEvent) -> Outgoing {
    let mut again = event.clone();
    set_waited(&mut again.metadata);
    let body = again.to_body().expect("what came out of the queue fits into it again");
    Outgoing::new(&queues::EMAIL_EVENTS, body)
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
