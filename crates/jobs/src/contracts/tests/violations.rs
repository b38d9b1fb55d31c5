//! What is refused, and how the refusal reads.

use serde_json::{Value, json};

use super::examples::{CAMPAIGN_EMAIL, LEAD_INGESTION};
use super::{bad, cases};
use crate::contracts::{
    CampaignEmail, Contract, ContractError, Field, LeadIngestion, MAX_BODY_BYTES, Presence, Probe,
    TransactionalEmail, Violation,
};

fn violations(result: Result<String, ContractError>) -> Vec<Violation> {
    match result {
        Err(ContractError::Fields { violations, .. }) => violations,
        other => panic!("expected violations, got {other:?}"),
    }
}

#[test]
fn every_field_refuses_what_is_not_of_its_kind() {
    for case in cases() {
        for Field { name, kind, .. } in case.shape.fields {
            for value in bad(*kind) {
                let violations = violations((case.round_trip)(&case.with(name, value.clone())));
                let named = violations.iter().all(|violation| violation.field.starts_with(name));
                assert!(named, "{}: {name} = {value}: {violations:?}", case.shape.name);
            }
        }
    }
}

#[test]
fn a_required_field_cannot_be_missing_or_null() {
    for case in cases() {
        for Field { name, kind, presence, .. } in case.shape.fields {
            for (body, found) in
                [(case.without(name), "missing"), (case.with(name, Value::Null), "null")]
            {
                let result = (case.round_trip)(&body);
                match presence {
                    Presence::Required => {
                        let (field, found) = ((*name).to_owned(), found.to_owned());
                        let expected = Violation { field, expected: *kind, found };
                        assert_eq!(violations(result), [expected], "{}", case.shape.name);
                    }
                    Presence::Optional => assert_eq!(
                        serde_json::from_str::<Value>(&result.unwrap()).unwrap(),
                        serde_json::from_str::<Value>(&case.without(name)).unwrap(),
                    ),
                }
            }
        }
    }
}

#[test]
fn a_contract_without_its_fields_tells_all_that_are_missing() {
    let mut told = String::new();
    for case in cases() {
        let body = json!({ "contract": case.shape.name, "version": 1 }).to_string();
        told += &format!("{}\n\n", (case.round_trip)(&body).unwrap_err());
    }
    insta::assert_snapshot!(told);
}

#[test]
fn fields_that_nobody_knows_are_passed_over() {
    for case in cases() {
        let body = case.with("since_version_9", json!({ "contract": "other" }));
        assert!((case.round_trip)(&body).is_ok(), "{}", case.shape.name);
    }
}

/// The refusal of a campaign's batch that has these fields besides the right ones.
fn refusal(fields: &Value) -> String {
    let mut body: Value = serde_json::from_str(CAMPAIGN_EMAIL).unwrap();
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    CampaignEmail::parse(&body.to_string()).unwrap_err().to_string()
}

#[test]
fn all_violations_are_told_at_once_and_without_a_value() {
    let body = json!({
        "contract": "lead-ingestion", "version": 1,
        "workspace": "Ada Lovelace", "source": "", "source_type": "  ", "event_type": 7,
        "external_event_id": "x".repeat(1025), "occurred_at": "yesterday", "received_at": false,
        "identities": [{ "channel": "email", "value": "a" }, { "value": 0.5 }, "ada@example.org"],
        "payload": [1, 2], "metadata": "{}",
    });
    let error = LeadIngestion::parse(&body.to_string()).unwrap_err().to_string();
    assert!(!error.contains("Lovelace") && !error.contains("ada@"), "{error}");
    insta::assert_snapshot!(error.replace("; ", "\n"));
}

#[test]
fn a_number_is_told_by_its_kind() {
    let check = |number: Value, expected: &str| {
        let expected = format!(
            "campaign-email v1 is violated: campaign_id must be a positive integer, but is {expected}"
        );
        assert_eq!(refusal(&json!({ "campaign_id": number })), expected);
    };
    check(json!(0), "zero");
    check(json!(-7), "a negative integer");
    check(json!(7.0), "a floating-point number");
    check(json!(1e30), "a floating-point number");
    check(json!(u64::MAX), "an integer above 9223372036854775807");
    check(json!(true), "a boolean");
    check(json!("7"), "a string of 1 character");
}

#[test]
fn a_body_that_breaks_a_thousand_times_is_told_in_a_few_lines() {
    insta::assert_snapshot!(
        refusal(&json!({ "campaign_recipient_ids": vec![0; 1000] })).split("; ").skip(19).collect::<Vec<_>>().join("; "),
        @"campaign_recipient_ids[19] must be a positive integer, but is zero; and 980 more"
    );
    insta::assert_snapshot!(
        refusal(&json!({ "campaign_recipient_ids": vec![0; 1001] })),
        @"campaign-email v1 is violated: campaign_recipient_ids must be an array of 1 to 1000 values, each a positive integer, but is an array of 1001 values"
    );
}

#[test]
fn only_an_object_of_this_contract_and_version_is_read() {
    let check = |body: &str, expected: &str| {
        assert_eq!(TransactionalEmail::parse(body).unwrap_err().to_string(), expected, "{body}");
    };
    check("", "the body is not JSON: EOF while parsing a value at line 1 column 0");
    check("ada@example.org", "the body is not JSON: expected value at line 1 column 1");
    check(
        r#"{"contract":"transactional-email","#,
        "the body is not JSON: EOF while parsing a value at line 1 column 34",
    );
    check("[]", "the body must be an object, but is an empty array");
    check(r#""ada""#, "the body must be an object, but is a string of 3 characters");
    check("null", "the body must be an object, but is null");
    check("{}", r#"contract must be "transactional-email", but is missing"#);
    check(r#"{"contract":null}"#, r#"contract must be "transactional-email", but is null"#);
    check(
        r#"{"contract":["x"]}"#,
        r#"contract must be "transactional-email", but is an array of 1 value"#,
    );
    check(
        r#"{"contract":"campaign-email","version":1}"#,
        r#"contract must be "transactional-email", but is "campaign-email""#,
    );
    let long = "é".repeat(65);
    let shown = "é".repeat(64);
    check(
        &format!(r#"{{"contract":"{long}"}}"#),
        &format!(r#"contract must be "transactional-email", but is "{shown}"…"#),
    );
    for (version, shown) in [
        ("2", "2"),
        ("0", "0"),
        ("-1", "-1"),
        ("1.0", "1.0"),
        (r#""1""#, r#""1""#),
        ("true", "a boolean"),
        ("null", "null"),
    ] {
        check(
            &format!(r#"{{"contract":"transactional-email","version":{version}}}"#),
            &format!("version of transactional-email must be 1, but is {shown}"),
        );
    }
    check(
        r#"{"contract":"transactional-email"}"#,
        "version of transactional-email must be 1, but is missing",
    );
}

#[test]
fn a_body_has_at_most_256_kib() {
    let padded =
        |bytes: usize| CAMPAIGN_EMAIL.to_owned() + &" ".repeat(bytes - CAMPAIGN_EMAIL.len());
    assert!(CampaignEmail::parse(&padded(MAX_BODY_BYTES)).is_ok());
    insta::assert_snapshot!(
        CampaignEmail::parse(&padded(MAX_BODY_BYTES + 1)).unwrap_err(),
        @"the body has 262145 bytes, and 262144 are the most"
    );
}

#[test]
fn json_that_is_too_deep_is_refused() {
    let deep = "[".repeat(100_000);
    insta::assert_snapshot!(
        CampaignEmail::parse(&deep).unwrap_err(),
        @"the body is not JSON: recursion limit exceeded at line 1 column 128"
    );
}

#[test]
fn what_could_not_be_read_is_not_sent() {
    let probe = Probe { run: String::new(), number: 0, sent_at: jiff::Timestamp::UNIX_EPOCH };
    insta::assert_snapshot!(
        probe.to_body().unwrap_err(),
        @"probe v1 is violated: run must be a non-blank string of at most 1024 characters, but is an empty string; number must be a positive integer, but is zero"
    );

    let mut lead = LeadIngestion::parse(LEAD_INGESTION).unwrap();
    let nested = (0..200).fold(json!(1), |inside, _| json!([inside]));
    lead.payload = Some([("nested".to_owned(), nested)].into_iter().collect());
    assert!(matches!(lead.to_body(), Err(ContractError::Malformed { .. })));
    lead.payload =
        Some([("long".to_owned(), json!("x".repeat(MAX_BODY_BYTES)))].into_iter().collect());
    assert!(matches!(lead.to_body(), Err(ContractError::TooLarge { .. })));
}
