//! Reading rules: everything that is wrong is told, and what is read has one form.

use serde_json::{Value as Json, json};

use super::from_json;

fn whole() -> Json {
    json!({
        "description": "What the shop tells",
        "rules": [{
            "name": "coffee",
            "on": ["product_viewed", "shop.*"],
            "where": [
                {"path": "$.category", "in": ["coffee", "tea"]},
                {"path": "$.items[0].sku", "exists": true},
                {"path": "$.price", "less_than": 9.5},
            ],
            "type": "interest",
            "key": "category:{$.category}!",
            "value": "$.category",
            "confidence": 0.25,
            "expires_after": "90d",
        }],
    })
}

#[test]
fn what_is_read_has_one_form() {
    let read = from_json(&whole()).unwrap();
    assert_eq!(read.to_json(), whole());
    assert_eq!(from_json(&read.to_json()).unwrap(), read);
    let short = json!({"rules": [{"name": "a", "on": "x", "type": "t", "key": "k", "value": 1, "expires_after": "2w"}]});
    let written = from_json(&short).unwrap().to_json();
    assert_eq!(written["rules"][0]["on"], json!(["x"]));
    assert_eq!(written["rules"][0]["confidence"], json!(0.8));
    assert_eq!(written["rules"][0]["expires_after"], json!("14d"));
}

#[test]
fn all_faults_are_told_at_once() {
    let wrong = json!({
        "rulez": 1,
        "description": 7,
        "rules": [
            {"name": "a", "on": "x*y", "type": "Bad Type", "key": "a{$.b", "value": "$bad", "confidence": 2, "expires_after": "soon"},
            {"on": [], "where": [{"path": "b", "equals": 1, "exists": true}, {"path": "$.x", "greater_than": true}], "extra": null},
            {"name": "a", "on": "x", "type": "t", "key": "k", "value": 1},
            {"name": "a", "on": "x", "type": "t", "key": "k", "value": 1},
            7,
        ],
    });
    let faults = from_json(&wrong).unwrap_err();
    let told: Vec<_> =
        faults.iter().map(|fault| format!("{}: {}", fault.path(), fault.message)).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn there_are_bounds() {
    for (wrong, pointer) in [
        (json!([]), ""),
        (json!({"rules": []}), "/rules"),
        (json!({"rules": vec![whole()["rules"][0].clone(); 51]}), "/rules"),
        (json!({"rules": ["x".repeat(70_000)]}), ""),
    ] {
        let faults = from_json(&wrong).unwrap_err();
        assert_eq!(faults[0].pointer, pointer, "{faults:?}");
    }
}
