//! A mail that is not sent is counted at its step, however late that turns out, and once.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use serde_json::json;
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, queues};
use tidings_people::consent::Whom;
use tidings_people::consent::preferences::{self, Switch};
use tidings_people::consent::topics;
use tidings_testbed::{Bed, each_store};

use super::crash::EndsOnce;
use super::steps::act;
use crate::versions::tests::rows;
use crate::world::World;

each_store!(
    a_mail_that_is_skipped_after_the_walk_is_counted_as_skipped,
    wherever_workers_end_and_however_often_it_is_told_it_counts_once,
);

const TIPS: &str = "id: tips\ntopic: tips\nsteps: [ { send: a }, { id: more, send: b } ]";

impl World<'_> {
    async fn with_tips(self) -> Self {
        let (slug, name) = ("tips".parse().unwrap(), "Tips".parse().unwrap());
        let create = topics::Create { slug, name, description: None };
        topics::create(&self.cx().await, create).await.unwrap();
        self.define(TIPS).await;
        self
    }

    async fn switch_off(&self, email: &str) {
        let topics = vec![("tips".parse().unwrap(), false)];
        let whom = Whom::Email(email.parse().unwrap());
        preferences::switch(&self.cx().await, Switch { whom, topics, act: act() }).await.unwrap();
    }

    /// The funnel has what counting the rows gives, and so many at each step.
    async fn check_skipped(&self, expected: i64) {
        let recount =
            "SELECT sequence_step || ' ' || CAST(count(*) AS TEXT) FROM transactional_messages
                       WHERE status = 'skipped' GROUP BY sequence_step ORDER BY sequence_step";
        let funnel = self.funnel("tips").await;
        let told = funnel.steps.iter().map(|step| format!("1/{} {}", step.step, step.skipped));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [format!("1/1 {expected}"), format!("1/more {expected}")]);
        assert_eq!(rows(&self.cx().await, recount).await, told);
    }
}

async fn a_mail_that_is_skipped_after_the_walk_is_counted_as_skipped(bed: &Bed) {
    let world = World::new(bed).await.with_tips().await;
    for email in ["ada@example.org", "bob@example.org"] {
        world.enrol(email, "tips", json!({})).await;
    }
    bed.work(&queues::SEQUENCE_STEPS, world.steps()).await;
    let funnel = world.funnel("tips").await;
    assert_eq!((funnel.completed, funnel.steps[0].skipped), (2, 0), "nobody knows yet");
    world.switch_off("ada@example.org").await;
    world.run().await;
    assert_eq!(world.outbox(), ["bob@example.org a", "bob@example.org b"]);
    world.check_skipped(1).await;
    let funnel = world.funnel("tips").await;
    assert_eq!((funnel.steps[0].entered, funnel.steps[0].passed, funnel.completed), (2, 2, 2));
    // A mail that is not even accepted is counted the same.
    world.enrol("cal@example.org", "tips", json!({})).await;
    world.switch_off("cal@example.org").await;
    world.run().await;
    world.check_skipped(2).await;
}

/// Two nodes that have the same message in hand.
struct Both(Arc<dyn Handler>);

#[async_trait]
impl Handler for Both {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        tokio::join!(self.0.handle(delivery), self.0.handle(delivery)).1
    }
}

async fn wherever_workers_end_and_however_often_it_is_told_it_counts_once(bed: &Bed) {
    let world = World::new(bed).await.with_tips().await;
    let ending = |inner: Arc<dyn Handler>, turns: u64| {
        Arc::new(EndsOnce { inner: Arc::new(Both(inner)), turns: AtomicU64::new(turns) })
    };
    for turns in 0..24 {
        let email = format!("p{turns}@example.org");
        world.enrol(&email, "tips", json!({})).await;
        // Every third one's walk is cut off as well, so that it finds its mail skipped already.
        let until = if turns % 3 == 0 { turns } else { u64::MAX };
        bed.work(&queues::SEQUENCE_STEPS, ending(world.steps(), until)).await;
        world.switch_off(&email).await;
        bed.work(&queues::SEQUENCE_EMAIL, ending(world.mail().await, turns)).await;
        bed.work(&queues::SEQUENCE_STEPS, ending(world.steps(), turns)).await;
    }
    world.hours(2).await;
    assert_eq!(world.outbox(), [] as [&str; 0]);
    world.check_skipped(24).await;
    let funnel = world.funnel("tips").await;
    assert_eq!((funnel.entered, funnel.completed, funnel.active), (24, 24, 0));
    assert_eq!((funnel.steps[1].entered, funnel.steps[1].passed), (24, 24));
}
