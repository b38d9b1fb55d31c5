//! A definition in the form in which it is walked: places in a row, each with what is done there and where it goes on.
//!
//! Branches lie one after the other behind the step that they belong to, and every place knows the next, past the ends of
//! branches too. So a walk is one number, and nothing has to be remembered of how it came there. The end is the number
//! after the last place. Pure: what a place does is done in `executions`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidings_people::contacts::Tag;

use super::{
    Action, Branch, Check, Clause, Definition, InboxBody, InboxMessage, Mails, Path, Setting, Step,
    Wait, WaitFor, filter,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub definition: Definition,
    pub places: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The id of the step.
    pub step: String,
    pub op: Op,
}

/// What is done at a place, and where it goes on from there.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Send {
        mails: Mails,
        next: usize,
    },
    Wait {
        wait: Wait,
        next: usize,
    },
    WaitFor {
        event: String,
        filter: Vec<Clause>,
        timeout: Duration,
        /// When the event came in time.
        came: usize,
        late: usize,
    },
    Choice {
        path: Path,
        branches: Vec<(Value, usize)>,
        default: usize,
    },
    Check {
        check: Check,
        yes: usize,
        no: usize,
    },
    Tag {
        add: Vec<Tag>,
        remove: Vec<Tag>,
        next: usize,
    },
    Set {
        values: BTreeMap<String, Setting>,
        next: usize,
    },
    Inbox {
        message: InboxMessage,
        next: usize,
    },
    Webhook {
        event: String,
        data: BTreeMap<String, Setting>,
        next: usize,
    },
    Exit {
        reason: Option<String>,
    },
}

impl Program {
    pub fn of(definition: Definition) -> Self {
        let mut places = Vec::new();
        let end = size_of(&definition.steps);
        lay_out(&definition.steps, end, &mut places);
        Self { definition, places }
    }

    /// Where a walk is that has done everything.
    pub fn end(&self) -> usize {
        self.places.len()
    }

    /// `None` at the end, and beyond it.
    pub fn place(&self, at: usize) -> Option<&Place> {
        self.places.get(at)
    }

    /// Where the step of this id is.
    pub fn find(&self, step: &str) -> Option<usize> {
        self.places.iter().position(|place| place.step == step)
    }
}

impl Op {
    /// Everywhere it may go on. Nowhere after an exit.
    pub fn nexts(&self) -> Vec<usize> {
        match self {
            Self::Send { next, .. }
            | Self::Wait { next, .. }
            | Self::Tag { next, .. }
            | Self::Set { next, .. }
            | Self::Inbox { next, .. }
            | Self::Webhook { next, .. } => vec![*next],
            Self::WaitFor { came, late, .. } => vec![*came, *late],
            Self::Check { yes, no, .. } => vec![*yes, *no],
            Self::Choice { branches, default, .. } => {
                branches.iter().map(|(_, to)| *to).chain([*default]).collect()
            }
            Self::Exit { .. } => Vec::new(),
        }
    }

    /// Whether an event with this name and data is what is waited for here.
    pub fn is_waiting_for(&self, name: &str, data: &Value) -> bool {
        match self {
            Self::WaitFor { event, filter, .. } => event == name && filter::holds(filter, data),
            _ => false,
        }
    }
}

/// Where a choice goes on, by the trigger's data. What is not there, or is no plain value, takes the default.
pub fn choose(path: &Path, branches: &[(Value, usize)], default: usize, data: &Value) -> usize {
    let Some(found) = path.find(data) else { return default };
    let same = branches.iter().find(|(value, _)| is_same(value, found));
    same.map_or(default, |(_, to)| *to)
}

/// Whether two values are one: texts, numbers (1 is 1.0) and truths. A number is also its text.
pub fn is_same(one: &Value, other: &Value) -> bool {
    key_of(one).is_some_and(|key| key_of(other) == Some(key))
}

impl Setting {
    /// What is set, by the trigger's data. `None` if there is nothing.
    pub fn value<'s>(&'s self, data: &'s Value) -> Option<&'s Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::FromTrigger(path) => path.find(data),
        }
    }
}

impl InboxMessage {
    /// What it is called, for those who look at the sequence.
    pub fn title_text(&self) -> String {
        match &self.title {
            Setting::Value(value) => text_of(value),
            Setting::FromTrigger(path) => path.text.clone(),
        }
    }

    /// What it is called for somebody whom this data let in.
    pub fn title(&self, data: &Value) -> String {
        self.title.value(data).map(text_of).unwrap_or_default()
    }

    pub fn cta_uri(&self, data: &Value) -> Option<String> {
        Some(text_of(self.cta_uri.as_ref()?.value(data)?))
    }

    pub fn body(&self, data: &Value) -> Value {
        match &self.body {
            None => Value::Null,
            Some(InboxBody::One(one)) => one.value(data).cloned().unwrap_or_default(),
            Some(InboxBody::Fields(fields)) => {
                let value = |setting: &Setting| setting.value(data).cloned().unwrap_or_default();
                fields.iter().map(|(name, setting)| (name.clone(), value(setting))).collect()
            }
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Alike for values that are the same. `None` for lists and objects, and for nothing.
pub(super) fn key_of(value: &Value) -> Option<(bool, String)> {
    match value {
        Value::Bool(truth) => Some((true, truth.to_string())),
        Value::String(text) => Some((false, text.clone())),
        Value::Number(number) if number.is_f64() => {
            // Without a fraction it is written as a whole number is. Nothing added makes minus nothing plain nothing.
            number.as_f64().map(|number| (false, (number + 0.0).to_string()))
        }
        Value::Number(number) => Some((false, number.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// How many places these steps take.
fn size_of(steps: &[Step]) -> usize {
    steps.iter().map(|step| 1 + branches_of(step).into_iter().map(size_of).sum::<usize>()).sum()
}

fn branches_of(step: &Step) -> Vec<&[Step]> {
    match &step.action {
        Action::Condition { then, otherwise, .. }
        | Action::WaitFor(WaitFor { then, otherwise, .. }) => vec![then, otherwise],
        Action::Choice { branches, default, .. } => {
            branches.iter().map(|branch| &branch.steps[..]).chain([&default[..]]).collect()
        }
        Action::Send(_)
        | Action::Wait(_)
        | Action::Tag { .. }
        | Action::Set(_)
        | Action::Inbox(_)
        | Action::Webhook { .. }
        | Action::Exit { .. } => Vec::new(),
    }
}

/// Puts the steps behind what is there. After the last of them it goes on at `after`.
fn lay_out(steps: &[Step], after: usize, places: &mut Vec<Place>) {
    let Some((last, others)) = steps.split_last() else { return };
    for step in others {
        let next = places.len() + size_of(std::slice::from_ref(step));
        lay_out_one(step, next, places);
    }
    lay_out_one(last, after, places);
}

fn lay_out_one(step: &Step, next: usize, places: &mut Vec<Place>) {
    let mut free = places.len() + 1;
    // An empty branch is where it goes on.
    let mut entries = Vec::new();
    let branches = branches_of(step);
    for branch in &branches {
        entries.push(if branch.is_empty() { next } else { free });
        free += size_of(branch);
    }
    places.push(Place { step: step.id.clone(), op: op(&step.action, next, &entries) });
    for branch in branches {
        lay_out(branch, next, places);
    }
}

/// `entries` are where its branches begin, in their order.
fn op(action: &Action, next: usize, entries: &[usize]) -> Op {
    match action {
        Action::Send(mails) => Op::Send { mails: mails.clone(), next },
        Action::Wait(wait) => Op::Wait { wait: wait.clone(), next },
        Action::WaitFor(WaitFor { event, filter, timeout, .. }) => Op::WaitFor {
            event: event.clone(),
            filter: filter.clone(),
            timeout: *timeout,
            came: entries[0],
            late: entries[1],
        },
        Action::Choice { path, branches, .. } => {
            let entry = |(branch, to): (&Branch, &usize)| (branch.value.clone(), *to);
            Op::Choice {
                path: path.clone(),
                branches: branches.iter().zip(entries).map(entry).collect(),
                default: entries[branches.len()],
            }
        }
        Action::Condition { check, .. } => {
            Op::Check { check: check.clone(), yes: entries[0], no: entries[1] }
        }
        Action::Tag { add, remove } => Op::Tag { add: add.clone(), remove: remove.clone(), next },
        Action::Set(values) => Op::Set { values: values.clone(), next },
        Action::Inbox(message) => Op::Inbox { message: message.clone(), next },
        Action::Webhook { event, data } => {
            Op::Webhook { event: event.clone(), data: data.clone(), next }
        }
        Action::Exit { reason } => Op::Exit { reason: reason.clone() },
    }
}
