//! Walking through a sequence without doing anything: what somebody would get, and when.
//!
//! Conditions are asked as they are now, but for what the walk itself has sent, tagged and set by then. Waits pass in no time,
//! and what is waited for comes or does not as it is assumed.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_delivery::eligibility::{self, Kind, Question, Verdict};
use tidings_kernel::{EmailAddress, Value as Known, plain};
use tidings_outreach::audience::{Condition, Subject};
use tidings_people::contacts::{self, Tag};

use super::walk::{answer, equals, exists, settings};
use crate::definition::Check;
use crate::definition::{Op, Program, choose};
use crate::versions::Versions;

/// More steps than any definition has.
const MOST: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Simulate {
    pub sequence: String,
    pub email: EmailAddress,
    /// The data of the event that lets him in.
    pub input: Value,
    pub at: Timestamp,
    pub assumed: Assumed,
}

/// The events that come while they are waited for. All others do not.
pub type Assumed = Vec<String>;

#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Why he would not come in, if so.
    pub refused: Option<&'static str>,
    pub walked: Vec<Walked>,
    pub ended_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Walked {
    pub at: Timestamp,
    pub step: String,
    /// `send`, `wait`, …
    pub kind: &'static str,
    /// In words.
    pub told: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error("there is no sequence {0}")]
    Missing(String),
    #[error("the sequence could not be walked through")]
    Store(#[from] StorageError),
}

pub async fn simulate(
    cx: &Cx,
    versions: &Versions,
    cmd: &Simulate,
) -> Result<Simulated, SimulateError> {
    let active = versions.active(cx, &cmd.sequence).await?;
    let active = active.ok_or_else(|| SimulateError::Missing(cmd.sequence.clone()))?;
    let definition = &active.program.definition;
    let question = Question {
        kind: if definition.transactional { Kind::Transactional } else { Kind::Sequence },
        email: cmd.email.clone(),
        client: active.client,
        audience: active.audience,
        topic: active.topic,
    };
    let refused = match eligibility::check(cx, &question).await?.verdict {
        Verdict::Skip(reason) => Some(reason.as_str()),
        Verdict::Send | Verdict::Defer { .. } => None,
    };
    let zone = contacts::timezone(cx, &cmd.email).await?;
    let zone = zone.and_then(|name| TimeZone::get(&name).ok());
    let mut ghost = Ghost { at: cmd.at, zone, ..Ghost::default() };
    let timeout = SignedDuration::try_from(definition.timeout).unwrap_or(SignedDuration::MAX);
    let deadline = cmd.at.saturating_add(timeout).unwrap_or(Timestamp::MAX);
    let mut place = 0;
    for _ in 0..MOST {
        if ghost.at >= deadline {
            ghost.at = deadline;
            ghost.note("", "timeout", "it is not at its end in time, and fails".to_owned());
            break;
        }
        match ghost.step(cx, versions, (&active.program, cmd), place).await? {
            Some(next) => place = next,
            None => break,
        }
    }
    Ok(Simulated { refused, walked: ghost.walked, ended_at: ghost.at })
}

/// Who walks.
#[derive(Default)]
struct Ghost {
    at: Timestamp,
    walked: Vec<Walked>,
    zone: Option<TimeZone>,
    /// What he would have been sent on the way.
    sent: Vec<String>,
    /// The tags that he would have been given, or would have lost.
    tagged: BTreeMap<Tag, bool>,
    /// What would have been written to his attributes.
    set: BTreeMap<String, Known>,
}

/// What is left of a condition once it is known what the walk itself has changed.
enum Left {
    Decided(bool),
    Asks(Condition),
}

impl Ghost {
    async fn holds(
        &self,
        cx: &Cx,
        versions: &Versions,
        of: (&Program, &EmailAddress),
        check: &Check,
    ) -> Result<bool, StorageError> {
        let left = match (self.decides(check), check) {
            (Left::Decided(holds), _) => return Ok(holds),
            (Left::Asks(left), Check::Matches(_)) => Check::Matches(left),
            (Left::Asks(_), own) => own.clone(),
        };
        Ok(answer(cx, versions, of, &left).await?.unwrap_or(true))
    }

    /// Whether what the walk itself has done decides it.
    fn decides(&self, check: &Check) -> Left {
        let open = || Left::Asks(Condition::EVERYONE);
        match check {
            Check::HasBeenSent(template) => {
                let is_sent = self.sent.iter().any(|sent| sent == template.as_str());
                if is_sent { Left::Decided(true) } else { open() }
            }
            Check::FieldExists(field) => match self.set.get(field) {
                Some(value) => Left::Decided(exists(Some(value))),
                None => open(),
            },
            Check::FieldEquals(field, wanted) => match self.set.get(field) {
                Some(value) => Left::Decided(equals(value, wanted)),
                None => open(),
            },
            Check::Matches(condition) => self.left_of(condition),
            Check::HasOpened(_) | Check::HasClicked(_) => open(),
        }
    }

    fn left_of(&self, condition: &Condition) -> Left {
        let asks = || Left::Asks(condition.clone());
        match condition {
            Condition::Tag(tag) => self.tagged.get(tag).map_or_else(asks, |is| Left::Decided(*is)),
            Condition::Known(Subject::Attribute(name), test) => match self.set.get(name) {
                Some(value) => Left::Decided(test.holds(Some(value))),
                None => asks(),
            },
            Condition::Not(inner) => match self.left_of(inner) {
                Left::Decided(holds) => Left::Decided(!holds),
                Left::Asks(inner) => Left::Asks(Condition::Not(Box::new(inner))),
            },
            Condition::All(parts) => self.joined(parts, false, Condition::All),
            Condition::Any(parts) => self.joined(parts, true, Condition::Any),
            Condition::Known(Subject::Feature(_) | Subject::Memory { .. }, _)
            | Condition::Audience(_)
            | Condition::Segment(_)
            | Condition::Contacts(_) => asks(),
        }
    }

    /// One part that is `decisive` decides; the others count for nothing once they are known.
    fn joined(
        &self,
        parts: &[Condition],
        decisive: bool,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Left {
        let mut open = Vec::new();
        for part in parts {
            match self.left_of(part) {
                Left::Decided(holds) if holds == decisive => return Left::Decided(decisive),
                Left::Decided(_) => {}
                Left::Asks(part) => open.push(part),
            }
        }
        if open.is_empty() { Left::Decided(!decisive) } else { Left::Asks(join(open)) }
    }

    fn note(&mut self, step: &str, kind: &'static str, told: String) {
        self.walked.push(Walked { at: self.at, step: step.to_owned(), kind, told });
    }

    async fn step(
        &mut self,
        cx: &Cx,
        versions: &Versions,
        (program, cmd): (&Program, &Simulate),
        place: usize,
    ) -> Result<Option<usize>, StorageError> {
        let Some(found) = program.place(place) else { return Ok(None) };
        let step = found.step.as_str();
        let zone = self.zone.clone();
        Ok(match &found.op {
            Op::Send { mails, next } => {
                if let Some(window) = &program.definition.window
                    && let Some(until) = window.opens(self.at, zone.as_ref())
                {
                    self.note(step, "window", format!("waits until {until}"));
                    self.at = until;
                }
                let (mail, arm) = mails.of(&cmd.email, &program.definition.id);
                let variant = arm.map(|arm| format!(" (variant {})", arm + 1)).unwrap_or_default();
                self.note(step, "send", format!("{}{variant}", mail.template));
                self.sent.push(mail.template.to_string());
                Some(*next)
            }
            Op::Wait { wait, next } => {
                let until = wait.ends(self.at, zone.as_ref());
                self.note(step, "wait", format!("until {until}"));
                self.at = until;
                Some(*next)
            }
            Op::WaitFor { event, timeout, came, late, .. } => {
                if cmd.assumed.contains(event) {
                    self.note(step, "wait_for", format!("{event} comes"));
                    Some(*came)
                } else {
                    let timeout = SignedDuration::try_from(*timeout).unwrap_or(SignedDuration::MAX);
                    self.note(step, "wait_for", format!("{event} does not come"));
                    self.at = self.at.saturating_add(timeout).unwrap_or(Timestamp::MAX);
                    Some(*late)
                }
            }
            Op::Choice { path, branches, default } => {
                let value = path.find(&cmd.input).map_or("nothing".to_owned(), Value::to_string);
                self.note(step, "choice", format!("{} is {value}", path.text));
                Some(choose(path, branches, *default, &cmd.input))
            }
            Op::Check { check, yes, no } => {
                let holds = self.holds(cx, versions, (program, &cmd.email), check).await?;
                self.note(step, "condition", if holds { "yes" } else { "no" }.to_owned());
                Some(if holds { *yes } else { *no })
            }
            Op::Tag { add, remove, next } => {
                let signed = add.iter().map(|tag| format!("+{tag}"));
                let signed = signed.chain(remove.iter().map(|tag| format!("-{tag}")));
                self.note(step, "tag", signed.collect::<Vec<_>>().join(" "));
                self.tagged.extend(add.iter().map(|tag| (tag.clone(), true)));
                self.tagged.extend(remove.iter().map(|tag| (tag.clone(), false)));
                Some(*next)
            }
            Op::Set { values, next } => {
                let names: Vec<_> = values.keys().map(String::as_str).collect();
                self.note(step, "set", names.join(", "));
                for (name, value) in settings(values, &cmd.input) {
                    self.set.extend(plain::to_value(&value).ok().map(|value| (name, value)));
                }
                Some(*next)
            }
            Op::Inbox { message, next } => {
                let title = message.title(&cmd.input);
                self.note(step, "inbox", format!("{}: {title}", message.inbox));
                Some(*next)
            }
            Op::Webhook { event, next, .. } => {
                self.note(step, "webhook", event.clone());
                Some(*next)
            }
            Op::Exit { reason } => {
                self.note(step, "exit", reason.clone().unwrap_or_default());
                None
            }
        })
    }
}
