//! Nothing personal is logged, told to the audit log, or put into a queue, also not when others are told of it and answer with
//! what they were told.

use std::io::{Read as _, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use tidings_access::Cx;
use tidings_jobs::contracts::{ReminderStep, ReminderTask};
use tidings_jobs::{Outcome, Work as _};
use tidings_testbed::Bed;
use tidings_webhooks::{EventTypes, Poster, Targets, endpoints};
use tracing_subscriber::fmt::MakeWriter;

use super::world::{World, by, customer, money};
use crate::{Edit, Kind, Payment, Reject, Worker, approve, edit, paid, reject};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// An endpoint that answers with a fault and with all that it was told; and what that was.
fn echo() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks?for=ada@example.org", listener.local_addr().unwrap());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&told);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut part) = (String::new(), [0; 16 * 1024]);
            while !is_whole(&request) {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.push_str(&String::from_utf8_lossy(&part[..count])),
                }
            }
            let head = "HTTP/1.1 500 c1@example.org\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{request}", request.len());
            drop(stream.write_all(answer.as_bytes()));
            heard.lock().unwrap().push(request);
        }
    });
    (url, told)
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

async fn subscribe(cx: &Cx, url: &str) {
    let (url, event_types) = (url.parse().unwrap(), EventTypes::All);
    let create = endpoints::Create { url, description: None, event_types };
    endpoints::create(cx, &Targets::new(true), create).await.unwrap();
}

async fn tell_others(bed: &Bed) {
    for _ in 0..3 {
        for (queue, handler) in
            tidings_webhooks::handlers(&bed.access, Poster::new(Targets::new(true)))
        {
            bed.work(queue, handler).await;
        }
        bed.advance(10).await;
    }
}

#[tokio::test]
async fn nothing_personal_is_told() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(written.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let bed = Bed::memory().await;
    let world = World::new(&bed).await;
    let cx = world.cx().await;
    let (echo, told) = echo();
    for url in [echo, "http://127.0.0.1:9/hooks?for=eve@example.org".to_owned()] {
        subscribe(&cx, &url).await;
    }
    let draft = world.draft("c1", Kind::First).await;
    let change = Edit {
        content: Some("Dear c1, a secret".to_owned()),
        by: "eve".to_owned(),
        ..Edit::default()
    };
    let edited = edit(&cx, &draft.id, change).await.unwrap();
    approve(&cx, by(&edited, "ada")).await.unwrap();
    world.run().await;
    world
        .provider
        .answers(tidings_kernel::SendError::Refused("c2@example.org is no user".to_owned()));
    world.remind("c2", Kind::First).await;
    let rejected = world.draft("c3", Kind::First).await;
    let why = "Dear c3 has died".to_owned();
    reject(&cx, Reject { draft: rejected.id, reason: why, by: "ada".to_owned() }).await.unwrap();
    let payment = Payment {
        customer: Some(customer("c1")),
        invoice: None,
        money: Some(money("1500")),
        paid_at: None,
        reference: Some("bank-7".to_owned()),
    };
    paid(&cx, payment).await.unwrap();
    // An event that takes an address for an id.
    let step = ReminderStep {
        customer_id: Some("c4@example.org".to_owned()),
        invoice_id: Some("INV-4".to_owned()),
        reference: Some("e1".to_owned()),
        ..ReminderStep::new(cx.workspace().clone(), ReminderTask::Paid)
    };
    let dead = Worker::new(world.tools.clone()).work(step).await;
    assert!(
        matches!(&dead, Outcome::Dead { .. }) && !format!("{dead:?}").contains('@'),
        "{dead:?}"
    );
    world.days(20).await;
    tell_others(&bed).await;
    tidings_people::contacts::erase(&cx, &"c1@example.org".parse().unwrap()).await.unwrap();
    tell_others(&bed).await;
    drop(guard);
    let told = told.lock().unwrap().join("\n");
    assert!(told.contains("c1@example.org"), "others are told: {told}");
    let logged = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains(draft.id.as_str()), "the log is looked at");
    let queued = cx.database().read(|tx| {
        // Only a timeline is found by the address.
        let sql = "SELECT body FROM queue_messages WHERE queue <> 'lead-ingestion'";
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row| row.text(0).map(ToOwned::to_owned)).collect::<Result<Vec<_>, _>>()
    });
    let queued: Result<Vec<String>, tidings_sql::DatabaseError> = queued.await;
    let queued = queued.unwrap().join("\n");
    // The entries of the audit log wait there.
    assert!(queued.contains("reminder.approve"), "{queued}");
    for personal in ["@example.org", "Customer c", "Dear c", "a secret", "Payment Reminder", "died"]
    {
        assert!(!logged.contains(personal), "{personal}: {logged}");
        assert!(!queued.contains(personal), "{personal}: {queued}");
    }
}
