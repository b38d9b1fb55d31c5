//! The stores, opened for one command, and what it prints.

use std::sync::Arc;

use serde::Serialize;
use tidings_access::workspaces::FindError;
use tidings_access::{Access, Actor, Cx};
use tidings_kernel::{SystemClock, Workspace};

use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Layout, Output};
use crate::store::{self, Store};

pub(crate) struct Open {
    pub(crate) access: Access,
    pub(crate) store: Store,
    layout: Layout,
}

impl Open {
    /// What is missing is made.
    pub(crate) async fn make(config: &Config, layout: Layout) -> Result<Self, Failure> {
        let store = Store::open(config).await?;
        let database = store.relations()?.clone();
        let access = Access::new(database, Arc::clone(&store.engine), Arc::new(SystemClock));
        Ok(Self { access, store, layout })
    }

    pub(crate) async fn existing(config: &Config, layout: Layout) -> Result<Self, Failure> {
        store::must_exist(config)?;
        Self::make(config, layout).await
    }

    pub(crate) async fn inside(&self, workspace: Workspace) -> Result<Cx, Failure> {
        let found = tidings_access::workspaces::find(&self.access, workspace).await;
        Ok(self.access.inside(&found.map_err(no_workspace)?, Actor::Operator))
    }

    pub(crate) fn out(&self) -> Output {
        Output::new(self.layout)
    }

    pub(crate) fn print(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut out = self.out();
        out.json(value)?;
        out.finish()
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

pub(crate) fn layout(pretty: bool) -> Layout {
    if pretty { Layout::Pretty } else { Layout::Lines }
}

pub(crate) fn no_workspace(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => {
            Failure::from(error).hint("`tidings workspaces list` shows those that there are")
        }
        FindError::Store(_) => error.into(),
    }
}
