//! A user is forgotten while something of his is under way, and comes again under the same name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use futures_util::FutureExt as _;
use jiff::ToSpan as _;
use tidings_access::Cx;
use tidings_kernel::{Query, queues, tables};
use tidings_testbed::{Bed, each_store, interrupted, interrupted_at};

use super::world::{World, post, reader, reader_in, said};
use crate::keys::{self, InboxKey, UserId};
use crate::marks::{Mark, MarkError, ReadAll, mark, read_all};
use crate::publish::{To, handler};
use crate::read::{Listing, counts, list};
use crate::records::Post;
use crate::{LookError, Reader, forget};

each_store!(
    what_is_told_of_who_was_forgotten_is_not_taken_from_who_comes,
    a_delivery_under_way_brings_nothing_to_who_was_forgotten,
    nobody_who_was_let_in_before_brings_him_back,
    what_he_does_while_he_is_forgotten_leaves_nothing,
);

fn ada() -> UserId {
    "ada".parse().unwrap()
}

async fn what_is_told_of_who_was_forgotten_is_not_taken_from_who_comes(bed: &Bed) {
    let world = World::new(bed);
    let retell = async || {
        let sql = "UPDATE item_consumers SET seq = 0";
        bed.access.database().write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
    };
    // Whoever comes is made by a message, or by a look.
    for is_published in [true, false] {
        let own = world.publish_for("ada", "news", "10m").await;
        let public = world.publish_for("", "news", "10m").await;
        world.publish_for("ada", "news", "10m").await;
        world.mark("ada", Mark::Read, &[&own, &public]).await;
        bed.clock.advance(11.minutes());
        // Removed, and not counted out.
        world.sweep().await;
        forget(&world.cx().await, &ada()).await.unwrap();
        if is_published {
            world.publish("ada", "news").await;
        }
        let told = if is_published { "1 1; news 1 1" } else { "0 0" };
        assert_eq!(world.told("ada").await, told);
        assert_eq!(world.count_out().await.expired, 4);
        assert_eq!(world.told("ada").await, told);
        world.verify().await;
        // The marks of what was counted out go with him, and the stream tells it again.
        forget(&world.cx().await, &ada()).await.unwrap();
        assert_eq!(world.told("ada").await, "0 0");
        retell().await;
        world.count_out().await;
        assert_eq!(world.told("ada").await, "0 0");
        world.verify().await;
    }
}

/// Whether a page of a post names him, and whether he has anything.
async fn has(cx: &Cx, app: &InboxKey, id: &crate::ids::MessageId) -> (bool, bool) {
    let items = cx.items().await.unwrap();
    let page = items.get(&tables::INBOX, &keys::recipients(cx.workspace(), app, id, 1)).await;
    let named = Post::read_recipients(&page.unwrap().unwrap()).unwrap();
    let query = Query::new(&tables::INBOX, keys::user(cx.workspace(), app, &ada()));
    let count = items.count(query.begins_with(keys::MESSAGES)).await.unwrap();
    (named.contains(&ada()), count > 0)
}

/// He is forgotten at each call of the store in turn. If the post was there then, he does not get it.
async fn a_delivery_under_way_brings_nothing_to_who_was_forgotten(bed: &Bed) {
    let (world, app) = (World::new(bed), "app".parse().unwrap());
    let mut uids: Vec<String> = (0..60).map(|number| format!("u{number}")).collect();
    // Among those who get it last.
    uids.push("ada".to_owned());
    let mut in_time = 0;
    for place in 0..40 {
        let cx = world.cx().await;
        let calls = Arc::new(AtomicUsize::new(0));
        let happens = {
            let (calls, cx) = (Arc::clone(&calls), cx.clone());
            move || {
                let (calls, cx) = (Arc::clone(&calls), cx.clone());
                let happens = async move {
                    if calls.fetch_add(1, SeqCst) == place {
                        forget(&cx, &ada()).await.unwrap();
                    }
                };
                happens.boxed()
            }
        };
        let delivering = interrupted(bed, &cx, happens).await;
        let new = post(To::Users(uids.clone()));
        let id = world.inbox.publish(&delivering, &app, new).await.unwrap().id;
        bed.advance(2).await;
        let posts = handler(bed.access.clone(), Arc::clone(&world.inbox));
        bed.work(&queues::INBOX_POSTS, posts).await;
        let (is_named, has_it) = has(&cx, &app, &id).await;
        assert_eq!(is_named, has_it, "forgotten at call {place}");
        in_time += usize::from(!is_named);
        forget(&cx, &ada()).await.unwrap();
        world.verify().await;
        if calls.load(SeqCst) <= place {
            break;
        }
    }
    assert!(in_time > 2, "he was forgotten while it was under way {in_time} times");
}

fn since(reader: Reader, cx: &Cx) -> Reader {
    Reader { let_in: Some(cx.now()), ..reader }
}

async fn nobody_who_was_let_in_before_brings_him_back(bed: &Bed) {
    let world = World::new(bed);
    let public = world.publish("", "news").await;
    world.publish("ada,bob", "news").await;
    let cx = world.cx().await;
    let tab = since(reader("ada"), &cx);
    assert_eq!(counts(&cx, &world.inbox, &tab).await.unwrap().total, 2);
    bed.clock.advance(1.second());
    forget(&world.cx().await, &ada()).await.unwrap();

    let refused = async |tab: &Reader| {
        let (cx, inbox) = (world.cx().await, &world.inbox);
        let looked = counts(&cx, inbox, tab).await;
        assert!(matches!(looked, Err(LookError::Forgotten)), "{looked:?}");
        let listed = list(&cx, inbox, tab, Listing { limit: 5, ..Listing::default() }).await;
        assert!(matches!(listed, Err(LookError::Forgotten)), "{listed:?}");
        let marked = mark(&cx, inbox, tab, Mark::Read, std::slice::from_ref(&public)).await;
        assert!(matches!(marked, Err(MarkError::Forgotten)), "{marked:?}");
        let read = read_all(&cx, inbox, tab, ReadAll::default()).await;
        assert!(matches!(read, Err(MarkError::Forgotten)), "{read:?}");
    };
    refused(&tab).await;
    refused(&Reader { inbox: "nobody-published-here".parse().unwrap(), ..tab.clone() }).await;
    assert_eq!(said(bed, "ada").await, [""; 0]);
    let bob = since(reader("bob"), &cx);
    assert_eq!(counts(&world.cx().await, &world.inbox, &bob).await.unwrap().total, 2);

    // Somebody new of the same name is let in, and only he.
    bed.clock.advance(1.millisecond());
    let cx = world.cx().await;
    let anew = since(reader("ada"), &cx);
    world.publish("ada", "").await;
    refused(&tab).await;
    assert_eq!(counts(&cx, &world.inbox, &anew).await.unwrap().total, 2);
    refused(&tab).await;
    assert_eq!(world.told("ada").await, "2 2; news 1 1");
    world.verify().await;

    // It is kept no longer than tokens are good.
    assert_eq!(said(bed, "sf").await.len(), 1);
    bed.clock.advance(32 * 24.hours());
    world.expire().await;
    assert_eq!(said(bed, "sf").await, [""; 0]);
    let again = since(reader_in("app", "carl"), &cx);
    assert_eq!(counts(&world.cx().await, &world.inbox, &again).await.unwrap().total, 0);
}

/// He is forgotten at each call of the store in turn, while a tab of his does something.
async fn what_he_does_while_he_is_forgotten_leaves_nothing(bed: &Bed) {
    let (world, tries) = (World::new(bed), 40);
    let up_to = world.publish("", "").await;
    for _ in 0..110 {
        world.publish("", "").await;
    }
    for what in ["look", "mark", "read all"] {
        let mut refused = 0;
        for place in 0..tries {
            let cx = world.cx().await;
            let tab = since(reader("ada"), &cx);
            if place % 2 == 0 {
                counts(&cx, &world.inbox, &tab).await.unwrap();
            }
            let is_forgotten = Arc::new(AtomicBool::new(false));
            let of = (cx.clone(), Arc::clone(&is_forgotten));
            let happens = move || {
                let (cx, is_forgotten) = of.clone();
                let happens = async move {
                    forget(&cx, &ada()).await.unwrap();
                    is_forgotten.store(true, SeqCst);
                };
                happens.boxed()
            };
            let cx = interrupted_at(bed, &cx, place / 2, happens).await;
            let ids = std::slice::from_ref(&up_to);
            let done = match what {
                "look" => counts(&cx, &world.inbox, &tab).await.map(drop).map_err(MarkError::from),
                "mark" => mark(&cx, &world.inbox, &tab, Mark::Read, ids).await.map(drop),
                _ => {
                    let what = ReadAll { category: None, up_to: Some(up_to.clone()) };
                    read_all(&cx, &world.inbox, &tab, what).await.map(drop)
                }
            };
            match done {
                Err(MarkError::Forgotten) => refused += 1,
                Err(error) => panic!("{what} at call {place}: {error}"),
                Ok(()) => {}
            }
            if is_forgotten.load(SeqCst) {
                assert_eq!(said(bed, "ada").await, [""; 0], "{what} at call {place}");
            }
            forget(&world.cx().await, &ada()).await.unwrap();
            bed.clock.advance(1.second());
        }
        assert!(refused > 2, "{what} was refused {refused} times");
    }
}
