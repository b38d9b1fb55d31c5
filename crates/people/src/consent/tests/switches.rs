//! Audiences and topics as they are managed, and topics as people switch them.

use tidings_access::{Cx, Limit};
use tidings_kernel::{Put, tables};
use tidings_testbed::{Bed, each_store};

use super::{act, ada, audience, audited, because, email, later, logged, slug, topic};
use crate::consent::preferences::{self, Preferences, Switch, SwitchError};
use crate::consent::{By, audiences, subscriptions, topics};
use crate::keys;

each_store! {
    a_slug_is_taken_once_and_what_it_names_can_change,
    what_nobody_touched_is_on,
    switching_twice_changes_once,
    an_import_switches_off_and_never_on,
    nobody_suppressed_is_switched_on,
    all_topics_are_switched_or_none,
    an_operator_switches_on_with_a_reason,
    there_are_no_more_topics_than_can_be_shown,
}

async fn switch(cx: &Cx, topics: &[(&str, bool)], by: By) -> Result<Preferences, SwitchError> {
    let topics = topics.iter().map(|(name, on)| (slug(name), *on)).collect();
    preferences::switch(cx, Switch { whom: ada(), topics, act: act(by) }).await
}

fn shown(preferences: &Preferences) -> Vec<(&str, bool)> {
    preferences.topics.iter().map(|one| (one.topic.slug.as_str(), one.on)).collect()
}

/// Ada, who left nothing and likes two topics.
async fn with_topics(cx: &Cx) {
    topic(cx, "offers").await;
    topic(cx, "tips").await;
    let news = audience(cx, "news", false).await;
    super::subscribe(cx, &news, None, By::Person).await;
}

async fn a_slug_is_taken_once_and_what_it_names_can_change(bed: &Bed) {
    let cx = bed.cx().await;
    audience(&cx, "news", false).await;
    topic(&cx, "tips").await;
    let create = audiences::Create {
        slug: slug("news"),
        name: "News".parse().unwrap(),
        double_opt_in: true,
        confirm_template_key: None,
    };
    let taken = audiences::create(&cx, create).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already an audience news");
    let create =
        topics::Create { slug: slug("tips"), name: "Tips".parse().unwrap(), description: None };
    let taken = topics::create(&cx, create).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already a topic tips");

    let cx = later(bed).await;
    let change = |double_opt_in| audiences::Update {
        slug: slug("news"),
        name: Some("The news".parse().unwrap()),
        double_opt_in: Some(double_opt_in),
        confirm_template_key: Some(Some("confirm/news".parse().unwrap())),
    };
    let changed = audiences::update(&cx, change(true)).await.unwrap();
    assert_eq!(changed, audiences::find(&cx, slug("news")).await.unwrap());
    assert!(changed.double_opt_in && changed.updated_at == cx.now());
    assert_eq!(audiences::update(&later(bed).await, change(true)).await.unwrap(), changed);
    let cleared = audiences::Update {
        name: None,
        double_opt_in: None,
        confirm_template_key: Some(None),
        ..change(true)
    };
    let cleared = audiences::update(&cx, cleared).await.unwrap();
    assert_eq!((cleared.confirm_template_key, cleared.double_opt_in), (None, true));
    let change = topics::Update {
        slug: slug("tips"),
        name: None,
        description: Some(Some("What helps".parse().unwrap())),
    };
    let changed = topics::update(&cx, change).await.unwrap();
    assert_eq!(changed, topics::find(&cx, slug("tips")).await.unwrap());
    let other = bed.make_workspace("other").await;
    assert!(audiences::find(&other, slug("news")).await.is_err());
    assert!(audiences::list(&other, None, Limit::MAX).await.unwrap().items.is_empty());
    assert!(topics::list(&other, None, Limit::MAX).await.unwrap().items.is_empty());
}

async fn what_nobody_touched_is_on(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(preferences::show(&cx, ada()).await.unwrap(), None);
    with_topics(&cx).await;
    let preferences = preferences::show(&cx, ada()).await.unwrap().unwrap();
    assert_eq!(shown(&preferences), [("offers", true), ("tips", true)]);
    assert!(!preferences.suppressed && !preferences.left_everything);
}

async fn switching_twice_changes_once(bed: &Bed) {
    let cx = bed.cx().await;
    with_topics(&cx).await;
    let before = audited(&cx).await;
    let off = switch(&cx, &[("tips", false)], By::Person).await.unwrap();
    assert_eq!(shown(&off), [("offers", true), ("tips", false)]);
    assert_eq!(switch(&later(bed).await, &[("tips", false)], By::Person).await.unwrap(), off);
    let on = switch(&later(bed).await, &[("tips", true), ("offers", true)], By::Person).await;
    assert_eq!(shown(&on.unwrap()), [("offers", true), ("tips", true)]);
    assert_eq!(logged(&cx).await[..2], ["topic_on tips", "topic_off tips"]);
    assert_eq!(audited(&cx).await, before + 2);
}

async fn an_import_switches_off_and_never_on(bed: &Bed) {
    let cx = bed.cx().await;
    with_topics(&cx).await;
    switch(&cx, &[("tips", false)], By::Import).await.unwrap();
    let kept = switch(&cx, &[("tips", true)], By::Import).await.unwrap();
    assert_eq!(shown(&kept), [("offers", true), ("tips", false)]);
}

async fn nobody_suppressed_is_switched_on(bed: &Bed) {
    let cx = bed.cx().await;
    with_topics(&cx).await;
    switch(&cx, &[("tips", false)], By::Person).await.unwrap();
    let item = tables::MAIN
        .bare_item(&keys::suppression(&email("ada@example.org")))
        .with("type", "Permanent")
        .with("reason", "General");
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, item)).await.unwrap();
    let refused = switch(&cx, &[("offers", false), ("tips", true)], By::Person).await.unwrap_err();
    assert!(matches!(refused, SwitchError::Suppressed), "{refused:?}");
    // To switch off is always allowed.
    let off = switch(&cx, &[("offers", false)], By::Person).await.unwrap();
    assert_eq!(shown(&off), [("offers", false), ("tips", false)]);
    assert!(off.suppressed);
}

async fn all_topics_are_switched_or_none(bed: &Bed) {
    let cx = bed.cx().await;
    with_topics(&cx).await;
    let unknown = switch(&cx, &[("offers", false), ("none", false)], By::Person).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no topic none");
    let kept = preferences::show(&cx, ada()).await.unwrap().unwrap();
    assert_eq!(shown(&kept), [("offers", true), ("tips", true)]);
    let nobody = subscriptions::list(&bed.make_workspace("other").await, ada()).await.unwrap();
    assert_eq!(nobody, None);
}

async fn an_operator_switches_on_with_a_reason(bed: &Bed) {
    let cx = bed.cx().await;
    with_topics(&cx).await;
    switch(&cx, &[("tips", false)], By::Person).await.unwrap();
    let refused =
        switch(&cx, &[("offers", false), ("tips", true)], By::Operator).await.unwrap_err();
    assert!(matches!(&refused, SwitchError::NeedsReason(topic) if topic.as_str() == "tips"));
    let kept = preferences::show(&cx, ada()).await.unwrap().unwrap();
    assert_eq!(shown(&kept), [("offers", true), ("tips", false)]);
    // What is on already needs none.
    switch(&cx, &[("offers", true)], By::Operator).await.unwrap();
    let topics = vec![(slug("tips"), true)];
    let act = because(By::Operator, "she wrote to us");
    let on = preferences::switch(&cx, Switch { whom: ada(), topics, act }).await.unwrap();
    assert_eq!(shown(&on), [("offers", true), ("tips", true)]);
}

async fn there_are_no_more_topics_than_can_be_shown(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..preferences::MAX_TOPICS {
        topic(&cx, &format!("t{number}")).await;
    }
    let more =
        topics::Create { slug: slug("more"), name: "More".parse().unwrap(), description: None };
    let refused = topics::create(&cx, more).await;
    assert!(matches!(refused, Err(topics::CreateError::TooMany)), "{refused:?}");
    assert_eq!(topics::list(&cx, None, Limit::MAX).await.unwrap().items.len(), 100);
}
