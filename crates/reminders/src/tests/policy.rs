//! Escalation: drafts in time, never sends, and stops with the money.

use tidings_testbed::{Bed, each_store};

use super::world::{World, customer, new};
use crate::settings::{self, Policy, Settings};
use crate::templates::{self, Put};
use crate::{Choose, ContentType, Kind, Listing, Overdue, Status, note_overdue, paid, pending};

each_store!(
    the_policy_drafts_each_in_time_and_sends_none,
    the_policy_stops_when_it_should,
    the_policy_goes_on_when_its_draft_comes_to_nothing,
    a_policy_that_is_set_later_meets_those_who_owe_already,
);

async fn set(world: &World<'_>) {
    let cx = world.cx().await;
    for kind in Kind::ALL {
        let put = Put {
            id: format!("reminder_{kind}"),
            name: "x".to_owned(),
            kind: Some(kind),
            subject: format!("{kind}"),
            body: "Dear {{ customer_name }}, {{ amount_due }}".to_owned(),
            content_type: ContentType::Text,
            branding: None,
        };
        templates::put(&cx, put).await.unwrap();
    }
    let first_template = Some("reminder_first".to_owned());
    let policy = Policy { on: true, first_after_due: 20, first_template, ..Policy::default() };
    settings::put(&cx, Settings { policy, ..Settings::default() }).await.unwrap();
}

async fn owes(world: &World<'_>, id: &str) {
    let new = new(id, Choose::Next);
    let row = Overdue { customer: new.customer, facts: new.facts };
    let report = note_overdue(&world.cx().await, vec![row]).await.unwrap();
    assert!(report.left_out.is_empty(), "{report:?}");
}

async fn open(world: &World<'_>) -> Vec<crate::Draft> {
    pending(&world.cx().await, Listing { limit: 100, cursor: None }).await.unwrap().items
}

async fn the_policy_drafts_each_in_time_and_sends_none(bed: &Bed) {
    let world = World::new(bed).await;
    set(&world).await;
    owes(&world, "c1").await;
    world.run().await;
    assert!(open(&world).await.is_empty());
    // Due on the 15th of June, and 20 days after that is the 5th of July.
    for (days, kind) in [(4, Kind::First), (7, Kind::Second), (5, Kind::Final)] {
        world.days(days - 1).await;
        assert!(open(&world).await.is_empty(), "{kind}");
        world.days(1).await;
        let [draft] = &open(&world).await[..] else { panic!("{kind}") };
        assert_eq!((draft.kind, draft.created_by.as_str()), (kind, "policy"));
        assert_eq!(draft.content.as_deref(), Some("Dear Customer c1, 1500.00 EUR"));
        let sent = world.sent("c1").await.len();
        world.run().await;
        assert_eq!(world.sent("c1").await.len(), sent);
        world.approve(draft).await;
        world.run().await;
    }
    world.days(60).await;
    assert!(open(&world).await.is_empty());
    assert_eq!(world.outbox().len(), 3);
}

async fn the_policy_stops_when_it_should(bed: &Bed) {
    let world = World::new(bed).await;
    set(&world).await;
    for id in ["paid", "own", "off"] {
        owes(&world, id).await;
    }
    let everything = crate::Payment {
        customer: Some(customer("paid")),
        invoice: None,
        money: None,
        paid_at: None,
        reference: Some("bank".to_owned()),
    };
    paid(&world.cx().await, everything).await.unwrap();
    let own = world.draft("own", Kind::First).await;
    world.days(5).await;
    let drafts = open(&world).await;
    let who: Vec<_> =
        drafts.iter().map(|draft| (draft.customer.as_str(), draft.created_by.as_str())).collect();
    assert_eq!(who, [("own", "ai_system"), ("off", "policy")]);
    // The own one is not replaced; once it is out of the way, the policy goes on.
    assert_eq!(world.get(&own.id).await.status, Status::Draft);
    let reject = crate::Reject { draft: own.id, reason: "no".to_owned(), by: "ada".to_owned() };
    crate::reject(&world.cx().await, reject).await.unwrap();
    world.days(2).await;
    assert!(open(&world).await.iter().any(|draft| draft.customer.as_str() == "own"));
}

async fn the_policy_goes_on_when_its_draft_comes_to_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    set(&world).await;
    owes(&world, "c1").await;
    world.days(4).await;
    let [first] = &open(&world).await[..] else { panic!() };
    // Nobody decides in 14 days: a day later there is another one.
    world.days(14).await;
    assert_eq!(world.get(&first.id).await.status, Status::Expired);
    assert!(open(&world).await.is_empty());
    world.days(1).await;
    let [second] = &open(&world).await[..] else { panic!() };
    assert_ne!(second.id, first.id);
    // Somebody says no: it does not ask again for a week.
    let no =
        crate::Reject { draft: second.id.clone(), reason: "no".to_owned(), by: "ada".to_owned() };
    crate::reject(&world.cx().await, no).await.unwrap();
    world.days(6).await;
    assert!(open(&world).await.is_empty());
    world.days(1).await;
    let [third] = &open(&world).await[..] else { panic!() };
    assert_eq!(third.kind, Kind::First);
    // The provider will not have it.
    world.provider.answers(tidings_kernel::SendError::Refused("no".to_owned()));
    world.approve(third).await;
    world.run().await;
    assert_eq!(world.get(&third.id).await.status, Status::Failed);
    world.days(1).await;
    assert_eq!(open(&world).await.len(), 1);
}

async fn a_policy_that_is_set_later_meets_those_who_owe_already(bed: &Bed) {
    let world = World::new(bed).await;
    // More than one page of them.
    for at in 0..60 {
        owes(&world, &format!("c{at}")).await;
    }
    world.days(10).await;
    assert!(open(&world).await.is_empty());
    set(&world).await;
    world.run().await;
    world.days(1).await;
    assert_eq!(open(&world).await.len(), 60);
    // Setting the same again does nothing.
    set(&world).await;
    assert_eq!(bed.work(&tidings_kernel::queues::REMINDER_STEPS, world.steps()).await, 0);
}
