//! What the operations work with.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_kernel::Clock;
use tidings_sql::Database;

use crate::audit::Actor;
use crate::last_use::LastUse;
use crate::rows::{WorkspaceId, in_millis};

/// The database and the clock: enough to ask who is calling, and for what concerns workspaces as such.
#[derive(Clone)]
pub struct Access {
    pub(crate) database: Database,
    pub(crate) last_use: Arc<LastUse>,
    clock: Arc<dyn Clock>,
}

/// The same inside one workspace, on behalf of somebody. Without it no client and no key can be reached.
#[derive(Clone)]
pub struct Cx {
    pub(crate) database: Database,
    pub(crate) workspace: WorkspaceId,
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
}

impl Access {
    pub fn new(database: Database, clock: Arc<dyn Clock>) -> Self {
        Self { database, last_use: Arc::default(), clock }
    }

    /// The time, in the milliseconds that the database keeps.
    pub fn now(&self) -> Timestamp {
        in_millis(self.clock.now())
    }

    pub fn inside(&self, workspace: WorkspaceId, actor: Actor) -> Cx {
        Cx { database: self.database.clone(), workspace, actor, now: self.now() }
    }
}
