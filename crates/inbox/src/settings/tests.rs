//! Settings as a tenant makes them, on every store.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::ToSpan as _;
use tidings_sql::Heard;
use tidings_testbed::{Bed, each_store};

use super::kept::TOPIC;
use super::{
    InForce, Kept, NewConfiguration, NewSettings, SettingsError, delete_inbox, in_force, inbox,
    inboxes, put_inbox, put_tenant, tenant,
};
use crate::Inbox;
use crate::keys::InboxKey;

each_store!(
    settings_are_replaced_and_hold_at_once,
    inboxes_are_configured_listed_and_forgotten,
    everything_that_is_wrong_is_told_at_once,
    settings_are_of_one_tenant,
    two_who_change_them_at_once_both_do,
);

fn app() -> InboxKey {
    "app".parse().unwrap()
}

fn settings(title: &str) -> NewSettings {
    NewSettings {
        title: title.to_owned(),
        ttl: Some("90d".to_owned()),
        allowed_origins: vec!["https://App.example.org/".to_owned(), "*".to_owned()],
        look_back: Some("3d".to_owned()),
        uid: "shop".to_owned(),
    }
}

fn configuration(times: &[(&str, &str)]) -> NewConfiguration {
    let times = times.iter().map(|(name, time)| ((*name).to_owned(), (*time).to_owned()));
    let (title, uid) = ("App".to_owned(), "shop".to_owned());
    NewConfiguration { title, description: String::new(), ttl: times.collect(), uid }
}

async fn settings_are_replaced_and_hold_at_once(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(in_force(&cx, &app()).await.unwrap(), InForce::default());
    assert_eq!(tenant(&cx).await.unwrap().look_back().to_string(), "7d");
    let made = put_tenant(&cx, settings("Acme")).await.unwrap();
    assert_eq!(made.allowed_origins, ["https://app.example.org", "*"]);
    assert_eq!(tenant(&cx).await.unwrap(), made);
    put_inbox(&cx, &app(), configuration(&[("default", "7d"), ("news", "30m")])).await.unwrap();
    let now = in_force(&cx, &app()).await.unwrap();
    let of = |category: &str| now.ttl(Some(&category.parse().unwrap())).to_string();
    assert_eq!(
        (of("news"), of("other"), now.ttl(None).to_string()),
        ("30m".into(), "7d".into(), "7d".into())
    );
    delete_inbox(&cx, &app()).await.unwrap();
    assert_eq!(in_force(&cx, &app()).await.unwrap().ttl(None).to_string(), "90d");
    let again = put_tenant(&cx, NewSettings::default()).await.unwrap();
    assert_eq!((again.rev, again.ttl), (2, None));
    assert_eq!(in_force(&cx, &app()).await.unwrap().ttl(None).to_string(), "30d");
}

async fn inboxes_are_configured_listed_and_forgotten(bed: &Bed) {
    let cx = bed.cx().await;
    for name in ["a", "b", "c"] {
        put_inbox(&cx, &name.parse().unwrap(), configuration(&[])).await.unwrap();
    }
    let first = inboxes(&cx, 2, None).await.unwrap();
    let rest = inboxes(&cx, 2, first.next.clone()).await.unwrap();
    let names = |page: &super::InboxPage| {
        page.inboxes.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((names(&first), names(&rest)), (vec!["a".into(), "b".into()], vec!["c".to_owned()]));
    assert!(delete_inbox(&cx, &"b".parse().unwrap()).await.unwrap());
    assert!(!delete_inbox(&cx, &"b".parse().unwrap()).await.unwrap());
    assert_eq!(inbox(&cx, &"b".parse().unwrap()).await.unwrap(), None);
}

async fn everything_that_is_wrong_is_told_at_once(bed: &Bed) {
    let cx = bed.cx().await;
    let bad = NewSettings {
        title: "x".repeat(201),
        ttl: Some("0d".to_owned()),
        look_back: Some("1000d".to_owned()),
        allowed_origins: vec![
            "https://a.example".to_owned(),
            "https://a.example/path".to_owned(),
            "app.example".to_owned(),
            "javascript:alert(1)".to_owned(),
        ],
        uid: String::new(),
    };
    let Err(SettingsError::Invalid(wrongs)) = put_tenant(&cx, bad).await else { panic!() };
    let fields: Vec<_> = wrongs.iter().map(|wrong| wrong.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "title",
            "ttl",
            "look_back",
            "allowed_origins[1]",
            "allowed_origins[2]",
            "allowed_origins[3]"
        ]
    );
    let bad = NewConfiguration {
        title: "a\u{7}".to_owned(),
        description: "x".repeat(2_001),
        ttl: BTreeMap::from([
            ("a b".to_owned(), "1d".to_owned()),
            ("news".to_owned(), "1h".to_owned()),
        ]),
        uid: String::new(),
    };
    let Err(SettingsError::Invalid(wrongs)) = put_inbox(&cx, &app(), bad).await else { panic!() };
    let fields: Vec<_> = wrongs.iter().map(|wrong| wrong.field.as_str()).collect();
    assert_eq!(fields, ["title", "description", "ttl.a b", "ttl.news"]);
    assert_eq!(in_force(&cx, &app()).await.unwrap(), InForce::default());
}

async fn settings_are_of_one_tenant(bed: &Bed) {
    let (acme, other) = (bed.cx().await, bed.make_workspace("other").await);
    put_tenant(&acme, settings("Acme")).await.unwrap();
    put_inbox(&acme, &app(), configuration(&[("default", "1d")])).await.unwrap();
    assert_eq!(in_force(&other, &app()).await.unwrap(), InForce::default());
    assert_eq!(inboxes(&other, 10, None).await.unwrap().inboxes, []);
    assert!(!delete_inbox(&other, &app()).await.unwrap());
    assert!(inbox(&acme, &app()).await.unwrap().is_some());
}

async fn two_who_change_them_at_once_both_do(bed: &Bed) {
    let cx = bed.cx().await;
    let (one, other) =
        tokio::join!(put_tenant(&cx, settings("one")), put_tenant(&cx, settings("other")),);
    let (one, other) = (one.unwrap(), other.unwrap());
    let now = tenant(&cx).await.unwrap();
    assert_eq!(now, if one.rev > other.rev { one } else { other });
    assert_eq!(now.rev, 2);
}

#[tokio::test]
async fn what_one_node_sets_is_forgotten_by_another() {
    let bed = Bed::postgres().await;
    let there = bed.beside().await;
    let theirs = Inbox::between_nodes(there.access.database(), 10);
    let mut heard = there.access.database().hear(TOPIC);
    // When it begins to listen it says so, and has missed what was said before.
    assert_eq!(heard.recv().await.unwrap(), Heard::Missed);
    // Words of all who test on this server are heard here: no other test has a workspace of this name.
    let name = "told-once-kept";
    let (cx, there) = (bed.make_workspace(name).await, there.inside(name).await);
    let allowed = async || theirs.settings.tenant(&there).await.unwrap().allowed_origins.clone();
    assert!(allowed().await.is_empty());
    put_tenant(&cx, settings("One")).await.unwrap();
    // The clock stands still, so what is kept gets no older.
    while heard.recv().await.unwrap() != Heard::Word(name.into()) {}
    assert_eq!(allowed().await.len(), 2);
}

#[tokio::test]
async fn settings_are_kept_for_two_seconds_where_nobody_tells() {
    let bed = Bed::memory().await;
    let inbox = Inbox::new();
    let allowed = async || {
        let settings = inbox.settings.tenant(&bed.cx().await).await.unwrap();
        settings.allowed_origins.len()
    };
    assert_eq!(allowed().await, 0);
    put_tenant(&bed.cx().await, settings("One")).await.unwrap();
    bed.clock.advance(1.second());
    assert_eq!(allowed().await, 0, "as another process would see it");
    bed.clock.advance(1.second());
    assert_eq!(allowed().await, 2);
    put_tenant(&bed.cx().await, NewSettings::default()).await.unwrap();
    inbox.settings.forget(bed.cx().await.workspace());
    assert_eq!(allowed().await, 0, "as on the node that has changed them");
}

#[tokio::test]
async fn what_was_read_before_they_were_changed_is_not_kept() {
    let bed = Bed::memory().await;
    let (kept, cx) = (Kept::default(), bed.cx().await);
    put_tenant(&cx, settings("One")).await.unwrap();
    let ticket = kept.known(&cx).unwrap_err();
    let read = Arc::new(tenant(&cx).await.unwrap());
    // Between the reading and the keeping.
    put_tenant(&cx, NewSettings::default()).await.unwrap();
    kept.forget(cx.workspace());
    kept.keep(&cx, &ticket, &read);
    assert!(kept.tenant(&cx).await.unwrap().allowed_origins.is_empty());
    assert!(kept.known(&cx).is_ok(), "what is read now is kept");
}

#[tokio::test]
async fn what_was_read_before_another_node_told_is_not_kept() {
    let bed = Bed::postgres().await;
    let there = bed.beside().await;
    let theirs = Kept::between_nodes(there.access.database());
    let mut heard = there.access.database().hear(TOPIC);
    assert_eq!(heard.recv().await.unwrap(), Heard::Missed);
    let name = "told-while-read"; // of no other test, as above
    let (cx, there) = (bed.make_workspace(name).await, there.inside(name).await);
    let ticket = theirs.known(&there).unwrap_err();
    let read = Arc::new(tenant(&there).await.unwrap());
    put_tenant(&cx, settings("One")).await.unwrap();
    while heard.recv().await.unwrap() != Heard::Word(name.into()) {}
    // Somebody else has heard it while this one was reading.
    assert!(theirs.known(&there).is_err());
    theirs.keep(&there, &ticket, &read);
    assert_eq!(theirs.tenant(&there).await.unwrap().allowed_origins.len(), 2);
}
