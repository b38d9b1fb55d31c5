//! Is the time right? TTLs, schedules and signatures all depend on it.

use tidings_kernel::{Clock as _, SystemClock};
use tidings_sql::Dialect;

use super::Finding;
use crate::store::Store;

const TOLERATED_SECONDS: i64 = 5;
const REMEDY: &str = "let the machine keep its time: timedatectl set-ntp true";

/// Compares with the database's clock, where that is another machine's.
pub(super) async fn check(store: &Store) -> Finding {
    let Some(database) = &store.database else { return check_alone() };
    if database.dialect() == Dialect::Sqlite {
        return check_alone();
    }
    match database.server_time().await {
        Ok(theirs) => judge(SystemClock.now(), Some(theirs)),
        // That the database fails is told by the other checks.
        Err(_) => check_alone(),
    }
}

pub(super) fn check_alone() -> Finding {
    judge(SystemClock.now(), None)
}

pub(super) fn judge(ours: jiff::Timestamp, theirs: Option<i64>) -> Finding {
    // 2025 to 2100: a machine that lost its battery wakes in 1970 or at its build date.
    if !(1_735_689_600..4_102_444_800).contains(&ours.as_second()) {
        return Finding::fail("clock", format!("the machine says it is {ours:.0}"), REMEDY);
    }
    let Some(theirs) = theirs else {
        return Finding::ok("clock", format!("{ours:.0}"));
    };
    let apart = (ours.as_second() - theirs).abs();
    if apart > TOLERATED_SECONDS {
        let message = format!("this machine and the database differ by {apart} seconds");
        Finding::fail("clock", message, REMEDY)
    } else {
        Finding::ok("clock", format!("{ours:.0}, as the database says"))
    }
}
