//! A line between the engine and the server that can be made bad: requests are dropped, answers are lost.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What happens to a request.
pub(crate) enum Fate {
    /// It is answered as usual.
    Pass,
    /// The server does it, and the answer is lost.
    LoseAnswer,
    /// The server never sees it; this is answered instead.
    Answer(u16, &'static str),
}

/// Decides about the n-th request (from 0) of an operation, such as `UpdateItem`.
type Decide = dyn Fn(&str, usize) -> Fate + Send + Sync;

pub(crate) struct Proxy {
    endpoint: String,
    counts: Arc<Counts>,
}

/// How many requests of each operation came.
#[derive(Default)]
struct Counts(Mutex<HashMap<String, usize>>);

impl Counts {
    /// Counts one more, and tells which it is.
    fn next(&self, operation: &str) -> usize {
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(operation.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

impl Proxy {
    pub(crate) fn start(
        server: &str,
        decide: impl Fn(&str, usize) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let counts = Arc::new(Counts::default());
        let (decide, counted): (Arc<Decide>, _) = (Arc::new(decide), Arc::clone(&counts));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (server, decide) = (server.clone(), Arc::clone(&decide));
                let counts = Arc::clone(&counted);
                std::thread::spawn(move || carry(&client.unwrap(), &server, &*decide, &counts));
            }
        });
        Self { endpoint, counts }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How many requests of an operation came.
    pub(crate) fn seen(&self, operation: &str) -> usize {
        self.counts.0.lock().unwrap().get(operation).copied().unwrap_or(0)
    }
}

/// Carries the requests of one connection until it is closed, or lost.
fn carry(client: &TcpStream, server: &str, decide: &Decide, counts: &Counts) {
    let mut requests = BufReader::new(client);
    let mut answers = client;
    while let Some(request) = message(&mut requests) {
        let operation = operation(&request);
        let fate = decide(&operation, counts.next(&operation));
        if let Fate::Answer(status, body) = fate {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
            let head = format!("{head}content-type: application/x-amz-json-1.0\r\n\r\n{body}");
            answers.write_all(head.as_bytes()).unwrap();
            continue;
        }
        let mut line = TcpStream::connect(server).unwrap();
        line.write_all(&request).unwrap();
        let answer = message(&mut BufReader::new(line)).expect("the server answers");
        match fate {
            Fate::Pass => answers.write_all(&answer).unwrap(),
            Fate::LoseAnswer => return,
            Fate::Answer(..) => unreachable!("it was answered above"),
        }
    }
}

/// A request or an answer as it came. None if the connection was closed.
fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut length = 0;
    loop {
        let start = message.len();
        if from.read_until(b'\n', &mut message).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&message[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    message.extend(body);
    Some(message)
}

fn operation(request: &[u8]) -> String {
    let head = String::from_utf8_lossy(request);
    let target = head.lines().find(|line| line.to_ascii_lowercase().starts_with("x-amz-target:"));
    target.and_then(|line| line.rsplit('.').next()).unwrap_or_default().trim().to_owned()
}
