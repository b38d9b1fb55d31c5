//! What somebody is not known by any more: whose it is then, what stays, and what cannot go.

use futures_util::future::{BoxFuture, join3};
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::{Cx, Limit, StorageError, audit};
use tidings_jobs::contracts::LeadIngestion;
use tidings_people::contacts::{self, ContactId};
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store, interrupted_at};

use super::{identity, known_as, who};
use crate::identity::{DetachError, Resolved, Whom, detach, find, merge, unmerge};
use crate::ingestion::tests::{ids, told};
use crate::ingestion::{IngestError, Ingested, ingest};
use crate::timeline::told_as;

each_store!(
    what_is_told_later_is_about_somebody_else,
    nobody_is_left_without_a_name_and_no_address_goes,
    whoever_was_merged_keeps_a_name_of_his_own,
    an_identity_can_go_at_any_moment_of_an_event,
);

async fn away(cx: &Cx, contact: ContactId, what: &str) -> Result<bool, DetachError> {
    detach(cx, Whom::Contact(contact), identity(what)).await
}

async fn has(cx: &Cx, what: &str) -> Option<ContactId> {
    let found = find(cx, Whom::Identity(identity(what))).await.unwrap();
    found.map(|owner| owner.lead_id)
}

async fn what_is_told_later_is_about_somebody_else(bed: &Bed) {
    let cx = bed.cx().await;
    let phone = "phone=+493012345";
    let ada = who(&cx, &["email=ada@example.org", phone]).await.lead_id;
    ingest(&cx, told(&cx, "1", cx.now(), &[phone])).await.unwrap();
    assert!(away(&cx, ada, phone).await.unwrap());
    assert_eq!(known_as(&cx, ada).await, ["email=ada@example.org"]);
    assert_eq!(has(&cx, phone).await, None);
    assert!(!away(&cx, ada, phone).await.unwrap(), "again changes nothing");

    ingest(&cx, told(&cx, "2", cx.now(), &[phone])).await.unwrap();
    let other = has(&cx, phone).await.unwrap();
    assert_ne!(other, ada);
    assert_eq!(ids(&cx, Whom::Contact(ada)).await, ["1"], "what happened by it stays");
    assert_eq!(ids(&cx, Whom::Contact(other)).await, ["2"]);
    assert!(!away(&cx, ada, phone).await.unwrap(), "it is another one's");
    assert_eq!(has(&cx, phone).await, Some(other));
    // What has left him goes with the one who has it.
    contacts::erase_contact(&cx, ada).await.unwrap();
    assert_eq!(ids(&cx, Whom::Contact(other)).await, ["2"]);

    let filter =
        audit::Filter { action: Some("contact.detach".to_owned()), ..audit::Filter::default() };
    let told = audit::list(&cx, filter, None, Limit::MAX).await.unwrap().items;
    let [entry] = &told[..] else { panic!("it is told once: {told:?}") };
    assert_eq!(entry.target_id, ada.to_string());
    let before = entry.before.clone().unwrap();
    assert_eq!((&before["channel"], &before["from"]), (&json!("phone"), &json!(ada.get())));
    assert!(before["since"].is_string() && before["identity"].is_i64(), "{before}");
    assert!(!before.to_string().contains("3012345"), "the log names nobody");
}

async fn nobody_is_left_without_a_name_and_no_address_goes(bed: &Bed) {
    let cx = bed.cx().await;
    let visitor = who(&cx, &["anonymous_id=a", "custom:crm=1"]).await.lead_id;
    assert!(away(&cx, visitor, "custom:crm=1").await.unwrap());
    let last = away(&cx, visitor, "anonymous_id=a").await;
    assert!(matches!(last, Err(DetachError::Last(one)) if one == visitor), "{last:?}");
    let ada = who(&cx, &["email=ada@example.org", "user_id=ada"]).await.lead_id;
    let address = away(&cx, ada, "email=ada@example.org").await;
    assert!(matches!(address, Err(DetachError::Address)), "{address:?}");
    assert!(!away(&cx, visitor, "email=ada@example.org").await.unwrap(), "it is not his");
    assert_eq!(known_as(&cx, ada).await, ["email=ada@example.org", "user_id=ada"]);
    // By the very thing that goes.
    let whom = Whom::Identity(identity("user_id=ada"));
    assert!(detach(&cx, whom.clone(), identity("user_id=ada")).await.unwrap());
    let gone = detach(&cx, whom, identity("user_id=ada")).await;
    assert!(matches!(gone, Err(DetachError::Missing)), "{gone:?}");
    // He can be called otherwise now.
    assert_eq!(who(&cx, &["user_id=eva", "email=ada@example.org"]).await.lead_id, ada);
}

async fn whoever_was_merged_keeps_a_name_of_his_own(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = who(&cx, &["email=ada@example.org"]).await.lead_id;
    bed.clock.advance(1.minute());
    let cx_later = bed.cx().await;
    let visitor = who(&cx_later, &["anonymous_id=a", "custom:crm=1"]).await.lead_id;
    let merged = merge(&cx, ada, visitor).await.unwrap();
    assert!(away(&cx, ada, "custom:crm=1").await.unwrap());
    let last = away(&cx, ada, "anonymous_id=a").await;
    assert!(matches!(last, Err(DetachError::Last(one)) if one == visitor), "{last:?}");
    unmerge(&cx, merged.id).await.unwrap();
    assert_eq!(known_as(&cx, visitor).await, ["anonymous_id=a"]);
    assert_eq!(known_as(&cx, ada).await, ["email=ada@example.org"]);
}

/// The event is on one timeline, and the identity is nobody's or his on whose timeline it is. Whoever has it now is
/// another one.
async fn check_whole(cx: &Cx, (his, phone): (&Resolved, &str), event: &str) {
    let (owner, _) = told_as(cx, "shop", event).await.unwrap().unwrap();
    let holder = has(cx, phone).await;
    assert_ne!(holder, Some(his.lead_id), "{event}");
    assert!(owner.lead_id == his.lead_id || Some(owner.lead_id) == holder, "{event}");
    assert_eq!(known_as(cx, his.lead_id).await.len(), 1, "{event}");
    let mut told = ids(cx, Whom::Contact(his.lead_id)).await;
    if let Some(other) = holder {
        assert_eq!(known_as(cx, other).await, [phone]);
        told.extend(ids(cx, Whom::Contact(other)).await);
    }
    assert_eq!(told, [event], "it is told once");
    // And what comes next is whole, too.
    let next = format!("{event} next");
    again(cx, &told_of(cx, &next, phone)).await;
    let (owner, _) = told_as(cx, "shop", &next).await.unwrap().unwrap();
    assert_eq!(Some(owner.lead_id), has(cx, phone).await);
    assert_ne!(owner.lead_id, his.lead_id);
}

fn told_of(cx: &Cx, id: &str, phone: &str) -> LeadIngestion {
    told(cx, id, cx.now(), &[phone])
}

/// As a worker does when it met another one too often.
async fn again(cx: &Cx, event: &LeadIngestion) -> Ingested {
    loop {
        match ingest(cx, event.clone()).await {
            Ok(done) => return done,
            Err(IngestError::Store(StorageError::Relations(DatabaseError::Conflict))) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn an_identity_can_go_at_any_moment_of_an_event(bed: &Bed) {
    let cx = bed.cx().await;
    for place in 0..3 {
        let (email, phone) =
            (format!("email=p{place}@example.org"), format!("phone=+4930123{place}"));
        let his = who(&cx, &[&email, &phone]).await;
        let (operator, contact, what) = (cx.clone(), his.lead_id, phone.clone());
        let happens = move || -> BoxFuture<'static, ()> {
            let (operator, what) = (operator.clone(), what.clone());
            Box::pin(async move { assert!(away(&operator, contact, &what).await.unwrap()) })
        };
        let within = interrupted_at(bed, &cx, place, happens).await;
        let event = format!("e{place}");
        ingest(&within, told_of(&within, &event, &phone)).await.unwrap();
        // It may be over before so many calls.
        drop(away(&cx, contact, &phone).await);
        check_whole(&cx, (&his, &phone), &event).await;
    }
}

#[tokio::test]
async fn what_goes_while_two_nodes_bring_an_event_of_it_leaves_nothing_half() {
    let here = Bed::postgres().await;
    let beside = here.beside().await;
    let (cx, there) = (here.cx().await, beside.cx().await);
    for round in 0..12 {
        let (email, phone) =
            (format!("email=r{round}@example.org"), format!("phone=+49301230{round:02}"));
        let his = who(&cx, &[&email, &phone]).await;
        let event = format!("e{round}");
        let going = async {
            loop {
                match away(&there, his.lead_id, &phone).await {
                    Ok(gone) => return gone,
                    Err(DetachError::Store(StorageError::Relations(DatabaseError::Conflict))) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        };
        let (one, other) = (told_of(&cx, &event, &phone), told_of(&there, &event, &phone));
        let (_, _, gone) = join3(again(&cx, &one), again(&there, &other), going).await;
        assert!(gone);
        check_whole(&cx, (&his, &phone), &event).await;
    }
}
