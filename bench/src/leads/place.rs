//! A workspace with the workers of leads.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_access::{Access, Actor, Bootstrap, BootstrapError, Cx, bootstrap, workspaces};
use tidings_jobs::contracts::{
    Channel, Contract as _, Identity, LeadEvent, LeadIngestion, LeadUpkeep, UpkeepTask,
};
use tidings_jobs::{Handler, Outcome, Settings, Stop, Worker};
use tidings_kernel::{Clock, Delivery, Outgoing, Queue, QueueEngine as _, SystemClock, queues};
use tidings_leads::{features, ingestion, memory};
use tidings_outreach::segments;
use tidings_sql::{Database, SqlItems, SqlQueues, SqliteOptions};

/// How often it is looked whether everything is done, at most and at least.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// How many messages of each are worked on at once: what `config.default.toml` says.
const QUEUES: [(&Queue, usize); 4] = [
    (&queues::LEAD_INGESTION, 8),
    (&queues::MEMORY_PROCESSING, 8),
    (&queues::FEATURE_PROCESSING, 8),
    (&queues::SEGMENT_PROCESSING, 4),
];

pub(super) struct Place {
    pub(super) database: Database,
    access: Access,
    items: Arc<SqlItems>,
    queues: Arc<SqlQueues>,
    told: Mutex<usize>,
}

/// The time some days ahead of now.
#[derive(Debug)]
struct Ahead {
    days: i64,
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now() + SignedDuration::from_hours(24 * self.days)
    }
}

/// Notes when the features of an event are written.
struct Timed {
    features: Arc<dyn Handler>,
    done: Arc<Mutex<HashMap<String, Instant>>>,
}

#[async_trait]
impl Handler for Timed {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let outcome = self.features.handle(delivery).await;
        if let Ok(event) = LeadEvent::parse(&delivery.body) {
            let mut done = self.done.lock().expect("nobody panics with it");
            done.insert(event.event_id, Instant::now());
        }
        outcome
    }
}

impl Place {
    pub(super) async fn open(path: &Path) -> anyhow::Result<Self> {
        let database = Database::sqlite(path, SqliteOptions::default()).await?;
        let clock = Arc::new(SystemClock);
        let items = Arc::new(SqlItems::new(database.clone(), clock.clone()));
        let queues = Arc::new(SqlQueues::new(database.clone(), clock.clone()));
        let access = Access::new(database.clone(), items.clone(), clock);
        let first = Bootstrap { workspace: "default".parse()?, client: "shop".parse()? };
        match bootstrap(&access, first).await {
            // It is there from before it was closed.
            Ok(_) | Err(BootstrapError::Done(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { database, access, items, queues, told: Mutex::new(0) })
    }

    pub(super) async fn cx(&self) -> anyhow::Result<Cx> {
        let workspace = workspaces::find(&self.access, "default".parse()?).await?;
        Ok(self.access.inside(&workspace, Actor::Operator))
    }

    /// An event of somebody among so many people.
    async fn next_event(&self, cx: &Cx, people: usize) -> LeadIngestion {
        let number = {
            let mut told = self.told.lock().expect("nobody panics with it");
            *told += 1;
            *told
        };
        let somebody = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let somebody = somebody as usize % people;
        let (event_type, payload) = match number % 3 {
            0 => (
                "purchase_completed",
                json!({"amount": "19.90", "currency": "EUR", "product": "tea"}),
            ),
            1 => ("product_viewed", json!({"product": "tea"})),
            _ => ("email.clicked", json!({"kind": "campaign"})),
        };
        LeadIngestion {
            workspace: cx.workspace().clone(),
            source_type: "shop".to_owned(),
            source: "bench".to_owned(),
            event_type: event_type.to_owned(),
            external_event_id: number.to_string(),
            occurred_at: SystemClock.now(),
            received_at: SystemClock.now(),
            identities: vec![Identity { channel: Channel::Email, value: address(somebody) }],
            object_id: None,
            object_id_ref: None,
            payload: payload.as_object().cloned(),
            raw_payload: None,
            metadata: None,
        }
    }

    /// So many events, from being accepted to the features of the last of them: how many a second.
    pub(super) async fn tell(&self, people: usize, events: usize) -> anyhow::Result<f64> {
        let cx = self.cx().await?;
        let mut batches = Vec::new();
        for begin in (0..events).step_by(ingestion::MAX_EVENTS) {
            let mut batch = Vec::new();
            for _ in begin..events.min(begin + ingestion::MAX_EVENTS) {
                batch.push(self.next_event(&cx, people).await);
            }
            batches.push(batch);
        }
        let working = self.work(&self.access);
        let began = Instant::now();
        for batch in batches {
            ingestion::accept(&cx, batch).await?;
        }
        self.until_done().await?;
        let elapsed = began.elapsed();
        working.end().await?;
        Ok(events as f64 / elapsed.as_secs_f64())
    }

    /// How long one event takes to be a feature while little happens: the median, and the slowest but for one in a hundred.
    pub(super) async fn tell_one_by_one(
        &self,
        people: usize,
        events: usize,
        apart: Duration,
    ) -> anyhow::Result<(Duration, Duration)> {
        let cx = self.cx().await?;
        let working = self.work(&self.access);
        let mut began = Vec::with_capacity(events);
        for _ in 0..events {
            let event = self.next_event(&cx, people).await;
            let now = Instant::now();
            let accepted = ingestion::accept(&cx, vec![event]).await?;
            let accepted = accepted.into_iter().next().context("it was not accepted")?;
            began.push((accepted.event_id, now));
            tokio::time::sleep(apart).await;
        }
        self.until_done().await?;
        let done = working.end().await?;
        let mut times = Vec::with_capacity(events);
        for (event, began) in began {
            times.push(done.get(&event).context("it has no features")?.duration_since(began));
        }
        times.sort();
        Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
    }

    /// The work of the next days for everybody: how long one takes. It is done as of then, so that the numbers of everybody
    /// change and are written; the day on which they were computed changes nothing.
    pub(super) async fn days(&self, days: i64) -> anyhow::Result<Duration> {
        let mut all = Duration::ZERO;
        for ahead in 1..=days {
            all += self.day(ahead).await?;
        }
        Ok(all / u32::try_from(days)?)
    }

    async fn day(&self, ahead: i64) -> anyhow::Result<Duration> {
        let clock = Arc::new(Ahead { days: ahead });
        let message =
            LeadUpkeep { task: UpkeepTask::Daily, at: clock.now(), workspace: None, after: None };
        let working = self.work(&Access::new(self.database.clone(), self.items.clone(), clock));
        let began = Instant::now();
        let message = Outgoing::new(&queues::FEATURE_PROCESSING, message.to_body()?);
        self.queues.send(vec![message]).await?;
        self.until_done().await?;
        let elapsed = began.elapsed();
        working.end().await?;
        Ok(elapsed)
    }

    /// Does what is in the queues.
    pub(super) async fn settle(&self) -> anyhow::Result<()> {
        let working = self.work(&self.access);
        self.until_done().await?;
        working.end().await.map(drop)
    }

    /// Until the queues are empty.
    async fn until_done(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut empty = 0;
        // What one queue gives up may not be in the next one yet.
        while empty < 2 {
            // Counting what is left costs too: the longer it takes, the less often it is done.
            tokio::time::sleep((began.elapsed() / 50).clamp(LOOKS.0, LOOKS.1)).await;
            let mut left = 0;
            for (queue, _) in QUEUES {
                let depth = self.queues.depth(queue).await?;
                ensure!(depth.dead == 0, "{} messages of {queue} were given up", depth.dead);
                left += depth.ready + depth.hidden;
            }
            empty = if left == 0 { empty + 1 } else { 0 };
        }
        Ok(())
    }

    fn work(&self, access: &Access) -> Working {
        let done: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
        let features = features::handler(access.clone());
        let timed = Arc::new(Timed { features, done: Arc::clone(&done) });
        let handlers: [Arc<dyn Handler>; 4] = [
            ingestion::handler(access.clone()),
            memory::handler(access.clone()),
            timed,
            segments::handler(access.clone()),
        ];
        let (stop, stopped) = Stop::new();
        let workers = QUEUES.into_iter().zip(handlers).map(|((queue, at_once), handler)| {
            let worker = Worker {
                queue,
                handler,
                engine: Arc::clone(&self.queues) as Arc<_>,
                clock: Arc::new(SystemClock),
                settings: Settings { concurrency: at_once, batch: at_once, ..Settings::default() },
            };
            tokio::spawn(worker.run(stopped.clone()))
        });
        Working { workers: workers.collect(), stop, done }
    }

    /// The same as a process finds it that starts: what was written is in the file, and in no log beside it.
    pub(super) async fn reopened(self, path: &Path) -> anyhow::Result<Self> {
        self.close().await;
        Self::open(path).await
    }

    pub(super) async fn close(self) {
        self.database.close().await;
    }
}

struct Working {
    workers: Vec<tokio::task::JoinHandle<()>>,
    stop: tokio::sync::watch::Sender<bool>,
    done: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Working {
    /// Ends the workers, and tells when each event had its features.
    async fn end(self) -> anyhow::Result<HashMap<String, Instant>> {
        self.stop.send_replace(true);
        for worker in self.workers {
            worker.await?;
        }
        Ok(std::mem::take(&mut *self.done.lock().expect("nobody panics with it")))
    }
}

pub(super) fn address(number: usize) -> String {
    format!("person{number}@example.org")
}
