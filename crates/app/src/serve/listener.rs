//! Takes connections in, within bounds, and lets them finish at the end.

use std::io::ErrorKind;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tidings_http_api::Peer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::until;

/// How long a caller may take to send a request's head. It also ends idle connections.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Besides streams, which wait for most of their time. More wait in the system's queue, and not in our memory.
const MAX_CONNECTIONS: usize = 10_000;
const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(200);

/// How much there may be, and how long it may take to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) max_streams: usize,
    pub(super) grace: Duration,
}

/// Answers until it is told to stop. Then nobody new comes in, and what is under way has `grace` to finish.
pub(super) async fn answer(
    listener: TcpListener,
    router: Router,
    stopped: watch::Receiver<bool>,
    bounds: Bounds,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let stop = until(stopped);
    tokio::pin!(stop);
    let max_connections = MAX_CONNECTIONS + bounds.max_streams;
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            stream = accept(&listener), if connections.len() < max_connections => stream,
        };
        let service = service.clone();
        let from_peer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            service.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), from_peer);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "A connection broke off");
            }
        });
    }
    drop(listener);
    let grace = bounds.grace;
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        let requests = connections.len();
        tracing::warn!(requests, "Requests were still under way after {grace:?}, and are cut off");
    }
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Small answers must not wait for the peer's acknowledgement.
                drop(stream.set_nodelay(true));
                return (stream, Peer(from.ip()));
            }
            Err(error) if is_the_callers(error.kind()) => {}
            Err(error) => {
                tracing::error!(%error, "No connection can be taken in; is the limit of open files too low?");
                pause().await;
            }
        }
    }
}

/// The caller was gone before we looked.
fn is_the_callers(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

#[expect(clippy::disallowed_methods, reason = "asking again at once would spin")]
async fn pause() {
    tokio::time::sleep(NO_DESCRIPTORS_PAUSE).await;
}
