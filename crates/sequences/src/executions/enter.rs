//! How somebody comes into a sequence.
//!
//! What is known of him is written down first, as seed 000 does, whether or not he may come in. Then one transaction has
//! the walk, the rows, the numbers, the mark of what caused it, and the message that makes a worker take the first step. A
//! cause lets somebody into a sequence once, however often it is told.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_delivery::eligibility::{self, Kind, Question, Reason, Verdict};
use tidings_kernel::{EmailAddress, Expect, Item, StoreError, Txn, tables};
use tidings_people::contacts::{self, Attributes, FirstName, TagChange, Upsert, UpsertError};
use tidings_people::keys::time;
use tidings_people::race;

use super::funnel::{Changes, What};
use super::leave;
use super::{Doing, Execution, ExecutionId, keys};
use crate::definition::Reentry;
use crate::versions::{Active, Versions};

/// So long a cause is remembered. What comes twice comes within days.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(60 * 24);

/// Somebody is to come into a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Enrol {
    pub sequence: String,
    pub email: EmailAddress,
    /// What is known of him, to be written down.
    pub person: Person,
    /// The data of the event, which the steps can ask.
    pub input: Value,
    /// Names what caused it. The same cause again lets nobody in.
    pub cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Person {
    pub first_name: Option<FirstName>,
    pub attributes: Attributes,
    pub tags: Option<TagChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Entered {
    Began(Box<Execution>),
    /// He was in it, and begins anew.
    Restarted(Box<Execution>),
    /// He is in it, and goes on where he is.
    AlreadyIn(ExecutionId),
    /// He was in it not long ago.
    TooSoon {
        again_at: Timestamp,
    },
    /// This cause has let him in before.
    Before,
    Refused(Refusal),
}

/// Why somebody may not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// He must not be written to, or does not want to be.
    Person(Reason),
    /// Nobody comes in.
    Paused,
}

#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    #[error("there is no sequence {0}")]
    Missing(String),
    #[error(transparent)]
    Person(#[from] UpsertError),
    #[error("nobody could be let into the sequence")]
    Store(#[from] StorageError),
}

impl From<StoreError> for EnrolError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// Afterwards he is in the sequence, or the answer says why not.
pub async fn enrol(cx: &Cx, versions: &Versions, cmd: Enrol) -> Result<Entered, EnrolError> {
    let missing = || EnrolError::Missing(cmd.sequence.clone());
    let active = versions.active(cx, &cmd.sequence).await?.ok_or_else(missing)?;
    let upsert = Upsert {
        email: cmd.email.clone(),
        first_name: cmd.person.first_name.clone(),
        attributes: cmd.person.attributes.clone(),
        tags: cmd.person.tags.clone(),
    };
    contacts::upsert(cx, upsert).await?;
    if !active.takes_people {
        return Ok(Entered::Refused(Refusal::Paused));
    }
    if let Some(reason) = refused(cx, &active, &cmd.email).await? {
        return Ok(Entered::Refused(Refusal::Person(reason)));
    }
    for _ in 0..race::ATTEMPTS {
        let there = There::load(cx, &cmd).await?;
        let (before, until) = match there.may_enter(cx, &active) {
            May::Enter { before, again_at } => (before, again_at),
            May::Not(answer) => return Ok(answer),
        };
        let execution = begin(cx, &active, &cmd);
        let mut changes = Changes::default();
        changes.whole(execution.version, What::Entered);
        changes.step(execution.version, &execution.step, What::Entered);
        let mut txn = execution.begin(Txn::new(), before.map(Execution::arn).as_deref());
        if let Some(before) = before {
            leave::counted(&mut changes, before, What::Left);
            txn = before.end_walk(txn).enqueue(before.stopped(cx.workspace()));
        }
        txn = changes.count(txn, &execution).enqueue(execution.message(cx.workspace()));
        if let Some(mark) = cmd.cause.as_deref().map(|cause| mark(cx, cause, &cmd.sequence)) {
            txn = txn.put(&tables::MAIN, mark, Expect::Absent);
        }
        if until.is_some() {
            txn = txn.put(&tables::MAIN, visit(cx, &cmd), Expect::Anything);
        }
        match cx.items().await?.transact(txn).await {
            Ok(()) if before.is_some() => return Ok(Entered::Restarted(Box::new(execution))),
            Ok(()) => return Ok(Entered::Began(Box::new(execution))),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// The gate of every message decides who may come in. Whoever has to wait may.
async fn refused(
    cx: &Cx,
    active: &Active,
    email: &EmailAddress,
) -> Result<Option<Reason>, StorageError> {
    let definition = &active.program.definition;
    let kind = if definition.transactional { Kind::Transactional } else { Kind::Sequence };
    let question = Question {
        kind,
        email: email.clone(),
        client: active.client,
        audience: active.audience,
        topic: active.topic,
    };
    Ok(match eligibility::check(cx, &question).await?.verdict {
        Verdict::Skip(reason) => Some(reason),
        Verdict::Send | Verdict::Defer { .. } => None,
    })
}

fn begin(cx: &Cx, active: &Active, cmd: &Enrol) -> Execution {
    let definition = &active.program.definition;
    let timeout = SignedDuration::try_from(definition.timeout).unwrap_or(SignedDuration::MAX);
    Execution {
        id: ExecutionId::new(cx.now()),
        email: cmd.email.clone(),
        sequence: cmd.sequence.clone(),
        version: active.version,
        transactional: definition.transactional,
        started_at: cx.now(),
        deadline: cx.now().saturating_add(timeout).unwrap_or(Timestamp::MAX),
        at: 0,
        step: active.program.places.first().map(|place| place.step.clone()).unwrap_or_default(),
        since: cx.now(),
        doing: Doing::Going,
        tries: 0,
        last_error: None,
        input: cmd.input.clone(),
        rev: 0,
    }
}

/// What stands for and against letting somebody in.
struct There {
    execution: Option<Execution>,
    /// When he came in last, where that counts.
    entered_at: Option<Timestamp>,
    is_known_cause: bool,
}

enum May<'a> {
    Enter {
        before: Option<&'a Execution>,
        /// Set where coming in is remembered.
        again_at: Option<Timestamp>,
    },
    Not(Entered),
}

impl There {
    async fn load(cx: &Cx, cmd: &Enrol) -> Result<Self, EnrolError> {
        let items = cx.items().await?;
        let cause = cmd.cause.as_deref().unwrap_or_default();
        let wanted = [
            keys::of_subscriber(&cmd.email, &cmd.sequence),
            keys::entered(&cmd.email, &cmd.sequence),
            keys::cause(cause, &cmd.sequence),
        ];
        let mut found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
        let mut next = || found.next().flatten();
        let (row, entered, cause) = (next(), next(), next());
        let id = row.as_ref().and_then(|row| row.text("executionArn")).and_then(keys::id_of);
        let execution = match id {
            Some(id) => items.get(&tables::MAIN, &keys::state(&id)).await?,
            None => None,
        };
        let execution = execution.as_ref().map(Execution::read).transpose()?;
        let at = |item: &Item| item.text("enteredAt")?.parse().ok();
        Ok(Self {
            execution,
            entered_at: entered.as_ref().and_then(at),
            is_known_cause: cause.is_some(),
        })
    }

    fn may_enter(&self, cx: &Cx, active: &Active) -> May<'_> {
        if self.is_known_cause {
            return May::Not(Entered::Before);
        }
        let before = self.execution.as_ref();
        match active.program.definition.reentry {
            Reentry::Restart => May::Enter { before, again_at: None },
            Reentry::Ignore => match before {
                Some(there) => May::Not(Entered::AlreadyIn(there.id.clone())),
                None => May::Enter { before: None, again_at: None },
            },
            Reentry::After(pause) => {
                let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
                let after = |at: Timestamp| at.saturating_add(pause).unwrap_or(Timestamp::MAX);
                let last = self.entered_at.max(before.map(|there| there.started_at));
                match last.map(after) {
                    Some(again_at) if again_at > cx.now() => {
                        May::Not(Entered::TooSoon { again_at })
                    }
                    _ => May::Enter { before, again_at: Some(after(cx.now())) },
                }
            }
        }
    }
}

fn mark(cx: &Cx, cause: &str, sequence: &str) -> Item {
    let mut item = tables::MAIN.bare_item(&keys::cause(cause, sequence));
    let until = cx.now().saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX);
    item.set("ttl", until.as_second());
    item
}

fn visit(cx: &Cx, cmd: &Enrol) -> Item {
    let mut item = tables::MAIN.bare_item(&keys::entered(&cmd.email, &cmd.sequence));
    item.set("enteredAt", time(cx.now()));
    item
}
