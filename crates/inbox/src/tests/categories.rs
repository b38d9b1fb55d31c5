//! What becomes of a category when its last message is gone.

use jiff::ToSpan as _;
use tidings_kernel::{Query, Scan, tables};
use tidings_testbed::{Bed, each_store};

use super::world::{World, post};
use crate::ids::MessageId;
use crate::keys;
use crate::marks::Mark;
use crate::publish::{NewPost, PublishError, To};
use crate::records::{Categories, CategoryStats, EXPIRY};
use crate::settings::MAX_CATEGORIES;

each_store!(
    counts_of_a_category_go_with_its_last_message,
    a_read_all_of_a_category_outlives_its_counts_as_long_as_it_covers_anything,
    who_publishes_while_the_last_message_goes_is_counted,
    an_inbox_has_room_again_when_a_category_has_no_message,
    a_category_that_is_used_while_it_is_taken_off_the_list_is_on_it,
);

/// The categories that ada, or everyone, has counts of, those with a read-all marked.
pub(super) async fn counted(world: &World<'_>, partition: &str) -> String {
    let partition = format!("t#{}{partition}", world.workspace);
    let query = Query::new(&tables::INBOX, partition).begins_with("c#").limit(100);
    let page = world.cx().await.items().await.unwrap().query(query).await.unwrap();
    let named = page.items.iter().filter_map(|item| {
        let name = item.text("SK").unwrap().strip_prefix("c#").filter(|name| *name != "*")?;
        Some(if item.get("mark").is_some() { format!("{name}!") } else { name.to_owned() })
    });
    named.collect::<Vec<_>>().join(" ")
}

/// Nobody has counts that say nothing, unless a read-all stands beside them.
pub(super) async fn none_is_empty(world: &World<'_>) {
    let items = world.cx().await.items().await.unwrap();
    let mut cursor = None;
    loop {
        let page = items.scan(Scan::new(&tables::INBOX).limit(500).after(cursor)).await.unwrap();
        for item in &page.items {
            let sort = item.text("SK").unwrap();
            if !sort.starts_with(keys::COUNTS) || sort == keys::ALL {
                continue;
            }
            let stats = CategoryStats::read(Some(item)).unwrap();
            let waits = stats.mark.is_some() && item.get(EXPIRY).is_some();
            assert_eq!(stats.is_empty(), waits, "{item:?}");
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return;
        }
    }
}

const ADA: &str = "U#ada#app";
const EVERYONE: &str = "G#$public#app";

async fn redact(world: &World<'_>, id: &MessageId) {
    let inbox = "app".parse().unwrap();
    world.inbox.redact(&world.cx().await, &inbox, id).await.unwrap();
}

async fn counts_of_a_category_go_with_its_last_message(bed: &Bed) {
    let world = World::new(bed);
    for is_looked_at in [true, false] {
        world.publish_for("ada", "old", "10m").await;
        let read = world.publish_for("ada", "old", "10m").await;
        let public = world.publish_for("", "old", "10m").await;
        world.mark("ada", Mark::Read, &[&read, &public]).await;
        let gone = world.publish("ada", "redacted").await;
        let public_gone = world.publish("", "redacted").await;
        world.mark("ada", Mark::Read, &[&gone, &public_gone]).await;
        let stays = world.publish("ada", "stays").await;
        assert_eq!(counted(&world, ADA).await, "old redacted stays");
        assert_eq!(counted(&world, EVERYONE).await, "old redacted");

        redact(&world, &gone).await;
        redact(&world, &public_gone).await;
        assert_eq!(counted(&world, EVERYONE).await, "old");
        world.told("ada").await;
        assert_eq!(counted(&world, ADA).await, "old stays");
        bed.clock.advance(11.minutes());
        if !is_looked_at {
            world.expire().await;
            assert_eq!(counted(&world, ADA).await, "stays");
        }
        assert_eq!(world.told("ada").await, "1 1; stays 1 1");
        assert_eq!(counted(&world, ADA).await, "stays");
        world.expire().await;
        assert_eq!(counted(&world, EVERYONE).await, "");
        redact(&world, &stays).await;
        assert_eq!(world.told("ada").await, "0 0");
        assert_eq!(counted(&world, ADA).await, "");
        world.verify().await;
    }
    // Two who mark at the same time, each of whom leaves something to the other.
    let (one, two) = (world.publish("", "both").await, world.publish("", "both").await);
    world.mark("ada", Mark::Read, &[&one, &two]).await;
    let (one, two) = ([&one], [&two]);
    tokio::join!(world.mark("ada", Mark::Unread, &one), world.mark("ada", Mark::Unread, &two));
    assert_eq!(world.told("ada").await, "2 2; both 2 2");
    none_is_empty(&world).await;
    world.verify().await;
}

async fn a_read_all_of_a_category_outlives_its_counts_as_long_as_it_covers_anything(bed: &Bed) {
    let world = World::new(bed);
    world.publish_for("", "news", "730d").await;
    world.publish_for("ada", "news", "10m").await;
    world.read_all("ada", "news", None).await;
    bed.clock.advance(11.minutes());
    world.expire().await;
    assert_eq!(world.told("ada").await, "1 0; news 1 0");
    assert_eq!(counted(&world, ADA).await, "news!");
    none_is_empty(&world).await;
    bed.clock.advance((24 * 729).hours());
    world.expire().await;
    assert_eq!(world.told("ada").await, "1 0; news 1 0");
    // Whatever comes is counted as before, and what is there lasts.
    let own = world.publish("ada", "news").await;
    bed.clock.advance(48.hours());
    assert_eq!(world.told("ada").await, "1 1; news 1 1");
    redact(&world, &own).await;
    world.verify().await;
    bed.clock.advance((24 * 31).hours());
    world.expire().await;
    assert_eq!(counted(&world, ADA).await, "");
    assert_eq!(world.told("ada").await, "0 0");
    world.verify().await;
}

async fn who_publishes_while_the_last_message_goes_is_counted(bed: &Bed) {
    let world = World::new(bed);
    for round in 0..8 {
        let name = format!("c{round}");
        let own = world.publish_for("ada", &name, "10m").await;
        let public = world.publish_for("", &name, "10m").await;
        bed.clock.advance(if round % 2 == 0 { 11.minutes() } else { 1.minutes() });
        world.sweep().await;
        let (redact_own, redact_public) = (redact(&world, &own), redact(&world, &public));
        tokio::join!(
            world.publish("ada", &name),
            world.publish("", &name),
            world.count_out(),
            redact_own,
            redact_public,
            world.told("ada"),
        );
        let told = world.told("ada").await;
        assert!(told.ends_with(&format!("; {name} 2 2")), "{told}");
    }
    world.verify().await;
    none_is_empty(&world).await;
}

async fn publish(world: &World<'_>, uid: &str, category: &str) -> Result<MessageId, PublishError> {
    let to = if uid.is_empty() { To::Everyone } else { To::Users(vec![uid.to_owned()]) };
    let new = NewPost { category: Some(category.to_owned()), ..post(to) };
    let published = world.inbox.publish(&world.cx().await, &"app".parse().unwrap(), new).await;
    world.bed.clock.advance(10.milliseconds());
    published.map(|published| published.id)
}

async fn an_inbox_has_room_again_when_a_category_has_no_message(bed: &Bed) {
    let world = World::new(bed);
    world.publish_for("ada", "expires", "10m").await;
    let own = publish(&world, "ada", "own").await.unwrap();
    let public = publish(&world, "", "public").await.unwrap();
    let later = Some(world.cx().await.now() + 1.hours());
    let new = NewPost {
        category: Some("later".to_owned()),
        send_at: later,
        ..post(To::Users(vec!["ada".to_owned()]))
    };
    let key = "app".parse().unwrap();
    let later = world.inbox.publish(&world.cx().await, &key, new).await.unwrap().id;
    for number in 4..MAX_CATEGORIES {
        publish(&world, "ada", &format!("c{number}")).await.unwrap();
    }
    let mut number = 0;
    let mut gets_room = async |by: &str| {
        number += 1;
        publish(&world, "ada", &format!("new{number}")).await.expect(by);
        let refused = publish(&world, "ada", "one-too-many").await;
        assert!(matches!(refused, Err(PublishError::Invalid(_))), "{by}: {refused:?}");
    };
    let refused = publish(&world, "ada", "one-too-many").await;
    assert!(matches!(refused, Err(PublishError::Invalid(_))), "{refused:?}");
    redact(&world, &own).await;
    gets_room("a redaction").await;
    redact(&world, &public).await;
    gets_room("a redaction of what was for everyone").await;
    world.inbox.cancel(&world.cx().await, &key, &later).await.unwrap();
    gets_room("a cancellation").await;
    bed.clock.advance(11.minutes());
    gets_room("an expiry").await;
    world.read_all("ada", "", None).await;
    world.verify().await;
}

async fn a_category_that_is_used_while_it_is_taken_off_the_list_is_on_it(bed: &Bed) {
    let world = World::new(bed);
    for number in 1..MAX_CATEGORIES {
        publish(&world, "ada", &format!("c{number}")).await.unwrap();
    }
    for round in 0..6 {
        let first = publish(&world, "ada", "idle").await.unwrap();
        redact(&world, &first).await;
        let fresh = format!("new{round}");
        let (used, new) =
            tokio::join!(publish(&world, "ada", "idle"), publish(&world, "ada", &fresh));
        let key = keys::categories(world.cx().await.workspace(), &"app".parse().unwrap());
        let found = world.cx().await.items().await.unwrap().get(&tables::INBOX, &key).await;
        let listed = Categories::read(found.unwrap().as_ref()).unwrap().names;
        for (name, published) in [("idle", used), (fresh.as_str(), new)] {
            match published {
                Ok(id) => {
                    assert!(listed.contains(name), "{name} is used, and not among {listed:?}");
                    redact(&world, &id).await;
                }
                Err(PublishError::Invalid(_) | PublishError::Busy) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    world.verify().await;
}
