//! `tidings serve`: the server's life, from the open store to the last answered request.

mod background;
mod listener;
mod signals;
mod sweeper;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tidings_http_api::{
    Api, DURATION_METRIC, Demo, Draining, Limits, REFUSED_METRIC, STREAMS_METRIC, UNSTORED_METRIC,
    inbox_demo, provider, public, router, v1,
};
use tidings_inbox::damage::UNREADABLE_METRIC;
use tidings_inbox::verify::DRIFT_METRIC;
use tidings_jobs::Stop;
use tidings_signals::sns::{self, Sns};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::config::{Config, Flag, Http, Provider};
use crate::failure::Failure;
use crate::outlet::is_local;
use crate::probe;
use crate::runtime::Runtime;
use crate::store::{self, Store};
use signals::Signals;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidings serve
  tidings serve --listen 0.0.0.0:80
  tidings serve --roles worker,scheduler
  TIDINGS_STORE__ENGINE=postgres TIDINGS_POSTGRES__URL_FILE=/run/secrets/url tidings serve

The server answers on /v1 (the API, described by /v1/openapi.json), on the links of our mails,
/webhooks/ses (SNS), /healthz (is the process alive),
/readyz (can it serve: does the store answer) and /metrics (Prometheus). SIGTERM or Ctrl-C stops it:
it finishes what is under way, for http.shutdown_grace and workers.shutdown_grace at most, and closes
the database. A second one stops it at once. On PostgreSQL and on AWS any number of servers share the
work; --roles says what one does.")]
pub(crate) struct ServeArgs {
    /// The address and port to answer HTTP on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// What this process does: http, worker, scheduler, with commas between [default: all three]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
}

impl ServeArgs {
    pub(crate) fn flags(&self) -> impl Iterator<Item = Flag> {
        let flag = |flag, key: &str, value: &Option<String>| {
            value.clone().map(|value| Flag { flag, key: key.to_owned(), value })
        };
        let listen = flag("--listen", "http.listen", &self.listen);
        listen.into_iter().chain(flag("--roles", "serve.roles", &self.roles))
    }
}

pub(crate) async fn run(config: &Config) -> Result<(), Failure> {
    // The port comes first: a server that was started twice by mistake must not touch the database.
    let listener = bind(config.http.listen).await?;
    let opened = Opened::open(listener, config).await?;
    answer(opened, config, |_| {}).await
}

/// A server that does not answer yet.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) runtime: Runtime,
    /// The page with an inbox, if this is a demo.
    pub(crate) demo: Option<Demo>,
    signals: Signals,
    metrics: PrometheusHandle,
    listener: TcpListener,
}

impl Opened {
    pub(crate) async fn open(listener: TcpListener, config: &Config) -> Result<Self, Failure> {
        let signals = Signals::listen().context("signals cannot be listened for")?;
        let metrics = install_metrics()?;
        let store = Store::open(config).await?;
        let runtime = Runtime::open(&store, config).await?;
        Ok(Self { store, runtime, demo: None, signals, metrics, listener })
    }
}

/// Answers and works until a signal comes.
pub(crate) async fn answer(
    opened: Opened,
    config: &Config,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let Opened { store, mut runtime, demo, mut signals, metrics, listener } = opened;
    let address = listener.local_addr().context("the listener has no address")?;
    tell_mail(&runtime, config);

    let draining = Draining::default();
    let (stop, stopped) = watch::channel(false);
    let (stop_work, work_stopped) = Stop::new();
    runtime.stop = Some(work_stopped.clone());
    let work = background::start(&store, &runtime, config, &work_stopped, &stopped)?;
    let upkeep = tokio::spawn(keep_up(metrics.clone(), stopped.clone()));
    let api = Api {
        engine: store.engine.clone(),
        metrics,
        draining: draining.clone(),
        limits: limits(&config.http)?,
    };
    let routes = routes(api, &runtime, config, demo)?;
    let bounds = listener::Bounds {
        max_streams: config.http.max_streams,
        grace: config.http.shutdown_grace,
    };
    let answering = listener::answer(listener, routes, stopped, bounds);
    let mut server = tokio::spawn(answering);
    let engine = store::name(config.engine);
    tracing::info!(store.engine = engine, "Tidings is listening on http://{address}");
    listening(address);

    tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "Stopping: finishing what is under way (again to stop at once)");
        }
        ended = &mut server => {
            // Only a panic can do that. Whoever keeps us must know, and start us again.
            return Err(Failure::failed(format!("the HTTP server ended by itself: {ended:?}")));
        }
    }
    draining.begin();
    stop.send_replace(true);
    stop_work.send_replace(true);
    let background = async {
        let ours = [("HTTP server".to_owned(), server), ("upkeep".to_owned(), upkeep)];
        for (name, task) in ours.into_iter().chain(work) {
            if let Err(error) = task.await {
                tracing::error!(%error, "The {name} did not stop in order");
            }
        }
        store.close().await;
    };
    match unless_signalled(background, &mut signals).await {
        Ok(()) => {
            tracing::info!("Stopped");
            Ok(())
        }
        Err(signal) => {
            tracing::warn!(signal, "Stopped at once, by a second signal");
            std::process::exit(1);
        }
    }
}

/// What this node answers.
fn routes(
    api: Api,
    runtime: &Runtime,
    config: &Config,
    demo: Option<Demo>,
) -> Result<Router, Failure> {
    let draining = api.draining.clone();
    let routes = router(api);
    if !config.roles.http {
        return Ok(routes);
    }
    let limits = limits(&config.http)?;
    let sns = Sns::new(sns::Settings {
        topics: config.signals.ses_topics.clone(),
        certificate_origin: config.signals.sns_certificate_origin.clone(),
    });
    let services = runtime.services(config, draining);
    let routes = match demo {
        Some(demo) => routes.merge(inbox_demo(services.clone(), limits, demo)),
        None => routes,
    };
    Ok(routes
        .merge(provider(runtime.access().clone(), sns, limits))
        .merge(public(runtime.tracking.clone(), limits))
        .merge(v1(services, limits)))
}

/// Whoever looks for a message that did not arrive looks here first.
fn tell_mail(runtime: &Runtime, config: &Config) {
    let outlet = &runtime.outlet;
    let (provider, rate) = (outlet.sender.name(), outlet.pace.rate(runtime.clock.now()));
    tracing::info!(
        mail.provider = provider,
        mail.rate_per_second = rate,
        "Mail goes through {provider}"
    );
    if config.mail.provider == Provider::Capture && !is_local(&config.http.public_url) {
        tracing::warn!(
            "NO MAIL IS SENT: mail.provider is \"capture\", and http.public_url is not this machine"
        );
    }
}

/// Does the work, unless a signal comes first: the answer is its name.
async fn unless_signalled(
    work: impl Future<Output = ()>,
    signals: &mut Signals,
) -> Result<(), &'static str> {
    tokio::select! {
        () = work => Ok(()),
        signal = signals.next() => Err(signal),
    }
}

pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there, perhaps another tidings; \
                 --listen chooses another port"
            }
            ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; --listen chooses another port"
            }
            ErrorKind::AddrNotAvailable => {
                "this machine has no such address; 0.0.0.0 means all of them"
            }
            _ => "--listen chooses another address and port",
        };
        let message = format!("cannot listen on {address}");
        Failure::from(anyhow::Error::new(error).context(message)).hint(hint)
    })
}

fn limits(http: &Http) -> Result<Limits, Failure> {
    Ok(Limits {
        max_body: usize::try_from(http.max_body_bytes)?,
        request_timeout: http.request_timeout,
        max_file: usize::try_from(http.max_file_bytes)?,
        file_timeout: http.file_timeout,
    })
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, which ends the server just as well.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Without buckets a histogram would be a summary, which cannot be added up over nodes.
fn install_metrics() -> Result<PrometheusHandle, Failure> {
    let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    let counts = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
    let handle = PrometheusBuilder::new()
        .set_buckets(&counts)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &seconds)
        })
        .and_then(PrometheusBuilder::install_recorder)
        .context("the metrics cannot be recorded")?;
    metrics::describe_counter!("tidings_http_requests_total", "Requests answered.");
    metrics::describe_histogram!(DURATION_METRIC, "How long requests took.");
    metrics::describe_counter!(REFUSED_METRIC, "Requests with a key that is not good.");
    metrics::describe_counter!("tidings_jobs_total", "Messages worked on, by how it ended.");
    metrics::describe_histogram!("tidings_job_seconds", "How long working on a message took.");
    metrics::describe_histogram!(
        "tidings_job_wait_seconds",
        "How long messages waited for a worker."
    );
    metrics::describe_gauge!("tidings_queue_messages", "Messages in the queues, up to 100,000.");
    metrics::describe_gauge!(
        "tidings_queue_oldest_age_seconds",
        "Age of a queue's oldest message."
    );
    metrics::describe_histogram!(
        probe::HEARTBEAT_METRIC,
        "How long a heartbeat took through the queues."
    );
    metrics::describe_gauge!(STREAMS_METRIC, "Live streams of inboxes that are open.");
    metrics::describe_counter!(UNSTORED_METRIC, "Opens and clicks that could not be written down.");
    metrics::describe_counter!(sweeper::SWEPT, "Items deleted because their TTL had passed.");
    metrics::describe_counter!(
        sweeper::EXPIRED,
        "Messages and receipts of inboxes counted out because they expired."
    );
    metrics::describe_gauge!(
        DRIFT_METRIC,
        "Counts of inboxes that were wrong when they were last counted anew."
    );
    metrics::describe_counter!(
        "tidings_stream_trimmed_total",
        "Streams that were read too late to have all that was not read before."
    );
    metrics::describe_counter!(UNREADABLE_METRIC, "Items of inboxes that could not be read.");
    Ok(handle)
}

/// Histograms keep every sample until somebody folds them; without a scraper nobody else does.
async fn keep_up(metrics: PrometheusHandle, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => metrics.run_upkeep(),
        }
    }
}
