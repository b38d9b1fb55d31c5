//! What becomes of the counts when messages and receipts expire.

use std::sync::Arc;

use jiff::ToSpan as _;
use tidings_kernel::{Expect, ItemEngine as _, Key, Query, Txn, Update, tables};
use tidings_testbed::{Bed, each_store};

use super::world::World;
use crate::expiry::{CONSUMER, Counted, Rounds};
use crate::forget;
use crate::ids::MessageId;
use crate::keys;
use crate::marks::Mark;
use crate::patrol::Patrol;
use crate::records::{CategoryStats, UserStats};
use crate::verify::{Then, verify};

each_store!(
    what_expires_is_counted_out_with_its_category,
    each_is_counted_out_once_however_often_it_is_told,
    marks_of_counting_out_go_too,
    two_nodes_count_out_once,
    a_read_all_between_removal_and_counting_out_is_right,
    a_flag_that_expires_before_its_read_all_is_right,
    many_of_one_user_are_counted_out_together,
    what_is_redacted_is_not_counted_out_again,
    counts_are_exact_before_anything_is_removed,
    a_flag_of_a_public_message_expires_at_its_second,
    counts_from_before_are_looked_through_once,
    many_that_expire_at_once_go_when_somebody_looks,
    more_than_a_page_goes_when_somebody_looks,
    what_cannot_be_read_stops_nobody,
    a_round_looks_only_where_there_is_something,
    the_stream_is_trimmed_once_it_was_read,
    a_patrol_gets_around,
    a_patrol_goes_on_after_a_restart,
    a_patrol_finds_a_count_that_is_wrong,
    counts_that_were_put_right_stay_right_whatever_is_told_later,
);

async fn what_expires_is_counted_out_with_its_category(bed: &Bed) {
    let world = World::new(bed);
    let own = world.publish_for("ada", "news", "10m").await;
    world.publish_for("ada", "order", "10m").await;
    let public = world.publish_for("", "news", "10m").await;
    world.publish_for("", "order", "10m").await;
    world.publish("ada", "news").await;
    world.mark("ada", Mark::Read, &[&own, &public]).await;
    assert_eq!(world.told("ada").await, "5 3; news 3 1; order 2 2");
    bed.clock.advance(11.minutes());
    world.sweep().await;
    assert_eq!(world.count_out().await.expired, 5, "four messages and a receipt");
    assert_eq!(world.told("ada").await, "1 1; news 1 1");
    world.verify().await;
}

async fn rewind(bed: &Bed) {
    let sql = "UPDATE item_consumers SET seq = 0";
    bed.access.database().write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
}

async fn each_is_counted_out_once_however_often_it_is_told(bed: &Bed) {
    let world = World::new(bed);
    for _ in 0..3 {
        let own = world.publish_for("ada", "news", "10m").await;
        let public = world.publish_for("", "news", "10m").await;
        world.mark("ada", Mark::Read, &[&own, &public]).await;
    }
    world.publish("ada", "").await;
    bed.clock.advance(11.minutes());
    world.expire().await;
    for _ in 0..3 {
        rewind(bed).await;
        world.count_out().await;
        assert_eq!(world.told("ada").await, "1 1");
    }
    // Whatever has expired since is counted out with what is told again.
    world.publish_for("ada", "news", "10m").await;
    bed.clock.advance(11.minutes());
    rewind(bed).await;
    world.expire().await;
    assert_eq!(world.told("ada").await, "1 1");
    world.verify().await;
}

async fn marks_of_counting_out_go_too(bed: &Bed) {
    let world = World::new(bed);
    world.publish_for("ada", "", "10m").await;
    bed.clock.advance(11.minutes());
    world.expire().await;
    let marks = async || {
        let query = Query::new(&tables::INBOX, "t#acmeU#ada#app").begins_with("x#");
        world.cx().await.items().await.unwrap().count(query).await.unwrap()
    };
    assert_eq!(marks().await, 1);
    bed.clock.advance((24 * 8).hours());
    world.expire().await;
    assert_eq!(marks().await, 0);
    assert_eq!(world.told("ada").await, "0 0");
    world.verify().await;
}

async fn two_nodes_count_out_once(bed: &Bed) {
    let (one, two) = (World::new(bed), World::new(bed));
    for number in 0..30 {
        let uid = ["ada", "bob", ""][number % 3];
        let id = one.publish_for(uid, "news", "10m").await;
        one.mark("ada", Mark::Read, &[&id]).await;
    }
    one.publish("ada", "").await;
    bed.clock.advance(11.minutes());
    one.sweep().await;
    tokio::join!(one.count_out(), two.count_out(), one.count_out());
    assert_eq!(one.told("ada").await, "1 1");
    assert_eq!(one.told("bob").await, "0 0");
    one.verify().await;
}

async fn a_read_all_between_removal_and_counting_out_is_right(bed: &Bed) {
    for (category, is_swept) in [("", true), ("news", true), ("", false), ("news", false)] {
        let world = World::new(bed);
        let up_to = world.publish("ada", "news").await;
        for uid in ["ada", ""] {
            world.publish_for(uid, "news", "10m").await;
            let read = world.publish_for(uid, "news", "10m").await;
            world.mark("ada", Mark::Read, &[&read]).await;
        }
        bed.clock.advance(11.minutes());
        if is_swept {
            world.sweep().await;
        }
        // What has expired is newer than that, unread in part, and counted still.
        world.read_all("ada", category, Some(&up_to)).await;
        world.expire().await;
        world.verify().await;
        assert_eq!(world.counts("ada").await.unread, 0);
    }
}

async fn a_flag_that_expires_before_its_read_all_is_right(bed: &Bed) {
    let world = World::new(bed);
    let up_to = world.publish("ada", "").await;
    for number in 0..120 {
        let uid = if number % 4 == 0 { "" } else { "ada" };
        world.publish_for(uid, "", if number % 2 == 0 { "10m" } else { "30d" }).await;
    }
    world.read_all("ada", "", Some(&up_to)).await;
    assert_eq!(world.told("ada").await, "121 120");
    bed.clock.advance(11.minutes());
    world.sweep().await;
    world.read_all("ada", "", Some(&up_to)).await;
    world.expire().await;
    assert_eq!(world.told("ada").await, "61 60");
    world.verify().await;
}

async fn many_of_one_user_are_counted_out_together(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..70 {
        ids.push(world.publish_for("ada", &format!("c{}", number % 35), "10m").await);
    }
    world.mark("ada", Mark::Read, &ids[..20].iter().collect::<Vec<_>>()).await;
    bed.clock.advance(11.minutes());
    world.sweep().await;
    assert_eq!(world.count_out().await.expired, 70);
    assert_eq!(world.told("ada").await, "0 0");
    world.verify().await;
}

async fn what_is_redacted_is_not_counted_out_again(bed: &Bed) {
    let world = World::new(bed);
    let redact = async |id: &MessageId| {
        let inbox = "app".parse().unwrap();
        world.inbox.redact(&world.cx().await, &inbox, id).await.unwrap();
    };
    let own = world.publish_for("ada", "news", "10m").await;
    let public = world.publish_for("", "news", "10m").await;
    let later = world.publish_for("", "news", "10m").await;
    world.mark("ada", Mark::Read, &[&own, &public, &later]).await;
    redact(&own).await;
    redact(&public).await;
    // Nobody has looked since this one was taken away: its receipt expires before it is taken out.
    assert_eq!(world.told("ada").await, "1 0; news 1 0");
    redact(&later).await;
    bed.clock.advance(11.minutes());
    world.expire().await;
    assert_eq!(world.told("ada").await, "0 0");
    world.verify().await;
}

async fn counts_are_exact_before_anything_is_removed(bed: &Bed) {
    let world = World::new(bed);
    for round in 0..2 {
        let own = world.publish_for("ada", "news", "10m").await;
        world.publish_for("ada", "order", "10m").await;
        let public = world.publish_for("", "news", "10m").await;
        world.publish_for("", "order", "10m").await;
        let stays = world.publish_for("", "", "30d").await;
        world.mark("ada", Mark::Read, &[&own, &public]).await;
        let (total, unread) = (5 + round, 3 + round);
        let told = format!("{total} {unread}; news 2 0; order 2 2");
        assert_eq!(world.told("ada").await, told);
        // To the second at which the first of them goes, and after it.
        bed.clock.advance(599.seconds());
        assert_eq!(world.told("ada").await, told);
        bed.clock.advance(1.second());
        world.mark("ada", Mark::Read, &[&stays]).await;
        assert_eq!(world.told("ada").await, format!("{} {round}", 1 + round));
        world.verify().await;
        // Nothing of it is counted out again.
        world.expire().await;
        assert_eq!(world.told("ada").await, format!("{} {round}", 1 + round));
        world.mark("ada", Mark::Unread, &[&stays]).await;
    }
}

async fn a_flag_of_a_public_message_expires_at_its_second(bed: &Bed) {
    let world = World::new(bed);
    let up_to = world.publish("ada", "").await;
    world.publish_for("", "news", "10m").await;
    world.publish_for("", "", "20m").await;
    world.read_all("ada", "", Some(&up_to)).await;
    assert_eq!(world.told("ada").await, "3 2; news 1 1");
    bed.clock.advance(11.minutes());
    assert_eq!(world.told("ada").await, "2 1");
    bed.clock.advance(10.minutes());
    assert_eq!(world.told("ada").await, "1 0");
    world.verify().await;
}

async fn counts_from_before_are_looked_through_once(bed: &Bed) {
    let world = World::new(bed);
    let read = world.publish_for("ada", "news", "10m").await;
    world.publish_for("ada", "news", "20m").await;
    world.mark("ada", Mark::Read, &[&read]).await;
    let forget = async || {
        let update = Update::new(&tables::INBOX, Key::new("t#acmeU#ada#app", "c#*"));
        let items = world.cx().await.items().await.unwrap();
        items.update(update.remove("soonest").add("rev", 1)).await.unwrap();
    };
    forget().await;
    // Whoever publishes does not know either.
    world.publish_for("ada", "", "30d").await;
    assert_eq!(world.told("ada").await, "3 2; news 2 1");
    bed.clock.advance(11.minutes());
    assert_eq!(world.told("ada").await, "2 2; news 1 1");
    forget().await;
    bed.clock.advance(10.minutes());
    assert_eq!(world.told("ada").await, "1 1");
    world.verify().await;
}

async fn many_that_expire_at_once_go_when_somebody_looks(bed: &Bed) {
    let world = World::new(bed);
    for number in 0..100 {
        world.publish_for("ada", &format!("c{}", number % 35), "10m").await;
    }
    world.publish("ada", "c1").await;
    bed.clock.advance(11.minutes());
    let looks = (0..5).map(|_| world.told("ada"));
    let told = futures_util::future::join_all(looks).await;
    assert_eq!(told, ["1 1; c1 1 1"; 5]);
    world.expire().await;
    assert_eq!(world.told("ada").await, "1 1; c1 1 1");
    world.verify().await;
}

async fn more_than_a_page_goes_when_somebody_looks(bed: &Bed) {
    let world = World { inbox: Arc::default(), ..World::new(bed) };
    let mut ids = Vec::new();
    for number in 0..530 {
        let ttl = if number % 100 == 50 { "30d" } else { "10m" };
        ids.push(world.publish_for("ada", ["news", ""][number % 2], ttl).await);
    }
    world.mark("ada", Mark::Read, &ids[..50].iter().collect::<Vec<_>>()).await;
    assert_eq!(world.told("ada").await, "530 480; news 265 240");
    bed.clock.advance(11.minutes());
    let seen = [&ids[150]];
    let (told, _) = tokio::join!(world.told("ada"), world.mark("ada", Mark::Seen, &seen));
    assert_eq!(told, "5 5; news 5 5");
    world.expire().await;
    assert_eq!(world.told("ada").await, "5 5; news 5 5");
    world.verify().await;
}

async fn what_cannot_be_read_stops_nobody(bed: &Bed) {
    let world = World::new(bed);
    let own = world.publish_for("ada", "", "10m").await;
    world.publish_for("bob", "", "10m").await;
    let public = world.publish_for("", "", "10m").await;
    world.publish("", "").await;
    let items = world.cx().await.items().await.unwrap();
    for (partition, id) in [("t#acmeU#ada#app", &own), ("t#acmeG#$public#app", &public)] {
        let key = Key::new(partition, format!("m#{id}"));
        items.update(Update::new(&tables::INBOX, key).remove("received")).await.unwrap();
    }
    let other = World::new(bed);
    assert_eq!(other.told("bob").await, "2 2", "without the one that nobody can read");
    bed.clock.advance(11.minutes());
    world.sweep().await;
    assert_eq!(world.count_out().await.expired, 1, "that of Bob");
    assert_eq!(world.told("bob").await, "1 1");
    // What it had added cannot be told any more, so the counts are wrong, and that is found.
    let (cx, mut drifts) = (world.cx().await, Vec::new());
    let mut tell = |drift| drifts.push(drift);
    let verified = verify(&cx, &world.inbox, Then::Repair, &mut tell).await.unwrap();
    assert_eq!((verified.drifts, verified.repaired), (2, 2), "{drifts:?}");
    world.verify().await;
}

async fn a_round_looks_only_where_there_is_something(bed: &Bed) {
    let world = World::new(bed);
    bed.make_workspace("other").await;
    let engine = Arc::new(world.engine.clone());
    let behind = async || engine.behind(&tables::INBOX, CONSUMER).await.unwrap().unwrap();
    let rounds = Rounds::new(bed.access.clone(), engine.clone(), Arc::clone(&world.inbox));
    assert_eq!(behind().await, []);
    world.publish_for("ada", "", "10m").await;
    assert_eq!(behind().await, [], "what is written is told to nobody");
    assert_eq!(rounds.once().await.unwrap(), 0);
    bed.clock.advance(11.minutes());
    world.sweep().await;
    assert_eq!(behind().await, ["acme".parse().unwrap()]);
    assert_eq!(rounds.once().await.unwrap(), 1);
    assert_eq!(world.told("ada").await, "0 0");
}

async fn the_stream_is_trimmed_once_it_was_read(bed: &Bed) {
    let world = World::new(bed);
    for _ in 0..20 {
        world.publish_for("ada", "", "10m").await;
    }
    let kept = async || -> i64 {
        let sql = "SELECT count(*) FROM item_changes";
        let count: Result<i64, tidings_sql::DatabaseError> =
            bed.access.database().read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
        count.unwrap()
    };
    assert_eq!(kept().await, 0, "nobody asks for what is written");
    bed.clock.advance(11.minutes());
    world.sweep().await;
    world.count_out().await;
    assert_eq!(kept().await, 20);
    bed.clock.advance(25.hours());
    world.sweep().await;
    assert_eq!(kept().await, 0);
    assert_eq!(world.count_out().await, Counted::default());
}

async fn a_patrol_gets_around(bed: &Bed) {
    let world = World::new(bed);
    for uid in ["ada", "bob", ""] {
        world.publish(uid, "news").await;
    }
    bed.make_workspace("other").await;
    let mut patrol = Patrol::new(bed.access.clone(), Arc::clone(&world.inbox));
    assert_eq!(patrol.round().await.unwrap(), 3);
    assert_eq!(patrol.round().await.unwrap(), 3, "and begins again");
}

async fn a_patrol_goes_on_after_a_restart(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    let (items, app) = (cx.items().await.unwrap(), "app".parse().unwrap());
    // Fifty items each.
    for some in (0..160).collect::<Vec<_>>().chunks(2) {
        let mut txn = Txn::new();
        for number in some {
            let uid = format!("user{number:04}").parse().unwrap();
            let stats = UserStats { rev: 1, since: Some(0), ..UserStats::default() };
            let item = stats.to_item(cx.workspace(), &app, &uid);
            txn = txn.put(&tables::INBOX, item, Expect::Absent);
            for category in 1..50 {
                let (stats, category) = (CategoryStats::default(), format!("c{category}"));
                let item = stats.to_item(cx.workspace(), &app, &uid, &category.parse().unwrap());
                txn = txn.put(&tables::INBOX, item, Expect::Absent);
            }
        }
        items.transact(txn).await.unwrap();
    }
    let round = async || {
        let mut patrol = Patrol::new(bed.access.clone(), Arc::clone(&world.inbox));
        patrol.round().await.unwrap()
    };
    let (first, second) = (round().await, round().await);
    assert_eq!(first, 100, "ten pages of 500 items");
    assert_eq!(first + second, 160, "and the rest of them");
    assert_eq!(round().await, 100, "and begins again");
    // The place names a user.
    let place = async || {
        let found = items.get(&tables::INBOX, &keys::patrol(cx.workspace())).await;
        found.unwrap().unwrap().text("partition").map(ToOwned::to_owned)
    };
    assert_eq!(place().await.as_deref(), Some("t#acmeU#user0099#app"));
    world.publish("user0099", "").await;
    forget(&cx, &"user0099".parse().unwrap()).await.unwrap();
    assert_eq!(place().await, None);
}

async fn a_patrol_finds_a_count_that_is_wrong(bed: &Bed) {
    let world = World::new(bed);
    world.publish("ada", "").await;
    world.publish_for("ada", "", "10m").await;
    let cx = world.cx().await;
    let key = Key::new("t#acmeU#ada#app", "c#*");
    let spoil = Update::new(&tables::INBOX, key).add("published", 3).add("rev", 1);
    cx.items().await.unwrap().update(spoil).await.unwrap();
    let found = async || {
        let mut patrol = Patrol::new(bed.access.clone(), Arc::clone(&world.inbox));
        assert_eq!(patrol.round().await.unwrap(), 1);
        let items = world.cx().await.items().await.unwrap();
        let place = items.get(&tables::INBOX, &keys::patrol(cx.workspace())).await;
        place.unwrap().unwrap().integer("before")
    };
    assert_eq!(found().await, Some(1));
    assert_eq!(found().await, Some(1), "each pass tells what it finds, and no more");
    verify(&cx, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
    assert_eq!(found().await, Some(0));
}

/// As a stream does that tells of a removal long after it.
async fn counts_that_were_put_right_stay_right_whatever_is_told_later(bed: &Bed) {
    let world = World::new(bed);
    let gone = world.publish_for("ada", "news", "10m").await;
    world.publish_for("ada", "news", "10m").await;
    world.publish("ada", "news").await;
    world.mark("ada", Mark::Read, &[&gone]).await;
    bed.clock.advance(11.minutes());
    world.sweep().await;
    let passed = "UPDATE item_consumers SET seq = (SELECT max(seq) FROM item_changes)";
    let (cx, database) = (world.cx().await, bed.access.database());
    cx.items().await.unwrap().changes(&tables::INBOX, CONSUMER, 1).await.unwrap();
    database.write(move |tx| tx.execute(passed, &[]).map(drop)).await.unwrap();
    let mut drifts = 0;
    let verified = verify(&cx, &world.inbox, Then::Repair, &mut |_| drifts += 1).await.unwrap();
    assert_eq!((drifts, verified.repaired), (2, 2), "of all and of the category");
    assert_eq!(world.told("ada").await, "1 1; news 1 1");
    rewind(bed).await;
    assert_eq!(world.count_out().await.expired, 2);
    assert_eq!(world.told("ada").await, "1 1; news 1 1");
    world.verify().await;
    // And what expires after it is counted out as ever.
    bed.clock.advance((24 * 31).hours());
    world.expire().await;
    assert_eq!(world.told("ada").await, "0 0");
    world.verify().await;
}
