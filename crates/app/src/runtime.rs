//! What happens later, put together: which queues, timers and outboxes the configuration means, and who works.

use std::sync::Arc;

use tidings_access::{Access, audit};
use tidings_delivery::confirmation;
use tidings_delivery::links::Links;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{self, Messages};
use tidings_http_api::{Draining, Services};
use tidings_inbox::tokens::Tokens;
use tidings_inbox::{Inbox, publish};
use tidings_jobs::{Handler, Settings, Stop, Worker};
use tidings_kernel::{
    Clock, EmailAddress, Outbox, Queue, QueueEngine, ScheduleEngine, SystemClock, TimerEngine,
    queues,
};
use tidings_leads::ingestion;
use tidings_outreach::campaigns::{sending, steps};
use tidings_reminders as reminders;
use tidings_sequences::versions::Versions;
use tidings_sequences::{events, executions};
use tidings_signals::replies::Replies;
use tidings_signals::ses;
use tidings_signals::tracking::{self, Tracking};
use tidings_sql::{Database, SqlQueues};
use tidings_webhooks::{Poster, Targets};

use crate::config::{Config, Engine};
use crate::failure::Failure;
use crate::outlet::Outlet;
use crate::probe;
use crate::store::Store;

/// The machinery under the queues.
pub(crate) struct Runtime {
    pub(crate) queues: Arc<dyn QueueEngine>,
    /// Where timers wait: with the relations, and with the items where those are elsewhere.
    pub(crate) timers: Vec<Arc<dyn TimerEngine>>,
    /// What must be handed on to the queues. Empty where a commit reaches them by itself.
    pub(crate) outboxes: Vec<Arc<dyn Outbox>>,
    pub(crate) schedules: Arc<dyn ScheduleEngine>,
    pub(crate) database: Database,
    pub(crate) clock: Arc<dyn Clock>,
    poster: Poster,
    pub(crate) outlet: Outlet,
    pub(crate) tracking: Tracking,
    /// What this process keeps of templates.
    templates: Templates,
    /// And of sequences.
    versions: Versions,
    /// And of inboxes, with who looks at them.
    pub(crate) inbox: Arc<Inbox>,
    /// Names this process in what it claims.
    node: String,
    /// How long events and the send log are kept.
    keep_days: Option<u32>,
    /// How many recipients of a batch are handed over at once.
    campaign_at_once: usize,
    /// Tells those to stop who work on one message for long.
    pub(crate) stop: Option<Stop>,
    forward_replies_to: Option<EmailAddress>,
}

impl Runtime {
    pub(crate) async fn open(store: &Store, config: &Config) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let database = store.relations()?.clone();
        let sql = Arc::new(SqlQueues::new(database.clone(), Arc::clone(&clock)));
        let outlet = Outlet::open(&database, &clock, config).await?;
        let engine = Arc::clone(&store.engine);
        let access = Access::new(database.clone(), engine, Arc::clone(&clock));
        let links = Links::load(&database, &config.http.public_url, access.now()).await?;
        let mut runtime = Self {
            outlet,
            tracking: Tracking { access, links },
            templates: Templates::default(),
            versions: Versions::default(),
            inbox: Arc::new(Inbox::between_nodes(&database, config.http.max_streams)),
            node: format!("{}-{:08x}", std::process::id(), fastrand::u32(..)),
            keep_days: config.data_ttl_days,
            campaign_at_once: config.mail.campaign_at_once,
            stop: None,
            forward_replies_to: config.signals.forward_replies_to.clone(),
            queues: Arc::clone(&sql) as Arc<_>,
            timers: vec![Arc::clone(&sql) as Arc<_>],
            outboxes: Vec::new(),
            schedules: Arc::clone(&sql) as Arc<_>,
            poster: Poster::new(Targets::new(config.webhooks.allow_private)),
            database,
            clock,
        };
        if config.engine == Engine::Aws {
            runtime.outboxes.push(sql);
            runtime.move_to_aws(store, config).await?;
        }
        Ok(runtime)
    }

    pub(crate) fn access(&self) -> &Access {
        &self.tracking.access
    }

    /// What the API works with.
    pub(crate) fn services(&self, config: &Config, draining: Draining) -> Services {
        Services {
            access: self.access().clone(),
            messages: Messages::new(self.templates.clone()),
            links: self.tracking.links.clone(),
            replies: self.replies(),
            versions: self.versions.clone(),
            provider_suppressions: self.outlet.suppressions.clone(),
            targets: Targets::new(config.webhooks.allow_private),
            inbox: Arc::clone(&self.inbox),
            tokens: Tokens::new(self.tracking.links.signing_keys().clone()),
            draining,
        }
    }

    pub(crate) fn replies(&self) -> Replies {
        let replies = Replies::new(self.access().clone(), self.keep_days);
        let messages = Messages::new(self.templates.clone());
        replies.passing_on(messages, self.forward_replies_to.clone())
    }

    /// Who works on which queue. What nobody works on yet waits.
    pub(crate) fn handlers(&self) -> Vec<(&'static Queue, Arc<dyn Handler>)> {
        let mut handlers = tidings_webhooks::handlers(self.access(), self.poster.clone());
        handlers.push((&queues::TRANSACTIONAL_EMAIL, self.transactional().handler()));
        handlers.push((&queues::SEQUENCE_EMAIL, self.transactional().handler()));
        handlers.push((&queues::CONFIRMATION_MAIL, self.confirmations().handler()));
        let seen = tracking::handler(self.tracking.clone(), self.keep_days);
        handlers.push((&queues::EMAIL_EVENTS, seen));
        handlers.push((&queues::SES_WEBHOOKS, ses::worker(self.replies())));
        handlers.push((&queues::CAMPAIGN_STEPS, steps::handler(self.access().clone())));
        handlers.push((&queues::CAMPAIGN_EMAIL, self.campaigns().handler()));
        let sequences = self.sequences();
        handlers.push((&queues::SEQUENCE_EVENTS, events::Worker::new(sequences.clone()).handler()));
        handlers.push((&queues::SEQUENCE_STEPS, executions::Worker::new(sequences).handler()));
        let posts = publish::handler(self.access().clone(), Arc::clone(&self.inbox));
        handlers.push((&queues::INBOX_POSTS, posts));
        let messages = Messages::new(self.templates.clone());
        let tools = reminders::Tools { access: self.access().clone(), messages };
        handlers.push((&queues::REMINDER_STEPS, reminders::Worker::new(tools).handler()));
        handlers.push((&queues::AUDIT_ENTRIES, audit::handler(self.access().clone())));
        for queue in [&queues::LEAD_INGESTION, &queues::LEAD_INGESTION_BULK] {
            handlers.push((queue, ingestion::handler(self.access().clone())));
        }
        let memory = tidings_leads::memory::handler(self.access().clone());
        handlers.push((&queues::MEMORY_PROCESSING, memory));
        let features = tidings_leads::features::handler(self.access().clone());
        handlers.push((&queues::FEATURE_PROCESSING, features));
        let segments = tidings_outreach::segments::handler(self.access().clone());
        handlers.push((&queues::SEGMENT_PROCESSING, segments));
        handlers.push((&queues::PROBE, probe::handler(&self.database, &self.clock)));
        handlers
    }

    fn transactional(&self) -> transactional::Worker {
        transactional::Worker {
            access: self.tracking.access.clone(),
            templates: self.templates.clone(),
            links: self.tracking.links.clone(),
            sender: Arc::clone(&self.outlet.sender),
            pace: Arc::clone(&self.outlet.pace),
            settings: transactional::Settings { node: self.node.clone(), ttl_days: self.keep_days },
        }
    }

    fn confirmations(&self) -> confirmation::Worker {
        confirmation::Worker {
            access: self.access().clone(),
            messages: Messages::new(self.templates.clone()),
            links: self.tracking.links.clone(),
            pace: Arc::clone(&self.outlet.pace),
        }
    }

    pub(crate) fn sequences(&self) -> executions::Tools {
        executions::Tools {
            access: self.tracking.access.clone(),
            versions: self.versions.clone(),
            messages: Messages::new(self.templates.clone()),
            inbox: Arc::clone(&self.inbox),
        }
    }

    fn campaigns(&self) -> sending::Worker {
        let worker = sending::Worker::new(sending::Tools {
            access: self.tracking.access.clone(),
            templates: self.templates.clone(),
            links: self.tracking.links.clone(),
            sender: Arc::clone(&self.outlet.sender),
            pace: Arc::clone(&self.outlet.pace),
            settings: sending::Settings {
                node: self.node.clone(),
                ttl_days: self.keep_days,
                at_once: self.campaign_at_once,
            },
        });
        match &self.stop {
            Some(stop) => worker.until(stop.clone()),
            None => worker,
        }
    }

    pub(crate) fn handler(&self, queue: &'static Queue) -> Result<Arc<dyn Handler>, Failure> {
        let found = self.handlers().into_iter().find(|(one, _)| *one == queue);
        found.map(|(_, handler)| handler).ok_or_else(|| {
            Failure::usage(format!("this version has no worker for the queue {queue}"))
                .hint("what is sent there waits for a version that has one")
        })
    }

    pub(crate) fn workers(&self, config: &Config) -> Vec<Worker> {
        let worker = |(queue, handler): (&'static Queue, Arc<dyn Handler>)| {
            let limits = &config.workers;
            let concurrency = limits.concurrency.iter().find(|(name, _)| *name == queue.name);
            let concurrency = concurrency.map_or(1, |(_, count)| *count);
            Worker {
                queue,
                handler,
                engine: Arc::clone(&self.queues),
                clock: Arc::clone(&self.clock),
                settings: Settings {
                    concurrency,
                    batch: concurrency,
                    time_limit: limits.time_limit,
                    grace: limits.shutdown_grace,
                },
            }
        };
        self.handlers().into_iter().map(worker).collect()
    }
}

/// The workspaces that there are, from the relations.
#[cfg(feature = "aws")]
struct Workspaces(Database);

#[cfg(feature = "aws")]
#[async_trait::async_trait]
impl tidings_aws::Workspaces for Workspaces {
    async fn list(&self) -> Result<Vec<tidings_kernel::Workspace>, tidings_kernel::StoreError> {
        use tidings_kernel::StoreError;

        let sql = "SELECT name FROM workspaces ORDER BY id";
        let rows = self.0.read(move |tx| tx.query(sql, &[])).await;
        let rows = rows.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let names = rows.iter().map(|row| {
            let name = row.text(0).map_err(|error| StoreError::Corrupt(Box::new(error)))?;
            name.parse().map_err(|error| StoreError::Corrupt(Box::new(error)))
        });
        names.collect()
    }
}

#[cfg(feature = "aws")]
impl Runtime {
    async fn move_to_aws(&mut self, store: &Store, config: &Config) -> Result<(), Failure> {
        let settings = tidings_aws::Settings {
            endpoint: config.aws.queue_endpoint_url.clone(),
            prefix: config.aws.queue_prefix.clone(),
            missing: tidings_aws::Missing::Create,
        };
        self.queues = Arc::new(tidings_aws::Sqs::connect(settings).await);
        let Some(items) = &store.dynamodb else {
            return Err(Failure::failed("the items are not on DynamoDB"));
        };
        let workspaces = Arc::new(Workspaces(self.database.clone()));
        let items = Arc::clone(items);
        self.timers.push(Arc::new(tidings_aws::DynamoTimers::new(
            Arc::clone(&items),
            Arc::clone(&workspaces) as Arc<_>,
        )));
        self.outboxes.push(Arc::new(tidings_aws::DynamoOutbox::new(items, workspaces)));
        Ok(())
    }
}

#[cfg(not(feature = "aws"))]
impl Runtime {
    #[expect(clippy::unused_async, reason = "with the feature it is async")]
    async fn move_to_aws(&mut self, _: &Store, _: &Config) -> Result<(), Failure> {
        Err(crate::store::without_aws())
    }
}
