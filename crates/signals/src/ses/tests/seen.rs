//! Who opened and clicked is decided of what the provider tells as of what our own links tell.

use jiff::ToSpan as _;
use serde_json::Value;
use tidings_jobs::Outcome;
use tidings_jobs::contracts::{Contract as _, SesWebhook};
use tidings_kernel::queues;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{World, envelope, fixture, worker};
use crate::events::tests::{counts, stored};
use crate::events::{Counts, keys};
use crate::replies::Replies;
use crate::tracking::evidence::json;
use crate::tracking::recompute;

each_store!(
    what_people_do_is_told_from_what_machines_do,
    sequences_hear_of_people_alone,
    a_scanner_of_every_link_is_no_person_in_whatever_order_it_is_told,
    a_delivery_that_is_told_later_corrects_who_it_was,
    what_our_own_links_tell_has_no_second_verdict,
);

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const SCANNER: &str = "BarracudaCentral";
const DELIVERED: &str = "2026-07-01T11:58:10.000Z";

/// A notification of this type, of this time today.
fn notice(name: &str, time: &str, agent: &str) -> Value {
    let mut event = fixture(name);
    event[name]["timestamp"] = format!("2026-07-01T{time}Z").into();
    event[name]["userAgent"] = agent.into();
    event
}

fn click(time: &str, agent: &str, link: &str) -> Value {
    let mut event = notice("click", time, agent);
    event["click"]["link"] = format!("https://shop.example/{link}").into();
    event
}

impl World<'_> {
    async fn hear(&self, id: &str, event: &Value) {
        assert_eq!(self.take(&envelope(id, event), 1).await, Outcome::Done, "{id}");
    }

    async fn deliver(&self, time: &str) {
        self.hear("sns-delivery", &notice("delivery", time, "")).await;
    }

    /// Clicks that looked like a person's have their second look.
    async fn look_again(&self) -> usize {
        self.bed.clock.advance(3.seconds());
        let worker = worker(Replies::new(self.bed.access.clone(), None));
        self.bed.work(&queues::SES_WEBHOOKS, worker).await
    }

    /// `open human: nothing_unusual` and the like, in the order in which it happened.
    async fn verdicts(&self) -> Vec<String> {
        let mut found: Vec<_> = stored(&self.cx).await;
        found.retain(|item| item.text("eventType") != Some("delivery"));
        found.sort_by_key(|item| item.text("SK").unwrap().to_owned());
        let told = found.iter().map(|item| {
            let verdict = item.get("verdict").map(json).unwrap_or_default();
            let who = verdict["who"].as_str().unwrap_or("-").to_owned();
            format!("{} {who}: {}", item.text("eventType").unwrap(), verdict["reasons"])
        });
        told.collect()
    }

    async fn counted(&self) -> Counts {
        counts(&self.cx, &keys::sequence("spring")).await
    }

    /// How many messages in a queue say that somebody opened, and how many that somebody clicked.
    async fn told(&self, queue: &'static str) -> (usize, usize) {
        let sql = "SELECT body FROM queue_messages WHERE queue = $1";
        let told = self.cx.database().read(move |tx| tx.query(sql, &[Param::Text(queue)])).await;
        let told = told.map_err(|error: DatabaseError| error).unwrap();
        let count = |word| told.iter().filter(|row| row.text(0).unwrap().contains(word)).count();
        (count("email.opened"), count("email.clicked"))
    }
}

async fn what_people_do_is_told_from_what_machines_do(bed: &Bed) {
    let world = World::new(bed).await;
    world.deliver("11:58:10.000").await;
    let seen = [
        notice("open", "11:58:11.000", FIREFOX),
        notice("open", "11:58:20.000", "Mozilla/5.0"),
        click("11:58:30.000", SCANNER, "a"),
        notice("open", "11:59:00.000", FIREFOX),
        click("11:59:30.000", FIREFOX, "a"),
    ];
    for _ in 0..2 {
        for (id, event) in seen.iter().enumerate() {
            world.hear(&format!("sns-{id}"), event).await;
        }
    }
    assert_eq!(world.verdicts().await.len(), 4, "the click of a person waits");
    assert_eq!(world.look_again().await, 1, "once, however often it was told");
    for (id, event) in seen.iter().enumerate() {
        world.hear(&format!("sns-{id}"), event).await;
    }
    assert_eq!(
        world.verdicts().await,
        [
            r#"open machine: ["too_soon_after_delivery"]"#,
            r#"open machine: ["privacy_proxy"]"#,
            r#"click machine: ["known_scanner"]"#,
            r#"open human: ["nothing_unusual"]"#,
            r#"click human: ["nothing_unusual"]"#,
        ]
    );
    let expected = Counts {
        delivery_count: 1,
        open_count: 3,
        unique_open_count: 1,
        human_open_count: 1,
        unique_human_open_count: 1,
        click_count: 2,
        unique_click_count: 1,
        human_click_count: 1,
        unique_human_click_count: 1,
        ..Counts::default()
    };
    assert_eq!(world.counted().await, expected);
    assert_eq!(world.told("lead-ingestion").await, (1, 1));
    assert_eq!(recompute(&world.cx, world.bob).await.unwrap(), 0, "nothing new is known");
    assert_eq!(world.counted().await, expected);
}

async fn sequences_hear_of_people_alone(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .run(
            "UPDATE transactional_messages SET ses_message_id = '0100018f-ses-ada', sequence_id = 'welcome',
                 status = 'sent', sent_at = 1, envelope = '{\"tracking\":\"off\"}'",
        )
        .await;
    let of_ada = |event: Value| {
        let text = event.to_string().replace("0100018f-ses-bob", "0100018f-ses-ada");
        serde_json::from_str(&text.replace("bob@example.org", "ada@example.org")).unwrap()
    };
    world.hear("sns-1", &of_ada(click("11:58:30.000", SCANNER, "a"))).await;
    world.hear("sns-2", &of_ada(notice("open", "11:58:40.000", "Mozilla/5.0"))).await;
    world.look_again().await;
    assert_eq!(world.told("sequence-events").await, (0, 0));
    world.hear("sns-3", &of_ada(notice("open", "11:59:20.000", FIREFOX))).await;
    world.hear("sns-4", &of_ada(click("11:59:30.000", FIREFOX, "a"))).await;
    world.look_again().await;
    assert_eq!(world.told("sequence-events").await, (1, 1));
}

async fn a_scanner_of_every_link_is_no_person_in_whatever_order_it_is_told(bed: &Bed) {
    let world = World::new(bed).await;
    world.deliver("11:58:10.000").await;
    let burst = ["11:59:30.000", "11:59:30.300", "11:59:30.600", "11:59:30.900"];
    // The first one is judged before the others are heard of: what it says is that it has waited.
    let first = SesWebhook::from_queue(
        &envelope("sns-2", &click(burst[2], FIREFOX, "2")),
        DELIVERED.parse().unwrap(),
    );
    let mut first = first.unwrap();
    first.metadata.as_mut().unwrap().insert("waited".to_owned(), true.into());
    assert_eq!(world.take(&first.to_body().unwrap(), 1).await, Outcome::Done);
    assert_eq!(world.counted().await.human_click_count, 1, "it looks like a person's");
    for at in [3, 0, 2, 1, 0, 3] {
        let event = click(burst[at], FIREFOX, &at.to_string());
        world.hear(&format!("sns-{at}"), &event).await;
    }
    world.look_again().await;
    assert_eq!(world.verdicts().await, [r#"click machine: ["many_links_at_once"]"#; 4]);
    let counted = world.counted().await;
    assert_eq!((counted.click_count, counted.unique_click_count), (4, 1));
    assert_eq!((counted.human_click_count, counted.unique_human_click_count), (0, 0));
    recompute(&world.cx, world.bob).await.unwrap();
    assert_eq!(world.counted().await, counted);
    assert_eq!(recompute(&world.cx, world.bob).await.unwrap(), 0);
}

async fn a_delivery_that_is_told_later_corrects_who_it_was(bed: &Bed) {
    let world = World::new(bed).await;
    world.hear("sns-1", &notice("open", "11:58:09.000", FIREFOX)).await;
    world.hear("sns-2", &click("11:58:11.000", FIREFOX, "a")).await;
    world.look_again().await;
    let counted = world.counted().await;
    assert_eq!((counted.human_open_count, counted.human_click_count), (1, 1));
    for _ in 0..2 {
        world.deliver("11:58:10.500").await;
        assert_eq!(
            world.verdicts().await,
            [
                r#"open machine: ["before_delivery"]"#,
                r#"click machine: ["too_soon_after_delivery"]"#,
            ]
        );
        let counted = world.counted().await;
        assert_eq!((counted.open_count, counted.click_count), (1, 1));
        assert_eq!((counted.human_open_count, counted.human_click_count), (0, 0));
    }
}

async fn what_our_own_links_tell_has_no_second_verdict(bed: &Bed) {
    let world = World::new(bed).await;
    world.run("UPDATE campaigns SET tracking = 1").await;
    world.hear("sns-1", &notice("open", "11:59:00.000", FIREFOX)).await;
    world.hear("sns-2", &click("11:59:30.000", FIREFOX, "a")).await;
    assert_eq!(world.look_again().await, 0);
    assert_eq!(world.verdicts().await, ["open -: null", "click -: null"]);
    assert_eq!(recompute(&world.cx, world.bob).await.unwrap(), 0);
    assert_eq!(world.told("lead-ingestion").await, (0, 0));
}
