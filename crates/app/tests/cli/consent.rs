//! What people agreed to, by the command line.

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn an_operator_subscribes_explains_and_gives_reasons() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    let made = json(&world.ok(&["audiences", "create", "news", "--name", "The news"]));
    assert_eq!((&made["slug"], &made["double_opt_in"]), (&"news".into(), &false.into()));
    world.ok(&["topics", "create", "tips"]);
    let ada = "ada@example.org";
    let explain = ["explain", ada, "--kind", "campaign", "--client", "shop", "--audience", "news"];
    assert_eq!(json(&world.ok(&explain))["reason"], "not_subscribed");
    let subscribe = ["subscriptions", "subscribe", ada, "--audience", "news"];
    assert_eq!(json(&world.ok(&subscribe))["subscription"]["status"], "subscribed");
    assert_eq!(json(&world.ok(&explain))["verdict"], "send");
    let leave = ["subscriptions", "unsubscribe", ada, "--scope", "audience", "--audience", "news"];
    assert_eq!(json(&world.ok(&leave))["changed"], true);
    assert_eq!(json(&world.ok(&leave))["changed"], false);
    assert_snapshot!("explained", world.ok(&explain).replace(&left_at(&world), "[time]"));

    let refused = world.run(&subscribe);
    assert_eq!(refused.code, 1);
    assert_snapshot!("subscribe_needs_reason", refused.stderr);
    let with_reason = [&subscribe[..], &["--reason", "asked on the phone"]].concat();
    assert_eq!(json(&world.ok(&with_reason))["subscription"]["status"], "subscribed");
    let proof = world.ok(&["subscriptions", "proof", ada]);
    let actions: Vec<_> = proof.lines().map(|line| json(line)["action"].clone()).collect();
    assert_eq!(actions, ["resubscribed", "unsubscribed", "subscribed"]);

    let missing = world.run(&["subscriptions", "subscribe", ada, "--audience", "none"]);
    assert_snapshot!("audience_missing", missing.stderr);
    let missing = world.run(&["subscriptions", "unsubscribe", ada, "--scope", "client"]);
    assert_eq!(missing.code, 2);
}

fn left_at(world: &World) -> String {
    let listed = json(&world.ok(&["subscriptions", "list", "ada@example.org"]));
    listed["unsubscribed_at"].as_str().unwrap().to_owned()
}

#[test]
fn sending_settings_are_set_and_shown() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let set = ["settings", "sending", "--frequency-cap-count", "3", "--frequency-cap-hours", "24"];
    let quiet =
        ["--quiet-from", "21:00", "--quiet-until", "08:00", "--quiet-zone", "Europe/Berlin"];
    let set = json(&world.ok(&[&set[..], &quiet].concat()));
    assert_eq!((&set["quiet_from"], &set["frequency_cap_hours"]), (&"21:00".into(), &24.into()));
    assert_eq!(json(&world.ok(&["settings", "show"])), set);
    let half = world.run(&["settings", "sending", "--quiet-from", "21:00"]);
    assert_eq!(half.code, 2);
    assert_snapshot!("settings_half", half.stderr);
}
