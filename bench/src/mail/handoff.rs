//! From the request to the provider: how long a message takes, at a steady load and when all that can come comes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidings_jobs::Settings;
use tidings_kernel::{Accepted, Mail, SendError, Sender, queues};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::accept::{CONNECTIONS, order};
use super::load::{self, Asked, Connection, Figures, request};
use super::place::Place;
use crate::queue::crew::Crew;

/// As in the default configuration.
const AT_ONCE: usize = 32;
/// 200 a second.
const EVERY: Duration = Duration::from_millis(5);
/// Connections that the steady load goes over.
const STEADY: usize = 16;

/// A message that was handed over, as a provider would tell of it.
#[derive(Debug, Clone)]
pub(super) struct Handed {
    pub(super) to: String,
    pub(super) provider_id: String,
    pub(super) tags: Vec<(&'static str, String)>,
}

/// Takes every message and notes when.
#[derive(Default)]
pub(super) struct Clerk {
    asked: Mutex<HashMap<String, Instant>>,
    taken: Mutex<Vec<Duration>>,
    handed: Mutex<Vec<Handed>>,
}

#[async_trait]
impl Sender for Clerk {
    fn name(&self) -> &'static str {
        "bench"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let now = Instant::now();
        let to = mail.to.first().map(ToString::to_string).unwrap_or_default();
        let begun = lock(&self.asked).remove(&to);
        lock(&self.taken).extend(begun.map(|begun| now - begun));
        let mut handed = lock(&self.handed);
        let provider_id = format!("bench-{:08}", handed.len());
        let tags = mail.tags.clone();
        handed.push(Handed { to, provider_id: provider_id.clone(), tags });
        Ok(Accepted::by_all(Some(provider_id)))
    }
}

impl Clerk {
    fn asks(&self, person: usize) {
        let to = format!("person{person}@example.org");
        lock(&self.asked).insert(to, Instant::now());
    }

    fn figures(&self, elapsed: Duration) -> Figures {
        Figures::of(std::mem::take(&mut *lock(&self.taken)), elapsed)
    }

    pub(super) fn handed(&self) -> Vec<Handed> {
        lock(&self.handed).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Latencies {
    pub(super) steady: Figures,
    pub(super) accepted: Figures,
    pub(super) saturated: Figures,
}

/// Everybody is written to for the first time: so an address tells its request.
pub(super) async fn measure(
    place: &Place,
    clerk: &Arc<Clerk>,
    (span, most): (Duration, usize),
) -> anyhow::Result<Latencies> {
    let handler = place.transactional(Arc::clone(clerk) as Arc<dyn Sender>).await?;
    let settings = Settings { concurrency: AT_ONCE, batch: AT_ONCE, ..Settings::default() };
    let crew =
        Crew::start(&place.queues, &queues::TRANSACTIONAL_EMAIL, &handler, (1, settings.clone()));
    let first = 1_000_000;
    let steady = steadily(place, clerk, &crew, (first, span)).await?;
    place.gather_statistics().await?;
    let before = crew.done();

    let headers = headers(place);
    let (asking, people) = (Arc::clone(clerk), first * 2);
    let request = Box::new(move |n: usize| {
        asking.asks(people + n);
        request("POST /v1/messages", &headers, &order(people + n, n))
    });
    let began = Instant::now();
    let asked = Asked { at: place.at, request, expected: 202 };
    let accepted = load::run(asked, CONNECTIONS, (span, most)).await?;
    crew.until_done(before + accepted.count).await?;
    let saturated = clerk.figures(began.elapsed());
    crew.stop().await;
    Ok(Latencies { steady, accepted, saturated })
}

async fn steadily(
    place: &Place,
    clerk: &Clerk,
    crew: &Crew,
    (first, span): (usize, Duration),
) -> anyhow::Result<Figures> {
    let (free, mut taking) = tokio::sync::mpsc::channel(STEADY);
    for _ in 0..STEADY {
        free.send(Connection::open(place.at).await?).await?;
    }
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut asking, mut count, began) = (JoinSet::new(), 0, Instant::now());
    let headers = headers(place);
    while began.elapsed() < span {
        ticks.tick().await;
        let person = first + count;
        count += 1;
        clerk.asks(person);
        let request = request("POST /v1/messages", &headers, &order(person, count));
        let Some(mut connection) = taking.recv().await else { break };
        let free = free.clone();
        asking.spawn(async move {
            connection.ask(&request, 202).await?;
            free.send(connection).await?;
            anyhow::Ok(())
        });
    }
    while let Some(done) = asking.join_next().await {
        done??;
    }
    crew.until_done(count).await?;
    Ok(clerk.figures(began.elapsed()))
}

fn headers(place: &Place) -> String {
    format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", place.api_key)
}
