//! Many people at once in the relations: one statement for all of them, not one for each.
//!
//! SQLite gets them as a JSON array and PostgreSQL as arrays of its own, so that a statement has the same text however
//! many there are.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::json;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{Among, DatabaseError, Dialect, Param, Tx};

use crate::consent::erased;
use crate::consent::proof::Action;
use crate::contacts::ContactId;
use crate::contacts::store::Known;
use crate::heard::{self, Place};
use crate::news;
use crate::segments;

/// By their normalised address.
pub(super) type Contacts = HashMap<String, Known>;

/// Those of these people that are contacts already.
pub(super) fn find(
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

/// All of these people, made contacts where they are none yet. No address comes twice. Who was known and who was new a moment
/// ago is only a guess, which makes it fast where it is right.
pub(super) fn ensure(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (known, new): (&[EmailAddress], &[EmailAddress]),
    source: &str,
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
        for_each(tx, &ids, "DELETE FROM leads WHERE id IN (SELECT id FROM {ids})", &[])?;
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
    source: &str,
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
            tx.query(&sql, &[workspace(cx), now(cx), Param::Text(source), Param::Text(&list)])?
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
                Param::Text(source),
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
    for_each(
        tx,
        &ids,
        "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
         SELECT $1, id, $2, $2 FROM {ids}",
        &[workspace(cx), now(cx)],
    )
    .map(drop)
}

/// The audience that everybody in a file gets into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) id: i64,
    /// Whoever comes new must confirm it himself: a file is no confirmation.
    pub(super) double_opt_in: bool,
}

/// Subscribes those who have no subscription to the audience yet and have not left everything. Whoever has one keeps it,
/// whatever it says. Tells how many are new to it.
pub(super) fn subscribe(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contacts: &[i64],
    audience: Audience,
    source: &str,
) -> Result<usize, DatabaseError> {
    let (status, agreed, action) = match audience.double_opt_in {
        true => ("pending", "NULL", "requested"),
        false => ("subscribed", "$2", "subscribed"),
    };
    let params = [workspace(cx), now(cx), Param::Int(audience.id), Param::Text(source)];
    let sql = format!(
        "INSERT INTO subscriptions
             (workspace_id, lead_id, audience_id, status, source, agreed_at, created_at, updated_at)
         SELECT $1, id, $3, '{status}', $4, {agreed}, $2, $2 FROM {{ids}}
         WHERE EXISTS (SELECT 1 FROM leads WHERE leads.id = ids.id AND unsubscribed_at IS NULL)
         ON CONFLICT DO NOTHING RETURNING lead_id"
    );
    let rows = for_each(tx, contacts, &sql, &params)?;
    let new: Vec<i64> = rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
    let sql = format!(
        "INSERT INTO consent_log (workspace_id, lead_id, audience_id, action, acted_by, source, happened_at)
         SELECT $1, id, $3, '{action}', 'import', $4, $2 FROM {{ids}} RETURNING id, lead_id, audience_id"
    );
    let proofs = for_each(tx, &new, &sql, &params)?;
    let joined: Vec<ContactId> = new.iter().copied().map(ContactId::from).collect();
    segments::changed(tx, cx, &joined)?;
    if !audience.double_opt_in {
        tell(tx, cx, &proofs, Action::Subscribed)?;
        if heard::is_heard(tx, cx, Action::Subscribed)? {
            let place = Place { audience: Some(audience.id.into()), client: None };
            hear(tx, cx, (Action::Subscribed, place), &proofs)?;
        }
    }
    Ok(new.len())
}

/// Those of these people who have a subscription to the audience, whatever it says.
pub(super) fn subscribed(
    tx: &mut Tx<'_>,
    contacts: &[i64],
    audience: Audience,
) -> Result<HashSet<i64>, DatabaseError> {
    let sql = "SELECT s.lead_id FROM {ids} JOIN subscriptions s
               ON s.lead_id = ids.id AND s.audience_id = $1 AND s.client_id IS NULL";
    let rows = for_each(tx, contacts, sql, &[Param::Int(audience.id)])?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// Somebody is in another time zone than was known.
pub(super) struct Moved {
    pub(super) contact: i64,
    pub(super) email: EmailAddress,
    pub(super) zone: String,
    /// It is all that changes of him, so nothing else says that he changed.
    pub(super) alone: bool,
}

/// Sets the time zones of these people.
pub(super) fn move_to(tx: &mut Tx<'_>, cx: &Cx, moved: &[Moved]) -> Result<(), DatabaseError> {
    if moved.is_empty() {
        return Ok(());
    }
    let set = "UPDATE leads SET timezone = given.zone, updated_at = $2";
    let whose = "WHERE leads.workspace_id = $1 AND leads.id = given.id AND leads.erased_at IS NULL";
    match tx.dialect() {
        Dialect::Sqlite => {
            let list: Vec<_> = moved.iter().map(|one| json!([one.contact, one.zone])).collect();
            let list = json!(list).to_string();
            let given = "(SELECT value ->> 0 AS id, value ->> 1 AS zone FROM json_each($3))";
            let sql = format!("{set} FROM {given} AS given {whose}");
            tx.execute(&sql, &[workspace(cx), now(cx), Param::Text(&list)])?;
        }
        Dialect::Postgres => {
            let ids: Vec<_> = moved.iter().map(|one| Some(one.contact)).collect();
            let zones: Vec<_> = moved.iter().map(|one| Some(one.zone.as_str())).collect();
            let given = "unnest($3::bigint[], $4::text[]) AS given (id, zone)";
            let sql = format!("{set} FROM {given} {whose}");
            let params = [workspace(cx), now(cx), Param::Ints(&ids), Param::Texts(&zones)];
            tx.execute(&sql, &params)?;
        }
    }
    let told = moved.iter().filter(|one| one.alone);
    let told: Vec<_> = told.map(|one| news::updated(cx, one.contact, &one.email)).collect();
    tidings_webhooks::announce_all(cx, tx, &told)
}

/// Unsubscribes from everything, and writes down why. Whoever is so already keeps his date.
pub(super) fn unsubscribe(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contacts: &[i64],
    source: &str,
) -> Result<(), DatabaseError> {
    let rows = for_each(
        tx,
        contacts,
        "UPDATE leads SET unsubscribed_at = $2, updated_at = $2
         WHERE workspace_id = $1 AND unsubscribed_at IS NULL AND id IN (SELECT id FROM {ids}) RETURNING id",
        &[workspace(cx), now(cx)],
    )?;
    let changed: Vec<i64> = rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
    let proofs = for_each(
        tx,
        &changed,
        "INSERT INTO consent_log (workspace_id, lead_id, action, acted_by, source, happened_at)
         SELECT $1, id, 'unsubscribed', 'import', $3, $2 FROM {ids} RETURNING id, lead_id, audience_id",
        &[workspace(cx), now(cx), Param::Text(source)],
    )?;
    tell(tx, cx, &proofs, Action::Unsubscribed)?;
    // A file can take a million people off the list.
    if heard::is_anything_going_on(tx, cx)? {
        let everything = Place { audience: None, client: None };
        hear(tx, cx, (Action::Unsubscribed, everything), &proofs)?;
    }
    Ok(())
}

/// Lets sequences hear what was written down.
fn hear(
    tx: &mut Tx<'_>,
    cx: &Cx,
    change: (Action, Place),
    proofs: &[tidings_sql::Row],
) -> Result<(), DatabaseError> {
    let proofs: Vec<(i64, i64)> = proofs
        .iter()
        .map(|row| Ok((row.int(0)?, row.int(1)?)))
        .collect::<Result<_, DatabaseError>>()?;
    let contacts: Vec<i64> = proofs.iter().map(|(_, contact)| *contact).collect();
    let rows = for_each(
        tx,
        &contacts,
        "SELECT lead_id, value FROM channel_identities
         WHERE workspace_id = $1 AND channel = 'email' AND lead_id IN (SELECT id FROM {ids}) ORDER BY id",
        &[workspace(cx)],
    )?;
    let addresses: Vec<(i64, EmailAddress)> = rows
        .iter()
        .map(|row| Ok((row.int(0)?, row.parsed(1, "an e-mail address")?)))
        .collect::<Result<_, DatabaseError>>()?;
    let changes = heard::with_addresses(&proofs, addresses.into_iter());
    heard::changed(tx, cx, change, &changes)
}

/// Announces what was written down.
fn tell(
    tx: &mut Tx<'_>,
    cx: &Cx,
    proofs: &[tidings_sql::Row],
    action: Action,
) -> Result<(), DatabaseError> {
    let mut told = Vec::new();
    for row in proofs {
        let data = json!({ "contact_id": row.int(1)?, "audience_id": row.optional_int(2)? });
        told.extend(news::consent(cx, row.int(0)?, action, data));
    }
    tidings_webhooks::announce_all(cx, tx, &told)
}

/// A statement over ids: `{ids}` stands for a table with the one column `id`.
fn for_each(
    tx: &mut Tx<'_>,
    ids: &[i64],
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<tidings_sql::Row>, DatabaseError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let place = params.len() + 1;
    let mut params = params.to_vec();
    match tx.dialect() {
        Dialect::Sqlite => {
            let list = json!(ids).to_string();
            params.push(Param::Text(&list));
            let table = format!("(SELECT value AS id FROM json_each(${place})) AS ids");
            tx.query(&sql.replace("{ids}", &table), &params)
        }
        Dialect::Postgres => {
            let list: Vec<_> = ids.iter().copied().map(Some).collect();
            params.push(Param::Ints(&list));
            let table = format!("unnest(${place}::bigint[]) AS ids (id)");
            tx.query(&sql.replace("{ids}", &table), &params)
        }
    }
}

fn workspace(cx: &Cx) -> Param<'static> {
    Param::Int(cx.workspace_id().get())
}

fn now(cx: &Cx) -> Param<'static> {
    Param::Int(cx.now().as_millisecond())
}
