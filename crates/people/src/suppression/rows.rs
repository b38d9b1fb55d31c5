//! Rows of transient bounces: what is kept of many events, in any order, against a rule that knows all of them.

use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tidings_access::Cx;
use tidings_kernel::{Delete, EmailAddress, Item, Key, Put, tables};
use tidings_testbed::{Bed, each_store};

use super::{Kind, Suppress, delivered, status, suppress, transient_bounce};

each_store!(
    a_bounce_now_and_then_is_no_row_to_whom_mail_arrives_daily,
    so_it_is_when_the_deliveries_between_are_forgotten,
    a_delivery_told_late_takes_the_suppression_back,
    five_bounces_over_a_year_are_no_row,
    what_somebody_here_calls_transient_is_not_taken_back,
    any_order_comes_to_what_all_of_the_events_say,
    so_it_does_while_the_events_are_forgotten,
);

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    at: Timestamp,
    bounced: bool,
    number: usize,
}

fn key(at: Timestamp) -> Key {
    Key::new("SUB#ada@example.org", format!("EVT#{at:.3}#delivery"))
}

/// As whoever reads the events does it: they are stored first.
async fn tell(cx: &Cx, told: Told) {
    if told.bounced {
        let event = format!("e{:03}", told.number);
        return transient_bounce(cx, &ada(), &event, told.at).await.unwrap();
    }
    let event = Item::new()
        .with("PK", "SUB#ada@example.org")
        .with("SK", key(told.at).sort.unwrap())
        .with("eventType", "delivery")
        .with("timestamp", format!("{:.3}", told.at));
    cx.items().await.unwrap().put(Put::new(&tables::EVENTS, event)).await.unwrap();
    delivered(cx, &ada(), told.at).await.unwrap();
}

async fn forget(cx: &Cx, at: Timestamp) {
    cx.items().await.unwrap().delete(Delete::new(&tables::EVENTS, key(at))).await.unwrap();
}

async fn since(cx: &Cx) -> Option<Timestamp> {
    status(cx, &ada()).await.unwrap().suppression.map(|found| found.suppressed_at)
}

fn bounce(at: Timestamp, number: usize) -> Told {
    Told { at, bounced: true, number }
}

fn delivery(at: Timestamp) -> Told {
    Told { at, bounced: false, number: 0 }
}

fn days(of: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * of)
}

/// The rule as the documentation has it, by all that was told.
fn by_all(told: &[Told]) -> Option<Timestamp> {
    let mut bounces: Vec<Timestamp> = Vec::new();
    let mut all: Vec<&Told> = told.iter().filter(|one| one.bounced).collect();
    all.sort();
    all.dedup();
    bounces.extend(all.iter().map(|one| one.at));
    let newest = &bounces[bounces.len().saturating_sub(50)..];
    let between = |from, to| told.iter().any(|one| !one.bounced && from <= one.at && one.at <= to);
    newest
        .windows(5)
        .find(|row| row[4].duration_since(row[0]) <= days(90) && !between(row[0], row[4]))
        .map(|row| row[4])
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn hours(&mut self, end: u64) -> SignedDuration {
        SignedDuration::from_hours(i64::try_from(self.below(end)).unwrap())
    }

    /// So many events, one delivery in so many, and some at the same time.
    fn events(&mut self, count: usize, (rarely, apart): (u64, u64), from: Timestamp) -> Vec<Told> {
        let mut at = from;
        let mut told = Vec::new();
        for number in 0..count {
            at += self.hours(apart);
            told.push(Told { at, bounced: self.below(rarely) > 0, number });
        }
        told
    }

    fn shuffle<T>(&mut self, of: &mut [T]) {
        for place in (1..of.len()).rev() {
            let other = usize::try_from(self.below(place as u64 + 1)).unwrap();
            of.swap(place, other);
        }
    }
}

/// A mail a day, and one in twenty comes back.
fn mostly_well(from: Timestamp) -> Vec<Told> {
    let told = (0..240).map(|day| match day % 20 {
        0 => bounce(from + days(day), usize::try_from(day).unwrap()),
        _ => delivery(from + days(day)),
    });
    told.collect()
}

async fn a_bounce_now_and_then_is_no_row_to_whom_mail_arrives_daily(bed: &Bed) {
    let cx = bed.cx().await;
    for told in mostly_well(cx.now()) {
        tell(&cx, told).await;
        assert_eq!(since(&cx).await, None, "{told:?}");
    }
}

async fn so_it_is_when_the_deliveries_between_are_forgotten(bed: &Bed) {
    let cx = bed.cx().await;
    for told in mostly_well(cx.now()) {
        tell(&cx, told).await;
        forget(&cx, told.at - days(3)).await;
        assert_eq!(since(&cx).await, None, "{told:?}");
    }
}

async fn a_delivery_told_late_takes_the_suppression_back(bed: &Bed) {
    let cx = bed.cx().await;
    // More than are read at once lie in front of the row.
    for hour in 0..30 {
        tell(&cx, delivery(cx.now() - hour.hours())).await;
    }
    for number in 1..=6 {
        tell(&cx, bounce(cx.now() + days(10 * number), usize::try_from(number).unwrap())).await;
    }
    assert_eq!(since(&cx).await, Some(cx.now() + days(50)));
    // It breaks the first row, and there is another one from later.
    tell(&cx, delivery(cx.now() + days(15))).await;
    assert_eq!(since(&cx).await, Some(cx.now() + days(60)));
    tell(&cx, delivery(cx.now() + days(45))).await;
    assert_eq!(since(&cx).await, None);
}

async fn five_bounces_over_a_year_are_no_row(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..12 {
        tell(&cx, bounce(cx.now() + days(30 * number), usize::try_from(number).unwrap())).await;
    }
    assert_eq!(since(&cx).await, None);
    // With two more on one day there are five within ninety.
    for number in 12..14 {
        let at = cx.now() + days(330) + SignedDuration::from_hours(number);
        tell(&cx, bounce(at, usize::try_from(number).unwrap())).await;
    }
    assert!(since(&cx).await.is_some());
}

async fn what_somebody_here_calls_transient_is_not_taken_back(bed: &Bed) {
    let cx = bed.cx().await;
    let decided = Suppress {
        email: ada(),
        kind: Kind::Transient,
        reason: "their server is being moved".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppress(&cx, decided).await.unwrap();
    tell(&cx, bounce(cx.now() + days(1), 1)).await;
    tell(&cx, delivery(cx.now() + days(2))).await;
    assert_eq!(since(&cx).await, Some(cx.now()));
}

async fn any_order_comes_to_what_all_of_the_events_say(bed: &Bed) {
    let mut suppressed = 0;
    for (run, (count, rarely, apart)) in
        [(64, 2, 60), (64, 3, 60), (90, 9, 80), (70, 20, 400), (64, 3, 20)].into_iter().enumerate()
    {
        let cx = bed.make_workspace(&format!("w{run}")).await;
        let mut chance = Chance(0x5eed_0001 + run as u64);
        let mut told = chance.events(count, (rarely, apart), cx.now());
        // Some of them come twice.
        told.extend_from_within(..count / 5);
        chance.shuffle(&mut told);
        for (place, one) in told.iter().enumerate() {
            tell(&cx, *one).await;
            let expected = by_all(&told[..=place]);
            assert_eq!(since(&cx).await, expected, "run {run}, event {place}: {one:?}");
        }
        suppressed += usize::from(by_all(&told).is_some());
    }
    assert!((1..5).contains(&suppressed), "the runs show both: {suppressed}");
}

/// Each comes up to five days late, and for five days an event is kept.
async fn so_it_does_while_the_events_are_forgotten(bed: &Bed) {
    for run in 0..4 {
        let cx = bed.make_workspace(&format!("w{run}")).await;
        let mut chance = Chance(0x5eed_1001 + run);
        let told = chance.events(70, (4, 48), cx.now());
        let mut arrivals: Vec<_> = Vec::new();
        for one in told {
            for _ in 0..=chance.below(2) {
                arrivals.push((one.at + chance.hours(5 * 24), one));
            }
        }
        arrivals.sort();
        let so_far = |place: usize| arrivals[..=place].iter().map(|(_, one)| *one);
        for (place, (now, one)) in arrivals.iter().enumerate() {
            for old in so_far(place).filter(|old| !old.bounced && old.at < *now - days(5)) {
                forget(&cx, old.at).await;
            }
            tell(&cx, *one).await;
            let expected = by_all(&so_far(place).collect::<Vec<_>>());
            assert_eq!(since(&cx).await, expected, "run {run}, event {place}: {one:?}");
        }
    }
}
