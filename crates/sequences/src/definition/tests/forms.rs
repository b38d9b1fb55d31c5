//! How a definition is written.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::random;
use crate::definition::read::{CHECKS, KEYS, KINDS};
use crate::definition::{Action, Path, Setting, Wait, from_json, line_of, read, schema, to_json};

/// Everything that can be written, once.
const EVERYTHING: &str = r#"
# A comment.
id: everything
name: Everything at once
description: |
  Two lines,
  as they are.
client: shop
sender: hello
audience: newsletter
topic: tips
trigger:
  event: user.signed_up
  map: { email: $.email, firstName: $.user.name, attributes: $.traits }
  filter:
    - { path: $.plan, equals: pro }
    - { path: "$.items[0].count", at_least: 2, less_than: 10.5 }
    - { path: "$['first name']", in: [a, 1, true] }
timeout: 30 days
reentry: { after: { weeks: 2, days: 1 } }
window: { days: [fri, Monday, mon], from: "9:00", until: 17:30, zone: europe/berlin }
exitOn:
  - user.cancelled
  - event: email.replied
  - { event: user.moved, map: { email: $.old }, filter: [ { path: $.why, exists: false } ] }
events:
  - { event: user.password_changed, send: account/password-changed, subject: Your new password, map: { attributes: { plan: $.plan } } }
steps:
  - send: onboarding/welcome
    subject: "Hello {{ firstName }}"
  - send: { variants: [ { template: a, subject: One }, { template: b } ] }
  - wait: 2 days 4 hours
  - wait: { until: "09:00", weekday: mon, zone: Europe/Berlin }
  - id: activation
    wait_for: user.activated
    filter: [ { path: $.plan, not_equals: free } ]
    timeout: 3 days
    then: []
    else:
      - send: onboarding/help
  - choice: $.plan
    branches:
      - { value: pro, steps: [ { send: onboarding/pro } ] }
      - { value: 7, steps: [ { send: onboarding/seven } ] }
      - { value: free }
      - { value: default, steps: [ { wait: 1 minute } ] }
    default:
      - wait: 90 minutes
  - condition: { has_been_sent: onboarding/welcome }
    then: [ { condition: { has_opened: a }, else: [ { exit: not interested } ] } ]
  - condition: { has_clicked: a }
    else: [ { exit: {} } ]
  - condition: { subscriber_field_exists: phone }
    then: [ exit: ]
  - condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: []
  - condition: { in_audience: newsletter }
    then: []
  - condition: { matches: { all: [ { tag: beta }, { feature: opens_30d, at_least: 1 } ] } }
    then: []
  - tag: { add: [Customer, beta], remove: [trial] }
  - inbox: { inbox: app, title: $.title, body: { plan: $.plan, price: $$.5, list: [1] }, cta_uri: /start, category: tips, expires_in: 7d }
  - inbox: { inbox: app, title: $$.title, body: Hello }
  - set: { plan: pro, source: $.utm.source, price: $5, literal: $$.plan, gone: null, list: [1, two] }
  - webhook: { event: trial.ending, data: { plan: $.plan, days: 3 } }
"#;

#[test]
fn everything_that_can_be_written_is_read_and_has_one_form() {
    let definition = read(EVERYTHING).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let written = to_json(&definition);
    insta::assert_snapshot!(serde_json::to_string_pretty(&written).unwrap());
    assert_eq!(from_json(&written).as_ref(), Ok(&definition));
    // JSON is YAML.
    assert_eq!(read(&written.to_string()).as_ref(), Ok(&definition));
    assert_eq!(read(&format!("\u{feff}{written:#}")).as_ref(), Ok(&definition));
    assert_eq!(read(&EVERYTHING.replace('\n', "\r\n")).as_ref(), Ok(&definition));
}

#[test]
fn a_step_without_a_name_is_called_by_its_place() {
    let definition = read(EVERYTHING).unwrap();
    let program = crate::definition::Program::of(definition);
    let ids: Vec<_> = program.places.iter().map(|place| place.step.as_str()).collect();
    insta::assert_snapshot!(ids.join(" "));
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(definition in random::definition()) {
        let written = to_json(&definition);
        let again = from_json(&written);
        prop_assert_eq!(again.as_ref(), Ok(&definition), "{}", written);
        prop_assert_eq!(read(&format!("{written:#}")), Ok(definition));
    }

    #[test]
    fn whatever_comes_in_is_answered(
        text in "[-\\[\\]{}:,\"'a-z0-9 \n&*!|>#%@$~.]{0,80}",
        definition in random::definition(),
        place in any::<prop::sample::Index>(),
        put in "[\\PC\n\t]{0,4}",
    ) {
        let _ = read(&text);
        let _ = read(&format!("id: x\nclient: shop\nsteps:\n{text}"));
        // One character of a good one is another.
        let mut written = to_json(&definition).to_string();
        let at = place.index(written.len());
        if written.is_char_boundary(at) {
            written.insert_str(at, &put);
        }
        let _ = read(&written);
    }
}

#[track_caller]
fn waits(wait: &Value, expected: &str) {
    let json = json!({ "id": "x", "client": "shop", "steps": [{ "wait": wait }] });
    let read = from_json(&json);
    let told = match &read {
        Ok(definition) => match &definition.steps[0].action {
            Action::Wait(Wait::For(_)) => {
                to_json(definition)["steps"][0]["wait"].as_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        },
        Err(faults) => faults[0].message.clone(),
    };
    assert_eq!(told, expected, "{json}");
}

#[test]
fn how_long_is_written_in_words() {
    waits(&json!("2 days"), "2 days");
    waits(&json!(" 1 DAY 1hour 1 min "), "1 day 1 hour 1 minute");
    waits(&json!("1w 2d"), "9 days");
    waits(&json!("90 minutes"), "1 hour 30 minutes");
    waits(&json!({"days": 1, "hours": 36}), "2 days 12 hours");
    waits(&json!("1825 days"), "1825 days");
    waits(&json!("1826 days"), "use at most 5 years");
    waits(
        &json!("99999999999999999999 days"),
        "use how long, such as 2 days, 4 hours or 2 days 4 hours",
    );
    waits(&json!({"weeks": u64::MAX}), "use at most 5 years");
    let zero = "a wait takes 1 minute at least; leave the step out to go on at once";
    for nothing in [json!("0 days"), json!({"days": 0}), json!({})] {
        waits(&nothing, zero);
    }
    waits(&json!(2), "say the unit too, such as 2 days or 30 minutes");
    waits(&json!("2 months"), "a month has no fixed length; use days or weeks");
    waits(&json!("1 year"), "a year has no fixed length; use days or weeks");
    waits(&json!("30 seconds"), "nothing is shorter than a minute; use minutes");
    waits(&json!("1.5 days"), "use whole numbers, such as 36 hours for a day and a half");
    waits(&json!({"day": 2}), "this key is not known here; did you mean days?");
    waits(&json!({"days": -1}), "use a whole number that is not negative");
    for bad in ["", "soon", "2", "days 2", "2 hours 1 day", "1 day 1 day", "-1 day"] {
        waits(&json!(bad), "use how long, such as 2 days, 4 hours or 2 days 4 hours");
    }
}

#[test]
fn a_text_that_begins_as_a_path_is_one() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let json = json!({ "id": "x", "client": "shop", "steps": [{ "set": { "a": text } }] });
        let definition = from_json(&json).unwrap_or_else(|faults| panic!("{faults:?}"));
        let Action::Set(set) = &definition.steps[0].action else { panic!() };
        let told = match &set["a"] {
            Setting::FromTrigger(path) => Ok(path.text.as_str()),
            Setting::Value(value) => Err(value.as_str().unwrap()),
        };
        assert_eq!(told, expected, "{text}");
    };
    check("$.plan", Ok("$.plan"));
    check("$['a b']", Ok("$['a b']"));
    check("plan", Err("plan"));
    check("$5", Err("$5"));
    check("$", Err("$"));
    check("$$", Err("$"));
    check("$$.plan", Err("$.plan"));
    check("$$$.plan", Err("$$.plan"));
}

#[test]
fn a_path_names_one_thing() {
    let data = json!({"user": {"plan": "pro", "a b": 1, "none": null}, "items": [{"sku": "x"}, [5]], "ä-1": true});
    let check = |path: &str, expected: Option<Value>| {
        let path: Path = path.parse().unwrap();
        assert_eq!(path.find(&data), expected.as_ref(), "{path}");
    };
    check("$", Some(data.clone()));
    check("$.user.plan", Some(json!("pro")));
    check("$['user'][\"plan\"]", Some(json!("pro")));
    check("$.user['a b']", Some(json!(1)));
    check("$.items[0].sku", Some(json!("x")));
    check("$.items[1][0]", Some(json!(5)));
    check("$.ä-1", Some(json!(true)));
    for nothing in
        ["$.user.none", "$.nothing.here", "$.items[2]", "$.user[0]", "$.items.sku", "$.user.plan.x"]
    {
        check(nothing, None);
    }
    let long = format!("$.{}", "a".repeat(199));
    let deep = format!("${}", ".a".repeat(21));
    for bad in [
        "",
        "plan",
        "$.",
        "$..a",
        "$.a.",
        "$.*",
        "$[*]",
        "$[-1]",
        "$[",
        "$[']",
        "$['']",
        "$.a b",
        "$[1",
        "$a",
        "$[100000]",
        &long,
        &deep,
    ] {
        assert!(bad.parse::<Path>().is_err(), "{bad}");
    }
}

#[test]
fn a_filter_compares_as_audiences_do() {
    let check = |filter: Value, data: Value, expected: bool| {
        let trigger = json!({ "event": "e", "filter": filter });
        let json =
            json!({ "id": "x", "client": "shop", "trigger": trigger, "steps": [{ "exit": {} }] });
        let definition = from_json(&json).unwrap_or_else(|faults| panic!("{faults:?}"));
        let filter = definition.trigger.unwrap().filter;
        assert_eq!(crate::definition::filter::holds(&filter, &data), expected, "{json} {data}");
    };
    check(json!([]), json!(null), true);
    check(json!([{"path": "$.plan", "equals": "pro"}]), json!({"plan": "pro"}), true);
    check(json!([{"path": "$.plan", "equals": "pro"}]), json!({"plan": ["pro"]}), false);
    check(json!([{"path": "$.plan", "equals": "pro"}]), json!({}), false);
    check(json!([{"path": "$.plan", "not_equals": "pro"}]), json!({}), true);
    check(json!([{"path": "$.n", "at_least": 2, "at_most": 3}]), json!({"n": 2.5}), true);
    check(json!([{"path": "$.n", "at_least": 2, "at_most": 3}]), json!({"n": 3.5}), false);
    check(json!([{"path": "$.n", "greater_than": 2}]), json!({"n": "3"}), false);
    check(json!([{"path": "$.tags", "contains": "a"}]), json!({"tags": ["b", "a"]}), true);
    check(
        json!([{"path": "$.at", "less_than": "2026-01-02T00:00:00Z"}]),
        json!({"at": "2026-01-01T23:30:00-02:00"}),
        false,
    );
    check(json!([{"path": "$.x", "exists": true}]), json!({"x": {"$n": "none"}}), true);
    check(json!([{"path": "$.x", "exists": true}]), json!({"x": null}), false);
    check(
        json!([{"path": "$.x", "in": [1, "b"]}, {"path": "$.y", "exists": true}]),
        json!({"x": "b", "y": 0}),
        true,
    );
}

#[test]
fn json_may_write_any_character_as_escapes() {
    let text = r#"{"id": "x", "client": "shop", "name": "\ud83d\ude00 \u00e4 \\ud83d", "steps": [{"exit": {}}]}"#;
    assert_eq!(read(text).unwrap().name.as_deref(), Some("😀 ä \\ud83d"));
}

#[test]
fn the_schema_is_checked_in_and_knows_every_key() {
    let schema = schema();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sequence.schema.json");
    if std::env::var_os("TIDINGS_TEST_REFRESH").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        checked_in == text,
        "docs/sequence.schema.json is stale: TIDINGS_TEST_REFRESH=1 cargo test -p tidings-sequences schema"
    );

    let keys = |value: &Value| {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let sorted = |names: &[&str]| {
        let mut names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(keys(&schema["properties"]), sorted(&KEYS));
    let check = &schema["$defs"]["condition_step"]["properties"]["condition"];
    assert_eq!(keys(&check["properties"]), sorted(&CHECKS));
    for kind in KINDS {
        assert!(schema["$defs"][format!("{kind}_step")]["properties"][kind].is_object(), "{kind}");
    }
    let mut referred = Vec::new();
    references(&schema, &mut referred);
    for reference in referred {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(schema.pointer(pointer).is_some(), "{reference}");
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn what_a_definition_names_is_listed_with_its_place() {
    let definition = read(EVERYTHING).unwrap();
    let events: Vec<_> = definition.events_named().into_iter().collect();
    assert_eq!(
        events,
        [
            "email.replied",
            "user.activated",
            "user.cancelled",
            "user.moved",
            "user.password_changed",
            "user.signed_up"
        ]
    );
    let written = to_json(&definition);
    let sent = definition.templates_sent();
    assert_eq!(sent.len(), 7);
    for (pointer, key) in sent {
        assert_eq!(written.pointer(&pointer), Some(&json!(key.as_str())), "{pointer}");
        let line = line_of(EVERYTHING, &pointer).unwrap();
        assert!(EVERYTHING.lines().nth(line - 1).unwrap().contains(key.as_str()), "{pointer}");
    }
    let asked = definition.audiences_asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(written.pointer(&asked[0].0), Some(&json!({"in_audience": "newsletter"})));
    assert_eq!(line_of("a: [", "/a"), None);
}
