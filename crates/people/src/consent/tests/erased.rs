//! What somebody had taken back stays taken back when he is erased and comes again, however he comes.

use std::io::Cursor;

use tidings_access::Cx;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{act, ada, audience, because, email, leave, logged, subscribe, topic};
use crate::consent::audiences::Audience;
use crate::consent::preferences::{self, Switch, SwitchError};
use crate::consent::rules::Refusal;
use crate::consent::subscriptions::{self, ConsentError, Subscribe};
use crate::consent::{By, Scope, Status};
use crate::contacts::{self, Attributes, Upsert};
use crate::import;

each_store!(
    an_audience_that_was_left_is_left_after_an_import,
    an_audience_that_was_left_is_left_after_an_upsert_and_a_subscription,
    the_person_himself_comes_back,
    what_was_never_left_is_not_left_afterwards,
    every_address_of_the_person_is_remembered,
    it_outlives_one_erasure_after_the_other,
    whoever_switched_a_topic_on_again_is_not_switched_off,
    nobody_else_is_meant,
);

async fn upsert(cx: &Cx, address: &str) {
    let cmd = Upsert {
        email: email(address),
        first_name: None,
        attributes: Attributes::default(),
        tags: None,
    };
    contacts::upsert(cx, cmd).await.unwrap();
}

async fn switch(cx: &Cx, on: bool, by: By) -> Result<(), SwitchError> {
    let topics = vec![("tips".parse().unwrap(), on)];
    preferences::switch(cx, Switch { whom: ada(), topics, act: act(by) }).await.map(drop)
}

/// Has left the audience, the shop's part of another one, and a topic; and is erased.
async fn gone(bed: &Bed, cx: &Cx) -> (Audience, Audience) {
    let (news, offers) = (audience(cx, "news", false).await, audience(cx, "offers", false).await);
    topic(cx, "tips").await;
    let shop = bed.shop(cx).await.id;
    upsert(cx, "ada@example.org").await;
    leave(cx, Scope::Audience(news.id)).await;
    leave(cx, Scope::Client(offers.id, shop)).await;
    switch(cx, false, By::Person).await.unwrap();
    erase(cx).await;
    (news, offers)
}

async fn erase(cx: &Cx) {
    assert!(contacts::erase(cx, &email("ada@example.org")).await.unwrap().erased);
}

/// `news unsubscribed`, `offers/shop subscribed`, `tips off`.
async fn standing(cx: &Cx) -> Vec<String> {
    let mut all = Vec::new();
    for one in subscriptions::list(cx, ada()).await.unwrap().unwrap_or_default() {
        let client = one.client_slug.map(|slug| format!("/{slug}")).unwrap_or_default();
        all.push(format!("{}{client} {}", one.audience_slug, one.status));
    }
    let preferences = preferences::show(cx, ada()).await.unwrap();
    for one in preferences.map(|shown| shown.topics).unwrap_or_default() {
        all.push(format!("{} {}", one.topic.slug, if one.on { "on" } else { "off" }));
    }
    all.sort();
    all
}

async fn number(cx: &Cx, sql: &'static str) -> i64 {
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| tx.query(sql, &[Param::Int(workspace)])?[0].int(0));
    let number: Result<i64, DatabaseError> = read.await;
    number.unwrap()
}

async fn remembered(cx: &Cx) -> i64 {
    number(cx, "SELECT count(*) FROM erased_opt_outs WHERE workspace_id = $1").await
}

async fn an_audience_that_was_left_is_left_after_an_import(bed: &Bed) {
    let cx = bed.cx().await;
    gone(bed, &cx).await;
    assert_eq!(remembered(&cx).await, 3);
    let settings = import::Settings {
        source: "old file".to_owned(),
        audience: Some("news".parse().unwrap()),
        ..import::Settings::default()
    };
    let file = Cursor::new("email\nADA@example.org\nbob@example.org\n");
    let counts = import::run(&cx, file, settings, |_| ()).await.unwrap();
    assert_eq!((counts.new, counts.subscribed), (2, 1), "only Bob is");
    assert_eq!(standing(&cx).await, ["news unsubscribed", "offers/shop unsubscribed", "tips off"]);
    assert_eq!(
        logged(&cx).await.into_iter().collect::<std::collections::BTreeSet<_>>(),
        ["topic_off tips", "unsubscribed news", "unsubscribed offers/shop"]
            .map(str::to_owned)
            .into()
    );
    // It is the contact's own now.
    assert_eq!(remembered(&cx).await, 0);
}

async fn an_audience_that_was_left_is_left_after_an_upsert_and_a_subscription(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, offers) = gone(bed, &cx).await;
    let shop = bed.shop(&cx).await.id;
    let left = ["news unsubscribed", "offers/shop unsubscribed", "tips off"];
    // Nobody made a contact of her yet: subscribing does.
    assert!(!subscribe(&cx, &news, None, By::Import).await.changed);
    assert_eq!(standing(&cx).await, left);
    assert!(!subscribe(&cx, &news, Some(shop), By::Import).await.changed);
    assert!(!subscribe(&cx, &offers, Some(shop), By::Import).await.changed);
    upsert(&cx, "ada@example.org").await;
    switch(&cx, true, By::Import).await.unwrap();
    assert_eq!(standing(&cx).await, left);
    let refused = switch(&cx, true, By::Operator).await;
    assert!(matches!(refused, Err(SwitchError::NeedsReason(_))), "{refused:?}");
    let cmd = Subscribe {
        whom: ada(),
        audience: news.id,
        client: None,
        confirmed: true,
        act: act(By::Operator),
    };
    let refused = subscriptions::subscribe(&cx, cmd.clone()).await;
    assert!(matches!(refused, Err(ConsentError::Refused(Refusal::NeedsReason))), "{refused:?}");
    // Who says why may, as before.
    let cmd = Subscribe { act: because(By::Operator, "she called"), ..cmd };
    assert!(subscriptions::subscribe(&cx, cmd).await.unwrap().changed);
}

async fn the_person_himself_comes_back(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, _) = gone(bed, &cx).await;
    let came = subscribe(&cx, &news, None, By::Person).await;
    assert_eq!(came.subscription.unwrap().status, Status::Subscribed);
    switch(&cx, true, By::Person).await.unwrap();
    assert_eq!(standing(&cx).await, ["news subscribed", "offers/shop unsubscribed", "tips on"]);
    assert!(logged(&cx).await.contains(&"resubscribed news".to_owned()));
    // Erased once more, she has left what she had left then.
    erase(&cx).await;
    upsert(&cx, "ada@example.org").await;
    assert_eq!(standing(&cx).await, ["offers/shop unsubscribed", "tips on"]);
}

async fn what_was_never_left_is_not_left_afterwards(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    topic(&cx, "tips").await;
    subscribe(&cx, &news, None, By::Person).await;
    erase(&cx).await;
    assert_eq!(remembered(&cx).await, 0);
    upsert(&cx, "ada@example.org").await;
    assert_eq!(standing(&cx).await, ["tips on"]);
}

async fn every_address_of_the_person_is_remembered(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", false).await;
    upsert(&cx, "ada@example.org").await;
    let name = cx.database().write(|tx| {
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                   SELECT workspace_id, id, 'email', 'lovelace@example.org', 'lovelace@example.org', 1, 1
                   FROM leads";
        tx.execute(sql, &[])
    });
    let named: Result<u64, DatabaseError> = name.await;
    assert_eq!(named.unwrap(), 1);
    leave(&cx, Scope::Audience(news.id)).await;
    erase(&cx).await;
    upsert(&cx, "lovelace@example.org").await;
    upsert(&cx, "ada@example.org").await;
    let left =
        "SELECT count(*) FROM subscriptions WHERE workspace_id = $1 AND status = 'unsubscribed'";
    assert_eq!(number(&cx, left).await, 2);
}

async fn it_outlives_one_erasure_after_the_other(bed: &Bed) {
    let cx = bed.cx().await;
    gone(bed, &cx).await;
    for _ in 0..2 {
        upsert(&cx, "ada@example.org").await;
        erase(&cx).await;
        assert_eq!(remembered(&cx).await, 3);
    }
    upsert(&cx, "ada@example.org").await;
    assert_eq!(standing(&cx).await, ["news unsubscribed", "offers/shop unsubscribed", "tips off"]);
}

async fn whoever_switched_a_topic_on_again_is_not_switched_off(bed: &Bed) {
    let cx = bed.cx().await;
    topic(&cx, "tips").await;
    upsert(&cx, "ada@example.org").await;
    switch(&cx, false, By::Person).await.unwrap();
    switch(&cx, true, By::Person).await.unwrap();
    erase(&cx).await;
    upsert(&cx, "ada@example.org").await;
    assert_eq!(standing(&cx).await, ["tips on"]);
}

async fn nobody_else_is_meant(bed: &Bed) {
    let cx = bed.cx().await;
    gone(bed, &cx).await;
    upsert(&cx, "bob@example.org").await;
    assert_eq!(remembered(&cx).await, 3);
    let other = bed.make_workspace("other").await;
    upsert(&other, "ada@example.org").await;
    assert_eq!(standing(&other).await, Vec::<String>::new());
    assert_eq!(remembered(&cx).await, 3);
}
