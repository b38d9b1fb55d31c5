//! Every event is found by whoever asks for it, whatever else there is.

use jiff::Timestamp;
use jiff::civil::{Date, date};
use tidings_access::{Cx, Limit};
use tidings_kernel::Cursor;
use tidings_testbed::{Bed, each_store};

use super::{Filter, ListError, Of, StatsError, days, list, sequence, template};
use crate::events::tests::{event, messages};
use crate::events::{EventKind, record};

each_store!(
    each_bound_works_without_the_other,
    a_rare_type_is_found_among_many_events,
    templates_and_sequences_have_their_events,
    days_add_up,
    what_cannot_be_asked_is_said,
);

fn at(minute: i64) -> Timestamp {
    let start: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
    start + jiff::SignedDuration::from_mins(minute)
}

/// Clicks of bob, one each minute, and an unsubscribe at the end.
async fn clicks(bed: &Bed, count: i64) -> Cx {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    for minute in 0..count {
        let mut click = event(&format!("e-{minute}"), EventKind::Click, bob);
        click.occurred_at = at(minute);
        record(&cx, click).await.unwrap();
    }
    let mut last = event("u", EventKind::Unsubscribe, bob);
    last.occurred_at = at(-1);
    record(&cx, last).await.unwrap();
    cx
}

fn of_bob() -> Filter {
    let of = Of::Contact("bob@example.org".parse().unwrap());
    Filter { of, kind: None, from: None, to: None }
}

/// The ids of all pages.
async fn walk(cx: &Cx, filter: &Filter, limit: i64) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let limit = Limit::try_from(limit).unwrap();
        let page = list(cx, filter, cursor, limit).await.unwrap();
        ids.extend(page.items.into_iter().filter_map(|event| event.id));
        cursor = page.next;
        if cursor.is_none() {
            return ids;
        }
    }
}

async fn each_bound_works_without_the_other(bed: &Bed) {
    let cx = clicks(bed, 5).await;
    for (from, to, expected) in [
        (None, None, "e-4 e-3 e-2 e-1 e-0 u"),
        (Some(at(2)), None, "e-4 e-3 e-2"),
        (None, Some(at(1)), "e-1 e-0 u"),
        (Some(at(1)), Some(at(2)), "e-2 e-1"),
        (Some(at(2)), Some(at(2)), "e-2"),
        (Some(Timestamp::MIN), Some(at(0)), "e-0 u"),
    ] {
        let filter = Filter { from, to, ..of_bob() };
        for limit in [1, 2, 100] {
            assert_eq!(walk(&cx, &filter, limit).await.join(" "), expected, "{from:?} {to:?}");
        }
    }
}

async fn a_rare_type_is_found_among_many_events(bed: &Bed) {
    let cx = clicks(bed, 60).await;
    let filter = Filter { kind: Some("unsubscribe".into()), ..of_bob() };
    assert_eq!(walk(&cx, &filter, 1).await, ["u"]);
    let filter = Filter { kind: Some("click".into()), ..of_bob() };
    assert_eq!(walk(&cx, &filter, 7).await.len(), 60);
}

async fn templates_and_sequences_have_their_events(bed: &Bed) {
    let cx = clicks(bed, 3).await;
    for of in [Of::Template("broadcasts/spring".into()), Of::Sequence("spring".into())] {
        let filter = Filter { of, from: Some(at(1)), ..of_bob() };
        assert_eq!(walk(&cx, &filter, 2).await, ["e-2", "e-1"]);
    }
    let counted = sequence(&cx, "spring").await.unwrap().unwrap();
    assert_eq!((counted.click_count, counted.unique_click_count), (3, 1));
    assert_eq!(template(&cx, "broadcasts/spring").await.unwrap(), Some(counted));
    assert_eq!(sequence(&cx, "fire_and_forget").await.unwrap(), None);
    let other = bed.make_workspace("other").await;
    assert_eq!(sequence(&other, "spring").await.unwrap(), None);
    let filter = Filter { of: Of::Sequence("spring".into()), ..of_bob() };
    assert!(walk(&other, &filter, 2).await.is_empty());
}

async fn days_add_up(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    for (id, at) in [
        ("a", "2026-06-30T23:59:59.999Z"),
        ("b", "2026-07-01T00:00:00Z"),
        ("c", "2026-07-01T23:59:59.999Z"),
        ("d", "2026-07-03T00:00:00Z"),
    ] {
        let mut open = event(id, EventKind::Open, bob);
        open.occurred_at = at.parse().unwrap();
        record(&cx, open).await.unwrap();
    }
    let found = days(&cx, date(2026, 6, 30), date(2026, 7, 3)).await.unwrap();
    let found: Vec<_> = found.iter().map(|(day, counts)| (day.day(), counts.open_count)).collect();
    assert_eq!(found, [(30, 1), (1, 2), (2, 0), (3, 1)]);
}

async fn what_cannot_be_asked_is_said(bed: &Bed) {
    let cx = bed.cx().await;
    let limit = Limit::MAX;
    let backwards = Filter { from: Some(at(2)), to: Some(at(1)), ..of_bob() };
    assert!(matches!(list(&cx, &backwards, None, limit).await, Err(ListError::Backwards)));
    let cursor = Some(Cursor::from("nonsense".to_owned()));
    assert!(matches!(list(&cx, &of_bob(), cursor, limit).await, Err(ListError::Cursor)));
    let kind = Filter { kind: Some("smile".into()), ..of_bob() };
    assert!(matches!(list(&cx, &kind, None, limit).await, Err(ListError::Kind)));
    let (first, last): (Date, Date) = (date(2026, 1, 1), date(2027, 1, 2));
    assert!(matches!(days(&cx, last, first).await, Err(StatsError::Backwards)));
    assert!(matches!(days(&cx, first, last).await, Err(StatsError::TooLong)));
    assert_eq!(days(&cx, first, date(2027, 1, 1)).await.unwrap().len(), 366);
}
