//! Memory: what is derived, how it is put together, and that a rebuild gives the same bytes.

use jiff::ToSpan as _;
use serde_json::{Value as Json, json};
use tidings_kernel::{Clock as _, Query, plain, queues, tables};
use tidings_people::consent::{Act, By, Proof, Scope, subscriptions};
use tidings_testbed::{Bed, dying, each_store, until_turn};

use super::rules::{self, Change, from_json};
use super::{
    CERTAIN, Listing, Remember, RememberError, forget, get, list, rebuild, remember, take,
};
use crate::features;
use crate::features::tests::world::{World, what};
use crate::identity::{Whom, find, merge, unmerge};
use crate::ingestion;

const ADA: &str = "ada@x.org";

each_store!(
    what_is_built_in_is_derived,
    hints_add_up_and_the_latest_gives_the_value,
    what_is_only_remembered_for_a_while_is_forgotten,
    what_is_stated_counts_until_an_event_says_more,
    what_was_stated_can_be_forgotten_and_events_count_again,
    what_was_stated_for_a_while_gives_way_to_what_events_say,
    rules_of_the_workspace_count_more,
    rules_count_on_every_node_as_soon_as_they_are_changed,
    all_rules_count_however_long_they_are,
    why_somebody_left_is_an_objection,
    a_death_leaves_all_or_nothing,
    a_rebuild_that_dies_can_be_made_again,
    memory_is_read_by_type_and_in_pages,
    nothing_is_learned_of_whoever_is_erased_meanwhile,
);

/// More than a page of the store has.
async fn all_rules_count_however_long_they_are(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    for number in 10..29 {
        let value = "x".repeat(3_700);
        let rule = |place: usize| {
            json!({"name": format!("r{place}"), "on": "seen", "type": "t",
                   "key": format!("{number}-{place}"), "value": value})
        };
        let rules: Vec<_> = (0..16).map(rule).collect();
        let set = from_json(&json!({ "rules": rules })).unwrap();
        rules::put(&cx, &format!("set-{number}").parse().unwrap(), set).await.unwrap();
    }
    let names: Vec<_> =
        rules::list(&cx).await.unwrap().iter().map(|kept| kept.name.to_string()).collect();
    assert_eq!(names, (10..29).map(|number| format!("set-{number}")).collect::<Vec<_>>());
}

async fn why_somebody_left_is_an_objection(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    world.partition(ADA, cx.now()).await;
    let act = Act {
        by: By::Person,
        source: "page".parse().unwrap(),
        reason: Some("too many mails".parse().unwrap()),
        proof: Proof::default(),
    };
    let contact = find(&cx, Whom::Email(ADA.parse().unwrap())).await.unwrap().unwrap().lead_id;
    let cmd = subscriptions::Unsubscribe { whom: contact.into(), scope: Scope::Global, act };
    subscriptions::unsubscribe(&cx, cmd).await.unwrap();
    let access = world.bed.access.clone();
    world.bed.work(&queues::LEAD_INGESTION, ingestion::handler(access)).await;
    world.work().await;
    let told = world.remembers(ADA, "objection#unsubscribed").await;
    assert!(told.starts_with("\"too many mails\""), "{told}");
}

/// Somebody is erased after so many turns of a worker that learns something of him, or of an operator who states something.
async fn nothing_is_learned_of_whoever_is_erased_meanwhile(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    for turns in 0..16 {
        let email = format!("p{turns}@x.org");
        let bought = json!({"items": [{"sku": "tea"}], "amount": 3});
        let bought = what(turns, "order.completed", "2026-06-30T10:00:00Z", bought);
        let message = world.store(&email, &bought).await;
        let id = world.own(&email).await;
        let stated = Remember {
            memory_type: "preference".parse().unwrap(),
            key: "colour".parse().unwrap(),
            value: json!("red"),
            confidence: CERTAIN,
            source: "crm".to_owned(),
            expires_at: None,
        };
        let mut learning = Box::pin(take(&cx, &message));
        let mut stating = Box::pin(remember(&cx, &id, stated));
        let mut deriving = Box::pin(rebuild(&cx, &id));
        let mut counting = Box::pin(features::rebuild(&cx, &id));
        let learnt = until_turn(&mut learning, turns).await.is_some();
        let has_stated = until_turn(&mut stating, turns).await.is_some();
        let derived = until_turn(&mut deriving, turns).await.is_some();
        let counted = until_turn(&mut counting, turns).await.is_some();
        let address = email.parse().unwrap();
        assert!(tidings_people::contacts::erase(&cx, &address).await.unwrap().erased);
        if !learnt {
            learning.await.unwrap();
        }
        if !has_stated {
            drop(stating.await);
        }
        if !derived {
            deriving.await.unwrap();
        }
        if !counted {
            counting.await.unwrap();
        }
        for table in [&tables::MEMORY, &tables::FEATURE, &tables::EVENT] {
            let left = cx.items().await.unwrap().query(Query::new(table, id.as_str())).await;
            assert_eq!(left.unwrap().items, [], "{} after {turns}", table.name);
        }
    }
}

async fn what_is_built_in_is_derived(bed: &Bed) {
    let world = World::new(bed);
    let at = "2026-06-30T10:00:00Z";
    for happening in [
        what(
            1,
            "order.completed",
            at,
            json!({"items": [{"sku": "whey_1kg", "quantity": 2}, {"sku": "oats"}], "amount": 30}),
        ),
        what(2, "purchase_completed", at, json!({"amount": "9.90", "currency": "eur"})),
        what(3, "product_viewed", at, json!({"product": "tea", "category": "drinks"})),
        what(4, "email.clicked", at, json!({"product": "tea"})),
        what(5, "preference_set", at, json!({"preferences": {"colour": "red", "size": 42}})),
        what(
            6,
            "message_received",
            at,
            json!({"channel": "whatsapp", "sentiment": "negative", "objections": ["price"]}),
        ),
        what(7, "email.opened", at, json!({})),
        what(8, "inbox.read", at, json!({})),
        what(
            9,
            "objection_raised",
            at,
            json!({"objection": "shipping", "text": "It takes too long"}),
        ),
        what(10, "email.unsubscribed", at, json!({"reason": "too many mails"})),
        what(11, "page_viewed", at, json!({"product": "nothing follows"})),
        // What cannot be kept is left out.
        what(12, "preference_set", at, json!({"preference": "long", "value": "x".repeat(5000)})),
        what(13, "preference_set", at, json!({"preference": "a\nb", "value": 1})),
    ] {
        world.happens(ADA, &happening).await;
    }
    world.work().await;
    let lines = world.memory(ADA).await.into_iter().map(|item| {
        let told =
            |name: &str| item.get(name).map(plain::from_value).unwrap_or(Json::Null).to_string();
        format!(
            "{} = {} ({}, {})",
            item.text("memory_type#key").unwrap(),
            told("value"),
            told("confidence"),
            told("source")
        )
    });
    insta::assert_snapshot!("what_is_built_in", lines.collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!("an_item", serde_json::to_string_pretty(&tea(&world).await).unwrap());
}

async fn tea(world: &World<'_>) -> tidings_kernel::Item {
    let all = world.memory(ADA).await;
    let tea =
        all.into_iter().find(|item| item.text("memory_type#key") == Some("interest#product:tea"));
    let mut tea = tea.unwrap();
    // Ids of rows differ from engine to engine.
    tea.set("lead_organization_id", "1");
    tea
}

async fn hints_add_up_and_the_latest_gives_the_value(bed: &Bed) {
    let world = World::new(bed);
    let opened = |id, at: &str| what(id, "email.opened", at, json!({}));
    world.happens(ADA, &what(1, "email.clicked", "2026-06-20T10:00:00Z", json!({}))).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "channel#email").await, r#""email.clicked" 0.5"#);
    // Earlier, and heard of later: it supports, and does not win.
    world.happens(ADA, &opened(2, "2026-06-10T10:00:00Z")).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "channel#email").await, r#""email.clicked" 0.6"#);
    world.happens(ADA, &opened(3, "2026-06-25T10:00:00Z")).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "channel#email").await, r#""email.opened" 0.68"#);
    for id in 4..70 {
        world.happens(ADA, &opened(id, "2026-06-26T10:00:00Z")).await;
    }
    world.work().await;
    // Never quite certain, and it rests on the newest 50.
    assert_eq!(world.remembers(ADA, "channel#email").await, r#""email.opened" 0.99"#);
    let (cx, id) = (world.cx().await, world.own(ADA).await);
    let kept = get(&cx, &id, &"channel".parse().unwrap(), &"email".parse().unwrap()).await;
    let kept = kept.unwrap().unwrap();
    assert_eq!(kept.source_event_ids.len(), 50);
    assert_eq!(kept.created_at.to_string(), "2026-06-26T10:00:00Z");
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 0);
}

async fn what_is_only_remembered_for_a_while_is_forgotten(bed: &Bed) {
    let world = World::new(bed);
    world
        .happens(ADA, &what(1, "product_viewed", "2026-06-30T10:00:00Z", json!({"sku": "tea"})))
        .await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "interest#product:tea").await, r#""tea" 0.3"#);
    bed.clock.advance((24 * 91).hours());
    assert_eq!(world.remembers(ADA, "interest#product:tea").await, "-");
    let (cx, id) = (world.cx().await, world.own(ADA).await);
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 0);
    // He looks again: what is long over adds nothing.
    let now = bed.clock.now().to_string();
    world.happens(ADA, &what(2, "product_viewed", &now, json!({"sku": "tea"}))).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "interest#product:tea").await, r#""tea" 0.3"#);
    assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), 0);
}

fn colour(value: Json) -> Remember {
    Remember {
        memory_type: "preference".parse().unwrap(),
        key: "colour".parse().unwrap(),
        value,
        confidence: CERTAIN,
        source: "api".to_owned(),
        expires_at: None,
    }
}

async fn what_is_stated_counts_until_an_event_says_more(bed: &Bed) {
    let world = World::new(bed);
    let set = |id, at: &str, colour: &str| {
        what(id, "preference_set", at, json!({"preference": "colour", "value": colour}))
    };
    world.happens(ADA, &set(1, "2026-06-01T10:00:00Z", "red")).await;
    world.work().await;
    let (cx, id) = (world.cx().await, world.own(ADA).await);
    let kept = remember(&cx, &id, colour(json!("blue"))).await.unwrap();
    assert_eq!((kept.source.as_str(), kept.source_event_ids.len()), ("api", 1));
    assert_eq!(world.remembers(ADA, "preference#colour").await, r#""blue" 1"#);
    // An event of before changes nothing of it, and a rebuild does not either.
    world.happens(ADA, &set(2, "2026-06-02T10:00:00Z", "green")).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "preference#colour").await, r#""blue" 1"#);
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 0);
    bed.clock.advance(2.hours());
    world.happens(ADA, &set(3, "2026-07-01T13:00:00Z", "black")).await;
    world.work().await;
    assert_eq!(world.remembers(ADA, "preference#colour").await, r#""black" 1"#);
    assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), 0);

    let long = remember(&cx, &id, colour(json!("x".repeat(5000)))).await;
    assert!(matches!(long, Err(RememberError::Value)));
    let past = Remember { expires_at: Some(cx.now() - 1.second()), ..colour(json!(1)) };
    assert!(matches!(remember(&cx, &id, past).await, Err(RememberError::Past)));
    assert!(matches!(remember(&cx, "999999", colour(json!(1))).await, Err(RememberError::Nobody)));
}

async fn what_was_stated_for_a_while_gives_way_to_what_events_say(bed: &Bed) {
    let world = World::new(bed);
    let set = |id, at: &str, colour: &str| {
        what(id, "preference_set", at, json!({"preference": "colour", "value": colour}))
    };
    let viewed = what(9, "product_viewed", "2026-06-30T10:00:00Z", json!({"sku": "tea"}));
    world.happens(ADA, &set(1, "2026-06-01T10:00:00Z", "red")).await;
    world.happens(ADA, &viewed).await;
    world.work().await;
    let (cx, id) = (world.cx().await, world.own(ADA).await);
    let told = async |memory_type: &str, key: &str| {
        let (memory_type, key) = (memory_type.parse().unwrap(), key.parse().unwrap());
        let cx = world.cx().await;
        let one = get(&cx, &id, &memory_type, &key).await.unwrap();
        let listing = Listing { memory_type: Some(memory_type), ..Listing::default() };
        let all = list(&cx, &id, listing).await.unwrap().unwrap().memories;
        assert_eq!(one, all.into_iter().find(|listed| listed.key == key));
        let query = Query::new(&tables::MEMORY, id.as_str()).limit(10);
        let items = cx.items().await.unwrap().query(query).await.unwrap().items;
        let Some(one) = one else { return "-".to_owned() };
        let sort = format!("{}#{}", one.memory_type, one.key);
        let item = items.iter().find(|item| item.text("memory_type#key") == Some(&sort)).unwrap();
        // Those who read the items find the same.
        assert_eq!(tidings_people::memory::value(item, cx.now()), Some(&one.value));
        let value = plain::from_value(&one.value);
        format!("{value} {} {}", one.confidence, one.source.is_empty() || one.source == "api")
    };
    let for_an_hour = |key: &str, value: &str| Remember {
        key: key.parse().unwrap(),
        expires_at: Some(cx.now() + 1.hours()),
        ..colour(json!(value))
    };
    remember(&cx, &id, for_an_hour("colour", "blue")).await.unwrap();
    remember(&cx, &id, for_an_hour("size", "small")).await.unwrap();
    let tea =
        Remember { memory_type: "interest".parse().unwrap(), ..for_an_hour("product:tea", "much") };
    remember(&cx, &id, tea).await.unwrap();
    bed.clock.advance(30.minutes());
    world.happens(ADA, &set(2, "2026-06-02T10:00:00Z", "green")).await;
    world.work().await;
    assert_eq!(told("preference", "colour").await, r#""blue" 1 true"#);
    assert_eq!(told("preference", "size").await, r#""small" 1 true"#);
    assert_eq!(told("interest", "product:tea").await, r#""much" 1 true"#);
    assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), 0);

    bed.clock.advance(30.minutes());
    for _ in 0..2 {
        assert_eq!(told("preference", "colour").await, r#""green" 1 false"#);
        assert_eq!(told("preference", "size").await, "-");
        assert_eq!(told("interest", "product:tea").await, r#""tea" 0.3 false"#);
        // Neither the store nor a rebuild changes anything of it.
        tidings_kernel::ItemEngine::sweep(&bed.items(), 100).await.unwrap();
        assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), 0);
    }
    world.happens(ADA, &set(3, "2026-06-03T10:00:00Z", "black")).await;
    world.work().await;
    assert_eq!(told("preference", "colour").await, r#""black" 1 false"#);
    bed.clock.advance((24 * 90).hours());
    assert_eq!(told("interest", "product:tea").await, "-");
    assert_eq!(told("preference", "colour").await, r#""black" 1 false"#);
}

async fn rules_of_the_workspace_count_more(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    let set = from_json(&json!({"rules": [{
        "name": "coffee",
        "on": ["product_viewed", "shop.*"],
        "where": [{"path": "$.category", "equals": "coffee"}, {"path": "$.seconds", "at_least": 10}],
        "type": "interest",
        "key": "category:{$.category}",
        "value": {"strong": true},
        "confidence": 0.9,
        "expires_after": "30d",
    }, {
        "name": "plan", "on": "plan_changed", "type": "plan", "key": "current", "value": "$.plan.name",
    }]}))
    .unwrap();
    let shop = "shop".parse().unwrap();
    assert_eq!(rules::put(&cx, &shop, set.clone()).await.unwrap().1, Change::Added);
    assert_eq!(rules::put(&cx, &shop, set.clone()).await.unwrap().1, Change::Unchanged);
    let at = "2026-06-30T10:00:00Z";
    for happening in [
        what(1, "product_viewed", at, json!({"category": "coffee", "seconds": 12})),
        what(2, "product_viewed", at, json!({"category": "tea", "seconds": 12})),
        what(3, "shop.lingered", at, json!({"category": "coffee", "seconds": 3})),
        what(4, "plan_changed", at, json!({"plan": {"name": "pro"}})),
        what(5, "plan_changed", at, json!({"plan": "no object"})),
    ] {
        world.happens(ADA, &happening).await;
    }
    world.work().await;
    assert_eq!(world.remembers(ADA, "interest#category:coffee").await, r#"{"strong":true} 0.9"#);
    assert_eq!(world.remembers(ADA, "interest#category:tea").await, r#""tea" 0.3"#);
    assert_eq!(world.remembers(ADA, "plan#current").await, r#""pro" 0.8"#);
    let id = world.own(ADA).await;
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 0);
    // Without the rules a rebuild finds what is built in.
    assert!(rules::delete(&cx, &shop).await.unwrap());
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 2);
    assert_eq!(world.remembers(ADA, "interest#category:coffee").await, r#""coffee" 0.3"#);
    assert_eq!(world.remembers(ADA, "plan#current").await, "-");
}

async fn what_was_stated_can_be_forgotten_and_events_count_again(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    let red = json!({"preference": "colour", "value": "red"});
    world.happens(ADA, &what(1, "preference_set", "2026-06-30T10:00:00Z", red)).await;
    world.work().await;
    let derived = world.memory(ADA).await;
    world.partition("bob@x.org", cx.now()).await;
    let (ada, bob) = (world.own(ADA).await, world.own("bob@x.org").await);
    let state = async |id: &str, key: &str| {
        let stated = Remember {
            memory_type: "preference".parse().unwrap(),
            key: key.parse().unwrap(),
            value: json!("blue"),
            confidence: CERTAIN,
            source: "crm".to_owned(),
            expires_at: None,
        };
        remember(&cx, id, stated).await.unwrap();
    };
    let drop_it = async |key: &str| {
        let (kind, key) = ("preference".parse().unwrap(), key.parse().unwrap());
        forget(&cx, &ada, (&kind, &key)).await.unwrap()
    };
    assert!(!drop_it("colour").await, "an event said it");
    state(&ada, "colour").await;
    state(&ada, "size").await;
    // What was stated of whoever becomes him is stated of him.
    state(&bob, "shape").await;
    let lead = async |email: &str| {
        find(&cx, Whom::Email(email.parse().unwrap())).await.unwrap().unwrap().lead_id
    };
    let (one, other) = (lead(ADA).await, lead("bob@x.org").await);
    let merged = merge(&cx, one, other).await.unwrap();
    world.work().await;
    assert_eq!(world.memory(ADA).await.len(), 3);
    for key in ["colour", "size", "shape"] {
        assert!(drop_it(key).await, "{key}");
        assert!(!drop_it(key).await, "{key} is forgotten");
    }
    assert_eq!(world.memory(ADA).await, derived);
    assert_eq!(rebuild(&cx, &ada).await.unwrap(), 0);
    unmerge(&cx, merged.id).await.unwrap();
    world.work().await;
    assert_eq!(world.memory("bob@x.org").await, []);
}

/// Each node has read them before the other one changes them.
async fn rules_count_on_every_node_as_soon_as_they_are_changed(bed: &Bed) {
    let world = World::new(bed);
    let cx = world.cx().await;
    let nodes = [rules::Known::default(), rules::Known::default()];
    let (shop, web) = ("shop".parse().unwrap(), "web".parse().unwrap());
    let rule = |value: i64| {
        let rule = json!({"name": "r", "on": "seen", "type": "t", "key": "k", "value": value});
        from_json(&json!({ "rules": [rule] })).unwrap()
    };
    let both_know = async |expected: &[i64]| {
        let expected: Vec<_> = expected.iter().map(|value| rule(*value)).collect();
        for node in &nodes {
            assert_eq!(*node.of(&cx).await.unwrap(), expected);
        }
    };
    both_know(&[]).await;
    for value in [1, 2] {
        rules::put(&cx, &shop, rule(value)).await.unwrap();
        both_know(&[value]).await;
    }
    rules::put(&cx, &web, rule(3)).await.unwrap();
    both_know(&[2, 3]).await;
    assert!(rules::delete(&cx, &shop).await.unwrap());
    both_know(&[3]).await;

    // One look says that nothing has changed; whoever knows nothing reads the sets, too.
    let node = nodes.first().unwrap();
    assert!(node.of(&dying(bed, &cx, 1, false).await).await.is_ok());
    assert!(rules::Known::default().of(&dying(bed, &cx, 1, false).await).await.is_err());

    // Another workspace has others.
    let other = bed.make_workspace("other").await;
    assert_eq!(node.of(&other).await.unwrap().len(), 0);
    both_know(&[3]).await;
}

async fn a_death_leaves_all_or_nothing(bed: &Bed) {
    let world = World::new(bed);
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 20, "it comes to an end");
            let name = format!("{after}{place}");
            let bought =
                json!({"items": [{"sku": format!("{name}a")}, {"sku": format!("{name}b")}]});
            let happening = what(&name, "order.completed", "2026-06-30T10:00:00Z", bought);
            let message = world.store(ADA, &happening).await;
            let cx = dying(bed, &world.cx().await, place, after).await;
            let died = take(&cx, &message).await.is_err();
            let is_there = async |end: &str| {
                world.remembers(ADA, &format!("purchase#product:{name}{end}")).await != "-"
            };
            assert_eq!(is_there("a").await, is_there("b").await);
            world.tell(&message).await;
            world.work().await;
            assert!(is_there("a").await && is_there("b").await);
            if !died {
                break;
            }
        }
    }
}

async fn a_rebuild_that_dies_can_be_made_again(bed: &Bed) {
    let world = World::new(bed);
    for number in 0..130 {
        let bought = json!({"product": format!("p{number:03}")});
        world
            .happens(ADA, &what(number, "purchase_completed", "2026-06-30T10:00:00Z", bought))
            .await;
    }
    world.work().await;
    let (whole, id) = (world.memory(ADA).await, world.own(ADA).await);
    assert_eq!(whole.len(), 130);
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 40, "it comes to an end");
            super::erase(&world.cx().await, &id).await.unwrap();
            let cx = dying(bed, &world.cx().await, place, after).await;
            let died = rebuild(&cx, &id).await.is_err();
            rebuild(&world.cx().await, &id).await.unwrap();
            assert_eq!(world.memory(ADA).await, whole);
            if !died {
                break;
            }
        }
    }
}

async fn memory_is_read_by_type_and_in_pages(bed: &Bed) {
    let world = World::new(bed);
    for number in 0..5 {
        let bought = json!({"product": format!("p{number}"), "category": "food"});
        world
            .happens(
                ADA,
                &what(number, "purchase_completed", "2026-06-30T10:00:00Z", bought.clone()),
            )
            .await;
        world
            .happens(ADA, &what(10 + number, "product_viewed", "2026-06-30T10:00:00Z", bought))
            .await;
    }
    world.work().await;
    let (cx, id) = (world.cx().await, world.own(ADA).await);
    let memory_type = Some("purchase".parse().unwrap());
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let listing = Listing { memory_type: memory_type.clone(), limit: 2, cursor };
        let page = list(&cx, &id, listing).await.unwrap().unwrap();
        found.extend(page.memories.iter().map(|memory| memory.key.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, ["product:p0", "product:p1", "product:p2", "product:p3", "product:p4"]);
    let all = list(&cx, &id, Listing::default()).await.unwrap().unwrap();
    assert_eq!(all.memories.len(), 11);
    assert!(list(&cx, "12345678", Listing::default()).await.unwrap().is_none());
}
