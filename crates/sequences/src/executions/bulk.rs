//! Letting many people in: everybody whom a condition means, page by page.
//!
//! How far it is, is one item. A page lets its people in, each by himself and for the same cause, and then moves the item
//! on; whoever does a page again finds those who are in already. Memory holds one page.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_delivery::eligibility::{self, Answer, Loaded, Verdict};
use tidings_jobs::Outcome;
use tidings_jobs::contracts::{Contract as _, SequenceStep, SequenceTask};
use tidings_kernel::{
    Condition as ItemCondition, EmailAddress, Expect, Item, Key, Outgoing, Put, StoreError, Txn,
    Workspace, queues, tables,
};
use tidings_outreach::audience::{self, Condition, Walk};
use tidings_people::keys::time;
use tidings_people::race;

use super::walk::Tools;
use super::{Enrol, EnrolError, Entered, ExecutionId, Person, enrol, enter};
use crate::versions::{Active, Versions};

/// So many people are on a page.
const PAGE: usize = 100;
/// So many pages a worker does before somebody else may go on.
const PAGES: usize = 10;

pub type EnrolmentId = ExecutionId;

/// Many people on their way into a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Enrolment {
    pub id: EnrolmentId,
    pub sequence: String,
    pub condition: Condition,
    /// What the steps are told, as if an event had said it.
    pub input: Value,
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub counts: Counts,
    cursor: Option<String>,
    rev: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub looked_at: i64,
    /// In now, or in before for this cause.
    pub entered: i64,
    /// Where they were, by the sequence's own rule.
    pub already_in: i64,
    pub refused: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("there is no sequence {0}")]
    Missing(String),
    #[error("this key was used for an enrolment of others, or with other data")]
    KeyReused,
    #[error("nobody could be let into the sequence")]
    Store(#[from] StorageError),
}

/// From now on everybody whom the condition means is let in, as far as he may come.
pub async fn begin_enrolment(
    cx: &Cx,
    versions: &Versions,
    sequence: &str,
    what: (Condition, Value),
) -> Result<Enrolment, BeginError> {
    begin_enrolment_once(cx, versions, sequence, what, EnrolmentId::new(cx.now())).await
}

/// The same under an id that was made from what its caller calls it: asked again, it gives what was begun then. Something
/// else under the same name is refused.
pub async fn begin_enrolment_once(
    cx: &Cx,
    versions: &Versions,
    sequence: &str,
    (condition, input): (Condition, Value),
    id: EnrolmentId,
) -> Result<Enrolment, BeginError> {
    if versions.active(cx, sequence).await?.is_none() {
        return Err(BeginError::Missing(sequence.to_owned()));
    }
    let enrolment = Enrolment {
        id,
        sequence: sequence.to_owned(),
        condition,
        input,
        began_at: cx.now(),
        ended_at: None,
        counts: Counts::default(),
        cursor: None,
        rev: 0,
    };
    let txn = Txn::new().put(&tables::MAIN, enrolment.to_item(), Expect::Absent);
    let told = json!({ "enrolment": enrolment.id.to_string() });
    let change = Change::new("sequence.enrol", "sequence", sequence).after(told);
    let txn = txn.enqueue(enrolment.message(cx.workspace())).enqueue(cx.audited(&change));
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(enrolment),
        Err(error) if race::lost(&error) => {
            let begun = self::enrolment(cx, &enrolment.id).await?;
            let begun = begun.ok_or(StorageError::from(error))?;
            let asked = |one: &Enrolment| (one.condition.clone(), one.input.clone());
            if asked(&begun) == asked(&enrolment) { Ok(begun) } else { Err(BeginError::KeyReused) }
        }
        Err(error) => Err(StorageError::from(error).into()),
    }
}

/// How far it is. `None` if there is no such enrolment.
pub async fn enrolment(cx: &Cx, id: &EnrolmentId) -> Result<Option<Enrolment>, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &key(id)).await?;
    Ok(item.map(|item| Enrolment::read(id, &item)).transpose()?)
}

pub(super) async fn go_on(
    tools: &Tools,
    workspace: &Workspace,
    id: &EnrolmentId,
) -> Result<Outcome, StorageError> {
    for _ in 0..PAGES {
        let Some(cx) = tools.access.working_in(workspace).await? else { return Ok(Outcome::Done) };
        let Some(mut enrolment) = enrolment(&cx, id).await? else { return Ok(Outcome::Done) };
        if enrolment.ended_at.is_some() {
            return Ok(Outcome::Done);
        }
        if let Err(why) = page(tools, &cx, &mut enrolment).await? {
            tracing::warn!(enrolment.id = %id, why, "Enrolment {id} was given up");
            enrolment.ended_at = Some(cx.now());
        }
        match enrolment.save(&cx).await {
            Ok(()) => {}
            // Somebody else does the same: he goes on.
            Err(error) if race::lost(&error) => return Ok(Outcome::Done),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Outcome::wait(format!("enrolment {id} goes on"), Duration::ZERO))
}

/// Lets a page of people in. The inner error says why nobody can be let in any more.
async fn page(
    tools: &Tools,
    cx: &Cx,
    enrolment: &mut Enrolment,
) -> Result<Result<(), String>, StorageError> {
    let Some(active) = tools.versions.active(cx, &enrolment.sequence).await? else {
        return Ok(Err("its sequence is gone".to_owned()));
    };
    let condition = enrolment.condition.clone();
    let walk =
        Walk { condition, client: active.client, audience: active.audience, profiles: false };
    let found = audience::page(cx, &walk, enrolment.cursor.as_deref(), PAGE).await?;
    let enrol_of = |email: &EmailAddress, lead: i64| Enrol {
        sequence: enrolment.sequence.clone(),
        email: email.clone(),
        person: Person::default(),
        input: enrolment.input.clone(),
        cause: Some(format!("enrolment/{}/{lead}", enrolment.id)),
        told_at: None,
    };
    let cmds: Vec<Enrol> =
        found.contacts.iter().map(|member| enrol_of(&member.email, member.lead_id.get())).collect();
    let counts = match let_in(tools, cx, &active, cmds).await? {
        Ok(counts) => counts,
        Err(why) => return Ok(Err(why)),
    };
    enrolment.counts.entered += counts.entered;
    enrolment.counts.already_in += counts.already_in;
    enrolment.counts.refused += counts.refused;
    enrolment.counts.looked_at += i64::try_from(found.looked_at).unwrap_or(0);
    if found.next.is_none() {
        enrolment.ended_at = Some(cx.now());
    }
    enrolment.cursor = found.next;
    Ok(Ok(()))
}

/// Those of whom there is nothing to decide together, and each of the others by himself.
async fn let_in(
    tools: &Tools,
    cx: &Cx,
    active: &Active,
    cmds: Vec<Enrol>,
) -> Result<Result<Counts, String>, StorageError> {
    let mut counts = Counts::default();
    if !active.takes_people {
        counts.refused = i64::try_from(cmds.len()).unwrap_or(0);
        return Ok(Ok(counts));
    }
    let asked =
        |cmd: &Enrol| eligibility::Person { email: cmd.email.clone(), profile: Loaded::NotYet };
    let people = cmds.iter().map(asked).collect();
    let answers = eligibility::check_all(cx, &enter::mailing(active), people).await?;
    let may = |answer: &Answer| !matches!(answer.explanation.verdict, Verdict::Skip(_));
    let all = cmds.len();
    let cmds: Vec<Enrol> = cmds
        .into_iter()
        .zip(&answers)
        .filter(|(_, answer)| may(answer))
        .map(|(cmd, _)| cmd)
        .collect();
    counts.refused = i64::try_from(all - cmds.len()).unwrap_or(0);
    let are_in = enter::enrol_new(cx, active, &cmds).await?;
    for (cmd, is_in) in cmds.into_iter().zip(are_in) {
        if is_in {
            counts.entered += 1;
            continue;
        }
        match enrol(cx, &tools.versions, cmd).await {
            Ok(Entered::Began(_) | Entered::Restarted(_) | Entered::Before) => counts.entered += 1,
            Ok(Entered::AlreadyIn(_) | Entered::TooSoon { .. } | Entered::Over) => {
                counts.already_in += 1
            }
            Ok(Entered::Refused(_)) | Err(EnrolError::Person(_)) => counts.refused += 1,
            Err(EnrolError::Missing(_)) => return Ok(Err("its sequence is gone".to_owned())),
            Err(EnrolError::Store(error)) => return Err(error),
        }
    }
    Ok(Ok(counts))
}

fn key(id: &EnrolmentId) -> Key {
    Key::new(format!("ENROLMENT#{id}"), "STATE")
}

impl Enrolment {
    fn message(&self, workspace: &Workspace) -> Outgoing {
        let step = SequenceStep::new(workspace.clone(), SequenceTask::Enrol, self.id.as_str());
        let body = step.to_body().expect("an id is within its bounds");
        Outgoing::new(&queues::SEQUENCE_STEPS, body)
    }

    async fn save(&self, cx: &Cx) -> Result<(), StoreError> {
        let mut item = self.to_item();
        item.set("rev", self.rev + 1);
        let same = Expect::That(ItemCondition::eq("rev", self.rev));
        let items = cx.items().await.map_err(|error| match error {
            StorageError::Items(error) => error,
            StorageError::Relations(error) => StoreError::Unavailable(Box::new(error)),
        })?;
        items.put(Put::new(&tables::MAIN, item).expect(same)).await.map(drop)
    }

    fn to_item(&self) -> Item {
        let mut item = tables::MAIN.bare_item(&key(&self.id));
        item.set("sequenceId", self.sequence.as_str());
        item.set("condition", self.condition.to_json().to_string());
        item.set("input", self.input.to_string());
        item.set("beganAt", time(self.began_at));
        if let Some(at) = self.ended_at {
            item.set("endedAt", time(at));
        }
        if let Some(cursor) = &self.cursor {
            item.set("cursor", cursor.as_str());
        }
        item.set("lookedAt", self.counts.looked_at);
        item.set("entered", self.counts.entered);
        item.set("alreadyIn", self.counts.already_in);
        item.set("refused", self.counts.refused);
        item.set("rev", self.rev);
        item
    }

    fn read(id: &EnrolmentId, item: &Item) -> Result<Self, StoreError> {
        let damaged = || {
            let told = "an enrolment cannot be read";
            StoreError::Corrupt(Box::new(std::io::Error::other(told)))
        };
        let text = |name| item.text(name).ok_or_else(damaged);
        let at = |name| text(name)?.parse::<Timestamp>().map_err(|_| damaged());
        let number = |name| item.integer(name).unwrap_or(0);
        let condition = serde_json::from_str::<Condition>(text("condition")?);
        Ok(Self {
            id: id.clone(),
            sequence: text("sequenceId")?.to_owned(),
            condition: condition.map_err(|_| damaged())?,
            input: serde_json::from_str(text("input")?).unwrap_or_default(),
            began_at: at("beganAt")?,
            ended_at: item.text("endedAt").map(|_| at("endedAt")).transpose()?,
            counts: Counts {
                looked_at: number("lookedAt"),
                entered: number("entered"),
                already_in: number("alreadyIn"),
                refused: number("refused"),
            },
            cursor: item.text("cursor").map(ToOwned::to_owned),
            rev: number("rev"),
        })
    }
}
