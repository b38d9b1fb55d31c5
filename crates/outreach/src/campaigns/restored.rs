//! After a backup was put back: what has been sent since it was taken, nobody here knows any more. A campaign that was under
//! way then would go out once more to everybody after that moment, so it waits for a person.

use tidings_access::{Access, StorageError};
use tidings_sql::{DatabaseError, Param};

use super::CampaignId;
use super::control::{self, ControlError};
use super::draft::Find;

/// What campaigns are paused for that were under way in a backup.
pub const RESTORED: &str = "restored";

/// Pauses all campaigns, of all workspaces, that were under way or whose time has come since. Tells how many; again it is none.
pub async fn pause_all(access: &Access) -> Result<usize, StorageError> {
    let now = access.now();
    let under_way = access.database().read(move |tx| {
        let sql = "SELECT workspace_id, id FROM campaigns
                   WHERE status IN ('snapshotting', 'sending') OR (status = 'scheduled' AND scheduled_at <= $1)
                   ORDER BY id";
        let rows = tx.query(sql, &[Param::from(now)])?;
        let ids = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?)));
        ids.collect::<Result<Vec<(i64, i64)>, DatabaseError>>()
    });
    let mut paused = 0;
    for (workspace, id) in under_way.await? {
        // Of a workspace that is disabled too: it may be enabled again.
        let Some(cx) = access.working_for(workspace).await? else { continue };
        let find = Find { id: CampaignId::from(id), client: None };
        match control::pause(&cx, find, Some(RESTORED.to_owned())).await {
            Ok(changed) => paused += usize::from(changed.changed),
            Err(ControlError::Store(error)) => return Err(error),
            // Somebody has ended it meanwhile.
            Err(_) => {}
        }
    }
    Ok(paused)
}
