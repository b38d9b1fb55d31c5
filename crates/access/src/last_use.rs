//! When a key was last used, to the minute.
//!
//! Every request asks here, so most must be answered without a write, and without asking twice: the row tells
//! when a use was last written by any node, and a small memory which keys this node is writing just now.

use std::collections::HashMap;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use tidings_sql::{Database, DatabaseError, Param};

use crate::rows::{KeyId, WorkspaceId};

const EVERY: SignedDuration = SignedDuration::from_secs(60);

/// More keys than this in one minute, and those of past minutes are forgotten.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct LastUse(Mutex<HashMap<KeyId, Timestamp>>);

impl LastUse {
    /// Whether this use has to be written. The same answer is not given again within a minute.
    pub(crate) fn is_due(&self, key: KeyId, written: Option<Timestamp>, now: Timestamp) -> bool {
        let is_fresh = |at: Timestamp| now.duration_since(at) < EVERY;
        if written.is_some_and(is_fresh) {
            return false;
        }
        let mut begun = self.0.lock().expect("nobody panics with it");
        if begun.get(&key).copied().is_some_and(is_fresh) {
            return false;
        }
        if begun.len() >= REMEMBERED {
            begun.retain(|_, at| is_fresh(*at));
        }
        begun.insert(key, now);
        true
    }
}

/// A later use that another node has written stays.
pub(crate) async fn write(
    database: &Database,
    workspace: WorkspaceId,
    key: KeyId,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let now = now.as_millisecond();
    let update = database.write(move |tx| {
        let sql = "UPDATE client_api_keys SET last_used_at = $3
                   WHERE workspace_id = $1 AND id = $2
                     AND (last_used_at IS NULL OR last_used_at < $3)";
        tx.execute(sql, &[Param::Int(workspace.get()), Param::Int(key.get()), Param::Int(now)])
    });
    update.await.map(drop)
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan};

    use super::{KeyId, LastUse, REMEMBERED};

    #[test]
    fn a_use_is_due_once_a_minute() {
        let last_use = LastUse::default();
        let (start, key) = (Timestamp::from_second(1_000_000).unwrap(), KeyId::from(1));
        for (seconds, written, due) in [
            (0, None, true),
            (1, None, false),
            (59, Some(0), false),
            (60, Some(0), true),
            (61, Some(0), false),
            (61, Some(60), false),
            (119, Some(60), false),
            (200, Some(190), false),
            (260, Some(190), true),
        ] {
            let written = written.map(|second: i64| start + second.seconds());
            let now = start + i64::from(seconds).seconds();
            assert_eq!(last_use.is_due(key, written, now), due, "at {seconds}");
        }
        assert!(last_use.is_due(KeyId::from(2), None, start));
    }

    #[test]
    fn the_memory_does_not_grow_with_the_keys() {
        let last_use = LastUse::default();
        let start = Timestamp::from_second(1_000_000).unwrap();
        for number in 0..20 * REMEMBERED as i64 {
            last_use.is_due(KeyId::from(number), None, start + number.seconds());
        }
        assert!(last_use.0.lock().unwrap().len() <= REMEMBERED);
    }
}
