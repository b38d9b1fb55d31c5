//! Looking at sequences, and the programs that are kept.

use std::sync::Arc;

use serde_json::json;
use tidings_testbed::{Bed, each_store};

use super::super::{List, Status, Versions, list, set_status, show, versions};
use super::{make_audience, make_topic, prepare, prepare_in, put_welcome, rows};

each_store!(
    a_list_comes_in_pages_and_shows_nobody_elses,
    versions_come_in_pages,
    what_is_active_is_known_with_what_it_names,
    a_program_is_read_once,
);

async fn a_list_comes_in_pages_and_shows_nobody_elses(bed: &Bed) {
    let cx = prepare(bed).await;
    for id in ["c", "a", "b"] {
        put_welcome(&cx, json!({ "id": id, "name": format!("The {id}") })).await;
    }
    set_status(&cx, "b", Status::Paused).await.unwrap();
    let two = "2".parse().unwrap();
    let page = list(&cx, List { limit: two, ..List::default() }).await.unwrap();
    let ids: Vec<_> = page.items.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, page.next.as_ref().map(|id| id.as_str())), (vec!["a", "b"], Some("b")));
    let page = list(&cx, List { after: page.next, limit: two, ..List::default() }).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, None));
    let last = &page.items[0];
    assert_eq!((last.id.as_str(), last.name.as_deref()), ("c", Some("The c")));
    assert_eq!(last.trigger.as_deref(), Some("user.created"));
    assert_eq!((last.client_slug.as_str(), last.transactional), ("shop", false));
    let paused = List { status: Some(Status::Paused), ..List::default() };
    assert_eq!(list(&cx, paused).await.unwrap().items.len(), 1);
    let other = List { client: Some(999.into()), ..List::default() };
    assert_eq!(list(&cx, other).await.unwrap().items.len(), 0);
    let elsewhere = bed.make_workspace("other").await;
    assert_eq!(list(&elsewhere, List::default()).await.unwrap().items.len(), 0);
    assert_eq!(show(&elsewhere, "a").await.unwrap(), None);
    assert_eq!(Versions::default().active(&elsewhere, "a").await.unwrap().map(|_| ()), None);
}

async fn versions_come_in_pages(bed: &Bed) {
    let cx = prepare(bed).await;
    for number in 0..5 {
        put_welcome(&cx, json!({ "name": format!("number {number}") })).await;
    }
    let two = "2".parse().unwrap();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = versions(&cx, "welcome", before, two).await.unwrap();
        seen.extend(page.items.iter().map(|version| version.version));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1]);
    assert!(versions(&cx, "nothing", None, two).await.unwrap().items.is_empty());
}

async fn what_is_active_is_known_with_what_it_names(bed: &Bed) {
    let cx = prepare(bed).await;
    let kept = Versions::default();
    assert!(kept.active(&cx, "welcome").await.unwrap().is_none());
    make_audience(&cx, "news").await;
    make_topic(&cx, "tips").await;
    put_welcome(&cx, json!({ "audience": "news", "topic": "tips" })).await;
    let active = kept.active(&cx, "welcome").await.unwrap().unwrap();
    assert_eq!(active.client, bed.shop(&cx).await.id);
    assert_eq!(kept.client(&cx, "shop").await.unwrap(), Some(active.client));
    assert_eq!(kept.client(&cx, "nobody").await.unwrap(), None);
    assert!(active.audience.is_some() && active.topic.is_some() && active.takes_people);
    assert_eq!((active.version, active.program.places.len()), (1, 1));
    set_status(&cx, "welcome", Status::Paused).await.unwrap();
    assert!(!kept.active(&cx, "welcome").await.unwrap().unwrap().takes_people);
    put_welcome(&cx, json!({ "steps": [{ "send": "hello" }, { "send": "bye" }] })).await;
    let active = kept.active(&cx, "welcome").await.unwrap().unwrap();
    assert_eq!((active.version, active.program.places.len()), (2, 2));
    assert_eq!((active.audience, active.topic), (None, None));
    let first = kept.program(&cx, "welcome", 1).await.unwrap().unwrap();
    assert_eq!(first.places.len(), 1);
    assert!(kept.program(&cx, "welcome", 3).await.unwrap().is_none());
}

async fn a_program_is_read_once(bed: &Bed) {
    let cx = prepare(bed).await;
    put_welcome(&cx, json!({})).await;
    let kept = Versions::default();
    let first = kept.clone().program(&cx, "welcome", 1).await.unwrap().unwrap();
    let again = kept.program(&cx, "welcome", 1).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    // The same name in another workspace is another sequence.
    let other = bed.make_workspace("other").await;
    prepare_in(bed, &other).await;
    put_welcome(&other, json!({ "steps": [{ "send": "bye" }, { "send": "hello" }] })).await;
    let theirs = kept.program(&other, "welcome", 1).await.unwrap().unwrap();
    assert_eq!((first.places.len(), theirs.places.len()), (1, 2));
    // More than are kept push out the oldest, which is read again.
    for number in 0..205 {
        put_welcome(&cx, json!({ "id": format!("n{number}") })).await;
        kept.program(&cx, &format!("n{number}"), 1).await.unwrap();
    }
    let later = kept.program(&cx, "welcome", 1).await.unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first, &later));
    assert_eq!(rows(&cx, "SELECT 'x' FROM sequence_versions").await.len(), 207);
}
