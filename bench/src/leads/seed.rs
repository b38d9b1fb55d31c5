//! What is there before anything is measured, written past the product where the product would take too long.

use std::fmt::Write as _;
use std::io::Cursor;

use anyhow::{Context, ensure};
use jiff::SignedDuration;
use serde_json::json;
use tidings_kernel::{Expect, Key, MAX_TXN_WRITES, Txn, tables};
use tidings_leads::event::{self, StoredEvent};
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

/// Everybody was active and has features: those of somebody who really has some.
pub(super) async fn features(place: &Place, people: usize) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    let now = cx.now().as_millisecond();
    let mark = place.database.write(move |tx| {
        let sql = "UPDATE lead_organizations SET last_seen_at = $1 - id % 86400000,
                       first_seen_at = $1 - id % 86400000 WHERE last_seen_at IS NULL";
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

/// So many events of each, over the last year. Their features do not know them: what is asked is what it costs that they are
/// there.
pub(super) async fn events(place: &Place, people: usize, each: usize) -> anyhow::Result<()> {
    let cx = place.cx().await?;
    let ids = partitions(place).await?;
    ensure!(ids.len() == people, "{} of {people} have a timeline", ids.len());
    let items = cx.items().await?;
    let apart = SignedDuration::from_secs(365 * 86_400 / each as i64);
    for id in &ids {
        let mut at = cx.now() - SignedDuration::from_hours(24 * 366);
        for begin in (0..each).step_by(MAX_TXN_WRITES) {
            let mut txn = Txn::new();
            for number in begin..each.min(begin + MAX_TXN_WRITES) {
                at += apart;
                let external = format!("{id}/{number}");
                let stored = StoredEvent {
                    lead_organization_id: id.clone(),
                    id: event::id_of("before", &external),
                    event_type: "product_viewed".to_owned(),
                    occurred_at: at,
                    received_at: at,
                    source_type: "shop".to_owned(),
                    source: "before".to_owned(),
                    external_event_id: external,
                    object_id: None,
                    object_id_ref: None,
                    payload: json!({"product": "tea"}).as_object().cloned().unwrap_or_default(),
                    raw_payload: None,
                };
                txn = txn.put(&tables::EVENT, stored.to_item(), Expect::Absent);
            }
            items.transact(txn).await?;
        }
    }
    Ok(())
}

async fn partitions(place: &Place) -> anyhow::Result<Vec<String>> {
    let read = place.database.read(|tx| {
        let rows = tx.query("SELECT id FROM lead_organizations ORDER BY id", &[])?;
        rows.iter().map(|row| Ok(row.int(0)?.to_string())).collect()
    });
    let ids: Result<Vec<String>, DatabaseError> = read.await;
    Ok(ids?)
}
