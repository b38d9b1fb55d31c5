//! Writing campaigns down.

use serde_json::json;
use tidings_access::Limit;
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::draft::{self, Draft, DraftError, Find, List, Wrong};
use crate::campaigns::duplicate::{Duplicate, duplicate};
use crate::campaigns::{Content, Metric, Schedule, Status, Template, Test, Variant};

each_store!(
    the_same_request_with_the_same_key_is_the_same_campaign,
    what_was_written_down_comes_back,
    a_draft_is_changed_listed_and_deleted,
    everything_that_is_wrong_is_told_at_once,
    another_client_and_another_workspace_see_nothing,
    no_key_is_the_id_of_a_sequence,
    a_campaign_that_was_sent_is_duplicated_as_a_draft,
);

async fn the_same_request_with_the_same_key_is_the_same_campaign(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let draft = Draft { key: Some("spring".to_owned()), ..world.draft() };
    let (first, second) =
        tokio::join!(draft::create(&cx, draft.clone()), draft::create(&cx, draft.clone()));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.campaign.id, second.campaign.id);
    assert!(first.created != second.created);
    let other = Draft { name: "Other".to_owned(), ..draft.clone() };
    let refused = draft::create(&cx, other.clone()).await.unwrap_err();
    assert!(matches!(refused, DraftError::KeyReused(key) if key == "spring"));
    let put = draft::put(&cx, other.clone()).await.unwrap();
    assert_eq!((put.campaign.name.as_str(), put.created), ("Other", false));
    assert_eq!(draft::create(&cx, other.clone()).await.unwrap().campaign.id, put.campaign.id);
    world.start(put.campaign.id).await;
    let refused = draft::put(&cx, draft).await.unwrap_err();
    assert!(matches!(refused, DraftError::Illegal { .. }), "{refused}");
    // The same request is answered with what became of it.
    assert_eq!(draft::put(&cx, other).await.unwrap().campaign.status, Status::Snapshotting);
}

async fn what_was_written_down_comes_back(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let variant = |name: &str, template: Option<&str>, subject: Option<&str>| Variant {
        name: name.to_owned(),
        weight: 2,
        template: template.map(ToOwned::to_owned),
        template_version: None,
        subject: subject.map(ToOwned::to_owned),
    };
    let test = Test { percent: 10, metric: Metric::Clicks, wait_ms: 3_600_000 };
    let draft = Draft {
        key: Some("spring:2026".to_owned()),
        filter: json!({"tags": ["vip"], "attributes": {"plan": "pro"}}),
        sender: Some("hello".parse().unwrap()),
        content: Content {
            subject: Some("Hello".to_owned()),
            preview_text: Some("Look".to_owned()),
            html: Some("<p>Hello</p>".to_owned()),
            text: Some("Hello".to_owned()),
            template: None,
        },
        variants: vec![variant("a", None, Some("A")), variant("b", Some("spring/b"), None)],
        test: Some(test),
        metadata: serde_json::from_value(json!({"note": [1, 2]})).unwrap(),
        schedule: Some(Schedule::Local("2026-07-04T09:00".parse().unwrap())),
        rate_per_hour: Some(3_600),
        warmup: vec![50, 100],
        ..world.draft()
    };
    let made = draft::create(&cx, draft.clone()).await.unwrap().campaign;
    let found = draft::get(&cx, find(made.id)).await.unwrap();
    assert_eq!(found, made);
    assert_eq!(found.filter, draft.filter);
    assert_eq!(found.content, draft.content);
    assert_eq!((&found.variants, found.test), (&draft.variants, draft.test));
    assert_eq!(found.schedule, draft.schedule);
    assert_eq!((found.rate_per_hour, found.warmup.clone()), (Some(3_600), vec![50, 100]));
    assert_eq!(found.metadata, draft.metadata);
    assert_eq!(found.key(), "spring:2026");
    assert_eq!(found.content_for(Some(0)).subject.as_deref(), Some("A"));
    assert_eq!(found.content_for(Some(0)).html.as_deref(), Some("<p>Hello</p>"));
    let template = Some(Template { key: "spring/b".to_owned(), version: None });
    assert_eq!(found.content_for(Some(1)), Content { template, ..Content::default() });
    let by_key = draft::by_key(&cx, "spring:2026".to_owned(), Some(world.client)).await.unwrap();
    assert_eq!(by_key, Some(found));
}

async fn a_draft_is_changed_listed_and_deleted(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(world.drafted(Draft { name: name.to_owned(), ..world.draft() }).await);
    }
    let list = |after, status| {
        let list = List { client: None, status, after, limit: Limit::try_from(2).unwrap() };
        let cx = cx.clone();
        async move {
            let page = draft::list(&cx, list).await.unwrap();
            (page.items.into_iter().map(|one| one.name).collect::<Vec<_>>(), page.next)
        }
    };
    assert_eq!(list(None, None).await, (vec!["three".into(), "two".into()], Some(ids[1])));
    assert_eq!(list(Some(ids[1]), None).await, (vec!["one".into()], None));
    assert_eq!(list(None, Some(Status::Sent)).await, (vec![], None));
    let key = Some("two".to_owned());
    let changed = Draft { name: "zwei".to_owned(), key: key.clone(), ..world.draft() };
    let campaign = draft::update(&cx, find(ids[1]), changed.clone()).await.unwrap();
    assert_eq!(campaign.name, "zwei");
    let taken = draft::update(&cx, find(ids[0]), changed).await.unwrap_err();
    assert!(matches!(taken, DraftError::KeyReused(_)));
    draft::delete(&cx, find(ids[0])).await.unwrap();
    assert!(matches!(draft::delete(&cx, find(ids[0])).await, Err(DraftError::Missing(_))));
    world.start(ids[1]).await;
    let refused = draft::delete(&cx, find(ids[1])).await.unwrap_err();
    assert!(refused.to_string().contains("it is snapshotting, and deleting needs"), "{refused}");
}

async fn everything_that_is_wrong_is_told_at_once(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let variant = Variant {
        name: String::new(),
        weight: 0,
        template: None,
        template_version: None,
        subject: None,
    };
    let draft = Draft {
        key: Some("campaign-7".to_owned()),
        name: " ".to_owned(),
        audience: Some("nobody".parse().unwrap()),
        topic: Some("nothing".parse().unwrap()),
        filter: json!({"all": [{"audience": "gone"}, {"what": 1}]}),
        content: Content { html: Some("{{ a".to_owned()), ..Content::default() },
        variants: vec![variant],
        test: Some(Test { percent: 100, metric: Metric::Opens, wait_ms: 1 }),
        schedule: Some(Schedule::At("2030-01-01T00:00:00Z".parse().unwrap())),
        rate_per_hour: Some(0),
        warmup: vec![0],
        ..world.draft()
    };
    let DraftError::Invalid(wrong) = draft::create(&cx, draft).await.unwrap_err() else {
        panic!("it was taken")
    };
    let fields: Vec<&str> = wrong.iter().map(|one: &Wrong| one.field.as_str()).collect();
    for field in [
        "external_key",
        "name",
        "audience",
        "topic",
        "filter.all[1]",
        "html",
        "subject",
        "variants",
        "variants[0].name",
        "variants[0].weight",
        "variants[0].subject",
        "test.percent",
        "test.wait",
        "scheduled_at",
        "rate_per_hour",
        "warmup",
    ] {
        assert!(fields.contains(&field), "{field} is not among {fields:?}");
    }
    assert_eq!(world.count("campaigns").await, 0);
}

async fn another_client_and_another_workspace_see_nothing(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let draft = Draft { key: Some("spring".to_owned()), ..world.draft() };
    let id = world.drafted(draft.clone()).await;
    let stranger = Find { id, client: Some((world.client.get() + 1).into()) };
    assert!(draft::get(&cx, stranger).await.is_err());
    assert!(matches!(draft::delete(&cx, stranger).await, Err(DraftError::Missing(_))));
    let other = bed.make_workspace("other").await;
    assert!(draft::get(&other, find(id)).await.is_err());
    assert!(draft::by_key(&other, "spring".to_owned(), None).await.unwrap().is_none());
    let theirs = Draft { client: bed.shop(&other).await.id, ..draft };
    assert!(draft::create(&other, theirs).await.unwrap().created, "a key is a workspace's own");
}

async fn no_key_is_the_id_of_a_sequence(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let draft = Draft { key: Some("spring".to_owned()), ..world.draft() };
    let there = world.drafted(draft.clone()).await;
    for slug in ["spring", "welcome"] {
        let sql = format!(
            "INSERT INTO sequences (workspace_id, slug, client_id, active_version, created_at, updated_at)
             VALUES ({}, '{slug}', {}, 1, 1, 1)",
            cx.workspace_id().get(),
            world.client
        );
        world.run_sql(&sql).await;
    }
    let taken = Draft { key: Some("welcome".to_owned()), ..draft.clone() };
    for refused in [
        draft::create(&cx, taken.clone()).await.err(),
        draft::put(&cx, taken.clone()).await.err(),
        draft::update(&cx, find(there), taken).await.err(),
    ] {
        let Some(DraftError::Invalid(wrong)) = refused else { panic!("{refused:?}") };
        assert_eq!(wrong[0].field, "external_key", "{wrong:?}");
    }
    // What there was before is still found.
    assert_eq!(draft::create(&cx, draft).await.unwrap().campaign.id, there);
}

async fn a_campaign_that_was_sent_is_duplicated_as_a_draft(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(2).await;
    super::put_template(&cx, "b", "B").await;
    let variant = |name: &str, template: Option<&str>| Variant {
        name: name.to_owned(),
        weight: 1,
        template: template.map(ToOwned::to_owned),
        template_version: None,
        subject: Some(name.to_owned()),
    };
    let draft = Draft {
        key: Some("spring".to_owned()),
        filter: json!({"not": {"tag": "x"}}),
        sender: Some("hello".parse().unwrap()),
        variants: vec![variant("one", None), variant("two", Some("b"))],
        metadata: json!({"team": "growth"}).as_object().unwrap().clone(),
        schedule: Some(Schedule::At("2026-07-01T13:00:00Z".parse().unwrap())),
        rate_per_hour: Some(360_000),
        warmup: vec![50],
        ..world.draft()
    };
    let id = world.started(draft.clone()).await;
    world.advance_to("2026-07-01T13:00:00Z".parse().unwrap()).await;
    world.run().await;
    assert_eq!((world.sent(), world.status(id).await), (2, Status::Sent));
    let cx = bed.cx().await;
    let again = |key: &str, name: Option<&str>| {
        let (key, name) = (Some(key.to_owned()), name.map(ToOwned::to_owned));
        duplicate(&cx, Duplicate { campaign: find(id), key, name })
    };
    let made = again("summer", Some("Summer")).await.unwrap();
    let expected = Draft {
        key: Some("summer".to_owned()),
        name: "Summer".to_owned(),
        schedule: None,
        ..draft.clone()
    };
    // It is the one that somebody would have written down by hand.
    let by_hand = draft::create(&cx, expected).await.unwrap();
    assert_eq!((by_hand.campaign, by_hand.created), (made.campaign.clone(), false));
    assert_eq!((made.campaign.status, made.created), (Status::Draft, true));
    assert!(!again("summer", Some("Summer")).await.unwrap().created, "the same again is the same");
    assert!(matches!(again("summer", None).await, Err(DraftError::KeyReused(_))));
    assert!(matches!(again("spring", None).await, Err(DraftError::KeyReused(_))));
    let theirs = Find { id, client: Some((world.client.get() + 1).into()) };
    let cmd = Duplicate { campaign: theirs, key: None, name: None };
    assert!(matches!(duplicate(&cx, cmd).await, Err(DraftError::Missing(_))));
    world.start(made.campaign.id).await;
    world.run().await;
    world.check(made.campaign.id).await;
    assert_eq!(world.sent(), 4);
}
