//! Replies: what people answer to our mails, and what mail servers tell of them by mail (`report`).
//!
//! Here: which message a mail answers, who wrote it, its event, and passing it on to people (`forward`). Not here: reading MIME (`mail::inbound`), and how a
//! mail gets here (`ses` out of the queue, the API). Nobody is believed to answer whom we do not know: of such a mail a
//! stray is kept, without its words. What a machine wrote is an event too, but not counted as a reply.

mod forward;
mod report;
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
use tidings_kernel::{EmailAddress, hex};
use tidings_mail::inbound::{self, Inbound, InboundError};
use tidings_people::contacts;
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

/// How far a mail is what it says it is, by whoever received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing speaks against it.
    Ordinary,
    /// Somebody else may have written it: it is kept, and nothing follows from it.
    Unproven,
    /// It must not be let in.
    Refused(Ignored),
}

/// What became of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A person answered.
    Reply,
    /// A machine did: it is kept, and not counted as a reply.
    Automatic,
    /// Nothing proves that whom it names wrote it: it is kept, and neither counted nor told.
    Unproven,
    /// A server told what became of a message: `bounce`, `complaint` or `delay`.
    Told(&'static str),
    /// It came before.
    Before,
    /// Nothing was recorded.
    Ignored(Ignored),
}

/// Why of a mail nothing was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Its sender is no contact.
    UnknownSender,
    /// It reports of a mail, but of none that is ours, or nothing that matters.
    DeliveryReport,
    /// Nothing says which workspace it is for.
    NoWorkspace,
    /// Whom it answers is erased.
    Erased,
    /// The provider that received it calls it spam.
    Spam,
    /// The provider that received it found a virus in it.
    Virus,
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
            Self::Spam => "spam",
            Self::Virus => "virus",
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
        let is_here = |message: &Message| message.workspace == cx.workspace_id().get();
        if let Some(report) = inbound::report(mime)? {
            let about = self.reported(&report).await?.filter(is_here);
            return self.take_report(cx, (mime, report), about).await;
        }
        let mail = inbound::parse(mime)?;
        let answered = self.answered(&mail).await?.filter(is_here);
        self.take(cx, (mime, mail), answered, Trust::Ordinary).await
    }

    /// Takes a mail that nobody says the workspace of: the message that it answers does, if there is more than one. A report is
    /// believed for the id that it gives back, whatever is thought of it besides: many return the spam that they are about.
    pub(crate) async fn deliver(
        &self,
        mime: &[u8],
        trust: Trust,
    ) -> Result<Received, ReceiveError> {
        if let Some(report) = inbound::report(mime)? {
            let about = self.reported(&report).await?;
            return match self.workspace_of(about.as_ref()).await? {
                Some(cx) => self.take_report(&cx, (mime, report), about).await,
                None => {
                    let id = id_of(mime, report.message_id.as_ref());
                    self.ignore(&id, mime, Ignored::NoWorkspace).await
                }
            };
        }
        let mail = inbound::parse(mime)?;
        let answered = self.answered(&mail).await?;
        let workspace = match &answered {
            Some(message) => self.workspace_of(Some(message)).await?,
            None => self.only_workspace().await?,
        };
        match workspace {
            Some(cx) => self.take(&cx, (mime, mail), answered, trust).await,
            None => {
                let id = id_of(mime, mail.message_id.as_ref());
                self.ignore(&id, mime, Ignored::NoWorkspace).await
            }
        }
    }

    async fn workspace_of(&self, message: Option<&Message>) -> Result<Option<Cx>, DatabaseError> {
        match message {
            Some(message) => self.access.working_for(message.workspace).await,
            None => Ok(None),
        }
    }

    /// The workspace, if there is no other. Where there are several, that somebody is a contact of one does not say that he
    /// wrote to it.
    async fn only_workspace(&self) -> Result<Option<Cx>, DatabaseError> {
        let all = self.access.database().read(|tx| {
            let rows = tx.query("SELECT id FROM workspaces ORDER BY id LIMIT 2", &[])?;
            rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, DatabaseError>>()
        });
        match all.await?.as_slice() {
            [workspace] => self.access.working_for(*workspace).await,
            _ => Ok(None),
        }
    }

    async fn take(
        &self,
        cx: &Cx,
        (mime, mail): (&[u8], Inbound),
        answered: Option<Message>,
        trust: Trust,
    ) -> Result<Received, ReceiveError> {
        // What an erased person writes, or what is told of him, is not kept in another place.
        if answered.as_ref().is_some_and(|message| message.email.is_none()) {
            tracing::info!(reason = Ignored::Erased.as_str(), "A mail that came in is no reply");
            return Ok(Received::Ignored(Ignored::Erased));
        }
        if let Trust::Refused(why) = trust {
            let id = id_of(mime, mail.message_id.as_ref());
            return self.ignore(&id, mime, why).await;
        }
        let addressee = answered.as_ref().and_then(|message| message.email.as_deref());
        let addressee: Option<EmailAddress> = addressee.and_then(|email| email.parse().ok());
        if addressee.as_ref() != Some(&mail.from) && !contacts::is_known(cx, &mail.from).await? {
            let id = id_of(mime, mail.message_id.as_ref());
            return self.ignore(&id, mime, Ignored::UnknownSender).await;
        }
        let (automatic, unproven) = (mail.auto_reply, trust == Trust::Unproven);
        let id = id_of(mime, mail.message_id.as_ref());
        let forward = match &self.forwarding {
            Some(forwarding) if !unproven => {
                forwarding.of(cx, (mime, &mail), answered.as_ref(), &id).await?
            }
            _ => None,
        };
        let id = format!("reply:{id}");
        let at = written_at(mail.date, cx.now());
        let subject = Some(mail.subject).filter(|subject| !subject.is_empty());
        let kind = EventKind::Reply { subject, body: mail.text, automatic, unproven };
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
            Recorded::Now if unproven => Received::Unproven,
            Recorded::Now if automatic => Received::Automatic,
            Recorded::Now => Received::Reply,
            Recorded::Before => Received::Before,
            Recorded::Erased => Received::Ignored(Ignored::Erased),
        })
    }

    /// The message of ours that it answers: by the id that we gave it, or by that of the provider.
    async fn answered(&self, mail: &Inbound) -> Result<Option<Message>, ReceiveError> {
        let newest_first = mail.in_reply_to.iter().chain(mail.references.iter().rev());
        for id in newest_first.take(MAX_REFERENCES) {
            if let Some(found) = self.of_ours(id).await? {
                return Ok(Some(found));
            }
            if let Some(found) = self.of_provider(bare(id)).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The message that we gave this id, which proves itself by its signature.
    async fn of_ours(&self, id: &str) -> Result<Option<Message>, ReceiveError> {
        let now = self.access.now();
        let links = self
            .links
            .get_or_try_init(|| Links::load(self.access.database(), "https://localhost", now))
            .await?;
        let (workspace, source) = match links.read_message_id(bare(id), now).await {
            Ok(ours) => ours,
            Err(ReadError::Invalid) => return Ok(None),
            Err(ReadError::Store(error)) => return Err(error.into()),
        };
        let found = self.access.database().read(move |tx| Message::find(tx, source)).await;
        let found: Option<Message> = found.map_err(|error: DatabaseError| error)?;
        Ok(found.filter(|message| message.workspace == workspace))
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

    async fn ignore(&self, id: &str, mime: &[u8], why: Ignored) -> Result<Received, ReceiveError> {
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

/// Without what stands around it in a header.
fn bare(id: &str) -> &str {
    id.trim().trim_start_matches('<').trim_end_matches('>')
}

/// The same for the same mail: its own id, or a hash of it.
fn id_of(mime: &[u8], said: Option<&String>) -> String {
    let usable = |id: &&String| (1..=400).contains(&id.len()) && !id.contains('\0');
    match said.filter(usable) {
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
