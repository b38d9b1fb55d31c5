//! What each clause means.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tidings_kernel::{Item, Value};
use tidings_people::contacts::Profile;

use super::forms::condition;
use crate::audience::{Condition, Facts, Subject, explain, matches};

fn to_value(json: &Json) -> Value {
    serde_json::from_value(json.clone()).unwrap()
}

fn facts() -> Facts {
    let profile = json!({
        "PK": "SUB#ada@x.org", "SK": "PROFILE", "email": "ada@x.org", "tags": ["beta", "vip"],
        "plan": "pro", "age": 41, "score": 7.5, "admin": true, "none": null, "unset": null, "digits": "41",
        "joined": "2026-03-01T10:00:00+02:00", "born": "1984-05-06", "langs": ["de", "en", 3],
    });
    let profile: Item = serde_json::from_value(profile).unwrap();
    let other = json!({"PK": "SUB#ada@y.org", "tags": ["old"], "plan": "free", "unset": 7, "zone": "north"});
    let other: Item = serde_json::from_value(other).unwrap();
    let feature = |name: &str, value: Json| (Subject::Feature(name.to_owned()), to_value(&value));
    let memory = Subject::Memory { memory_type: "purchase".into(), key: "product:a".into() };
    Facts {
        segments: ["big".parse().unwrap()].into(),
        addresses: ["ada@x.org", "ada@y.org"].map(|text| text.parse().unwrap()).into(),
        audiences: ["news".parse().unwrap()].into(),
        profile: Profile::from(profile),
        others: vec![Profile::from(other)],
        derived: BTreeMap::from([
            feature("opens_30d", json!(3)),
            feature("last_seen", json!("2026-06-01T00:00:00Z")),
            (memory, to_value(&json!(2))),
        ]),
        until: None,
    }
}

#[track_caller]
fn check(expected: bool, clauses: &[Json]) {
    let facts = facts();
    for clause in clauses {
        let condition =
            Condition::parse(clause, "").unwrap_or_else(|wrong| panic!("{clause}: {wrong:?}"));
        assert_eq!(matches(&condition, &facts), expected, "{clause}");
        assert_eq!(explain(&condition, &facts).met, expected, "{clause}");
    }
}

/// `{"attribute": name, test: value}` for each.
fn attribute(name: &str, tests: Json) -> Vec<Json> {
    let Json::Object(tests) = tests else { panic!("an object of tests") };
    tests.into_iter().map(|(test, value)| json!({"attribute": name, test: value})).collect()
}

#[test]
fn all_addresses_of_somebody_say_what_he_is() {
    check(
        true,
        &[
            json!({"all": [{"tag": "beta"}, {"tag": "old"}]}),
            json!({"attribute": "zone", "equals": "north"}),
            json!({"attribute": "unset", "equals": 7}),
            json!({"attribute": "plan", "equals": "pro"}),
        ],
    );
    check(false, &[json!({"attribute": "plan", "equals": "free"}), json!({"tag": "new"})]);
}

#[test]
fn people_are_met_by_what_they_are() {
    check(
        true,
        &[
            json!({}),
            json!({"tag": "beta"}),
            json!({"tags": {"all": ["beta", "vip"], "none": ["gone"]}}),
            json!({"tags": {"any": ["gone", "vip"]}}),
            json!({"audience": "news"}),
            json!({"segment": "big"}),
            json!({"contacts": ["ada@y.org"]}),
            json!({"any": [{"tag": "gone"}, {"tag": "vip"}]}),
            json!({"not": {"audience": "offers"}}),
            json!({"tags": ["beta"], "attributes": {"plan": "pro", "age": 41, "admin": true}}),
        ],
    );
    check(
        false,
        &[
            json!({"tag": "bet"}),
            json!({"tags": {"none": ["beta"]}}),
            json!({"audience": "offers"}),
            json!({"segment": "small"}),
            json!({"contacts": ["eve@x.org"]}),
            json!({"any": [{"tag": "gone"}, {"audience": "offers"}]}),
            json!({"all": [{"tag": "beta"}, {"tag": "gone"}]}),
            json!({"not": {}}),
            json!({"tags": ["beta"], "attributes": {"plan": "free"}}),
            json!({"attributes": {"age": "41"}}),
        ],
    );
}

#[test]
fn values_compare_as_what_they_are() {
    let met = [
        attribute(
            "plan",
            json!({"equals": "pro", "not_equals": "free", "in": ["free", "pro"], "contains": "r",
            "exists": true, "greater_than": "free", "at_most": "pro", "less_than": "pz"}),
        ),
        attribute(
            "age",
            json!({"equals": 41, "not_equals": "41", "in": [1, 41.0], "greater_than": 40.9, "less_than": 100,
            "at_least": 41, "at_most": 41, "exists": true}),
        ),
        attribute("score", json!({"equals": 7.50, "greater_than": 7, "less_than": 10})),
        attribute("admin", json!({"equals": true, "not_equals": false, "in": [true]})),
        attribute(
            "joined",
            json!({"equals": "2026-03-01T08:00:00Z", "greater_than": "2026-03-01T07:59:59Z",
            "less_than": "2026-03-01T09:00:00.5Z", "in": ["2026-03-01T08:00:00.000Z"]}),
        ),
        attribute("born", json!({"less_than": "1990-01-01", "at_least": "1984-05-06"})),
        attribute("langs", json!({"contains": "de", "exists": true})),
        attribute("langs", json!({"contains": 3})),
        attribute("nothing", json!({"exists": false, "not_equals": "x"})),
        // Null is nothing.
        attribute("none", json!({"exists": false, "not_equals": "x"})),
    ];
    met.iter().for_each(|clauses| check(true, clauses));
    let unmet = [
        attribute(
            "plan",
            json!({"equals": "Pro", "not_equals": "pro", "in": ["free"], "contains": "x", "exists": false,
            "greater_than": "pro", "less_than": 5, "at_least": 0}),
        ),
        attribute(
            "age",
            json!({"equals": "41", "greater_than": "40", "less_than": 5, "contains": 4, "at_least": 41.5}),
        ),
        // As text 41 is less than 5, as a number it is not, and the two are never compared.
        attribute("digits", json!({"equals": 41, "less_than": 50})),
        attribute("admin", json!({"equals": "true", "greater_than": "false"})),
        attribute(
            "joined",
            json!({"greater_than": "2026-03-01T08:00:00Z", "not_equals": "2026-03-01T08:00:00Z"}),
        ),
        attribute("langs", json!({"equals": "de", "contains": "d", "greater_than": "a"})),
        attribute(
            "nothing",
            json!({"equals": "x", "greater_than": 0, "less_than": 0, "at_least": 0, "at_most": 0, "in": ["x"],
            "contains": "x", "exists": true}),
        ),
        attribute("none", json!({"exists": true})),
    ];
    unmet.iter().for_each(|clauses| check(false, clauses));
}

#[test]
fn what_was_derived_compares_alike() {
    check(
        true,
        &[
            json!({"feature": "opens_30d", "at_least": 3}),
            json!({"feature": "last_seen", "less_than": "2026-06-01T02:00:00+01:00"}),
            json!({"feature": "gone", "exists": false}),
            json!({"memory": "purchase/product:a", "greater_than": 1}),
            json!({"memory": "purchase/product:b", "not_equals": 1}),
        ],
    );
    check(
        false,
        &[
            json!({"feature": "opens_30d", "greater_than": 3}),
            json!({"feature": "gone", "equals": 0}),
            json!({"memory": "purchase/product:b", "exists": true}),
            // An attribute and a feature of the same name are two things.
            json!({"feature": "age", "exists": true}),
            json!({"attribute": "opens_30d", "exists": true}),
        ],
    );
}

#[test]
fn an_explanation_names_every_fact() {
    let condition = json!({"all": [
        {"tag": "beta"},
        {"any": [{"attribute": "plan", "in": ["free", "team"]}, {"audience": "offers"}]},
        {"not": {"feature": "gone", "exists": true}},
        {"contacts": ["eve@x.org", "bob@x.org"]},
    ]});
    let told = explain(&Condition::parse(&condition, "").unwrap(), &facts());
    insta::assert_snapshot!(serde_json::to_string_pretty(&told).unwrap(), @r#"
    {
      "clause": "all of",
      "met": false,
      "fact": "2 of 4 are met",
      "parts": [
        {
          "clause": "tag beta",
          "met": true,
          "fact": "tagged so"
        },
        {
          "clause": "any of",
          "met": false,
          "fact": "0 of 2 are met",
          "parts": [
            {
              "clause": "attribute plan is one of \"free\", \"team\"",
              "met": false,
              "fact": "it is \"pro\""
            },
            {
              "clause": "audience offers",
              "met": false,
              "fact": "not subscribed"
            }
          ]
        },
        {
          "clause": "not",
          "met": true,
          "fact": "it is not met",
          "parts": [
            {
              "clause": "feature gone is known",
              "met": false,
              "fact": "nothing is known of it"
            }
          ]
        },
        {
          "clause": "one of 2 listed addresses",
          "met": false,
          "fact": "not listed"
        }
      ]
    }
    "#);
}

proptest! {
    #[test]
    fn an_explanation_says_what_is_so(condition in condition()) {
        let facts = facts();
        let told = explain(&condition, &facts);
        prop_assert_eq!(told.met, matches(&condition, &facts));
        let not = Condition::Not(Box::new(condition));
        prop_assert_eq!(matches(&not, &facts), !told.met);
    }
}
