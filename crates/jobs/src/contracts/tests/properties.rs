//! Whatever comes, the reader does not fall over, and says the same as the schema.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::schema_checker::is_valid;
use super::{Case, bad, cases, good};
use crate::contracts::{Contract, SesWebhook, schema};

fn schema_of(case: &Case) -> Value {
    serde_json::from_str(&schema(case.shape)).unwrap()
}

fn check(case: &Case, schema: &Value, body: &str) {
    let body_value: Value = serde_json::from_str(body).unwrap();
    let read = (case.round_trip)(body);
    assert_eq!(read.is_ok(), is_valid(schema, &body_value), "{body}: {read:?}");
}

#[test]
fn the_schema_says_the_same_as_the_reader() {
    for case in cases() {
        let schema = schema_of(&case);
        check(&case, &schema, case.example);
        for body in ["{}", "[]", "null", "7", r#""x""#] {
            check(&case, &schema, body);
        }
        for (field, value) in [
            ("contract", json!("other")),
            ("contract", json!(1)),
            ("version", json!(2)),
            ("version", json!("1")),
            ("unknown", json!(true)),
        ] {
            check(&case, &schema, &case.with(field, value));
        }
        for name in ["contract", "version"] {
            check(&case, &schema, &case.without(name));
        }
        for field in case.shape.fields {
            check(&case, &schema, &case.without(field.name));
            for value in good(field.kind).into_iter().chain(bad(field.kind)).chain([Value::Null]) {
                check(&case, &schema, &case.with(field.name, value));
            }
        }
    }
}

#[test]
fn the_schema_alone_takes_a_whole_number_with_a_decimal_point() {
    let case = &cases()[0];
    let body = case.with("client_id", json!(7.0));
    assert!(is_valid(&schema_of(case), &serde_json::from_str(&body).unwrap()));
    assert!((case.round_trip)(&body).is_err());
}

/// Any JSON but for whole numbers with a decimal point, of which the schema thinks otherwise.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| json!(f64::from(number) + 0.5)),
        any::<String>().prop_map(Value::from),
        "[a-z0-9-]{0,42}".prop_map(Value::from),
        "[ -~]{0,30}".prop_map(Value::from),
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{0,10})?(Z|[+-][01][0-9]:[0-5][0-9])"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 8, |inside| {
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec(("channel|value|[a-z]{0,3}", inside), 0..8)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        for case in cases() {
            prop_assert!((case.round_trip)(&text).is_err());
        }
        let now = jiff::Timestamp::UNIX_EPOCH;
        prop_assert!(SesWebhook::from_queue(&text, now).is_err());
    }

    #[test]
    fn any_value_in_any_field_is_read_or_refused_as_the_schema_says(
        case in 0..7_usize,
        field in any::<prop::sample::Index>(),
        value in any_json(),
    ) {
        let case = &cases()[case];
        let field = field.get(case.shape.fields).name;
        check(case, &schema_of(case), &case.with(field, value.clone()));
        check(case, &schema_of(case), &value.to_string());
    }

    #[test]
    fn any_notification_of_sns_is_read_or_refused(
        type_field in "eventType|notificationType",
        event_type in any_json(),
        mail in any_json(),
        id in any_json(),
        as_text: bool,
    ) {
        let event = json!({ type_field: event_type, "mail": { "messageId": mail, "timestamp": mail } });
        let message = if as_text { event.to_string().into() } else { event };
        let body = json!({ "Type": "Notification", "MessageId": id, "Message": message });
        let now = jiff::Timestamp::UNIX_EPOCH;
        if let Ok(webhook) = SesWebhook::from_queue(&body.to_string(), now) {
            prop_assert!(webhook.to_body().is_ok());
        }
    }
}
