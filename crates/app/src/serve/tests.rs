//! How the server lets requests finish, and whom it does not wait for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::listener::{Bounds, answer};
use super::signals::Signals;
use super::unless_signalled;

/// A server with one route, which answers when it is allowed to.
struct Slow {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    begun: Arc<Notify>,
    allowed: Arc<Notify>,
    server: JoinHandle<()>,
}

async fn slow(grace: Duration) -> Slow {
    let (begun, allowed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, allowed) = (Arc::clone(&begun), Arc::clone(&allowed));
        move || async move {
            begun.notify_one();
            allowed.notified().await;
            "done"
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let router = Router::new().route("/slow", get(handler));
    let server = tokio::spawn(answer(listener, router, stopped, Bounds { max_streams: 10, grace }));
    Slow { address, stop, begun, allowed, server }
}

async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn read(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    // A connection that is cut off may end in an error as well as in silence.
    drop(stream.read_to_string(&mut answer).await);
    answer
}

#[tokio::test]
async fn a_request_that_is_under_way_is_answered() {
    let slow = slow(Duration::from_secs(3600)).await;
    let caller = send(slow.address, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    slow.begun.notified().await;
    slow.stop.send_replace(true);
    // Nobody new comes in while it finishes.
    while TcpStream::connect(slow.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!slow.server.is_finished());
    slow.allowed.notify_one();
    slow.server.await.unwrap();
    assert!(read(caller).await.ends_with("done"));
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_cut_off() {
    let slow = slow(Duration::ZERO).await;
    let caller = send(slow.address, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    slow.begun.notified().await;
    slow.stop.send_replace(true);
    slow.server.await.unwrap();
    assert_eq!(read(caller).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_never_finishes_its_request_is_sent_away() {
    let slow = slow(Duration::ZERO).await;
    let caller = send(slow.address, "GET /slow HTTP/1.1\r\nhost:").await;
    assert!(!read(caller).await.contains("200"));
    slow.stop.send_replace(true);
    slow.server.await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_work() {
    use rustix::process::{Signal, getpid, kill_process};
    let mut signals = Signals::listen().unwrap();
    assert_eq!(unless_signalled(async {}, &mut signals).await, Ok(()));
    kill_process(getpid(), Signal::TERM).unwrap();
    assert_eq!(unless_signalled(std::future::pending(), &mut signals).await, Err("SIGTERM"));
}
