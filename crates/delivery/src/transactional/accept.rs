//! Writing a message down, once, however often it is asked for.
//!
//! One read tells whether the key is known and whom the client writes as (`look`), one commit has the contact, the row and
//! what makes the worker look at it (`write`). The same key again finds the same row, on whichever node: at the unique key of
//! the ledger the second of two waits for the first.

mod look;
mod write;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tidings_access::{Cx, Slug, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::DatabaseError;
use tidings_templates::Rendered;

use self::look::{Desk, Identity, Looked, choose, look};
use self::write::{before, write_down};
use super::in_flight::{InFlight, Turn};
use super::letter::{self, Body, NOWHERE, Ready};
use super::named;
use super::purpose::Purpose;
use super::request::{Content, Send, Wrong};
use super::store::{Envelope, New, Source, own_key};
use super::{MAX_BATCH, MessageId, Status};
use crate::eligibility::{self, Explanation, Relations, Verdict};
use crate::templates::{self, Stored, TemplateKey, Templates};

/// Takes messages in. Clones share what they know.
#[derive(Clone)]
pub struct Messages {
    templates: Templates,
    in_flight: InFlight,
}

/// A message that was written down, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub id: MessageId,
    pub status: Status,
    pub skip_reason: Option<String>,
    pub scheduled_at: Option<Timestamp>,
    /// It was there already.
    pub replayed: bool,
}

/// What a message would be, of which nothing was written down.
#[derive(Debug)]
pub struct Preview {
    pub from_email: String,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    pub template_version: Option<i64>,
    pub rendered: Rendered,
    /// Whether it would be sent, and why not.
    pub decision: Explanation,
}

impl Preview {
    pub fn would_deliver(&self) -> bool {
        matches!(self.decision.verdict, Verdict::Send)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the message was not accepted: {}", .0.iter().map(|one| format!("{}: {}", one.field, one.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Wrong>),
    #[error("there is no active template {0}")]
    NoTemplate(String),
    #[error("there is no version {1} of a template {0}")]
    NoVersion(String, i64),
    #[error("this idempotency key was used for another message: {0}")]
    KeyReused(MessageId),
    #[error("a request with this idempotency key is being worked on")]
    InFlight,
    #[error("a batch has 1 to {MAX_BATCH} messages")]
    BatchSize,
    #[error("the message could not be written down")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for AcceptError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// A request of which all that it names is there.
struct Checked {
    identity: Identity,
    purpose: Purpose,
    /// Until it is decided.
    relations: Option<Relations>,
    content: Ready,
}

impl Checked {
    async fn decide(&mut self, cx: &Cx, send: &Send) -> Result<Explanation, StorageError> {
        let question = self.purpose.question(send.client, send.to.clone());
        match self.relations.take() {
            Some(relations) => eligibility::check_with(cx, &question, relations).await,
            None => eligibility::check(cx, &question).await,
        }
    }
}

enum Prepared {
    Before(Accepted),
    New(Box<New>),
}

impl Messages {
    pub fn new(templates: Templates) -> Self {
        Self { templates, in_flight: InFlight::default() }
    }

    /// Writes a message down. From now on it is sent once, or the row says why not.
    pub async fn accept(&self, cx: &Cx, send: Send) -> Result<Accepted, AcceptError> {
        let mut answers = self.accept_all(cx, vec![send]).await;
        answers.pop().unwrap_or(Err(AcceptError::BatchSize))
    }

    /// The same for up to 100, each with an answer of its own. What is right is written down in one commit, whatever
    /// is wrong with the others.
    pub async fn accept_many(
        &self,
        cx: &Cx,
        sends: Vec<Send>,
    ) -> Result<Vec<Result<Accepted, AcceptError>>, AcceptError> {
        if !(1..=MAX_BATCH).contains(&sends.len()) {
            return Err(AcceptError::BatchSize);
        }
        Ok(self.accept_all(cx, sends).await)
    }

    pub(super) async fn accept_all(
        &self,
        cx: &Cx,
        sends: Vec<Send>,
    ) -> Vec<Result<Accepted, AcceptError>> {
        let mut turns = Vec::new();
        let (mut answers, mut fresh) = (Vec::new(), Vec::new());
        for send in sends {
            answers.push(match self.prepare(cx, send, &mut turns).await {
                Ok(Prepared::Before(accepted)) => Some(Ok(accepted)),
                Ok(Prepared::New(new)) => {
                    fresh.push(*new);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let mut written = if fresh.is_empty() {
            Vec::new().into_iter()
        } else {
            write_down(cx, fresh).await.into_iter()
        };
        let answer = |answer: Option<_>| match answer {
            Some(answer) => answer,
            None => written.next().unwrap_or(Err(DatabaseError::NoRow.into())),
        };
        answers.into_iter().map(answer).collect()
    }

    /// What would be sent to whom, and whether it would. Writes nothing.
    pub async fn dry_run(&self, cx: &Cx, send: &Send) -> Result<Preview, AcceptError> {
        let desk = match look(cx, send, None).await? {
            Looked::New(desk) => *desk,
            Looked::Known(known) => return Err(AcceptError::KeyReused(known.id)),
        };
        let mut checked = self.check(cx, send, desk).await?;
        let decision = checked.decide(cx, send).await?;
        let known = (&send.to, &send.context);
        let variables = checked.content.variables(cx, known, NOWHERE).await?;
        let template_version = match &checked.content.body {
            Body::Stored(stored) => Some(stored.version),
            Body::Inline(_) => None,
        };
        let rendered = checked
            .content
            .render(&variables)
            .map_err(|error| AcceptError::Invalid(vec![wrong("context", error.to_string())]))?;
        Ok(Preview {
            from_email: checked.identity.email,
            from_name: checked.identity.name,
            reply_to: reply_to(send, checked.identity.reply_to),
            template_version,
            rendered,
            decision,
        })
    }

    /// Everything that is asked before the commit.
    async fn prepare(
        &self,
        cx: &Cx,
        send: Send,
        turns: &mut Vec<Turn>,
    ) -> Result<Prepared, AcceptError> {
        let hash = send.fingerprint();
        if let Some(key) = &send.idempotency_key
            && !turns.iter().any(|turn: &Turn| turn.is_for(send.client, key))
        {
            turns.push(self.in_flight.take(send.client, key).ok_or(AcceptError::InFlight)?);
        }
        let desk = match look(cx, &send, send.idempotency_key.clone()).await? {
            Looked::New(desk) => *desk,
            // A repeat is answered even if its template is gone by now.
            Looked::Known(known) => return before(known, &hash).map(Prepared::Before),
        };
        let mut checked = self.check(cx, &send, desk).await?;
        let decision = checked.decide(cx, &send).await?;
        let skip_reason = match &decision.verdict {
            Verdict::Skip(reason) => Some(reason.as_str()),
            // What has to wait is decided again when its time has come.
            Verdict::Send | Verdict::Defer { .. } => None,
        };
        Ok(Prepared::New(Box::new(to_write(send, checked, hash, skip_reason))))
    }

    /// All that is wrong with a request, at once.
    async fn check(&self, cx: &Cx, send: &Send, desk: Desk) -> Result<Checked, AcceptError> {
        let Desk { senders, purpose, relations } = desk;
        let mut found = send.check(cx.now());
        let lines = letter::compile_other(&send.lines, &mut found);
        let body = match &send.content {
            Content::Template(_) | Content::Version(..) => {
                Some(Body::Stored(self.stored(cx, &send.content).await?))
            }
            Content::Inline { subject, html, text } => {
                letter::compile(subject, html.as_ref(), text.as_ref(), &mut found).map(Body::Inline)
            }
        };
        let content = body.zip(lines).map(|(body, lines)| Ready { body, lines });
        let stored = content.as_ref().and_then(|ready| match &ready.body {
            Body::Stored(stored) => Some((Arc::clone(stored), ready)),
            Body::Inline(_) => None,
        });
        if let Some((stored, ready)) = &stored {
            missing(cx, send, (stored, ready), &mut found).await?;
        }
        let of_template =
            stored.as_ref().and_then(|(stored, _)| stored.content.default_sender.as_deref());
        let asked = send.sender.as_ref().map(Slug::as_str).or(of_template);
        let identity = choose(senders, asked, &mut found);
        if let (Some(slug), None) = (&send.topic, purpose.topic) {
            found.push(wrong("topic", format!("there is no topic {slug}")));
        }
        let audience = send.part_of.as_ref().and_then(|part| part.audience.as_ref());
        if let (Some(slug), None) = (audience, purpose.audience) {
            found.push(wrong("part_of.audience", format!("there is no audience {slug}")));
        }
        match (identity, content) {
            (Some(identity), Some(content)) if found.is_empty() => {
                Ok(Checked { identity, purpose, relations: Some(relations), content })
            }
            _ => Err(AcceptError::Invalid(found)),
        }
    }
}

impl Messages {
    /// The stored template that is meant. What cannot be a key is no template's.
    pub(super) async fn stored(
        &self,
        cx: &Cx,
        content: &Content,
    ) -> Result<Arc<Stored>, AcceptError> {
        let (named, version) = match content {
            Content::Template(key) => (key.as_str(), None),
            Content::Version(key, version) => (key.as_str(), Some(*version)),
            Content::Inline { .. } => ("", None),
        };
        let found = match (named.parse::<TemplateKey>(), version) {
            (Ok(key), None) => self.templates.active(cx, &key).await?,
            (Ok(key), Some(version)) => self.templates.version(cx, &key, version).await?,
            (Err(_), _) => None,
        };
        found.ok_or_else(|| match version {
            None => AcceptError::NoTemplate(named.to_owned()),
            Some(version) => AcceptError::NoVersion(named.to_owned(), version),
        })
    }
}

/// All variables that a template needs and nobody gives. Most often the caller gives them all; what he does not, the
/// person's profile may have.
async fn missing(
    cx: &Cx,
    send: &Send,
    (stored, ready): (&Stored, &Ready),
    found: &mut Vec<Wrong>,
) -> Result<(), StorageError> {
    if templates::missing(stored, &send.context).is_empty() {
        return Ok(());
    }
    let variables = ready.variables(cx, (&send.to, &send.context), NOWHERE).await?;
    let variables = if send.test { ready.with_examples(variables) } else { variables };
    for name in templates::missing(stored, &variables) {
        found.push(wrong(&format!("context.{name}"), "the template needs this"));
    }
    Ok(())
}

fn to_write(send: Send, checked: Checked, hash: String, skip_reason: Option<&'static str>) -> New {
    let named = named::named(&send);
    let reply_to = reply_to(&send, checked.identity.reply_to);
    let addresses = |list: &[EmailAddress]| list.iter().map(ToString::to_string).collect();
    let envelope = Envelope {
        cc: addresses(&send.cc),
        bcc: addresses(&send.bcc),
        headers: send.headers,
        parts: send.parts,
        calendar: send.calendar,
        tracking: send.tracking,
        sender: Some(checked.identity.slug),
        test: send.test,
        lines: send.lines,
    };
    let template = match &checked.content.body {
        Body::Stored(stored) => Some((stored.key.to_string(), stored.version)),
        Body::Inline(_) => None,
    };
    let inline = match send.content {
        Content::Template(_) | Content::Version(..) => None,
        Content::Inline { subject, html, text } => Some(Source { subject, html, text }),
    };
    New {
        client: send.client,
        purpose: checked.purpose,
        key: send.idempotency_key.unwrap_or_else(own_key),
        hash,
        named,
        to: send.to,
        template,
        from_email: checked.identity.email,
        from_name: checked.identity.name,
        reply_to,
        inline,
        context: Value::Object(send.context).to_string(),
        envelope: serde_json::to_string(&envelope).expect("texts and lists of texts are JSON"),
        metadata: Value::Object(send.metadata).to_string(),
        skip_reason,
        scheduled_at: send.scheduled_at,
    }
}

fn reply_to(send: &Send, of_sender: Option<String>) -> Option<String> {
    send.reply_to.as_ref().map(ToString::to_string).or(of_sender)
}

pub(super) fn wrong(field: &str, message: impl Into<String>) -> Wrong {
    Wrong { field: field.to_owned(), message: message.into() }
}
