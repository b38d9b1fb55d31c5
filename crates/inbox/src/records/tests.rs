//! Every record comes back from its item as it went in, and looks as seed 001 has it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tidings_kernel::{Item, Value, Workspace};

use super::{
    Accepted, Audience, CategoryStats, Configuration, Content, Expiring, Marks, Message, Own, Post,
    Public, Receipt, State, Stored, TenantSettings, UserStats, Watermark,
};
use crate::keys::{InboxKey, UserId};

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn app() -> InboxKey {
    "app".parse().unwrap()
}

fn ada() -> UserId {
    "ada".parse().unwrap()
}

fn message() -> Message {
    Message {
        id: "0GV8YLWQ000000001".parse().unwrap(),
        host_system_id: Some("order/1".to_owned()),
        sender: "shop".to_owned(),
        label: Some("Customers".to_owned()),
        received: "2026-07-01T12:00:00.123Z".parse().unwrap(),
        delivered: "2026-07-01T12:00:00.456Z".parse().unwrap(),
        expires: "2026-07-31T12:00:00Z".parse().unwrap(),
        category: Some("news".parse().unwrap()),
        content: Some(Content {
            title: "Hello".to_owned(),
            body: json!({"text": "There is news", "$ss": [1.5]}),
            cta_uri: Some("/news".to_owned()),
        }),
    }
}

fn marks() -> Marks {
    let at = "2026-07-01T13:00:00Z".parse().unwrap();
    Marks { read: Some(at), seen: Some(at), archived: Some(at), unread: Some(3) }
}

fn expiring(second: i64) -> Expiring {
    Expiring { second, sort: format!("m#0GV8YLW{second}") }
}

fn shown(item: &Item) -> String {
    serde_json::to_string(item).unwrap()
}

#[test]
fn messages_and_receipts_come_back() {
    let own = Own { message: message(), uid: ada(), marks: marks() };
    let item = own.to_item(&acme(), &app());
    insta::assert_snapshot!(shown(&item));
    assert_eq!(Stored::read(&item).unwrap(), Stored::Own(own));

    let public = Public { message: message(), seq: 7, redacted: None };
    let item = public.to_item(&acme(), &app());
    insta::assert_snapshot!(shown(&item));
    assert_eq!(Stored::read(&item).unwrap(), Stored::Public(public));

    let gone = Message { content: None, ..message() };
    let public = Public { message: gone, seq: 7, redacted: Some(2) };
    let item = public.to_item(&acme(), &app());
    assert_eq!(Stored::read(&item).unwrap(), Stored::Public(public));

    let id = "0GV8YLWQ000000001".parse().unwrap();
    let expires = "2026-07-31T12:00:00Z".parse().unwrap();
    let category = Some("news".parse().unwrap());
    let receipt = Receipt { id, category, expires, seq: 7, marks: marks() };
    let item = receipt.to_item(&acme(), &app(), &ada());
    insta::assert_snapshot!(shown(&item));
    assert_eq!(Stored::read(&item).unwrap(), Stored::Receipt(receipt));
}

#[test]
fn counts_come_back() {
    let id = Some("0GV8YLWQ000000001".parse().unwrap());
    let at = Some("2026-07-01T13:00:00Z".parse().unwrap());
    let mark = Watermark { n: 2, id, seq: 7, at };
    let stats = UserStats {
        published: 5,
        read: 3,
        rev: 9,
        marks: 2,
        all: Some(mark.clone()),
        came: 1_767_225_600_000,
        forgotten: Some(1_767_225_599_000),
        since: Some(0),
        cleaned: 1,
        soonest: Some(1_790_000_000),
        horizon: Some(1_795_000_000),
        early: BTreeSet::from([expiring(1_791_000_000), expiring(1_792_000_000)]),
        settled: 1_780_000_000,
    };
    let item = stats.to_item(&acme(), &app(), &ada());
    insta::assert_snapshot!(shown(&item));
    assert_eq!(UserStats::read(Some(&item)).unwrap(), stats);
    let category = CategoryStats { published: 1, read: 1, mark: Some(mark) };
    let item = category.to_item(&acme(), &app(), &ada(), &"news".parse().unwrap());
    assert_eq!(CategoryStats::read(Some(&item)).unwrap(), category);
    let nothing = Watermark { n: 1, id: None, seq: 0, at: None };
    let stats = UserStats { all: Some(nothing), ..UserStats::default() };
    let item = stats.to_item(&acme(), &app(), &ada());
    assert_eq!(UserStats::read(Some(&item)).unwrap(), stats);
}

#[test]
fn lists_of_what_expires_next_come_back() {
    // Of those of the same length the order as text is that of the seconds; nobody counts on it.
    let all = BTreeSet::from([expiring(999_999_999), expiring(1_791_000_000)]);
    let item = Expiring::to_list("t#acmeU#ada#app", &all).unwrap();
    insta::assert_snapshot!(shown(&item));
    assert_eq!(Expiring::read_list(&item).unwrap(), all);
    assert_eq!(Expiring::to_list("t#acmeU#ada#app", &BTreeSet::new()), None);
    for spoilt in ["1791000000", "soon m#0GV8YLWQ000000001", ""] {
        let item = item.clone().with("expiring", Value::texts([spoilt]));
        assert!(Expiring::read_list(&item).is_err(), "{spoilt}");
    }
    let (mut bare, text) = (item.clone(), item.with("expiring", "1791000000 m#0GV8YLWQ000000001"));
    bare.remove("expiring");
    assert!(Expiring::read_list(&bare).is_err());
    assert!(Expiring::read_list(&text).is_err());
}

#[test]
fn settings_come_back() {
    let settings = TenantSettings {
        title: "Acme".to_owned(),
        ttl: Some("90d".parse().unwrap()),
        allowed_origins: vec!["https://app.example.org".to_owned()],
        look_back: Some("3d".parse().unwrap()),
        uid: "shop".to_owned(),
        rev: 4,
    };
    let item = settings.to_item(&acme());
    assert_eq!(TenantSettings::read(Some(&item)).unwrap(), settings);
    assert_eq!(TenantSettings::read(None).unwrap(), TenantSettings::default());
    let ttl = BTreeMap::from([("default".to_owned(), "7d".parse().unwrap())]);
    let (title, description) = ("App".to_owned(), "In the app".to_owned());
    let configuration = Configuration { title, description, ttl, uid: "shop".to_owned(), rev: 1 };
    let item = configuration.to_item(&acme(), &app());
    insta::assert_snapshot!(shown(&item));
    assert_eq!(Configuration::read(&item).unwrap(), (app(), configuration));
}

#[test]
fn posts_come_back() {
    let post = Post {
        id: "0GV8YLWQ000000001".parse().unwrap(),
        sender: "shop".to_owned(),
        audience: Audience::Users,
        label: None,
        category: Some("news".parse().unwrap()),
        host_system_id: Some("order/1".to_owned()),
        fingerprint: "abc".to_owned(),
        recipients: 2,
        state: State::Scheduled,
        delivered: 0,
        redacted: 0,
        content: message().content,
        accepted_at: "2026-07-01T12:00:00.123Z".parse().unwrap(),
        send_at: Some("2026-07-02T12:00:00Z".parse().unwrap()),
        expires: "2026-07-31T12:00:00Z".parse().unwrap(),
        kept_until: "2026-07-31T12:00:00Z".parse().unwrap(),
    };
    let item = post.to_item(&acme(), &app());
    assert_eq!(Post::read(&item).unwrap(), post);
    let page = post.recipients_item(&acme(), &app(), 1, &[ada()]);
    assert_eq!(Post::read_recipients(&page).unwrap(), [ada()]);
    let accepted = post.accepted_item(&acme(), &app()).unwrap();
    let (id, fingerprint) = (post.id.clone(), post.fingerprint.clone());
    assert_eq!(Accepted::read(&accepted).unwrap(), Accepted { id, fingerprint });
}

#[test]
fn a_read_all_covers_what_was_there_unless_it_was_marked_unread_after_it() {
    let mark = |n| Watermark { n, id: None, seq: 5, at: None };
    let (first, second) = (mark(1), mark(2));
    let unread = |upto| Marks { unread: Some(upto), ..Marks::default() };
    assert!(!Marks::default().is_read([]));
    assert!(Marks::default().is_read([&first]));
    assert!(!unread(1).is_read([&first]));
    assert!(unread(1).is_read([&first, &second]));
    assert!(!unread(2).is_read([&first, &second]));
    let stats = UserStats { all: Some(first), ..UserStats::default() };
    assert_eq!(stats.covering_seq(None, 5).count(), 1);
    assert_eq!(stats.covering_seq(None, 6).count(), 0);
    assert_eq!(stats.covering_id(None, &"0GV8YLWQ000000001".parse().unwrap()).count(), 0);
}
