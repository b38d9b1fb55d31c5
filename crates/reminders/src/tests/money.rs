//! Money that comes in, before, between and after.

use tidings_kernel::queues;
use tidings_testbed::{Bed, each_store};

use super::world::{World, customer, money};
use crate::{
    DraftError, Kind, Listing, Paid, PaidError, Payment, Recorded, Status, allowed, outstanding,
    paid, payments, rules::Answer,
};

each_store!(
    what_was_paid_is_not_asked_for,
    whoever_pays_everything_begins_anew,
    money_that_comes_while_it_is_sent_takes_it_back,
    a_payment_counts_once_and_finds_its_customer,
    a_part_reduces_what_is_owed_and_the_draft_is_not_sent,
    what_is_taken_from_the_provider_again_is_not_sent,
    a_time_that_cannot_be_is_refused,
);

pub(super) fn of(id: &str, invoice: &str) -> Payment {
    Payment {
        customer: Some(customer(id)),
        invoice: Some(invoice.parse().unwrap()),
        money: None,
        paid_at: None,
        reference: None,
    }
}

async fn what_was_paid_is_not_asked_for(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    // Before it was drafted.
    paid(&cx, of("c1", "c1-2")).await.unwrap();
    let refused = world.try_draft("c1", Kind::First).await;
    assert!(matches!(refused, Err(DraftError::Paid(paid)) if paid == ["c1-2"]));
    // While it waits, and after it was approved.
    for (id, approved) in [("c2", false), ("c3", true)] {
        let draft = world.draft(id, Kind::First).await;
        if approved {
            world.approve(&draft).await;
        }
        let other = paid(&cx, of(id, "unheard-of")).await.unwrap();
        assert_eq!(other.withdrawn, None);
        let Recorded { payment, withdrawn, .. } =
            paid(&cx, of(id, &format!("{id}-1"))).await.unwrap();
        assert_eq!((withdrawn, payment.money), (Some(draft.id.clone()), Some(money("1000"))));
        world.run().await;
        assert_eq!(world.get(&draft.id).await.status, Status::Withdrawn);
    }
    assert!(world.outbox().is_empty());
    let all = Listing { limit: 100, cursor: None };
    let owing = outstanding(&cx, all).await.unwrap().items;
    let owed: Vec<_> = owing.iter().map(|one| one.owed.to_string()).collect();
    assert_eq!(owed, ["500.00 EUR", "500.00 EUR"]);
}

async fn whoever_pays_everything_begins_anew(bed: &Bed) {
    let world = World::new(bed).await;
    world.remind("c1", Kind::First).await;
    world.days(8).await;
    let cx = world.cx().await;
    let all = Payment { invoice: None, reference: Some("bank-1".to_owned()), ..of("c1", "x") };
    let noted = paid(&cx, all.clone()).await.unwrap();
    assert_eq!(noted.payment.money, Some(money("1500")));
    assert_eq!(noted.payment.recovered_after, Some(Kind::First));
    assert!(paid(&cx, all).await.unwrap().replayed);
    let answers = allowed(&cx, &customer("c1")).await.unwrap();
    let expected = [
        (Kind::First, Answer::Allowed),
        (Kind::Second, Answer::Needs(Kind::First)),
        (Kind::Final, Answer::Needs(Kind::Second)),
    ];
    assert_eq!(answers, expected);
    // Each of the invoices is paid by it.
    let refused = world.try_draft("c1", Kind::First).await;
    assert!(matches!(refused, Err(DraftError::Paid(paid)) if paid == ["c1-1", "c1-2"]));
}

async fn money_that_comes_while_it_is_sent_takes_it_back(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    bed.work(&queues::REMINDER_STEPS, world.steps()).await;
    assert_eq!(world.get(&draft.id).await.status, Status::Sending);
    let noted = paid(&world.cx().await, of("c1", "c1-1")).await.unwrap();
    assert_eq!(noted.withdrawn, None);
    world.run().await;
    let gone = world.get(&draft.id).await;
    assert_eq!((gone.status, gone.reason.as_deref()), (Status::Withdrawn, Some("paid: c1-1")));
    assert!(world.outbox().is_empty());
    let answers = allowed(&world.cx().await, &customer("c1")).await.unwrap();
    assert_eq!(answers[0].1, Answer::Allowed);
}

async fn a_payment_counts_once_and_finds_its_customer(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    world.draft("c1", Kind::First).await;
    let by_invoice = Payment { customer: None, money: Some(money("999.99")), ..of("c1", "c1-1") };
    let noted = paid(&cx, by_invoice.clone()).await.unwrap();
    assert_eq!((noted.payment.customer.as_str(), noted.replayed), ("c1", false));
    let again = paid(&cx, by_invoice).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.payment, noted.payment);
    // The rest is another payment, and has to say so.
    let rest = Payment { money: Some(money("0.01")), ..of("c1", "c1-1") };
    let reused = paid(&cx, rest.clone()).await;
    assert!(matches!(reused, Err(PaidError::Reused(reference)) if reference == "c1-1"));
    let rest = Payment { reference: Some("bank-2".to_owned()), ..rest };
    assert_eq!(paid(&cx, rest).await.unwrap().left, None);
    let unknown = paid(&cx, Payment { customer: None, ..of("c1", "nobodys") }).await;
    assert!(matches!(unknown, Err(PaidError::UnknownInvoice(_))));
    let nothing = Payment { customer: None, invoice: None, ..of("c1", "x") };
    let Err(PaidError::Invalid(wrong)) = paid(&cx, nothing).await else { panic!() };
    assert_eq!(wrong.len(), 2);
    let mut other = super::world::new("c2", crate::Choose::Next);
    other.facts.invoices[0].id = "c1-2".parse().unwrap();
    crate::draft(&cx, other).await.unwrap();
    let both = paid(&cx, Payment { customer: None, ..of("c1", "c1-2") }).await;
    assert!(matches!(both, Err(PaidError::Invalid(_))));
    let all = Listing { limit: 10, cursor: None };
    let kept: Vec<Paid> = payments(&cx, &customer("c1"), all).await.unwrap().items;
    assert_eq!(kept.len(), 2);
}

async fn a_part_reduces_what_is_owed_and_the_draft_is_not_sent(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let part = |id: &str, reference: &str| Payment {
        money: Some(money("400")),
        reference: Some(reference.to_owned()),
        ..of(id, &format!("{id}-1"))
    };
    // While it waits, after it was approved, and while it is in the hands of the mail core.
    for (id, steps) in [("c1", 0), ("c2", 1), ("c3", 2)] {
        let draft = world.draft(id, Kind::First).await;
        if steps > 0 {
            world.approve(&draft).await;
        }
        if steps > 1 {
            bed.work(&queues::REMINDER_STEPS, world.steps()).await;
        }
        let noted = paid(&cx, part(id, "p1")).await.unwrap();
        assert_eq!((noted.left, noted.payment.over), (Some(money("600")), None));
        world.run().await;
        let gone = world.get(&draft.id).await;
        let why = format!("paid: {id}-1 (600.00 EUR is left)");
        assert_eq!((gone.status, gone.reason), (Status::Withdrawn, Some(why)), "{id}");
    }
    assert!(world.outbox().is_empty());
    // With the old amount it cannot be drafted, and with what is left it can.
    let mut new = super::world::new("c1", crate::Choose::Next);
    let refused = crate::draft(&cx, new.clone()).await;
    assert!(
        matches!(refused, Err(DraftError::Paid(paid)) if paid == ["c1-1 (600.00 EUR is left)"])
    );
    new.facts.owed = money("1100");
    new.facts.invoices[0].amount = Some(money("600"));
    let drafted = crate::draft(&cx, new.clone()).await.unwrap().draft;
    world.approve(&drafted).await;
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
    // The same reference again is the same payment; another one pays the next part, and more than the rest is told.
    assert!(paid(&cx, part("c1", "p1")).await.unwrap().replayed);
    assert_eq!(paid(&cx, part("c1", "p2")).await.unwrap().left, Some(money("200")));
    let last = paid(&cx, part("c1", "p3")).await.unwrap();
    assert_eq!((last.left, last.payment.over), (None, Some(money("200"))));
    let over = paid(&cx, part("c1", "p4")).await.unwrap();
    assert_eq!(over.payment.over, Some(money("400")));
    let all = Listing { limit: 100, cursor: None };
    let owing = outstanding(&cx, all).await.unwrap().items;
    let owed: Vec<_> =
        owing.iter().map(|one| (one.customer.as_str(), one.owed.to_string())).collect();
    let expected = [("c1", "500.00 EUR"), ("c2", "1100.00 EUR"), ("c3", "1100.00 EUR")]
        .map(|(id, sum)| (id, sum.to_owned()));
    assert_eq!(owed, expected);
}

/// Whoever is sending it may not get rid of it. Then it waits to be sent again, and must not be.
async fn what_is_taken_from_the_provider_again_is_not_sent(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    bed.work(&queues::REMINDER_STEPS, world.steps()).await;
    let cx = world.cx().await;
    let mark = async |status: &'static str, claim: &'static str| {
        let sql = format!("UPDATE transactional_messages SET status = '{status}', {claim}");
        cx.database().write(move |tx| tx.execute(&sql, &[])).await.unwrap();
    };
    mark("claimed", "claimed_by = 'another', claimed_until = 4102444800000").await;
    paid(&cx, of("c1", "c1-1")).await.unwrap();
    bed.work(&queues::REMINDER_STEPS, world.steps()).await;
    assert_eq!(world.get(&draft.id).await.status, Status::Sending);
    mark("queued", "claimed_by = NULL, claimed_until = NULL").await;
    bed.advance(1).await;
    bed.work(&queues::REMINDER_STEPS, world.steps()).await;
    world.run().await;
    let gone = world.get(&draft.id).await;
    assert_eq!((gone.status, gone.reason.as_deref()), (Status::Withdrawn, Some("paid: c1-1")));
    assert!(world.outbox().is_empty());
}

async fn a_time_that_cannot_be_is_refused(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    for (at, good) in [
        ("2026-07-02T12:00:00Z", true),
        ("2026-07-02T12:00:01Z", false),
        ("2016-07-10T12:00:00Z", true),
        ("1970-01-01T00:00:00Z", false),
    ] {
        let paid_at = Some(at.parse().unwrap());
        let noted = paid(&cx, Payment { paid_at, ..of("c1", &at.replace(':', ".")) }).await;
        assert_eq!(noted.is_ok(), good, "{at}");
    }
    // It is kept from now on, however long ago it was.
    world.days(30).await;
    let all = Listing { limit: 10, cursor: None };
    assert_eq!(payments(&world.cx().await, &customer("c1"), all).await.unwrap().items.len(), 2);
}
