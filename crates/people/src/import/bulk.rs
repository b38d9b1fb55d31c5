//! What a file says of many people at once, in the relations: one statement for all of them, not one for each.
//!
//! SQLite gets them as a JSON array and PostgreSQL as arrays of its own, so that a statement has the same text however
//! many there are.

use std::collections::HashSet;

use serde_json::json;
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Dialect, Param, Tx};

use crate::consent::confirmations;
use crate::consent::proof::Action;
use crate::contacts::ContactId;
use crate::heard::{self, Place};
use crate::news;
use crate::segments;

/// The audience that everybody in a file gets into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) id: i64,
    pub(super) entry: Entry,
}

/// How those come in who are new to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Subscribed,
    /// They have confirmed it elsewhere.
    Confirmed,
    /// They must confirm it themselves: a file is no confirmation. A mail asks them in the name of the client, if there is one.
    Pending(Option<ClientId>),
}

impl Audience {
    /// Whether a mail asks those who are new to it.
    pub(super) fn asks(self) -> bool {
        matches!(self.entry, Entry::Pending(Some(_)))
    }
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
    let (status, agreed, verified, action) = match audience.entry {
        Entry::Subscribed => ("subscribed", "$2", "NULL", Action::Subscribed),
        Entry::Confirmed => ("subscribed", "$2", "$2", Action::Subscribed),
        Entry::Pending(_) => ("pending", "NULL", "NULL", Action::Requested),
    };
    let params = [workspace(cx), now(cx), Param::Int(audience.id), Param::Text(source)];
    let sql = format!(
        "INSERT INTO subscriptions
             (workspace_id, lead_id, audience_id, status, source, agreed_at, verified_at, created_at, updated_at)
         SELECT $1, id, $3, '{status}', $4, {agreed}, {verified}, $2, $2 FROM {{ids}}
         WHERE EXISTS (SELECT 1 FROM leads WHERE leads.id = ids.id AND unsubscribed_at IS NULL)
         ON CONFLICT DO NOTHING RETURNING lead_id, id"
    );
    let rows = for_each(tx, contacts, &sql, &params)?;
    let new: Vec<i64> = rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
    if let Entry::Pending(asks) = audience.entry {
        let waiting: Vec<i64> = rows.iter().map(|row| row.int(1)).collect::<Result<_, _>>()?;
        request(tx, cx, &waiting, asks)?;
    }
    let sql = format!(
        "INSERT INTO consent_log (workspace_id, lead_id, audience_id, action, acted_by, source, happened_at)
         SELECT $1, id, $3, '{}', 'import', $4, $2 FROM {{ids}} RETURNING id, lead_id, audience_id",
        action.as_str()
    );
    let proofs = for_each(tx, &new, &sql, &params)?;
    let joined: Vec<ContactId> = new.iter().copied().map(ContactId::from).collect();
    segments::changed(tx, cx, &joined)?;
    if action == Action::Subscribed {
        tell(tx, cx, &proofs, Action::Subscribed)?;
        if heard::is_heard(tx, cx, Action::Subscribed)? {
            let place = Place { audience: Some(audience.id.into()), client: None };
            hear(tx, cx, (Action::Subscribed, place), &proofs)?;
        }
    }
    Ok(new.len())
}

/// Asks for the confirmations of these subscriptions, which nobody has asked for before.
fn request(
    tx: &mut Tx<'_>,
    cx: &Cx,
    subscriptions: &[i64],
    asks: Option<ClientId>,
) -> Result<(), DatabaseError> {
    let until = confirmations::expiry(cx.now()).as_millisecond();
    for_each(
        tx,
        subscriptions,
        "INSERT INTO confirmations (workspace_id, subscription_id, expires_at, created_at)
         SELECT $1, id, $3, $2 FROM {ids} RETURNING subscription_id",
        &[workspace(cx), now(cx), Param::Int(until)],
    )?;
    match asks {
        Some(client) => confirmations::ask_later(tx, cx, (client, 1), subscriptions),
        None => Ok(()),
    }
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

/// Unsubscribes from everything, and writes down why. Whoever is so already keeps his date. What he was asked to confirm
/// before cannot be confirmed any more.
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
    // As `consent::rows::void_requests` does it for one.
    for_each(
        tx,
        contacts,
        "UPDATE confirmations SET expires_at = $2
         WHERE workspace_id = $1 AND confirmed_at IS NULL AND expires_at > $2
           AND subscription_id IN
               (SELECT s.id FROM {ids} JOIN subscriptions s ON s.workspace_id = $1 AND s.lead_id = ids.id)
         RETURNING subscription_id",
        &[workspace(cx), now(cx)],
    )?;
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
