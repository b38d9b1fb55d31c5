//! How somebody comes into a sequence.
//!
//! What is known of him is written down first, as seed 000 does, whether or not he may come in. Then one transaction has
//! the walk, the rows, the numbers, the mark of what caused it, and the message that makes a worker take the first step. A
//! cause lets somebody into a sequence once, however often it is told; told again, it changes nothing at all.

use std::sync::Arc;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_delivery::eligibility::{self, Kind, Mailing, Question, Reason, Verdict};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, Key, MAX_BATCH_GET, StoreError, Txn, tables,
};
use tidings_people::contacts::{self, Attributes, FirstName, TagChange, Upsert, UpsertError};
use tidings_people::keys::time;
use tidings_people::race;

use super::funnel::{Changes, What};
use super::leave;
use super::{Doing, Execution, ExecutionId, keys, told};
use crate::definition::Reentry;
use crate::versions::{Active, Versions};

/// So long a cause is remembered. What comes twice comes within days.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(60 * 24);

/// So many items decide whether somebody comes in.
const DECIDES: usize = 4;
/// Of so many people they are read at once.
const READ_AT_ONCE: usize = MAX_BATCH_GET / DECIDES;
/// So many walks begin in one transaction: nine writes each at most, and the numbers.
const WRITTEN_AT_ONCE: usize = 10;

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
    /// When it was told, if that was before now: what was told since then can end it.
    pub told_at: Option<Timestamp>,
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
    /// Since it was told, he was told to leave.
    Over,
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
    let mut there = There::load(cx, &cmd).await?;
    if there.is_known_cause {
        return Ok(Entered::Before);
    }
    if cmd.person != Person::default() || !contacts::is_known(cx, &cmd.email).await? {
        let Person { first_name, attributes, tags } = cmd.person.clone();
        let email = cmd.email.clone();
        contacts::upsert(cx, Upsert { email, first_name, attributes, tags }).await?;
    }
    if !active.takes_people {
        return Ok(Entered::Refused(Refusal::Paused));
    }
    for _ in 0..race::ATTEMPTS {
        if let Some(reason) = refused(cx, mailing(&active), &cmd.email).await? {
            return Ok(Entered::Refused(Refusal::Person(reason)));
        }
        let (before, until) = match there.may_enter(cx, &active) {
            May::Enter { before, again_at } => (before, again_at),
            May::Not(answer) => return Ok(answer),
        };
        let execution = begin(cx, &active, &cmd);
        let mut changes = Changes::default();
        let arn = before.map(Execution::arn);
        let mut txn = letting_in(cx, &cmd, (&execution, arn.as_deref()), until.is_some());
        let profile = keys::profile(&cmd.email);
        txn = txn.check(&tables::MAIN, profile, Expect::That(still_may(&execution)));
        changes.entered(&execution);
        if let Some(before) = before {
            leave::counted(&mut changes, before, What::Left);
            txn = before.take_back(before.end_walk(txn), cx).enqueue(before.happened(
                cx,
                told::EXITED,
                Some("restarted"),
            ));
        }
        let txn = changes.count(txn, &execution.id, &execution.sequence);
        match cx.items().await?.transact(txn).await {
            Ok(()) if before.is_some() => return Ok(Entered::Restarted(Box::new(execution))),
            Ok(()) => return Ok(Entered::Began(Box::new(execution))),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
        there = There::load(cx, &cmd).await?;
    }
    Err(StoreError::Conflict.into())
}

/// Of a profile: whoever was refused since he was asked about stays outside, whichever of the two is written first.
fn still_may(execution: &Execution) -> Condition {
    let reachable = Condition::Ne("suppressed".into(), true.into());
    if execution.transactional {
        return reachable;
    }
    reachable.and(Condition::Ne("unsubscribed".into(), true.into()))
}

/// The walk, its rows, its first message, and what is remembered of it.
fn letting_in(
    cx: &Cx,
    cmd: &Enrol,
    (execution, before): (&Execution, Option<&str>),
    is_remembered: bool,
) -> Txn {
    let mut txn = execution
        .begin(Txn::new(), before)
        .enqueue(execution.message(cx.workspace()))
        .enqueue(execution.happened(cx, told::ENTERED, None));
    // What was told since then may be worked on at this very moment.
    if let Some(told_at) = cmd.told_at {
        let exit = keys::exited(&cmd.email, &cmd.sequence);
        txn = txn.check(&tables::MAIN, exit, Expect::That(leave::not_exited_since(told_at)));
    }
    if let Some(mark) = cmd.cause.as_deref().map(|cause| mark(cx, cause, &cmd.sequence)) {
        txn = txn.put(&tables::MAIN, mark, Expect::Absent);
    }
    if is_remembered {
        txn = txn.put(&tables::MAIN, visit(cx, cmd), Expect::Anything);
    }
    txn
}

/// The gate of every message decides who may come in. Whoever has to wait may.
pub(super) async fn refused(
    cx: &Cx,
    Mailing { kind, client, audience, topic }: Mailing,
    email: &EmailAddress,
) -> Result<Option<Reason>, StorageError> {
    let question = Question { kind, email: email.clone(), client, audience, topic };
    Ok(match eligibility::check(cx, &question).await?.verdict {
        Verdict::Skip(reason) => Some(reason),
        Verdict::Send | Verdict::Defer { .. } => None,
    })
}

/// What its mails are, for the gate.
pub(super) fn mailing(active: &Active) -> Mailing {
    let is_transactional = active.program.definition.transactional;
    let kind = if is_transactional { Kind::Transactional } else { Kind::Sequence };
    let Active { client, audience, topic, .. } = *active;
    Mailing { kind, client, audience, topic }
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
        told_at: cmd.told_at.unwrap_or(cx.now()),
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
    /// He left after it was told.
    is_over: bool,
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
        let mut found = items.batch_get(&tables::MAIN, &asked(cmd)).await?.into_iter();
        let mut next = || found.next().flatten();
        let (row, entered, cause, exit) = (next(), next(), next(), next());
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
            is_over: exit
                .zip(cmd.told_at)
                .is_some_and(|(exit, at)| !leave::not_exited_since(at).holds(&exit)),
        })
    }

    fn may_enter(&self, cx: &Cx, active: &Active) -> May<'_> {
        if self.is_known_cause {
            return May::Not(Entered::Before);
        }
        if self.is_over {
            return May::Not(Entered::Over);
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

/// What decides: whether he is in, when he came last, whether this cause has let him in, and when he left last.
fn asked(cmd: &Enrol) -> [Key; DECIDES] {
    [
        keys::of_subscriber(&cmd.email, &cmd.sequence),
        keys::entered(&cmd.email, &cmd.sequence),
        keys::cause(cmd.cause.as_deref().unwrap_or_default(), &cmd.sequence),
        keys::exited(&cmd.email, &cmd.sequence),
    ]
}

/// Lets those in of whom nothing is known that decides, many in one transaction. Tells which of them are in now; each of the
/// others is to be let in by himself. All of them are contacts, and may be written to.
pub(super) async fn enrol_new(
    cx: &Cx,
    active: &Active,
    cmds: &[Enrol],
) -> Result<Vec<bool>, StorageError> {
    let items = cx.items().await?;
    let mut are_in = vec![false; cmds.len()];
    let mut new = Vec::new();
    for (part, cmds) in cmds.chunks(READ_AT_ONCE).enumerate() {
        let wanted: Vec<Key> = cmds.iter().flat_map(asked).collect();
        let found = items.batch_get(&tables::MAIN, &wanted).await?;
        for (place, found) in found.chunks(DECIDES).enumerate() {
            if found.iter().all(Option::is_none) {
                new.push(part * READ_AT_ONCE + place);
            }
        }
    }
    let is_remembered = matches!(active.program.definition.reentry, Reentry::After(_));
    // They do not depend on each other, and an engine writes several at once as fast as one.
    let parts = new.chunks(WRITTEN_AT_ONCE).map(|places| {
        let (mut txn, mut changes) = (Txn::new(), Changes::default());
        let mut first = None;
        for place in places {
            let cmd = &cmds[*place];
            let execution = begin(cx, active, cmd);
            txn = txn.and(letting_in(cx, cmd, (&execution, None), is_remembered));
            changes.entered(&execution);
            first.get_or_insert(execution.id);
        }
        let sequence = active.program.definition.id.as_str();
        let txn = first.map(|first| changes.count(txn, &first, sequence));
        let items = Arc::clone(&items);
        async move {
            match txn {
                Some(txn) => (places, items.transact(txn).await),
                None => (places, Ok(())),
            }
        }
    });
    for (places, written) in join_all(parts).await {
        match written {
            Ok(()) => places.iter().for_each(|place| are_in[*place] = true),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(are_in)
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
