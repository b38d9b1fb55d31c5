//! A server that reacts to each line as a test says, on as many connections as there come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// It ends with the value.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

pub(crate) enum Reaction {
    Say(&'static str),
    HangUp,
    Silence,
}

impl Scripted {
    pub(crate) async fn start(react: fn(&str) -> Reaction) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, react));
            }
        });
        Self { port, connections, task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, react: fn(&str) -> Reaction) {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 scripted\r\n").await.unwrap();
    let mut in_body = false;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if in_body && line != ".\r\n" {
            continue;
        }
        in_body = false;
        match react(line.trim_end()) {
            Reaction::Say(text) => {
                in_body = text.starts_with("354");
                if stream.write_all(format!("{text}\r\n").as_bytes()).await.is_err() {
                    return;
                }
            }
            Reaction::HangUp => return,
            Reaction::Silence => std::future::pending::<()>().await,
        }
    }
}
