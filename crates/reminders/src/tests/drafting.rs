//! What can be drafted, for one and for many.

use tidings_testbed::{Bed, each_store};

use super::world::{World, invoice, money, new};
use crate::{
    BulkError, Choose, DraftError, Kind, Listing, Money, Status, Text, by_status, draft,
    draft_many, history, outstanding, pending, recent, sent_between,
};

each_store!(
    a_reminder_that_is_too_early_is_told_from_when_on,
    all_that_is_wrong_is_told_at_once,
    a_key_makes_one_draft,
    a_list_is_drafted_with_a_report,
    the_queries_of_the_seed_find_what_they_should,
);

async fn a_reminder_that_is_too_early_is_told_from_when_on(bed: &Bed) {
    let world = World::new(bed).await;
    let needs = world.try_draft("c1", Kind::Second).await;
    assert!(matches!(needs, Err(DraftError::NeedsBefore { needs: Kind::First, .. })));
    world.remind("c1", Kind::First).await;
    for (kind, date) in
        [(Kind::First, "2026-07-08T12:00:00Z"), (Kind::Second, "2026-07-08T12:00:00Z")]
    {
        let Err(DraftError::TooEarly { allowed_from, .. }) = world.try_draft("c1", kind).await
        else {
            panic!("{kind}")
        };
        assert_eq!(allowed_from.to_string(), date);
    }
    world.days(7).await;
    let next = draft(&world.cx().await, new("c1", Choose::Next)).await.unwrap();
    assert_eq!(next.draft.kind, Kind::Second);
    world.approve(&next.draft).await;
    world.run().await;
    world.days(5).await;
    assert_eq!(world.remind("c1", Kind::Final).await.status, Status::Sent);
    let kinds: Vec<_> = world.sent("c1").await.iter().map(|sent| sent.kind).collect();
    assert_eq!(kinds, [Kind::Final, Kind::Second, Kind::First]);
}

async fn all_that_is_wrong_is_told_at_once(bed: &Bed) {
    let world = World::new(bed).await;
    let mut bad = new("c1", Choose::Next);
    bad.customer.name = "two\nlines".to_owned();
    bad.created_by = String::new();
    bad.idempotency_key = Some("x".repeat(300));
    bad.facts.owed = money("1500.01");
    bad.text = Text::Written {
        subject: "s".repeat(201),
        content: "\u{7}".to_owned(),
        content_type: crate::ContentType::Text,
    };
    let Err(DraftError::Invalid(wrong)) = draft(&world.cx().await, bad).await else { panic!() };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    let all = ["customer.name", "amount", "created_by", "idempotency_key", "subject", "content"];
    assert_eq!(fields, all);
    let mut bad = new("c1", Choose::Next);
    bad.facts.invoices[1].id = bad.facts.invoices[0].id.clone();
    bad.facts.invoices[1].amount = Some(Money::new("500", "USD").unwrap());
    let Err(DraftError::Invalid(wrong)) = draft(&world.cx().await, bad).await else { panic!() };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["invoices[1].id", "invoices[1].amount"]);
    for count in [0, 51] {
        let mut bad = new("c1", Choose::Next);
        let ids = (0..count)
            .map(|at| crate::Invoice { amount: None, ..invoice(&format!("i-{at}"), "1") });
        bad.facts.invoices = ids.collect();
        let Err(DraftError::Invalid(wrong)) = draft(&world.cx().await, bad).await else { panic!() };
        assert_eq!(wrong[0].field, "invoices");
    }
    // The most that fits is one transaction.
    let mut most = new("c1", Choose::Next);
    let ids = (0..50).map(|at| crate::Invoice { amount: None, ..invoice(&format!("i-{at}"), "1") });
    most.facts.invoices = ids.collect();
    most.idempotency_key = Some("most".to_owned());
    draft(&world.cx().await, new("c1", Choose::Next)).await.unwrap();
    draft(&world.cx().await, most).await.unwrap();
}

async fn a_key_makes_one_draft(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let mut one = new("c1", Choose::Next);
    one.idempotency_key = Some("run-7".to_owned());
    let first = draft(&cx, one.clone()).await.unwrap();
    let again = draft(&cx, one.clone()).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.draft.id, again.draft.id);
    one.facts.owed = money("1");
    one.facts.invoices = vec![invoice("c1-9", "1")];
    let reused = draft(&cx, one).await;
    assert!(matches!(reused, Err(DraftError::KeyReused(id)) if id == first.draft.id));
}

async fn a_list_is_drafted_with_a_report(bed: &Bed) {
    let world = World::new(bed).await;
    world.remind("early", Kind::First).await;
    let busy = world.draft("busy", Kind::First).await;
    world.approve(&busy).await;
    let mut rows = vec![new("c1", Choose::Next)];
    rows.push(new("early", Choose::Kind(Kind::First)));
    rows.push(new("busy", Choose::Next));
    rows.push(new("late", Choose::Kind(Kind::Final)));
    rows.push(new("c1", Choose::Next));
    let mut bad = new("bad", Choose::Next);
    bad.facts.owed = money("3");
    rows.push(bad);
    rows.push(new("c2", Choose::Next));
    let cx = world.cx().await;
    let report = draft_many(&cx, rows).await.unwrap();
    let drafted: Vec<_> = report.drafted.iter().map(|one| one.draft.customer.as_str()).collect();
    assert_eq!(drafted, ["c1", "c2"]);
    let left: Vec<_> =
        report.left_out.iter().map(|one| (one.row, one.customer.as_str(), one.reason)).collect();
    let expected = [
        (1, "early", "too_early"),
        (2, "busy", "in_progress"),
        (3, "late", "needs_before"),
        (4, "c1", "duplicate"),
        (5, "bad", "invalid"),
    ];
    assert_eq!(left, expected);
    let from = report.left_out[0].allowed_from.unwrap();
    assert_eq!(from.to_string(), "2026-07-08T12:00:00Z");
    assert!(matches!(draft_many(&cx, Vec::new()).await, Err(BulkError::Count)));
    let too_many = vec![new("c1", Choose::Next); 501];
    assert!(matches!(draft_many(&cx, too_many).await, Err(BulkError::Count)));
}

async fn the_queries_of_the_seed_find_what_they_should(bed: &Bed) {
    let world = World::new(bed).await;
    for at in 0..5 {
        world.draft(&format!("p{at}"), Kind::First).await;
        world.bed.advance(1).await;
    }
    world.remind("c1", Kind::First).await;
    world.days(8).await;
    world.remind("c1", Kind::Second).await;
    let cx = world.cx().await;
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = pending(&cx, Listing { limit: 2, cursor }).await.unwrap();
        found.extend(page.items.into_iter().map(|draft| draft.customer.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, ["p0", "p1", "p2", "p3", "p4"]);
    let all = || Listing { limit: 100, cursor: None };
    assert_eq!(history(&cx, &"c1".parse().unwrap(), all()).await.unwrap().items.len(), 2);
    let since = |text: &str| text.parse().unwrap();
    let c1 = "c1".parse().unwrap();
    for (kind, at, count) in [
        (Kind::First, "2026-06-30T00:00:00Z", 1),
        (Kind::First, "2026-07-05T00:00:00Z", 0),
        (Kind::Second, "2026-07-05T00:00:00Z", 1),
        (Kind::Final, "2026-06-01T00:00:00Z", 0),
    ] {
        assert_eq!(recent(&cx, &c1, kind, since(at)).await.unwrap().len(), count, "{kind} {at}");
    }
    let between = async |from: &str, to: &str| {
        sent_between(&cx, since(from), since(to), all()).await.map(|page| page.items.len())
    };
    assert_eq!(between("2026-07-01T00:00:00Z", "2026-07-01T23:59:59Z").await.unwrap(), 1);
    assert_eq!(between("2026-07-01T00:00:00Z", "2026-07-31T00:00:00Z").await.unwrap(), 2);
    assert_eq!(between("2026-07-02T00:00:00Z", "2026-07-02T00:00:00Z").await.unwrap(), 0);
    assert!(between("2026-07-02T00:00:00Z", "2026-07-01T00:00:00Z").await.is_err());
    assert!(pending(&cx, Listing { limit: 0, cursor: None }).await.is_err());
    let strange = Listing { limit: 5, cursor: Some("x".to_owned()) };
    assert!(pending(&cx, strange).await.is_err());
    assert!(by_status(&cx, Status::Failed, all()).await.unwrap().items.is_empty());
    let owing = outstanding(&cx, all()).await.unwrap().items;
    assert_eq!(owing.len(), 6);
    let c1 = owing.iter().find(|one| one.customer.as_str() == "c1").unwrap();
    assert_eq!(c1.last.map(|(kind, _)| kind), Some(Kind::Second));
}
