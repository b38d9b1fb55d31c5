//! What a preview counts is what the gate says of each.

use std::ops::ControlFlow;

use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::eligibility::settings::{self, Sending};
use tidings_people::consent::subscriptions::{self, Unsubscribe};
use tidings_people::consent::{Act, By, Proof, Scope, Whom};
use tidings_people::suppression::{self, Suppress};
use tidings_testbed::{Bed, each_store};

use super::world::{Described, Fate, Person, address, make, names};
use crate::audience::{Condition, Preview, Previewed, Walk, preview, preview_of};

each_store!(a_preview_says_who_gets_it_and_why_others_do_not, a_preview_can_stop_early);

fn subscribed() -> Person {
    Person {
        profiles: vec![Some(Described { tags: vec!["a"], plan: None })],
        fate: Fate::There,
        subscriptions: [Some(1), None, None, None],
        feature: None,
        memory: None,
    }
}

async fn leave(cx: &Cx, number: usize, scope: Scope) {
    let source = "test".parse().unwrap();
    let act = Act { by: By::Person, source, reason: None, proof: Proof::default() };
    let cmd = Unsubscribe { whom: Whom::Email(address(number, 0)), scope, act };
    subscriptions::unsubscribe(cx, cmd).await.unwrap();
}

async fn whole(cx: &Cx, previewed: &Previewed) -> Preview {
    preview(cx, previewed, &mut |_| ControlFlow::Continue(())).await.unwrap()
}

async fn a_preview_says_who_gets_it_and_why_others_do_not(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    make(&cx, &names, &vec![subscribed(); 30]).await;
    leave(&cx, 3, Scope::Global).await;
    leave(&cx, 4, Scope::Client(names.news, names.shop)).await;
    leave(&cx, 5, Scope::Client(names.news, names.blog)).await;
    leave(&cx, 6, Scope::Audience(names.news)).await;
    let suppress = Suppress {
        email: address(7, 0),
        kind: suppression::Kind::Complaint,
        reason: "abuse".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    let walk = Walk {
        condition: Condition::parse(&json!({"tag": "a"}), "").unwrap(),
        client: names.shop,
        audience: Some(names.news),
        profiles: false,
    };
    let previewed = Previewed { walk, topic: None };
    let counted = whole(&cx, &previewed).await;
    // Who left the audience is not meant by it any more.
    assert_eq!((counted.count, counted.sendable, counted.deferred), (29, 26, 0));
    let excluded = [("client_unsubscribe", 1), ("complaint", 1), ("global_unsubscribe", 1)];
    assert_eq!(counted.excluded, excluded.into());
    assert_eq!((counted.sample.len(), counted.looked_at, counted.complete), (20, 30, true));
    assert!(counted.sample.iter().all(|one| one.email != address(7, 0)));
    // It is two in the afternoon in UTC.
    let quiet = Some(("12:00".parse().unwrap(), "15:00".parse().unwrap()));
    settings::put(&cx, Sending { quiet, ..Sending::default() }).await.unwrap();
    let counted = whole(&cx, &previewed).await;
    assert_eq!((counted.count, counted.sendable, counted.deferred), (29, 26, 26));
}

async fn a_preview_can_stop_early(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    super::walks::crowd(&cx, &names, 1_200).await;
    let walk = Walk {
        condition: Condition::EVERYONE,
        client: names.shop,
        audience: Some(names.news),
        profiles: false,
    };
    let previewed = Previewed { walk, topic: None };
    let some = preview_of(&cx, &previewed, 600).await.unwrap();
    assert_eq!((some.count, some.looked_at, some.complete), (1_000, 1_000, false));
    let all = preview_of(&cx, &previewed, 200_000).await.unwrap();
    assert_eq!((all.count, all.sendable, all.complete), (1_200, 1_200, true));
    let mut told = Vec::new();
    let seen = &mut |preview: &Preview| {
        told.push(preview.count);
        if told.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    assert!(!preview(&cx, &previewed, seen).await.unwrap().complete);
    assert_eq!(told, [500, 1_000]);
}
