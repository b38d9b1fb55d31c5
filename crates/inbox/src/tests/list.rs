//! What a user sees: his own messages and those of everyone as one row.

use jiff::ToSpan as _;
use tidings_testbed::{Bed, each_store};

use super::world::{World, reader};
use crate::ids::MessageId;
use crate::marks::Mark;
use crate::read::{Listing, message, newer};

each_store!(
    both_are_one_row_by_id,
    filters_leave_out_the_rest,
    a_walk_that_finds_little_ends_early_and_goes_on,
    what_is_past_its_time_is_not_shown,
    what_came_since_is_told_in_order,
    a_public_message_is_known_at_once_on_every_node,
);

fn pages_of(limit: usize) -> Listing {
    Listing { limit, ..Listing::default() }
}

async fn both_are_one_row_by_id(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..23 {
        ids.push(world.publish(["ada", "", "bob", ""][number % 4], "").await);
    }
    let expected = |mine: &str| {
        let seen =
            (0..23).filter(|number| ["", mine].contains(&["ada", "", "bob", ""][number % 4]));
        let mut seen: Vec<MessageId> = seen.map(|number| ids[number].clone()).collect();
        seen.reverse();
        seen
    };
    // Receipts stand where messages of his own would.
    world.mark("ada", Mark::Read, &[&ids[1], &ids[7], &ids[9]]).await;
    for limit in [1, 2, 5, 100] {
        assert_eq!(world.ids("ada", pages_of(limit)).await, expected("ada"), "{limit}");
        assert_eq!(world.ids("bob", pages_of(limit)).await, expected("bob"), "{limit}");
        assert_eq!(world.ids("eve", pages_of(limit)).await, expected(""), "{limit}");
    }
    let page = world.list("ada", pages_of(100)).await;
    assert_eq!(page.next, None);
    assert_eq!((page.counts.total, page.counts.unread), (17, 14));
    let unread = page.messages.iter().filter(|shown| shown.is_unread).count();
    assert_eq!(unread, 14);
    let cx = world.cx().await;
    for shown in page.messages {
        let id = &shown.message.id;
        let alone = message(&cx, &world.inbox, &reader("ada"), id).await.unwrap();
        assert_eq!(alone, Some(shown));
    }
    assert_eq!(message(&cx, &world.inbox, &reader("ada"), &ids[2]).await.unwrap(), None);
}

async fn filters_leave_out_the_rest(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..12 {
        let category = ["news", "order", ""][number % 3];
        ids.push(world.publish(["ada", ""][number % 2], category).await);
    }
    let some = |numbers: &[usize]| -> Vec<MessageId> {
        numbers.iter().map(|number| ids[*number].clone()).collect()
    };
    let news = Listing { category: "news".parse().ok(), ..pages_of(2) };
    assert_eq!(world.ids("ada", news.clone()).await, some(&[9, 6, 3, 0]));
    world.mark("ada", Mark::Read, &[&ids[6], &ids[3]]).await;
    let unread = Listing { unread_only: true, ..news.clone() };
    assert_eq!(world.ids("ada", unread).await, some(&[9, 0]));
    world.mark("ada", Mark::Archive, &[&ids[9], &ids[1]]).await;
    assert_eq!(world.ids("ada", news.clone()).await, some(&[6, 3, 0]));
    let archived = Listing { archived: true, ..pages_of(1) };
    assert_eq!(world.ids("ada", archived).await, some(&[9, 1]));
    let other = Listing { category: "other".parse().ok(), ..pages_of(2) };
    assert_eq!(world.ids("ada", other).await, []);
}

async fn a_walk_that_finds_little_ends_early_and_goes_on(bed: &Bed) {
    let world = World::new(bed);
    let wanted = world.publish("ada", "news").await;
    let cx = world.cx().await;
    // So many that publishing them would take a while.
    let items = cx.items().await.unwrap();
    let table = &tidings_kernel::tables::INBOX;
    let query = tidings_kernel::Query::new(table, "t#acmeU#ada#app").begins_with("m#");
    let mut other = items.query(query).await.unwrap().items.remove(0);
    other.remove("taxonomy");
    for number in 0..900 {
        let id = format!("ZZZZZZZZ{number:09}");
        let copy = other.clone().with("id", id.as_str()).with("SK", format!("m#{id}"));
        items.put(tidings_kernel::Put::new(table, copy)).await.unwrap();
    }
    let news = Listing { category: "news".parse().ok(), ..pages_of(5) };
    let first = world.list("ada", news.clone()).await;
    assert_eq!(first.messages, []);
    assert!(first.next.is_some());
    assert_eq!(world.ids("ada", news).await, [wanted]);
}

async fn what_is_past_its_time_is_not_shown(bed: &Bed) {
    let world = World::new(bed);
    let (own, public) =
        (world.publish_for("ada", "", "10m").await, world.publish_for("", "", "10m").await);
    let stays = world.publish("ada", "").await;
    assert_eq!(world.told("ada").await, "3 3");
    bed.clock.advance(11.minutes());
    assert_eq!(world.ids("ada", pages_of(10)).await, [stays]);
    let cx = world.cx().await;
    for id in [own, public] {
        assert_eq!(message(&cx, &world.inbox, &reader("ada"), &id).await.unwrap(), None);
        assert_eq!(world.mark("ada", Mark::Read, &[&id]).await, []);
    }
}

async fn what_came_since_is_told_in_order(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(world.publish(["ada", "", "bob"][number % 3], "").await);
    }
    world.mark("ada", Mark::Read, &[&ids[4], &ids[10]]).await;
    let since = async |after: usize, limit: usize| {
        let cx = world.cx().await;
        let found = newer(&cx, &world.inbox, &reader("ada"), &ids[after], limit).await.unwrap();
        let place = |id: &MessageId| ids.iter().position(|known| known == id).unwrap();
        let found_ids = found.messages.iter().map(|shown| place(&shown.message.id));
        (found_ids.collect::<Vec<_>>(), found.more)
    };
    assert_eq!(since(2, 100).await, (vec![3, 4, 6, 7, 9, 10], false));
    assert_eq!(since(2, 3).await, (vec![3, 4, 6], true));
    assert_eq!(since(6, 3).await, (vec![7, 9, 10], false));
    assert_eq!(since(10, 3).await, (vec![], false));
}

async fn a_public_message_is_known_at_once_on_every_node(bed: &Bed) {
    let (one, two) = (World::new(bed), World::new(bed));
    for round in 1..=30 {
        let world = if round % 2 == 0 { &one } else { &two };
        let id = world.publish("", ["news", ""][round % 2]).await;
        for node in [&one, &two] {
            assert_eq!(node.counts("ada").await.total, round as i64);
            assert_eq!(node.ids("ada", pages_of(1)).await[0], id);
        }
    }
    let cx = one.cx().await;
    let ids = one.ids("ada", pages_of(50)).await;
    one.inbox.redact(&cx, &"app".parse().unwrap(), &ids[3]).await.unwrap();
    for node in [&one, &two] {
        assert_eq!(node.counts("ada").await.total, 29);
        assert_eq!(node.ids("ada", pages_of(50)).await.len(), 29);
    }
    one.verify().await;
}
