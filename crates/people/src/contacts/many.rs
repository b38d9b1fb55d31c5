//! Many contacts at once: one statement for all of them, not one for each.
//!
//! SQLite gets them as a JSON array and PostgreSQL as arrays of its own, so that a statement has the same text however
//! many there are. What becomes of a contact who is made is the same as for one alone (`store::make`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::json;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{Among, DatabaseError, Dialect, Param, Tx};

use super::store::Known;
use super::values::ContactId;
use crate::consent::erased;
use crate::news;
use crate::segments;

/// By their normalised address.
pub(crate) type Contacts = HashMap<String, Known>;

/// Those of these people that are contacts already.
pub(crate) fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    emails: &[EmailAddress],
) -> Result<Contacts, DatabaseError> {
    let sql =
        "SELECT i.value, i.lead_id, i.typed_value, l.unsubscribed_at, l.created_at, l.timezone
         FROM {given}
         JOIN channel_identities i ON i.id = (
             SELECT one.id FROM channel_identities one
             WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.value)
         JOIN leads l ON l.id = i.lead_id";
    let workspace = Param::Int(cx.workspace_id().get());
    let addresses: Vec<_> = emails.iter().map(EmailAddress::as_str).collect();
    let rows = tx.query_among(sql, &[workspace], Among::Texts(&addresses))?;
    let known = rows.iter().map(|row| {
        let known = Known {
            id: row.int(1)?.into(),
            typed: row.text(2)?.to_owned(),
            unsubscribed_at: row.optional_time(3)?,
            created_at: row.time(4)?,
            timezone: row.optional_text(5)?.map(ToOwned::to_owned),
        };
        Ok((row.text(0)?.to_owned(), known))
    });
    known.collect()
}

/// The contacts of these addresses, made where there are none, in the caller's transaction. An address may come twice. Who of
/// them is known is only a guess, which makes it fast where it is right. What `ensure` does for one.
pub fn ensure_all(
    tx: &mut Tx<'_>,
    cx: &Cx,
    emails: &[&EmailAddress],
    is_known: impl Fn(&EmailAddress) -> bool,
) -> Result<HashMap<String, ContactId>, DatabaseError> {
    let mut seen = HashSet::new();
    let distinct = emails.iter().filter(|email| seen.insert(email.as_str()));
    let (known, new): (Vec<EmailAddress>, Vec<EmailAddress>) =
        distinct.map(|email| (*email).clone()).partition(is_known);
    let contacts = ensure(tx, cx, (&known, &new), None)?;
    Ok(contacts.into_iter().map(|(email, known)| (email, known.id)).collect())
}

/// All of these people, made contacts where they are none yet. No address comes twice. Who was known and who was new a moment
/// ago is only a guess, which makes it fast where it is right.
pub(crate) fn ensure(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (known, new): (&[EmailAddress], &[EmailAddress]),
    source: Option<&str>,
) -> Result<Contacts, DatabaseError> {
    let mut contacts = if known.is_empty() { Contacts::new() } else { find(tx, cx, known)? };
    let missing: Vec<&EmailAddress> =
        known.iter().filter(|email| !contacts.contains_key(email.as_str())).chain(new).collect();
    if missing.is_empty() {
        return Ok(contacts);
    }
    let ids = insert_leads(tx, cx, missing.len())?;
    let made: Vec<(i64, &EmailAddress)> = ids.into_iter().zip(missing).collect();
    let kept = insert_identities(tx, cx, &made, source)?;
    // Somebody else may have been faster with one of them: then his contact is the one, and ours goes.
    let (made, surplus): (Vec<_>, Vec<_>) = made.into_iter().partition(|(id, _)| kept.contains(id));
    if !surplus.is_empty() {
        let ids: Vec<i64> = surplus.iter().map(|(id, _)| *id).collect();
        tx.query_among("DELETE FROM leads WHERE id {among}", &[], Among::Ints(&ids))?;
        let emails: Vec<EmailAddress> = surplus.iter().map(|(_, email)| (*email).clone()).collect();
        contacts.extend(find(tx, cx, &emails)?);
    }
    insert_organizations(tx, cx, &made)?;
    let told = made.iter().map(|(id, email)| Cow::Owned(news::created(cx, *id, Some(email))));
    tidings_webhooks::announce_each(cx, tx, told)?;
    let new: Vec<_> = made.iter().map(|(id, email)| (ContactId::from(*id), *email)).collect();
    erased::restore(tx, cx, &new)?;
    let new: Vec<ContactId> = new.into_iter().map(|(id, _)| id).collect();
    segments::changed(tx, cx, &new)?;
    for (id, email) in made {
        let known = Known {
            id: id.into(),
            typed: email.typed().to_owned(),
            timezone: None,
            unsubscribed_at: None,
            created_at: cx.now(),
        };
        contacts.insert(email.as_str().to_owned(), known);
    }
    Ok(contacts)
}

fn insert_leads(tx: &mut Tx<'_>, cx: &Cx, count: usize) -> Result<Vec<i64>, DatabaseError> {
    let numbers = match tx.dialect() {
        Dialect::Sqlite => {
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $3) SELECT i FROM n)"
        }
        Dialect::Postgres => "generate_series(1, $3::bigint)",
    };
    let sql = format!(
        "INSERT INTO leads (workspace_id, created_at, updated_at)
         SELECT $1, $2, $2 FROM {numbers} AS numbers RETURNING id"
    );
    let count = i64::try_from(count).expect("a part of a file has few lines");
    let rows = tx.query(&sql, &[workspace(cx), now(cx), Param::Int(count)])?;
    rows.iter().map(|row| row.int(0)).collect()
}

fn insert_identities(
    tx: &mut Tx<'_>,
    cx: &Cx,
    made: &[(i64, &EmailAddress)],
    source: Option<&str>,
) -> Result<HashSet<i64>, DatabaseError> {
    // In the same order on all nodes, so that no two wait for each other.
    let mut made = made.to_vec();
    made.sort_unstable_by_key(|(_, email)| email.as_str());
    let columns = "INSERT INTO channel_identities
        (workspace_id, lead_id, channel, value, typed_value, source, created_at, updated_at)";
    let unless = "ON CONFLICT (workspace_id, channel, value) DO NOTHING RETURNING lead_id";
    let rows = match tx.dialect() {
        Dialect::Sqlite => {
            let list: Vec<_> =
                made.iter().map(|(id, email)| json!([id, email.as_str(), email.typed()])).collect();
            let list = json!(list).to_string();
            let sql = format!(
                "{columns} SELECT $1, value ->> 0, 'email', value ->> 1, value ->> 2, $3, $2, $2 FROM json_each($4) WHERE true {unless}"
            );
            tx.query(
                &sql,
                &[
                    workspace(cx),
                    now(cx),
                    source.map_or(Param::Null, Param::Text),
                    Param::Text(&list),
                ],
            )?
        }
        Dialect::Postgres => {
            let ids: Vec<_> = made.iter().map(|(id, _)| Some(*id)).collect();
            let values: Vec<_> = made.iter().map(|(_, email)| Some(email.as_str())).collect();
            let typed: Vec<_> = made.iter().map(|(_, email)| Some(email.typed())).collect();
            let sql = format!(
                "{columns} SELECT $1, id, 'email', value, typed, $3, $2, $2
                 FROM unnest($4::bigint[], $5::text[], $6::text[]) AS made (id, value, typed) {unless}"
            );
            let params = [
                workspace(cx),
                now(cx),
                source.map_or(Param::Null, Param::Text),
                Param::Ints(&ids),
                Param::Texts(&values),
                Param::Texts(&typed),
            ];
            tx.query(&sql, &params)?
        }
    };
    rows.iter().map(|row| row.int(0)).collect()
}

fn insert_organizations(
    tx: &mut Tx<'_>,
    cx: &Cx,
    made: &[(i64, &EmailAddress)],
) -> Result<(), DatabaseError> {
    let ids: Vec<i64> = made.iter().map(|(id, _)| *id).collect();
    let sql = "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
               SELECT $1, given.value, $2, $2 FROM {given}";
    tx.query_among(sql, &[workspace(cx), now(cx)], Among::Ints(&ids)).map(drop)
}

fn workspace(cx: &Cx) -> Param<'static> {
    Param::Int(cx.workspace_id().get())
}

fn now(cx: &Cx) -> Param<'static> {
    Param::Int(cx.now().as_millisecond())
}
