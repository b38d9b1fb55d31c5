//! A user is signed out: his tokens and tabs from before are refused, and what he has stays.

use futures_util::FutureExt as _;
use jiff::ToSpan as _;
use tidings_access::signing::SigningKeys;
use tidings_testbed::{Bed, each_store, interrupted_at};

use super::world::{World, reader, reader_in};
use crate::keys::UserId;
use crate::marks::{Mark, MarkError, mark};
use crate::read::counts;
use crate::tokens::{Issue, LIFETIME, TokenError, Tokens};
use crate::{LookError, Reader, forget, sign_out};

each_store!(
    whoever_was_let_in_before_is_refused_and_what_he_has_stays,
    nobody_comes_for_the_first_time_while_he_is_signed_out,
    he_is_signed_out_while_others_change_his_counts,
);

fn ada() -> UserId {
    "ada".parse().unwrap()
}

async fn tab(world: &World<'_>, uid: &str) -> Reader {
    Reader { let_in: Some(world.cx().await.now()), ..reader(uid) }
}

/// How many messages he has, or nothing if he is not let in.
async fn seen(world: &World<'_>, tab: &Reader) -> Option<i64> {
    match counts(&world.cx().await, &world.inbox, tab).await {
        Ok(counts) => Some(counts.total),
        Err(LookError::Forgotten) => None,
        Err(error) => panic!("{error}"),
    }
}

async fn whoever_was_let_in_before_is_refused_and_what_he_has_stays(bed: &Bed) {
    let (world, other) = (World::new(bed), bed.make_workspace("other").await);
    let keys = SigningKeys::load(bed.access.database(), bed.access.now()).await.unwrap();
    let tokens = Tokens::new(keys);
    let issue = || Issue { uid: ada(), inboxes: vec![], lifetime: LIFETIME };
    let own = world.publish("ada,bob", "news").await;
    world.publish("", "news").await;
    let old = tokens.issue(&world.cx().await, issue()).await.unwrap();
    let theirs = tokens.issue(&other, issue()).await.unwrap();
    let (before, bob) = (tab(&world, "ada").await, tab(&world, "bob").await);
    world.mark("ada", Mark::Read, &[&own]).await;
    let elsewhere = Reader { inbox: reader_in("empty", "ada").inbox, ..before.clone() };
    for reader in [&before, &bob] {
        assert_eq!(seen(&world, reader).await, Some(2));
    }
    assert_eq!(seen(&world, &elsewhere).await, Some(0));

    bed.clock.advance(1.second());
    let mut watching =
        world.inbox.hints.watch(world.cx().await.workspace(), &before.inbox, &ada()).unwrap();
    sign_out(&world.cx().await, &world.inbox, &ada()).await.unwrap();
    watching.changed().await;
    for reader in [&before, &elsewhere] {
        assert_eq!(seen(&world, reader).await, None);
    }
    let marked = mark(&world.cx().await, &world.inbox, &before, Mark::Unread, &[own]).await;
    assert!(matches!(marked, Err(MarkError::Forgotten)), "{marked:?}");
    let refreshed = tokens.refresh(&bed.access, &old.refresh_token).await;
    assert!(matches!(refreshed, Err(TokenError::Forgotten)));

    // He is who he was, once he is let in again, and so is everybody else.
    assert_eq!(world.told("ada").await, "2 1; news 2 1");
    bed.clock.advance(1.millisecond());
    assert_eq!(seen(&world, &tab(&world, "ada").await).await, Some(2));
    assert_eq!(seen(&world, &bob).await, Some(2));
    tokens.refresh(&bed.access, &theirs.refresh_token).await.unwrap();
    let new = tokens.issue(&world.cx().await, issue()).await.unwrap();
    tokens.refresh(&bed.access, &new.refresh_token).await.unwrap();
    world.verify().await;

    // Twice is once more.
    sign_out(&world.cx().await, &world.inbox, &ada()).await.unwrap();
    let refreshed = tokens.refresh(&bed.access, &new.refresh_token).await;
    assert!(matches!(refreshed, Err(TokenError::Forgotten)));
    forget(&world.cx().await, &ada()).await.unwrap();
    assert_eq!(seen(&world, &before).await, None);
}

/// He is signed out at each call of the store in turn, while a tab of his looks for the first time.
async fn nobody_comes_for_the_first_time_while_he_is_signed_out(bed: &Bed) {
    let world = World::new(bed);
    world.publish("", "news").await;
    let mut refused = 0;
    for place in 0..20 {
        let (cx, before) = (world.cx().await, tab(&world, "ada").await);
        let (of, inbox) = (cx.clone(), std::sync::Arc::clone(&world.inbox));
        let happens = move || {
            let (cx, inbox) = (of.clone(), std::sync::Arc::clone(&inbox));
            async move { sign_out(&cx, &inbox, &ada()).await.unwrap() }.boxed()
        };
        let interrupted = interrupted_at(bed, &cx, place, happens).await;
        let looked = counts(&interrupted, &world.inbox, &before).await;
        refused += usize::from(matches!(looked, Err(LookError::Forgotten)));
        // It may have come too late for that look.
        sign_out(&cx, &world.inbox, &ada()).await.unwrap();
        assert_eq!(seen(&world, &before).await, None, "signed out at call {place}");
        bed.clock.advance(1.millisecond());
        assert_eq!(seen(&world, &tab(&world, "ada").await).await, Some(1), "at call {place}");
        forget(&world.cx().await, &ada()).await.unwrap();
        bed.clock.advance(1.millisecond());
    }
    assert!(refused > 2, "he was refused {refused} times");
}

async fn he_is_signed_out_while_others_change_his_counts(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "news").await;
    let before = tab(&world, "ada").await;
    let cx = world.cx().await;
    let changes = async {
        for _ in 0..5 {
            world.publish("ada", "news").await;
        }
        world.mark("ada", Mark::Read, &[&first]).await;
    };
    let ada = ada();
    let (_, signed_out) = tokio::join!(changes, sign_out(&cx, &world.inbox, &ada));
    signed_out.unwrap();
    assert_eq!(seen(&world, &before).await, None);
    assert_eq!(world.told("ada").await, "6 5; news 6 5");
    world.verify().await;
}
