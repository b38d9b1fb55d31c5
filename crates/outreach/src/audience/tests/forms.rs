//! How a condition is written.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tidings_kernel::Value;

use crate::audience::{
    Addresses, Condition, MAX_ADDRESSES, MAX_CONDITIONS, MAX_DEPTH, Subject, Test,
};

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(i64::from(number))),
        (any::<i32>(), 0..6_u32).prop_map(|(number, places)| {
            let text = format!("{}.{number:0>8}", places);
            text.replace('-', "").parse().map(Value::N).unwrap()
        }),
        "\\PC{0,12}".prop_map(Value::from),
    ]
}

fn test() -> impl Strategy<Value = Test> {
    let ordered = || value().prop_filter("has an order", |value| !matches!(value, Value::Bool(_)));
    prop_oneof![
        value().prop_map(Test::Equals),
        value().prop_map(Test::NotEquals),
        ordered().prop_map(Test::GreaterThan),
        ordered().prop_map(Test::LessThan),
        ordered().prop_map(Test::AtLeast),
        ordered().prop_map(Test::AtMost),
        proptest::collection::vec(value(), 1..4).prop_map(Test::In),
        value().prop_map(Test::Contains),
        any::<bool>().prop_map(Test::Exists),
    ]
}

fn subject() -> impl Strategy<Value = Subject> {
    prop_oneof![
        "x[a-zA-Z0-9_]{0,8}".prop_map(Subject::Attribute),
        "[a-z0-9][a-z0-9_.:-]{0,8}".prop_map(Subject::Feature),
        ("[a-z][a-z0-9_.:-]{0,8}", "[ -~]{1,12}")
            .prop_map(|(memory_type, key)| Subject::Memory { memory_type, key }),
    ]
}

pub(super) fn condition() -> impl Strategy<Value = Condition> {
    let address = "[a-e]@example\\.(org|com)".prop_map(|text| text.parse().unwrap());
    let clause = prop_oneof![
        Just(Condition::EVERYONE),
        "[a-z0-9][a-z0-9-]{0,5}".prop_map(|slug| Condition::Audience(slug.parse().unwrap())),
        "[a-z0-9][a-z0-9_-]{0,5}".prop_map(|tag| Condition::Tag(tag.parse().unwrap())),
        (subject(), test()).prop_map(|(subject, test)| Condition::Known(subject, test)),
        proptest::collection::vec(address, 1..5)
            .prop_map(|list| Condition::Contacts(Addresses::new(list))),
    ];
    clause.prop_recursive(6, 60, 4, |inner| {
        let some = |from| proptest::collection::vec(inner.clone(), from..4);
        prop_oneof![
            some(0).prop_map(Condition::All),
            some(1).prop_map(Condition::Any),
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(condition in condition()) {
        prop_assume!(condition.size() <= MAX_CONDITIONS && condition.depth() <= MAX_DEPTH);
        let written = condition.to_json();
        let read = Condition::parse(&written, "filter");
        prop_assert_eq!(read.as_ref(), Ok(&condition), "{}", written);
        prop_assert_eq!(serde_json::from_value::<Condition>(written).unwrap(), condition);
    }

    #[test]
    fn whatever_comes_in_is_answered(text in "[\\[\\]{}:,\"a-z0-9]{0,60}", condition in condition()) {
        if let Ok(json) = serde_json::from_str::<Json>(&text) {
            let _ = Condition::parse(&json, "");
        }
        // One field of a good one is another.
        let json = condition.to_json().to_string().replacen("\"a", "\"tags", 1);
        let _ = Condition::parse(&serde_json::from_str::<Json>(&json).unwrap(), "");
    }
}

#[track_caller]
fn check(written: &Json, canonical: &Json) {
    let read = Condition::parse(written, "filter");
    let read = read.unwrap_or_else(|wrong| panic!("{wrong:?}"));
    assert_eq!(read.to_json(), *canonical);
    assert_eq!(Condition::parse(canonical, "filter").as_ref(), Ok(&read));
}

#[test]
fn short_forms_stand_for_long_ones() {
    check(&json!({}), &json!({}));
    check(&json!({"all": []}), &json!({}));
    check(&json!({"tag": " Beta "}), &json!({"tag": "beta"}));
    check(&json!({"tags": ["a"]}), &json!({"tag": "a"}));
    check(&json!({"tags": [], "attributes": {}}), &json!({}));
    check(
        &json!({"tags": ["a", "b"], "attributes": {"plan": "pro", "age": 7}}),
        &json!({"all": [{"tag": "a"}, {"tag": "b"},
            {"attribute": "age", "equals": 7}, {"attribute": "plan", "equals": "pro"}]}),
    );
    check(
        &json!({"tags": {"all": ["a", "b"], "any": ["c", "d"], "none": ["e"]}}),
        &json!({"all": [{"tag": "a"}, {"tag": "b"}, {"any": [{"tag": "c"}, {"tag": "d"}]}, {"not": {"tag": "e"}}]}),
    );
    check(
        &json!({"feature": "opens_30d", "at_least": 1, "less_than": 10.5}),
        &json!({"all": [{"feature": "opens_30d", "at_least": 1}, {"feature": "opens_30d", "less_than": 10.5}]}),
    );
    check(
        &json!({"memory": "purchase/product:a/b", "exists": true}),
        &json!({"memory": "purchase/product:a/b", "exists": true}),
    );
    check(
        &json!({"contacts": ["B@x.org", "a@x.org", "b@X.ORG"]}),
        &json!({"contacts": ["a@x.org", "b@x.org"]}),
    );
}

#[track_caller]
fn wrong(written: &Json, expected: &[&str]) {
    let found = Condition::parse(written, "filter").err().unwrap_or_default();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let slug = "-".parse::<tidings_access::Slug>().unwrap_err().to_string();
    wrong(&json!([]), &["filter: use an object such as {\"tag\": \"beta\"}"]);
    wrong(
        &json!({"colour": "red"}),
        &[
            "filter: name one of all, any, not, audience, segment, tag, contacts, attribute, feature, memory, tags, attributes",
        ],
    );
    wrong(
        &json!({"tag": "a", "audience": "b"}),
        &["filter: use one condition in an object, and join several by all"],
    );
    wrong(
        &json!({"any": [{"tag": 7}, {"audience": "-"}, {"not": {"attribute": "SK", "exists": true}}, {"any": []}]}),
        &[
            "filter.any[0].tag: use a text",
            &format!("filter.any[1].audience: {slug}"),
            "filter.any[2].not.attribute: this name is ours, and no attribute can have it",
            "filter.any[3].any: name at least one condition",
        ],
    );
    wrong(
        &json!({"attribute": "age", "greater_than": true, "in": [], "like": "x", "equals": null, "exists": 1}),
        &[
            "filter.equals: to ask whether there is anything, use exists",
            "filter.exists: use true or false",
            "filter.greater_than: use a number, a time or a text",
            "filter.in: use a list of 1 to 200 values",
            "filter.like: there is no such test",
        ],
    );
    wrong(
        &json!({"attribute": "age"}),
        &[
            "filter: name a test: equals, not_equals, greater_than, less_than, at_least, at_most, in, contains or exists",
        ],
    );
    wrong(
        &json!({"contacts": ["a@x.org", "nobody", 1]}),
        &[
            "filter.contacts[1]: use an e-mail address such as ada@example.org",
            "filter.contacts[2]: use a text",
        ],
    );
    wrong(&json!({"contacts": []}), &["filter.contacts: use a list of at least one address"]);
    wrong(&json!({"tag": "a", "colour": "red"}), &["filter.colour: this does not belong here"]);
    wrong(
        &json!({"memory": "purchase", "exists": true}),
        &["filter.memory: use a type and a key, such as purchase/product:whey_1kg"],
    );
    wrong(
        &json!({"attributes": {"age": [1], "SK": "x"}}),
        &[
            "filter.attributes.SK: this name is ours, and no attribute can have it",
            "filter.attributes.age: use a text, a number, true or false",
        ],
    );
    wrong(
        &json!({"attribute": "age", "equals": 1e300}),
        &["filter.equals: use a number with at most 15 digits"],
    );
}

fn nested(depth: usize) -> Json {
    (1..depth).fold(json!({"tag": "a"}), |inner, _| json!({"not": inner}))
}

#[test]
fn everything_is_bounded() {
    assert!(Condition::parse(&nested(MAX_DEPTH), "").is_ok());
    let path = "filter".to_owned() + &".not".repeat(MAX_DEPTH);
    wrong(&nested(MAX_DEPTH + 1), &[&format!("{path}: conditions are nested at most 8 deep")]);
    // A short form counts as what it stands for.
    let short =
        (1..MAX_DEPTH).fold(json!({"tags": {"none": ["a"]}}), |inner, _| json!({"all": [inner]}));
    assert_eq!(Condition::parse(&short, "").unwrap_err().len(), 1);

    let tags =
        |count: usize| (0..count).map(|tag| json!({"tag": format!("t{tag}")})).collect::<Vec<_>>();
    assert!(Condition::parse(&json!({"any": tags(MAX_CONDITIONS - 1)}), "").is_ok());
    wrong(
        &json!({"any": tags(5 * MAX_CONDITIONS)}),
        &["filter.any[99]: use at most 100 conditions in all"],
    );
    let short: Vec<_> = (0..MAX_CONDITIONS).map(|tag| format!("t{tag}")).collect();
    wrong(&json!({"tags": short}), &["filter: use at most 100 conditions in all"]);

    let addresses = |count: usize| (0..count).map(|n| format!("p{n}@x.org")).collect::<Vec<_>>();
    assert!(Condition::parse(&json!({"contacts": addresses(MAX_ADDRESSES)}), "").is_ok());
    let half = addresses(MAX_ADDRESSES / 2 + 1);
    wrong(
        &json!({"any": [{"contacts": half}, {"contacts": half}]}),
        &["filter.any[1].contacts: name at most 10,000 addresses in all"],
    );
    let long = "x".repeat(1_001);
    wrong(
        &json!({"attribute": "plan", "equals": long}),
        &["filter.equals: use at most 1,000 characters"],
    );
    let many = vec![json!({"tag": ""}); 90];
    assert_eq!(Condition::parse(&json!({"all": many}), "").unwrap_err().len(), 50);
}
