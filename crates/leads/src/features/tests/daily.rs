//! Once a day, over months: what changes with time, for those who were there lately.

use jiff::ToSpan as _;
use serde_json::json;
use tidings_jobs::contracts::{Contract as _, LeadUpkeep, UpkeepTask};
use tidings_kernel::{Clock as _, Expect, Outgoing, Txn, Value, queues, tables};
use tidings_testbed::{Bed, each_store};

use super::world::{World, what};
use crate::features::{progress, rebuild_all, schedule};

each_store!(
    days_go_by,
    a_window_ends_for_whoever_went_quiet,
    whoever_was_not_there_for_100_days_is_left_alone,
    a_day_is_begun_once_in_every_workspace,
    everybody_is_rebuilt,
    an_item_that_cannot_be_read_holds_up_nobody,
    what_was_sent_is_ignored_where_nothing_tells_of_deliveries,
);

/// What the schedule sends for today, and the work on it.
pub(super) async fn day(world: &World<'_>) {
    let at = world.bed.clock.now();
    let message = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
    world.send(Outgoing::new(&queues::FEATURE_PROCESSING, message.to_body().unwrap())).await;
    world.work().await;
}

/// Somebody's features are damaged, or of a program that knows more. Events are the truth, so he is counted anew.
async fn an_item_that_cannot_be_read_holds_up_nobody(bed: &Bed) {
    let world = World::new(bed);
    let emails: Vec<String> = (0..5).map(|number| format!("p{number}@x.org")).collect();
    for email in &emails {
        let paid = json!({"amount": 10, "currency": "EUR"});
        world.happens(email, &what(1, "purchase_completed", "2026-06-30T10:00:00Z", paid)).await;
    }
    world.work().await;
    let items = world.cx().await.items().await.unwrap();
    for email in &emails[..2] {
        let mut item = world.item(email).await.unwrap();
        item.set("state", Value::M([("unheard_of".to_owned(), Value::from(1))].into()));
        let txn = Txn::new().put(&tables::FEATURE, item, Expect::Anything);
        items.transact(txn).await.unwrap();
    }
    bed.clock.advance(48.hours());
    day(&world).await;
    let since = world.told(&emails[4], "days_since_last_purchase").await;
    for email in &emails {
        assert_eq!(world.told(email, "days_since_last_purchase").await, since, "{email}");
        assert_eq!(world.told(email, "monetary_total").await, "10", "{email}");
    }
}

/// Over SMTP nobody tells that a mail was delivered: it was sent, and did not come back.
async fn what_was_sent_is_ignored_where_nothing_tells_of_deliveries(bed: &Bed) {
    let world = World::new(bed);
    bed.clock.set("2026-01-10T12:00:00Z".parse().unwrap());
    let campaign = || json!({"kind": "campaign"});
    let sent = |id| what(id, "email.sent", "2026-01-10T11:00:00Z", campaign());
    let check = async |email: &str, expected: &str| {
        assert_eq!(world.told(email, "campaign_ignored").await, expected, "{email}");
    };
    for (email, more) in [
        ("quiet@x.org", None),
        ("reader@x.org", Some("email.opened")),
        ("gone@x.org", Some("email.bounced")),
    ] {
        world.happens(email, &sent(1)).await;
        if let Some(kind) = more {
            world.happens(email, &what(2, kind, "2026-01-10T11:30:00Z", campaign())).await;
        }
    }
    // Where deliveries are told of, what was sent last and not delivered yet was ignored by nobody.
    let told = "told@x.org";
    world.happens(told, &what(1, "email.delivered", "2026-01-09T11:00:00Z", campaign())).await;
    world.happens(told, &what(2, "email.opened", "2026-01-09T12:00:00Z", campaign())).await;
    world.happens(told, &sent(3)).await;
    world.work().await;
    bed.clock.set("2026-01-17T06:00:00Z".parse().unwrap());
    day(&world).await;
    check("quiet@x.org", "true").await;
    check("reader@x.org", "false").await;
    check("gone@x.org", "false").await;
    check(told, "false").await;
    let now = bed.clock.now();
    for email in ["quiet@x.org", "gone@x.org", told] {
        assert_eq!(world.features(email).await.values, world.as_of(email, now).await.values);
    }
}

async fn days_go_by(bed: &Bed) {
    let world = World::new(bed);
    bed.clock.set("2026-01-10T12:00:00Z".parse().unwrap());
    let ada = "ada@x.org";
    let paid = json!({"amount": 10, "currency": "EUR"});
    world.happens(ada, &what(1, "purchase_completed", "2026-01-10T10:00:00Z", paid)).await;
    let campaign = json!({"kind": "campaign"});
    world.happens(ada, &what(2, "email.delivered", "2026-01-10T11:00:00Z", campaign)).await;
    let wrote = json!({"sentiment": "positive"});
    world.happens(ada, &what(3, "message_received", "2026-01-10T10:30:00Z", wrote)).await;
    world.work().await;
    let mut story = Vec::new();
    bed.clock.set("2026-01-11T06:00:00Z".parse().unwrap());
    for number in 1..=95 {
        day(&world).await;
        let now = bed.clock.now();
        let features = world.features(ada).await;
        // Whoever computes from the events finds the same, while he is looked after.
        if number <= 99 {
            assert_eq!(features.values, world.as_of(ada, now).await.values, "{now}");
            assert_eq!(features.score, world.as_of(ada, now).await.score, "{now}");
        }
        if [1, 6, 7, 29, 30, 89, 90, 91, 95].contains(&number) {
            let mut line = format!("{number:2}");
            for name in [
                "recency_days",
                "days_since_last_purchase",
                "campaign_ignored",
                "sentiment_avg_30d",
                "frequency_purchases_90d",
                "engagement_score",
            ] {
                line += &format!(" {}", world.told(ada, name).await);
            }
            story.push(line);
        }
        bed.clock.advance(24.hours());
    }
    insta::assert_snapshot!("days_go_by", story.join("\n"));
}

/// Also if he was last there before six in the morning, and if no day was computed when it ended.
async fn a_window_ends_for_whoever_went_quiet(bed: &Bed) {
    let world = World::new(bed);
    bed.clock.set("2026-01-10T05:00:00Z".parse().unwrap());
    let (paid, campaign) = (json!({"amount": 10, "currency": "EUR"}), json!({"kind": "campaign"}));
    let happens = async |who: &str, number, time: &str| {
        let at = format!("2026-01-10T{time}Z");
        world.happens(who, &what(number, "purchase_completed", &at, paid.clone())).await;
        world.happens(who, &what(number + 1, "email.delivered", &at, campaign.clone())).await;
    };
    happens("early@x.org", 1, "00:00:00").await;
    happens("before@x.org", 3, "04:59:59").await;
    bed.clock.set("2026-01-10T23:59:59Z".parse().unwrap());
    happens("late@x.org", 5, "23:59:59").await;
    world.work().await;
    for (day_of, purchases, ignored) in [
        ("2026-04-09T06:00:00Z", "1", "true"),
        ("2026-04-10T06:00:00Z", "0", "true"),
        // The one between was not computed.
        ("2026-04-12T06:00:00Z", "0", "false"),
    ] {
        bed.clock.set(day_of.parse().unwrap());
        day(&world).await;
        for who in ["early@x.org", "before@x.org", "late@x.org"] {
            let told = world.told(who, "frequency_purchases_90d").await;
            assert_eq!(told, purchases, "{who} {day_of}");
            assert_eq!(world.told(who, "campaign_ignored").await, ignored, "{who} {day_of}");
            let scratch = world.as_of(who, bed.clock.now()).await;
            assert_eq!(world.features(who).await.values, scratch.values, "{who} {day_of}");
        }
    }
}

async fn whoever_was_not_there_for_100_days_is_left_alone(bed: &Bed) {
    let world = World::new(bed);
    let opened = |id, at: &str| what(id, "email.opened", at, json!({}));
    world.happens("old@x.org", &opened(1, "2026-03-01T10:00:00Z")).await;
    world.happens("new@x.org", &opened(2, "2026-06-25T10:00:00Z")).await;
    world.work().await;
    let (old, new) = (world.item("old@x.org").await, world.item("new@x.org").await);
    bed.clock.set("2026-07-03T06:00:00Z".parse().unwrap());
    day(&world).await;
    assert_eq!(world.item("old@x.org").await, old);
    assert_ne!(world.item("new@x.org").await, new);
    let progress = progress(&world.cx().await, UpkeepTask::Daily).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.finished_at), (1, Some(bed.clock.now())));
}

async fn a_day_is_begun_once_in_every_workspace(bed: &Bed) {
    let world = World::new(bed);
    bed.make_workspace("other").await;
    bed.clock.set("2026-07-02T06:00:00Z".parse().unwrap());
    for _ in 0..2 {
        day(&world).await;
    }
    for name in ["acme", "other"] {
        let progress = progress(&bed.inside(name).await, UpkeepTask::Daily).await.unwrap();
        let progress = progress.unwrap();
        assert_eq!((progress.at, progress.done), (bed.clock.now(), 0));
    }
    // The cron of the schedule is six in the morning, and what it sends is what `day` sends.
    let schedule = schedule("0 6 * * *").unwrap();
    let next = schedule.after(bed.clock.now()).unwrap();
    assert_eq!(next.to_string(), "2026-07-03T06:00:00Z");
}

async fn everybody_is_rebuilt(bed: &Bed) {
    let world = World::new(bed);
    for number in 0..120 {
        let paid = json!({"amount": number, "product": "whey"});
        let happening = what(number, "purchase_completed", "2026-06-30T10:00:00Z", paid);
        world.store(&format!("u{number}@x.org"), &happening).await;
    }
    let cx = world.cx().await;
    assert!(rebuild_all(&cx).await.unwrap());
    assert!(!rebuild_all(&cx).await.unwrap(), "it is begun already");
    world.work().await;
    for number in [0, 60, 119] {
        let email = format!("u{number}@x.org");
        assert_eq!(world.told(&email, "monetary_total").await, number.to_string());
        assert_ne!(world.remembers(&email, "purchase#product:whey").await, "-");
    }
    let progress = progress(&cx, UpkeepTask::Rebuild).await.unwrap().unwrap();
    assert_eq!(progress.done, 120);
    assert!(progress.finished_at.is_some());
}
