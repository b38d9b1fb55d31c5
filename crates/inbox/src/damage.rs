//! Items that cannot be read: they are told of and passed over, so that one of them does not stop everything else.

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, StoreError, causes};

use crate::records::Stored;

/// How often an item was met that cannot be read.
pub const UNREADABLE_METRIC: &str = "tidings_inbox_unreadable_items_total";

/// What stands under the key of a message, or nothing if nobody can tell.
pub(crate) fn readable(cx: &Cx, item: &Item) -> Option<Stored> {
    match Stored::read(item) {
        Ok(stored) => Some(stored),
        Err(error) => {
            // The partition has the id of its user in it, which is whatever the app calls him by. That of the message is ours.
            let (workspace, error) = (cx.workspace(), causes(&error));
            let message = item.text("SK").unwrap_or_default();
            metrics::counter!(UNREADABLE_METRIC).increment(1);
            tracing::error!(
                %workspace,
                message,
                error,
                "An item of an inbox cannot be read, and is passed over"
            );
            None
        }
    }
}

/// What came of dealing with a partition, or nothing if its counts cannot be read: that is told, and the others have their turn.
pub(crate) fn passed_over<T>(
    cx: &Cx,
    done: Result<T, StorageError>,
) -> Result<Option<T>, StorageError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error @ StorageError::Items(StoreError::Corrupt(_))) => {
            let (workspace, error) = (cx.workspace(), causes(&error));
            metrics::counter!(UNREADABLE_METRIC).increment(1);
            tracing::error!(
                %workspace,
                error,
                "The counts of an inbox cannot be read, and are passed over"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
