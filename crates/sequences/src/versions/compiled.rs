//! The programs of versions, kept between steps. They never change, so nothing has to be thrown away but for room.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_access::{ClientId, Cx, StorageError, WorkspaceId};
use tidings_people::consent::{AudienceId, TopicId};
use tidings_sql::{DatabaseError, Param};

use super::{Status, look};
use crate::definition::{Program, from_json};

/// How many programs are kept.
const KEPT: usize = 200;

type Place = (WorkspaceId, String, i64);

/// The sequences of all workspaces. A clone shares what is kept.
#[derive(Clone, Default)]
pub struct Versions {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    programs: HashMap<Place, Arc<Program>>,
    /// The oldest first.
    order: VecDeque<Place>,
}

/// What whoever comes in walks through, and for whom.
#[derive(Debug, Clone)]
pub struct Active {
    pub program: Arc<Program>,
    pub version: i64,
    pub client: ClientId,
    pub audience: Option<AudienceId>,
    pub topic: Option<TopicId>,
    /// Whether anybody comes in.
    pub takes_people: bool,
}

impl Versions {
    /// One row, if its program was used before. `None` if there is no such sequence.
    pub async fn active(&self, cx: &Cx, slug: &str) -> Result<Option<Active>, StorageError> {
        let (workspace, wanted) = (cx.workspace_id().get(), slug.to_owned());
        let read = cx.database().read(move |tx| {
            let sql = "SELECT active_version, client_id, audience_id, topic_id, status
                       FROM sequences WHERE workspace_id = $1 AND slug = $2";
            let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&wanted)])?;
            let Some(row) = rows.first() else { return Ok(None) };
            let ids = (row.optional_int(2)?, row.optional_int(3)?);
            let status: Status = row.parsed(4, "a status")?;
            Ok(Some((row.int(0)?, row.int(1)?, ids, status)))
        });
        let found = read.await.map_err(|error: DatabaseError| StorageError::from(error))?;
        let Some((version, client, (audience, topic), status)) = found else { return Ok(None) };
        let program = self.program(cx, slug, version).await?;
        let program = program.ok_or(StorageError::from(DatabaseError::NoRow))?;
        Ok(Some(Active {
            program,
            version,
            client: client.into(),
            audience: audience.map(Into::into),
            topic: topic.map(Into::into),
            takes_people: status == Status::Active,
        }))
    }

    /// What a version is, active or not.
    pub async fn program(
        &self,
        cx: &Cx,
        slug: &str,
        version: i64,
    ) -> Result<Option<Arc<Program>>, StorageError> {
        let place = (cx.workspace_id(), slug.to_owned(), version);
        if let Some(kept) = self.lock().programs.get(&place) {
            return Ok(Some(Arc::clone(kept)));
        }
        let Some(written) = look::definition_of(cx, slug, version).await? else { return Ok(None) };
        let definition = from_json(&written).map_err(|_| {
            StorageError::from(DatabaseError::Column {
                column: 0,
                found: "other JSON",
                expected: "a definition of a sequence",
            })
        })?;
        let program = Arc::new(Program::of(definition));
        let mut kept = self.lock();
        if kept.programs.insert(place.clone(), Arc::clone(&program)).is_none() {
            kept.order.push_back(place);
        }
        while kept.order.len() > KEPT {
            if let Some(oldest) = kept.order.pop_front() {
                kept.programs.remove(&oldest);
            }
        }
        Ok(Some(program))
    }

    /// The client that is called so.
    pub async fn client(&self, cx: &Cx, slug: &str) -> Result<Option<ClientId>, StorageError> {
        let (workspace, wanted) = (cx.workspace_id().get(), slug.to_owned());
        let read = cx.database().read(move |tx| {
            let sql = "SELECT id FROM clients WHERE workspace_id = $1 AND slug = $2";
            let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&wanted)])?;
            rows.first().map(|row| row.int(0).map(ClientId::from)).transpose()
        });
        read.await.map_err(|error: DatabaseError| StorageError::from(error))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
