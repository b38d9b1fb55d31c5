//! A shop that sends mail: its items on a throw-away DynamoDB, relations and queues in memory beside it, and a clock that is set
//! by hand. What a transaction of items enqueues comes out of its outbox.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Span;
use tidings_access::{Access, Actor, ClientId, Cx, DisplayName, Slug, clients, workspaces};
use tidings_aws::{DynamoDb, DynamoOutbox, DynamoTimers, Workspaces};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::senders::{self, NewSender};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional;
use tidings_jobs::{Handler, Settings, Worker};
use tidings_kernel::{
    Accepted, Clock, Mail, Outbox as _, Queue, SendError, Sender, TimerEngine as _, Workspace,
};
use tidings_sql::{Database, SqlQueues};
use tidings_testbed::dying_engine;
use tidings_testkit::FakeClock;

use crate::server::{Server, connect};

/// Takes every mail, and keeps it.
#[derive(Default)]
pub(crate) struct Provider(pub(crate) Mutex<Vec<Mail>>);

#[async_trait]
impl Sender for Provider {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        self.0.lock().unwrap().push(mail.clone());
        Ok(Accepted::by_all(Some("p-1".to_owned())))
    }
}

/// The workspace `acme` with a client `shop`, at 2026-07-01T12:00:00Z.
pub(crate) struct Shop {
    pub(crate) access: Access,
    pub(crate) client: ClientId,
    pub(crate) provider: Arc<Provider>,
    engine: Arc<DynamoDb>,
    clock: Arc<FakeClock>,
    queues: Arc<SqlQueues>,
    outbox: DynamoOutbox,
    timers: DynamoTimers,
    server: Server,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        let server = Server::start();
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        server.set_now(clock.now().as_second());
        let engine: Arc<DynamoDb> =
            Arc::new(connect(server.endpoint(), Arc::clone(&clock) as Arc<_>));
        let database = Database::memory().await.unwrap();
        let queues = Arc::new(SqlQueues::new(database.clone(), Arc::clone(&clock) as Arc<_>));
        let access =
            Access::new(database, Arc::clone(&engine) as Arc<_>, Arc::clone(&clock) as Arc<_>);
        let made = workspaces::create(&access, "acme".parse().unwrap()).await.unwrap();
        let client = client(&access.inside(&made, Actor::Operator)).await;
        let all =
            || -> Arc<dyn Workspaces> { Arc::new(vec!["acme".parse::<Workspace>().unwrap()]) };
        let outbox = DynamoOutbox::new(Arc::clone(&engine), all());
        let timers = DynamoTimers::new(Arc::clone(&engine), all());
        let provider = Arc::default();
        Self { access, client, provider, engine, clock, queues, outbox, timers, server }
    }

    /// For whoever dies at this call of the items: before it, or after.
    pub(crate) fn dying(&self, place: isize, after: bool) -> Access {
        let engine = dying_engine(Arc::clone(&self.engine) as Arc<_>, place, after);
        Access::new(self.access.database().clone(), engine, Arc::clone(&self.clock) as Arc<_>)
    }

    pub(crate) async fn cx(&self) -> Cx {
        Self::inside(&self.access).await
    }

    pub(crate) async fn inside(access: &Access) -> Cx {
        let found = workspaces::find(access, "acme".parse().unwrap()).await.unwrap();
        access.inside(&found, Actor::Operator)
    }

    /// Takes what was promised to its queues. Tells how much that was.
    pub(crate) async fn relay(&self) -> usize {
        self.outbox.relay(self.queues.as_ref(), 100).await.unwrap()
    }

    /// Works on a queue until nothing in it is due. Tells how many deliveries that were.
    pub(crate) async fn work(&self, queue: &'static Queue, handler: Arc<dyn Handler>) -> usize {
        let worker = Worker {
            queue,
            handler,
            engine: Arc::clone(&self.queues) as Arc<_>,
            clock: Arc::clone(&self.clock) as Arc<_>,
            settings: Settings::default(),
        };
        worker.run_until_idle().await.unwrap()
    }

    /// What sends the mails of a queue.
    pub(crate) async fn mailing(&self, templates: Templates) -> Arc<dyn Handler> {
        self.mailing_as(&self.access, templates).await
    }

    pub(crate) async fn mailing_as(
        &self,
        access: &Access,
        templates: Templates,
    ) -> Arc<dyn Handler> {
        let now = self.access.now();
        let links = Links::load(self.access.database(), "https://mail.example.org", now).await;
        let worker = transactional::Worker {
            access: access.clone(),
            templates,
            links: links.unwrap(),
            sender: Arc::clone(&self.provider) as Arc<dyn Sender>,
            pace: Arc::new(Pace::new(1_000_000, now)),
            settings: transactional::Settings { node: "test".to_owned(), ttl_days: None },
        };
        worker.handler()
    }

    pub(crate) fn advance(&self, span: Span) {
        self.clock.advance(span);
        self.server.set_now(self.clock.now().as_second());
    }

    /// Fires what is due of the relations, whose timers are beside them.
    pub(crate) async fn fire_relations(&self) {
        while self.queues.fire(100).await.unwrap().count > 0 {}
    }

    /// Fires all that is due. Tells how many that were.
    pub(crate) async fn fire(&self) -> usize {
        let mut fired = 0;
        loop {
            match self.timers.fire(100).await.unwrap().count {
                0 => return fired,
                some => fired += some,
            }
        }
    }
}

async fn client(cx: &Cx) -> ClientId {
    let slug: Slug = "shop".parse().unwrap();
    let create = clients::Create { name: DisplayName::from(&slug), slug: slug.clone() };
    let client = clients::create(cx, create).await.unwrap().id;
    let sender = NewSender {
        slug,
        from_email: "hello@shop.example".parse().unwrap(),
        from_name: None,
        reply_to: None,
        is_default: true,
    };
    senders::add(cx, senders::Add { client, sender }).await.unwrap();
    client
}
