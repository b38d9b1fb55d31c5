//! The units that the benchmark writes, and the check that all of them are there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use tidings_kernel::{Expect, Item, ItemEngine, ItemStore, Key, Query, Txn, Update, tables};

const CONTACTS: u64 = 100_000;
const TEMPLATES: u64 = 20;

/// What one unit writes.
pub(super) struct Unit {
    pub(super) dedupe: Item,
    pub(super) event: Item,
    pub(super) counters: [Key; 2],
}

impl Unit {
    /// Contacts and dedupe ids come in no order, as in life; time goes on.
    pub(super) fn number(n: u64) -> Self {
        let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let contact = (scattered >> 20) % CONTACTS;
        let template = scattered % TEMPLATES;
        let pk = format!("SUB#contact{contact}@example.com");
        let millis = 1_773_741_000_000 + n as i64;
        let time = jiff::Timestamp::from_millisecond(millis).expect("it lies in 2026");
        let time = format!("{time:.3}");
        let (template, sequence) =
            (format!("onboarding/mail-{template}"), format!("onboarding-{template}"));
        let dedupe = Item::new()
            .with("PK", format!("DEDUPE#{scattered:016x}-{n:08x}"))
            .with("SK", "DEDUPE")
            .with("ttl", 1_900_000_000 + n as i64 / 1000);
        let event = Item::new()
            .with("PK", pk)
            .with("SK", format!("EVT#{time}#delivery"))
            .with("eventType", "delivery")
            .with("templateKey", template.as_str())
            .with("sequenceId", sequence.as_str())
            .with("subject", "Welcome to the product!")
            .with("timestamp", time);
        let counter = |id: &str| Key::new(format!("STATS#{id}"), "COUNTERS");
        Self { dedupe, event, counters: [counter(&sequence), counter(&template)] }
    }

    fn txn(self) -> Txn {
        let [sequence, template] = self.counters;
        Txn::new()
            .put(&tables::MAIN, self.dedupe, Expect::Absent)
            .put(&tables::EVENTS, self.event, Expect::Anything)
            .update(Update::new(&tables::MAIN, sequence).add("deliveryCount", 1))
            .update(Update::new(&tables::MAIN, template).add("deliveryCount", 1))
    }
}

#[derive(Clone)]
pub(super) struct Workload {
    store: Arc<dyn ItemStore>,
    next: Arc<AtomicU64>,
}

impl Workload {
    pub(super) async fn open(engine: &dyn ItemEngine) -> anyhow::Result<Self> {
        let store = engine.open(&"bench".parse()?).await?;
        Ok(Self { store, next: Arc::default() })
    }

    /// Writes the next unit, durably.
    pub(super) async fn write_one(&self) -> anyhow::Result<()> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.store.transact(Unit::number(n).txn()).await?)
    }

    pub(super) fn items(&self) -> u64 {
        self.next.load(Ordering::Relaxed) * 2
    }

    /// The counters must tell exactly how many units were written, and the index must agree.
    pub(super) async fn verify(&self) -> anyhow::Result<()> {
        let units = self.items() / 2;
        let mut counted = 0;
        for template in 0..TEMPLATES {
            let key = Key::new(format!("STATS#onboarding/mail-{template}"), "COUNTERS");
            let item = self.store.get(&tables::MAIN, &key).await?;
            counted += item.and_then(|item| item.integer("deliveryCount")).unwrap_or(0) as u64;
        }
        ensure!(counted == units, "the counters say {counted}, and {units} units were written");
        let first = Query::new(&tables::EVENTS, "onboarding/mail-0").index("TemplateIndex");
        let indexed = self.store.count(first).await?;
        let key = Key::new("STATS#onboarding/mail-0", "COUNTERS");
        let item = self.store.get(&tables::MAIN, &key).await?;
        let counter = item.and_then(|item| item.integer("deliveryCount")).unwrap_or(0) as u64;
        ensure!(indexed == counter, "the index holds {indexed}, and the counter says {counter}");
        Ok(())
    }
}
