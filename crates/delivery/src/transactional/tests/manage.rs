//! Looking, cancelling, settling.

use tidings_access::{ClientId, Limit};
use tidings_jobs::Outcome;
use tidings_kernel::SendError;
use tidings_testbed::{Bed, each_store};

use super::World;
use crate::transactional::{
    CancelError, Find, FindError, List, MessageId, Settle, SettleError, Settled, Status, cancel,
    history, list, settle, show,
};

each_store!(
    a_client_sees_no_other_client_s_message,
    a_list_has_the_newest_first_and_can_be_filtered,
    a_list_is_of_one_person_page_after_page,
    what_is_queued_can_be_cancelled_and_is_never_sent,
    what_is_scheduled_can_be_cancelled,
    what_is_being_sent_or_was_sent_cannot_be_cancelled,
    a_cancel_and_a_worker_at_once_agree,
    a_person_settles_what_nobody_knew,
    only_the_uncertain_can_be_settled,
    what_is_uncertain_or_failed_is_sent_again_if_a_person_says_so,
);

fn find(id: MessageId) -> Find {
    Find { id, client: None }
}

async fn a_client_sees_no_other_client_s_message(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let cx = bed.cx().await;
    let stranger = Find { id, client: Some(ClientId::from(world.client.get() + 1)) };
    assert!(matches!(show(&cx, stranger).await, Err(FindError::Missing(_))));
    assert!(matches!(cancel(&cx, stranger).await, Err(CancelError::Missing(_))));
    let other = bed.make_workspace("other").await;
    assert!(matches!(show(&other, find(id)).await, Err(FindError::Missing(_))));
    assert!(matches!(cancel(&other, find(id)).await, Err(CancelError::Missing(_))));
    let settled = Settle { message: find(id), outcome: Settled::Sent, reason: None };
    assert!(matches!(settle(&other, settled).await, Err(SettleError::Missing(_))));
    assert_eq!(world.status(id).await, Status::Queued);
    let own = Find { id, client: Some(world.client) };
    assert_eq!(show(&cx, own).await.unwrap().message.id, id);
}

async fn a_list_has_the_newest_first_and_can_be_filtered(bed: &Bed) {
    let world = World::new(bed).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.accepted("ada@example.org").await);
    }
    cancel(&bed.cx().await, find(ids[1])).await.unwrap();
    ids.reverse();
    let all = List {
        client: world.client,
        status: None,
        sequence: None,
        to: None,
        after: None,
        limit: Limit::try_from(2).unwrap(),
    };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = list(&bed.cx().await, List { after, ..all.clone() }).await.unwrap();
        seen.extend(page.items.iter().map(|message| message.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    let cancelled = List { status: Some(Status::Cancelled), ..all.clone() };
    let cancelled = list(&bed.cx().await, cancelled).await.unwrap();
    assert_eq!(cancelled.items.iter().map(|one| one.id).collect::<Vec<_>>(), [ids[3]]);
    let foreign = List { client: ClientId::from(999), ..all };
    assert!(list(&bed.cx().await, foreign).await.unwrap().items.is_empty());
}

async fn a_list_is_of_one_person_page_after_page(bed: &Bed) {
    let world = World::new(bed).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.accepted("ada@example.org").await);
        world.accepted("bob@example.org").await;
    }
    ids.reverse();
    cancel(&bed.cx().await, find(ids[0])).await.unwrap();
    let of = |to: &str| List {
        client: world.client,
        status: None,
        sequence: None,
        to: Some(to.parse().unwrap()),
        after: None,
        limit: Limit::try_from(2).unwrap(),
    };
    let first = list(&bed.cx().await, of("Ada@Example.org")).await.unwrap();
    let rest = List { after: first.next, ..of("ada@example.org") };
    let rest = list(&bed.cx().await, rest).await.unwrap();
    let seen: Vec<_> = first.items.iter().chain(&rest.items).map(|one| one.id).collect();
    assert_eq!((seen, rest.next), (ids.clone(), None));
    let cancelled = List { status: Some(Status::Cancelled), ..of("ada@example.org") };
    let cancelled = list(&bed.cx().await, cancelled).await.unwrap();
    assert_eq!(cancelled.items.iter().map(|one| one.id).collect::<Vec<_>>(), [ids[0]]);
    assert!(list(&bed.cx().await, of("eve@example.org")).await.unwrap().items.is_empty());
    // Who became one with another person keeps his messages.
    world
        .run(
            "UPDATE leads SET merged_at = 1, merged_into_id = (SELECT MAX(id) FROM leads) WHERE id = (SELECT MIN(id) FROM leads)",
        )
        .await;
    world.run("UPDATE channel_identities SET lead_id = (SELECT MAX(id) FROM leads)").await;
    let merged = list(&bed.cx().await, of("ada@example.org")).await.unwrap();
    assert_eq!(merged.items.iter().map(|one| one.id).collect::<Vec<_>>(), ids[..2]);
}

async fn what_is_queued_can_be_cancelled_and_is_never_sent(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    for _ in 0..2 {
        let message = cancel(&bed.cx().await, find(id)).await.unwrap();
        assert_eq!(message.status, Status::Cancelled);
    }
    assert_eq!(world.work().await, 1);
    assert!(world.provider.taken().is_empty());
    let happened = history(&world.found(id).await.message);
    assert_eq!(happened.iter().map(|one| one.kind).collect::<Vec<_>>(), ["queued", "cancelled"]);
}

async fn what_is_scheduled_can_be_cancelled(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.mail("ada@example.org");
    send.scheduled_at = Some("2026-07-01T13:00:00Z".parse().unwrap());
    let id = world.accept(send).await.unwrap().id;
    cancel(&bed.cx().await, find(id)).await.unwrap();
    assert_eq!(world.count("timers").await, 0);
    bed.advance(120).await;
    assert_eq!(world.work().await, 0);
    assert!(world.provider.taken().is_empty());
}

async fn what_is_being_sent_or_was_sent_cannot_be_cancelled(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world
        .run("UPDATE transactional_messages SET status = 'claimed', claimed_by = 'n', claimed_until = 1")
        .await;
    let refused = cancel(&bed.cx().await, find(id)).await;
    assert!(matches!(refused, Err(CancelError::TooLate { status: Status::Claimed, .. })));
    world.run("UPDATE transactional_messages SET status = 'queued'").await;
    world.work().await;
    let refused = cancel(&bed.cx().await, find(id)).await;
    assert!(matches!(refused, Err(CancelError::TooLate { status: Status::Sent, .. })));
}

async fn a_cancel_and_a_worker_at_once_agree(bed: &Bed) {
    let world = World::new(bed).await;
    for round in 0..10 {
        let id = world.accepted(&format!("ada{round}@example.org")).await;
        let (envelope, cx) = (world.envelope(id).await, bed.cx().await);
        let worker = world.worker.handler();
        let working = tokio::spawn(async move { worker.handle(&super::delivery(&envelope)).await });
        let cancelled = cancel(&cx, find(id)).await;
        let worked = working.await.unwrap();
        match cancelled {
            Ok(_) => {
                assert_eq!(world.provider.taken_of(id), 0);
                assert_eq!(world.status(id).await, Status::Cancelled);
            }
            Err(CancelError::TooLate { .. }) => {
                assert_eq!(worked, Outcome::Done);
                assert_eq!(world.provider.taken_of(id), 1);
                assert_eq!(world.status(id).await, Status::Sent);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn a_person_settles_what_nobody_knew(bed: &Bed) {
    let world = World::new(bed).await;
    for (outcome, status, lines) in
        [(Settled::Sent, Status::Sent, 1), (Settled::Failed, Status::Failed, 0)]
    {
        let email = format!("{status}@example.org");
        let id = world.accepted(&email).await;
        world.provider.answers(SendError::Uncertain("timed out".to_owned()));
        world.work().await;
        let reason = Some("the provider's console says so".to_owned());
        let settled = Settle { message: find(id), outcome, reason: reason.clone() };
        let message = settle(&bed.cx().await, settled.clone()).await.unwrap();
        assert_eq!((message.status, message.last_error), (status, reason));
        world.work().await;
        assert_eq!(world.log(&email).await.len(), lines);
        let again = settle(&bed.cx().await, settled).await;
        assert!(matches!(again, Err(SettleError::NotUncertain { .. })), "{again:?}");
    }
    assert!(world.provider.taken().is_empty());
}

async fn only_the_uncertain_can_be_settled(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let settled = Settle { message: find(id), outcome: Settled::Failed, reason: None };
    let refused = settle(&bed.cx().await, settled.clone()).await;
    assert!(matches!(refused, Err(SettleError::NotUncertain { status: Status::Queued, .. })));
    let long = Settle { reason: Some("x".repeat(501)), ..settled };
    assert!(matches!(settle(&bed.cx().await, long).await, Err(SettleError::Reason)));
}

async fn what_is_uncertain_or_failed_is_sent_again_if_a_person_says_so(bed: &Bed) {
    let world = World::new(bed).await;
    for (email, error, before) in [
        ("ada@example.org", SendError::Uncertain("lost".to_owned()), Status::Uncertain),
        ("bob@example.org", SendError::Refused("550 no".to_owned()), Status::Failed),
    ] {
        let id = world.accepted(email).await;
        world.provider.answers(error);
        world.work().await;
        assert_eq!(world.status(id).await, before);
        let again = Settle { message: find(id), outcome: Settled::Resend, reason: None };
        let message = settle(&bed.cx().await, again.clone()).await.unwrap();
        assert_eq!(message.status, Status::Queued);
        let refused = settle(&bed.cx().await, again).await;
        assert!(matches!(refused, Err(SettleError::NotOver { .. })), "{refused:?}");
        world.work().await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!((world.provider.taken_of(id), world.log(email).await.len()), (1, 1));
    }
    let logged = world.count("audit_log WHERE action = 'message.resend'").await;
    assert_eq!(logged, 2);
    // Of whoever is erased nothing is left to send.
    let id = world.accepted("eve@example.org").await;
    world.provider.answers(SendError::Refused("550 no".to_owned()));
    world.work().await;
    let eve = "eve@example.org".parse().unwrap();
    tidings_people::contacts::erase(&bed.cx().await, &eve).await.unwrap();
    let again = Settle { message: find(id), outcome: Settled::Resend, reason: None };
    let refused = settle(&bed.cx().await, again).await;
    assert!(matches!(refused, Err(SettleError::Erased(_))), "{refused:?}");
}
