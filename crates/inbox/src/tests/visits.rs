//! Inboxes that nobody has published to: looking at one leaves nothing behind, whatever its name.

use tidings_testbed::{Bed, each_store};

use super::world::{World, reader, reader_in, said};
use crate::forget;
use crate::marks::{Mark, ReadAll, mark, read_all};
use crate::read::{Listing, counts, list};

each_store!(
    looking_where_nobody_published_leaves_nothing,
    who_looked_before_the_first_message_gets_it,
    of_who_is_forgotten_nothing_is_left,
);

async fn looking_where_nobody_published_leaves_nothing(bed: &Bed) {
    let world = World::new(bed);
    let (cx, id) = (world.cx().await, world.publish("bob", "").await);
    for number in 0..30 {
        let reader = reader_in(&format!("made-up-{number}"), "ada");
        let told = counts(&cx, &world.inbox, &reader).await.unwrap();
        assert_eq!((told.total, told.unread), (0, 0));
        let listing = Listing { limit: 10, ..Listing::default() };
        let page = list(&cx, &world.inbox, &reader, listing).await.unwrap();
        assert_eq!((page.messages, page.next), (vec![], None));
        let ids = std::slice::from_ref(&id);
        let marked = mark(&cx, &world.inbox, &reader, Mark::Read, ids).await.unwrap();
        assert_eq!(marked, []);
        for category in [None, "news".parse().ok()] {
            let what = ReadAll { category, up_to: None };
            read_all(&cx, &world.inbox, &reader, what).await.unwrap();
        }
    }
    assert_eq!(said(bed, "made").await, [""; 0]);
    assert_eq!(said(bed, "ada").await, [""; 0]);
}

async fn who_looked_before_the_first_message_gets_it(bed: &Bed) {
    let (world, ada) = (World::new(bed), reader("ada"));
    assert_eq!(world.told("ada").await, "0 0");
    let workspace = "acme".parse().unwrap();
    let mut watching = world.inbox.hints.watch(&workspace, &ada.inbox, &ada.uid).unwrap();
    world.publish("", "news").await;
    watching.changed().await;
    assert_eq!(world.told("ada").await, "1 1; news 1 1");
    world.publish("ada", "").await;
    assert_eq!(world.told("ada").await, "2 2; news 1 1");
    world.verify().await;
}

async fn of_who_is_forgotten_nothing_is_left(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    world.publish("", "news").await;
    world.publish("ada,bob", "news").await;
    for inbox in ["app", "web", "made-up"] {
        counts(&cx, &world.inbox, &reader_in(inbox, "ada")).await.unwrap();
    }
    assert_ne!(said(bed, "ada").await, [""; 0]);
    forget(&cx, &"ada".parse().unwrap()).await.unwrap();
    assert_eq!(said(bed, "ada").await, [""; 0]);
    world.verify().await;
}
