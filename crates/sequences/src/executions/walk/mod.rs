//! The worker of `sequence-steps`: takes one execution further, as far as it goes now.
//!
//! A message names an execution; where it is and what there is to do, its item says. Steps that only decide are taken one
//! after the other in memory; what was done, and what was decided by asking, is written down before anything else is done:
//! whoever is cut off repeats one step at most, and asked again it might be decided otherwise. A mail, an inbox message and a
//! webhook have a name made of the execution and its place, so whoever repeats one finds what was done; tags and attributes
//! are changed in the transaction that takes the walk further, so that nobody repeats them.
//!
//! A walk that cannot be taken further ends as failed with the last try of its message, and not as a dead letter, which
//! nobody would look for.
//!
//! Here: the order of things. What a step is, `rules` says; what it does, `act`; what a condition asks, `ask`; and what wakes
//! a waiting one, `wake`.

mod act;
mod ask;
mod rules;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tidings_access::{Access, Cx, StorageError};
use tidings_delivery::transactional::{self, Messages};
use tidings_inbox::Inbox;
use tidings_jobs::contracts::{Contract as _, SequenceStep, SequenceTask};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, MAX_DELAY, Outgoing, Txn, Workspace, causes, queues, tables};
use tidings_people::contacts::{self, Edit, Update, UpdateError};
use tidings_people::race;

use super::funnel::{Changes, What};
use super::{Doing, Execution, ExecutionId, bulk, keys, leave, skips, told};
use crate::definition::{Op, Program};
use crate::versions::Versions;
use act::Acted;
use rules::Next;

pub(super) use act::settings;
pub(crate) use act::{context, part_of};
pub(super) use ask::{answer, equals, exists};
pub(crate) use wake::{Heard, hear};
pub use wake::{SkipError, skip_wait};

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// So many steps are taken before what was decided is written down: a transaction has its bounds.
const AT_ONCE: usize = 20;
/// So many times a worker writes down before somebody else may go on.
const TURNS: usize = 100;
/// So often a step that cannot be done is tried again, first after this long and then twice as long each time.
const TRIES: u32 = 3;
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// Why a mail is taken back.
const STOPPED: &str = "its execution was stopped";
/// Why a walk has failed that no worker could even say why of.
const NO_END: &str = "whoever took it further came to no end, again and again";

/// What a worker stands on. Clones share it.
#[derive(Clone)]
pub struct Tools {
    pub access: Access,
    pub versions: Versions,
    pub messages: Messages,
    pub inbox: Arc<Inbox>,
}

#[derive(Clone)]
pub struct Worker {
    tools: Tools,
}

impl Worker {
    pub fn new(tools: Tools) -> Self {
        Self { tools }
    }

    pub fn handler(&self) -> Arc<dyn Handler> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Handler for Worker {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        match SequenceStep::parse(&delivery.body) {
            Ok(message) => self.work(message, delivery.receives).await,
            Err(error) => Outcome::dead(error.to_string()),
        }
    }
}

impl Worker {
    async fn work(&self, message: SequenceStep, receives: u32) -> Outcome {
        let Some(id) = ExecutionId::parse(&message.id) else {
            return Outcome::dead("nothing can have this id");
        };
        let workspace = &message.workspace;
        let left = queues::SEQUENCE_STEPS.max_receives.saturating_sub(receives);
        let done = match message.task {
            // Whoever had it before did not even come to an error: a panic, a time-out, a process that ended.
            SequenceTask::GoOn if left == 0 => self.give_up(workspace, &id, NO_END).await,
            SequenceTask::GoOn => match self.take(workspace, &id).await {
                Err(error) if left == 1 && !error.is_passing() => {
                    self.give_up(workspace, &id, &causes(&error)).await
                }
                done => done,
            },
            SequenceTask::TakeBack => self.take_back(workspace, &id).await,
            SequenceTask::Enrol => bulk::go_on(&self.tools, workspace, &id).await,
            SequenceTask::Skipped => self.skipped(workspace, &id, message.message_id).await,
        };
        match done {
            Ok(outcome) => outcome,
            Err(error) => {
                let reason = format!("execution {id} could not go on: {}", causes(&error));
                // A store that is away is no fault of the execution, and uses up none of its tries.
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }
}

/// What has been decided since the walk was written down last.
#[derive(Clone)]
struct Walk {
    /// As the item has it.
    stored: Execution,
    /// As it will have it.
    now: Execution,
    changes: Changes,
    steps: usize,
    /// What goes on his timeline if it is written down.
    told: Vec<Outgoing>,
    /// What is known of the person decided something: asked again, the answer may be another.
    asked: bool,
    /// Something was done that others can see.
    acted: bool,
}

impl Worker {
    async fn take_back(
        &self,
        workspace: &Workspace,
        id: &ExecutionId,
    ) -> Result<Outcome, StorageError> {
        if let Some(cx) = self.tools.access.working_in(workspace).await? {
            transactional::cancel_queued_of(&cx, id.as_str(), STOPPED).await?;
        }
        Ok(Outcome::Done)
    }

    async fn skipped(
        &self,
        workspace: &Workspace,
        id: &ExecutionId,
        message: Option<i64>,
    ) -> Result<Outcome, StorageError> {
        if let Some(cx) = self.tools.access.working_in(workspace).await?
            && let Some(message) = message
        {
            skips::count(&cx, id, message.into()).await?;
        }
        Ok(Outcome::Done)
    }

    /// It is at its end, or was taken out. If so, it may have been in somebody's hands, here or where a process has died:
    /// what he gave away after the others were taken back is taken back now.
    async fn gone(&self, cx: &Cx, id: &ExecutionId) -> Result<Outcome, StorageError> {
        if cx.items().await?.get(&tables::MAIN, &keys::stopped(id)).await?.is_some() {
            transactional::cancel_queued_of(cx, id.as_str(), STOPPED).await?;
        }
        Ok(Outcome::Done)
    }

    /// The last try of its message: it has failed, where people look for what has.
    async fn give_up(
        &self,
        workspace: &Workspace,
        id: &ExecutionId,
        why: &str,
    ) -> Result<Outcome, StorageError> {
        for _ in 0..race::ATTEMPTS {
            let Some(cx) = self.tools.access.working_in(workspace).await? else {
                return Ok(Outcome::dead(format!("execution {id} is of no workspace")));
            };
            let item = cx.items().await?.get(&tables::MAIN, &keys::state(id)).await?;
            let Some(item) = item else { return self.gone(&cx, id).await };
            let stored = Execution::read(&item)?;
            let waits = stored.doing != Doing::Going && stored.next_at() > cx.now();
            let turn = match waits {
                true => self.stay(&cx, Walk::new(stored)).await?,
                false => self.fail(&cx, Walk::new(stored), why).await?,
            };
            if let Turn::Over(outcome) = turn {
                return Ok(outcome);
            }
        }
        Ok(Outcome::retry(format!("execution {id} could not be given up")))
    }

    async fn take(&self, workspace: &Workspace, id: &ExecutionId) -> Result<Outcome, StorageError> {
        for _ in 0..TURNS {
            // Each turn has its own time: what is due is decided by it.
            let Some(cx) = self.tools.access.working_in(workspace).await? else {
                return Ok(Outcome::dead(format!("execution {id} is of no workspace")));
            };
            let item = cx.items().await?.get(&tables::MAIN, &keys::state(id)).await?;
            let Some(item) = item else { return self.gone(&cx, id).await };
            match self.turn(&cx, Execution::read(&item)?).await? {
                Turn::Again => {}
                Turn::Over(outcome) => return Ok(outcome),
            }
        }
        Ok(Outcome::wait(format!("execution {id} has taken many steps"), Duration::ZERO))
    }

    /// Up to the next time that it is written down.
    async fn turn(&self, cx: &Cx, stored: Execution) -> Result<Turn, StorageError> {
        let program = self.tools.versions.program(cx, &stored.sequence, stored.version).await?;
        let mut walk = Walk::new(stored);
        let Some(program) = program else {
            return self.fail(cx, walk, "the version of its definition is not there").await;
        };
        loop {
            let next = rules::next(&walk.now, &program, cx.now());
            match next {
                Next::Asleep => return self.stay(cx, walk).await,
                Next::TimedOut => return self.fail(cx, walk, "timed_out").await,
                Next::End => return self.end(cx, walk).await,
                Next::Leave => return self.exit(cx, walk).await,
                Next::Go(to) => walk.go(&program, to, cx.now()),
                Next::Sleep(doing) => {
                    walk.now.doing = doing;
                    return self.sleep(cx, walk).await;
                }
                Next::Rest => {
                    let until = act::rest(cx, &program, &walk.now).await?;
                    walk.now.doing = Doing::Waiting { until };
                    return self.sleep(cx, walk).await;
                }
                Next::Act if walk.asked || walk.acted => return self.write(cx, walk).await,
                // A transaction has its bounds, and tags are many.
                Next::Act if walk.steps > 0 && edits(&walk.now, &program) => {
                    return self.write(cx, walk).await;
                }
                Next::Act => match act::act(&self.tools, cx, &program, &walk.now).await? {
                    Acted::Done { next } => {
                        walk.acted = true;
                        walk.tell_sent(cx, &program);
                        walk.go(&program, next, cx.now());
                    }
                    Acted::NotSent { next } => {
                        walk.acted = true;
                        walk.go(&program, next, cx.now());
                    }
                    Acted::Edits { edit, next } => {
                        return self.edit(cx, &program, walk, (edit, next)).await;
                    }
                    Acted::Skipped { next } => {
                        walk.acted = true;
                        walk.changes.step(walk.now.version, &walk.now.step, What::Skipped);
                        walk.go(&program, next, cx.now());
                    }
                    Acted::NotNow(reason, after) => {
                        return Ok(Turn::Over(Outcome::wait(reason, after)));
                    }
                    Acted::Later { until } => {
                        walk.now.doing = Doing::Waiting { until };
                        return self.sleep(cx, walk).await;
                    }
                    Acted::Refused(why) => return self.try_again(cx, walk, why).await,
                },
                Next::Ask => match ask::ask(cx, &self.tools.versions, &program, &walk.now).await? {
                    Some(to) => {
                        walk.asked = true;
                        walk.go(&program, to, cx.now());
                    }
                    // It may wait for long, and nothing of what it has done is done again meanwhile.
                    None if walk.steps > 0 => return self.write(cx, walk).await,
                    None => {
                        let reason = format!("execution {} waits for a mail", walk.now.id);
                        let pause = ask::pause(walk.now.since, cx.now());
                        return Ok(Turn::Over(Outcome::wait(reason, pause)));
                    }
                },
            }
            if walk.steps >= AT_ONCE {
                return self.write(cx, walk).await;
            }
        }
    }

    async fn write(&self, cx: &Cx, walk: Walk) -> Result<Turn, StorageError> {
        let txn = walk.now.go_on(Txn::new());
        self.commit(cx, walk, txn, Turn::Again).await
    }

    /// The person and the walk change together. What comes next may ask about him.
    async fn edit(
        &self,
        cx: &Cx,
        program: &Program,
        walk: Walk,
        (edit, next): (Edit, usize),
    ) -> Result<Turn, StorageError> {
        let mut gone = walk.clone();
        gone.go(program, next, cx.now());
        let (txn, email) = (gone.now.go_on(Txn::new()), walk.now.email.clone());
        match contacts::update_with(cx, Update { email, edit }, gone.recorded(txn)).await {
            Ok(()) => Ok(Turn::Again),
            Err(UpdateError::Store(StorageError::Items(error))) if race::lost(&error) => {
                Ok(Turn::Again)
            }
            Err(UpdateError::Store(error)) => Err(error),
            Err(error @ (UpdateError::Missing | UpdateError::TooMuch(_))) => {
                self.try_again(cx, walk, error.to_string()).await
            }
        }
    }

    async fn sleep(&self, cx: &Cx, walk: Walk) -> Result<Turn, StorageError> {
        let txn = walk.now.go_on(Txn::new()).arm(walk.now.timer(cx.workspace()));
        self.commit(cx, walk, txn, Turn::Over(Outcome::Done)).await
    }

    /// It waits. The clock that has set off its timer may be ahead of ours, and then nothing else will wake it: if its time
    /// is near, the message waits for it, and else the timer is set again.
    async fn stay(&self, cx: &Cx, walk: Walk) -> Result<Turn, StorageError> {
        let left = walk.stored.next_at().duration_since(cx.now()).unsigned_abs();
        if left <= MAX_DELAY {
            let reason = format!("execution {} is woken before its time", walk.stored.id);
            return Ok(Turn::Over(Outcome::wait(reason, left)));
        }
        let txn = walk.stored.stay(Txn::new(), cx.workspace());
        match cx.items().await?.transact(txn).await {
            Ok(()) => Ok(Turn::Over(Outcome::Done)),
            Err(error) if race::lost(&error) => Ok(Turn::Again),
            Err(error) => Err(error.into()),
        }
    }

    async fn end(&self, cx: &Cx, mut walk: Walk) -> Result<Turn, StorageError> {
        walk.changes.whole(walk.now.version, What::Passed);
        walk.told.push(walk.now.happened(cx, told::COMPLETED, None));
        let (id, txn) = (walk.now.id.clone(), walk.now.end(Txn::new()));
        let turn = self.commit(cx, walk, txn, Turn::Over(Outcome::Done)).await?;
        tracing::debug!(execution.id = %id, "Execution {id} came to its end");
        Ok(turn)
    }

    /// Its own step says that it goes no further. What it has sent before is sent.
    async fn exit(&self, cx: &Cx, mut walk: Walk) -> Result<Turn, StorageError> {
        walk.changes.step(walk.now.version, &walk.now.step, What::Passed);
        walk.changes.whole(walk.now.version, What::Left);
        walk.told.push(walk.now.happened(cx, told::EXITED, Some("exit")));
        let txn = walk.now.end(Txn::new());
        self.commit(cx, walk, txn, Turn::Over(Outcome::Done)).await
    }

    /// It cannot be done now. After some tries it is given up.
    async fn try_again(&self, cx: &Cx, mut walk: Walk, why: String) -> Result<Turn, StorageError> {
        if walk.now.tries >= TRIES {
            return self.fail(cx, walk, &why).await;
        }
        let pause = FIRST_PAUSE * 2_i32.pow(walk.now.tries);
        walk.now.tries += 1;
        walk.now.last_error = Some(why);
        let until = cx.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
        walk.now.doing = Doing::Waiting { until };
        self.sleep(cx, walk).await
    }

    async fn fail(&self, cx: &Cx, mut walk: Walk, why: &str) -> Result<Turn, StorageError> {
        let (id, sequence) = (walk.now.id.clone(), walk.now.sequence.clone());
        leave::counted(&mut walk.changes, &walk.now, What::Failed);
        walk.told.push(walk.now.happened(cx, told::EXITED, Some("failed")));
        let txn = leave::kept(walk.now.end(Txn::new()), &walk.now, why, cx.now());
        let turn = self.commit(cx, walk, txn, Turn::Over(Outcome::Done)).await?;
        // What a template or a provider said may name a person: it is with the failed execution.
        tracing::warn!(execution.id = %id, sequence, "Execution {id} failed");
        Ok(turn)
    }

    async fn commit(
        &self,
        cx: &Cx,
        walk: Walk,
        txn: Txn,
        then: Turn,
    ) -> Result<Turn, StorageError> {
        match cx.items().await?.transact(walk.recorded(txn)).await {
            Ok(()) => Ok(then),
            // Somebody was faster: it is looked at again.
            Err(error) if race::lost(&error) => Ok(Turn::Again),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether its step changes the person.
fn edits(execution: &Execution, program: &Program) -> bool {
    let op = program.places.get(execution.at).map(|place| &place.op);
    matches!(op, Some(Op::Set { .. } | Op::Tag { .. }))
}

enum Turn {
    Again,
    Over(Outcome),
}

impl Walk {
    fn new(stored: Execution) -> Self {
        Self {
            now: stored.clone(),
            stored,
            changes: Changes::default(),
            steps: 0,
            told: Vec::new(),
            asked: false,
            acted: false,
        }
    }

    /// The transaction with what has to be counted and told.
    fn recorded(self, txn: Txn) -> Txn {
        let Self { stored, changes, told, .. } = self;
        let txn = told.into_iter().fold(txn, Txn::enqueue);
        changes.count(txn, &stored.id, &stored.sequence)
    }

    /// A mail of this step is on its way.
    fn tell_sent(&mut self, cx: &Cx, program: &Program) {
        let op = program.places.get(self.now.at).map(|place| &place.op);
        if matches!(op, Some(Op::Send { .. })) {
            self.told.push(self.now.happened(cx, told::STEP_SENT, None));
        }
    }

    /// To another place. The step is done.
    fn go(&mut self, program: &Program, to: usize, now: Timestamp) {
        self.now.move_to(program, to, now, &mut self.changes);
        self.steps += 1;
    }
}

impl Execution {
    /// The step is done, and the walk is at another place.
    fn move_to(&mut self, program: &Program, to: usize, now: Timestamp, changes: &mut Changes) {
        let step = program.places.get(to).map(|place| place.step.clone());
        changes.step(self.version, &self.step, What::Passed);
        if let Some(step) = &step {
            changes.step(self.version, step, What::Entered);
        }
        self.at = to;
        self.step = step.unwrap_or_default();
        self.since = now;
        self.doing = Doing::Going;
        self.tries = 0;
        self.last_error = None;
    }
}
