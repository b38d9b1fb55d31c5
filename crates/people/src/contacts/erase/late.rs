//! What is written of somebody while he is erased.
//!
//! An erasure takes the address out of the relations before it deletes items. So it finds what was written before, or
//! whoever wrote it looks here afterwards, and finds the erasure.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Tx};

use super::{Work, forget};
use crate::contacts::{is_known, many};
use crate::suppression::memory::Secret;

/// Takes the profiles of those away whose addresses are nobody's any more, with their tags, suppressions and bounces, of which is
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

/// The same of one address, if it was erased not long ago. For whoever may have written something of its person that
/// another one, who died, did not look after.
pub async fn take_back_erased(cx: &Cx, email: &EmailAddress) -> Result<(), StorageError> {
    match erased_at(cx, email).await? {
        Some(_) => take_back(cx, std::slice::from_ref(email)).await,
        None => Ok(()),
    }
}

/// Whether an address was erased not long ago and is nobody's again: what still comes is of whoever was erased.
pub async fn was_erased(cx: &Cx, email: &EmailAddress) -> Result<bool, StorageError> {
    Ok(erased_at(cx, email).await?.is_some() && !is_known(cx, email).await?)
}

/// When the address was erased last, whether or not it was a contact's. It is another time after another erasure: so
/// whoever looks before and after he writes knows whether one came between.
pub(crate) async fn erased_at(
    cx: &Cx,
    email: &EmailAddress,
) -> Result<Option<Timestamp>, DatabaseError> {
    let (workspace, email) = (cx.workspace_id().get(), email.clone());
    let look = move |tx: &mut Tx<'_>| tidings_webhooks::erased_at(tx, workspace, email.as_str());
    cx.database().read(look).await
}
