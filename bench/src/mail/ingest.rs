//! What the provider tells: taken in over HTTP, signature and all, and then recorded by the worker; beside the same item
//! transactions, made directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use jiff::Timestamp;
use tidings_delivery::ledger::Source;
use tidings_jobs::Settings;
use tidings_kernel::{Expect, ItemStore, Key, Txn, Update, queues, tables};
use tidings_signals::events::keys;
use tidings_signals::replies::Replies;
use tidings_signals::ses;
use tokio::task::JoinSet;

use super::accept::CONNECTIONS;
use super::handoff::Handed;
use super::load::{self, Asked, Figures, request};
use super::place::Place;
use super::signer::Signer;
use crate::queue::crew::Crew;

/// As in the default configuration.
const AT_ONCE: usize = 32;

pub(super) struct Rates {
    pub(super) accepted: Figures,
    /// By the worker, a second.
    pub(super) recorded: f64,
    pub(super) raw: Figures,
}

pub(super) async fn measure(
    place: &Place,
    signer: &Signer,
    handed: Vec<Handed>,
) -> anyhow::Result<Rates> {
    let bodies = signer.deliveries(handed.clone()).await?;
    let count = bodies.len();
    let headers = "content-type: text/plain; charset=UTF-8\r\n";
    let request = Box::new(move |n: usize| request("POST /webhooks/ses", headers, &bodies[n]));
    let asked = Asked { at: place.at, request, expected: 204 };
    let accepted = load::run(asked, CONNECTIONS, (Duration::MAX, count)).await?;

    let began = Instant::now();
    let handler = ses::worker(Replies::new(place.access.clone(), None));
    let settings = Settings { concurrency: AT_ONCE, batch: AT_ONCE, ..Settings::default() };
    let crew = Crew::start(&place.queues, &queues::SES_WEBHOOKS, &handler, (1, settings));
    crew.until_done(count).await?;
    let recorded = count as f64 / began.elapsed().as_secs_f64();
    crew.stop().await;

    let items = place.cx.items().await?;
    let counter = keys::template("order");
    verify(&*items, &counter, count).await?;
    let raw = write_raw(&items, handed).await?;
    verify(&*items, &counter, 2 * count).await?;
    Ok(Rates { accepted, recorded, raw })
}

/// Everything is counted, once.
async fn verify(items: &dyn ItemStore, counter: &Key, expected: usize) -> anyhow::Result<()> {
    let item = items.get(&tables::MAIN, counter).await?;
    let counted = item.and_then(|item| item.integer("deliveryCount")).unwrap_or(0);
    ensure!(counted == expected as i64, "{counted} deliveries are counted, and {expected} came");
    Ok(())
}

/// The items of an event for each message, as `signals::events` writes them, from 64 callers.
async fn write_raw(items: &Arc<dyn ItemStore>, handed: Vec<Handed>) -> anyhow::Result<Figures> {
    let (handed, next) = (Arc::new(handed), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    let (began, now) = (Instant::now(), Timestamp::now());
    for _ in 0..CONNECTIONS {
        let (items, handed, next) = (Arc::clone(items), Arc::clone(&handed), Arc::clone(&next));
        callers.spawn(async move {
            let mut taken = Vec::new();
            while let Some(one) = handed.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                items.transact(transaction(one, now)?).await?;
                taken.push(begun.elapsed());
            }
            anyhow::Ok(taken)
        });
    }
    let mut taken = Vec::new();
    while let Some(done) = callers.join_next().await {
        taken.extend(done??);
    }
    Ok(Figures::of(taken, began.elapsed()))
}

fn transaction(handed: &Handed, now: Timestamp) -> anyhow::Result<Txn> {
    let reference = handed.tags.iter().find(|(name, _)| *name == "message");
    let reference = reference.map(|(_, value)| value.as_str()).context("it has no tag")?;
    let source = Source::from_reference(reference).context("the tag is not ours")?;
    let (id, time) = (format!("raw:{}", handed.provider_id), format!("{now:.3}"));
    let mut mark = tables::EVENTS.bare_item(&keys::seen(&id));
    mark.set("seenAt", time.as_str());
    let key = keys::event(&handed.to.parse()?, now, "delivery", "raw");
    let mut event = tables::EVENTS.bare_item(&key);
    for (name, value) in [
        ("eventType", "delivery"),
        ("eventId", &id),
        ("timestamp", &time),
        ("templateKey", "order"),
        ("subject", "Your order A-1000"),
        ("messageRef", reference),
        ("sesMessageId", &handed.provider_id),
    ] {
        event.set(name, value);
    }
    let count = |update: Update| update.add("deliveryCount", 1).set("updatedAt", time.as_str());
    let number: usize = handed.provider_id.trim_start_matches("bench-").parse()?;
    let shard = (number % usize::from(keys::SHARDS)) as u8;
    let day = keys::day(now.to_zoned(jiff::tz::TimeZone::UTC).date(), shard);
    let template = Update::new(&tables::MAIN, keys::template("order")).set("templateKey", "order");
    Ok(Txn::new()
        .put(&tables::EVENTS, mark, Expect::Absent)
        .put(&tables::EVENTS, event, Expect::Absent)
        .update(count(Update::new(&tables::EVENTS, keys::message(source))))
        .update(count(Update::new(&tables::MAIN, day)))
        .update(count(template)))
}
