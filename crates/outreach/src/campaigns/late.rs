//! The late-start guard: what nobody sent when it should have been, because no server ran, does not go out hours later
//! without asking. The campaign is paused, and whoever resumes it has been asked.
//!
//! A campaign that goes at one time is late or not as a whole (`is_late`). One that goes at a time where each person is can
//! be late for some of them only: when it begins, if it is past that time where somebody is (`is_anybody_missed`), and while
//! it waits for the next ones (`is_missed`).

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_sql::{DatabaseError, Param, Tx};

use super::store::Locked;
use super::{pace, snapshot};

/// What is later than this does not go without asking.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// Whether what was due then is too late now.
pub(super) fn is_late(due_at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(due_at) > LATE
}

/// Whether it is too late where any contact of the workspace is. All of them are looked at, which is worth it after a
/// server was away.
pub(super) async fn is_anybody_missed(cx: &Cx, local: DateTime) -> Result<bool, StorageError> {
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| {
        let sql = "SELECT DISTINCT timezone FROM leads
                   WHERE workspace_id = $1 AND erased_at IS NULL AND merged_into_id IS NULL";
        let rows = tx.query(sql, &[Param::Int(workspace)])?;
        let name = |row: &tidings_sql::Row| Ok(row.optional_text(0)?.map(ToOwned::to_owned));
        rows.iter().map(name).collect::<Result<Vec<Option<String>>, DatabaseError>>()
    });
    let names = read.await?;
    let home = snapshot::home_zone(cx).await?;
    let zone = |name: &Option<String>| {
        name.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or_else(|| home.clone())
    };
    Ok(names.iter().any(|name| is_late(pace::local_due(local, &zone(name)), cx.now())))
}

/// Whether something should have gone long ago, and nobody has looked at the campaign since. Where a warm-up or a winner is
/// waited for, nobody can tell. All that waits is asked about: on the queue may be no room for it yet.
pub(super) fn is_missed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
) -> Result<bool, DatabaseError> {
    let waits = !campaign.limits.warmup.is_empty() || campaign.winner.is_some();
    let looked_at = campaign.looked_at.unwrap_or(campaign.status_at).max(campaign.status_at);
    if campaign.local_time.is_none() || waits || !is_late(looked_at, cx.now()) {
        return Ok(false);
    }
    let too_late = cx.now().saturating_sub(LATE).unwrap_or(Timestamp::MIN);
    let sql = "SELECT 1 FROM campaign_batches
               WHERE campaign_id = $1 AND held = 0 AND fed_at IS NULL AND due_at > $2 AND due_at < $3 LIMIT 1";
    let params = [Param::Int(campaign.id.get()), Param::from(looked_at), Param::from(too_late)];
    Ok(!tx.query(sql, &params)?.is_empty())
}
