//! Stories of timelines: newest first, page by page, over all that was merged.

use jiff::{Timestamp, ToSpan as _};
use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::contracts::LeadIngestion;
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store};

use super::{Cursor, Listing, Newest, Range, ago, sentence, timeline, told_as};
use crate::event::StoredEvent;
use crate::identity::{Identity, Whom, find, merge};
use crate::ingestion::ingest;

each_store!(
    pages_are_whole_over_all_partitions,
    only_what_is_asked_for_is_told,
    an_event_is_found_by_what_its_source_calls_it,
);

fn whom(name: &str) -> Whom {
    Whom::Identity(Identity::new("user_id", name).unwrap())
}

async fn bring(cx: &Cx, who: &str, id: &str, (kind, at): (&str, Timestamp)) {
    let event = LeadIngestion {
        workspace: cx.workspace().clone(),
        source_type: "api".into(),
        source: "shop".into(),
        event_type: kind.into(),
        external_event_id: id.into(),
        occurred_at: at,
        received_at: cx.now(),
        identities: vec![(&Identity::new("user_id", who).unwrap()).into()],
        object_id: None,
        object_id_ref: None,
        payload: None,
        raw_payload: None,
        metadata: None,
    };
    ingest(cx, event).await.unwrap();
}

async fn walk(cx: &Cx, who: Whom, listing: Listing) -> Vec<String> {
    let (mut told, mut listing) = (Vec::new(), listing);
    loop {
        let page = timeline(cx, who.clone(), &listing).await.unwrap().unwrap();
        assert!(page.events.len() <= listing.limit);
        assert!(page.next.is_none() || page.events.len() == listing.limit);
        told.extend(page.events.into_iter().map(|event| event.external_event_id));
        let Some(next) = page.next else { return told };
        listing.cursor = Some(next.to_string().parse::<Cursor>().unwrap());
    }
}

async fn pages_are_whole_over_all_partitions(bed: &Bed) {
    let cx = bed.cx().await;
    let now = cx.now();
    // Many in the same moment, so that no page can end between two moments.
    let mut sorts = Vec::new();
    for number in 0..30_i64 {
        let (who, at) = (["a", "b", "c"][number as usize % 3], now - (number / 10).hours());
        let id = number.to_string();
        bring(&cx, who, &id, (["x", "y"][number as usize % 2], at)).await;
        sorts.push((at, crate::event::id_of("shop", &id), id));
    }
    let lead = |name: &str| {
        let (cx, whom) = (cx.clone(), whom(name));
        async move {
            timeline(&cx, whom, &Listing { limit: 1, ..Listing::default() }).await.unwrap().unwrap()
        }
    };
    let (a, b, c) = (lead("a").await, lead("b").await, lead("c").await);
    merge(&cx, c.owner.lead_id, b.owner.lead_id).await.unwrap();
    merge(&cx, a.owner.lead_id, b.owner.lead_id).await.unwrap();
    sorts.sort();
    let expected: Vec<_> = sorts.iter().rev().map(|(_, _, id)| id.clone()).collect();
    for limit in [1, 3, 7, 200] {
        let told = walk(&cx, whom("c"), Listing { limit, ..Listing::default() }).await;
        assert_eq!(told, expected, "{limit} at once");
        let types = vec!["x".to_owned(), "z".to_owned()];
        let told = walk(&cx, whom("b"), Listing { limit, types, ..Listing::default() }).await;
        let some: Vec<_> =
            expected.iter().filter(|id| id.parse::<i64>().unwrap() % 2 == 0).cloned().collect();
        assert_eq!(told, some, "{limit} of a type at once");
    }
}

async fn only_what_is_asked_for_is_told(bed: &Bed) {
    let cx = bed.cx().await;
    let now = cx.now();
    for hour in 0..6 {
        bring(&cx, "a", &hour.to_string(), ("x", now - hour.hours())).await;
    }
    let (after, before) = (Some(now - 4.hours()), Some(now - 1.hour()));
    for types in [Vec::new(), vec!["x".to_owned()]] {
        let listing = Listing { after, before, types: types.clone(), limit: 2, cursor: None };
        assert_eq!(walk(&cx, whom("a"), listing).await, ["2", "3", "4"]);
        let none = Listing { after: before, before: after, types, limit: 2, cursor: None };
        assert_eq!(walk(&cx, whom("a"), none).await, [""; 0]);
    }
    assert!(timeline(&cx, whom("nobody"), &Listing::default()).await.unwrap().is_none());
    for wrong in ["", "x", "2026-07-01T12:00:00.000Z", "2026-07-01T12:00:00Z#x", "0#../../x"] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
    }
}

async fn an_event_is_found_by_what_its_source_calls_it(bed: &Bed) {
    let cx = bed.cx().await;
    let found = async |source: &str, id: &str| {
        let found = told_as(&cx, source, id).await.unwrap();
        found.map(|(owner, event)| (owner.lead_id, event.event_type, event.external_event_id))
    };
    bring(&cx, "a", "order-1", ("bought", cx.now() - 1.hour())).await;
    bring(&cx, "b", "order-2", ("bought", cx.now())).await;
    let [a, b] = ["a", "b"].map(|name| find(&cx, whom(name)));
    let (a, b) = (a.await.unwrap().unwrap().lead_id, b.await.unwrap().unwrap().lead_id);
    let told = |lead, id: &str| Some((lead, "bought".to_owned(), id.to_owned()));
    assert_eq!(found("shop", "order-1").await, told(a, "order-1"));
    assert_eq!(found("shop", "order-2").await, told(b, "order-2"));
    let long = "x".repeat(3_000);
    for (source, id) in [
        ("shop", "order-3"),
        ("crm", "order-1"),
        ("", ""),
        ("a#b", "1"),
        ("shop", &long),
        (&long, "1"),
    ] {
        assert_eq!(found(source, id).await, None, "{source} {id}");
    }
    // Whoever he is now.
    merge(&cx, a, b).await.unwrap();
    assert_eq!(found("shop", "order-2").await, told(a, "order-2"));
    contacts::erase_contact(&cx, a).await.unwrap();
    assert_eq!(found("shop", "order-2").await, None);
}

fn event(id: &str, at: i64) -> StoredEvent {
    StoredEvent {
        lead_organization_id: "1".into(),
        id: id.into(),
        event_type: "x".into(),
        occurred_at: Timestamp::from_second(at).unwrap(),
        received_at: Timestamp::UNIX_EPOCH,
        source_type: "api".into(),
        source: "shop".into(),
        external_event_id: id.into(),
        object_id: None,
        object_id_ref: None,
        payload: serde_json::Map::new(),
        raw_payload: None,
    }
}

/// However many partitions there are, no more is held than is told, and the next are asked for less.
#[test]
fn what_is_held_for_a_page_has_an_end() {
    let (mut newest, listing) = (Newest::new(3), Listing::default());
    assert_eq!(Range::of(&listing, &newest).low, "0");
    for part in 0..50 {
        newest.add((0..5).map(|number| event(&format!("{part:02}-{number}"), number)).collect());
        assert_eq!(newest.events.len(), 3);
    }
    let last: Vec<_> = newest.events.values().map(|event| event.id.clone()).collect();
    assert_eq!(last, ["47-4", "48-4", "49-4"]);
    let range = Range::of(&listing, &newest);
    assert_eq!(range.low, "1970-01-01T00:00:04.000Z#47-4");
    assert!(range.has(&event("47-5", 4).key().sort.unwrap()));
    assert!(!range.has(&event("99-9", 3).key().sort.unwrap()));
}

#[test]
fn a_story_is_readable() {
    let check = |kind: &str, object: Option<&str>, payload: serde_json::Value, expected: &str| {
        let serde_json::Value::Object(payload) = payload else { unreachable!("it is an object") };
        let event = StoredEvent {
            lead_organization_id: "1".into(),
            id: "1".into(),
            event_type: kind.into(),
            occurred_at: Timestamp::UNIX_EPOCH,
            received_at: Timestamp::UNIX_EPOCH,
            source_type: "api".into(),
            source: "shop".into(),
            external_event_id: "1".into(),
            object_id: object.map(ToOwned::to_owned),
            object_id_ref: None,
            payload,
            raw_payload: None,
        };
        assert_eq!(sentence(&event), expected);
    };
    check(
        "email.opened",
        Some("campaign 7"),
        json!({"subject": "Welcome"}),
        "opened  “Welcome”  (campaign 7)",
    );
    check(
        "purchase_completed",
        None,
        json!({"amount": 12.5, "currency": "EUR"}),
        "purchase completed  12.5 EUR",
    );
    check(
        "sequence.entered",
        None,
        json!({"sequence": "welcome"}),
        "entered a sequence  “welcome”",
    );
    check("x", None, json!({"title": "y\n".repeat(100)}), &format!("x  “{}…”", "y".repeat(60)));
    // Nothing that somebody has sent steers a terminal, and nothing fills it.
    let (bell, long) = ("\u{1b}[2J\u{7}", "9".repeat(500));
    check("x", Some(&format!("a{bell}b")), json!({}), "x  (a[2Jb)");
    check("x", None, json!({"amount": format!("1{bell}"), "currency": bell}), "x  1[2J [2J");
    check("x", None, json!({"amount": long}), &format!("x  {}…", "9".repeat(60)));
    check("x", None, json!({"amount": {"a": [1, 2]}, "currency": "EUR"}), "x");
    check(&format!("x{bell}"), None, json!({}), "x[2J");
    let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
    for (hours, expected) in [
        (0, "just now"),
        (1, "1 hour ago"),
        (72, "3 days ago"),
        (24 * 800, "2 years ago"),
        (-1, "ahead of now"),
    ] {
        assert_eq!(ago(now - hours.hours(), now), expected);
    }
}
