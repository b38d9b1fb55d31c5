//! Which workspaces the relay and the timers go through.

use std::error::Error;

use async_trait::async_trait;
use tidings_kernel::{StoreError, Workspace, causes};
use tracing::warn;

/// Tells which workspaces there are, each time anew.
#[async_trait]
pub trait Workspaces: Send + Sync {
    async fn list(&self) -> Result<Vec<Workspace>, StoreError>;
}

/// A list that does not change.
#[async_trait]
impl Workspaces for Vec<Workspace> {
    async fn list(&self) -> Result<Vec<Workspace>, StoreError> {
        Ok(self.clone())
    }
}

/// Every node begins somewhere else, so that they seldom meet and no workspace is always last.
pub(super) async fn in_any_order(
    workspaces: &dyn Workspaces,
) -> Result<Vec<Workspace>, StoreError> {
    let mut workspaces = workspaces.list().await?;
    fastrand::shuffle(&mut workspaces);
    Ok(workspaces)
}

/// What is done in all workspaces. One that is in trouble does not stop the others.
pub(super) struct Round<E> {
    pub(super) count: usize,
    trouble: Option<E>,
}

impl<E: Error> Round<E> {
    pub(super) fn new() -> Self {
        Self { count: 0, trouble: None }
    }

    pub(super) fn take(&mut self, outcome: Result<usize, E>) {
        match outcome {
            Ok(count) => self.count += count,
            Err(error) => self.fail(error),
        }
    }

    /// The first trouble is told; it is seldom the only one of its kind.
    pub(super) fn fail(&mut self, error: E) {
        self.trouble.get_or_insert(error);
    }

    /// What was done in a part of it.
    pub(super) fn join(&mut self, part: Self) {
        self.count += part.count;
        part.trouble.into_iter().for_each(|error| self.fail(error));
    }

    /// How many in all. Trouble is an error only if nothing was done: who is told of one waits before the next
    /// round, and would keep waiting what can be done.
    pub(super) fn end(self) -> Result<usize, E> {
        match self.trouble {
            Some(error) if self.count == 0 => Err(error),
            Some(error) => {
                warn!(
                    error = %causes(&error),
                    done = self.count,
                    "{} were handed on, and others could not be; they are tried again", self.count
                );
                Ok(self.count)
            }
            None => Ok(self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::QueueError;

    use super::Round;
    use tidings_kernel::causes;

    fn trouble(text: &str) -> QueueError {
        QueueError::Unavailable(text.into())
    }

    #[test]
    fn a_round_fails_only_if_nothing_was_done() {
        let round = |outcomes: Vec<Result<usize, QueueError>>| {
            let mut round = Round::new();
            outcomes.into_iter().for_each(|outcome| round.take(outcome));
            round.end().map_err(|error| causes(&error))
        };
        assert_eq!(round(vec![]), Ok(0));
        assert_eq!(round(vec![Ok(2), Err(trouble("a")), Ok(3)]), Ok(5));
        let told = "the queue does not answer: a".to_owned();
        assert_eq!(round(vec![Ok(0), Err(trouble("a")), Err(trouble("b"))]), Err(told));
    }
}
