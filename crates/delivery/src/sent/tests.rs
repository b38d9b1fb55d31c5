//! The send log and the profile that it may have to make.

use std::time::Duration;

use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, LeadIngestion};
use tidings_kernel::{
    EmailAddress, Expect, Item, Query, QueueEngine as _, Receive, Scan, Update, Value, queues,
    tables,
};
use tidings_people::contacts::{self, Upsert};
use tidings_people::keys;
use tidings_testbed::{Bed, each_store};

use super::{Line, record, record_all};
use crate::counters;
use crate::ledger::Source;

each_store!(
    many_lines_at_once_are_what_each_would_be_alone,
    who_left_and_was_erased_is_not_let_back_by_a_line,
    lines_of_one_millisecond_stand_side_by_side,
    a_profile_that_is_there_is_left_alone,
    a_line_is_counted_where_it_belongs_and_once,
    a_line_past_its_time_is_not_counted_again,
    what_nobody_waited_for_is_told_to_the_timeline,
);

/// Once, and not of what somebody waited for. A campaign delays nothing that single people do.
async fn what_nobody_waited_for_is_told_to_the_timeline(bed: &Bed) {
    let cx = bed.cx().await;
    let part = |line: Line, of: &str| Line { sequence_id: Some(of.to_owned()), ..line };
    let lines = [
        line(&cx, 1),
        part(line(&cx, 2), "welcome"),
        Line { awaited: true, ..part(line(&cx, 3), "reset") },
        part(Line { source: Source::Recipient(4), ..line(&cx, 4) }, "spring"),
    ];
    for _ in 0..2 {
        record_all(&cx, &lines, None).await.unwrap();
    }
    let receive = Receive { max: 10, lease: Duration::from_secs(60), wait: Duration::ZERO };
    let mut told = Vec::new();
    for queue in [&queues::LEAD_INGESTION, &queues::LEAD_INGESTION_BULK] {
        for one in bed.queues.receive(queue, receive).await.unwrap() {
            let event = LeadIngestion::parse(&one.body).unwrap();
            let kind = event.payload.unwrap()["kind"].as_str().unwrap().to_owned();
            told.push(format!("{queue}: {} {kind} {}", event.event_type, event.object_id.unwrap()));
        }
    }
    let expected = [
        "lead-ingestion: email.sent sequence welcome",
        "lead-ingestion-bulk: email.sent campaign spring",
    ];
    assert_eq!(told, expected);
}

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

fn line(cx: &Cx, id: i64) -> Line {
    Line {
        email: ada(),
        at: cx.now(),
        source: Source::Transactional(id),
        subject: "Your receipt".to_owned(),
        template_key: None,
        sequence_id: None,
        awaited: false,
        provider_message_id: None,
    }
}

async fn upsert(cx: &Cx) {
    let upsert = Upsert {
        email: ada(),
        first_name: None,
        attributes: contacts::Attributes::default(),
        tags: None,
    };
    contacts::upsert(cx, upsert).await.unwrap();
}

async fn leave(cx: &Cx) {
    let leave = Update::new(&tables::MAIN, keys::profile(&ada())).set("unsubscribed", true);
    cx.items().await.unwrap().update(leave.expect(Expect::Present)).await.unwrap();
}

async fn profile(cx: &Cx) -> Option<Item> {
    cx.items().await.unwrap().get(&tables::MAIN, &keys::profile(&ada())).await.unwrap()
}

async fn who_left_and_was_erased_is_not_let_back_by_a_line(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx).await;
    leave(&cx).await;
    contacts::erase(&cx, &ada()).await.unwrap();
    record(&cx, &line(&cx, 1), None).await.unwrap();
    let made = profile(&cx).await.unwrap();
    assert_eq!(made.get("unsubscribed"), Some(&Value::Bool(true)));
    assert_eq!(made.get("suppressed"), Some(&Value::Bool(false)));
}

async fn lines_of_one_millisecond_stand_side_by_side(bed: &Bed) {
    let cx = bed.cx().await;
    for _ in 0..2 {
        for id in 1..=3 {
            record(&cx, &line(&cx, id), None).await.unwrap();
        }
    }
    let lines = Query::new(&tables::MAIN, keys::subscriber(&ada())).begins_with("SENT#");
    let lines = cx.items().await.unwrap().query(lines.limit(10)).await.unwrap().items;
    let messages: Vec<_> = lines.iter().filter_map(|item| item.text("message")).collect();
    let wanted: Vec<_> = (1..=3).map(|id| Source::Transactional(id).reference()).collect();
    assert_eq!(messages, wanted);
}

async fn a_profile_that_is_there_is_left_alone(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx).await;
    leave(&cx).await;
    let before = profile(&cx).await;
    bed.advance(5).await;
    record(&bed.cx().await, &line(&cx, 1), None).await.unwrap();
    assert_eq!(profile(&cx).await, before);
}

async fn sends(cx: &Cx, key: tidings_kernel::Key) -> i64 {
    let item = cx.items().await.unwrap().get(&tables::MAIN, &key).await.unwrap();
    item.and_then(|item| item.integer(counters::SENDS)).unwrap_or(0)
}

async fn sends_of_day(cx: &Cx, day: jiff::civil::Date) -> i64 {
    let mut sum = 0;
    for shard in 0..counters::keys::SHARDS {
        sum += sends(cx, counters::keys::day(day, shard)).await;
    }
    sum
}

async fn a_line_is_counted_where_it_belongs_and_once(bed: &Bed) {
    let cx = bed.cx().await;
    for _ in 0..2 {
        for id in 1..=3 {
            let at = "2026-07-01T23:59:59.999Z".parse().unwrap();
            let mut line = Line { at, template_key: Some("order".to_owned()), ..line(&cx, id) };
            line.sequence_id = (id == 1).then(|| "spring".to_owned());
            record(&cx, &line, None).await.unwrap();
        }
    }
    assert_eq!(sends(&cx, counters::keys::template("order")).await, 3);
    assert_eq!(sends(&cx, counters::keys::sequence("spring")).await, 1);
    // Two of them moved on by a millisecond or two, into the next day: the numbers are those of the lines.
    assert_eq!(sends_of_day(&cx, jiff::civil::date(2026, 7, 1)).await, 1);
    assert_eq!(sends_of_day(&cx, jiff::civil::date(2026, 7, 2)).await, 2);
}

/// A read does not show it any more, and a write still meets it until it is swept.
async fn a_line_past_its_time_is_not_counted_again(bed: &Bed) {
    let cx = bed.cx().await;
    let line = Line { template_key: Some("order".to_owned()), ..line(&cx, 1) };
    let at = record(&cx, &line, Some(1)).await.unwrap();
    bed.advance(3 * 24 * 60).await;
    let cx = bed.cx().await;
    assert_eq!(record(&cx, &line, Some(1)).await.unwrap(), at);
    assert_eq!(sends(&cx, counters::keys::template("order")).await, 1);
}

/// Everything in the main table, in the order of its keys.
async fn everything(bed: &Bed) -> Vec<Item> {
    let items = bed.cx().await.items().await.unwrap();
    let mut all = items.scan(Scan::new(&tables::MAIN).limit(5_000)).await.unwrap().items;
    all.sort_by_key(|item| {
        (item.text("PK").map(str::to_owned), item.text("SK").map(str::to_owned))
    });
    all
}

/// Lines of few people in few milliseconds around midnight, some of them again and some of people without a profile.
fn some_lines(random: &mut fastrand::Rng) -> Vec<Line> {
    let midnight: jiff::Timestamp = "2026-07-02T00:00:00Z".parse().unwrap();
    let one = |random: &mut fastrand::Rng| {
        let id = random.i64(1..400);
        let texts = [None, Some("order".to_owned()), Some("spring".to_owned())];
        Line {
            // Who gets it and when belongs to the message.
            email: format!("p{}@example.org", id % 90).parse().unwrap(),
            at: midnight + jiff::SignedDuration::from_millis(id % 5 - 3),
            source: Source::Recipient(id),
            subject: format!("Hello {id}"),
            template_key: texts[(id % 3) as usize].clone(),
            sequence_id: texts[(id % 2) as usize].clone(),
            awaited: false,
            provider_message_id: None,
        }
    };
    (0..random.usize(1..200)).map(|_| one(random)).collect()
}

async fn many_lines_at_once_are_what_each_would_be_alone(bed: &Bed) {
    let mut random = fastrand::Rng::with_seed(7);
    let alone = Bed::memory().await;
    for round in 0..4 {
        let lines = some_lines(&mut random);
        let (together, cx) =
            (record_all(&bed.cx().await, &lines, Some(30)).await.unwrap(), alone.cx().await);
        for (line, at) in lines.iter().zip(together) {
            assert_eq!(record(&cx, line, Some(30)).await.unwrap(), at, "in round {round}");
        }
        assert_eq!(everything(bed).await, everything(&alone).await, "after round {round}");
    }
}
