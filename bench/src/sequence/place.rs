//! A workspace with two sequences, and a clock that can be moved on.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_jobs::{Settings, Stop, Worker};
use tidings_kernel::{Clock, QueueEngine as _, SystemClock, TimerEngine as _, queues};
use tidings_outreach::audience::Condition;
use tidings_people::import;
use tidings_sequences::definition::read;
use tidings_sequences::executions::{self, Tools};
use tidings_sequences::versions::{self, Versions};
use tidings_sql::{Database, SqlItems, SqlQueues, SqliteOptions};

const LONG: &str =
    "id: long\nclient: shop\nsteps: [ { wait: 300 days }, { tag: { add: [done] } } ]";
const SHORT: &str =
    "id: short\nclient: shop\nsteps: [ { wait: 1 hour }, { tag: { add: [done] } } ]";
/// So many steps are taken at once, as in the product.
const AT_ONCE: usize = 32;
/// How often it is looked whether everything is done, at most and at least.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The machine's clock, some seconds ahead.
#[derive(Default)]
struct Ahead(AtomicI64);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.0.load(Ordering::Relaxed));
        SystemClock.now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
    }
}

pub(super) struct Place {
    database: Database,
    clock: Arc<Ahead>,
    access: Access,
    queues: Arc<SqlQueues>,
    tools: Tools,
}

impl Place {
    pub(super) async fn open(path: &Path) -> anyhow::Result<Self> {
        let database = Database::sqlite(path, SqliteOptions::default()).await?;
        let clock: Arc<Ahead> = Arc::default();
        let items = Arc::new(SqlItems::new(database.clone(), clock.clone()));
        let queues = Arc::new(SqlQueues::new(database.clone(), clock.clone()));
        let access = Access::new(database.clone(), items, clock.clone());
        let tools = Tools {
            access: access.clone(),
            versions: Versions::default(),
            messages: Messages::new(Templates::default()),
            inbox: Arc::default(),
        };
        let place = Self { database, clock, access, queues, tools };
        for text in [LONG, SHORT] {
            let definition = read(text).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
            versions::put(&place.cx().await?, definition).await?;
        }
        Ok(place)
    }

    async fn cx(&self) -> anyhow::Result<Cx> {
        let workspace = workspaces::find(&self.access, "default".parse()?).await?;
        Ok(self.access.inside(&workspace, Actor::Operator))
    }

    /// So many people with a tag.
    pub(super) async fn import(&self, tag: &str, people: usize) -> anyhow::Result<()> {
        let mut file = String::from("email,tags\n");
        for number in 0..people {
            writeln!(file, "{tag}{number}@example.org,{tag}")?;
        }
        let settings = import::Settings { source: "bench".to_owned(), ..Default::default() };
        let cx = self.cx().await?;
        let counts = import::run(&cx, Cursor::new(file.into_bytes()), settings, |_| ()).await?;
        ensure!(counts.new == people as u64, "not everybody is new: {counts:?}");
        Ok(())
    }

    /// Lets everybody with a tag in, and takes them to where they wait.
    pub(super) async fn let_in(&self, sequence: &str, tag: &str) -> anyhow::Result<()> {
        let condition = Condition::parse(&json!({ "tag": tag }), "condition");
        let condition = condition.map_err(|wrong| anyhow::anyhow!("{wrong:?}"))?;
        let what = (condition, json!({}));
        executions::begin_enrolment(&self.cx().await?, &self.tools.versions, sequence, what)
            .await?;
        self.work().await
    }

    pub(super) async fn two_hours_later(&self) -> anyhow::Result<()> {
        self.clock.0.fetch_add(2 * 60 * 60, Ordering::Relaxed);
        while self.queues.fire(1_000).await?.count > 0 {}
        self.work().await
    }

    /// Until the queue is empty.
    async fn work(&self) -> anyhow::Result<()> {
        let worker = Worker {
            queue: &queues::SEQUENCE_STEPS,
            handler: executions::Worker::new(self.tools.clone()).handler(),
            engine: Arc::clone(&self.queues) as Arc<_>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            settings: Settings { concurrency: AT_ONCE, batch: AT_ONCE, ..Settings::default() },
        };
        let (stop, stopped) = Stop::new();
        let working = tokio::spawn(worker.run(stopped));
        let began = Instant::now();
        loop {
            // Counting what is left costs too: the longer it takes, the less often it is done.
            tokio::time::sleep((began.elapsed() / 50).clamp(LOOKS.0, LOOKS.1)).await;
            let depth = self.queues.depth(&queues::SEQUENCE_STEPS).await?;
            ensure!(depth.dead == 0, "{} steps could not be taken", depth.dead);
            if depth.ready + depth.hidden == 0 {
                break;
            }
        }
        stop.send_replace(true);
        Ok(working.await?)
    }

    pub(super) async fn active(&self, sequence: &str) -> anyhow::Result<u64> {
        Ok(executions::active(&self.cx().await?, sequence).await?)
    }

    pub(super) async fn close(self) {
        self.database.close().await;
    }
}
