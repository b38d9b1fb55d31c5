//! Payments that an event tells of: what is taken, what is kept, and what is buried for an operator to see.

use tidings_jobs::contracts::{Pays, ReminderStep, ReminderTask};
use tidings_jobs::{Outcome, Work as _};
use tidings_testbed::{Bed, each_store};

use super::world::{World, customer, new};
use crate::{Choose, DraftError, Kind, Listing, Status, Worker, draft, outstanding, payments};

each_store!(
    an_event_pays_what_it_names_and_nothing_else,
    what_cannot_be_read_is_buried_and_pays_nothing,
    what_was_paid_before_anybody_owed_it_is_not_asked_for,
);

async fn step(world: &World<'_>, reference: &str) -> ReminderStep {
    let workspace = world.cx().await.workspace().clone();
    let reference = Some(reference.to_owned());
    ReminderStep { reference, ..ReminderStep::new(workspace, ReminderTask::Paid) }
}

async fn work(world: &World<'_>, step: ReminderStep) -> Outcome {
    Worker::new(world.tools.clone()).work(step).await
}

async fn owed(world: &World<'_>) -> Vec<String> {
    let all = Listing { limit: 100, cursor: None };
    let found = outstanding(&world.cx().await, all).await.unwrap().items;
    found.iter().map(|one| format!("{} {}", one.customer, one.owed)).collect()
}

async fn an_event_pays_what_it_names_and_nothing_else(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    let part = ReminderStep {
        invoice_id: Some("c1-1".to_owned()),
        amount: Some("400.10".to_owned()),
        currency: Some("EUR".to_owned()),
        ..step(&world, "e1").await
    };
    for _ in 0..2 {
        assert_eq!(work(&world, part.clone()).await, Outcome::Done);
    }
    assert_eq!(owed(&world).await, ["c1 1099.90 EUR"]);
    let gone = world.get(&draft.id).await;
    assert_eq!(gone.status, Status::Withdrawn);
    assert_eq!(gone.reason.as_deref(), Some("paid: c1-1 (599.90 EUR is left)"));
    let rest = ReminderStep {
        amount: Some("599.90".to_owned()),
        reference: Some("e2".to_owned()),
        ..part
    };
    assert_eq!(work(&world, rest).await, Outcome::Done);
    assert_eq!(owed(&world).await, ["c1 500.00 EUR"]);
    let all = ReminderStep {
        customer_id: Some("c1".to_owned()),
        pays: Some(Pays::Everything),
        ..step(&world, "e3").await
    };
    assert_eq!(work(&world, all).await, Outcome::Done);
    assert_eq!(owed(&world).await, Vec::<String>::new());
    let listing = Listing { limit: 10, cursor: None };
    let kept = payments(&world.cx().await, &customer("c1"), listing).await.unwrap().items;
    let mut kept: Vec<_> =
        kept.iter().map(|one| one.money.map(|money| money.digits()).unwrap_or_default()).collect();
    kept.sort();
    assert_eq!(kept, ["400.10", "500.00", "599.90"]);
}

async fn what_cannot_be_read_is_buried_and_pays_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    let text = |text: &str| Some(text.to_owned());
    let none = step(&world, "e1").await;
    let invoice = ReminderStep { invoice_id: text("c1-1"), ..none.clone() };
    let all = ReminderStep { customer_id: text("c1"), ..none.clone() };
    for bad in [
        none.clone(),
        all.clone(),
        ReminderStep { invoice_id: text("no id"), ..all.clone() },
        ReminderStep { customer_id: text("c1@example.org"), ..invoice.clone() },
        ReminderStep { pays: Some(Pays::Everything), ..none },
        ReminderStep { amount: text("1,5"), currency: text("EUR"), ..invoice.clone() },
        ReminderStep { amount: text("1000"), ..invoice.clone() },
        // Owed in another currency, and less than everything.
        ReminderStep { amount: text("1000"), currency: text("USD"), ..invoice },
        ReminderStep {
            pays: Some(Pays::Everything),
            amount: text("1499.99"),
            currency: text("EUR"),
            ..all
        },
    ] {
        let Outcome::Dead { reason: why } = work(&world, bad.clone()).await else {
            panic!("{bad:?}")
        };
        assert!(why.contains("e1") && !why.contains('@'), "{why}");
    }
    assert_eq!(owed(&world).await, ["c1 1500.00 EUR"]);
    assert_eq!(world.get(&draft.id).await.status, Status::Draft);
}

async fn what_was_paid_before_anybody_owed_it_is_not_asked_for(bed: &Bed) {
    let world = World::new(bed).await;
    let text = |text: &str| Some(text.to_owned());
    let paid = ReminderStep { invoice_id: text("c1-1"), ..step(&world, "e1").await };
    for _ in 0..2 {
        assert_eq!(work(&world, paid.clone()).await, Outcome::Done);
    }
    let refused = world.try_draft("c1", Kind::First).await;
    assert!(matches!(refused, Err(DraftError::Paid(paid)) if paid == ["c1-1"]));
    // Two parts, each told twice, that come to all of it.
    for (reference, amount) in [("e2", "400"), ("e3", "600"), ("e2", "400"), ("e3", "600")] {
        let part = ReminderStep {
            invoice_id: text("c2-1"),
            amount: text(amount),
            currency: text("EUR"),
            ..step(&world, reference).await
        };
        assert_eq!(work(&world, part).await, Outcome::Done);
    }
    let refused = world.try_draft("c2", Kind::First).await;
    assert!(matches!(refused, Err(DraftError::Paid(paid)) if paid == ["c2-1"]));
    // And what came in while it was being drafted is seen when it is sent.
    let cx = world.cx().await;
    let drafted = draft(&cx, new("c3", Choose::Next)).await.unwrap().draft;
    crate::pay::keep(&cx, &"c3-2".parse().unwrap(), ("e4", None)).await.unwrap();
    world.approve(&drafted).await;
    world.run().await;
    let gone = world.get(&drafted.id).await;
    assert_eq!((gone.status, gone.reason.as_deref()), (Status::Withdrawn, Some("paid: c3-2")));
    assert!(world.outbox().is_empty());
}
