//! What is there before anything is measured, written past the product where the product would take too long.

use std::fmt::Write as _;
use std::io::Cursor;

use anyhow::{Context, anyhow, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_kernel::{Expect, Key, MAX_TXN_WRITES, Txn, tables};
use tidings_leads::event::{self, StoredEvent};
use tidings_leads::identity::{Whom, find};
use tidings_leads::{features, memory};
use tidings_outreach::segments;
use tidings_people::import;
use tidings_sql::{DatabaseError, Param};

use super::place::{Place, address};

/// So many people.
pub(super) async fn people(place: &Place, people: usize) -> anyhow::Result<()> {
    let mut file = String::from("email\n");
    for number in 0..people {
        writeln!(file, "{}", address(number))?;
    }
    let settings = import::Settings { source: "bench".to_owned(), ..Default::default() };
    let cx = place.cx().await?;
    let counts = import::run(&cx, Cursor::new(file.into_bytes()), settings, |_| ()).await?;
    ensure!(counts.new == people as u64, "not everybody is new: {counts:?}");
    Ok(())
}

/// What a workspace has that uses all this: a rule of its own, and a segment whose condition asks for features. Nobody gets into it, but
/// everybody whose features or memory change is looked at.
pub(super) async fn uses(place: &Place) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    let rule = json!({
        "name": "tea", "on": "product_viewed", "where": [{"path": "$.product", "equals": "tea"}],
        "type": "preference", "key": "drink", "value": "$.product", "confidence": 0.5,
    });
    let set = memory::rules::from_json(&json!({ "rules": [rule] }));
    let set = set.map_err(|faults| anyhow!("the rule is wrong: {faults:?}"))?;
    memory::rules::put(&cx, &"drinks".parse()?, set).await?;
    let bought = json!({"feature": "monetary_total", "at_least": 100});
    let put = segments::Put {
        slug: "vip".parse()?,
        name: None,
        condition: json!({"all": [{"tag": "vip"}, bought]}),
        trigger_on_build: false,
    };
    segments::put(&cx, put).await?;
    place.settle().await
}

/// Everybody was active and has features: those of somebody who really has some.
pub(super) async fn copied(place: &Place, people: usize) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    let now = cx.now().as_millisecond();
    let mark = place.database.write(move |tx| {
        // Some time in the last 90 days, in another order than that in which they came: multiplied by a prime.
        let sql = "UPDATE lead_organizations
                   SET last_seen_at = $1 - (id * 2654435761) % 7776000000,
                       first_seen_at = $1 - (id * 2654435761) % 7776000000
                   WHERE last_seen_at IS NULL";
        tx.execute(sql, &[Param::Int(now)])
    });
    let marked: Result<u64, DatabaseError> = mark.await;
    marked?;
    let ids = partitions(place).await?;
    ensure!(ids.len() == people, "{} of {people} have a timeline", ids.len());
    let items = cx.items().await?;
    let mut example = None;
    for id in &ids {
        example = items.get(&tables::FEATURE, &Key::single(id)).await?;
        if example.is_some() {
            break;
        }
    }
    let example = example.context("nobody has features")?;
    for some in ids.chunks(MAX_TXN_WRITES) {
        let mut txn = Txn::new();
        let keys: Vec<Key> = some.iter().map(Key::single).collect();
        let found = items.batch_get(&tables::FEATURE, &keys).await?;
        for id in some.iter().zip(found).filter(|(_, found)| found.is_none()).map(|(id, _)| id) {
            let item = example.clone().with(tables::FEATURE.partition, id.as_str());
            txn = txn.put(&tables::FEATURE, item, Expect::Absent);
        }
        if !txn.writes.is_empty() {
            items.transact(txn).await?;
        }
    }
    Ok(())
}

/// So many events of each, over the last year and of several kinds, as they are once they are counted.
pub(super) async fn events(place: &Place, ids: &[String], each: usize) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    let items = cx.items().await?;
    let apart = SignedDuration::from_secs(365 * 86_400 / each as i64);
    let counted = event::time(cx.now());
    let mut txn = Txn::new();
    for id in ids {
        let mut at = cx.now() - SignedDuration::from_hours(24 * 366);
        for number in 0..each {
            at += apart;
            let item = happened(id, number, at).to_item().with("features_at", counted.as_str());
            txn = txn.put(&tables::EVENT, item, Expect::Absent);
            if txn.writes.len() == MAX_TXN_WRITES {
                items.transact(std::mem::take(&mut txn)).await?;
            }
        }
    }
    if !txn.writes.is_empty() {
        items.transact(txn).await?;
    }
    Ok(())
}

fn happened(id: &str, number: usize, at: Timestamp) -> StoredEvent {
    let (event_type, payload) = match number % 5 {
        0 => ("product_viewed", json!({"product": "tea"})),
        1 => ("email.opened", json!({"kind": "campaign"})),
        2 => ("purchase_completed", json!({"amount": "5.00", "currency": "EUR", "product": "tea"})),
        3 => ("email.clicked", json!({"kind": "campaign"})),
        _ => ("message_received", json!({"channel": "whatsapp", "sentiment": 0.5})),
    };
    let external = format!("{id}/{number}");
    StoredEvent {
        lead_organization_id: id.to_owned(),
        id: event::id_of("before", &external),
        event_type: event_type.to_owned(),
        occurred_at: at,
        received_at: at,
        source_type: "shop".to_owned(),
        source: "before".to_owned(),
        external_event_id: external,
        object_id: None,
        object_id_ref: None,
        payload: payload.as_object().cloned().unwrap_or_default(),
        raw_payload: None,
    }
}

/// Features and memory of these people know all their events.
pub(super) async fn derived(place: &Place, ids: &[String]) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    for id in ids {
        memory::rebuild(&cx, id).await?;
        let rebuilt = features::rebuild(&cx, id).await?;
        ensure!(rebuilt == features::Rebuilt::Done, "somebody else is at it: {rebuilt:?}");
    }
    Ok(())
}

/// The timelines of the first so many people.
pub(super) async fn first(place: &Place, people: usize) -> anyhow::Result<Vec<String>> {
    let (cx, mut ids) = (place.cx().await?, Vec::with_capacity(people));
    for number in 0..people {
        let owner = find(&cx, Whom::Email(address(number).parse()?)).await?;
        ids.push(owner.context("somebody has no timeline")?.lead_organization_id);
    }
    Ok(ids)
}

pub(super) async fn partitions(place: &Place) -> anyhow::Result<Vec<String>> {
    let read = place.database.read(|tx| {
        let rows = tx.query("SELECT id FROM lead_organizations ORDER BY id", &[])?;
        rows.iter().map(|row| Ok(row.int(0)?.to_string())).collect()
    });
    let ids: Result<Vec<String>, DatabaseError> = read.await;
    Ok(ids?)
}
