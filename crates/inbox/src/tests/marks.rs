//! What a user marks, and what is counted because of it.

use jiff::ToSpan as _;
use tidings_kernel::{Condition, Expect, MAX_TXN_WRITES, Put, Query, Txn, Update, tables};
use tidings_testbed::{Bed, each_store};

use super::world::{World, reader};
use crate::ids::MessageId;
use crate::keys;
use crate::marks::{MAX_IDS, MAX_NEWER, Mark, MarkError, ReadAll, mark, read_all};
use crate::read::{Listing, message};
use crate::verify::{Then, verify};

each_store!(
    marks_are_counted_by_category,
    the_first_read_wins,
    fifty_messages_are_one_transaction_and_more_are_refused,
    fifty_categories_take_two,
    a_read_all_is_one_write_whatever_the_number,
    what_is_newer_stays_unread,
    many_that_are_newer_are_flagged_in_steps,
    too_many_that_are_newer_are_refused,
    what_is_of_another_category_is_in_nobodys_way,
    a_read_all_of_one_category_leaves_the_others,
    what_comes_late_is_unread_in_spite_of_a_read_all,
    who_comes_first_sees_what_is_not_too_old,
    what_was_redacted_is_taken_out_of_the_counts,
    others_messages_cannot_be_marked,
    counts_that_are_wrong_are_told_and_put_right,
    the_text_of_counts_changes_with_whatever_is_seen,
);

async fn marks_are_counted_by_category(bed: &Bed) {
    let world = World::new(bed);
    let news = world.publish("ada", "news").await;
    let plain = world.publish("ada", "").await;
    let public = world.publish("", "news").await;
    assert_eq!(world.told("ada").await, "3 3; news 2 2");
    world.mark("ada", Mark::Read, &[&news]).await;
    assert_eq!(world.told("ada").await, "3 2; news 2 1");
    world.mark("ada", Mark::Read, &[&plain, &public]).await;
    assert_eq!(world.told("ada").await, "3 0; news 2 0");
    world.mark("ada", Mark::Unread, &[&news, &public]).await;
    assert_eq!(world.told("ada").await, "3 2; news 2 2");
    world.mark("ada", Mark::Seen, &[&news, &public]).await;
    assert_eq!(world.told("ada").await, "3 2; news 2 2");
    world.mark("ada", Mark::Archive, &[&public]).await;
    assert_eq!(world.told("ada").await, "3 1; news 2 1");
    let archived = Listing { limit: 10, archived: true, ..Listing::default() };
    assert_eq!(world.ids("ada", archived).await, std::slice::from_ref(&public));
    world.mark("ada", Mark::Unarchive, &[&public]).await;
    assert_eq!(world.told("ada").await, "3 1; news 2 1");
    // Nothing of it concerns somebody else.
    assert_eq!(world.told("bob").await, "1 1; news 1 1");
    world.verify().await;
}

async fn the_first_read_wins(bed: &Bed) {
    let world = World::new(bed);
    for uid in ["ada", ""] {
        let id = world.publish(uid, "").await;
        let first = world.mark("ada", Mark::Read, &[&id]).await;
        bed.clock.advance(1.hour());
        assert_eq!(world.mark("ada", Mark::Read, &[&id]).await, first);
        world.read_all("ada", "", None).await;
        let cx = world.cx().await;
        let shown = message(&cx, &world.inbox, &reader("ada"), &id).await.unwrap().unwrap();
        assert_eq!((shown.read_at, shown.is_unread), (first[0].read_at, false));
    }
    let late = world.publish("", "").await;
    let (when, cx) = (world.cx().await.now(), world.cx().await);
    world.read_all("ada", "", None).await;
    bed.clock.advance(1.hour());
    let marked = world.mark("ada", Mark::Read, &[&late]).await;
    assert_eq!(marked[0].read_at, Some(when), "it was read by the read-all");
    let shown = message(&cx, &world.inbox, &reader("ada"), &late).await.unwrap().unwrap();
    assert_eq!(shown.read_at, Some(when));
}

async fn fifty_messages_are_one_transaction_and_more_are_refused(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..MAX_IDS {
        ids.push(world.publish(if number % 2 == 0 { "ada" } else { "" }, "news").await);
    }
    assert_eq!(world.told("ada").await, "50 50; news 50 50");
    let before = rev(&world).await;
    let receipts = world.mark("ada", Mark::Read, &ids.iter().collect::<Vec<_>>()).await;
    assert_eq!(receipts.len(), MAX_IDS);
    assert_eq!(rev(&world).await, before + 1);
    assert_eq!(world.told("ada").await, "50 0; news 50 0");
    ids.push(world.publish("ada", "").await);
    let refused = mark(&world.cx().await, &world.inbox, &reader("ada"), Mark::Read, &ids).await;
    assert!(matches!(refused, Err(MarkError::TooMany(51))), "{refused:?}");
    world.verify().await;
}

async fn fifty_categories_take_two(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..MAX_IDS {
        ids.push(world.publish("ada", &format!("c{number}")).await);
    }
    let before = rev(&world).await;
    world.mark("ada", Mark::Read, &ids.iter().collect::<Vec<_>>()).await;
    assert_eq!(rev(&world).await, before + 2);
    assert_eq!(world.counts("ada").await.unread, 0);
    world.mark("ada", Mark::Unread, &ids.iter().collect::<Vec<_>>()).await;
    let before = rev(&world).await;
    world.read_all("ada", "", None).await;
    assert_eq!(rev(&world).await, before + 1);
    assert_eq!(world.counts("ada").await.unread, 0);
    world.verify().await;
}

/// How often the user's partition was changed.
async fn rev(world: &World<'_>) -> i64 {
    let cx = world.cx().await;
    let reader = reader("ada");
    // Whoever never came has not been counted.
    world.counts("ada").await;
    let key = keys::counts(&keys::user(cx.workspace(), &reader.inbox, &reader.uid));
    let item = cx.items().await.unwrap().get(&tables::INBOX, &key).await.unwrap();
    item.unwrap().integer("rev").unwrap()
}

async fn a_read_all_is_one_write_whatever_the_number(bed: &Bed) {
    let world = World::new(bed);
    for number in 0..40 {
        let uid = if number % 2 == 0 { "ada" } else { "" };
        world.publish(uid, ["", "news", "order"][number % 3]).await;
    }
    let before = rev(&world).await;
    world.read_all("ada", "", None).await;
    assert_eq!(rev(&world).await, before + 1);
    assert_eq!(world.told("ada").await, "40 0; news 13 0; order 13 0");
    let unread = Listing { limit: 10, unread_only: true, ..Listing::default() };
    assert_eq!(world.ids("ada", unread.clone()).await, []);
    let (own, public) = (world.publish("ada", "news").await, world.publish("", "order").await);
    assert_eq!(world.told("ada").await, "42 2; news 14 1; order 14 1");
    assert_eq!(world.ids("ada", unread).await, [public, own]);
    world.verify().await;
}

async fn what_is_newer_stays_unread(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "news").await;
    let second = world.publish("", "").await;
    let up_to = world.publish("ada", "").await;
    let newer = [world.publish("ada", "news").await, world.publish("", "news").await];
    let read = world.publish("", "").await;
    world.mark("ada", Mark::Read, &[&read]).await;
    world.read_all("ada", "", Some(&up_to)).await;
    assert_eq!(world.told("ada").await, "6 2; news 3 2");
    let unread = Listing { limit: 10, unread_only: true, ..Listing::default() };
    assert_eq!(world.ids("ada", unread).await, [newer[1].clone(), newer[0].clone()]);
    world.mark("ada", Mark::Read, &[&newer[0], &newer[1]]).await;
    assert_eq!(world.told("ada").await, "6 0; news 3 0");
    world.mark("ada", Mark::Unread, &[&first, &second]).await;
    assert_eq!(world.told("ada").await, "6 2; news 3 1");
    world.verify().await;
}

async fn many_that_are_newer_are_flagged_in_steps(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "").await;
    let public = world.publish("", "").await;
    let mut newer = Vec::new();
    for number in 0..130 {
        newer.push(world.publish(if number % 8 == 0 { "" } else { "ada" }, "").await);
    }
    world.read_all("ada", "", Some(&public)).await;
    assert_eq!(world.told("ada").await, "132 130");
    world.verify().await;
    // The flags are those of that read-all only.
    world.read_all("ada", "", None).await;
    assert_eq!(world.told("ada").await, "132 0");
    world.mark("ada", Mark::Unread, &[&first, &newer[0]]).await;
    assert_eq!(world.told("ada").await, "132 2");
    world.verify().await;
}

async fn too_many_that_are_newer_are_refused(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "").await;
    let cx = world.cx().await;
    // Publishing so many takes a while, and who counts does not matter here.
    let items = cx.items().await.unwrap();
    let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with("m#");
    let stored = items.query(query).await.unwrap().items.remove(0);
    for number in 0..=MAX_NEWER {
        let id = format!("ZZZZZZZZ{number:09}");
        let copy = stored.clone().with("id", id.as_str()).with("SK", format!("m#{id}"));
        items.put(Put::new(&tables::INBOX, copy)).await.unwrap();
    }
    let what = ReadAll { category: None, up_to: Some(first) };
    let refused = read_all(&cx, &world.inbox, &reader("ada"), what).await;
    assert!(matches!(refused, Err(MarkError::TooManyNewer(_))), "{refused:?}");
}

async fn what_is_of_another_category_is_in_nobodys_way(bed: &Bed) {
    let world = World::new(bed);
    let (order, news) = (world.publish("ada", "order").await, world.publish("ada", "news").await);
    let cx = world.cx().await;
    let items = cx.items().await.unwrap();
    let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with(format!("m#{news}"));
    let stored = items.query(query).await.unwrap().items.remove(0);
    // Publishing so many takes a while, and who counts does not matter here.
    let ids: Vec<String> = (0..6_000).map(|number| format!("ZZZZZZZZ{number:09}")).collect();
    for some in ids.chunks(MAX_TXN_WRITES) {
        let txn = some.iter().fold(Txn::new(), |txn, id| {
            let copy = stored.clone().with("id", id.as_str()).with("SK", format!("m#{id}"));
            txn.put(&tables::INBOX, copy, Expect::Absent)
        });
        items.transact(txn).await.unwrap();
    }
    world.read_all("ada", "order", Some(&order)).await;
    assert_eq!(world.told("ada").await, "2 1; news 1 1; order 1 0");
}

async fn a_read_all_of_one_category_leaves_the_others(bed: &Bed) {
    let world = World::new(bed);
    for category in ["news", "order", ""] {
        world.publish("ada", category).await;
        world.publish("", category).await;
    }
    assert_eq!(world.told("ada").await, "6 6; news 2 2; order 2 2");
    world.read_all("ada", "news", None).await;
    assert_eq!(world.told("ada").await, "6 4; news 2 0; order 2 2");
    let up_to = world.publish("ada", "order").await;
    world.publish("ada", "order").await;
    world.publish("", "order").await;
    world.read_all("ada", "order", Some(&up_to)).await;
    assert_eq!(world.told("ada").await, "9 4; news 2 0; order 5 2");
    // What nobody ever published in is not written down.
    let before = rev(&world).await;
    world.read_all("ada", "other", None).await;
    assert_eq!(rev(&world).await, before);
    world.verify().await;
}

async fn what_comes_late_is_unread_in_spite_of_a_read_all(bed: &Bed) {
    let world = World::new(bed);
    world.publish("ada", "news").await;
    let earlier = world.cx().await;
    bed.clock.advance(1.minute());
    world.read_all("ada", "", None).await;
    world.read_all("ada", "news", None).await;
    let new = crate::publish::NewPost {
        category: Some("news".to_owned()),
        ..super::world::post(crate::publish::To::Users(vec!["ada".to_owned()]))
    };
    let late = world.inbox.publish(&earlier, &"app".parse().unwrap(), new).await.unwrap().id;
    assert_eq!(world.told("ada").await, "2 1; news 2 1");
    world.mark("ada", Mark::Read, &[&late]).await;
    assert_eq!(world.told("ada").await, "2 0; news 2 0");
    world.verify().await;
}

async fn who_comes_first_sees_what_is_not_too_old(bed: &Bed) {
    let world = World::new(bed);
    world.publish("", "").await;
    bed.clock.advance((24 * 5).hours());
    world.publish("", "").await;
    bed.clock.advance((24 * 3).hours());
    let newest = world.publish("", "").await;
    assert_eq!(world.told("ada").await, "2 2");
    // What was decided stays so, however old it becomes.
    bed.clock.advance((24 * 10).hours());
    assert_eq!(world.told("ada").await, "2 2");
    assert_eq!(world.told("bob").await, "0 0");
    assert_eq!(world.mark("bob", Mark::Read, &[&newest]).await, []);
    world.verify().await;
}

async fn what_was_redacted_is_taken_out_of_the_counts(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(world.publish("", ["news", ""][number % 2]).await);
    }
    let own = world.publish("ada", "news").await;
    world.mark("ada", Mark::Read, &ids[..50].iter().collect::<Vec<_>>()).await;
    world.mark("ada", Mark::Read, &[&own]).await;
    assert_eq!(world.told("ada").await, "61 10; news 31 5");
    let cx = world.cx().await;
    for id in &ids[..49] {
        world.inbox.redact(&cx, &"app".parse().unwrap(), id).await.unwrap();
    }
    assert_eq!(world.told("ada").await, "12 10; news 6 5");
    assert_eq!(world.mark("ada", Mark::Unread, &[&ids[0]]).await, []);
    assert_eq!(message(&cx, &world.inbox, &reader("ada"), &ids[0]).await.unwrap(), None);
    world.inbox.redact(&cx, &"app".parse().unwrap(), &own).await.unwrap();
    assert_eq!(world.told("ada").await, "11 10; news 5 5");
    world.read_all("ada", "", None).await;
    world.mark("ada", Mark::Unread, &[&ids[49], &ids[50]]).await;
    assert_eq!(world.told("ada").await, "11 2; news 5 1");
    world.inbox.redact(&cx, &"app".parse().unwrap(), &ids[50]).await.unwrap();
    assert_eq!(world.told("ada").await, "10 1; news 4 0");
    world.verify().await;
}

async fn others_messages_cannot_be_marked(bed: &Bed) {
    let world = World::new(bed);
    let id = world.publish("ada", "").await;
    assert_eq!(world.mark("bob", Mark::Read, &[&id]).await, []);
    bed.make_workspace("other").await;
    let stranger = World::inside(bed, "other");
    assert_eq!(stranger.mark("ada", Mark::Read, &[&id]).await, []);
    assert_eq!(stranger.told("ada").await, "0 0");
    assert_eq!(world.told("ada").await, "1 1");
    let nobody: MessageId = "0GV8YLWQ000000001".parse().unwrap();
    assert_eq!(world.mark("ada", Mark::Read, &[&nobody]).await, []);
}

async fn counts_that_are_wrong_are_told_and_put_right(bed: &Bed) {
    let world = World::new(bed);
    world.publish("ada,bob", "news").await;
    world.publish("", "news").await;
    world.read_all("ada", "", None).await;
    let cx = world.cx().await;
    let items = cx.items().await.unwrap();
    for (partition, sort, name) in [
        ("t#acmeU#ada#app", "c#*", "published"),
        ("t#acmeU#ada#app", "c#news", "read"),
        ("t#acmeG#$public#app", "c#news", "published"),
    ] {
        let key = tidings_kernel::Key::new(partition, sort);
        let update = Update::new(&tables::INBOX, key).add(name, 3);
        let there = Expect::That(Condition::exists("kind"));
        items.update(update.expect(there)).await.unwrap();
    }
    let mut told = Vec::new();
    let mut tell = |drift: crate::verify::Drift| {
        let (uid, category) = (drift.uid.as_ref(), drift.category.as_ref());
        let uid = uid.map_or("everyone", |uid| uid.as_str());
        let category = category.map_or("*", |category| category.as_str());
        let sums = |sums: crate::verify::Sums| format!("{} {}", sums.published, sums.read);
        told.push(format!("{uid} {category}: {}, not {}", sums(drift.counted), sums(drift.stored)));
    };
    let found = verify(&cx, &world.inbox, Then::Repair, &mut tell).await.unwrap();
    assert_eq!((found.drifts, found.repaired, found.inboxes), (3, 3, 3));
    told.sort();
    assert_eq!(
        told,
        ["ada *: 1 1, not 4 1", "ada news: 1 1, not 1 4", "everyone news: 1 0, not 4 0"]
    );
    world.verify().await;
    assert_eq!(world.told("ada").await, "2 0; news 2 0");
}

async fn the_text_of_counts_changes_with_whatever_is_seen(bed: &Bed) {
    let world = World::new(bed);
    let own = world.publish("ada", "").await;
    let mut seen = std::collections::BTreeSet::new();
    let mut is_new = async |what: &str| {
        let rev = world.counts("ada").await.rev;
        assert_eq!(world.counts("ada").await.rev, rev, "{what}");
        assert!(seen.insert(rev), "{what}");
    };
    is_new("published").await;
    world.mark("ada", Mark::Seen, &[&own]).await;
    is_new("seen").await;
    let public = world.publish_for("", "", "10m").await;
    is_new("public").await;
    world.mark("ada", Mark::Archive, &[&public]).await;
    is_new("archived").await;
    world.read_all("ada", "", None).await;
    is_new("read-all").await;
    bed.clock.advance(11.minutes());
    is_new("past its time").await;
    world.expire().await;
    is_new("counted out").await;
}
