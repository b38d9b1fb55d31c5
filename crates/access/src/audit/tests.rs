//! The audit log on both engines: what is kept of a change, that nobody alters it, and how it is read.

use jiff::ToSpan as _;
use serde_json::json;
use tidings_jobs::Outcome;
use tidings_kernel::Delivery;
use tidings_sql::Param;

use super::{Change, Filter, Listed, handler, list, list_of_installation};
use crate::tests::engines::World;
use crate::{Actor, Cx, Limit, clients, workspaces};

tidings_testkit::each_engine!(
    an_entry_says_what_was_and_what_is,
    nobody_alters_an_entry,
    a_message_that_comes_twice_is_one_entry,
    a_state_that_is_too_long_leaves_its_size_and_hash,
    entries_are_found_by_whatever_is_known_of_them,
    a_page_that_finds_little_says_where_to_go_on,
    what_concerns_the_installation_is_apart,
);

async fn acme(world: &World) -> Cx {
    let made = workspaces::create(&world.access, "acme".parse().unwrap()).await.unwrap();
    world.access.inside(&made, Actor::Operator)
}

async fn all(cx: &Cx, filter: Filter) -> Vec<Listed> {
    list(cx, filter, None, Limit::MAX).await.unwrap().items
}

async fn write(cx: &Cx, change: Change) {
    let within = cx.clone();
    cx.database.write(move |tx| within.record_change(tx, &change)).await.unwrap();
}

async fn an_entry_says_what_was_and_what_is(world: &World) {
    let cx = acme(world).await;
    let shop = clients::Create { slug: "shop".parse().unwrap(), name: "Shop".parse().unwrap() };
    clients::create(&cx, shop).await.unwrap();
    for _ in 0..2 {
        clients::disable(&cx, "shop".parse().unwrap()).await.unwrap();
    }
    let entries = all(&cx, Filter::default()).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.before.clone(), entry.after.clone()))
        .collect();
    assert_eq!(
        told,
        [
            ("client.disable", Some(json!({ "enabled": true })), Some(json!({ "enabled": false }))),
            ("client.create", None, Some(json!({ "name": "Shop", "enabled": true }))),
            ("workspace.create", None, Some(json!({ "enabled": true }))),
        ]
    );
    assert!(entries.iter().all(|entry| entry.actor == "operator" && entry.happened_at == cx.now));
}

async fn nobody_alters_an_entry(world: &World) {
    let cx = acme(world).await;
    for sql in ["UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log"] {
        let refused = cx.database.write(move |tx| tx.execute(sql, &[])).await.unwrap_err();
        let told = tidings_kernel::causes(&refused);
        assert!(told.contains("the audit log can only be added to"), "{sql}: {told}");
    }
    assert_eq!(all(&cx, Filter::default()).await.len(), 1);
}

fn delivery(body: &str) -> Delivery {
    Delivery {
        id: "1".to_owned(),
        body: body.to_owned(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
        receipt: tidings_kernel::Receipt("r".to_owned()),
    }
}

async fn a_message_that_comes_twice_is_one_entry(world: &World) {
    let cx = acme(world).await;
    let change = Change::new("inbox.update", "inbox", "news")
        .between(json!({ "limit": 3, "name": "a" }), json!({ "limit": 4, "name": "a" }));
    let message = cx.audited(&change);
    world.clock.advance(1.hours());
    let handler = handler(world.access.clone());
    let twice = [message.body.as_str(), message.body.as_str()].map(delivery);
    let (one, other) = tokio::join!(handler.handle(&twice[0]), handler.handle(&twice[1]));
    assert_eq!((one, other), (Outcome::Done, Outcome::Done));
    let entries = all(&cx, Filter { action: Some("inbox".to_owned()), ..Filter::default() }).await;
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(
        (entry.before.clone(), entry.after.clone(), entry.happened_at),
        (Some(json!({ "limit": 3 })), Some(json!({ "limit": 4 })), cx.now)
    );

    let elsewhere = message.body.replace("acme", "nowhere");
    let refused = handler.handle(&delivery(&elsewhere)).await;
    assert_eq!(refused, Outcome::dead("there is no such workspace"));
}

async fn a_state_that_is_too_long_leaves_its_size_and_hash(world: &World) {
    let cx = acme(world).await;
    let long = "x".repeat(Change::MAX_STATE_BYTES);
    let change = Change::new("note.put", "note", "n".repeat(300)).after(json!({ "text": long }));
    assert!(cx.audited(&change).validate().is_ok());
    let odd = Change::new("note.put", "note", " ").after(json!("\u{ffff}\u{0}"));
    assert!(cx.audited(&odd).validate().is_ok());
    write(&cx, change).await;
    write(&cx, odd).await;
    let entries =
        all(&cx, Filter { action: Some("note.put".to_owned()), ..Filter::default() }).await;
    assert_eq!(entries[0].after, Some(json!({ "value": "\u{fffd}\u{0}" })));
    let after = entries[1].after.clone().unwrap();
    assert_eq!(after["bytes"], Change::MAX_STATE_BYTES + 11);
    assert_eq!(after["sha256"].as_str().unwrap().len(), 64);
    assert!(entries.iter().all(|entry| entry.target_id.starts_with("sha256:")));
}

async fn entries_are_found_by_whatever_is_known_of_them(world: &World) {
    let mut cx = acme(world).await;
    let other = workspaces::create(&world.access, "other".parse().unwrap()).await.unwrap();
    write(&world.access.inside(&other, Actor::Worker), Change::new("a.one", "x", "1")).await;
    let began = cx.now;
    for (minute, (actor, action, kind, id)) in [
        (Actor::Operator, "a.one", "x", "1"),
        (Actor::Worker, "a.two", "x", "2"),
        (Actor::Worker, "ab.one", "y", "1"),
        (Actor::User, "a.one", "y", "2"),
    ]
    .into_iter()
    .enumerate()
    {
        cx.actor = actor;
        cx.now = began + (minute as i64 + 1).minutes();
        write(&cx, Change::new(action, kind, id)).await;
    }
    let none = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    for (filter, found) in [
        (Filter { actor: text("worker"), ..none() }, "ab.one a.two"),
        (Filter { action: text("a"), ..none() }, "a.one a.two a.one"),
        (Filter { action: text("a."), ..none() }, "a.one a.two a.one"),
        (Filter { action: text("a.one"), ..none() }, "a.one a.one"),
        (Filter { action: text("a.on"), ..none() }, ""),
        (Filter { target_type: text("x"), target_id: text("1"), ..none() }, "a.one"),
        (Filter { target_type: text("y"), ..none() }, "a.one ab.one"),
        (Filter { target_id: text("2"), ..none() }, "a.one a.two"),
        (Filter { actor: text("worker"), action: text("a"), ..none() }, "a.two"),
        (Filter { actor: text("worker"), target_type: text("y"), ..none() }, "ab.one"),
        (Filter { since: Some(began + 3.minutes()), ..none() }, "a.one ab.one"),
        (Filter { until: Some(began + 2.minutes()), ..none() }, "a.one workspace.create"),
    ] {
        let entries = all(&cx, filter.clone()).await;
        let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions.join(" "), found, "{filter:?}");
    }
}

async fn a_page_that_finds_little_says_where_to_go_on(world: &World) {
    let cx = acme(world).await;
    write(&cx, Change::new("rare.thing", "x", "1")).await;
    let within = cx.clone();
    let many = cx.database.write(move |tx| {
        let sql = "INSERT INTO audit_log (workspace_id, actor, action, target_type, target_id, happened_at)
                   VALUES ($1, 'operator', 'often.thing', 'x', '1', $2)";
        let at = Param::Int(within.now.as_millisecond());
        (0..4_500).try_for_each(|_| {
            tx.execute(sql, &[Param::Int(within.workspace.get()), at]).map(drop)
        })
    });
    many.await.unwrap();
    let filter = Filter {
        actor: Some("operator".to_owned()),
        action: Some("rare".to_owned()),
        ..Filter::default()
    };
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let page = list(&cx, filter.clone(), after, Limit::MAX).await.unwrap();
        (pages, after) = (pages + 1, page.next);
        found.extend(page.items);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, found.len()), (3, 1));
    assert_eq!(found[0].action, "rare.thing");

    let filter = Filter { action: Some("often".to_owned()), ..Filter::default() };
    let (mut after, mut ids) = (None, std::collections::BTreeSet::new());
    loop {
        let page = list(&cx, filter.clone(), after, Limit::MAX).await.unwrap();
        ids.extend(page.items.iter().map(|entry| entry.id));
        after = page.next;
        match after {
            Some(position) => assert_eq!(position.to_string().parse(), Ok(position)),
            None => break,
        }
    }
    assert_eq!(ids.len(), 4_500);
    for refused in ["", "1", "-", "1-", "-1-2", "+1-2", "1-x", "99999999999999999999-1"] {
        assert!(refused.parse::<super::Position>().is_err(), "{refused}");
    }
}

async fn what_concerns_the_installation_is_apart(world: &World) {
    let cx = acme(world).await;
    let access = world.access.clone();
    let change = Change::new("queue.purge", "queue", "probe").before(json!({ "dead": 3 }));
    world.access.database.write(move |tx| access.record_change(tx, &change)).await.unwrap();
    let page = list_of_installation(&world.access, Filter::default(), None, Limit::MAX).await;
    let found = page.unwrap().items;
    assert_eq!((found.len(), found[0].action.as_str()), (1, "queue.purge"));
    assert_eq!(all(&cx, Filter::default()).await.len(), 1);
}
