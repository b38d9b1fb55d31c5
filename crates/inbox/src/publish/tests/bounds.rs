//! What comes from outside is bounded, and all that is wrong with it is told at once.

use jiff::ToSpan as _;
use serde_json::json;
use tidings_kernel::{Expect, MAX_ITEM_BYTES, MAX_TXN_BYTES, MAX_TXN_WRITES, Txn, Update, tables};
use tidings_testbed::{Bed, each_store};

use super::super::{CHUNK, MAX_PUBLIC, MAX_USERS, NewPost, PublishError, To};
use super::{World, to, to_everyone};
use crate::keys;
use crate::records::{Message, Public, State};

each_store!(
    all_that_is_wrong_is_told_at_once_and_nothing_is_written,
    the_largest_of_everything_fits_into_a_transaction,
    an_inbox_that_is_full_of_public_messages_takes_no_more,
    a_category_too_many_is_refused,
);

async fn refused(world: &World<'_>, new: NewPost) -> Vec<String> {
    match world.inbox.publish(&world.cx, &world.key, new).await {
        Err(PublishError::Invalid(wrongs)) => {
            wrongs.into_iter().map(|wrong| wrong.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

async fn all_that_is_wrong_is_told_at_once_and_nothing_is_written(bed: &Bed) {
    let world = World::new(bed).await;
    let bad = NewPost {
        to: To::Users(vec!["ada".to_owned(), "a#b".to_owned(), String::new()]),
        label: Some("x".repeat(101)),
        category: Some("no category".to_owned()),
        title: "x".repeat(201),
        body: json!("x".repeat(64 * 1024)),
        cta_uri: Some("javascript:alert(1)".to_owned()),
        host_system_id: Some(String::new()),
        send_at: Some(world.cx.now() + 9_000.hours()),
        expires_in: Some("731d".to_owned()),
        sender: String::new(),
    };
    let told = refused(&world, bad).await;
    let fields: Vec<_> = told.iter().map(|told| told.split(' ').next().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "to.users[1]",
            "to.users[2]",
            "to.label",
            "category",
            "title",
            "sender",
            "host_system_id",
            "body",
            "cta_uri",
            "send_at",
            "expires_in",
        ],
        "{told:?}"
    );
    assert_eq!(refused(&world, to(&[])).await, ["to.users must have at least one user"]);
    let crowd = vec!["ada".to_owned(); MAX_USERS + 1];
    let told = refused(&world, NewPost { to: To::Users(crowd), ..to(&[]) }).await;
    assert_eq!(told, ["to.users must have at most 100000 users"]);
    let bad = vec!["#".to_owned(); 1].into_iter().chain((0..99).map(|n| format!("#{n}")));
    let told = refused(&world, NewPost { to: To::Users(bad.collect()), ..to(&[]) }).await;
    assert_eq!((told.len(), told[50].as_str()), (51, "… 50 more are wrong"));
    let deep = (0..17).fold(json!(1), |inside, _| json!([inside]));
    assert_eq!(
        refused(&world, NewPost { body: deep, ..to(&["ada"]) }).await,
        ["body is nested too deep"]
    );
    let empty = NewPost { title: " ".to_owned(), ..to(&["ada"]) };
    assert_eq!(refused(&world, empty).await, ["title must not be empty"]);
    assert_eq!(world.all(&keys::posts(world.cx.workspace(), &world.key), "p#").await, []);
}

async fn the_largest_of_everything_fits_into_a_transaction(bed: &Bed) {
    let world = World::new(bed).await;
    // Zeros are what is largest in an item for its length as JSON.
    let zeros = vec![0; 32 * 1024 - 1];
    let largest = |to| NewPost {
        to,
        label: Some("𝒳".repeat(100)),
        category: Some("c".repeat(64)),
        title: "𝒳".repeat(200),
        body: json!(zeros),
        cta_uri: Some(format!("/{}", "x".repeat(2_047))),
        host_system_id: Some("𝒳".repeat(200)),
        send_at: None,
        expires_in: Some("730d".to_owned()),
        sender: "𝒳".repeat(128),
    };
    let long = vec![format!("{:0>128}", 1), format!("{:0>128}", 2)];
    let everyone = world.publish(largest(To::Everyone)).await;
    assert!(!everyone.replayed);
    let mut new = largest(To::Users(long.clone()));
    new.host_system_id = Some("few".to_owned());
    assert_eq!(world.publish(new).await.recipients, 2);
    world.counts_hold(&[long[0].as_str(), long[1].as_str()]).await;
    let copy = world.own(&long[0]).await.remove(0).to_item(world.cx.workspace(), &world.key);
    assert!(copy.size() < MAX_ITEM_BYTES, "{}", copy.size());
    // The counts of a user and the post are far smaller than a fifth of it.
    assert!((copy.size() + copy.size() / 5) * CHUNK < MAX_TXN_BYTES, "{}", copy.size());
}

async fn an_inbox_that_is_full_of_public_messages_takes_no_more(bed: &Bed) {
    let mut world = World::new(bed).await;
    let send_at = world.cx.now() + 1.hour();
    let scheduled = world.publish(NewPost { send_at: Some(send_at), ..to_everyone() }).await;
    fill(&world, 65).await;
    let refused = world.inbox.publish(&world.cx, &world.key, to_everyone()).await;
    assert!(matches!(refused, Err(PublishError::Full)));
    // What was accepted before waits for room.
    world.later(61).await;
    world.work().await;
    assert_eq!(world.post(&scheduled.id).await.state, State::Scheduled);
    // What has expired takes up none, although it is stored and counted.
    world.later(11).await;
    world.work().await;
    assert_eq!(world.public().await[0].message.id, scheduled.id);
    world.publish(to_everyone()).await;
    assert_eq!(world.public_stats().await.published, MAX_PUBLIC + 2);
}

/// Stores as many public messages as there may be, which expire after so many minutes.
async fn fill(world: &World<'_>, minutes: i64) {
    let (tenant, now) = (world.cx.workspace(), world.cx.now());
    let items = world.cx.items().await.unwrap();
    let numbers: Vec<i64> = (1..=MAX_PUBLIC).collect();
    for some in numbers.chunks(MAX_TXN_WRITES) {
        let txn = some.iter().fold(Txn::new(), |txn, seq| {
            let message = Message {
                id: format!("0GV8YLWQ{seq:0>9}").parse().unwrap(),
                host_system_id: None,
                sender: "shop".to_owned(),
                label: None,
                received: now,
                delivered: now,
                expires: now + minutes.minutes(),
                category: None,
                content: None,
            };
            let public = Public { message, seq: *seq, redacted: None };
            txn.put(&tables::INBOX, public.to_item(tenant, &world.key), Expect::Absent)
        });
        items.transact(txn).await.unwrap();
    }
    let counts = Update::new(&tables::INBOX, keys::counts(&keys::public(tenant, &world.key)));
    let counts = counts.set("published", MAX_PUBLIC).set("issued", MAX_PUBLIC).add("rev", 1);
    items.update(counts).await.unwrap();
}

async fn a_category_too_many_is_refused(bed: &Bed) {
    let world = World::new(bed).await;
    let of = |number: usize| NewPost { category: Some(format!("c{number}")), ..to(&["ada"]) };
    for number in 0..50 {
        world.publish(of(number)).await;
    }
    let told = refused(&world, of(50)).await;
    assert!(told[0].starts_with("category must be one of the 50"), "{told:?}");
    world.publish(of(49)).await;
    world.publish(NewPost { category: None, ..to(&["ada"]) }).await;
    world.counts_hold(&["ada"]).await;
}
