//! The frequency cap while several hand over to the same people at the same moment.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use jiff::ToSpan as _;
use tidings_access::Access;
use tidings_delivery::eligibility::rules::Cap;
use tidings_delivery::eligibility::settings::{self, Sending as Limits};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{self, Content, Messages, PartKind, PartOf, Send};
use tidings_jobs::Outcome;
use tidings_kernel::{Sender, queues};
use tidings_testbed::{Bed, each_store, until_turn};

use super::crash::begin_again;
use super::{Provider, Sending, World, delivery, worker, worker_on};

each_store!(
    of_two_campaigns_at_once_a_person_gets_one,
    of_three_campaigns_at_once_a_person_gets_two,
    of_a_campaign_and_a_sequence_at_once_a_person_gets_one,
    who_was_claimed_and_let_go_does_not_count,
    what_nobody_knows_about_counts,
    who_is_two_contacts_by_now_is_counted_as_one,
    wherever_a_worker_ends_whoever_has_had_enough_is_still_to_come,
);

const KEYS: [&str; 3] = ["autumn", "winter", "summer"];
const ADA: &str = "p001@example.org";

impl World<'_> {
    async fn allow(&self, count: u8) {
        let cap = Some(Cap { count, hours: 24 });
        let limits = Limits { cap, ..Limits::default() };
        settings::put(&self.bed.cx().await, limits).await.unwrap();
    }

    /// Several campaigns to everybody.
    async fn campaigns(&self, count: usize) -> Vec<Sending<'_, '_>> {
        let mut all = Vec::new();
        for key in &KEYS[..count] {
            let sending = self.campaign(self.people.len()).await;
            let id = sending.campaign;
            self.run(&format!("UPDATE campaigns SET external_key = '{key}' WHERE id = {id}")).await;
            all.push(sending);
        }
        all
    }

    /// How many mails each person was handed.
    fn had(&self) -> BTreeMap<String, usize> {
        let mut had = BTreeMap::new();
        for email in self.provider.taken() {
            *had.entry(email).or_default() += 1;
        }
        had
    }

    /// Who waits is sent to when his time has come.
    async fn go_on(&self, sendings: &[Sending<'_, '_>], minutes: i64) {
        self.bed.clock.advance(minutes.minutes());
        for sending in sendings {
            sending.feed().await;
        }
        self.work().await;
    }
}

/// Everybody gets as many as the cap allows, and the others when the window is over.
async fn race(bed: &Bed, (count, campaigns): (u8, usize), nodes: &[Access]) {
    let world = World::new(bed, 10).await;
    world.allow(count).await;
    for round in 0..4 {
        let sendings = world.campaigns(campaigns).await;
        let mut handlers = Vec::new();
        for (place, access) in nodes.iter().cycle().take(campaigns).enumerate() {
            let node = format!("node-{place}");
            handlers.push(worker_on(access.clone(), &world.provider, &node).await.handler());
        }
        let all = sendings.iter().zip(&handlers).map(|(sending, handler)| {
            let message = delivery(&sending.messages[0]);
            async move { handler.handle(&message).await }
        });
        for outcome in join_all(all).await {
            assert_eq!(outcome, Outcome::Done, "round {round}");
        }
        let had = world.had();
        assert_eq!(had.len(), 10, "round {round}: {had:?}");
        assert!(had.values().all(|had| *had == usize::from(count)), "round {round}: {had:?}");
        world.go_on(&sendings, 25 * 60).await;
        let had = world.had();
        assert!(had.values().all(|had| *had == campaigns), "round {round}: {had:?}");
        begin_again(&world).await;
        bed.clock.advance(25.hours());
    }
}

async fn of_two_campaigns_at_once_a_person_gets_one(bed: &Bed) {
    race(bed, (1, 2), from_ref(&bed.access)).await;
}

async fn of_three_campaigns_at_once_a_person_gets_two(bed: &Bed) {
    race(bed, (2, 3), from_ref(&bed.access)).await;
}

#[tokio::test]
async fn of_campaigns_on_two_nodes_at_once_a_person_gets_one() {
    let bed = Bed::postgres().await;
    let beside = bed.beside().await;
    race(&bed, (1, 2), &[bed.access.clone(), beside.access.clone()]).await;
}

/// The worker of sequences, with the same provider.
async fn sequences(bed: &Bed, provider: &Arc<Provider>) -> transactional::Worker {
    let now = bed.access.now();
    transactional::Worker {
        access: bed.access.clone(),
        templates: Templates::default(),
        links: Links::load(bed.access.database(), "https://mail.example.org", now).await.unwrap(),
        sender: Arc::clone(provider) as Arc<dyn Sender>,
        pace: Arc::new(Pace::new(100_000, now)),
        settings: transactional::Settings { node: "node-3".to_owned(), ttl_days: None },
    }
}

fn step(world: &World<'_>, email: &str, key: String) -> Send {
    let content = Content::Inline {
        subject: "Welcome".to_owned(),
        html: None,
        text: Some("Hello".to_owned()),
    };
    let mut send = Send::of(world.client, email.parse().unwrap(), content);
    send.idempotency_key = Some(key);
    send.part_of = Some(PartOf {
        sequence: "onboarding".to_owned(),
        execution: Some("x1".to_owned()),
        step: None,
        kind: PartKind::Marketing,
        audience: None,
    });
    send
}

async fn of_a_campaign_and_a_sequence_at_once_a_person_gets_one(bed: &Bed) {
    let world = World::new(bed, 4).await;
    world.allow(1).await;
    let workspace = bed.cx().await.workspace_id().get();
    world
        .run(&format!(
            "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
             VALUES ({workspace}, {}, 'hello', 'hello@example.org', 'The shop', 1, 0, 0)",
            world.client
        ))
        .await;
    let messages = Messages::new(Templates::default());
    let drip = sequences(bed, &world.provider).await.handler();
    for round in 0..4 {
        let sendings = world.campaigns(1).await;
        for (place, (_, email)) in world.people.iter().enumerate() {
            let send = step(&world, email, format!("sequence/x1/{round}-{place}"));
            messages.accept(&bed.cx().await, send).await.unwrap();
        }
        let handed = world.handle(&sendings[0].messages[0]);
        join(handed, bed.work(&queues::SEQUENCE_EMAIL, Arc::clone(&drip))).await;
        let had = world.had();
        assert!(had.values().all(|had| *had == 1), "round {round}: {had:?}");
        for _ in 0..3 {
            world.go_on(&sendings, 25 * 60).await;
            bed.work(&queues::SEQUENCE_EMAIL, Arc::clone(&drip)).await;
        }
        let had = world.had();
        assert!(had.len() == 4 && had.values().all(|had| *had == 2), "round {round}: {had:?}");
        begin_again(&world).await;
        bed.clock.advance(25.hours());
    }
}

/// Hands it over to Ada, as another worker does at this very moment.
async fn claim_ada(sending: &Sending<'_, '_>, status: &str) {
    let now = sending.world.bed.access.now().as_millisecond();
    let (id, until) = (sending.campaign, now + 120_000);
    let sql = format!(
        "UPDATE campaign_recipients SET status = '{status}', attempts = 1, claimed_by = 'n', handed_at = {now},
             claimed_until = {until} WHERE campaign_id = {id} AND email = '{ADA}'"
    );
    sending.world.run(&sql).await;
}

async fn who_was_claimed_and_let_go_does_not_count(bed: &Bed) {
    let world = World::new(bed, 3).await;
    world.allow(1).await;
    let sendings = world.campaigns(2).await;
    claim_ada(&sendings[0], "claimed").await;
    assert_eq!(world.handle(&sendings[1].messages[0]).await, Outcome::Done);
    assert_eq!(world.had().get(ADA), None);
    assert_eq!(sendings[1].column(ADA, "status").await.as_deref(), Some("pending"));
    let sql = format!(
        "UPDATE campaign_recipients SET status = 'failed', claimed_by = NULL, claimed_until = NULL
         WHERE campaign_id = {} AND email = '{ADA}'",
        sendings[0].campaign
    );
    world.run(&sql).await;
    world.go_on(&sendings[1..], 2).await;
    assert_eq!(world.had().get(ADA), Some(&1), "the other was not sent");
}

async fn what_nobody_knows_about_counts(bed: &Bed) {
    let world = World::new(bed, 3).await;
    world.allow(1).await;
    let sendings = world.campaigns(2).await;
    claim_ada(&sendings[0], "uncertain").await;
    assert_eq!(world.handle(&sendings[1].messages[0]).await, Outcome::Done);
    for (minutes, had) in [(2, None), (23 * 60, None), (60, Some(&1))] {
        world.go_on(&sendings[1..], minutes).await;
        assert_eq!(world.had().get(ADA), had, "after {minutes} minutes more");
    }
}

async fn who_is_two_contacts_by_now_is_counted_as_one(bed: &Bed) {
    let world = World::new(bed, 2).await;
    world.allow(1).await;
    let sendings = world.campaigns(2).await;
    claim_ada(&sendings[0], "uncertain").await;
    let (ada, other) = (world.people[0].0, world.people[1].0);
    for sql in [
        format!("DELETE FROM campaign_recipients WHERE lead_id = {other}"),
        format!("UPDATE leads SET merged_into_id = {other}, merged_at = 5 WHERE id = {ada}"),
        format!("UPDATE channel_identities SET lead_id = {other} WHERE lead_id = {ada}"),
        // As if she had been written down after she was merged.
        format!(
            "UPDATE campaign_recipients SET lead_id = {other} WHERE campaign_id = {}",
            sendings[1].campaign
        ),
        "DELETE FROM campaign_batches".to_owned(),
    ] {
        world.run(&sql).await;
    }
    let id = sendings[1].id(ADA).await;
    world
        .run(&format!(
            "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, due_at, fed_at)
             SELECT workspace_id, id, 1, '[{id}]', 1, 1, 1 FROM campaigns WHERE id = {}",
            sendings[1].campaign
        ))
        .await;
    let mut message: serde_json::Value = serde_json::from_str(&sendings[1].messages[0]).unwrap();
    message["campaign_recipient_ids"] = serde_json::json!([id]);
    assert_eq!(world.handle(&message.to_string()).await, Outcome::Done);
    assert!(world.had().is_empty(), "she may have the other one");
    assert_eq!(sendings[1].column(ADA, "status").await.as_deref(), Some("pending"));
}

async fn wherever_a_worker_ends_whoever_has_had_enough_is_still_to_come(bed: &Bed) {
    let world = World::new(bed, 6).await;
    world.allow(1).await;
    for turns in 0..40 {
        let sendings = world.campaigns(2).await;
        claim_ada(&sendings[0], "uncertain").await;
        let (message, case) = (&sendings[1].messages[0], format!("after {turns} turns"));
        let first = delivery(message);
        let handler = worker(bed, &world.provider, "node-9").await.handler();
        until_turn(handler.handle(&first), turns).await;
        let mut deliveries = 0;
        while world.handle(message).await != Outcome::Done {
            deliveries += 1;
            assert!(deliveries < 10, "{case}: it comes to no end");
            bed.clock.advance(70.seconds());
        }
        let statuses = sendings[1].statuses().await;
        let of = |status: &str| statuses.get(status).copied().unwrap_or(0);
        assert_eq!((of("sent") + of("uncertain"), of("pending")), (5, 1), "{case}: {statuses:?}");
        world.go_on(&sendings[1..], 25 * 60).await;
        assert_eq!(world.had().get(ADA), Some(&1), "{case}");
        begin_again(&world).await;
        bed.clock.advance(25.hours());
    }
}
