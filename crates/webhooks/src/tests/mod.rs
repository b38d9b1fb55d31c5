//! What an endpoint meets, over a real connection, and what is written down of it.
//!
//! Here: an HTTP server that answers as a test says, and the ground of a story.

mod announcing;
mod delivering;
mod keeping;
mod managing;
mod retrying;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_kernel::queues;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::deliveries::{self, Delivery, Details};
use crate::endpoints::{self, Create, Issued};
use crate::{Announcement, EventType, EventTypes, Poster, Targets, announce, handlers};

/// A request as the endpoint saw it.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// An endpoint on this machine.
struct Receiver {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    answer: Arc<Mutex<String>>,
}

impl Receiver {
    /// One that says yes.
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let (requests, answer) = (Arc::default(), Arc::default());
        let receiver = Self { url, requests, answer };
        receiver.answers("204 No Content", "");
        let (requests, answer) = (Arc::clone(&receiver.requests), Arc::clone(&receiver.answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, Arc::clone(&requests), Arc::clone(&answer)));
            }
        });
        receiver
    }

    /// What it says from now on.
    fn answers(&self, status: &str, body: &str) {
        let length = body.len();
        *self.answer.lock().unwrap() = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
    }

    fn answers_raw(&self, answer: &str) {
        *self.answer.lock().unwrap() = answer.to_owned();
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.requests().len()
    }
}

async fn attend(
    mut stream: TcpStream,
    requests: Arc<Mutex<Vec<Request>>>,
    answer: Arc<Mutex<String>>,
) {
    let mut read = Vec::new();
    loop {
        if let Some(request) = parse(&read) {
            requests.lock().unwrap().push(request);
            let answer = answer.lock().unwrap().clone();
            if answer.is_empty() {
                // It takes the request and never says a word.
                std::future::pending::<()>().await;
            }
            let _ = stream.write_all(answer.as_bytes()).await;
            return;
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&part[..count]),
        }
    }
}

fn parse(read: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(read).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    (body.len() >= length).then(|| Request { line, headers, body: body.to_owned() })
}

fn here() -> Targets {
    Targets::new(true)
}

/// An endpoint that wants these, or everything.
/// Those whom the announcements are about.
async fn know(cx: &Cx) {
    let workspace = cx.workspace_id().get();
    let know = cx.database().write(move |tx| {
        for email in ["ada@example.org", "eve@example.org"] {
            let lead = "INSERT INTO leads (workspace_id, created_at, updated_at)
                        VALUES ($1, 1, 1) RETURNING id";
            let lead = tx.query(lead, &[Param::Int(workspace)])?[0].int(0)?;
            let sql = "INSERT INTO channel_identities
                           (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                       VALUES ($1, $2, 'email', $3, $3, 1, 1)
                       ON CONFLICT (workspace_id, channel, value) DO NOTHING";
            tx.execute(sql, &[Param::Int(workspace), Param::Int(lead), Param::Text(email)])?;
        }
        Ok::<_, DatabaseError>(())
    });
    know.await.unwrap();
}

async fn subscribe(cx: &Cx, url: &str, types: &[EventType]) -> Issued {
    know(cx).await;
    let event_types: EventTypes = types.iter().copied().collect();
    let create = Create { url: url.parse().unwrap(), description: None, event_types };
    endpoints::create(cx, &here(), create).await.unwrap()
}

fn sent(id: &str) -> Announcement {
    let data = json!({ "message_id": 101, "email": "ada@example.org" });
    Announcement {
        event_id: id.to_owned(),
        event_type: EventType::EmailSent,
        occurred_at: "2026-07-01T11:59:58Z".parse().unwrap(),
        data: data.as_object().unwrap().clone(),
    }
}

async fn say(cx: &Cx, announcement: &Announcement) {
    let (within, announcement) = (cx.clone(), announcement.clone());
    cx.database().write(move |tx| announce(&within, tx, &announcement)).await.unwrap();
}

/// Works until nothing is due. Tells how many deliveries of queues that were, fan-out and posts.
async fn work(bed: &Bed) -> (usize, usize) {
    work_with(bed, Poster::new(here())).await
}

async fn work_with(bed: &Bed, poster: Poster) -> (usize, usize) {
    let mut handlers = handlers(&bed.access, poster);
    let (_, deliver) = handlers.pop().unwrap();
    let (_, fanout) = handlers.pop().unwrap();
    let fanned = bed.work(&queues::WEBHOOK_FANOUT, fanout).await;
    (fanned, bed.work(&queues::WEBHOOK_DELIVERY, deliver).await)
}

async fn all(cx: &Cx, issued: &Issued) -> Vec<Delivery> {
    let id = issued.endpoint.id;
    deliveries::list(cx, id, None, None, tidings_access::Limit::MAX).await.unwrap().items
}

async fn only(cx: &Cx, issued: &Issued) -> Details {
    let all = all(cx, issued).await;
    assert_eq!(all.len(), 1, "{all:?}");
    deliveries::find(cx, all[0].id).await.unwrap()
}

fn json_of(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

async fn count(cx: &Cx, sql: &'static str) -> i64 {
    cx.database()
        .read(move |tx| tx.query(sql, &[])?.first().unwrap().int(0))
        .await
        .unwrap_or_else(|error: tidings_sql::DatabaseError| panic!("{sql}: {error:?}"))
}
