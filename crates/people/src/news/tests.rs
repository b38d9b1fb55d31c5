//! Each change is announced once, in the commit that makes it true, if somebody wants to know.

use serde_json::Value;
use tidings_access::Cx;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};
use tidings_webhooks::{EventTypes, Targets, endpoints};

use crate::consent::subscriptions::{self, Resubscribe, Subscribe, Unsubscribe};
use crate::consent::{Act, By, Proof, Scope, Whom, audiences};
use crate::contacts::{self, Attributes, TagChange, Upsert};
use crate::import;
use crate::suppression::{self, Kind, Suppress};

/// Wants everything.
async fn listen(cx: &Cx) {
    let create = endpoints::Create {
        url: "http://127.0.0.1:9/".parse().unwrap(),
        description: None,
        event_types: EventTypes::All,
    };
    endpoints::create(cx, &Targets::new(true), create).await.unwrap();
}

/// What is on its way: the type and the data of each.
async fn told(cx: &Cx) -> Vec<String> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'webhook-fanout' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let told = rows.iter().map(|row| {
        let body: Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
        format!("{} {}", body["event_type"].as_str().unwrap(), body["data"])
    });
    told.collect()
}

fn ada(tags: &[&str]) -> Upsert {
    let tags = tags.iter().map(|tag| tag.parse().unwrap()).collect();
    Upsert {
        email: "Ada@Example.org".parse().unwrap(),
        first_name: None,
        attributes: Attributes::default(),
        tags: Some(TagChange::Replace(tags)),
    }
}

async fn a_contact_is_told_of_from_the_first_day_to_the_last(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let id = contacts::upsert(&cx, ada(&["a"])).await.unwrap().contact.id;
    // The same again is no change.
    contacts::upsert(&cx, ada(&["a"])).await.unwrap();
    contacts::upsert(&cx, ada(&["b"])).await.unwrap();
    let (email, id) = ("ada@example.org", id.get());
    assert_eq!(
        told(&cx).await,
        [
            format!(r#"contact.created {{"contact_id":{id},"email":"{email}"}}"#),
            format!(r#"contact.updated {{"contact_id":{id},"email":"{email}"}}"#),
        ]
    );
    contacts::erase(&cx, &email.parse().unwrap()).await.unwrap();
    contacts::erase(&cx, &email.parse().unwrap()).await.unwrap();
    let last = told(&cx).await;
    assert_eq!(last[2..], [format!(r#"contact.deleted {{"contact_id":{id}}}"#)]);
}

async fn a_suppression_is_told_once(bed: &Bed) {
    let cx = bed.cx().await;
    let id = contacts::upsert(&cx, ada(&[])).await.unwrap().contact.id;
    listen(&cx).await;
    let suppress = |at: &str| Suppress {
        email: "ada@example.org".parse().unwrap(),
        kind: Kind::Permanent,
        reason: "it bounced".parse().unwrap(),
        source: Some("event-1".to_owned()),
        note: None,
        at: at.parse().unwrap(),
    };
    suppression::suppress(&cx, suppress("2026-07-01T10:00:00Z")).await.unwrap();
    suppression::suppress(&cx, suppress("2026-07-01T11:00:00Z")).await.unwrap();
    suppression::suppress(&cx, suppress("2026-07-01T09:00:00Z")).await.unwrap();
    let told = told(&cx).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("email.suppressed"), "{told:?}");
    // By which an erasure that comes first is noticed.
    assert!(told[0].contains(&format!(r#""contact_id":{id}"#)), "{told:?}");
}

async fn leaving_and_coming_back_is_told(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let create = audiences::Create {
        slug: "news".parse().unwrap(),
        name: "News".parse().unwrap(),
        double_opt_in: false,
        confirm_template_key: None,
    };
    let audience = audiences::create(&cx, create).await.unwrap().id;
    let whom = || Whom::Email("ada@example.org".parse().unwrap());
    let act = || Act {
        by: By::Person,
        source: "a page".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let scope = Scope::Audience(audience);
    for _ in 0..2 {
        let confirmed = false;
        let cmd = Subscribe { whom: whom(), audience, client: None, confirmed, act: act() };
        subscriptions::subscribe(&cx, cmd).await.unwrap();
    }
    for _ in 0..2 {
        let cmd = Unsubscribe { whom: whom(), scope, act: act() };
        subscriptions::unsubscribe(&cx, cmd).await.unwrap();
    }
    let cmd = Resubscribe { whom: whom(), scope, act: act() };
    subscriptions::resubscribe(&cx, cmd).await.unwrap();
    let told = told(&cx).await;
    let types: Vec<_> = told.iter().filter_map(|one| one.split(' ').next()).collect();
    let expected =
        ["contact.created", "contact.subscribed", "contact.unsubscribed", "contact.resubscribed"];
    assert_eq!(types, expected);
    assert!(told[2].contains(&format!(r#""audience_id":{audience}"#)), "{told:?}");
}

/// As often as a file is read: who is new, who changed, and nobody else.
async fn a_file_is_told_of_person_by_person(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    contacts::upsert(&cx, ada(&["a"])).await.unwrap();
    let bob = Upsert { email: "bob@example.org".parse().unwrap(), ..ada(&["a"]) };
    contacts::upsert(&cx, bob).await.unwrap();
    let before = told(&cx).await.len();
    let file = "email,tags\nada@example.org,vip\nbob@example.org,a\neve@example.org,\n";
    for _ in 0..2 {
        let settings = import::Settings { source: "a fair".to_owned(), ..Default::default() };
        let file = std::io::Cursor::new(file.to_owned());
        import::run(&cx, file, settings, |_| ()).await.unwrap();
    }
    let told = told(&cx).await[before..].to_vec();
    let [eve, ada] = &told[..] else { panic!("{told:?}") };
    assert!(eve.starts_with("contact.created") && eve.contains("eve@example.org"), "{eve}");
    assert!(ada.starts_with("contact.updated") && ada.contains("ada@example.org"), "{ada}");
}

/// A transaction has room for a hundred writes, and the news of a change is one of them.
async fn a_large_file_is_told_of_as_well(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let file = |plan: &str| {
        let lines = (0..250).map(|number| format!("p{number}@example.org,{plan}\n"));
        std::io::Cursor::new(format!("email,plan\n{}", lines.collect::<String>()))
    };
    for plan in ["free", "pro"] {
        let settings = import::Settings { source: "a fair".to_owned(), ..Default::default() };
        import::run(&cx, file(plan), settings, |_| ()).await.unwrap();
    }
    let told = told(&cx).await;
    let of = |kind: &str| told.iter().filter(|one| one.starts_with(kind)).count();
    assert_eq!((of("contact.created"), of("contact.updated")), (250, 250));
}

async fn without_a_webhook_nothing_is_enqueued(bed: &Bed) {
    let cx = bed.cx().await;
    contacts::upsert(&cx, ada(&["a"])).await.unwrap();
    contacts::upsert(&cx, ada(&["b"])).await.unwrap();
    assert!(told(&cx).await.is_empty());
}

each_store!(
    a_contact_is_told_of_from_the_first_day_to_the_last,
    a_suppression_is_told_once,
    leaving_and_coming_back_is_told,
    a_file_is_told_of_person_by_person,
    a_large_file_is_told_of_as_well,
    without_a_webhook_nothing_is_enqueued,
);
