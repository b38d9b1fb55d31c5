//! Nothing personal is logged, told to the audit log, or put into a queue.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tidings_jobs::contracts::{ReminderStep, ReminderTask};
use tidings_jobs::{Outcome, Work as _};
use tidings_testbed::Bed;
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
    tidings_people::contacts::erase(&cx, &"c1@example.org".parse().unwrap()).await.unwrap();
    drop(guard);
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
