//! Which workspaces the relay and the timers go through.

use async_trait::async_trait;
use tidings_kernel::{StoreError, Workspace};

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

/// What is left of the limit goes to the next workspace. One that is in trouble does not stop the others.
pub(super) struct Round<E> {
    pub(super) count: usize,
    trouble: Option<E>,
}

impl<E> Round<E> {
    pub(super) fn new() -> Self {
        Self { count: 0, trouble: None }
    }

    pub(super) fn take(&mut self, outcome: Result<usize, E>) {
        match outcome {
            Ok(count) => self.count += count,
            Err(error) => self.trouble = self.trouble.take().or(Some(error)),
        }
    }

    /// How many in all, or the first trouble if there was one.
    pub(super) fn end(self) -> Result<usize, E> {
        self.trouble.map_or(Ok(self.count), Err)
    }
}
