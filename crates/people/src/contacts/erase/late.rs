//! What is written of somebody while he is erased.
//!
//! An erasure takes the address out of the relations before it deletes items. So it finds what was written before, or
//! whoever wrote it looks here afterwards, and finds the erasure.

use tidings_access::{Cx, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::DatabaseError;

use super::{Work, forget};
use crate::contacts::many;
use crate::suppression::memory::Secret;

/// Takes the profiles of those away whose addresses are nobody's any more, with their tags and suppressions, of which is
/// kept what an erasure keeps. For whoever has just written them.
pub async fn take_back(cx: &Cx, emails: &[EmailAddress]) -> Result<(), StorageError> {
    if emails.is_empty() {
        return Ok(());
    }
    let (within, wanted) = (cx.clone(), emails.to_vec());
    let known = cx.database().glance(move |tx| many::find(tx, &within, &wanted)).await?;
    let gone: Vec<_> =
        emails.iter().filter(|email| !known.contains_key(email.as_str())).cloned().collect();
    if gone.is_empty() {
        return Ok(());
    }
    let within = cx.clone();
    let secret = cx.database().write(move |tx| Secret::find_or_make(tx, &within)).await;
    let secret = secret.map_err(|error: DatabaseError| error)?;
    let items = cx.items().await?;
    for email in gone {
        let work = Work {
            contact: None,
            addresses: vec![email.clone()],
            user_ids: Vec::new(),
            unsubscribed_at: None,
            secret: secret.clone(),
        };
        forget(&items, &work, &email, cx.now()).await?;
    }
    Ok(())
}
