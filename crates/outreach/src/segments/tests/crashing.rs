//! What is left when a worker dies, wherever it is: done again, it is as if it had been done once.

use serde_json::json;
use tidings_kernel::queues;
use tidings_testbed::{Bed, dying, each_store, until_turn};

use super::super::build;
use super::super::settle::settle;
use super::super::{State, find};
use super::{
    again, assert_right, drain, heard, inside, listen, names, person, remember, segment, vip, work,
    worker,
};

each_store!(
    a_look_that_was_cut_short_is_told_once,
    a_build_goes_on_where_it_was_cut_short,
    a_store_that_fails_leaves_nothing_half_done,
    whoever_dies_looking_still_comes_back_when_a_memory_is_over,
);

async fn a_look_that_was_cut_short_is_told_once(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let ada = person(&cx, "ada", &[], "pro").await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    for turns in 0..24 {
        person(&cx, "ada", &["vip"], "pro").await;
        let ended = until_turn(settle(&cx, &[ada], None), turns).await.is_some();
        // The message comes again.
        work(bed).await;
        assert_eq!(heard(bed).await, ["ada segment.entered vip"], "after {turns} turns");
        assert_right(&cx, "vip").await;
        person(&cx, "ada", &[], "pro").await;
        work(bed).await;
        assert_eq!(heard(bed).await, ["ada segment.left vip"]);
        if ended {
            return;
        }
    }
    panic!("a look waits more often than anybody would");
}

async fn a_build_goes_on_where_it_was_cut_short(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..8 {
        let plan = if number % 2 == 0 { "pro" } else { "free" };
        person(&cx, &format!("p{number}"), &["vip"], plan).await;
    }
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    for turns in 0..24 {
        let condition = if turns % 2 == 0 { json!({ "tag": "vip" }) } else { vip() };
        let begun = segment(&cx, "vip", condition).await;
        // Every page is begun and dropped once, before its message comes.
        let mut pages = 0;
        while find(&cx, "vip".parse().unwrap()).await.unwrap().state == State::Building {
            let now = find(&cx, "vip".parse().unwrap()).await.unwrap();
            let page = build::page(&cx, begun.id, (begun.rev, now.build_page));
            until_turn(page, turns).await;
            let now = find(&cx, "vip".parse().unwrap()).await.unwrap();
            build::page(&cx, begun.id, (begun.rev, now.build_page)).await.unwrap();
            // A page that is done is not done again.
            build::page(&cx, begun.id, (begun.rev, 1)).await.unwrap();
            pages += 1;
            assert!(pages < 30, "it does not come to an end");
        }
        assert_right(&cx, "vip").await;
        let members = find(&cx, "vip".parse().unwrap()).await.unwrap().members;
        assert_eq!(members, if turns % 2 == 0 { 8 } else { 4 });
        drain(bed, &queues::SEGMENT_PROCESSING).await;
    }
}

async fn a_store_that_fails_leaves_nothing_half_done(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let ada = person(&cx, "ada", &[], "pro").await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    for place in 0..6 {
        for after in [false, true] {
            person(&cx, "ada", &["vip"], "pro").await;
            let broken = dying(bed, &cx, place, after).await;
            let done = settle(&broken, &[ada], None).await;
            let members = find(&cx, "vip".parse().unwrap()).await.unwrap().members;
            assert_eq!(members, u64::from(done.is_ok()));
            work(bed).await;
            assert_eq!(heard(bed).await, ["ada segment.entered vip"]);
            person(&cx, "ada", &[], "pro").await;
            work(bed).await;
            assert_eq!(heard(bed).await, ["ada segment.left vip"]);
            assert_right(&cx, "vip").await;
        }
    }
}

async fn whoever_dies_looking_still_comes_back_when_a_memory_is_over(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = person(&cx, "ada", &[], "pro").await;
    segment(&cx, "colour", json!({"memory": "preference/colour", "exists": true})).await;
    work(bed).await;
    for turns in 0..24 {
        let cx = bed.cx().await;
        remember(&cx, ada, "colour", (60, None)).await;
        again(bed, &cx, &[ada]).await;
        let ended = until_turn(settle(&cx, &[ada], None), turns).await.is_some();
        // The message comes, and comes again.
        for _ in 0..2 {
            bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await;
            again(bed, &cx, &[ada]).await;
        }
        assert_eq!(inside(&cx, "colour").await, names(&["ada"]), "after {turns} turns");
        drain(bed, &queues::SEGMENT_PROCESSING).await;
        bed.advance(60).await;
        bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await;
        assert_eq!(inside(&cx, "colour").await, names(&[]), "after {turns} turns");
        if ended {
            return;
        }
    }
    panic!("a look waits more often than anybody would");
}
