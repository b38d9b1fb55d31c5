//! Two writers that met: which errors mean "load and decide again".

use tidings_kernel::{Cancellation, StoreError};

/// So often somebody loads and decides again before he gives up.
pub(crate) const ATTEMPTS: usize = 60;

/// Whether somebody else was faster. Then nothing was written, and what was loaded is out of date.
pub(crate) fn lost(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict => true,
        StoreError::Cancelled(reasons) => reasons.iter().any(|reason| {
            matches!(reason, Cancellation::ConditionFailed { .. } | Cancellation::Conflict)
        }),
        other => other.is_condition_failed(),
    }
}
