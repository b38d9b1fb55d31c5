//! The other addresses of a person: who was merged with somebody has several, each with a profile of its own.
//!
//! Here: which they are, and their profiles. Not here: whose word counts for what (a template, a check of a sequence, a
//! condition).

use std::collections::HashMap;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Key, MAX_BATCH_GET, tables};
use tidings_sql::{Among, DatabaseError, Param, Row};

use super::profile::Profile;
use crate::keys;

/// Another address of somebody.
#[derive(Debug, Clone)]
pub struct Other {
    pub email: EmailAddress,
    /// Nothing is in it if the address has none.
    pub profile: Profile,
}

/// The others of whoever has one of these, by it and in their order. Who has only one address is not in it, and costs nothing
/// but the look.
pub async fn others(
    cx: &Cx,
    emails: &[&EmailAddress],
) -> Result<HashMap<String, Vec<Other>>, StorageError> {
    let mut found = HashMap::<String, Vec<Other>>::new();
    let (mut pairs, items) = (pairs(cx, emails).await?, cx.items().await?);
    while !pairs.is_empty() {
        let rest = pairs.split_off(pairs.len().min(MAX_BATCH_GET));
        let profiles: Vec<Key> = pairs.iter().map(|(_, other)| keys::profile(other)).collect();
        let profiles = items.batch_get(&tables::MAIN, &profiles).await?;
        for ((email, other), profile) in pairs.into_iter().zip(profiles) {
            let profile = profile.map(Profile::from).unwrap_or_default();
            found.entry(email).or_default().push(Other { email: other, profile });
        }
        pairs = rest;
    }
    Ok(found)
}

/// Each of the addresses with each other one of the same person.
async fn pairs(
    cx: &Cx,
    emails: &[&EmailAddress],
) -> Result<Vec<(String, EmailAddress)>, DatabaseError> {
    let sql = "SELECT given.value, other.value FROM {given}
               JOIN channel_identities i ON i.id = (SELECT one.id FROM channel_identities one
                   WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.value)
               JOIN channel_identities other ON other.lead_id = i.lead_id AND other.channel = 'email'
                   AND other.id <> i.id
               ORDER BY other.id";
    let workspace = cx.workspace_id().get();
    let emails: Vec<String> = emails.iter().map(|email| email.as_str().to_owned()).collect();
    let find = cx.database().read(move |tx| {
        let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
        let rows = tx.query_among(sql, &[Param::Int(workspace)], Among::Texts(&emails))?;
        let pair = |row: &Row| Ok((row.text(0)?.to_owned(), row.parsed(1, "an address")?));
        rows.iter().map(pair).collect::<Result<_, DatabaseError>>()
    });
    find.await
}
