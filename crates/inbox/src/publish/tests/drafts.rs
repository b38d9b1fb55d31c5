//! Large posts that are not accepted: nobody on their pages is left behind, and whoever is forgotten is found there.

use std::sync::Arc;

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use tidings_kernel::{Scan, tables};
use tidings_testbed::{Bed, dying, each_store, interrupted_at};
use tokio::sync::Notify;

use super::super::{NewPost, PublishError};
use super::{World, to_many, user};
use crate::forget;
use crate::records::Post;

each_store!(
    wherever_a_process_ends_nobody_is_left_on_pages_without_a_post,
    what_cannot_be_accepted_leaves_no_pages,
    who_is_faster_with_the_same_request_is_the_only_one_with_pages,
    whoever_is_forgotten_while_it_is_accepted_is_on_no_page,
);

/// Eleven pages, in two transactions.
const USERS: usize = 10_001;
/// More calls than accepting makes.
const CALLS: isize = 12;

/// Its time is far away, so that nobody has it yet.
fn later(world: &World<'_>) -> NewPost {
    let send_at = Some(world.cx.now() + SignedDuration::from_hours(24 * 30));
    NewPost { send_at, ..to_many(USERS) }
}

/// How many pages there are, how many of them name this user, and how many posts are not accepted.
async fn pages(world: &World<'_>, uid: &str) -> (usize, usize, usize) {
    let (mut found, mut after) = ((0, 0, 0), None);
    loop {
        let items = world.cx.items().await.unwrap();
        let scan = Scan::new(&tables::INBOX).limit(100).after(after);
        let page = items.scan(scan).await.unwrap();
        for item in &page.items {
            let key = tables::INBOX.key_of(item).unwrap();
            found.2 += usize::from(key.sort.unwrap().starts_with("d#"));
            if key.partition.starts_with("t#acmeP#app#") {
                let is_named = Post::read_recipients(item).unwrap().contains(&user(uid));
                found = (found.0 + 1, found.1 + usize::from(is_named), found.2);
            }
        }
        after = page.cursor;
        if after.is_none() {
            return found;
        }
    }
}

async fn posts(world: &World<'_>) -> usize {
    super::super::posts(&world.cx, &world.key, 100, None).await.unwrap().posts.len()
}

/// The process is gone before a call, and does nothing any more.
async fn wherever_a_process_ends_nobody_is_left_on_pages_without_a_post(bed: &Bed) {
    let mut world = World::new(bed).await;
    let (mut accepted, mut left, mut done) = (0, 0, false);
    for place in 0..CALLS {
        let reached = Arc::new(Notify::new());
        let dies = {
            let reached = Arc::clone(&reached);
            let happens = move || {
                reached.notify_one();
                std::future::pending().boxed()
            };
            interrupted_at(bed, &world.cx, place, happens).await
        };
        tokio::select! {
            told = world.inbox.publish(&dies, &world.key, later(&world)) => {
                told.unwrap();
                done = true;
            }
            () = reached.notified() => {}
        }
        let now = posts(&world).await;
        let (there, _, drafts) = pages(&world, "u7").await;
        left += usize::from(there > 11 * now);
        assert!(drafts + now <= accepted + 1, "{place}");
        // Whoever is erased before anybody clears it away is on none of them.
        forget(&world.cx, &user("u7")).await.unwrap();
        assert_eq!(pages(&world, "u7").await, (there, 0, drafts), "{place}");
        world.later(16).await;
        world.work().await;
        assert_eq!(pages(&world, "u7").await, (11 * now, 0, 0), "{place}");
        assert_eq!(posts(&world).await, now);
        accepted = now;
        if done {
            break;
        }
    }
    assert!(done && accepted > 0 && left >= 2, "{done} {accepted} {left}");
}

/// A call fails, or its answer is lost.
async fn what_cannot_be_accepted_leaves_no_pages(bed: &Bed) {
    let world = World::new(bed).await;
    let (mut accepted, mut refused) = (0, 0);
    for (place, after) in (0..CALLS).flat_map(|place| [(place, false), (place, true)]) {
        let dies = dying(bed, &world.cx, place, after).await;
        let told = world.inbox.publish(&dies, &world.key, later(&world)).await;
        let now = posts(&world).await;
        assert!(told.is_err() || now == accepted + 1, "what was answered is there");
        refused += usize::from(now == accepted);
        assert_eq!(pages(&world, "u7").await, (11 * now, now, 0), "{place} {after}");
        accepted = now;
    }
    assert!(refused > 4 && accepted > 4, "{refused} {accepted}");
}

async fn who_is_faster_with_the_same_request_is_the_only_one_with_pages(bed: &Bed) {
    let world = World::new(bed).await;
    let mut replayed = 0;
    for place in 0..CALLS {
        for is_same in [true, false] {
            let named = |new: NewPost| NewPost {
                host_system_id: Some(format!("{place}/{is_same}")),
                ..new
            };
            let request = named(NewPost { to: to_many(1_001).to, ..later(&world) });
            let first = if is_same {
                request.clone()
            } else {
                NewPost { title: "Other".to_owned(), ..request.clone() }
            };
            let (inbox, cx, key) = (Arc::clone(&world.inbox), world.cx.clone(), world.key.clone());
            let happens = move || {
                let (inbox, cx, key, new) =
                    (Arc::clone(&inbox), cx.clone(), key.clone(), first.clone());
                async move { drop(inbox.publish(&cx, &key, new).await.unwrap()) }.boxed()
            };
            let slower = interrupted_at(bed, &world.cx, place, happens).await;
            match world.inbox.publish(&slower, &world.key, request).await {
                Ok(told) => replayed += usize::from(told.replayed),
                Err(PublishError::OtherRequest(_)) => assert!(!is_same),
                Err(error) => panic!("{place}: {error}"),
            }
            let posts = posts(&world).await;
            assert_eq!(pages(&world, "u7").await, (2 * posts, posts, 0), "{place} {is_same}");
        }
    }
    assert!(replayed > 3, "{replayed}");
}

async fn whoever_is_forgotten_while_it_is_accepted_is_on_no_page(bed: &Bed) {
    let world = World::new(bed).await;
    let mut in_time = 0;
    for place in 0..CALLS {
        let cx = world.cx.clone();
        let happens = move || {
            let cx = cx.clone();
            async move { forget(&cx, &user("u7")).await.unwrap() }.boxed()
        };
        let accepts = interrupted_at(bed, &world.cx, place, happens).await;
        world.inbox.publish(&accepts, &world.key, later(&world)).await.unwrap();
        // If his page was not there yet, he was named after he was forgotten.
        let (_, named, _) = pages(&world, "u7").await;
        in_time += usize::from(named == 0);
        forget(&world.cx, &user("u7")).await.unwrap();
        assert_eq!(pages(&world, "u7").await.1, 0, "{place}");
    }
    assert!(in_time >= 2, "{in_time}");
}
