//! What reminders of overdue invoices say of somebody: his name, his address and the words that were for him go; what was
//! owed, sent and paid stays as a fact. What was not sent yet is not sent any more.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_access::StorageError;
use tidings_kernel::{
    Condition, Delete, EmailAddress, Expect, Item, ItemStore, Query, StoreError, Update, tables,
};

use crate::keys;
use crate::race;

/// So many items are looked at at once.
const ITEMS: usize = 100;
/// What tells who it is.
const PERSONAL: [&str; 6] =
    ["customer_name", "customer_email", "email_subject", "email_content", "editions", "reason"];

/// Tells whether there was something to forget. Who is reminded anew in between is met by the next round.
pub(super) async fn clear(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let mut any = false;
    loop {
        let query = Query::new(&tables::EMAIL_TRACKING, keys::reminded(email)).limit(ITEMS);
        let found = items.query(query).await?.items;
        if found.is_empty() {
            return Ok(any);
        }
        for item in &found {
            if let Some(customer) = item.text("customer_id") {
                clear_customer(items, customer, (email, now)).await?;
            }
            // Last: until it is gone, whoever erases again finds the customer by it.
            let key = tables::EMAIL_TRACKING.key_of(item).map_err(StoreError::from)?;
            items.delete(Delete::new(&tables::EMAIL_TRACKING, key)).await?;
        }
        any = true;
    }
}

async fn clear_customer(
    items: &Arc<dyn ItemStore>,
    customer: &str,
    (email, now): (&EmailAddress, Timestamp),
) -> Result<(), StorageError> {
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::EMAIL_TRACKING, format!("CUSTOMER#{customer}"));
        let page = items.query(query.after(cursor).limit(ITEMS)).await?;
        for item in page.items {
            forget(items, item, (email, now)).await?;
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

async fn forget(
    items: &Arc<dyn ItemStore>,
    item: Item,
    (email, now): (&EmailAddress, Timestamp),
) -> Result<(), StorageError> {
    let key = tables::EMAIL_TRACKING.key_of(&item).map_err(StoreError::from)?;
    let mut current = Some(item);
    for _ in 0..race::ATTEMPTS {
        let Some(item) = current else { return Ok(()) };
        let is_his = |address: &str| address.parse::<EmailAddress>().is_ok_and(|one| one == *email);
        let Some(address) = item.text("customer_email").filter(|address| is_his(address)) else {
            return Ok(());
        };
        // Whoever changes a reminder expects the revision that he has read.
        let revision = item
            .get("rev")
            .map_or(Condition::not_exists("rev"), |rev| Condition::eq("rev", rev.clone()));
        let same = Condition::eq("customer_email", address).and(revision);
        let mut update = Update::new(&tables::EMAIL_TRACKING, key.clone()).add("rev", 1);
        let waits = key.sort.as_deref().is_some_and(|sort| sort.starts_with("DRAFT#"))
            && matches!(item.text("status"), Some("draft" | "approved"));
        for name in PERSONAL.into_iter().filter(|name| !(waits && *name == "reason")) {
            update = update.remove(name);
        }
        if waits {
            let at = format!("{:.0}", Timestamp::from_second(now.as_second()).unwrap_or(now));
            update = update
                .set("status", "withdrawn")
                .set("reason", "erased")
                .set("changed_at", at.as_str())
                .set("GSI1PK", "STATUS#withdrawn")
                .set("GSI1SK", at);
        }
        match items.update(update.expect(Expect::That(same))).await {
            Ok(_) => return Ok(()),
            Err(error) if race::lost(&error) => {
                current = items.get(&tables::EMAIL_TRACKING, &key).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
