//! Workspaces, clients and keys as an operator and a caller meet them, on both engines.

pub(crate) mod engines;

use std::sync::Arc;

use jiff::ToSpan;
use tidings_sql::{DatabaseError, Param};
use tidings_testkit::FakeClock;

use crate::keys::{self, Granter, Rate};
use crate::{
    Access, Actor, AuthError, Bootstrap, BootstrapError, Cx, DisplayName, Limit, Scope, Scopes,
    Slug, authenticate, bootstrap, clients, workspaces,
};
use engines::World;

tidings_testkit::each_engine!(
    the_first_key_can_do_everything,
    bootstrap_makes_everything_once,
    two_bootstraps_at_once_make_one,
    names_are_taken_once_in_a_workspace,
    lists_come_in_pages,
    whoever_is_refused_is_refused_for_his_reason,
    what_was_taken_away_can_be_given_back_but_not_a_revoked_key,
    nobody_gives_what_he_does_not_have,
    another_workspace_is_not_there,
    a_name_is_free_again_when_its_key_is_revoked,
    the_last_use_is_written_once_a_minute,
    what_another_node_takes_away_is_refused_within_a_second,
    every_change_is_in_the_audit_log_once,
);

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

fn name(text: &str) -> DisplayName {
    text.parse().unwrap()
}

async fn workspace(access: &Access, text: &str) -> Cx {
    let made = workspaces::create(access, text.parse().unwrap()).await.unwrap();
    let cx = access.inside(&made, Actor::Operator);
    let shop = clients::Create { slug: slug("shop"), name: name("Shop") };
    clients::create(&cx, shop).await.unwrap();
    cx
}

fn live_key(scopes: Scopes) -> keys::Create {
    keys::Create {
        client: slug("shop"),
        name: name("live"),
        scopes,
        rate: Rate::default(),
        expires_at: None,
        granted_by: Granter::Operator,
    }
}

async fn reason(access: &Access, presented: &str) -> &'static str {
    match authenticate(access, presented).await {
        Ok(_) => "admitted",
        Err(error) => error.reason(),
    }
}

fn first(workspace: &str, client: &str) -> Bootstrap {
    Bootstrap { workspace: workspace.parse().unwrap(), client: slug(client) }
}

async fn the_first_key_can_do_everything(world: &World) {
    let made = bootstrap(&world.access, first("acme", "app")).await.unwrap();
    let caller = authenticate(&world.access, &made.issued.api_key.expose()).await.unwrap();
    assert_eq!(caller.workspace.as_str(), "acme");
    assert_eq!((caller.client.as_str(), caller.client_id), ("app", made.client.id));
    assert_eq!((caller.workspace_id, caller.key_id), (made.workspace.id, made.issued.key.id));
    assert_eq!((&caller.scopes, caller.rate), (&Scopes::all(), Rate::default()));
}

async fn bootstrap_makes_everything_once(world: &World) {
    bootstrap(&world.access, first("acme", "app")).await.unwrap();
    let again = bootstrap(&world.access, first("other", "app")).await.unwrap_err();
    assert_eq!(again.to_string(), "this was done before: there is already a workspace, acme");
    let all = workspaces::list(&world.access, None, Limit::MAX).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

async fn two_bootstraps_at_once_make_one(world: &World) {
    let (a, b) = tokio::join!(
        bootstrap(&world.access, first("a", "app")),
        bootstrap(&world.access, first("b", "app"))
    );
    let refused = [a.map(drop), b.map(drop)].into_iter().filter_map(Result::err);
    let refused: Vec<_> = refused.collect();
    assert!(matches!(refused.as_slice(), [BootstrapError::Done(_)]), "{refused:?}");
    let all = workspaces::list(&world.access, None, Limit::MAX).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

async fn names_are_taken_once_in_a_workspace(world: &World) {
    let cx = workspace(&world.access, "acme").await;
    let taken = workspaces::create(&world.access, "acme".parse().unwrap()).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already a workspace acme");
    let shop = clients::Create { slug: slug("shop"), name: name("Another") };
    let taken = clients::create(&cx, shop).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already a client shop");
    assert_eq!(clients::find(&cx, slug("shop")).await.unwrap().name.as_str(), "Shop");

    keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let taken = keys::create(&cx, live_key(Scopes::all())).await.unwrap_err();
    assert!(matches!(taken, keys::CreateError::Taken { .. }), "{taken:?}");
    // In another workspace all of them are free.
    let other = workspace(&world.access, "other").await;
    keys::create(&other, live_key(Scopes::all())).await.unwrap();
}

async fn lists_come_in_pages(world: &World) {
    let cx = workspace(&world.access, "acme").await;
    for text in ["app", "blog", "z"] {
        let create = clients::Create { slug: slug(text), name: name(text) };
        clients::create(&cx, create).await.unwrap();
        keys::create(&cx, keys::Create { name: name(text), ..live_key(Scopes::all()) })
            .await
            .unwrap();
        workspaces::create(&world.access, text.parse().unwrap()).await.unwrap();
    }
    let two = Limit::try_from(2).unwrap();
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = clients::list(&cx, after, two).await.unwrap();
        pages.push(page.items.iter().map(|one| one.slug.to_string()).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [["app", "blog"], ["shop", "z"]]);

    let page = keys::list(&cx, slug("shop"), None, two).await.unwrap();
    let rest = keys::list(&cx, slug("shop"), page.next, two).await.unwrap();
    let names = page.items.iter().chain(&rest.items).map(|key| key.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["app", "blog", "z"]);
    assert_eq!(rest.next, None);

    let page = workspaces::list(&world.access, None, two).await.unwrap();
    let rest = workspaces::list(&world.access, page.next, two).await.unwrap();
    let names = page.items.iter().chain(&rest.items).map(|one| one.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["acme", "app", "blog", "z"]);
}

async fn whoever_is_refused_is_refused_for_his_reason(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let expires_at = Some(access.now() + 1.hour());
    let create = keys::Create { expires_at, ..live_key(Scopes::all()) };
    let issued = keys::create(&cx, create).await.unwrap();
    let text = issued.api_key.expose();
    let other = keys::ApiKey::generate().expose();
    let (stranger, (start, secret)) = (other.clone(), other.split_at(17));
    assert_eq!(start.len(), "tdg_".len() + 12 + 1);

    assert_eq!(reason(access, &text).await, "admitted");
    assert_eq!(reason(access, "Bearer").await, "malformed");
    assert_eq!(reason(access, &stranger).await, "unknown");
    let forged = format!("tdg_{}_{secret}", issued.key.public_id);
    assert_eq!(reason(access, &forged).await, "wrong_secret");

    clients::disable(&cx, slug("shop")).await.unwrap();
    assert_eq!(reason(access, &text).await, "client_disabled");
    // Who does not know the secret learns nothing about the key.
    assert_eq!(reason(access, &forged).await, "wrong_secret");
    clients::enable(&cx, slug("shop")).await.unwrap();

    workspaces::disable(access, "acme".parse().unwrap()).await.unwrap();
    assert_eq!(reason(access, &text).await, "workspace_disabled");
    workspaces::enable(access, "acme".parse().unwrap()).await.unwrap();

    world.clock.advance(59.minutes());
    assert_eq!(reason(access, &text).await, "admitted");
    world.clock.advance(1.minutes());
    assert_eq!(reason(access, &text).await, "expired");
    keys::revoke(&cx, issued.key.public_id).await.unwrap();
    assert_eq!(reason(access, &text).await, "revoked");
}

async fn what_was_taken_away_can_be_given_back_but_not_a_revoked_key(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let issued = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let first = clients::disable(&cx, slug("shop")).await.unwrap().disabled_at;
    world.clock.advance(1.hour());
    let later = access.cx(cx.workspace, cx.workspace().clone(), Actor::Operator);
    let again = clients::disable(&later, slug("shop")).await.unwrap().disabled_at;
    assert_eq!((first, first.is_some()), (again, true));
    assert_eq!(clients::enable(&later, slug("shop")).await.unwrap().disabled_at, None);
    assert_eq!(reason(access, &issued.api_key.expose()).await, "admitted");

    let id = issued.key.public_id;
    let first = keys::revoke(&later, id.clone()).await.unwrap().revoked_at;
    world.clock.advance(1.hour());
    let later = access.cx(cx.workspace, cx.workspace().clone(), Actor::Operator);
    assert_eq!(
        (keys::revoke(&later, id).await.unwrap().revoked_at, first.is_some()),
        (first, true)
    );
}

async fn nobody_gives_what_he_does_not_have(world: &World) {
    let cx = workspace(&world.access, "acme").await;
    let own = Scopes::from_iter([Scope::Manage, Scope::Read]);
    let end = world.access.now() + 1.hour();
    let expires_at = Some(end);
    let giver = keys::Create { name: name("giver"), expires_at, ..live_key(own.clone()) };
    let giver = keys::create(&cx, giver).await.unwrap();
    let caller = authenticate(&world.access, &giver.api_key.expose()).await.unwrap();
    let granted_by = caller.as_granter();
    let create = keys::Create { expires_at, granted_by, ..live_key(Scopes::all()) };
    let refused = keys::create(&cx, create.clone()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a key cannot give what it does not have itself: send, inbox:user, inbox:admin, events, reminders:draft, reminders:approve"
    );
    let longer = keys::Create { scopes: own.clone(), expires_at: None, ..create.clone() };
    let refused = keys::create(&cx, longer).await.unwrap_err();
    let why = format!("your own key expires at {end}, and cannot give one that works longer");
    assert_eq!(refused.to_string(), format!("a key cannot give more than it has itself: {why}"));
    let past = keys::Create { expires_at: Some(world.access.now()), ..live_key(Scopes::all()) };
    let refused = keys::create(&cx, past).await.unwrap_err();
    assert!(matches!(refused, keys::CreateError::ExpiryPast), "{refused:?}");
    let all = keys::list(&cx, slug("shop"), None, Limit::MAX).await.unwrap();
    assert_eq!(all.items.len(), 1);
    let same = keys::Create { scopes: own, ..create };
    keys::create(&cx, same).await.unwrap();
}

async fn another_workspace_is_not_there(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let issued = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let app = clients::Create { slug: slug("app"), name: name("App") };
    clients::create(&cx, app).await.unwrap();
    let other = workspace(access, "other").await;

    assert!(clients::find(&other, slug("app")).await.is_err());
    assert!(clients::disable(&other, slug("app")).await.is_err());
    assert!(clients::enable(&other, slug("app")).await.is_err());
    assert!(keys::revoke(&other, issued.key.public_id.clone()).await.is_err());
    assert!(keys::list(&other, slug("app"), None, Limit::MAX).await.is_err());
    let create = keys::Create { client: slug("app"), ..live_key(Scopes::all()) };
    assert!(keys::create(&other, create).await.is_err());
    assert_eq!(clients::list(&other, None, Limit::MAX).await.unwrap().items.len(), 1);
    assert_eq!(reason(access, &issued.api_key.expose()).await, "admitted");
}

async fn a_name_is_free_again_when_its_key_is_revoked(world: &World) {
    let cx = workspace(&world.access, "acme").await;
    let old = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    keys::revoke(&cx, old.key.public_id).await.unwrap();
    let new = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    assert_eq!(reason(&world.access, &old.api_key.expose()).await, "revoked");
    assert_eq!(reason(&world.access, &new.api_key.expose()).await, "admitted");
}

async fn the_last_use_is_written_once_a_minute(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let issued = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let text = issued.api_key.expose();
    let last_use = async || {
        let page = keys::list(&cx, slug("shop"), None, Limit::MAX).await.unwrap();
        page.items[0].last_used_at
    };
    assert_eq!(last_use().await, None);
    let start = access.now();
    for (seconds, expected) in [(0, 0), (59, 0), (1, 60), (30, 60), (30, 120)] {
        world.clock.advance(seconds.seconds());
        authenticate(access, &text).await.unwrap();
        assert_eq!(last_use().await, Some(start + expected.seconds()), "{seconds}");
    }
    // Another node, whose clock is behind, does not turn it back.
    let behind = World::another_node(access, FakeClock::at(start + 90.seconds()));
    authenticate(&behind, &text).await.unwrap();
    assert_eq!(last_use().await, Some(start + 120.seconds()));
    // Whoever is refused has not used the key.
    keys::revoke(&cx, issued.key.public_id).await.unwrap();
    world.clock.advance(1.hour());
    assert!(matches!(authenticate(access, &text).await, Err(AuthError::Revoked)));
    assert_eq!(last_use().await, Some(start + 120.seconds()));
}

async fn what_another_node_takes_away_is_refused_within_a_second(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let issued = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let text = issued.api_key.expose();
    let clock = FakeClock::at(access.now());
    let other = World::another_node(access, Arc::clone(&clock));
    assert_eq!(reason(access, &text).await, "admitted");
    assert_eq!(reason(&other, &text).await, "admitted");
    keys::revoke(&cx, issued.key.public_id).await.unwrap();
    assert_eq!(reason(access, &text).await, "revoked");
    // For as long as the other remembers the key, it still asks for its secret.
    let wrong = format!("{}0", &text[..text.len() - 1]);
    let wrong = if wrong == text { format!("{}1", &text[..text.len() - 1]) } else { wrong };
    assert_eq!(reason(&other, &wrong).await, "wrong_secret");
    clock.advance(1.second());
    assert_eq!(reason(&other, &text).await, "revoked");
}

async fn every_change_is_in_the_audit_log_once(world: &World) {
    let access = &world.access;
    let cx = workspace(access, "acme").await;
    let issued = keys::create(&cx, live_key(Scopes::all())).await.unwrap();
    let caller = authenticate(access, &issued.api_key.expose()).await.unwrap();
    let by_key = access.on_behalf_of(&caller);
    for _ in 0..2 {
        clients::disable(&by_key, slug("shop")).await.unwrap();
        workspaces::disable(access, "acme".parse().unwrap()).await.unwrap();
    }
    for _ in 0..2 {
        clients::enable(&by_key, slug("shop")).await.unwrap();
        workspaces::enable(access, "acme".parse().unwrap()).await.unwrap();
        keys::revoke(&cx, issued.key.public_id.clone()).await.unwrap();
    }
    let workspace = cx.workspace.get();
    let log = access.database.read(move |tx| {
        let sql = "SELECT actor, action FROM audit_log WHERE workspace_id = $1 ORDER BY id";
        let rows = tx.query(sql, &[Param::Int(workspace)])?;
        let lines = rows.iter().map(|row| Ok(format!("{} {}", row.text(0)?, row.text(1)?)));
        lines.collect::<Result<Vec<_>, DatabaseError>>()
    });
    let log = log.await.unwrap().join("\n").replace(issued.key.public_id.as_str(), "ID");
    let expected = "operator workspace.create
operator client.create
operator key.create
key:ID client.disable
operator workspace.disable
key:ID client.enable
operator workspace.enable
operator key.revoke";
    assert_eq!(log, expected);
}
