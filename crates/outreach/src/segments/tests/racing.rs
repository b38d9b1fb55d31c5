//! Several who look at the same people at once, and messages that come twice and in any order.

use std::pin::pin;
use std::task::Poll;

use futures_util::future::join_all;
use tidings_kernel::queues;
use tidings_testbed::{Bed, each_store};

use super::super::settle::settle;
use super::{again, assert_right, find, heard, listen, person, segment, vip, work, worker};

each_store!(
    a_slow_look_does_not_undo_a_newer_one,
    shuffled_and_repeated_messages_end_at_the_truth,
    workers_that_race_with_changes_end_at_the_truth,
);

/// Lets the first go on until it has waited so often, then does the second to its end, then the first.
async fn in_between<T>(first: impl Future<Output = T>, turns: usize, second: impl Future) -> T {
    let mut first = pin!(first);
    let mut left = turns;
    let begun = std::future::poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    });
    let done = begun.await;
    second.await;
    match done {
        Some(answer) => answer,
        None => first.await,
    }
}

async fn a_slow_look_does_not_undo_a_newer_one(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let ada = person(&cx, "ada", &["vip"], "free").await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    for turns in 0..24 {
        // The slow one reads that he is in, and while it is at it he is out and somebody else has seen that.
        person(&cx, "ada", &["vip"], "pro").await;
        let people = [ada];
        let slow = settle(&cx, &people, None);
        let newer = async {
            person(&cx, "ada", &["vip"], "free").await;
            settle(&cx, &[ada], None).await.unwrap();
        };
        in_between(slow, turns, newer).await.unwrap();
        let found = find(&cx, "vip".parse().unwrap()).await.unwrap();
        assert_eq!(found.members, 0, "after {turns} turns");
        assert_right(&cx, "vip").await;
        // Who got in was told of, and then that he got out: never one without the other.
        let told = heard(bed).await;
        let entered = told.iter().filter(|line| line.contains("entered")).count();
        assert_eq!(entered * 2, told.len(), "{told:?}");
    }
}

async fn shuffled_and_repeated_messages_end_at_the_truth(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    segment(&cx, "vip", vip()).await;
    segment(&cx, "pros", serde_json::json!({ "attribute": "plan", "equals": "pro" })).await;
    work(bed).await;
    let mut all = Vec::new();
    for round in 0..4_usize {
        for number in 0..9_usize {
            let tags: &[&str] = if (number + round) % 2 == 0 { &["vip"] } else { &[] };
            let plan = if (number * 7 + round) % 3 == 0 { "free" } else { "pro" };
            all.push(person(&cx, &format!("p{number}"), tags, plan).await);
        }
        // The same once more, the other way round, and together.
        let mut reversed = all.clone();
        reversed.reverse();
        for one in &reversed {
            again(bed, &cx, &[*one]).await;
        }
        again(bed, &cx, &reversed[..reversed.len().min(9)]).await;
        if round % 2 == 1 {
            work(bed).await;
        }
    }
    work(bed).await;
    for slug in ["vip", "pros"] {
        assert_right(&cx, slug).await;
    }
    // What was told adds up to who is inside.
    let told = heard(bed).await;
    for slug in ["vip", "pros"] {
        let members = find(&cx, slug.parse().unwrap()).await.unwrap().members;
        let of = |word: &str| {
            let line = format!("segment.{word} {slug}");
            told.iter().filter(|told| told.ends_with(&line)).count() as u64
        };
        assert!(of("left") > 0);
        assert_eq!(of("entered") - of("left"), members, "{told:?}");
    }
}

async fn workers_that_race_with_changes_end_at_the_truth(bed: &Bed) {
    let cx = bed.cx().await;
    segment(&cx, "vip", vip()).await;
    let change = async |seed: usize| {
        for step in 0..12_usize {
            let number = (seed * 5 + step * 3) % 6;
            let plan = if (seed + step).is_multiple_of(2) { "pro" } else { "free" };
            person(&cx, &format!("p{number}"), &["vip"], plan).await;
        }
    };
    let run = || async {
        for _ in 0..6 {
            work(bed).await;
        }
    };
    tokio::join!(join_all((0..3).map(change)), run(), run());
    // A new condition while they go on.
    segment(&cx, "vip", serde_json::json!({ "attribute": "plan", "equals": "pro" })).await;
    tokio::join!(join_all((3..6).map(change)), run(), run());
    work(bed).await;
    assert_right(&cx, "vip").await;
    assert_eq!(bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await, 0);
}

#[tokio::test]
async fn two_nodes_end_at_the_truth() {
    let bed = Bed::postgres().await;
    let (cx, other) = (bed.cx().await, bed.beside().await);
    segment(&cx, "vip", vip()).await;
    let there = other.cx().await;
    let change = async |cx: &tidings_access::Cx, seed: usize| {
        for step in 0..15_usize {
            let plan = if (seed + step).is_multiple_of(2) { "pro" } else { "free" };
            person(cx, &format!("p{}", (seed + step) % 4), &["vip"], plan).await;
        }
    };
    let run = |bed| async move {
        for _ in 0..8 {
            work(bed).await;
        }
    };
    tokio::join!(change(&cx, 0), change(&there, 1), run(&bed), run(&other));
    work(&bed).await;
    assert_right(&cx, "vip").await;
}
