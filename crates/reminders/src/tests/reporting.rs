//! The report against a recount of everything that is stored.

use std::time::Duration;

use tidings_kernel::{Number, SendError};
use tidings_testbed::{Bed, each_store};

use super::money::of;
use super::world::{World, money};
use crate::{Kind, Reject, paid, reject, report};

each_store!(the_report_is_what_a_recount_says);

async fn the_report_is_what_a_recount_says(bed: &Bed) {
    let world = World::new(bed).await;
    let start = world.cx().await.now();
    // Approved after 0, 10 and 60 minutes.
    for (at, minutes) in [0, 10, 60].into_iter().enumerate() {
        let draft = world.draft(&format!("c{at}"), Kind::First).await;
        world.bed.advance(minutes).await;
        world.approve(&draft).await;
        world.run().await;
    }
    world.provider.answers(SendError::Refused("no".to_owned()));
    world.remind("failed", Kind::First).await;
    let draft = world.draft("rejected", Kind::First).await;
    let cx = world.cx().await;
    let cmd = Reject { draft: draft.id, reason: "no".to_owned(), by: "ada".to_owned() };
    reject(&cx, cmd).await.unwrap();
    world.draft("twice", Kind::First).await;
    world.draft("twice", Kind::First).await;
    world.draft("paid", Kind::First).await;
    // One that was reminded of before, one that was not.
    let mut partly = of("c0", "c0-1");
    partly.money = Some(money("0.1"));
    paid(&cx, partly).await.unwrap();
    paid(&cx, of("c1", "c1-2")).await.unwrap();
    paid(&cx, of("paid", "paid-1")).await.unwrap();
    let first = report(&cx, start, cx.now()).await.unwrap();
    assert_eq!((first.drafted, first.approved, first.sent), (8, 4, 3));
    assert_eq!((first.failed, first.rejected, first.superseded, first.withdrawn), (1, 1, 1, 1));
    let eur = "EUR".parse().unwrap();
    assert_eq!(first.recovered.get(&eur), Some(&"500.1".parse::<Number>().unwrap()));
    // Waits of 0, 0, 10 and 60 minutes.
    assert_eq!(first.median_time_to_approve, Some(Duration::from_secs(300)));
    let mut owed = Number::ZERO;
    let mut customers = 0;
    for item in world.items().await {
        if item.text("GSI1PK") == Some("STATUS#overdue") {
            customers += 1;
            owed =
                owed.checked_add(item.get("overdue_amount").unwrap().as_number().unwrap()).unwrap();
        }
    }
    assert_eq!(
        (first.outstanding.get(&eur), first.customers_outstanding),
        (Some(&owed), customers)
    );
    // c0 1499.90, c1 1000, paid 500, and c2, failed, rejected and twice 1500 each.
    assert_eq!(owed, "8999.9".parse().unwrap());
    world.days(15).await;
    let cx = world.cx().await;
    // The rest of it, and more: what was too much was not recovered.
    let mut rest = of("c0", "c0-1");
    rest.money = Some(money("1000"));
    rest.reference = Some("bank-2".to_owned());
    let noted = paid(&cx, rest).await.unwrap();
    assert_eq!((noted.payment.over, noted.left), (Some(money("0.1")), None));
    let later = report(&cx, start, cx.now()).await.unwrap();
    assert_eq!(later.recovered.get(&eur), Some(&"1500".parse::<Number>().unwrap()));
    assert_eq!(later.outstanding.get(&eur), Some(&"8000".parse::<Number>().unwrap()));
    assert_eq!((later.expired, later.drafted), (1, 8));
    let empty = report(&cx, cx.now(), cx.now()).await.unwrap();
    assert_eq!((empty.sent, empty.drafted, empty.approved), (0, 0, 0));
    assert_eq!(empty.median_time_to_approve, None);
    assert!(report(&cx, cx.now(), start).await.is_err());
}
