//! Writing down what the provider said, although the database stumbles.
//!
//! An answer that is not written down leaves its message uncertain for good. So whoever has one waits for the database, for
//! as long as his claim holds. What is written must bear being written twice: a commit may be made, and its answer lost.

use std::time::Duration;

use jiff::SignedDuration;
use tidings_access::{Access, StorageError};
use tidings_sql::DatabaseError;

use super::answers::LEASE;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Some time is left of the claim after the last try.
const PATIENCE: SignedDuration = SignedDuration::from_secs(LEASE.as_secs() * 3 / 4);

/// Writes, and again after a while if the database cannot be used just now. Whatever else goes wrong is told at once.
pub async fn insist<T, Writing>(
    access: &Access,
    mut write: impl FnMut() -> Writing,
) -> Result<T, StorageError>
where
    Writing: Future<Output = Result<T, StorageError>>,
{
    let until = access.now().saturating_add(PATIENCE).unwrap_or(jiff::Timestamp::MAX);
    let (mut wait, mut waited) = (FIRST_WAIT, SignedDuration::ZERO);
    loop {
        let error = match write().await {
            Err(error) if may_pass(&error) => error,
            done => return done,
        };
        // The tries themselves take time as well, as long as nobody answers.
        if waited >= PATIENCE || access.now() >= until {
            return Err(error);
        }
        tracing::warn!(error = %tidings_kernel::causes(&error), "An answer could not be written down");
        tidings_jobs::wait(wait).await;
        waited += SignedDuration::try_from(wait).unwrap_or(PATIENCE);
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

fn may_pass(error: &StorageError) -> bool {
    let is_lost = matches!(error, StorageError::Relations(DatabaseError::Uncertain(_)));
    is_lost || error.is_passing()
}

#[cfg(test)]
mod tests {
    use tidings_access::StorageError;
    use tidings_sql::DatabaseError;
    use tidings_testbed::Bed;

    use super::insist;

    /// How often it is tried to write while the database fails so, `times` in a row, and whether that succeeds.
    async fn tried(bed: &Bed, error: &DatabaseError, times: usize) -> (usize, bool) {
        let mut tries = 0;
        let written = insist(&bed.access, || {
            tries += 1;
            let fails = tries <= times;
            async move { if fails { Err(StorageError::from(error.clone())) } else { Ok(()) } }
        });
        let written = written.await.is_ok();
        (tries, written)
    }

    #[tokio::test]
    async fn an_answer_waits_for_the_database_while_its_claim_holds() {
        let bed = Bed::memory().await;
        tokio::time::pause();
        let away = DatabaseError::Unavailable(std::sync::Arc::new(std::fmt::Error));
        assert_eq!(tried(&bed, &away, 15).await, (16, true));
        let (tries, written) = tried(&bed, &away, usize::MAX).await;
        assert!((20..30).contains(&tries) && !written, "{tries}");
    }

    #[tokio::test]
    async fn a_commit_that_nobody_heard_of_is_made_again() {
        let bed = Bed::memory().await;
        tokio::time::pause();
        let lost = DatabaseError::Uncertain(std::sync::Arc::new(std::fmt::Error));
        assert_eq!(tried(&bed, &lost, 1).await, (2, true));
    }

    #[tokio::test]
    async fn what_time_does_not_mend_is_told_at_once() {
        let bed = Bed::memory().await;
        assert_eq!(tried(&bed, &DatabaseError::NoRow, 1).await, (1, false));
    }
}
