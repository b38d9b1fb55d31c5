//! What cannot be read: it is passed over, and everything else goes on.

use jiff::ToSpan as _;
use tidings_kernel::{Key, Update, tables};
use tidings_testbed::{Bed, each_store};

use super::world::{World, post, reader};
use crate::expiry::count_out;
use crate::ids::MessageId;
use crate::marks::Mark;
use crate::publish::{NewPost, To};
use crate::read::{Listing, message, newer};
use crate::records::State;
use crate::verify::{Then, verify};

each_store!(
    one_that_cannot_be_read_is_not_shown_and_hides_no_other,
    a_page_of_what_cannot_be_read_is_not_the_last,
    what_cannot_be_read_can_be_taken_back,
    a_delivery_passes_over_what_cannot_be_read,
    counts_that_cannot_be_read_are_in_nobodys_way,
);

impl World<'_> {
    /// Takes something away from an item without which it means nothing.
    async fn spoil(&self, partition: &str, sort: &str) {
        let items = self.cx().await.items().await.unwrap();
        let update = Update::new(&tables::INBOX, Key::new(partition, sort));
        let update = match sort.strip_prefix("c#") {
            Some(_) => update.set("all", "nothing").set("mark", "nothing"),
            None => update.remove("received").remove("seq"),
        };
        items.update(update).await.unwrap();
    }

    async fn spoil_of(&self, partition: &str, id: &MessageId) {
        self.spoil(partition, &format!("m#{id}")).await;
    }
}

const ADA: &str = "t#acmeU#ada#app";
const EVERYONE: &str = "t#acmeG#$public#app";

fn page_of(limit: usize) -> Listing {
    Listing { limit, ..Listing::default() }
}

async fn one_that_cannot_be_read_is_not_shown_and_hides_no_other(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for uid in ["ada", "", "ada", "", "ada", "", "ada"] {
        ids.push(world.publish(uid, "news").await);
    }
    world.mark("ada", Mark::Read, &[&ids[1]]).await;
    // One of his, a receipt, and one of everyone of which a node has heard before.
    world.spoil_of(ADA, &ids[2]).await;
    world.spoil_of(ADA, &ids[1]).await;
    world.spoil_of(EVERYONE, &ids[3]).await;
    let shown: Vec<_> = [6, 5, 4, 1, 0].map(|number: usize| ids[number].clone()).into();
    assert_eq!(world.ids("ada", page_of(100)).await, shown);
    assert_eq!(world.ids("ada", page_of(1)).await, shown);
    let (cx, ada) = (world.cx().await, reader("ada"));
    for (number, id) in ids.iter().enumerate() {
        let found = message(&cx, &world.inbox, &ada, id).await.unwrap();
        assert_eq!(found.is_some(), ![2, 3].contains(&number), "{number}");
    }
    let since = newer(&cx, &world.inbox, &ada, &ids[0], 10).await.unwrap();
    assert_eq!(since.messages.len(), 4);
    // All but those that cannot be read are marked.
    let marked = world.mark("ada", Mark::Read, &ids.iter().collect::<Vec<_>>()).await;
    let marked: Vec<_> = marked.into_iter().map(|receipt| receipt.id).collect();
    assert_eq!(marked, [0, 3, 4, 5, 6].map(|number: usize| ids[number].clone()));
    world.read_all("ada", "", Some(&ids[0])).await;
    world.read_all("ada", "", None).await;
    // A receipt that cannot be read is passed over by the clean-up.
    world.inbox.redact(&cx, &ada.inbox, &ids[1]).await.unwrap();
    world.counts("ada").await;
}

async fn a_page_of_what_cannot_be_read_is_not_the_last(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "").await;
    let mut spoilt = Vec::new();
    for _ in 0..5 {
        spoilt.push(world.publish("ada", "").await);
    }
    let last = world.publish("ada", "").await;
    for id in &spoilt {
        world.spoil_of(ADA, id).await;
    }
    for limit in [1, 2, 3, 100] {
        assert_eq!(world.ids("ada", page_of(limit)).await, [last.clone(), first.clone()]);
    }
}

async fn what_cannot_be_read_can_be_taken_back(bed: &Bed) {
    let world = World::new(bed);
    let (cx, app) = (world.cx().await, "app".parse().unwrap());
    let own = world.publish("ada,bob", "news").await;
    let public = world.publish("", "").await;
    assert_eq!(world.told("bob").await, "2 2; news 1 1");
    world.spoil_of(ADA, &own).await;
    world.spoil_of(EVERYONE, &public).await;
    for id in [&own, &public] {
        let post = world.inbox.redact(&cx, &app, id).await.unwrap();
        assert_eq!(post.state, State::Redacted);
    }
    let items = cx.items().await.unwrap();
    for (partition, id) in [(ADA, &own), (EVERYONE, &public)] {
        let key = Key::new(partition, format!("m#{id}"));
        assert!(items.get(&tables::INBOX, &key).await.unwrap().is_none());
    }
    // What it had added cannot be told any more, so the counts are wrong, and that is found.
    let verified = verify(&cx, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
    assert_eq!((verified.drifts, verified.left()), (3, 0));
    assert_eq!(World::new(bed).told("bob").await, "0 0");
    world.verify().await;
}

async fn a_delivery_passes_over_what_cannot_be_read(bed: &Bed) {
    let world = World::new(bed);
    let (cx, app) = (world.cx().await, "app".parse().unwrap());
    let uids: Vec<String> = (0..30).map(|number| format!("u{number}")).collect();
    let send_at = Some(cx.now() + jiff::SignedDuration::from_mins(5));
    let new = NewPost { send_at, ..post(To::Users(uids)) };
    let id = world.inbox.publish(&cx, &app, new).await.unwrap().id;
    // Something stands where a copy should be.
    world.spoil_of("t#acmeU#u7#app", &id).await;
    bed.advance(6).await;
    let handler = crate::publish::handler(bed.access.clone(), world.inbox.clone());
    bed.work(&tidings_kernel::queues::INBOX_POSTS, handler).await;
    let post = crate::publish::post(&world.cx().await, &app, &id).await.unwrap().unwrap();
    assert_eq!((post.state, post.delivered), (State::Done, 30));
    assert_eq!(world.told("u8").await, "1 1");
}

async fn counts_that_cannot_be_read_are_in_nobodys_way(bed: &Bed) {
    let world = World::new(bed);
    for uid in ["ada", "bob", "eve"] {
        world.publish_for(uid, "news", "10m").await;
        world.publish(uid, "news").await;
    }
    world.spoil(ADA, "c#*").await;
    world.spoil("t#acmeU#bob#app", "c#news").await;
    bed.clock.advance(11.minutes());
    world.sweep().await;
    let cx = world.cx().await;
    assert_eq!(count_out(&cx, &world.inbox).await.unwrap().expired, 3);
    assert_eq!(world.told("eve").await, "1 1; news 1 1");
    let verified = verify(&cx, &world.inbox, Then::Tell, &mut |_| {}).await.unwrap();
    assert_eq!((verified.drifts, verified.unreadable, verified.inboxes), (0, 2, 3));
    // What is published to all three comes to who can be counted, and goes from him again.
    let id = world.publish("ada,bob,eve", "news").await;
    assert_eq!(world.told("eve").await, "2 2; news 2 2");
    world.inbox.redact(&cx, &"app".parse().unwrap(), &id).await.unwrap();
    assert_eq!(world.told("eve").await, "1 1; news 1 1");
}
