//! The contracts held against their examples, against everything else, and against their schemas.
//!
//! Here: what the tests share, which is an example of each contract and values of each kind that break its rule.

mod documents;
mod examples;
mod page;
mod properties;
mod schema_checker;
mod sns;
mod violations;

use serde_json::{Value, json};

use super::{
    CampaignEmail, CampaignStep, ConfirmationAsk, Contract, ContractError, EmailEvent, InboxPost,
    Kind, LeadEvent, LeadIngestion, LeadUpkeep, Probe, ReminderStep, SegmentBuild, SegmentCheck,
    SequenceEvent, SequenceStep, SesWebhook, Shape, TransactionalEmail, WebhookDelivery,
    WebhookFanout,
};

/// A contract without its type, so that one test goes over all of them.
struct Case {
    shape: &'static Shape,
    example: &'static str,
    /// Reads a body and writes what was read.
    round_trip: fn(&str) -> Result<String, ContractError>,
}

fn cases() -> [Case; 18] {
    [
        case::<TransactionalEmail>(examples::TRANSACTIONAL_EMAIL),
        case::<ConfirmationAsk>(examples::CONFIRMATION_ASK),
        case::<CampaignEmail>(examples::CAMPAIGN_EMAIL),
        case::<CampaignStep>(examples::CAMPAIGN_STEP),
        case::<SequenceStep>(examples::SEQUENCE_STEP),
        case::<SequenceEvent>(examples::SEQUENCE_EVENT),
        case::<InboxPost>(examples::INBOX_POST),
        case::<ReminderStep>(examples::REMINDER_STEP),
        case::<SesWebhook>(examples::SES_WEBHOOKS),
        case::<EmailEvent>(examples::EMAIL_EVENTS),
        case::<LeadIngestion>(examples::LEAD_INGESTION),
        case::<LeadEvent>(examples::LEAD_EVENTS),
        case::<LeadUpkeep>(examples::LEAD_UPKEEP),
        case::<SegmentCheck>(examples::SEGMENT_CHECK),
        case::<SegmentBuild>(examples::SEGMENT_BUILD),
        case::<WebhookFanout>(examples::WEBHOOK_FANOUT),
        case::<WebhookDelivery>(examples::WEBHOOK_DELIVERY),
        case::<Probe>(examples::PROBE),
    ]
}

fn case<C: Contract>(example: &'static str) -> Case {
    Case { shape: C::SHAPE, example, round_trip: |body| C::parse(body)?.to_body() }
}

impl Case {
    /// The example with another value in one field.
    fn with(&self, field: &str, value: Value) -> String {
        let mut body: Value = serde_json::from_str(self.example).unwrap();
        body[field] = value;
        body.to_string()
    }

    /// The example without one field.
    fn without(&self, field: &str) -> String {
        let mut body: Value = serde_json::from_str(self.example).unwrap();
        body.as_object_mut().unwrap().remove(field);
        body.to_string()
    }
}

/// Values that a kind admits, with those at its edges.
fn good(kind: Kind) -> Vec<Value> {
    match kind {
        Kind::PositiveInteger => vec![json!(1), json!(i64::MAX)],
        Kind::Text { max } => vec![json!("é"), json!(" x "), json!("é".repeat(max))],
        Kind::Timestamp => vec![
            json!("2026-05-24T12:00:00Z"),
            json!("2026-05-24T12:00:00.123456+00:00"),
            json!("2024-02-29T23:59:59.123456789-11:30"),
        ],
        Kind::OneOf(names) => names.iter().map(|name| json!(name)).collect(),
        Kind::Workspace => vec![json!("0"), json!("acme-2"), json!("a".repeat(40))],
        Kind::Object([]) => vec![json!({}), json!({ "a": [null, { "b": 0.5 }] })],
        Kind::Object(fields) => {
            let first = fields.iter().map(|field| (field.name, good(field.kind).remove(0)));
            let last = fields.iter().map(|field| (field.name, good(field.kind).pop().unwrap()));
            vec![first.collect(), last.collect()]
        }
        Kind::Array { of, max } => {
            let value = good(*of).remove(0);
            vec![json!([value]), json!(vec![value; max]), json!(good(*of))]
        }
    }
}

/// Values that a kind refuses, of every other type and just beyond its edges.
fn bad(kind: Kind) -> Vec<Value> {
    let of_other_types = [json!(true), json!(0.5), json!(1), json!("x"), json!([]), json!({})];
    let mut bad = match kind {
        Kind::PositiveInteger => {
            vec![json!(0), json!(-1), json!(i64::MIN), json!(1_u64 << 63), json!(1e30), json!("1")]
        }
        Kind::Text { max } => {
            vec![json!(""), json!(" \t\n"), json!("x".repeat(max + 1)), json!("é".repeat(max + 1))]
        }
        Kind::Timestamp => bad_timestamps(),
        Kind::OneOf(names) => vec![json!(""), json!(names[0].to_uppercase()), json!([names[0]])],
        Kind::Workspace => ["", "-a", "Acme", "a_b", "é", "a\n"]
            .into_iter()
            .map(Value::from)
            .chain([json!("a".repeat(41))])
            .collect(),
        Kind::Object([]) => vec![json!([{}])],
        Kind::Object(fields) => {
            let whole = good(kind).remove(0);
            let mut bad = vec![json!({})];
            for field in fields {
                for value in self::bad(field.kind).into_iter().chain([Value::Null]) {
                    let mut broken = whole.clone();
                    broken[field.name] = value;
                    bad.push(broken);
                }
            }
            bad
        }
        Kind::Array { of, max } => {
            let value = good(*of).remove(0);
            let mut bad = vec![json!([]), json!(vec![value.clone(); max + 1]), json!([null])];
            bad.extend(self::bad(*of).into_iter().map(|broken| json!([value, broken])));
            bad
        }
    };
    bad.extend(of_other_types.into_iter().filter(|value| !of_the_type(kind, value)));
    bad
}

fn bad_timestamps() -> Vec<Value> {
    let bad = [
        "",
        "yesterday",
        "2026-05-24",
        "2026-05-24T12:00:00",
        "2026-05-24T12:00Z",
        "2026-05-24 12:00:00Z",
        "2026-05-24T12:00:00 Z",
        "2026-05-24T12:00:00.Z",
        "2026-05-24T12:00:00.1234567890Z",
        "2026-05-24T12:00:00,5Z",
        "2026-05-24T12:00:00+02",
        "2026-05-24T12:00:00+0200",
        "2026-05-24T12:00:00Z[UTC]",
        "2026-02-29T12:00:00Z",
        "2026-05-24T25:00:00Z",
        "20260524T120000Z",
        "é026-05-24T12:00:0é",
    ];
    bad.into_iter().map(Value::from).collect()
}

fn of_the_type(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::PositiveInteger => value.is_i64(),
        Kind::Text { .. } | Kind::Workspace => value.is_string(),
        // "x" is of the type and still refused.
        Kind::Timestamp | Kind::OneOf(_) => false,
        Kind::Object(_) => value.is_object(),
        Kind::Array { .. } => value.is_array(),
    }
}
