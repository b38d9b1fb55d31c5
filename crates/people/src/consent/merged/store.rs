//! Where it is kept what each said himself (the provenance of the merges), and the rows that follow from it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tidings_access::{ClientId, Cx};
use tidings_sql::{DatabaseError, Param, Tx};

use super::super::proof::{self, About, Act, Action};
use super::super::rows::{self, Subscription};
use super::super::{AudienceId, Status};
use super::Apart;
use super::older;
use super::own::{Family, Own, Place, Together, Topic};
use crate::contacts::ContactId;

/// What a merge that stands keeps: what he said who was merged; and of the person as a whole, what he said who stays.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loser: Option<Own>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    winner: Option<Own>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    together: Vec<Together>,
}

/// A lead and all who were merged into him, and into those.
pub(super) fn family_of(tx: &mut Tx<'_>, lead: i64) -> Result<Vec<i64>, DatabaseError> {
    let mut found = vec![lead];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        next += 1;
        let sql = "SELECT id FROM leads WHERE merged_into_id = $1 ORDER BY id LIMIT 1000";
        for row in &tx.query(sql, &[Param::Int(one)])? {
            let id = row.int(0)?;
            // Nobody can be his own descendant; if the rows said so, this must still end.
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    Ok(found)
}

/// A person by all whom he is put together from, he who has stayed first.
pub(super) fn load(tx: &mut Tx<'_>, cx: &Cx, leads: &[i64]) -> Result<Family, DatabaseError> {
    let root = *leads.first().ok_or(DatabaseError::NoRow)?;
    let now = said(tx, cx, root)?;
    if leads.len() == 1 {
        return Ok(Family { members: vec![(root, now)], together: Vec::new() });
    }
    let (mut own, mut together) = (BTreeMap::new(), Vec::new());
    let merges = merges(tx, leads)?;
    for merge in &merges {
        let kept = kept(&merge.provenance);
        if let Some(said) = kept.loser {
            own.insert(merge.loser, said);
        }
        if let Some(said) = kept.winner.filter(|_| merge.winner == root) {
            own.insert(root, said);
            together = kept.together;
        }
    }
    if leads.iter().any(|lead| !own.contains_key(lead)) {
        for (lead, said) in older::said(&rows_of(tx, cx, leads)?, leads, &merges) {
            own.entry(lead).or_insert(said);
        }
    }
    let members = leads.iter().map(|lead| (*lead, own.remove(lead).unwrap_or_default())).collect();
    let homes = Homes::load(tx, root)?;
    let mut family = Family { members, together };
    family.settle(&now, |place| homes.places.get(&place.key()).copied());
    Ok(family)
}

/// Writes down with the merges that stand what each said.
pub(super) fn keep(tx: &mut Tx<'_>, family: &Family) -> Result<(), DatabaseError> {
    let leads: Vec<i64> = family.members.iter().map(|(lead, _)| *lead).collect();
    let own =
        |lead: i64| family.members.iter().find(|(one, _)| *one == lead).map(|(_, own)| own.clone());
    for Merge { id, winner, loser, mut provenance, .. } in merges(tx, &leads)? {
        let is_root = leads.first() == Some(&winner);
        let kept = Kept {
            loser: own(loser),
            winner: own(winner).filter(|_| is_root),
            together: if is_root { family.together.clone() } else { Vec::new() },
        };
        let kept = serde_json::to_value(kept).expect("numbers and words have a JSON form");
        if let Some(object) = provenance.as_object_mut() {
            object.insert("consent".to_owned(), kept);
        }
        let sql = "UPDATE lead_merges SET provenance = $2 WHERE id = $1";
        tx.execute(sql, &[Param::Int(id), Param::Text(&provenance.to_string())])?;
    }
    Ok(())
}

/// A merge that stands: who stayed, who went, and what is kept with it.
#[derive(Debug)]
pub(super) struct Merge {
    id: i64,
    pub(super) winner: i64,
    pub(super) loser: i64,
    provenance: Json,
    pub(super) merged_at: i64,
    /// When the person last took back what was taken back already. Only versions that kept less wrote it.
    pub(super) said_at: Option<i64>,
}

/// The merges that stand between these.
fn merges(tx: &mut Tx<'_>, leads: &[i64]) -> Result<Vec<Merge>, DatabaseError> {
    let mut found = Vec::new();
    let sql = "SELECT id, winner_id, loser_id, CAST(provenance AS TEXT), merged_at, said_at
               FROM lead_merges WHERE loser_id = $1 AND undone_at IS NULL";
    // Who is not first was merged into one of the others.
    for lead in leads.iter().skip(1) {
        for row in &tx.query(sql, &[Param::Int(*lead)])? {
            let damaged = |_| DatabaseError::damaged(3, "the provenance of a merge");
            let provenance = serde_json::from_str(row.text(3)?).map_err(damaged)?;
            found.push(Merge {
                id: row.int(0)?,
                winner: row.int(1)?,
                loser: row.int(2)?,
                provenance,
                merged_at: row.int(4)?,
                said_at: row.optional_int(5)?,
            });
        }
    }
    Ok(found)
}

fn kept(provenance: &Json) -> Kept {
    let consent = provenance.get("consent").cloned().unwrap_or_default();
    serde_json::from_value(consent).unwrap_or_default()
}

/// What the rows of a lead say.
fn said(tx: &mut Tx<'_>, cx: &Cx, lead: i64) -> Result<Own, DatabaseError> {
    let places = rows::all(tx, cx, lead.into())?.iter().map(Place::of).collect();
    let sql = "SELECT topic_id, status, updated_at FROM topic_preferences
               WHERE lead_id = $1 ORDER BY id LIMIT 1000";
    let mut topics = Vec::new();
    for row in &tx.query(sql, &[Param::Int(lead)])? {
        let (topic, updated_at) = (row.int(0)?, row.int(2)?);
        topics.push(Topic { topic, on: row.text(1)? == "on", updated_at });
    }
    Ok(Own { left_at: left_at(tx, lead)?, places, topics })
}

fn left_at(tx: &mut Tx<'_>, lead: i64) -> Result<Option<i64>, DatabaseError> {
    let sql = "SELECT unsubscribed_at FROM leads WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(lead)])?;
    rows.first().map_or(Ok(None), |row| row.optional_int(0))
}

/// The rows of each of these, and where each row is at home.
fn rows_of(tx: &mut Tx<'_>, cx: &Cx, leads: &[i64]) -> Result<Vec<older::Row>, DatabaseError> {
    let mut found = Vec::new();
    for lead in leads {
        let (own, homes) = (said(tx, cx, *lead)?, Homes::load(tx, *lead)?);
        let at_home = |home: Option<&i64>| home.filter(|home| leads.contains(home)).copied();
        let row = |home: Option<i64>, said| older::Row { home: home.unwrap_or(*lead), said };
        found.extend(own.left_at.map(|at| row(None, older::Said::Left(at))));
        for place in own.places {
            let home = at_home(homes.places.get(&place.key()));
            found.push(row(home, older::Said::Place(place)));
        }
        for topic in own.topics {
            let home = at_home(homes.topics.get(&topic.topic));
            found.push(row(home, older::Said::Topic(topic)));
        }
    }
    Ok(found)
}

/// Where those rows of somebody are at home that were another one's.
struct Homes {
    places: BTreeMap<(i64, Option<i64>), i64>,
    topics: BTreeMap<i64, i64>,
}

impl Homes {
    fn load(tx: &mut Tx<'_>, lead: i64) -> Result<Self, DatabaseError> {
        let (mut places, mut topics) = (BTreeMap::new(), BTreeMap::new());
        let sql = "SELECT home_lead_id, audience_id, client_id FROM subscriptions
                   WHERE lead_id = $1 AND home_lead_id IS NOT NULL LIMIT 1000";
        for row in &tx.query(sql, &[Param::Int(lead)])? {
            places.insert((row.int(1)?, row.optional_int(2)?), row.int(0)?);
        }
        let sql = "SELECT home_lead_id, topic_id FROM topic_preferences
                   WHERE lead_id = $1 AND home_lead_id IS NOT NULL LIMIT 1000";
        for row in &tx.query(sql, &[Param::Int(lead)])? {
            topics.insert(row.int(1)?, row.int(0)?);
        }
        Ok(Self { places, topics })
    }
}

/// Makes the rows of the person say what follows.
pub(super) fn put(
    tx: &mut Tx<'_>,
    cx: &Cx,
    family: &Family,
    act: &Act,
) -> Result<(), DatabaseError> {
    let leads: Vec<i64> = family.members.iter().map(|(lead, _)| *lead).collect();
    let wanted = family.strictest();
    let root = *leads.first().ok_or(DatabaseError::NoRow)?;
    put_leaving(tx, cx, (root, wanted.left_at), act)?;
    for place in &wanted.places {
        put_place(tx, cx, (&leads, place), act)?;
    }
    for row in rows::all(tx, cx, root.into())? {
        let place = Place::of(&row);
        if !wanted.places.iter().any(|wanted| wanted.key() == place.key()) {
            drop_row(tx, &row)?;
        }
    }
    for topic in &wanted.topics {
        put_topic(tx, cx, (&leads, *topic), act)?;
    }
    for topic in said(tx, cx, root)?.topics {
        if !wanted.topics.iter().any(|wanted| wanted.topic == topic.topic) {
            let sql = "DELETE FROM topic_preferences WHERE lead_id = $1 AND topic_id = $2";
            tx.execute(sql, &[Param::Int(root), Param::Int(topic.topic)])?;
        }
    }
    Ok(())
}

fn put_leaving(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (root, wanted): (i64, Option<i64>),
    act: &Act,
) -> Result<(), DatabaseError> {
    let before = left_at(tx, root)?;
    if before == wanted {
        return Ok(());
    }
    let sql = "UPDATE leads SET unsubscribed_at = $2, updated_at = $3 WHERE id = $1";
    let now = Param::Int(cx.now().as_millisecond());
    tx.execute(sql, &[Param::Int(root), proof::number(wanted), now])?;
    let action = match (before, wanted) {
        (None, Some(_)) => Action::Unsubscribed,
        (Some(_), None) => Action::Resubscribed,
        _ => return Ok(()),
    };
    if action == Action::Unsubscribed {
        rows::void_requests(tx, cx, root.into(), None)?;
    }
    proof::write(tx, cx, root.into(), (action, About::default()), act)
}

/// The row of a place is the person's own, or was one of the others', or is made.
fn put_place(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (leads, wanted): (&[i64], &Place),
    act: &Act,
) -> Result<(), DatabaseError> {
    let place = (AudienceId::from(wanted.audience), wanted.client.map(ClientId::from));
    let (root, mut found) = (ContactId::from(leads[0]), None);
    for lead in leads {
        found = rows::find(tx, cx, (*lead).into(), place)?;
        if found.is_some() {
            break;
        }
    }
    let mut row = match found {
        Some(row) if row.contact == root => row,
        Some(row) => {
            rehome(tx, "subscriptions", row.id.get(), root)?;
            Subscription { contact: root, ..row }
        }
        None => rows::insert(tx, cx, root, place, &act.source)?,
    };
    let before = Place::of(&row);
    let is_alone = leads.len() == 1;
    let is_same = Place { updated_at: before.updated_at, ..wanted.clone() } == before;
    if is_same && (!is_alone || before == *wanted) {
        return Ok(());
    }
    let time = |at: Option<i64>| at.and_then(|at| Timestamp::from_millisecond(at).ok());
    let status = row.status;
    row.status = wanted.standing.into();
    row.verified_at = time(wanted.verified_at);
    row.agreed_at = time(wanted.agreed_at);
    row.unsubscribed_at = time(wanted.left_at);
    if row.status != Status::Unsubscribed {
        row.unsubscribe_reason = None;
    }
    let as_it_was = time(Some(wanted.updated_at)).filter(|_| is_alone);
    row.updated_at = as_it_was.unwrap_or(cx.now());
    rows::save(tx, cx, &row)?;
    let action = match row.status {
        now if now == status => return Ok(()),
        Status::Unsubscribed => Action::Unsubscribed,
        Status::Subscribed => Action::Resubscribed,
        Status::Pending => return Ok(()),
    };
    if action == Action::Unsubscribed {
        rows::void_requests(tx, cx, root, Some(row.id))?;
    }
    proof::write(tx, cx, root, (action, row.about()), act)
}

/// Nobody of these ever had it.
fn drop_row(tx: &mut Tx<'_>, row: &Subscription) -> Result<(), DatabaseError> {
    let id = Param::Int(row.id.get());
    tx.execute("DELETE FROM confirmations WHERE subscription_id = $1", &[id])?;
    tx.execute("DELETE FROM subscriptions WHERE id = $1", &[id]).map(drop)
}

fn put_topic(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (leads, wanted): (&[i64], Topic),
    act: &Act,
) -> Result<(), DatabaseError> {
    let find = "SELECT id, status, updated_at FROM topic_preferences
                WHERE lead_id = $1 AND topic_id = $2";
    let (root, mut found) = (ContactId::from(leads[0]), None);
    for lead in leads {
        let rows = tx.query(find, &[Param::Int(*lead), Param::Int(wanted.topic)])?;
        if let Some(row) = rows.first() {
            if *lead != root.get() {
                rehome(tx, "topic_preferences", row.int(0)?, root)?;
            }
            found = Some((row.int(0)?, row.text(1)? == "on", row.int(2)?));
            break;
        }
    }
    let is_alone = leads.len() == 1;
    let at = if is_alone { wanted.updated_at } else { cx.now().as_millisecond() };
    let status = Param::Text(if wanted.on { "on" } else { "off" });
    let was_on = match found {
        Some((_, on, since)) if on == wanted.on && (!is_alone || since == at) => return Ok(()),
        Some((id, on, _)) => {
            let sql = "UPDATE topic_preferences SET status = $2, updated_at = $3 WHERE id = $1";
            tx.execute(sql, &[Param::Int(id), status, Param::Int(at)])?;
            on
        }
        None => {
            let sql = "INSERT INTO topic_preferences
                           (workspace_id, lead_id, topic_id, status, created_at, updated_at)
                       VALUES ($1, $2, $3, $4, $5, $5)";
            let (workspace, lead) = (cx.workspace_id().get(), root.get());
            let params = [
                Param::Int(workspace),
                Param::Int(lead),
                Param::Int(wanted.topic),
                status,
                Param::Int(at),
            ];
            tx.execute(sql, &params)?;
            true
        }
    };
    if was_on == wanted.on {
        return Ok(());
    }
    let action = if wanted.on { Action::TopicOn } else { Action::TopicOff };
    let about = About { topic: Some(wanted.topic.into()), ..About::default() };
    proof::write(tx, cx, root, (action, about), act)
}

/// A row of the one who goes is another's from now on, and remembers where it was at home.
fn rehome(tx: &mut Tx<'_>, table: &str, id: i64, to: ContactId) -> Result<(), DatabaseError> {
    let sql = format!(
        "UPDATE {table} SET home_lead_id = coalesce(home_lead_id, lead_id), lead_id = $2 WHERE id = $1"
    );
    tx.execute(&sql, &[Param::Int(id), Param::Int(to.get())]).map(drop)
}

/// What is at home with those who leave goes to them. It is with whoever they became, or with somebody on the way there, where
/// it stayed because the next one had the same already.
pub(super) fn go_home(tx: &mut Tx<'_>, apart: Apart<'_>) -> Result<(), DatabaseError> {
    let Some(loser) = apart.homes.first() else { return Ok(()) };
    for (table, same) in [
        (
            "subscriptions",
            "one.audience_id = mine.audience_id AND
              coalesce(one.client_id, 0) = coalesce(mine.client_id, 0)",
        ),
        ("topic_preferences", "one.topic_id = mine.topic_id"),
    ] {
        let sql = format!(
            "UPDATE {table} AS mine SET lead_id = $2,
                 home_lead_id = CASE WHEN home_lead_id = $2 THEN NULL ELSE home_lead_id END
             WHERE lead_id = $1 AND home_lead_id = $3
               AND NOT EXISTS (SELECT 1 FROM {table} one WHERE one.lead_id = $2 AND {same})"
        );
        for lead in way_up(tx, apart.winner)? {
            for home in apart.homes {
                tx.execute(&sql, &[Param::Int(lead), Param::Int(*loser), Param::Int(*home)])?;
            }
        }
    }
    Ok(())
}

/// A contact, into whom he was merged, and so on.
fn way_up(tx: &mut Tx<'_>, contact: ContactId) -> Result<Vec<i64>, DatabaseError> {
    let sql = "WITH RECURSIVE way (id, up) AS (
                   SELECT id, merged_into_id FROM leads WHERE id = $1
                   UNION SELECT l.id, l.merged_into_id FROM leads l JOIN way w ON l.id = w.up)
               SELECT id FROM way";
    let rows = tx.query(sql, &[Param::Int(contact.get())])?;
    rows.iter().map(|row| row.int(0)).collect()
}
