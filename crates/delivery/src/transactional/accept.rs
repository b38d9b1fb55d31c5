//! Writing a message down, once, however often it is asked for.
//!
//! One read tells whether the keys are known and whom the client writes as (`look`), one commit has the contacts, the rows and
//! what makes the worker look at them (`write`), for one message as for a hundred. Callers who come at the same moment are
//! served together (`together`). The same key again finds the same row, on whichever node: at the unique key of the ledger the
//! second of two waits for the first.

mod look;
mod together;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tidings_access::{Cx, Slug, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::DatabaseError;
use tidings_templates::Rendered;

use self::look::{Desk, Found, Identity, Looked, choose, look};
use self::together::Line;
use self::write::{before, write_down};
use super::in_flight::{InFlight, Turn};
use super::letter::{self, Body, NOWHERE, Ready};
use super::named;
use super::purpose::Purpose;
use super::request::{Content, Send, Wrong};
use super::store::{Envelope, New, Source, own_key};
use super::{MAX_BATCH, MessageId, Status};
use crate::eligibility::{self, Explanation, Loaded, Mailing, ManyRelations, Person, Verdict};
use crate::templates::{self, Stored, TemplateKey, Templates};

/// Takes messages in. Clones share what they know.
#[derive(Clone)]
pub struct Messages {
    templates: Templates,
    in_flight: InFlight,
    line: Line,
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
    content: Ready,
}

/// A request that waits for the decision whether it may go.
struct Undecided {
    /// Its place among all.
    place: usize,
    send: Send,
    checked: Checked,
}

type Answers = Vec<Option<Result<Accepted, AcceptError>>>;

/// The templates that messages of one go name, by key and version, each looked up once.
type Shelf = HashMap<(String, Option<i64>), Arc<Stored>>;

impl Messages {
    pub fn new(templates: Templates) -> Self {
        Self { templates, in_flight: InFlight::default(), line: Line::default() }
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

    /// The same as `accept`, in one go with whoever else asks at this moment: for callers of whom there can be many.
    pub async fn accept_together(&self, cx: &Cx, send: Send) -> Result<Accepted, AcceptError> {
        self.line.wait(self, cx, send).await
    }

    pub(super) async fn accept_all(
        &self,
        cx: &Cx,
        sends: Vec<Send>,
    ) -> Vec<Result<Accepted, AcceptError>> {
        let (mut turns, mut asked, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for send in sends {
            let turn = match &send.idempotency_key {
                // Two with one key in one call share it.
                Some(key) if turns.iter().any(|turn: &Turn| turn.is_for(send.client, key)) => {
                    Ok(())
                }
                _ => self.turn(&send).map(|turn| turns.extend(turn)),
            };
            refused.push(turn.map(|()| asked.push(send)).err());
        }
        let mut answers = self.accept_in_turn(cx, asked).await.into_iter();
        let answer = |refused: Option<AcceptError>| match refused {
            Some(error) => Err(error),
            None => answers.next().unwrap_or(Err(DatabaseError::NoRow.into())),
        };
        refused.into_iter().map(answer).collect()
    }

    /// Nobody else on this node works on its key for as long as this is there.
    fn turn(&self, send: &Send) -> Result<Option<Turn>, AcceptError> {
        let Some(key) = &send.idempotency_key else { return Ok(None) };
        self.in_flight.take(send.client, key).map(Some).ok_or(AcceptError::InFlight)
    }

    /// For those who have taken the turns of their keys.
    async fn accept_in_turn(
        &self,
        cx: &Cx,
        sends: Vec<Send>,
    ) -> Vec<Result<Accepted, AcceptError>> {
        if sends.is_empty() {
            return Vec::new();
        }
        let mut answers: Answers = std::iter::repeat_with(|| None).take(sends.len()).collect();
        let fresh = self.prepare(cx, sends, &mut answers).await;
        if !fresh.is_empty() {
            let (places, fresh): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
            for (place, answer) in places.into_iter().zip(write_down(cx, fresh).await) {
                answers[place] = Some(answer);
            }
        }
        let unanswered = || Err(DatabaseError::NoRow.into());
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }

    /// What would be sent to whom, and whether it would. Writes nothing.
    pub async fn dry_run(&self, cx: &Cx, send: &Send) -> Result<Preview, AcceptError> {
        let Desk { looked, mut relations } = look(cx, &[send]).await?;
        let found = match looked.into_iter().next() {
            Some(Looked::New(found)) => found,
            Some(Looked::Known(known)) => return Err(AcceptError::KeyReused(known.id)),
            None => return Err(DatabaseError::NoRow.into()),
        };
        let checked = self.check(cx, send, found, &mut Shelf::new()).await?;
        let mailing = checked.purpose.mailing(send.client);
        let relations = relations.remove(&mailing).ok_or(DatabaseError::NoRow)?;
        let decisions = decide(cx, (mailing, vec![send.to.clone()]), relations).await?;
        let decision = decisions.into_iter().next().ok_or(DatabaseError::NoRow)?;
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

    /// Everything that is asked before the commit. What can be answered by that is.
    async fn prepare(&self, cx: &Cx, sends: Vec<Send>, answers: &mut Answers) -> Vec<(usize, New)> {
        let Desk { looked, relations } = match look(cx, &sends.iter().collect::<Vec<_>>()).await {
            Ok(desk) => desk,
            Err(error) => {
                answers.fill_with(|| Some(Err(error.clone().into())));
                return Vec::new();
            }
        };
        let mut undecided: HashMap<Mailing, Vec<Undecided>> = HashMap::new();
        let mut shelf = Shelf::new();
        for ((place, send), looked) in sends.into_iter().enumerate().zip(looked) {
            let found = match looked {
                Looked::New(found) => found,
                // A repeat is answered even if its template is gone by now.
                Looked::Known(known) => {
                    answers[place] = Some(before(known, &send.fingerprint()));
                    continue;
                }
            };
            match self.check(cx, &send, found, &mut shelf).await {
                Ok(checked) => {
                    let mailing = checked.purpose.mailing(send.client);
                    let alike = undecided.entry(mailing).or_default();
                    alike.push(Undecided { place, send, checked });
                }
                Err(error) => answers[place] = Some(Err(error)),
            }
        }
        let mut fresh = Vec::new();
        for (mailing, relations) in relations {
            let Some(alike) = undecided.remove(&mailing) else { continue };
            fresh.extend(decided(cx, mailing, relations, alike, answers).await);
        }
        // In the order in which they were asked for.
        fresh.sort_unstable_by_key(|(place, _)| *place);
        fresh
    }

    /// All that is wrong with a request, at once.
    async fn check(
        &self,
        cx: &Cx,
        send: &Send,
        found: Found,
        shelf: &mut Shelf,
    ) -> Result<Checked, AcceptError> {
        let Found { senders, purpose } = found;
        let mut found = send.check(cx.now());
        let lines = letter::compile_other(&send.lines, &mut found);
        let body = match &send.content {
            Content::Template(key) => {
                Some(Body::Stored(self.shelved(cx, shelf, (key, None)).await?))
            }
            Content::Version(key, version) => {
                Some(Body::Stored(self.shelved(cx, shelf, (key, Some(*version))).await?))
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
        let identity = choose(&senders, asked, &mut found);
        if let (Some(slug), None) = (&send.topic, purpose.topic) {
            found.push(wrong("topic", format!("there is no topic {slug}")));
        }
        let audience = send.part_of.as_ref().and_then(|part| part.audience.as_ref());
        if let (Some(slug), None) = (audience, purpose.audience) {
            found.push(wrong("part_of.audience", format!("there is no audience {slug}")));
        }
        match (identity, content) {
            (Some(identity), Some(content)) if found.is_empty() => {
                Ok(Checked { identity, purpose, content })
            }
            _ => Err(AcceptError::Invalid(found)),
        }
    }
}

impl Messages {
    async fn shelved(
        &self,
        cx: &Cx,
        shelf: &mut Shelf,
        (key, version): (&str, Option<i64>),
    ) -> Result<Arc<Stored>, AcceptError> {
        let place = (key.to_owned(), version);
        if let Some(stored) = shelf.get(&place) {
            return Ok(Arc::clone(stored));
        }
        let stored = self.stored(cx, key, version).await?;
        shelf.insert(place, Arc::clone(&stored));
        Ok(stored)
    }

    /// The stored template that is meant: this version of it, or the active one. What cannot be a key is no template's.
    pub(super) async fn stored(
        &self,
        cx: &Cx,
        named: &str,
        version: Option<i64>,
    ) -> Result<Arc<Stored>, AcceptError> {
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

/// Whether each of these people may get it.
async fn decide(
    cx: &Cx,
    (mailing, people): (Mailing, Vec<EmailAddress>),
    relations: ManyRelations,
) -> Result<Vec<Explanation>, StorageError> {
    let people = people.into_iter().map(|email| Person { email, profile: Loaded::NotYet });
    let answers = eligibility::check_all_with(cx, &mailing, relations, people.collect()).await?;
    Ok(answers.into_iter().map(|answer| answer.explanation).collect())
}

/// What is to be written down of messages that are alike, with what was decided. Or why it could not be.
async fn decided(
    cx: &Cx,
    mailing: Mailing,
    relations: ManyRelations,
    alike: Vec<Undecided>,
    answers: &mut Answers,
) -> Vec<(usize, New)> {
    let is_known: Vec<bool> = alike.iter().map(|one| relations.knows(&one.send.to)).collect();
    let people = alike.iter().map(|one| one.send.to.clone()).collect();
    let decisions = match decide(cx, (mailing, people), relations).await {
        Ok(decisions) => decisions,
        Err(error) => {
            for one in alike {
                answers[one.place] = Some(Err(error.shared().into()));
            }
            return Vec::new();
        }
    };
    let to_write = |((one, decision), is_known): ((Undecided, Explanation), bool)| {
        let skip_reason = match &decision.verdict {
            Verdict::Skip(reason) => Some(reason.as_str()),
            // What has to wait is decided again when its time has come.
            Verdict::Send | Verdict::Defer { .. } => None,
        };
        let new = to_write(one.send, one.checked, skip_reason);
        (one.place, New { is_known, ..new })
    };
    alike.into_iter().zip(decisions).zip(is_known).map(to_write).collect()
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

fn to_write(send: Send, checked: Checked, skip_reason: Option<&'static str>) -> New {
    let hash = send.fingerprint();
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
        is_known: false,
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
