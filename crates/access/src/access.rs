//! What the operations work with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tidings_kernel::{Clock, ItemEngine, ItemStore, Outgoing, Workspace};
use tidings_sql::{Database, DatabaseError, Param, Tx};

use crate::audit::{self, Actor, Change, Who};
use crate::caller::Callers;
use crate::last_use::LastUse;
use crate::recent::Recent;
use crate::rows::{WorkspaceId, in_millis};
use crate::trouble::StorageError;
use crate::workspaces::Registration;

/// The stores and the clock: enough to ask who is calling, and for what concerns workspaces as such.
#[derive(Clone)]
pub struct Access {
    pub(crate) database: Database,
    pub(crate) last_use: Arc<LastUse>,
    pub(crate) callers: Arc<Callers>,
    items: Arc<Items>,
    /// A workspace keeps its name, so it is looked up once.
    names: Arc<Mutex<HashMap<i64, Workspace>>>,
    /// Workspaces that were found open. Every request of a device asks.
    found_open: Arc<Recent<i64, Workspace>>,
    clock: Arc<dyn Clock>,
}

/// The same inside one workspace, on behalf of somebody. Without it nothing that belongs to a workspace can be reached.
#[derive(Clone)]
pub struct Cx {
    pub(crate) database: Database,
    pub(crate) workspace: WorkspaceId,
    pub(crate) actor: Actor,
    pub(crate) said_by: Option<String>,
    pub(crate) now: Timestamp,
    pub(crate) callers: Arc<Callers>,
    name: Workspace,
    items: Arc<Items>,
    clock: Arc<dyn Clock>,
}

/// The items of every workspace, opened once each: on DynamoDB that looks whether the tables are there.
struct Items {
    engine: Arc<dyn ItemEngine>,
    open: Mutex<HashMap<Workspace, Arc<dyn ItemStore>>>,
}

impl Access {
    pub fn new(database: Database, items: Arc<dyn ItemEngine>, clock: Arc<dyn Clock>) -> Self {
        let items = Arc::new(Items { engine: items, open: Mutex::default() });
        let (last_use, callers, names, found_open) = Default::default();
        Self { database, last_use, callers, items, names, found_open, clock }
    }

    /// The time, in the milliseconds that the database keeps.
    pub fn now(&self) -> Timestamp {
        in_millis(self.clock.now())
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// For what is not inside one workspace: leases, signing keys, queues.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Writes down what an operator did to the whole installation, in the transaction that does it.
    pub fn record_change(&self, tx: &mut Tx<'_>, change: &Change) -> Result<(), DatabaseError> {
        audit::record(tx, (None, Who::OPERATOR, self.now()), change)
    }

    pub fn inside(&self, workspace: &Registration, actor: Actor) -> Cx {
        self.cx(workspace.id, workspace.name.clone(), actor)
    }

    /// For a worker that found this id in a row. `None` if there is no such workspace.
    pub async fn working_for(&self, workspace_id: i64) -> Result<Option<Cx>, DatabaseError> {
        let known = self.names().get(&workspace_id).cloned();
        let name = match known {
            Some(name) => Some(name),
            None => self.find_name(workspace_id).await?,
        };
        Ok(name.map(|name| self.cx(WorkspaceId(workspace_id), name, Actor::Worker)))
    }

    /// For somebody who proved by something else than a key that he may come in. `None` if there is no such workspace, or
    /// it is disabled, which every node knows within a second.
    pub async fn visiting(&self, workspace_id: i64) -> Result<Option<Cx>, DatabaseError> {
        let now = self.now();
        let ticket = match self.found_open.get(&workspace_id, now) {
            Ok(name) => return Ok(Some(self.cx(WorkspaceId(workspace_id), name, Actor::User))),
            Err(ticket) => ticket,
        };
        let find = self.database.glance(move |tx| {
            let sql = "SELECT name FROM workspaces WHERE id = $1 AND disabled_at IS NULL";
            let rows = tx.query(sql, &[Param::Int(workspace_id)])?;
            rows.first().map(|row| row.parsed(0, "the name of a workspace")).transpose()
        });
        let name: Result<Option<Workspace>, DatabaseError> = find.await;
        let Some(name) = name? else { return Ok(None) };
        self.found_open.keep(&ticket, workspace_id, (now, name.clone()));
        Ok(Some(self.cx(WorkspaceId(workspace_id), name, Actor::User)))
    }

    /// Which workspaces are open, and which keys are good, is looked up anew from now on.
    pub(crate) fn forget_open(&self) {
        self.found_open.forget();
        self.callers.forget();
    }

    /// For a worker whose message has the name. `None` if there is no such workspace.
    pub async fn working_in(&self, workspace: &Workspace) -> Result<Option<Cx>, DatabaseError> {
        let is_it = |(_, name): &(&i64, &Workspace)| *name == workspace;
        let known = self.names().iter().find(is_it).map(|(id, _)| *id);
        if let Some(id) = known {
            return Ok(Some(self.cx(WorkspaceId(id), workspace.clone(), Actor::Worker)));
        }
        let name = workspace.clone();
        let find = self.database.glance(move |tx| {
            let rows = tx.query(
                "SELECT id FROM workspaces WHERE name = $1",
                &[Param::Text(name.as_str())],
            )?;
            rows.first().map(|row| row.int(0)).transpose()
        });
        let found: Result<Option<i64>, DatabaseError> = find.await;
        match found? {
            Some(id) => self.working_for(id).await,
            None => Ok(None),
        }
    }

    async fn find_name(&self, workspace_id: i64) -> Result<Option<Workspace>, DatabaseError> {
        let find = self.database.glance(move |tx| {
            let rows =
                tx.query("SELECT name FROM workspaces WHERE id = $1", &[Param::Int(workspace_id)])?;
            rows.first().map(|row| row.parsed(0, "the name of a workspace")).transpose()
        });
        let name: Option<Workspace> = find.await?;
        if let Some(name) = &name {
            self.names().insert(workspace_id, name.clone());
        }
        Ok(name)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<i64, Workspace>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cx(&self, workspace: WorkspaceId, name: Workspace, actor: Actor) -> Cx {
        Cx {
            database: self.database.clone(),
            workspace,
            name,
            actor,
            said_by: None,
            now: self.now(),
            callers: Arc::clone(&self.callers),
            items: Arc::clone(&self.items),
            clock: Arc::clone(&self.clock),
        }
    }
}

impl Cx {
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The items of this workspace.
    pub async fn items(&self) -> Result<Arc<dyn ItemStore>, StorageError> {
        self.items.open(&self.name).await
    }

    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace
    }

    pub fn workspace(&self) -> &Workspace {
        &self.name
    }

    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The same, done by somebody whom only the caller knows: entries of the audit log say so (`by`).
    #[must_use]
    pub fn said_by(self, who: String) -> Self {
        Self { said_by: Some(who), ..self }
    }

    /// When the operation began. It does not go on while the operation runs.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the clock says by now, for whoever holds something for a while.
    pub fn time(&self) -> Timestamp {
        in_millis(self.clock.now())
    }

    /// Writes down who did what, in the transaction that does it.
    pub fn record_change(&self, tx: &mut Tx<'_>, change: &Change) -> Result<(), DatabaseError> {
        let who = Who { actor: &self.actor, said_by: self.said_by.as_deref() };
        audit::record(tx, (Some(self.workspace), who, self.now), change)
    }

    /// The same of something that has no state worth telling.
    pub fn record(
        &self,
        tx: &mut Tx<'_>,
        action: &'static str,
        target_type: &'static str,
        target_id: &str,
    ) -> Result<(), DatabaseError> {
        self.record_change(tx, &Change::new(action, target_type, target_id))
    }

    /// The same for a change of items: this goes into its `Txn` with `Txn::enqueue`, and a worker writes it down once.
    #[must_use]
    pub fn audited(&self, change: &Change) -> Outgoing {
        audit::outgoing(self, change)
    }
}

impl Items {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StorageError> {
        let known =
            self.open.lock().unwrap_or_else(PoisonError::into_inner).get(workspace).cloned();
        if let Some(store) = known {
            return Ok(store);
        }
        let store = self.engine.open(workspace).await?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(open.entry(workspace.clone()).or_insert(store)))
    }
}
