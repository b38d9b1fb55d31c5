//! What is wrong with a definition is told, all at once, with its line and what to do.

use serde_json::{Value, json};

use crate::definition::{MAX_BYTES, from_json, from_json_for, mark, read, read_for};

fn told(text: &str) -> String {
    let faults = read(text).err().unwrap_or_default();
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

#[test]
fn all_faults_of_a_file_are_told_in_the_order_of_its_lines() {
    insta::assert_snapshot!(told(
        r#"
id: On Boarding
name: ""
clients: shop
sender: 7
transactional: yes
audience: newsletter
trigger:
  events: user.signed_up
  map: { email: email, attributes: { unsubscribed: $.x, plan: plan } }
  filter: [ { path: $.plan }, { path: $.plan, equal: pro }, { equals: 1 }, plan ]
timeout: 11 weeks 20 years
reentry: never
window: { days: [], from: 25:00, until: "24:00", zone: Mars/Base }
exit_on: [ user.cancelled ]
exitOn: [ "", { event: a, map: { firstName: $.x } } ]
events: [ { send: partials/footer } ]
steps:
  - sends: onboarding/welcome
  - send: Onboarding
    subject: ""
    wait: 1 day
  - send: { template: a }
    subject: Hello
  - send: { variants: [ { template: a } ] }
  - inbox: { titel: hello, body: { a: 1 }, cta_uri: "javascript:x", category: "a b", expires_in: 1h }
  - wait: { weekday: someday }
  - wait_for: user.activated
    filter: { path: $.x }
  - choice: plan
    branches:
      - { value: 1 }
      - { value: "1" }
      - { value: [1], steps: {} }
  - condition: { has_opened: a, has_clicked: b }
  - condition: { has_read: a }
    then:
      - id: 3rd
        send: x
      - { id: same, send: x }
      - { id: same, send: y }
  - condition: { matches: { all: [ { tag: "no tag" }, { colour: red } ] } }
    then: []
  - condition: { subscriber_field_equals: { field: tags } }
    else: []
  - tag: { add: [a, "b c"], remove: [a] }
  - tag: {}
  - set: { email: x, deep: { a: [ $.plan ] }, path: $.a.. }
  - set: {}
  - webhook: { data: { x: 1 } }
  - exit: [ 1 ]
  - nothing
"#
    ));
}

#[test]
fn what_is_no_yaml_or_too_much_of_it_is_refused() {
    let check = |text: &str, expected: &str| assert_eq!(told(text), expected, "{text}");
    check("", "there is nothing in it\n");
    check("# only a comment\n", "there is nothing in it\n");
    check("[]", "line 1: use an object with id, client and steps\n");
    check("a: 1\nb: 2\na: 3\n", "line 3: a: this key is there twice; leave one of them\n");
    check(
        "a: &x [1]\nb: *x\n",
        "line 1: a: an anchor (&name) is not read; write it out where it is used\nline 2: b: an alias (*name) is not read; write it out\n",
    );
    check("a: !secret x\n", "line 1: a: tags (!name) are not read; leave it out\n");
    check(
        "a: 1e999\n",
        "line 1: a: this number is too large; put it in quotes to make it a text\n",
    );
    check("a: 007\n", "line 1: a: put this in quotes if its zeros matter, or leave them out\n");
    check(
        "a: -99999999999999999999\n",
        "line 1: a: this number is too large; put it in quotes to make it a text\n",
    );
    check("? [a]\n: b\n", "line 1: use a plain word as a key\n");
    check(
        "a: 1\n---\nb: 2\n",
        "line 2: a file has one document; put each into a file of its own\n",
    );
    check(&"x".repeat(MAX_BYTES + 1), "a file has at most 256 KB\n");
    insta::assert_snapshot!(told("id: x\nsteps:\n  - send: \"a\n"));
    insta::assert_snapshot!(told("id: x\n  name: y\n"));
    insta::assert_snapshot!(told(&format!("a: {}", "[".repeat(200))));
    insta::assert_snapshot!(told(&"- {}\n".repeat(51_000)));
}

fn with(field: &str, value: Value) -> Vec<String> {
    let mut json = json!({ "id": "x", "client": "shop", "steps": [{ "exit": {} }] });
    json[field] = value;
    let faults = from_json(&json).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_too_much_is_refused() {
    let check =
        |field: &str, value: Value, expected: &[&str]| assert_eq!(with(field, value), expected);
    let many = |value: Value, count: usize| Value::Array(vec![value; count]);
    check(
        "steps",
        json!([]),
        &["steps: there is nothing in it; begin with a step such as - send: onboarding/welcome"],
    );
    check("steps", many(json!({"exit": {}}), 500), &[]);
    check("steps", many(json!({"exit": {}}), 501), &["steps: use a list of at most 500"]);
    let two = json!({"condition": {"has_opened": "a"}, "then": many(json!({"exit": {}}), 250)});
    check("steps", many(two, 2), &["steps[1].then[248]: a sequence has at most 500 steps in all"]);
    check("exitOn", many(json!("e"), 20), &[]);
    check("exitOn", many(json!("e"), 21), &["exitOn: use a list of at most 20"]);
    check(
        "events",
        many(json!({"event": "e", "send": "a"}), 21),
        &["events: use a list of at most 20"],
    );
    let clause = json!({"path": "$.a", "at_least": 1, "at_most": 2});
    check("trigger", json!({"event": "e", "filter": many(clause.clone(), 10)}), &[]);
    check(
        "trigger",
        json!({"event": "e", "filter": many(clause, 11)}),
        &["trigger.filter: use at most 20 tests in all"],
    );
    check(
        "steps",
        json!([{"send": {"variants": many(json!({"template": "a"}), 11)}}]),
        &["steps[0].send.variants: use a list of at most 10"],
    );
    let branches: Vec<_> = (0..101).map(|value| json!({"value": value})).collect();
    check("steps", json!([{"choice": "$.a", "branches": branches[..100]}]), &[]);
    check(
        "steps",
        json!([{"choice": "$.a", "branches": branches}]),
        &["steps[0].branches: use a list of at most 100"],
    );
    check("name", json!("x".repeat(101)), &["name: use 1 to 100 characters on one line"]);
    check("timeout", json!("3650 days"), &[]);
    check("timeout", json!("3651 days"), &["timeout: use at most 10 years"]);
    check(
        "timeout",
        json!("0 days"),
        &["timeout: it is 1 minute at least; leave it out for 1 year"],
    );
    check(
        "steps",
        json!([{"set": {"a": "x".repeat(40_000)}}]),
        &["steps[0].set: all attributes together have at most 32 KB"],
    );
    check(
        "steps",
        json!([{"webhook": {"event": "e", "data": {"a": "x".repeat(40_000)}}}]),
        &["steps[0].webhook.data: use at most 32 KB of data"],
    );
    // So many are told and no more.
    assert_eq!(with("steps", many(json!({}), 400)).len(), 100);
}

#[test]
fn branches_are_nested_16_deep() {
    let nested = |depth: usize| {
        (0..depth).fold(
            json!([{"exit": {}}]),
            |steps, _| json!([{"condition": {"has_opened": "a"}, "then": steps}]),
        )
    };
    assert_eq!(with("steps", nested(16)), Vec::<String>::new());
    let faults = with("steps", nested(17));
    assert_eq!(faults.len(), 1);
    assert!(faults[0].ends_with(".then: branches are nested at most 16 deep"), "{faults:?}");
    // What is read from a file may be as deep.
    let json = json!({ "id": "x", "client": "shop", "steps": nested(16) });
    assert!(read(&json.to_string()).is_ok());
}

#[test]
fn only_marketing_has_an_audience_and_a_topic() {
    let json = json!({ "id": "x", "client": "shop", "transactional": true, "audience": "news", "topic": "tips", "steps": [{"exit": {}}] });
    let faults: Vec<_> = from_json(&json).unwrap_err().iter().map(ToString::to_string).collect();
    let message = "a transactional sequence asks for no subscription; leave this out, or leave transactional out";
    assert_eq!(faults, [format!("audience: {message}"), format!("topic: {message}")]);
}

#[test]
fn an_event_has_a_plain_name() {
    for good in [
        "user.signed_up",
        "Order Completed",
        "a",
        "billing:v2/paid-late",
        "Bestellung bestätigt",
        &"x".repeat(100),
    ] {
        assert_eq!(with("exitOn", json!([good])), Vec::<String>::new(), "{good}");
    }
    for bad in ["", " a", "a ", "a#b", "a\nb", "a\"b", &"x".repeat(101)] {
        assert_eq!(with("exitOn", json!([bad])).len(), 1, "{bad}");
    }
}

/// Each of these has made some reader of YAML slow or deep.
#[test]
fn the_largest_texts_are_answered() {
    for part in [
        "[", "{", "- ", "? ", "a: ", "[a,", "{a: b,", "\"", "'", "|\n ", "&a ", "*a ", "!t ", "#",
        "\n", " ", "\t", "a", "%", "---\n", "a:\n ", "\\u",
    ] {
        let text = part.repeat(MAX_BYTES / part.len());
        assert!(read(&text).is_err(), "{part:?}");
        assert!(read(&format!("id: x\nsteps: {}", &text[..MAX_BYTES - 20])).is_err(), "{part:?}");
    }
}

#[test]
fn what_is_known_beforehand_is_left_out_or_said_the_same() {
    let known = [("id", "welcome"), ("client", "shop")];
    let steps = "steps: [ { wait: 1 day } ]";
    let whole = read(&format!("id: welcome\nclient: shop\n{steps}")).unwrap();
    for text in ["", "id: welcome", "id: null\nclient: shop"] {
        assert_eq!(read_for(&format!("{text}\n{steps}"), &known).unwrap(), whole);
    }
    let faults = read_for("\nclient: app\nid: other\nsteps: [ { wait: soon } ]", &known);
    let faults = faults.unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.path())).collect();
    let wanted = [(2, "client"), (3, "id"), (4, "steps[0].wait")];
    assert_eq!(places, wanted.map(|(line, path)| (Some(line), path.to_owned())));
    // What is no text is told once, by the reader.
    let faults = from_json_for(json!({ "id": 7, "steps": [{ "wait": "1 day" }] }), &known);
    assert_eq!(faults.unwrap_err().len(), 1);
    assert_eq!(from_json_for(json!([]), &known).unwrap_err().len(), 1);
}

#[test]
fn what_is_found_later_has_its_line() {
    let mut faults = from_json(&json!({})).unwrap_err();
    mark("client: shop\nsteps:\n  - send: a\n", &mut faults);
    assert!(faults.iter().all(|fault| fault.line.is_some()), "{faults:?}");
}
