//! Who only got a copy of a message and is erased is not in the open any more, whenever the provider tells of him.

use futures_util::future::BoxFuture;
use tidings_access::Cx;
use tidings_delivery::ledger::Source;
use tidings_kernel::EmailAddress;
use tidings_people::{contacts, suppression};
use tidings_testbed::{Bed, dying, each_store, interrupted_at};

use super::tests::{bounce, event, in_the_open, messages, name_copy};
use super::{Event, EventKind, Recorded, record};

each_store!(
    nothing_that_is_told_later_is_in_the_open,
    nothing_that_is_told_meanwhile_is_in_the_open,
    what_a_dead_worker_left_goes_when_the_event_comes_again,
);

/// More calls of the items than recording an event makes.
const CALLS: isize = 9;

/// Each with what is remembered of it.
fn what_providers_tell() -> [(EventKind, Option<suppression::Kind>); 4] {
    [
        (EventKind::Delivery, None),
        (bounce("Transient", ""), None),
        (bounce("Permanent", "NoEmail"), Some(suppression::Kind::Permanent)),
        (
            EventKind::Complaint { feedback: Some("abuse".into()) },
            Some(suppression::Kind::Complaint),
        ),
    ]
}

/// Somebody who got a copy of a message, another one in each case.
struct Copy {
    email: EmailAddress,
    event: Event,
    expected: Option<suppression::Kind>,
}

impl Copy {
    /// One for everything that a provider tells.
    async fn of_each_kind(cx: &Cx, source: Source, case: &str) -> Vec<Self> {
        let mut copies = Vec::new();
        for (number, (kind, expected)) in what_providers_tell().into_iter().enumerate() {
            let name = format!("copy-{case}-{number}");
            let email: EmailAddress = format!("{name}@example.org").parse().unwrap();
            name_copy(cx, source, email.as_str()).await;
            let event = Event { email: email.clone(), ..event(&name, kind, source) };
            copies.push(Self { email, event, expected });
        }
        copies
    }

    async fn erase(&self, cx: &Cx) {
        contacts::erase(cx, &self.email).await.unwrap();
    }

    async fn check(&self, cx: &Cx, when: &str) {
        let open = in_the_open(cx, self.email.as_str()).await;
        assert_eq!(open, Vec::<String>::new(), "{when}");
        let status = suppression::status(cx, &self.email).await.unwrap();
        assert_eq!(status.suppression.map(|known| known.kind), self.expected, "{when}");
    }
}

async fn nothing_that_is_told_later_is_in_the_open(bed: &Bed) {
    let cx = bed.cx().await;
    let (source, _) = messages(bed, &cx).await;
    for copy in Copy::of_each_kind(&cx, source, "later").await {
        copy.erase(&cx).await;
        for time in ["once", "twice"] {
            assert_eq!(record(&cx, copy.event.clone()).await.unwrap(), Recorded::Erased);
            copy.check(&cx, time).await;
        }
    }
    for copy in Copy::of_each_kind(&cx, source, "kept").await {
        assert_eq!(record(&cx, copy.event.clone()).await.unwrap(), Recorded::Now);
        assert!(!in_the_open(&cx, copy.email.as_str()).await.is_empty());
    }
}

/// The erasure comes before each call of the items, from the first to the last.
async fn nothing_that_is_told_meanwhile_is_in_the_open(bed: &Bed) {
    let cx = bed.cx().await;
    let (source, _) = messages(bed, &cx).await;
    for place in 0..CALLS {
        for copy in Copy::of_each_kind(&cx, source, &place.to_string()).await {
            let (within, email) = (cx.clone(), copy.email.clone());
            let happens = move || -> BoxFuture<'static, ()> {
                let (cx, email) = (within.clone(), email.clone());
                Box::pin(async move {
                    contacts::erase(&cx, &email).await.unwrap();
                })
            };
            let interrupted = interrupted_at(bed, &cx, place, happens).await;
            record(&interrupted, copy.event.clone()).await.unwrap();
            // If it made fewer calls, the erasure is still to come.
            if !contacts::was_erased(&cx, &copy.email).await.unwrap() {
                copy.erase(&cx).await;
            }
            copy.check(&cx, &format!("at {place}")).await;
        }
    }
}

/// He dies at each call of the items, and somebody is erased before the event comes again.
async fn what_a_dead_worker_left_goes_when_the_event_comes_again(bed: &Bed) {
    let cx = bed.cx().await;
    let (source, _) = messages(bed, &cx).await;
    for (place, after) in (0..CALLS).flat_map(|place| [(place, false), (place, true)]) {
        for copy in Copy::of_each_kind(&cx, source, &format!("{place}-{after}")).await {
            let dead = record(&dying(bed, &cx, place, after).await, copy.event.clone()).await;
            copy.erase(&cx).await;
            // Whoever ended well does not come again.
            if dead.is_err() {
                assert_eq!(record(&cx, copy.event.clone()).await.unwrap(), Recorded::Erased);
            }
            copy.check(&cx, &format!("at {place}, after: {after}")).await;
        }
    }
}
