//! The callers: connections that are kept, each with one request at a time. As small as can be, for they take their share
//! of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) count: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Figures {
    pub(crate) fn of(mut taken: Vec<Duration>, elapsed: Duration) -> Self {
        taken.sort_unstable();
        let at = |share: f64| {
            let place = ((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1));
            taken.get(place).map_or(0.0, Duration::as_secs_f64) * 1000.0
        };
        let per_second = taken.len() as f64 / elapsed.as_secs_f64();
        Self { count: taken.len(), per_second, p50_ms: at(0.5), p99_ms: at(0.99) }
    }
}

/// What is asked, and which answer is right.
pub(crate) struct Asked {
    pub(crate) at: SocketAddr,
    /// The whole request with this number.
    pub(crate) request: Box<dyn Fn(usize) -> Vec<u8> + Send + Sync>,
    pub(crate) expected: u16,
}

/// Asks from so many connections until the span is over or so many requests are made.
pub(crate) async fn run(
    asked: Asked,
    connections: usize,
    (span, most): (Duration, usize),
) -> anyhow::Result<Figures> {
    let (asked, next) = (Arc::new(asked), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..connections {
        let (asked, next) = (Arc::clone(&asked), Arc::clone(&next));
        callers.spawn(async move {
            let mut connection = Connection::open(asked.at).await?;
            let mut taken = Vec::new();
            while began.elapsed() < span {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    break;
                }
                let request = (asked.request)(number);
                let begun = Instant::now();
                connection.ask(&request, asked.expected).await?;
                taken.push(begun.elapsed());
            }
            anyhow::Ok(taken)
        });
    }
    let mut taken = Vec::new();
    while let Some(done) = callers.join_next().await {
        taken.extend(done??);
    }
    Ok(Figures::of(taken, began.elapsed()))
}

pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(at: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Asks, and reads the answer to its end.
    pub(crate) async fn ask(&mut self, request: &[u8], expected: u16) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            let found = self.buffer.windows(4).position(|window| window == b"\r\n\r\n");
            match found {
                Some(end) => break end + 4,
                None => self.read_more().await?,
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status: u16 = text.get(9..12).context("no status")?.parse()?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let end = head + length.unwrap_or(0_usize);
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        let body = String::from_utf8_lossy(&self.buffer[head..end]);
        ensure!(status == expected, "the answer was {status}, not {expected}: {body}");
        Ok(())
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(count > 0, "the server hung up");
        Ok(())
    }
}

/// A whole request.
pub(crate) fn request(method_path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method_path} HTTP/1.1\r\nhost: bench\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
