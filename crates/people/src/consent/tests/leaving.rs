//! Subscribing, leaving at each scope, and coming back.

use std::net::IpAddr;

use tidings_access::Cx;
use tidings_testbed::{Bed, each_store};

use super::{
    act, ada, audience, audited, because, come_back, email, is_marked, later, leave, log, logged,
    profile, subscribe,
};
use crate::consent::everything::{self, Bring, Came, Seen};
use crate::consent::proof::{Act, Proof};
use crate::consent::rules::Refusal;
use crate::consent::subscriptions::{
    self, ConsentError, Resubscribe, Subscribe, Subscription, Unsubscribe,
};
use crate::consent::{AudienceId, By, ContactId, Scope, Status, Whom};
use crate::{contacts, suppression};

each_store! {
    each_scope_twice_is_the_same_as_once,
    whoever_was_never_heard_of_can_leave,
    an_import_never_brings_back_what_was_taken_back,
    an_operator_brings_back_with_a_reason,
    the_first_date_of_leaving_stays,
    who_comes_back_to_one_list_has_not_come_back_to_the_others,
    coming_back_to_everything_brings_all_that_was_there,
    coming_back_lifts_no_suppression,
    who_left_an_audience_can_come_back_for_one_client,
    every_real_change_has_its_proof,
    what_died_half_way_is_finished_by_a_repeat,
    who_comes_back_half_way_stays_blocked,
    who_leaves_again_while_he_comes_back_has_left,
    one_address_is_one_person_however_it_is_written,
    what_is_not_there_is_named,
    two_at_once_subscribe_once,
    who_left_and_was_erased_comes_back_only_by_himself,
}

async fn all(cx: &Cx) -> Vec<Subscription> {
    subscriptions::list(cx, ada()).await.unwrap().unwrap_or_default()
}

async fn status(cx: &Cx) -> Vec<Status> {
    all(cx).await.into_iter().map(|one| one.status).collect()
}

async fn each_scope_twice_is_the_same_as_once(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    let shop = bed.shop(&cx).await.id;
    let first = subscribe(&cx, &news, Some(shop), By::Person).await;
    assert!(first.changed && first.to_confirm.is_none());
    assert!(!subscribe(&later(bed).await, &news, Some(shop), By::Person).await.changed);
    for scope in [Scope::Client(news.id, shop), Scope::Audience(news.id), Scope::Global] {
        let cx = later(bed).await;
        assert!(leave(&cx, scope).await.changed, "{scope:?}");
        let (before, audits) = (all(&cx).await, audited(&cx).await);
        let again = leave(&later(bed).await, scope).await;
        assert!(!again.changed, "{scope:?}");
        assert_eq!((all(&cx).await, audited(&cx).await), (before, audits), "{scope:?}");
    }
    assert_eq!(status(&cx).await, [Status::Unsubscribed, Status::Unsubscribed]);
    assert!(is_marked(&cx).await);
    let told = logged(&cx).await;
    assert_eq!(
        told,
        [
            "unsubscribed everything",
            "unsubscribed news",
            "unsubscribed news/shop",
            "subscribed news/shop"
        ]
    );
    assert_eq!(audited(&cx).await, 4);
}

async fn whoever_was_never_heard_of_can_leave(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    assert!(leave(&cx, Scope::Audience(news.id)).await.changed);
    assert_eq!(status(&cx).await, [Status::Unsubscribed]);
    assert!(leave(&cx, Scope::Global).await.left_everything);
    let profile = profile(&cx).await.unwrap();
    assert_eq!(profile.text("email"), Some("ada@example.org"));
    assert_eq!(profile.text("createdAt"), Some("2026-07-01T12:00:00.000Z"));
}

async fn an_import_never_brings_back_what_was_taken_back(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, offers) = (audience(&cx, "news", false).await, audience(&cx, "offers", false).await);
    let shop = bed.shop(&cx).await.id;
    subscribe(&cx, &news, Some(shop), By::Import).await;
    leave(&cx, Scope::Client(news.id, shop)).await;
    let cx = later(bed).await;
    let kept = subscribe(&cx, &news, Some(shop), By::Import).await;
    assert!(!kept.changed);
    assert_eq!(kept.subscription.unwrap().status, Status::Unsubscribed);
    // With the confirmation that an import may claim, too.
    let whom = ada();
    let cmd = Subscribe {
        whom,
        audience: news.id,
        client: Some(shop),
        confirmed: true,
        act: because(By::Import, "synchronised"),
    };
    assert!(!subscriptions::subscribe(&cx, cmd).await.unwrap().changed);

    leave(&cx, Scope::Audience(offers.id)).await;
    let kept = subscribe(&later(bed).await, &offers, Some(shop), By::Import).await;
    assert_eq!((kept.changed, kept.subscription), (false, None));
    leave(&cx, Scope::Global).await;
    let third = audience(&cx, "third", false).await;
    let kept = subscribe(&later(bed).await, &third, None, By::Import).await;
    assert_eq!((kept.changed, kept.left_everything), (false, true));
    for scope in [Scope::Global, Scope::Client(news.id, shop)] {
        let cmd = Resubscribe { whom: ada(), scope, act: because(By::Import, "synchronised") };
        let refused = subscriptions::resubscribe(&cx, cmd).await.unwrap_err();
        assert!(matches!(refused, ConsentError::Refused(Refusal::NotByImport)), "{refused:?}");
    }
    assert!(is_marked(&cx).await);
}

async fn an_operator_brings_back_with_a_reason(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    leave(&cx, Scope::Audience(news.id)).await;
    leave(&cx, Scope::Global).await;
    let cx = later(bed).await;
    let cmd =
        |act| Subscribe { whom: ada(), audience: news.id, client: None, confirmed: false, act };
    let refused = subscriptions::subscribe(&cx, cmd(act(By::Operator))).await.unwrap_err();
    assert!(matches!(refused, ConsentError::Refused(Refusal::NeedsReason)), "{refused:?}");
    let back = subscriptions::subscribe(&cx, cmd(because(By::Operator, "he wrote to us"))).await;
    let back = back.unwrap();
    assert_eq!(back.subscription.unwrap().status, Status::Subscribed);
    assert!(back.left_everything, "a list is not everything");
    let cmd = |act| Resubscribe { whom: ada(), scope: Scope::Global, act };
    assert!(subscriptions::resubscribe(&cx, cmd(act(By::Operator))).await.is_err());
    let back = subscriptions::resubscribe(&cx, cmd(because(By::Operator, "he wrote to us"))).await;
    assert!(!back.unwrap().left_everything);
    assert!(!is_marked(&cx).await);
    assert_eq!(log(&cx).await[0].reason.as_deref(), Some("he wrote to us"));
}

async fn the_first_date_of_leaving_stays(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    for _ in 0..2 {
        let cx = later(bed).await;
        leave(&cx, Scope::Audience(news.id)).await;
        leave(&cx, Scope::Global).await;
    }
    let left = all(&cx).await.remove(0);
    assert_eq!(left.unsubscribed_at.unwrap().to_string(), "2026-07-01T12:01:00Z");
    assert_eq!(left.unsubscribe_reason.as_deref(), Some("too much mail"));
    let sql = "SELECT unsubscribed_at FROM leads";
    let at = cx.database().read(move |tx| tx.query(sql, &[])?[0].time(0)).await.unwrap();
    assert_eq!(at.to_string(), "2026-07-01T12:01:00Z");
}

async fn who_comes_back_to_one_list_has_not_come_back_to_the_others(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, offers) = (audience(&cx, "news", false).await, audience(&cx, "offers", false).await);
    subscribe(&cx, &news, None, By::Person).await;
    subscribe(&cx, &offers, None, By::Person).await;
    leave(&later(bed).await, Scope::Global).await;
    let cx = later(bed).await;
    let back = subscribe(&cx, &news, None, By::Person).await;
    assert!(back.changed && !back.left_everything);
    assert_eq!(status(&cx).await, [Status::Subscribed, Status::Unsubscribed]);
    assert!(!is_marked(&cx).await);
    let told = logged(&cx).await;
    assert_eq!(told[..2], ["resubscribed everything", "unsubscribed offers"]);
}

async fn coming_back_to_everything_brings_all_that_was_there(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    subscribe(&cx, &news, None, By::Person).await;
    leave(&cx, Scope::Global).await;
    assert!(come_back(&later(bed).await, Scope::Global).await.changed);
    assert_eq!(status(&cx).await, [Status::Subscribed]);
    assert!(!come_back(&later(bed).await, Scope::Global).await.changed);
    assert!(!is_marked(&cx).await);
}

async fn coming_back_lifts_no_suppression(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    subscribe(&cx, &news, None, By::Person).await;
    let bounce = suppression::Suppress {
        email: email("ada@example.org"),
        kind: suppression::Kind::Permanent,
        reason: suppression::Reason::clipped("General"),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, bounce).await.unwrap();
    for scope in [Scope::Global, Scope::Audience(news.id)] {
        leave(&later(bed).await, scope).await;
        come_back(&later(bed).await, scope).await;
        let status = suppression::status(&cx, &email("ada@example.org")).await.unwrap();
        assert!(status.suppression.is_some(), "{scope:?}");
        assert_eq!(profile(&cx).await.unwrap().get("suppressed"), Some(&true.into()), "{scope:?}");
    }
}

async fn who_left_an_audience_can_come_back_for_one_client(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    let shop = bed.shop(&cx).await.id;
    subscribe(&cx, &news, Some(shop), By::Person).await;
    leave(&later(bed).await, Scope::Audience(news.id)).await;
    let cx = later(bed).await;
    let back = subscribe(&cx, &news, Some(shop), By::Person).await;
    assert!(back.changed);
    assert_eq!(logged(&cx).await[0], "resubscribed news/shop");
    assert!(!subscribe(&later(bed).await, &news, Some(shop), By::Person).await.changed);
    leave(&later(bed).await, Scope::Client(news.id, shop)).await;
    assert!(come_back(&later(bed).await, Scope::Client(news.id, shop)).await.changed);
    assert_eq!(status(&cx).await, [Status::Subscribed, Status::Unsubscribed]);
}

async fn every_real_change_has_its_proof(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    let proof = Proof {
        ip: Some("2001:db8::1".parse::<IpAddr>().unwrap()),
        user_agent: Some(format!("Browser\0{}", "x".repeat(10_000))),
        text_version: Some("2026-06".parse().unwrap()),
    };
    let act = Act { proof, ..because(By::Person, "wants the news") };
    let cmd = Subscribe { whom: ada(), audience: news.id, client: None, confirmed: false, act };
    subscriptions::subscribe(&cx, cmd).await.unwrap();
    let entry = log(&cx).await.remove(0);
    assert_eq!(entry.ip.as_deref(), Some("2001:db8::1"));
    assert_eq!(entry.user_agent.unwrap().len(), 500);
    assert_eq!(entry.text_version.as_deref(), Some("2026-06"));
    assert_eq!((entry.by, entry.source.as_str()), (By::Person, "form"));
    assert_eq!(entry.reason.as_deref(), Some("wants the news"));
    assert_eq!(entry.happened_at, cx.now());
}

/// The process dies after the relations and before the item.
async fn what_died_half_way_is_finished_by_a_repeat(bed: &Bed) {
    let cx = bed.cx().await;
    let contact = leave(&cx, Scope::Global).await.contact;
    let key = crate::keys::profile(&email("ada@example.org"));
    let items = cx.items().await.unwrap();
    items.delete(tidings_kernel::Delete::new(&tidings_kernel::tables::MAIN, key)).await.unwrap();
    // The link in a mail knows the contact, not the address.
    let whom = Whom::Contact(contact);
    let cmd = Unsubscribe { whom, scope: Scope::Global, act: act(By::Person) };
    assert!(!subscriptions::unsubscribe(&cx, cmd).await.unwrap().changed);
    assert!(is_marked(&cx).await);
    assert_eq!(logged(&cx).await.len(), 1);
}

/// The process dies after the item and before the relation.
async fn who_comes_back_half_way_stays_blocked(bed: &Bed) {
    let cx = bed.cx().await;
    leave(&cx, Scope::Global).await;
    let within = cx.clone();
    let gate = cx.database().read(move |tx| suppression::gate(tx, &within)).await.unwrap();
    let addresses = [email("ada@example.org")];
    crate::consent::everything::unmark_left(&cx, &gate, &addresses).await.unwrap();
    let sql = "SELECT unsubscribed_at FROM leads";
    let left = cx.database().read(move |tx| tx.query(sql, &[])?[0].optional_time(0)).await.unwrap();
    assert!(left.is_some());
    assert!(come_back(&cx, Scope::Global).await.changed);
    assert!(!come_back(&cx, Scope::Global).await.changed);
}

async fn who_leaves_again_while_he_comes_back_has_left(bed: &Bed) {
    let cx = bed.cx().await;
    let contact = leave(&cx, Scope::Global).await.contact;
    // What a slow request has seen of it, which goes on only after all this.
    let slow = Seen { marked: true, left_at: Some(cx.now()), named: None };
    come_back(&later(bed).await, Scope::Global).await;
    leave(&later(bed).await, Scope::Global).await;
    let back = |seen| everything::come_back(&cx, contact, (Bring::All, seen), act(By::Person));
    assert_eq!(back(slow).await.unwrap(), Came::NotBack);
    // Nor if only the items said that he had left.
    let marked = Seen { marked: true, left_at: None, named: None };
    assert_eq!(back(marked).await.unwrap(), Came::NotBack);
    let sql = "SELECT unsubscribed_at FROM leads";
    let left = cx.database().read(move |tx| tx.query(sql, &[])?[0].optional_time(0)).await.unwrap();
    assert!(left.is_some() && is_marked(&cx).await);
    assert!(come_back(&later(bed).await, Scope::Global).await.changed);
}

async fn one_address_is_one_person_however_it_is_written(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    let first = subscribe(&cx, &news, None, By::Person).await;
    let whom = Whom::Email(email(" ADA@Example.org "));
    let cmd = Unsubscribe { whom, scope: Scope::Audience(news.id), act: act(By::Person) };
    let left = subscriptions::unsubscribe(&cx, cmd).await.unwrap();
    assert_eq!(left.contact, first.contact);
}

async fn what_is_not_there_is_named(bed: &Bed) {
    let cx = bed.cx().await;
    let other = bed.make_workspace("other").await;
    let (theirs, client) = (audience(&other, "news", false).await, bed.shop(&other).await.id);
    let news = audience(&cx, "news", false).await;
    let act = act(By::Person);
    let mut cmd = Subscribe {
        whom: ada(),
        audience: theirs.id,
        client: None,
        confirmed: false,
        act: act.clone(),
    };
    let missing = subscriptions::subscribe(&cx, cmd.clone()).await.unwrap_err();
    assert!(matches!(missing, ConsentError::NoAudience(_)), "{missing:?}");
    (cmd.audience, cmd.client) = (news.id, Some(client));
    let missing = subscriptions::subscribe(&cx, cmd).await.unwrap_err();
    assert!(matches!(missing, ConsentError::NoClient(_)), "{missing:?}");
    let unknown = AudienceId::from(999);
    let scopes = [Scope::Audience(unknown), Scope::Client(news.id, client)];
    for scope in scopes {
        let cmd = Unsubscribe { whom: ada(), scope, act: act.clone() };
        assert!(subscriptions::unsubscribe(&cx, cmd).await.is_err(), "{scope:?}");
    }
    let whom = Whom::Contact(ContactId::from(999));
    let cmd = Unsubscribe { whom, scope: Scope::Global, act };
    let missing = subscriptions::unsubscribe(&cx, cmd).await.unwrap_err();
    assert!(matches!(missing, ConsentError::NoContact), "{missing:?}");
    assert_eq!(subscriptions::list(&cx, ada()).await.unwrap(), None, "nothing half-written");
}

async fn two_at_once_subscribe_once(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    let (one, two) = tokio::join!(
        subscribe(&cx, &news, None, By::Person),
        subscribe(&cx, &news, None, By::Person)
    );
    assert_eq!(i32::from(one.changed) + i32::from(two.changed), 1);
    assert_eq!(one.contact, two.contact);
    assert_eq!(logged(&cx).await, ["subscribed news"]);
}

async fn who_left_and_was_erased_comes_back_only_by_himself(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    leave(&cx, Scope::Global).await;
    contacts::erase(&cx, &email("ada@example.org")).await.unwrap();
    let cx = later(bed).await;
    let imported = subscribe(&cx, &news, None, By::Import).await;
    assert_eq!((imported.subscription, imported.left_everything), (None, true));
    let status = suppression::status(&cx, &email("ada@example.org")).await.unwrap();
    assert!(status.unsubscribed_before_erasure);
    let back = subscribe(&cx, &news, None, By::Person).await;
    assert!(back.changed && !back.left_everything);
    let status = suppression::status(&cx, &email("ada@example.org")).await.unwrap();
    assert!(!status.unsubscribed_before_erasure);
    assert_eq!(logged(&cx).await, ["resubscribed everything", "subscribed news"]);
}
