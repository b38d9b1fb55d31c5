//! How suppressions behave, on every SQL engine.

use jiff::{Timestamp, ToSpan as _};
use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_kernel::{
    EmailAddress, Item, Key, ProviderSuppressions, Put, SendError, SuppressedFor, tables,
};
use tidings_testbed::{Bed, each_store};

use super::{
    Kind, Lift, LiftError, Suppress, Suppressed, delivered, erase_everywhere, lift,
    lift_everywhere, list, status, suppress, suppress_everywhere, transient_bounce,
};
use crate::contacts::{self, Attributes, Upsert, upsert};

each_store!(
    the_item_is_that_of_the_seed,
    doing_it_twice_changes_nothing_and_the_earliest_event_is_kept,
    a_profile_follows_and_none_is_made,
    lifting_needs_a_suppression_and_is_remembered,
    a_bounce_from_before_the_lift_does_not_bring_it_back,
    all_are_listed_by_address,
    five_bounces_in_a_row_suppress,
    a_delivery_between_breaks_the_row,
    bounces_and_deliveries_come_to_the_same_end_in_any_order,
    what_lasts_outlives_a_delivery_in_any_order,
    what_lasts_is_kept_whatever_was_first,
    a_delivery_from_before_the_first_bounce_is_found_among_the_events,
    bounces_from_before_the_lift_do_not_count,
    suppressing_and_making_a_profile_at_once_agree,
    the_log_has_no_addresses,
    lifting_reaches_the_provider_and_does_not_depend_on_him,
    the_provider_is_told_of_what_is_suppressed_and_forgets_who_is_erased,
    a_flag_that_nothing_explains_is_lifted_too,
);

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

fn bounce(at: Timestamp) -> Suppress {
    Suppress {
        email: ada(),
        kind: Kind::Permanent,
        reason: "General".parse().unwrap(),
        source: Some("event-1".to_owned()),
        note: None,
        at,
    }
}

fn person() -> Upsert {
    Upsert { email: ada(), first_name: None, attributes: Attributes::default(), tags: None }
}

fn wish() -> Lift {
    Lift { email: ada(), reason: "the mailbox is back".parse().unwrap() }
}

async fn item(cx: &Cx, sort: &str) -> Option<Item> {
    let key = Key::new("SUB#ada@example.org", sort);
    cx.items().await.unwrap().get(&tables::MAIN, &key).await.unwrap()
}

async fn is_suppressed(cx: &Cx) -> bool {
    let by_item = status(cx, &ada()).await.unwrap().suppression.is_some();
    let listed = list(cx, None, Limit::default()).await.unwrap().items.len();
    assert_eq!(listed, usize::from(by_item), "the list has what the item says");
    if let Some(contact) = contacts::get(cx, &ada()).await.unwrap() {
        assert_eq!(contact.contact.suppressed, by_item, "the profile has what the item says");
    }
    by_item
}

async fn the_item_is_that_of_the_seed(bed: &Bed) {
    let cx = bed.cx().await;
    suppress(&cx, Suppress { source: None, ..bounce(cx.now()) }).await.unwrap();
    assert_eq!(
        serde_json::to_value(item(&cx, "SUPPRESSION").await.unwrap()).unwrap(),
        json!({
            "PK": "SUB#ada@example.org", "SK": "SUPPRESSION", "type": "Permanent",
            "reason": "General", "suppressedAt": "2026-07-01T12:00:00.000Z", "actor": "operator",
        })
    );
}

async fn doing_it_twice_changes_nothing_and_the_earliest_event_is_kept(bed: &Bed) {
    let cx = bed.cx().await;
    let first = suppress(&cx, bounce(cx.now())).await.unwrap();
    let Suppressed::New(kept) = first else { panic!("{first:?}") };
    for later in [0, 5] {
        let complaint = Suppress { kind: Kind::Complaint, ..bounce(cx.now() + later.hours()) };
        let again = suppress(&cx, complaint).await.unwrap();
        assert_eq!(again, Suppressed::Already(kept.clone()));
    }
    // In the other order it comes to the same.
    let earlier = Suppress { kind: Kind::Complaint, ..bounce(cx.now() - 5.hours()) };
    suppress(&cx, earlier).await.unwrap();
    let known = status(&cx, &ada()).await.unwrap().suppression.unwrap();
    assert_eq!((known.kind, known.suppressed_at), (Kind::Complaint, cx.now() - 5.hours()));
    assert!(is_suppressed(&cx).await);
}

async fn a_profile_follows_and_none_is_made(bed: &Bed) {
    let cx = bed.cx().await;
    suppress(&cx, bounce(cx.now())).await.unwrap();
    assert!(item(&cx, "PROFILE").await.is_none());
    assert!(contacts::get(&cx, &ada()).await.unwrap().is_none());
    lift(&cx, wish()).await.unwrap();
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    upsert(&cx, person()).await.unwrap();
    suppress(&cx, bounce(cx.now())).await.unwrap();
    let all = contacts::get(&cx, &ada()).await.unwrap().unwrap();
    assert!(all.contact.suppressed);
    assert_eq!(all.identities[0].bounced_at, Some(cx.now()));
    lift(&cx, wish()).await.unwrap();
    let all = contacts::get(&cx, &ada()).await.unwrap().unwrap();
    assert!(!all.contact.suppressed);
    assert_eq!(all.identities[0].bounced_at, None);
}

async fn lifting_needs_a_suppression_and_is_remembered(bed: &Bed) {
    let cx = bed.cx().await;
    assert!(matches!(lift(&cx, wish()).await, Err(LiftError::Missing)));
    suppress(&cx, bounce(cx.now())).await.unwrap();
    assert_eq!(lift(&cx, wish()).await.unwrap().kind, Kind::Permanent);
    assert!(!is_suppressed(&cx).await);
    let lifted = item(&cx, "SUPPRESSION_LIFTED").await.unwrap();
    assert_eq!(lifted.text("reason"), Some("the mailbox is back"));
    assert_eq!(lifted.text("liftedAt"), Some("2026-07-01T12:00:00.000Z"));
    assert!(matches!(lift(&cx, wish()).await, Err(LiftError::Missing)));
}

async fn a_bounce_from_before_the_lift_does_not_bring_it_back(bed: &Bed) {
    let cx = bed.cx().await;
    suppress(&cx, bounce(cx.now())).await.unwrap();
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    lift(&cx, wish()).await.unwrap();
    let late = suppress(&cx, bounce(cx.now() - 30.minutes())).await.unwrap();
    assert_eq!(late, Suppressed::Stale);
    assert!(!is_suppressed(&cx).await);
    let new = suppress(&cx, bounce(cx.now() + 1.second())).await.unwrap();
    assert!(matches!(new, Suppressed::New(_)), "{new:?}");
}

async fn all_are_listed_by_address(bed: &Bed) {
    let cx = bed.cx().await;
    for name in ["c", "a", "b"] {
        let email = format!("{name}@example.org").parse().unwrap();
        suppress(&cx, Suppress { email, ..bounce(cx.now()) }).await.unwrap();
    }
    let two = Limit::try_from(2).unwrap();
    let first = list(&cx, None, two).await.unwrap();
    let shown: Vec<_> = first.items.iter().map(|one| one.email.as_str()).collect();
    assert_eq!(shown, ["a@example.org", "b@example.org"]);
    let rest = list(&cx, first.next, two).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
}

async fn five_bounces_in_a_row_suppress(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, person()).await.unwrap();
    for number in 1..=5 {
        assert!(!is_suppressed(&cx).await);
        // Each comes twice.
        for _ in 0..2 {
            let at = cx.now() + i64::from(number).minutes();
            transient_bounce(&cx, &ada(), &format!("e{number}"), at).await.unwrap();
        }
    }
    assert!(is_suppressed(&cx).await);
    let known = status(&cx, &ada()).await.unwrap().suppression.unwrap();
    assert_eq!(known.kind, Kind::Transient);
    assert_eq!(known.reason, "five consecutive transient bounces");
    assert_eq!(known.suppressed_at, cx.now() + 5.minutes());
}

async fn a_delivery_between_breaks_the_row(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..8 {
        let at = cx.now() + i64::from(2 * number).minutes();
        transient_bounce(&cx, &ada(), &format!("e{number}"), at).await.unwrap();
        if number == 3 {
            delivered(&cx, &ada(), at + 1.minute()).await.unwrap();
        }
    }
    assert!(!is_suppressed(&cx).await);
    transient_bounce(&cx, &ada(), "e8", cx.now() + 16.minutes()).await.unwrap();
    assert!(is_suppressed(&cx).await);
}

/// `B` is a bounce and `D` a delivery, in the order of their times; then they arrive in many other orders.
async fn bounces_and_deliveries_come_to_the_same_end_in_any_order(bed: &Bed) {
    let orders: [[usize; 6]; 6] = [
        [0, 1, 2, 3, 4, 5],
        [5, 4, 3, 2, 1, 0],
        [1, 2, 4, 5, 3, 0],
        [0, 1, 3, 4, 5, 2],
        [2, 0, 1, 3, 4, 5],
        [3, 5, 0, 2, 1, 4],
    ];
    for (case, (happened, suppressed)) in
        [("BBDBBB", false), ("DBBBBB", true), ("BBBBBD", true), ("BBBDBB", false)]
            .iter()
            .enumerate()
    {
        for (run, order) in orders.iter().enumerate() {
            let cx = bed.make_workspace(&format!("w{case}-{run}")).await;
            upsert(&cx, person()).await.unwrap();
            for place in order {
                let at = cx.now() + i64::try_from(*place).unwrap().minutes();
                if happened.as_bytes()[*place] == b'B' {
                    transient_bounce(&cx, &ada(), &format!("e{place}"), at).await.unwrap();
                } else {
                    // As whoever reads the events does it: they are stored first.
                    let sort = format!("EVT#{at:.3}#delivery");
                    let event = Item::new()
                        .with("PK", "SUB#ada@example.org")
                        .with("SK", sort)
                        .with("eventType", "delivery")
                        .with("timestamp", format!("{at:.3}"));
                    cx.items().await.unwrap().put(Put::new(&tables::EVENTS, event)).await.unwrap();
                    delivered(&cx, &ada(), at).await.unwrap();
                }
            }
            assert_eq!(is_suppressed(&cx).await, *suppressed, "{happened} in order {order:?}");
        }
    }
}

/// Five bounces in a row, a delivery that breaks the row, and something that lasts: in all orders of arrival, and wherever
/// between them it happened.
async fn what_lasts_outlives_a_delivery_in_any_order(bed: &Bed) {
    let mut run = 0;
    for kind in [Kind::Permanent, Kind::Complaint] {
        for happened in [0, 30] {
            for (delivery, lasting) in
                [0, 3, 5].into_iter().flat_map(|one| [0, 2, 5, 6].map(|other| (one, other)))
            {
                run += 1;
                let cx = bed.make_workspace(&format!("w{run}")).await;
                upsert(&cx, person()).await.unwrap();
                let at = |minutes: i64| cx.now() + minutes.minutes();
                let mut order: Vec<char> = "12345".chars().collect();
                order.insert(delivery, 'D');
                order.insert(lasting, 'L');
                for arrived in &order {
                    match arrived {
                        // Between the second and the third bounce.
                        'D' => {
                            let event = Item::new()
                                .with("PK", "SUB#ada@example.org")
                                .with("SK", format!("EVT#{:.3}#delivery", at(5)))
                                .with("eventType", "delivery")
                                .with("timestamp", format!("{:.3}", at(5)));
                            let items = cx.items().await.unwrap();
                            items.put(Put::new(&tables::EVENTS, event)).await.unwrap();
                            delivered(&cx, &ada(), at(5)).await.unwrap();
                        }
                        'L' => {
                            let lasting = Suppress { kind, ..bounce(at(happened)) };
                            suppress(&cx, lasting).await.unwrap();
                        }
                        number => {
                            let number = i64::from(number.to_digit(10).unwrap());
                            let event = format!("e{number}");
                            let when = at(2 * number);
                            transient_bounce(&cx, &ada(), &event, when).await.unwrap();
                        }
                    }
                }
                assert!(is_suppressed(&cx).await, "{kind} {happened} {order:?}");
                let known = status(&cx, &ada()).await.unwrap().suppression.unwrap();
                assert_eq!(
                    (known.kind, known.suppressed_at),
                    (kind, at(happened)),
                    "{happened} {order:?}"
                );
                let all = contacts::get(&cx, &ada()).await.unwrap().unwrap();
                let identity = &all.identities[0];
                assert_eq!(
                    identity.complained_at.is_some(),
                    kind == Kind::Complaint,
                    "{kind} {happened} {order:?}"
                );
                if kind == Kind::Permanent {
                    assert!(identity.bounced_at.is_some(), "{happened} {order:?}");
                }
            }
        }
    }
}

/// In a table: what was there, what comes (earlier or later), and what stands then.
async fn what_lasts_is_kept_whatever_was_first(bed: &Bed) {
    use Kind::{Complaint, Manual, Permanent, Transient};
    let table = [
        (Transient, Permanent, 1, Permanent),
        (Transient, Permanent, 0, Permanent),
        (Transient, Complaint, 1, Complaint),
        (Transient, Manual, 1, Manual),
        (Transient, Manual, -1, Manual),
        (Permanent, Transient, -1, Permanent),
        (Complaint, Transient, -1, Complaint),
        (Manual, Transient, -1, Manual),
        (Permanent, Complaint, 1, Permanent),
        (Permanent, Complaint, -1, Complaint),
        (Transient, Transient, -1, Transient),
    ];
    for (case, (first, then, hours, stands)) in table.into_iter().enumerate() {
        let cx = bed.make_workspace(&format!("w{case}")).await;
        suppress(&cx, Suppress { kind: first, ..bounce(cx.now()) }).await.unwrap();
        let next = Suppress { kind: then, ..bounce(cx.now() + i64::from(hours).hours()) };
        let Suppressed::Already(told) = suppress(&cx, next).await.unwrap() else {
            panic!("{first} then {then} was new")
        };
        let known = status(&cx, &ada()).await.unwrap().suppression.unwrap();
        assert_eq!((told, known.kind), (known.clone(), stands), "{first} then {then} {hours} h");
        let listed = list(&cx, None, Limit::default()).await.unwrap().items;
        assert_eq!(listed[0].kind, stands);
    }
}

async fn a_delivery_from_before_the_first_bounce_is_found_among_the_events(bed: &Bed) {
    let cx = bed.cx().await;
    let at = cx.now() + 90.seconds();
    let event = Item::new()
        .with("PK", "SUB#ada@example.org")
        .with("SK", format!("EVT#{at:.3}#delivery"))
        .with("eventType", "delivery")
        .with("timestamp", format!("{at:.3}"));
    cx.items().await.unwrap().put(Put::new(&tables::EVENTS, event)).await.unwrap();
    delivered(&cx, &ada(), at).await.unwrap();
    assert!(item(&cx, "BOUNCES").await.is_none(), "who never bounced costs no write");
    for number in 1..=5 {
        let at = cx.now() + i64::from(number).minutes();
        transient_bounce(&cx, &ada(), &format!("e{number}"), at).await.unwrap();
    }
    assert!(!is_suppressed(&cx).await);
}

async fn bounces_from_before_the_lift_do_not_count(bed: &Bed) {
    let cx = bed.cx().await;
    let note = async |cx: &Cx, number: i64| {
        let at = cx.now() + number.seconds();
        transient_bounce(cx, &ada(), &format!("{at}"), at).await.unwrap();
    };
    for number in 1..=5 {
        note(&cx, number).await;
    }
    bed.clock.advance(1.hour());
    let later = bed.cx().await;
    lift(&later, wish()).await.unwrap();
    for number in 1..=4 {
        note(&cx, number).await;
        note(&later, number).await;
    }
    assert!(!is_suppressed(&later).await);
    note(&later, 5).await;
    assert!(is_suppressed(&later).await);
}

async fn suppressing_and_making_a_profile_at_once_agree(bed: &Bed) {
    for run in 0..8 {
        let cx = bed.make_workspace(&format!("w{run}")).await;
        let (made, suppressed) =
            tokio::join!(upsert(&cx, person()), suppress(&cx, bounce(cx.now())));
        made.unwrap();
        suppressed.unwrap();
        assert!(is_suppressed(&cx).await);
    }
}

/// A provider that notes what he is asked, and may be away.
#[derive(Default)]
struct Provider {
    away: bool,
    asked: std::sync::Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl ProviderSuppressions for Provider {
    async fn suppress(&self, email: &EmailAddress, reason: SuppressedFor) -> Result<(), SendError> {
        self.asked.lock().unwrap().push(format!("{email} {reason:?}"));
        if self.away { Err(SendError::Later("away".to_owned())) } else { Ok(()) }
    }

    async fn lift(&self, email: &EmailAddress) -> Result<(), SendError> {
        self.asked.lock().unwrap().push(email.to_string());
        if self.away { Err(SendError::Later("away".to_owned())) } else { Ok(()) }
    }
}

async fn lifting_reaches_the_provider_and_does_not_depend_on_him(bed: &Bed) {
    for (away, told) in [(Some(false), "lifted"), (Some(true), "not_reached"), (None, "none")] {
        let cx = bed.make_workspace(&format!("w-{}", told.replace('_', "-"))).await;
        let provider = away.map(|away| Provider { away, ..Provider::default() });
        let there = || provider.as_ref().map(|one| one as &dyn ProviderSuppressions);
        let missing = lift_everywhere(&cx, wish(), there()).await;
        assert!(matches!(missing, Err(LiftError::Missing)), "{missing:?}");
        suppress(&cx, bounce(cx.now())).await.unwrap();
        let (was, at_provider) = lift_everywhere(&cx, wish(), there()).await.unwrap();
        assert_eq!((was.kind, at_provider.as_str()), (Kind::Permanent, told));
        assert!(!is_suppressed(&cx).await, "{told}");
        if let Some(provider) = &provider {
            // Not for what is not suppressed here.
            assert_eq!(*provider.asked.lock().unwrap(), ["ada@example.org"]);
        }
    }
}

async fn the_provider_is_told_of_what_is_suppressed_and_forgets_who_is_erased(bed: &Bed) {
    for away in [false, true] {
        let cx = bed.make_workspace(&format!("w-{away}")).await;
        let provider = Provider { away, ..Provider::default() };
        let complaint = Suppress { kind: Kind::Complaint, ..bounce(cx.now()) };
        suppress_everywhere(&cx, complaint, Some(&provider)).await.unwrap();
        assert!(is_suppressed(&cx).await);
        erase_everywhere(&cx, &ada(), Some(&provider)).await.unwrap();
        // He is asked about nobody who is not suppressed here.
        let bob = "bob@example.org".parse().unwrap();
        erase_everywhere(&cx, &bob, Some(&provider)).await.unwrap();
        let asked = ["ada@example.org Complaint", "ada@example.org"];
        assert_eq!(*provider.asked.lock().unwrap(), asked);
        assert!(contacts::flags(&cx, &ada()).await.unwrap().suppressed, "the hash is kept");
    }
}

async fn the_log_has_no_addresses(bed: &Bed) {
    let cx = bed.cx().await;
    suppress(&cx, bounce(cx.now())).await.unwrap();
    lift(&cx, wish()).await.unwrap();
    upsert(&cx, person()).await.unwrap();
    let read = cx.database().read(|tx| {
        tx.query("SELECT action, target_type, target_id FROM audit_log ORDER BY id", &[])
    });
    let rows: Result<_, tidings_sql::DatabaseError> = read.await;
    let log = format!("{:?}", rows.unwrap());
    assert!(log.contains("suppression.add") && log.contains("suppression.lift"), "{log}");
    assert!(!log.contains("example.org"), "{log}");
}

async fn a_flag_that_nothing_explains_is_lifted_too(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, person()).await.unwrap();
    let flag = tidings_kernel::Update::new(&tables::MAIN, crate::keys::profile(&ada()));
    cx.items().await.unwrap().update(flag.set("suppressed", true)).await.unwrap();
    lift_everywhere(&cx, wish(), None).await.unwrap();
    let contact = contacts::get(&cx, &ada()).await.unwrap().unwrap().contact;
    assert!(!contact.suppressed);
    let lifted = item(&cx, "SUPPRESSION_LIFTED").await.unwrap();
    assert_eq!(lifted.text("reason"), Some("the mailbox is back"));
    assert!(matches!(lift(&cx, wish()).await, Err(LiftError::Missing)));
}
