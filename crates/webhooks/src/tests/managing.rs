//! Endpoints and deliveries as their owner meets them.

use tidings_access::Limit;
use tidings_testbed::{Bed, each_store};

use super::{Receiver, all, count, here, only, say, sent, subscribe, work};
use crate::deliveries::{self, EndpointReplayError, ReplayError, Status};
use crate::endpoints::{self, Create, CreateError, FindError, Update, UpdateError};
use crate::{EventType, EventTypes, TargetError, Targets};

async fn an_endpoint_is_made_changed_switched_and_deleted(bed: &Bed) {
    let cx = bed.cx().await;
    let made = subscribe(&cx, "http://127.0.0.1:9/a", &[EventType::EmailSent]).await;
    let id = made.endpoint.id;
    assert_eq!(endpoints::find(&cx, id).await.unwrap(), made.endpoint);

    let update = Update {
        url: Some("http://127.0.0.1:9/b".parse().unwrap()),
        description: Some(Some("The shop".parse().unwrap())),
        event_types: None,
    };
    let changed = endpoints::update(&cx, &here(), id, update).await.unwrap();
    assert_eq!(changed.url, "http://127.0.0.1:9/b");
    assert_eq!(changed.description.as_deref(), Some("The shop"));
    assert!(changed.event_types.has("email.sent") && !changed.event_types.has("email.opened"));
    let update = Update { event_types: Some(EventTypes::All), ..Update::default() };
    let changed = endpoints::update(&cx, &here(), id, update).await.unwrap();
    assert_eq!(
        (changed.url.as_str(), changed.event_types),
        ("http://127.0.0.1:9/b", EventTypes::All)
    );
    assert_eq!(changed.description.as_deref(), Some("The shop"));
    let update = Update { description: Some(None), ..Update::default() };
    let changed = endpoints::update(&cx, &here(), id, update).await.unwrap();
    assert_eq!((changed.url.as_str(), changed.description), ("http://127.0.0.1:9/b", None));

    for _ in 0..2 {
        let off = endpoints::disable(&cx, id).await.unwrap();
        assert_eq!(off.disabled.unwrap().reason, "manual");
    }
    let refused = deliveries::send_test(&cx, id).await.unwrap_err();
    assert!(matches!(refused, EndpointReplayError::Disabled(_)), "{refused:?}");
    for _ in 0..2 {
        assert_eq!(endpoints::enable(&cx, id).await.unwrap().disabled, None);
    }
    endpoints::delete(&cx, id).await.unwrap();
    assert!(matches!(endpoints::delete(&cx, id).await, Err(FindError::Missing(_))));
    assert!(matches!(endpoints::find(&cx, id).await, Err(FindError::Missing(_))));
    assert!(matches!(endpoints::enable(&cx, id).await, Err(FindError::Missing(_))));
    assert!(endpoints::list(&cx, None, Limit::MAX).await.unwrap().items.is_empty());
    let left =
        "SELECT COUNT(*) FROM webhook_endpoints WHERE secret <> '' OR previous_secret IS NOT NULL";
    assert_eq!(count(&cx, left).await, 0);
    // Create, three changes, one off, one on, deleted.
    let audited = "SELECT COUNT(*) FROM audit_log WHERE target_type = 'webhook'";
    assert_eq!(count(&cx, audited).await, 7);
}

async fn nobody_reaches_the_endpoints_of_another_workspace(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    let (id, delivery) = (issued.endpoint.id, only(&cx, &issued).await.delivery.id);
    let stranger = bed.make_workspace("other").await;
    assert!(matches!(endpoints::find(&stranger, id).await, Err(FindError::Missing(_))));
    assert!(matches!(endpoints::rotate_secret(&stranger, id).await, Err(FindError::Missing(_))));
    assert!(matches!(endpoints::disable(&stranger, id).await, Err(FindError::Missing(_))));
    assert!(matches!(endpoints::delete(&stranger, id).await, Err(FindError::Missing(_))));
    let update = endpoints::update(&stranger, &here(), id, Update::default()).await;
    assert!(matches!(update, Err(UpdateError::Missing(_))));
    let list = deliveries::list(&stranger, id, None, None, Limit::MAX).await;
    assert!(matches!(list, Err(FindError::Missing(_))));
    let found = deliveries::find(&stranger, delivery).await;
    assert!(matches!(found, Err(deliveries::FindError::Missing(_))));
    let replayed = deliveries::replay(&stranger, delivery).await;
    assert!(matches!(replayed, Err(ReplayError::Missing(_))));
    let test = deliveries::send_test(&stranger, id).await;
    assert!(matches!(test, Err(EndpointReplayError::Missing(_))));
    assert_eq!(endpoints::find(&cx, id).await.unwrap(), issued.endpoint);
}

async fn only_public_urls_are_taken_and_only_so_many(bed: &Bed) {
    let cx = bed.cx().await;
    let create = |url: &str| Create {
        url: url.parse().unwrap(),
        description: None,
        event_types: EventTypes::All,
    };
    let public = Targets::new(false);
    let refused = endpoints::create(&cx, &public, create("https://169.254.169.254/")).await;
    assert!(matches!(refused, Err(CreateError::Target(TargetError::NotPublic))), "{refused:?}");
    let made = endpoints::create(&cx, &public, create("https://93.184.215.14/")).await.unwrap();
    let update =
        Update { url: Some("http://93.184.215.14/".parse().unwrap()), ..Update::default() };
    let refused = endpoints::update(&cx, &public, made.endpoint.id, update).await;
    assert!(matches!(refused, Err(UpdateError::Target(TargetError::NotHttps))), "{refused:?}");
    for _ in 1..20 {
        endpoints::create(&cx, &public, create("https://93.184.215.14/")).await.unwrap();
    }
    let refused = endpoints::create(&cx, &public, create("https://93.184.215.14/")).await;
    assert!(matches!(refused, Err(CreateError::Full)), "{refused:?}");
    endpoints::delete(&cx, made.endpoint.id).await.unwrap();
    endpoints::create(&cx, &public, create("https://93.184.215.14/")).await.unwrap();
}

async fn a_delivery_can_be_replayed_with_the_same_id(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    let id = only(&cx, &issued).await.delivery.id;
    let again = deliveries::replay(&cx, id).await.unwrap();
    assert_eq!((again.status, again.attempts, again.delivered_at), (Status::Pending, 0, None));
    let refused = deliveries::replay(&cx, id).await.unwrap_err();
    assert!(matches!(refused, ReplayError::Pending(_)), "{refused:?}");
    work(bed).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].headers["webhook-id"], requests[1].headers["webhook-id"]);
    let told = only(&cx, &issued).await;
    assert_eq!((told.delivery.status, told.attempts.len()), (Status::Delivered, 2));
    endpoints::disable(&cx, issued.endpoint.id).await.unwrap();
    let refused = deliveries::replay(&cx, id).await.unwrap_err();
    assert!(matches!(refused, ReplayError::Disabled(_)), "{refused:?}");
}

async fn deliveries_come_in_pages_the_newest_first(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    for number in 0..3 {
        say(&cx, &sent(&number.to_string())).await;
        work(bed).await;
    }
    receiver.answers("500 Oops", "");
    say(&cx, &sent("3")).await;
    work(bed).await;
    let id = issued.endpoint.id;
    let whole = all(&cx, &issued).await;
    assert!(whole.is_sorted_by(|one, next| one.id > next.id));
    let limit = Limit::try_from(3).unwrap();
    let first = deliveries::list(&cx, id, None, None, limit).await.unwrap();
    let rest = deliveries::list(&cx, id, None, first.next, limit).await.unwrap();
    assert_eq!(rest.next, None);
    assert_eq!([first.items, rest.items].concat(), whole);
    for (status, expected) in [(Status::Pending, 1), (Status::Delivered, 3), (Status::Failed, 0)] {
        let some = deliveries::list(&cx, id, Some(status), None, limit).await.unwrap();
        assert_eq!(some.items.len(), expected, "{status}");
    }
}

each_store!(
    an_endpoint_is_made_changed_switched_and_deleted,
    nobody_reaches_the_endpoints_of_another_workspace,
    only_public_urls_are_taken_and_only_so_many,
    a_delivery_can_be_replayed_with_the_same_id,
    deliveries_come_in_pages_the_newest_first,
);
