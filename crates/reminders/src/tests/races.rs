//! Two people, two workers, two nodes at once: one reminder.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use tidings_access::{Limit, audit};
use tidings_kernel::queues;
use tidings_testbed::{Bed, each_store};

use super::world::{World, by, customer, new};
use crate::settings::{self, Settings};
use crate::{Approved, Choose, Edit, Kind, Payment, Status, approve, draft, edit, paid, reject};

each_store!(
    many_who_approve_at_once_send_once,
    drafts_at_once_leave_one_open,
    an_edit_and_an_approval_at_once_send_nothing_that_was_not_seen,
    a_payment_and_an_approval_at_once_are_one_or_the_other,
    settings_that_are_put_at_once_follow_each_other_in_the_audit_log,
);

async fn many_who_approve_at_once_send_once(bed: &Bed) {
    let world = World::new(bed).await;
    let mut drafts = Vec::new();
    for at in 0..4 {
        drafts.push(world.draft(&format!("c{at}"), Kind::First).await);
    }
    let cx = world.cx().await;
    let people = ["ada", "eve", "bob", "kim"];
    let all = drafts.iter().flat_map(|draft| people.map(|person| approve(&cx, by(draft, person))));
    for answer in join_all(all).await {
        let Approved { draft, missing, .. } = answer.unwrap();
        assert_eq!((draft.approvals.len(), missing), (1, 0));
    }
    // And whoever sends does so several times, at once.
    let (one, two) = (world.steps(), world.steps());
    let work = |handler: &Arc<_>| bed.work(&queues::REMINDER_STEPS, Arc::clone(handler));
    futures_util::future::join(work(&one), work(&two)).await;
    world.run().await;
    assert_eq!(world.outbox().len(), 4);
    for at in 0..4 {
        assert_eq!(world.sent(&format!("c{at}")).await.len(), 1);
    }
}

async fn drafts_at_once_leave_one_open(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let drafts = (0..6).map(|_| draft(&cx, new("c1", Choose::Next)));
    let made: Vec<_> =
        join_all(drafts).await.into_iter().map(|one| one.unwrap().draft.id).collect();
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), 6);
    let mut open = Vec::new();
    for id in &made {
        let draft = world.get(id).await;
        if draft.status == Status::Draft {
            open.push(draft);
        } else {
            assert_eq!(draft.status, Status::Superseded);
        }
    }
    assert_eq!(open.len(), 1);
    world.approve(&open[0]).await;
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
}

async fn an_edit_and_an_approval_at_once_send_nothing_that_was_not_seen(bed: &Bed) {
    let world = World::new(bed).await;
    for at in 0..6 {
        let draft = world.draft(&format!("c{at}"), Kind::First).await;
        let cx = world.cx().await;
        let change = Edit {
            content: Some("Pay at once!".to_owned()),
            by: "eve".to_owned(),
            ..Edit::default()
        };
        let (edited, approved) = futures_util::future::join(
            edit(&cx, &draft.id, change),
            approve(&cx, by(&draft, "ada")),
        )
        .await;
        edited.unwrap();
        // Whether the approval came first or not, what it approved is not there any more.
        assert!(approved.is_ok() || matches!(approved, Err(crate::ApproveError::Edited { .. })));
        world.run().await;
        assert_eq!(world.get(&draft.id).await.status, Status::Draft);
    }
    assert!(world.outbox().is_empty());
}

async fn a_payment_and_an_approval_at_once_are_one_or_the_other(bed: &Bed) {
    let world = World::new(bed).await;
    for at in 0..6 {
        let id = format!("c{at}");
        let draft = world.draft(&id, Kind::First).await;
        let cx = world.cx().await;
        let payment = Payment {
            customer: Some(customer(&id)),
            invoice: Some(format!("{id}-1").parse().unwrap()),
            money: None,
            paid_at: None,
            reference: None,
        };
        let (noted, approved) =
            futures_util::future::join(paid(&cx, payment), approve(&cx, by(&draft, "ada"))).await;
        assert_eq!(noted.unwrap().withdrawn, Some(draft.id.clone()));
        assert!(approved.is_ok() || matches!(approved, Err(crate::ApproveError::NotDraft { .. })));
        world.run().await;
        let after = world.get(&draft.id).await;
        assert_eq!(after.status, Status::Withdrawn);
        assert_eq!(after.reason, Some(format!("paid: {id}-1")));
        let refused = reject(
            &cx,
            crate::Reject { draft: draft.id, reason: "paid".to_owned(), by: "ada".to_owned() },
        );
        assert!(matches!(refused.await, Err(crate::RejectError::NotOpen { .. })));
    }
    assert!(world.outbox().is_empty());
}

mod nodes {
    use super::*;

    #[tokio::test]
    async fn two_nodes_send_each_reminder_once() {
        let bed = Bed::postgres().await;
        let other = bed.beside().await;
        let (here, there) = (World::new(&bed).await, World::beside(&other));
        for at in 0..5 {
            let draft = here.draft(&format!("c{at}"), Kind::First).await;
            let (one, two) = (here.cx().await, there.cx().await);
            let both = (approve(&one, by(&draft, "ada")), approve(&two, by(&draft, "eve")));
            let (one, two) = futures_util::future::join(both.0, both.1).await;
            assert_eq!((one.unwrap().missing, two.unwrap().missing), (0, 0));
        }
        futures_util::future::join(here.run(), there.run()).await;
        here.run().await;
        assert_eq!(here.outbox().len() + there.outbox().len(), 5);
        for at in 0..5 {
            assert_eq!(here.sent(&format!("c{at}")).await.len(), 1);
        }
    }
}

async fn settings_that_are_put_at_once_follow_each_other_in_the_audit_log(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let wanted = |limit: u32| Settings { batch_limit: limit, ..Settings::default() };
    let puts = (1..=8).map(|limit| settings::put(&cx, wanted(limit)));
    for (put, limit) in join_all(puts).await.into_iter().zip(1..) {
        assert_eq!(put.unwrap(), wanted(limit), "each was in force for a while");
    }
    let last = settings::get(&cx).await.unwrap();
    assert!((1..=8).any(|limit| last == wanted(limit)), "none is in force by half");

    bed.work(&queues::AUDIT_ENTRIES, audit::handler(bed.access.clone())).await;
    let of_settings =
        audit::Filter { action: Some("reminders.settings".to_owned()), ..audit::Filter::default() };
    let log = audit::list(&cx, of_settings, None, Limit::MAX).await.unwrap().items;
    assert_eq!(log.len(), 8);
    // From the defaults to what is in force, each entry goes on where another one ended.
    let limit = |state: &Option<serde_json::Value>| state.as_ref().unwrap()["batch_limit"].clone();
    let mut steps: Vec<_> = log.iter().map(|one| (limit(&one.before), limit(&one.after))).collect();
    let mut now = json!(Settings::default().batch_limit);
    while !steps.is_empty() {
        let next = steps.iter().position(|(before, _)| *before == now);
        now = steps.remove(next.unwrap_or_else(|| panic!("nothing follows {now}: {log:?}"))).1;
    }
    assert_eq!(now, json!(last.batch_limit));
}
