//! An example of each contract, as senders write it, and that it comes out as it went in.

use serde_json::Value;

use super::cases;

pub(super) const TRANSACTIONAL_EMAIL: &str = r#"{
    "contract": "transactional-email",
    "version": 1,
    "transactional_message_id": 101,
    "client_id": 7,
    "contact_id": 22,
    "template_id": 4,
    "template_key": "password-reset",
    "idempotency_key": "client-7:password-reset:req-123",
    "metadata": {"trace_id": "trace-1"}
}"#;

pub(super) const CONFIRMATION_ASK: &str = r#"{
    "contract": "confirmation-ask",
    "version": 1,
    "workspace": "acme",
    "client_id": 7,
    "send": 1,
    "subscriptions": [31, 32]
}"#;

pub(super) const CAMPAIGN_EMAIL: &str = r#"{
    "contract": "campaign-email",
    "version": 1,
    "campaign_id": 55,
    "batch_id": "campaign-55-batch-0001",
    "campaign_recipient_ids": [501, 502],
    "idempotency_key": "campaign-55-batch-0001",
    "metadata": {"source": "scheduler"}
}"#;

pub(super) const SES_WEBHOOKS: &str = r#"{
    "contract": "ses-webhooks",
    "version": 1,
    "provider": "ses",
    "provider_event_id": "sns-message-123",
    "notification_type": "bounce",
    "received_at": "2026-05-24T12:00:00Z",
    "ses_message_id": "ses-message-123",
    "metadata": {"mail_timestamp": "2026-05-24T11:59:59Z"}
}"#;

pub(super) const EMAIL_EVENTS: &str = r#"{
    "contract": "email-events",
    "version": 1,
    "event_id": "track-open-123",
    "event_type": "open",
    "occurred_at": "2026-05-24T12:00:01Z",
    "idempotency_key": "open:tracking-token-123:2026-05-24T12:00:01Z",
    "campaign_recipient_id": 501,
    "tracking_token": "tracking-token-123",
    "metadata": {"user_agent": "Mozilla/5.0"}
}"#;

pub(super) const LEAD_INGESTION: &str = r#"{
    "contract": "lead-ingestion",
    "version": 1,
    "workspace": "acme",
    "source_type": "shop",
    "source": "shop-eu",
    "event_type": "purchase_completed",
    "external_event_id": "order-8812",
    "occurred_at": "2026-01-15T14:00:00Z",
    "received_at": "2026-01-15T14:00:02.5Z",
    "identities": [
        {"channel": "email", "value": "ada@example.org"},
        {"channel": "loyalty_card", "value": "0042"}
    ],
    "object_id": "product:whey_1kg",
    "object_id_ref": "sku-1",
    "payload": {"amount": 42.5, "currency": "EUR"},
    "raw_payload": "{\"order\":8812}",
    "metadata": {"trace_id": "trace-1"}
}"#;

pub(super) const LEAD_UPKEEP: &str = r#"{
    "contract": "lead-upkeep",
    "version": 1,
    "task": "daily",
    "at": "2026-01-15T06:00:00Z",
    "workspace": "acme",
    "after": "1768457000000:42"
}"#;

pub(super) const LEAD_EVENTS: &str = r#"{
    "contract": "lead-events",
    "version": 1,
    "workspace": "acme",
    "lead_organization_id": "lead-1",
    "event_id": "4f1c",
    "event_type": "purchase_completed",
    "occurred_at": "2026-01-15T14:00:00Z",
    "source": "shop-eu",
    "metadata": {"trace_id": "trace-1"}
}"#;

pub(super) const CAMPAIGN_STEP: &str = r#"{
    "contract": "campaign-step",
    "version": 1,
    "campaign_id": 55
}"#;

pub(super) const SEQUENCE_STEP: &str = r#"{
    "contract": "sequence-step",
    "version": 1,
    "workspace": "acme",
    "task": "go_on",
    "id": "0123456789abcdef0123456789abcdef"
}"#;

pub(super) const INBOX_POST: &str = r#"{
    "contract": "inbox-post",
    "version": 1,
    "workspace": "acme",
    "inbox": "app",
    "id": "0GV8YLWQ000000001",
    "task": "deliver"
}"#;

pub(super) const REMINDER_STEP: &str = r#"{
    "contract": "reminder-step",
    "version": 1,
    "workspace": "acme",
    "task": "paid",
    "customer_id": "cust_001",
    "draft": "20250921_143022_cust_001",
    "message_id": 101,
    "invoice_id": "INV-001",
    "amount": "1500.00",
    "currency": "EUR",
    "reference": "bank-77",
    "occurred_at": "2026-01-15T14:00:00Z"
}"#;

pub(super) const SEQUENCE_EVENT: &str = r#"{
    "contract": "sequence-event",
    "version": 1,
    "workspace": "acme",
    "event_id": "consent/7",
    "name": "subscriber.unsubscribed",
    "origin": "system",
    "email": "ada@example.org",
    "user_id": "u-1",
    "occurred_at": "2026-01-15T14:00:00Z",
    "data": {"scope": "everything"}
}"#;

pub(super) const WEBHOOK_FANOUT: &str = r#"{
    "contract": "webhook-fanout",
    "version": 1,
    "workspace_id": 1,
    "event_id": "evt_0123456789abcdef0123456789abcdef",
    "event_type": "email.sent",
    "occurred_at": "2026-01-15T14:00:00Z",
    "data": {"contact_id": 7, "message_id": 101}
}"#;

pub(super) const WEBHOOK_DELIVERY: &str = r#"{
    "contract": "webhook-delivery",
    "version": 1,
    "workspace_id": 1,
    "delivery_id": 12
}"#;

pub(super) const PROBE: &str = r#"{
    "contract": "probe",
    "version": 1,
    "run": "2026-05-24-a",
    "number": 3,
    "sent_at": "2026-05-24T12:00:00Z"
}"#;

#[test]
fn an_example_comes_out_as_it_went_in() {
    for case in cases() {
        let sent: Value = serde_json::from_str(case.example).unwrap();
        let body = (case.round_trip)(case.example).unwrap();
        let written: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(written, sent, "{}", case.shape.name);
    }
}

#[test]
fn a_body_is_written_in_the_order_of_its_shape() {
    let probe = cases().into_iter().find(|case| case.shape.name == "probe").unwrap();
    insta::assert_snapshot!(
        (probe.round_trip)(probe.example).unwrap(),
        @r#"{"contract":"probe","version":1,"run":"2026-05-24-a","number":3,"sent_at":"2026-05-24T12:00:00Z"}"#
    );
}

#[test]
fn a_struct_holds_every_field_of_its_shape() {
    for case in cases() {
        for field in case.shape.fields {
            for value in super::good(field.kind) {
                let body = (case.round_trip)(&case.with(field.name, value.clone()));
                let written: Value = serde_json::from_str(&body.unwrap()).unwrap();
                let is_timestamp = field.kind == super::Kind::Timestamp;
                // A timestamp is written in UTC, whatever its offset was.
                let same = written[field.name] == value || is_timestamp;
                assert!(same && !written[field.name].is_null(), "{}: {value}", field.name);
            }
        }
    }
}

pub(super) const SEGMENT_CHECK: &str = r#"{
    "contract": "segment-check",
    "version": 1,
    "workspace": "acme",
    "contacts": [42, 43]
}"#;

pub(super) const SEGMENT_BUILD: &str = r#"{
    "contract": "segment-build",
    "version": 1,
    "workspace": "acme",
    "segment_id": 7,
    "rev": 2,
    "page": 1
}"#;
