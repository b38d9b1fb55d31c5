//! The rules against a naive reference: the records of what was sent, looked through from the beginning as seed 002 does it.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;

use super::world::{World, customer, money, new};
use crate::rules::{Answer, Days, History, ask, next};
use crate::{Choose, DraftError, Kind, Listing, Payment, Sent, draft, history, paid, settings};

fn day(days: i64) -> Timestamp {
    let start: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(24 * days)
}

/// What seed 002 says, over all that was ever sent and the times at which everything was paid.
fn naive(
    sent: &[(Kind, Timestamp)],
    settled: Option<Timestamp>,
    kind: Kind,
    days: &Days,
    now: Timestamp,
) -> bool {
    let within = |kind: Kind, days: u32| {
        let cutoff = now - SignedDuration::from_hours(24 * i64::from(days));
        sent.iter().any(|(one, at)| *one == kind && *at > cutoff)
    };
    let ever = |kind: Kind| {
        sent.iter().any(|(one, at)| *one == kind && settled.is_none_or(|settled| *at > settled))
    };
    match kind {
        Kind::First => !within(Kind::First, days.first_again),
        Kind::Second => {
            !within(Kind::Second, days.second_again)
                && ever(Kind::First)
                && !within(Kind::First, days.second_after_first)
        }
        Kind::Final => {
            !within(Kind::Final, days.final_again)
                && ever(Kind::Second)
                && !within(Kind::Second, days.final_after_second)
        }
    }
}

proptest! {
    #[test]
    fn the_rules_agree_with_the_reference(
        steps in prop::collection::vec((select(&Kind::ALL[..]), 0_i64..6, any::<bool>()), 1..60),
        numbers in prop::array::uniform5(1_u32..12),
    ) {
        let [first_again, second_again, second_after_first, final_again, final_after_second] = numbers;
        let days = Days { first_again, second_again, second_after_first, final_again, final_after_second };
        let (mut sent, mut now, mut history) = (Vec::new(), 0, History::default());
        for (kind, pause, pays) in steps {
            now += pause;
            let at = day(now);
            if pays && pause == 5 {
                history.settled = Some(at);
            }
            for kind in Kind::ALL {
                let answer = ask(&history, &days, kind, at);
                let expected = naive(&sent, history.settled, kind, &days, at);
                prop_assert_eq!(answer == Answer::Allowed, expected);
                // From the date that is told it is allowed, and not a second before.
                if let Answer::NotBefore(from) = answer {
                    prop_assert!(naive(&sent, history.settled, kind, &days, from));
                    let before = from - SignedDuration::from_secs(1);
                    prop_assert!(!naive(&sent, history.settled, kind, &days, before));
                }
                if let Answer::Needs(before) = answer {
                    prop_assert_eq!(Some(before), kind.before());
                }
            }
            prop_assert!(!matches!(ask(&history, &days, next(&history), at), Answer::Needs(_)));
            if ask(&history, &days, kind, at) == Answer::Allowed {
                sent.push((kind, at));
                match kind {
                    Kind::First => history.first = Some(at),
                    Kind::Second => history.second = Some(at),
                    Kind::Final => history.last = Some(at),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// The same through everything: drafts, approvals, sending, and the records that they leave.
    #[test]
    fn what_is_sent_keeps_to_the_reference(
        steps in prop::collection::vec((select(&Kind::ALL[..]), 0_i64..5, 0..8), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(story(steps));
    }
}

async fn story(steps: Vec<(Kind, i64, i32)>) {
    let bed = tidings_testbed::Bed::memory().await;
    let world = World::new(&bed).await;
    let days = settings::get(&world.cx().await).await.unwrap().days;
    let mut settled = None;
    for (at, (kind, pause, dice)) in steps.into_iter().enumerate() {
        world.days(pause).await;
        let cx = world.cx().await;
        if dice == 0 {
            let payment = Payment {
                customer: Some(customer("c1")),
                invoice: None,
                money: None,
                paid_at: None,
                reference: Some(format!("bank-{at}")),
            };
            paid(&cx, payment).await.unwrap();
            settled = Some(cx.now());
            world.bed.advance(1).await;
        }
        let cx = world.cx().await;
        let all = Listing { limit: 100, cursor: None };
        let records = history(&cx, &customer("c1"), all).await.unwrap().items;
        let sent: Vec<_> = records.iter().map(|one: &Sent| (one.kind, one.sent_at)).collect();
        let mut new = new("c1", Choose::Kind(kind));
        // Others than those that were paid.
        new.facts.invoices = vec![super::world::invoice(&format!("inv-{at}"), "7")];
        new.facts.owed = money("7");
        let expected = naive(&sent, settled, kind, &days, cx.now());
        match draft(&cx, new).await {
            Ok(made) => {
                assert!(expected, "{kind} at {} after {sent:?}", cx.now());
                world.approve(&made.draft).await;
                world.run().await;
            }
            Err(DraftError::TooEarly { .. } | DraftError::NeedsBefore { .. }) => {
                assert!(!expected, "{kind} at {} after {sent:?}", cx.now());
            }
            Err(error) => panic!("{error}"),
        }
    }
}
