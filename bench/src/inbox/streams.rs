//! Many who watch their inboxes: what each costs the server while nothing happens, and how long it takes until one of them
//! has what was published for him.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::mail::load::{Connection, Figures, request};
use crate::product::{Product, Server};
use crate::report::Report;

/// So many begin at once.
const OPENING: usize = 64;
/// Between two messages: a hundred a second.
const EVERY: Duration = Duration::from_millis(10);
/// After that a message is taken for lost.
const PATIENCE: Duration = Duration::from_secs(30);
const WANTED_PUSH_MS: f64 = 50.0;
/// What one who watches may cost.
const WANTED_KILOBYTES: f64 = 32.0;
/// The title of what goes to everyone.
const EVERYONE: usize = 9_999_999;

pub(super) async fn measure(
    (streams, pushes): (usize, usize),
    report: &mut Report,
) -> anyhow::Result<()> {
    let program = tokio::task::block_in_place(Product::build)?;
    let (_product, server) = tokio::task::block_in_place(|| furnish(&program))?;
    let before = server.resident_megabytes()?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut watching = open(&server, streams, &tell).await?;
    let megabytes = server.resident_megabytes()?;
    let kilobytes = (megabytes - before) * 1024.0 / streams as f64;

    let asked = Arc::new(Mutex::new(HashMap::new()));
    let began = Instant::now();
    let publishing = publish(&server, streams, pushes, Arc::clone(&asked));
    let receiving = receive(&mut told, pushes);
    let (published, arrived) = tokio::join!(publishing, receiving);
    published?;
    let asked = std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner));
    let taken = arrived?.into_iter().filter_map(|(number, at)| Some(at - *asked.get(&number)?));
    let figures = Figures::of(taken.collect(), began.elapsed());

    let mut connection = Connection::open(server.at).await?;
    let begun = Instant::now();
    let body = json!({"to": {"everyone": true}, "title": title(EVERYONE), "body": ""});
    connection.ask(&post(&server, &body), 201).await?;
    receive(&mut told, streams).await?;
    let everyone = begun.elapsed();
    ensure!(watching.try_join_next().is_none(), "a stream ended");

    report.line(&format!("### {streams} who watch\n"));
    report.line(
        "| MB before | MB with them | KB each | push p50 ms | push p99 ms | to all of them, ms |",
    );
    report.line("|---:|---:|---:|---:|---:|---:|");
    report.line(&format!(
        "| {before:.0} | {megabytes:.0} | {kilobytes:.1} | {:.2} | {:.2} | {:.0} |\n",
        figures.p50_ms,
        figures.p99_ms,
        everyone.as_secs_f64() * 1000.0
    ));
    report.line(&format!(
        "A push is from the request of the publisher until his reader has it; {pushes} of them, 100 a second, on SQLite.\n"
    ));
    report.ratio("push", WANTED_PUSH_MS / figures.p99_ms, 1.0);
    report.ratio("stream_memory", WANTED_KILOBYTES / kilobytes, 1.0);
    Ok(())
}

fn furnish(program: &std::path::Path) -> anyhow::Result<(Product, Server)> {
    let product = Product::new(program, &[])?;
    product.run(&["bootstrap", "--client", "shop"])?;
    let key = ["keys", "create", "--client", "shop", "--name", "bench"];
    let may = ["--scope", "inbox:admin", "--scope", "inbox:user"];
    let fast = ["--requests-per-second", "100000", "--burst", "100000"];
    let made: Value = serde_json::from_str(&product.run(&[&key[..], &may, &fast].concat())?)?;
    let api_key = made["key"].as_str().context("no key")?.to_owned();
    let server = product.serve(api_key)?;
    Ok((product, server))
}

/// What arrived, and when.
type Arrival = (usize, Instant);

/// Opens all streams, and waits until each has told its counts.
async fn open(
    server: &Server,
    streams: usize,
    tell: &mpsc::UnboundedSender<Arrival>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let mut watching = JoinSet::new();
    let (ready, mut readied) = mpsc::channel(OPENING);
    let mut opened = 0;
    for number in 0..streams {
        let header =
            format!("authorization: Bearer {}\r\nx-user-id: user{number}\r\n", server.api_key);
        let request = request("GET /inbox/v1/app/stream", &header, "");
        watching.spawn(watch(server.at, request, ready.clone(), tell.clone()));
        if number >= OPENING {
            readied.recv().await.context("a stream ended")?;
            opened += 1;
        }
    }
    drop(ready);
    while opened < streams {
        readied.recv().await.context("a stream ended")?;
        opened += 1;
    }
    Ok(watching)
}

/// Reads a stream for as long as it lasts, and tells what comes. As small as can be: there are very many of them.
async fn watch(
    at: SocketAddr,
    request: Vec<u8>,
    ready: mpsc::Sender<()>,
    tell: mpsc::UnboundedSender<Arrival>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&request).await?;
    let (mut text, mut ready) = (Vec::new(), Some(ready));
    loop {
        let count = stream.read_buf(&mut text).await?;
        ensure!(count > 0, "the server hung up");
        let now = Instant::now();
        if let Some(end) = text.windows(2).rposition(|pair| pair == b"\n\n") {
            let whole = String::from_utf8_lossy(&text[..end]).into_owned();
            if whole.contains("event: counts")
                && let Some(ready) = ready.take()
            {
                ready.send(()).await?;
            }
            for part in whole.split("bench-").skip(1) {
                let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
                if let Ok(number) = part[..digits].parse() {
                    tell.send((number, now))?;
                }
            }
            text.drain(..end);
            text.shrink_to_fit();
        }
    }
}

fn title(number: usize) -> String {
    format!("bench-{number}")
}

fn post(server: &Server, body: &Value) -> Vec<u8> {
    let headers =
        format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", server.api_key);
    request("POST /v1/inboxes/app/messages", &headers, &body.to_string())
}

/// Publishes at a steady pace, each time to another one.
async fn publish(
    server: &Server,
    streams: usize,
    pushes: usize,
    asked: Arc<Mutex<HashMap<usize, Instant>>>,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(server.at).await?;
    let mut ticks = tokio::time::interval(EVERY);
    for number in 0..pushes {
        ticks.tick().await;
        let uid = format!("user{}", number * 7_919 % streams);
        let body = json!({"to": {"users": [uid]}, "title": title(number), "body": "There is news"});
        let request = post(server, &body);
        asked.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Instant::now());
        connection.ask(&request, 201).await?;
    }
    Ok(())
}

async fn receive(
    told: &mut mpsc::UnboundedReceiver<Arrival>,
    count: usize,
) -> anyhow::Result<Vec<Arrival>> {
    let mut arrived = Vec::with_capacity(count);
    while arrived.len() < count {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await;
        let next = next.with_context(|| format!("{} of {count} came", arrived.len()))?;
        arrived.push(next.context("all streams ended")?);
    }
    Ok(arrived)
}
