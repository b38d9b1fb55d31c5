//! Processes that end at any call of the store, before it or after, and jobs that come twice.

use std::sync::Arc;

use tidings_testbed::{Bed, dying, dying_access, each_store};

use super::super::{NewPost, handler};
use super::{World, many, to, to_everyone, to_many};
use crate::records::State;

each_store!(
    wherever_a_process_ends_a_request_that_comes_again_is_published_once,
    wherever_it_ends_in_the_middle_of_many_the_worker_finishes_it,
    wherever_a_worker_ends_everybody_has_it_once,
    wherever_it_ends_it_is_taken_away_whole,
    what_comes_twice_is_done_once,
);

async fn wherever_a_process_ends_a_request_that_comes_again_is_published_once(bed: &Bed) {
    let world = World::new(bed).await;
    let mut posts = 0;
    let mut went = [false; 2];
    for (place, after) in (0..9).flat_map(|place| [(place, false), (place, true)]) {
        let host = |new: NewPost, kind: &str| NewPost {
            host_system_id: Some(format!("{kind}/{place}/{after}")),
            category: Some(format!("c{place}")),
            ..new
        };
        for (new, kind) in [(to(&["ada", "bob"]), "users"), (to_everyone(), "everyone")] {
            let dies = dying(bed, &world.cx, place, after).await;
            let first = world.inbox.publish(&dies, &world.key, host(new.clone(), kind)).await;
            went[usize::from(first.is_ok())] = true;
            let again = world.publish(host(new, kind)).await;
            if let Ok(first) = first {
                assert_eq!((first.id, true), (again.id, again.replayed));
            }
            assert_eq!(again.state, State::Done);
        }
        posts += 1;
        assert_eq!(world.own("ada").await.len(), posts, "{place} {after}");
        assert_eq!(world.public().await.len(), posts, "{place} {after}");
        world.counts_hold(&["ada", "bob"]).await;
    }
    assert_eq!(went, [true, true], "some died and some did not");
}

async fn wherever_it_ends_in_the_middle_of_many_the_worker_finishes_it(bed: &Bed) {
    let mut world = World::new(bed).await;
    let uids = many(33);
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    let mut accepted = 0;
    for (place, after) in (0..12).flat_map(|place| [(place, false), (place, true)]) {
        let dies = dying(bed, &world.cx, place, after).await;
        let told = world.inbox.publish(&dies, &world.key, to_many(33)).await;
        world.later(2).await;
        world.work().await;
        let page = super::super::posts(&world.cx, &world.key, 100, None).await.unwrap();
        let posts = page.posts.len();
        assert!(page.posts.iter().all(|post| post.state == State::Done && post.delivered == 33));
        assert!(told.is_err() || posts == accepted + 1, "what was answered is there");
        accepted = posts;
        for uid in ["u0", "u31", "u32"] {
            assert_eq!(world.own(uid).await.len(), posts, "{uid} {place} {after}");
        }
    }
    assert!((12..24).contains(&accepted), "some died before they were accepted: {accepted}");
    world.counts_hold(&uids).await;
}

async fn wherever_a_worker_ends_everybody_has_it_once(bed: &Bed) {
    let mut world = World::new(bed).await;
    for (place, after) in (0..8).flat_map(|place| [(place, false), (place, true)]) {
        let send_at = Some(world.cx.now() + jiff::SignedDuration::from_mins(1));
        let users = world.publish(NewPost { send_at, ..to_many(33) }).await;
        let everyone = world.publish(NewPost { send_at, ..to_everyone() }).await;
        world.later(1).await;
        let access = dying_access(bed, &world.cx, place, after);
        let dies = handler(access, Arc::clone(&world.inbox));
        bed.work(&tidings_kernel::queues::INBOX_POSTS, dies).await;
        // What could not be done comes again after a while.
        for _ in 0..10 {
            world.later(5).await;
            world.work().await;
        }
        for id in [&users.id, &everyone.id] {
            assert_eq!(world.post(id).await.state, State::Done, "{place} {after}");
        }
        let has = world.own("u32").await;
        assert_eq!(has.iter().filter(|own| own.message.id == users.id).count(), 1);
    }
    assert_eq!((world.public().await.len(), world.own("u0").await.len()), (16, 16));
    world.counts_hold(&["u0", "u31", "u32"]).await;
}

async fn wherever_it_ends_it_is_taken_away_whole(bed: &Bed) {
    let mut world = World::new(bed).await;
    let mut died = 0;
    for (place, after) in (0..12).flat_map(|place| [(place, false), (place, true)]) {
        let users = world.publish(to_many(33)).await;
        world.read("u3", &users.id, Some("news")).await;
        let everyone = world.publish(to_everyone()).await;
        for id in [&users.id, &everyone.id] {
            let dies = dying(bed, &world.cx, place, after).await;
            let told = world.inbox.redact(&dies, &world.key, id).await;
            died += usize::from(told.is_err());
            // Whoever was not answered asks again, and a worker goes on with what had begun.
            world.inbox.redact(&world.cx, &world.key, id).await.unwrap();
        }
        world.later(2).await;
        world.work().await;
        for id in [&users.id, &everyone.id] {
            assert_eq!(world.post(id).await.state, State::Redacted, "{place} {after}");
        }
        assert_eq!(world.own("u3").await.len(), 0);
        assert_eq!(world.stats("u3").await.published, 0);
        assert_eq!(world.public_stats().await.published, 0);
    }
    assert!((10..48).contains(&died), "{died}");
    world.counts_hold(&["u0", "u3", "u31", "u32"]).await;
}

async fn what_comes_twice_is_done_once(bed: &Bed) {
    let mut world = World::new(bed).await;
    let send_at = Some(world.cx.now() + jiff::SignedDuration::from_mins(1));
    let users = world.publish(NewPost { send_at, ..to_many(33) }).await;
    let everyone = world.publish(NewPost { send_at, ..to_everyone() }).await;
    world.later(1).await;
    let worker = world.worker();
    for _ in 0..3 {
        for id in [&users.id, &everyone.id] {
            for task in ["deliver", "redact"] {
                worker.handle(&delivery(id.as_str(), task)).await;
            }
        }
    }
    world.work().await;
    assert_eq!((world.public().await.len(), world.own("u32").await.len()), (1, 1));
    world.counts_hold(&["u0", "u32"]).await;
    world.inbox.redact(&world.cx, &world.key, &users.id).await.unwrap();
    for task in ["deliver", "redact", "deliver"] {
        worker.handle(&delivery(users.id.as_str(), task)).await;
    }
    assert_eq!(world.own("u32").await.len(), 0);
    world.counts_hold(&["u0", "u32"]).await;
}

fn delivery(id: &str, task: &str) -> tidings_kernel::Delivery {
    let body = serde_json::json!({
        "contract": "inbox-post", "version": 1, "workspace": "acme", "inbox": "app", "id": id, "task": task,
    });
    tidings_kernel::Delivery {
        receipt: tidings_kernel::Receipt("test".to_owned()),
        id: "test".to_owned(),
        body: body.to_string(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
    }
}
