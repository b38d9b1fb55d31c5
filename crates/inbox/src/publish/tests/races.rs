//! Publishers, workers and readers at the same time.

use futures_util::future::join_all;
use tidings_testbed::{Bed, each_store};

use super::super::NewPost;
use super::{World, to, to_everyone, to_many};
use crate::records::State;

each_store!(
    publishers_at_once_are_all_counted,
    the_same_request_at_once_is_one_post,
    workers_at_once_deliver_to_everybody_once,
    a_redaction_in_the_middle_of_a_delivery_leaves_nothing,
    a_redaction_while_readers_mark_leaves_exact_counts,
);

async fn publishers_at_once_are_all_counted(bed: &Bed) {
    let world = World::new(bed).await;
    let users = (0..8).map(|_| world.publish(to(&["ada", "bob"])));
    let everyone = (0..8).map(|_| world.publish(to_everyone()));
    let (users, everyone) = tokio::join!(join_all(users), join_all(everyone));
    assert!(users.iter().chain(&everyone).all(|published| published.state == State::Done));
    assert_eq!(world.stats("ada").await.published, 8);
    let mut seqs: Vec<_> = world.public().await.iter().map(|public| public.seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=8).collect::<Vec<_>>());
    world.counts_hold(&["ada", "bob"]).await;
}

async fn the_same_request_at_once_is_one_post(bed: &Bed) {
    let world = World::new(bed).await;
    let host = |new: NewPost, id: &str| NewPost { host_system_id: Some(id.to_owned()), ..new };
    for (new, id) in [(to(&["ada"]), "a"), (to_everyone(), "b"), (to_many(30), "c")] {
        let same = (0..6).map(|_| world.publish(host(new.clone(), id)));
        let published = join_all(same).await;
        assert_eq!(published.iter().filter(|one| !one.replayed).count(), 1, "{id}");
        assert!(published.iter().all(|one| one.id == published[0].id), "{id}");
    }
    assert_eq!((world.own("ada").await.len(), world.public().await.len()), (1, 1));
    assert_eq!(world.own("u29").await.len(), 1);
    world.counts_hold(&["ada", "u0", "u29"]).await;
}

async fn workers_at_once_deliver_to_everybody_once(bed: &Bed) {
    let mut world = World::new(bed).await;
    let send_at = Some(world.cx.now() + jiff::SignedDuration::from_mins(1));
    let post = world.publish(NewPost { send_at, ..to_many(200) }).await;
    world.later(1).await;
    let key = &world.key;
    let scheduled = world.post(&post.id).await;
    let work = (0..3).map(async |_| {
        let begun = super::super::begin::begin(&world.inbox, &world.cx, key, scheduled.clone());
        begun.await.unwrap();
        let now = world.post(&post.id).await;
        super::super::walk::page(&world.inbox, &world.cx, key, now).await.unwrap()
    });
    let ended = join_all(work).await;
    assert!(ended.iter().all(|post| post.state == State::Done && post.delivered == 200));
    for uid in ["u0", "u31", "u32", "u100", "u199"] {
        assert_eq!(world.own(uid).await.len(), 1, "{uid}");
    }
    world.counts_hold(&["u0", "u31", "u32", "u100", "u199"]).await;
}

async fn a_redaction_in_the_middle_of_a_delivery_leaves_nothing(bed: &Bed) {
    let mut world = World::new(bed).await;
    for turns in [1, 5, 15, 40, 80, 160] {
        let send_at = Some(world.cx.now() + jiff::SignedDuration::from_mins(1));
        let post = world.publish(NewPost { send_at, ..to_many(150) }).await;
        world.later(1).await;
        let work = world.work();
        let take = async {
            // So many others come first.
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            world.inbox.redact(&world.cx, &world.key, &post.id).await.unwrap()
        };
        tokio::join!(work, take);
        world.later(2).await;
        world.work().await;
        let state = world.post(&post.id).await.state;
        assert!(matches!(state, State::Redacted | State::Cancelled), "{state}");
        for uid in ["u0", "u40", "u149"] {
            assert_eq!(world.own(uid).await.len(), 0, "{uid} {turns}");
            assert_eq!(world.stats(uid).await.published, 0, "{uid} {turns}");
        }
    }
}

async fn a_redaction_while_readers_mark_leaves_exact_counts(bed: &Bed) {
    let world = World::new(bed).await;
    let uids: Vec<String> = (0..12).map(|number| format!("r{number}")).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    let kept = world.publish(to(&uids)).await;
    let gone = world.publish(to(&uids)).await;
    let marks = join_all(uids.iter().map(|uid| world.read(uid, &kept.id, Some("news"))));
    let redact = world.inbox.redact(&world.cx, &world.key, &gone.id);
    let (_, redacted) = tokio::join!(marks, redact);
    assert_eq!(redacted.unwrap().state, State::Redacted);
    for uid in &uids {
        let stats = world.stats(uid).await;
        assert_eq!((stats.published, stats.read), (1, 1), "{uid}");
    }
    world.counts_hold(&uids).await;
}
