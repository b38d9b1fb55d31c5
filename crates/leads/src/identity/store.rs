//! The rows of who is who: `leads`, `channel_identities`, `lead_organizations`, `lead_merges`, `lead_flags`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::channel::{Channel, Identity};
use super::rules::{Cause, Known, MAX_MERGED, Policy};

/// By so many things one contact can be known: every event of his reads through them. In tests fewer.
pub(super) const MAX_IDENTITIES: i64 = if cfg!(test) { 40 } else { 500 };

/// Who has an identity, and whose it was before he was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) lead: i64,
    pub(super) home: i64,
    /// When it became somebody's.
    pub(super) since: Timestamp,
}

pub(super) fn holder(
    tx: &mut Tx<'_>,
    cx: &Cx,
    identity: &Identity,
) -> Result<Option<Holder>, DatabaseError> {
    let sql = "SELECT lead_id, coalesce(home_lead_id, lead_id), created_at FROM channel_identities
               WHERE workspace_id = $1 AND channel = $2 AND value = $3";
    let rows = tx.query(sql, &named(cx, identity))?;
    let read = |row: &Row| Ok(Holder { lead: row.int(0)?, home: row.int(1)?, since: row.time(2)? });
    rows.first().map(read).transpose()
}

/// What has to be known of a lead to decide.
pub(super) fn known(tx: &mut Tx<'_>, lead: i64) -> Result<Known, DatabaseError> {
    let sql = "SELECT channel, value FROM channel_identities
               WHERE lead_id = $1 AND channel IN ('user_id', 'customer_id') ORDER BY id LIMIT 1000";
    let mut ids: BTreeMap<Channel, BTreeSet<String>> = BTreeMap::new();
    for row in &tx.query(sql, &[Param::Int(lead)])? {
        let channel = match row.text(0)? {
            "user_id" => Channel::UserId,
            _ => Channel::CustomerId,
        };
        ids.entry(channel).or_default().insert(row.text(1)?.to_owned());
    }
    Ok(Known { lead, ids, leads: family(tx, lead)?.len() })
}

/// A lead and all who were merged into him, and into those.
pub(super) fn family(tx: &mut Tx<'_>, lead: i64) -> Result<Vec<i64>, DatabaseError> {
    // Nobody can be his own descendant; if the rows said so, this must still end.
    let sql = format!(
        "WITH RECURSIVE family (id, depth) AS (
             SELECT CAST($1 AS BIGINT), 0
             UNION SELECT l.id, f.depth + 1 FROM leads l JOIN family f ON l.merged_into_id = f.id
             WHERE f.depth < {MAX_MERGED})
         SELECT id FROM family ORDER BY depth, id"
    );
    let mut found = Vec::new();
    for row in &tx.query(&sql, &[Param::Int(lead)])? {
        let id = row.int(0)?;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Whom a lead has become.
pub(super) fn root(tx: &mut Tx<'_>, cx: &Cx, lead: i64) -> Result<Option<i64>, DatabaseError> {
    let mut here = lead;
    for _ in 0..=MAX_MERGED {
        let sql = "SELECT merged_into_id FROM leads WHERE workspace_id = $1 AND id = $2";
        let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Int(here)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        match row.optional_int(0)? {
            Some(next) => here = next,
            None => return Ok(Some(here)),
        }
    }
    Err(DatabaseError::damaged(0, "a lead that is merged into somebody"))
}

/// The partition of a lead's timeline. Every lead has one; who came without gets it here.
pub(super) fn partition(tx: &mut Tx<'_>, cx: &Cx, lead: i64) -> Result<i64, DatabaseError> {
    let find = "SELECT id FROM lead_organizations WHERE lead_id = $1";
    if let Some(row) = tx.query(find, &[Param::Int(lead)])?.first() {
        return row.int(0);
    }
    let sql = "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
               VALUES ($1, $2, $3, $3) ON CONFLICT (lead_id) DO NOTHING";
    let now = Param::Int(cx.now().as_millisecond());
    tx.execute(sql, &[Param::Int(cx.workspace_id().get()), Param::Int(lead), now])?;
    tx.query(find, &[Param::Int(lead)])?.first().ok_or(DatabaseError::NoRow)?.int(0)
}

/// He was seen at this time. What happened before what is known does not move it back.
pub(super) fn seen(
    tx: &mut Tx<'_>,
    cx: &Cx,
    lead: i64,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE lead_organizations
               SET first_seen_at = CASE WHEN first_seen_at < $2 THEN first_seen_at ELSE $2 END,
                   last_seen_at = CASE WHEN last_seen_at > $2 THEN last_seen_at ELSE $2 END,
                   updated_at = $3
               WHERE lead_id = $1 AND (first_seen_at IS NULL OR last_seen_at IS NULL
                   OR first_seen_at > $2 OR last_seen_at < $2)";
    let params = [Param::Int(lead), Param::from(at), Param::from(cx.now())];
    tx.execute(sql, &params).map(drop)
}

/// Pairs of these leads who were merged and taken apart again, or of whom somebody said that they are two; or of whom that is
/// true of somebody whom each has become: who was taken apart is not joined again through a third.
pub(super) fn taken_apart(
    tx: &mut Tx<'_>,
    leads: &[i64],
) -> Result<BTreeSet<(i64, i64)>, DatabaseError> {
    let mut found = BTreeSet::new();
    if leads.len() < 2 {
        return Ok(found);
    }
    let mut roots = BTreeMap::new();
    for lead in leads {
        roots.extend(family(tx, *lead)?.into_iter().map(|member| (member, *lead)));
    }
    let sql = "SELECT loser_id FROM lead_merges WHERE winner_id = $1 AND undone_at IS NOT NULL
               UNION SELECT second_id FROM lead_flags WHERE first_id = $1 AND resolution = 'dismissed'";
    for (member, one) in &roots {
        for row in &tx.query(sql, &[Param::Int(*member)])? {
            if let Some(other) = roots.get(&row.int(0)?).filter(|other| *other != one) {
                found.insert((*one.min(other), *one.max(other)));
            }
        }
    }
    Ok(found)
}

/// Whether somebody can be known by one thing more.
pub(super) fn has_room(tx: &mut Tx<'_>, lead: i64) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM channel_identities WHERE lead_id = $1 LIMIT 1 OFFSET $2";
    Ok(tx.query(sql, &[Param::Int(lead), Param::Int(MAX_IDENTITIES - 1)])?.is_empty())
}

/// Whether whoever an identity is at home with has no other that is.
pub(super) fn is_last_at_home(
    tx: &mut Tx<'_>,
    cx: &Cx,
    identity: &Identity,
    home: i64,
) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM channel_identities
               WHERE lead_id = (SELECT lead_id FROM channel_identities
                                WHERE workspace_id = $1 AND channel = $2 AND value = $3)
                 AND coalesce(home_lead_id, lead_id) = $4 AND (channel <> $2 OR value <> $3) LIMIT 1";
    let [workspace, channel, value] = named(cx, identity);
    Ok(tx.query(sql, &[workspace, channel, value, Param::Int(home)])?.is_empty())
}

/// Nobody is known by it any more. Tells which row it was.
pub(super) fn remove(tx: &mut Tx<'_>, cx: &Cx, identity: &Identity) -> Result<i64, DatabaseError> {
    let sql = "DELETE FROM channel_identities
               WHERE workspace_id = $1 AND channel = $2 AND value = $3 RETURNING id";
    tx.query(sql, &named(cx, identity))?.first().ok_or(DatabaseError::NoRow)?.int(0)
}

/// What finds the row of an identity.
fn named<'a>(cx: &Cx, identity: &'a Identity) -> [Param<'a>; 3] {
    let known_by = identity.known_by();
    let workspace = Param::Int(cx.workspace_id().get());
    [workspace, Param::Text(known_by.channel), Param::Text(known_by.value)]
}

/// Says of an identity that somebody got as another one where it is at home.
pub(super) fn is_at_home(
    tx: &mut Tx<'_>,
    cx: &Cx,
    identity: &Identity,
    home: i64,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE channel_identities SET home_lead_id = $4
               WHERE workspace_id = $1 AND channel = $2 AND value = $3 AND lead_id <> $4";
    let known_by = identity.known_by();
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Text(known_by.channel),
        Param::Text(known_by.value),
        Param::Int(home),
    ];
    tx.execute(sql, &params).map(drop)
}

/// Flags a pair, once and for all: whoever dismissed it is not asked again.
pub(super) fn flag(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (one, other): (i64, i64),
    (cause, event): (Cause, Option<&str>),
) -> Result<bool, DatabaseError> {
    let sql =
        "INSERT INTO lead_flags (workspace_id, first_id, second_id, cause, event_id, flagged_at)
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (first_id, second_id) DO NOTHING";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(one.min(other)),
        Param::Int(one.max(other)),
        Param::Text(cause.as_str()),
        event.map_or(Param::Null, Param::Text),
        Param::from(cx.now()),
    ];
    Ok(tx.execute(sql, &params)? > 0)
}

/// Of those who are one person now, nobody is to be asked any more, also where a third has brought two of them together.
pub(super) fn resolve_flags(tx: &mut Tx<'_>, cx: &Cx, lead: i64) -> Result<(), DatabaseError> {
    let family = family(tx, lead)?;
    let sql = "UPDATE lead_flags SET resolved_at = $3, resolution = 'merged'
               WHERE first_id = $1 AND second_id = $2 AND resolved_at IS NULL";
    for one in &family {
        for other in family.iter().filter(|other| *other > one) {
            tx.execute(sql, &[Param::Int(*one), Param::Int(*other), Param::from(cx.now())])?;
        }
    }
    Ok(())
}

pub(super) fn policy(tx: &mut Tx<'_>, cx: &Cx) -> Result<Policy, DatabaseError> {
    let sql = "SELECT shared_identities FROM workspace_settings WHERE workspace_id = $1";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get())])?;
    let said = rows.first().map(|row| row.optional_text(0)).transpose()?.flatten();
    Ok(if said == Some("flag") { Policy::Flag } else { Policy::Merge })
}

/// The older of two is the one who stays.
pub(super) fn older_first(
    tx: &mut Tx<'_>,
    one: i64,
    other: i64,
) -> Result<(ContactId, ContactId), DatabaseError> {
    let sql = "SELECT id FROM leads WHERE id IN ($1, $2) ORDER BY created_at, id";
    let rows = tx.query(sql, &[Param::Int(one), Param::Int(other)])?;
    match rows.as_slice() {
        [first, second] => Ok((first.int(0)?.into(), second.int(0)?.into())),
        _ => Err(DatabaseError::NoRow),
    }
}
