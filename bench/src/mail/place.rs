//! The product, put together as the app does it, behind a listener of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use tidings_access::keys::{Granter, Rate};
use tidings_access::{Access, Actor, Cx, DisplayName, Scopes, Slug, clients, keys, workspaces};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::senders::{self, NewSender};
use tidings_delivery::templates::{self, Content, Put, Templates, Then};
use tidings_delivery::transactional::{self, Messages};
use tidings_http_api::{Api, Draining, Limits, Services, around, provider, router, v1};
use tidings_inbox::Inbox;
use tidings_inbox::tokens::Tokens;
use tidings_jobs::Handler;
use tidings_kernel::{Clock, Sender, SystemClock};
use tidings_sequences::versions::Versions;
use tidings_signals::replies::Replies;
use tidings_signals::sns::{Settings, Sns};
use tidings_sql::{Database, DatabaseError, Dialect, SqlItems, SqlQueues, Streams};
use tidings_webhooks::Targets;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A workspace with a client that may ask as often as it likes.
pub(crate) struct Place {
    pub(crate) access: Access,
    pub(crate) cx: Cx,
    pub(crate) queues: SqlQueues,
    pub(crate) at: SocketAddr,
    /// For the header.
    pub(crate) api_key: String,
    pub(crate) tokens: Tokens,
    templates: Templates,
    /// Gone with the value.
    _server: JoinSet<()>,
}

impl Place {
    pub(crate) async fn open(
        database: &Database,
        metrics: &PrometheusHandle,
        sns: Settings,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let streams = Streams::Expiries;
        let items = SqlItems::with_streams(database.clone(), Arc::clone(&clock), streams);
        let items = Arc::new(items);
        let queues = SqlQueues::new(database.clone(), Arc::clone(&clock));
        let access = Access::new(database.clone(), Arc::clone(&items) as Arc<_>, clock);
        let workspace = workspaces::create(&access, "bench".parse()?).await?;
        let cx = access.inside(&workspace, Actor::Operator);
        let api_key = furnish(&cx).await?;

        let templates = Templates::default();
        let limits = Limits::uniform(1 << 20, Duration::from_secs(30));
        let links = Links::load(database, "https://mail.example.org", access.now()).await?;
        let tokens = Tokens::new(links.signing_keys().clone());
        let services = Services {
            access: access.clone(),
            messages: Messages::new(templates.clone()),
            tokens: tokens.clone(),
            links,
            replies: Replies::new(access.clone(), None),
            versions: Versions::default(),
            targets: Targets::new(false),
            provider_suppressions: None,
            inbox: Arc::new(Inbox::new()),
            draining: Draining::default(),
        };
        let api =
            Api { engine: items, metrics: metrics.clone(), draining: Draining::default(), limits };
        // Reads what it is sent, as every handler does, and does nothing with it.
        let noop = post(|_: Bytes| async { StatusCode::ACCEPTED });
        let routes = router(api)
            .merge(around(Router::new().route("/noop", noop), limits))
            .merge(provider(access.clone(), Sns::new(sns), limits))
            .merge(v1(services, limits));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let mut server = JoinSet::new();
        server.spawn(serve(listener, routes));
        Ok(Self { access, cx, queues, at, api_key, tokens, templates, _server: server })
    }

    /// What PostgreSQL does by itself within a minute of work: before it knows how much there is, it may look for rows by the
    /// wrong index, and a benchmark is over before that minute is.
    pub(crate) async fn gather_statistics(&self) -> anyhow::Result<()> {
        if self.access.database().dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let analyze = self.access.database().write(|tx| tx.execute("ANALYZE", &[]));
        let analyzed: Result<u64, DatabaseError> = analyze.await;
        analyzed?;
        Ok(())
    }

    /// Who works on the queue of transactional mail, and hands it to this sender.
    pub(crate) async fn transactional(
        &self,
        sender: Arc<dyn Sender>,
    ) -> anyhow::Result<Arc<dyn Handler>> {
        let now = self.access.now();
        let links = Links::load(self.access.database(), "https://mail.example.org", now).await?;
        let worker = transactional::Worker {
            access: self.access.clone(),
            templates: self.templates.clone(),
            links,
            sender,
            pace: Arc::new(Pace::new(1_000_000, now)),
            settings: transactional::Settings { node: "bench".to_owned(), ttl_days: None },
        };
        Ok(worker.handler())
    }
}

/// A client with a sender and a template. Tells its key.
async fn furnish(cx: &Cx) -> anyhow::Result<String> {
    let slug: Slug = "shop".parse()?;
    let name = DisplayName::from(&slug);
    let client = clients::create(cx, clients::Create { slug: slug.clone(), name: name.clone() });
    let client = client.await?;
    let sender = NewSender {
        slug: slug.clone(),
        from_email: "shop@shop.example".parse()?,
        from_name: Some(name.clone()),
        reply_to: None,
        is_default: true,
    };
    senders::add(cx, senders::Add { client: client.id, sender }).await?;
    let mut content = Content::default();
    content.source.subject = "Your order {{ order }}".to_owned();
    content.source.html = Some(
        "<html><body><p>Hello {{ name }},</p><p>thank you for your order {{ order }}. \
         <a href=\"https://shop.example/orders/{{ order }}\">Look at it</a>, or \
         <a href=\"{{ unsubscribeUrl }}\">unsubscribe</a>.</p></body></html>"
            .to_owned(),
    );
    content.required = vec!["name".to_owned(), "order".to_owned()];
    let put = Put { key: "order".parse()?, content, then: Then::Activate };
    templates::put(cx, put).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let create = keys::Create {
        client: slug,
        name,
        scopes: Scopes::all(),
        rate: Rate::new(100_000, 1_000_000)?,
        expires_at: None,
        granted_by: Granter::Operator,
    };
    Ok(keys::create(cx, create).await?.api_key.expose())
}

pub(crate) async fn serve(listener: TcpListener, routes: Router) {
    let service = TowerToHyperService::new(routes);
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // The figures stand for themselves if it is refused.
        drop(stream.set_nodelay(true));
        let http = http1::Builder::new();
        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
        connections.spawn(async move { drop(connection.await) });
    }
}
