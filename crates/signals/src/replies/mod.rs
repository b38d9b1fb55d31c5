//! Replies: what people answer to our mails.
//!
//! Here: which message a mail answers, who wrote it, its event, and passing it on to people (`forward`). Not here: reading MIME (`mail::inbound`), and how a
//! mail gets here (`ses` out of the queue, the API). Nobody is believed to answer whom we do not know: of such a mail a
//! stray is kept, without its words. What a machine wrote is an event too, but not counted as a reply.

mod forward;
pub mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidings_access::{Access, Cx, StorageError};
use tidings_delivery::ledger::Message;
use tidings_delivery::links::{Links, ReadError};
use tidings_delivery::transactional::Messages;
use tidings_kernel::{EmailAddress, hex, tables};
use tidings_mail::inbound::{self, Inbound, InboundError};
use tidings_people::keys as people;
use tidings_sql::DatabaseError;
use tokio::sync::OnceCell;

use crate::events::{Event, EventKind, RecordError, Recorded, record};
use crate::ses::stray;
use forward::Forwarding;

/// So many of the messages that a mail refers to are looked for.
const MAX_REFERENCES: usize = 10;

/// Takes replies. A clone shares the keys that prove which message is ours.
#[derive(Clone)]
pub struct Replies {
    pub(crate) access: Access,
    pub(crate) keep_days: Option<u32>,
    links: Arc<OnceCell<Links>>,
    forwarding: Option<Forwarding>,
}

/// What became of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A person answered.
    Reply,
    /// A machine did: it is kept, and not counted as a reply.
    Automatic,
    /// It came before.
    Before,
    /// Nothing was recorded.
    Ignored(Ignored),
}

/// Why a mail is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Its sender is no contact.
    UnknownSender,
    /// It tells that a mail could not be delivered.
    DeliveryReport,
    /// Nothing says which workspace it is for.
    NoWorkspace,
    /// Whom it answers is erased.
    Erased,
}

#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Unreadable(#[from] InboundError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<DatabaseError> for ReceiveError {
    fn from(error: DatabaseError) -> Self {
        Self::Record(error.into())
    }
}

impl From<StorageError> for ReceiveError {
    fn from(error: StorageError) -> Self {
        Self::Record(error.into())
    }
}

impl Ignored {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownSender => "unknown_sender",
            Self::DeliveryReport => "delivery_report",
            Self::NoWorkspace => "no_workspace",
            Self::Erased => "erased",
        }
    }
}

impl Replies {
    pub fn new(access: Access, keep_days: Option<u32>) -> Self {
        Self { access, keep_days, links: Arc::default(), forwarding: None }
    }

    /// What people answer is passed on as well, each reply once: to whom the workspace says, or else to `default`.
    pub fn passing_on(self, messages: Messages, default: Option<EmailAddress>) -> Self {
        Self { forwarding: Some(Forwarding { messages, default }), ..self }
    }

    /// Takes a mail for a workspace. The same mail again is the same event.
    pub async fn receive(&self, cx: &Cx, mime: &[u8]) -> Result<Received, ReceiveError> {
        let mail = inbound::parse(mime)?;
        let answered = self.answered(&mail).await?;
        let answered = answered.filter(|message| message.workspace == cx.workspace_id().get());
        self.take(cx, mime, mail, answered).await
    }

    /// Takes a mail that nobody says the workspace of: the message that it answers does.
    pub(crate) async fn deliver(&self, mime: &[u8]) -> Result<Received, ReceiveError> {
        let mail = inbound::parse(mime)?;
        let answered = self.answered(&mail).await?;
        let cx = match &answered {
            Some(message) => self.access.working_for(message.workspace).await?,
            None => None,
        };
        match cx {
            Some(cx) => self.take(&cx, mime, mail, answered).await,
            None => self.ignore(mime, &mail, Ignored::NoWorkspace).await,
        }
    }

    async fn take(
        &self,
        cx: &Cx,
        mime: &[u8],
        mail: Inbound,
        answered: Option<Message>,
    ) -> Result<Received, ReceiveError> {
        // What an erased person writes, or what is told of him, is not kept in another place.
        if answered.as_ref().is_some_and(|message| message.email.is_none()) {
            tracing::info!(reason = Ignored::Erased.as_str(), "A mail that came in is no reply");
            return Ok(Received::Ignored(Ignored::Erased));
        }
        if mail.is_bounce {
            return self.ignore(mime, &mail, Ignored::DeliveryReport).await;
        }
        let addressee = answered.as_ref().and_then(|message| message.email.as_deref());
        let addressee: Option<EmailAddress> = addressee.and_then(|email| email.parse().ok());
        if addressee.as_ref() != Some(&mail.from) && !is_contact(cx, &mail.from).await? {
            return self.ignore(mime, &mail, Ignored::UnknownSender).await;
        }
        let automatic = mail.auto_reply;
        let id = id_of(mime, &mail);
        let forward = match &self.forwarding {
            Some(forwarding) => forwarding.of(cx, &mail, answered.as_ref(), &id).await?,
            None => None,
        };
        let id = format!("reply:{id}");
        let at = written_at(mail.date, cx.now());
        let subject = Some(mail.subject).filter(|subject| !subject.is_empty());
        let kind = EventKind::Reply { subject, body: mail.text, automatic };
        let mut event = Event::new(id, kind, mail.from, at);
        event.keep_days = self.keep_days;
        if let Some(message) = answered {
            event.source = Some(message.source);
            event.provider_message_id = message.provider_message_id;
        }
        let recorded = record(cx, event).await?;
        // Also if it came before: whoever took it then may have died in front of this.
        if let (Some(forwarding), Some(forward)) = (&self.forwarding, forward)
            && recorded != Recorded::Erased
        {
            forwarding.pass_on(cx, forward).await?;
        }
        Ok(match recorded {
            Recorded::Now if automatic => Received::Automatic,
            Recorded::Now => Received::Reply,
            Recorded::Before => Received::Before,
            Recorded::Erased => Received::Ignored(Ignored::Erased),
        })
    }

    /// The message of ours that it answers: by the id that we gave it, or by that of the provider.
    async fn answered(&self, mail: &Inbound) -> Result<Option<Message>, ReceiveError> {
        let now = self.access.now();
        let links = self
            .links
            .get_or_try_init(|| Links::load(self.access.database(), "https://localhost", now))
            .await?;
        let newest_first = mail.in_reply_to.iter().chain(mail.references.iter().rev());
        for id in newest_first.take(MAX_REFERENCES) {
            let bare = id.trim().trim_start_matches('<').trim_end_matches('>');
            let ours = match links.read_message_id(bare, now).await {
                Ok(ours) => Some(ours),
                Err(ReadError::Invalid) => None,
                Err(ReadError::Store(error)) => return Err(error.into()),
            };
            if let Some((workspace, source)) = ours {
                let found = self.access.database().read(move |tx| Message::find(tx, source)).await;
                let found: Option<Message> = found.map_err(|error: DatabaseError| error)?;
                if let Some(found) = found.filter(|message| message.workspace == workspace) {
                    return Ok(Some(found));
                }
            }
            if let Some(found) = self.of_provider(bare).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// SES writes its own id with its own host into the mails that it sends.
    async fn of_provider(&self, id: &str) -> Result<Option<Message>, DatabaseError> {
        let Some((local, host)) = id.rsplit_once('@') else { return Ok(None) };
        if host != "amazonses.com" && !host.ends_with(".amazonses.com") {
            return Ok(None);
        }
        let local = local.to_owned();
        let find = self.access.database().read(move |tx| Message::of_provider(tx, &local));
        let mut found: Vec<Message> = find.await?;
        Ok(if found.len() == 1 { found.pop() } else { None })
    }

    async fn ignore(
        &self,
        mime: &[u8],
        mail: &Inbound,
        why: Ignored,
    ) -> Result<Received, ReceiveError> {
        let id = id_of(mime, mail);
        tracing::info!(reason = why.as_str(), "A mail that came in is no reply");
        let stray = stray::Stray {
            id: format!("reply:{id}"),
            event_type: "reply".to_owned(),
            reason: why.as_str().to_owned(),
            received_at: self.access.now(),
            // Not its words: nobody can say whose they are, so nobody could erase them.
            body: json!({ "bytes": mime.len() }).to_string(),
        };
        stray::keep(self.access.database(), stray).await?;
        Ok(Received::Ignored(why))
    }
}

/// The same for the same mail: its own id, or a hash of it.
fn id_of(mime: &[u8], mail: &Inbound) -> String {
    let usable = |id: &&String| (1..=400).contains(&id.len()) && !id.contains('\0');
    match mail.message_id.as_ref().filter(usable) {
        Some(id) => id.clone(),
        None => hex(&Sha256::digest(mime)),
    }
}

/// When its writer says, if that can be.
fn written_at(said: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let possible = |at: &Timestamp| {
        let age = now.duration_since(*at);
        SignedDuration::ZERO <= age && age <= SignedDuration::from_hours(7 * 24)
    };
    said.filter(possible).unwrap_or(now)
}

async fn is_contact(cx: &Cx, email: &EmailAddress) -> Result<bool, StorageError> {
    let profile = cx.items().await?.get(&tables::MAIN, &people::profile(email)).await?;
    Ok(profile.is_some())
}
