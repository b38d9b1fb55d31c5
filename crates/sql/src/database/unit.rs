//! A unit of work on its way to a thread that has a connection.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::{DatabaseError, Tx};

/// What a thread runs, perhaps more than once, and then tells how it ended.
pub(crate) trait Unit: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict;

    /// What PostgreSQL must keep apart. SQLite runs units one after the other anyway.
    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    /// Whether PostgreSQL gets one statement at most, which needs no transaction around it.
    fn is_glance(&self) -> bool {
        false
    }

    /// How much work it is, in simple units: heavy ones share their commit with fewer others.
    fn weight(&self) -> usize {
        1
    }

    /// Whether there is nothing to run: it only wakes whoever runs units.
    fn is_a_word(&self) -> bool {
        false
    }

    /// `Ok` once the last verdict is carried out durably.
    fn finish(self: Box<Self>, outcome: Result<(), DatabaseError>);
}

/// Tells a thread that there is something in its other queue.
pub(super) struct Word;

impl Unit for Word {
    fn run(&mut self, _: &mut Tx<'_>) -> Verdict {
        Verdict::RollBack
    }

    fn is_a_word(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>, _: Result<(), DatabaseError>) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// As if it ran alone.
    Serializable,
    /// Each statement sees what is committed then. For statements that are right by themselves.
    ReadCommitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Commit,
    RollBack,
}

/// Runs a unit; a panic in it is an error of that unit alone, and so is a failed statement that it passed over.
pub(super) fn run_guarded(unit: &mut dyn Unit, tx: &mut Tx<'_>) -> Result<Verdict, DatabaseError> {
    let ran = catch_unwind(AssertUnwindSafe(|| unit.run(tx)));
    match (ran, &tx.failed) {
        (Err(_), _) => Err(DatabaseError::Panicked),
        (Ok(Verdict::Commit), Some(error)) => Err(error.clone()),
        (Ok(verdict), _) => Ok(verdict),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Glance,
    Write(Isolation),
}

/// A closure with somebody waiting for its answer.
pub(super) struct Closure<F, T, E> {
    access: Access,
    work: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Closure<F, T, E> {
    pub(super) fn new(access: Access, work: F) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (reply, answer) = oneshot::channel();
        (Self { access, work, result: None, reply }, answer)
    }
}

impl<F, T, E> Unit for Closure<F, T, E>
where
    F: FnMut(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<DatabaseError> + Send,
{
    fn isolation(&self) -> Isolation {
        match self.access {
            Access::Read | Access::Glance => Isolation::Serializable,
            Access::Write(isolation) => isolation,
        }
    }

    fn is_glance(&self) -> bool {
        self.access == Access::Glance
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict {
        let result = (self.work)(tx);
        let commit = matches!(self.access, Access::Write(_)) && result.is_ok();
        self.result = Some(result);
        if commit { Verdict::Commit } else { Verdict::RollBack }
    }

    fn finish(self: Box<Self>, outcome: Result<(), DatabaseError>) {
        let answer = match (outcome, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(DatabaseError::Panicked.into()),
            (Err(error), _) => Err(error.into()),
        };
        // Nobody waits any more: the caller went away, and the work is done all the same.
        drop(self.reply.send(answer));
    }
}
