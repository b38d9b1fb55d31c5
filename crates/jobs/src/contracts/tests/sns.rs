//! What SNS delivers, and what becomes of it.

use serde_json::{Value, json};

use super::examples::SES_WEBHOOKS;
use crate::contracts::{Contract, SesWebhook};

const RECEIVED_AT: &str = "2026-05-24T12:00:00Z";

fn envelope(message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "sns-message-123",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:ses-events",
        "Message": message,
        "Timestamp": "2026-05-24T11:59:59.900Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/example.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
    })
}

fn event(type_field: &str, type_name: &str) -> Value {
    json!({
        type_field: type_name,
        "mail": {
            "timestamp": "2026-05-24T11:59:59Z",
            "messageId": "ses-message-123",
            "source": "news@example.org",
            "destination": ["ada@example.org"],
        },
        "bounce": { "bounceType": "Permanent" },
    })
}

fn read(body: &Value) -> String {
    match SesWebhook::from_queue(&body.to_string(), RECEIVED_AT.parse().unwrap()) {
        Ok(webhook) => webhook.to_body().unwrap(),
        Err(error) => match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

fn read_event(event: &Value) -> String {
    read(&envelope(&event.to_string()))
}

#[test]
fn both_forms_of_a_notification_become_the_same_contract_as_its_body() {
    let received_at = RECEIVED_AT.parse().unwrap();
    let mut expected = SesWebhook::parse(SES_WEBHOOKS).unwrap();
    assert_eq!(SesWebhook::from_queue(SES_WEBHOOKS, received_at).as_ref(), Ok(&expected));
    let metadata = expected.metadata.as_mut().unwrap();
    metadata.insert("bounce_type".into(), "Permanent".into());
    metadata.insert("destination".into(), json!(["ada@example.org"]));
    for type_field in ["eventType", "notificationType"] {
        let body = envelope(&event(type_field, "Bounce").to_string()).to_string();
        assert_eq!(SesWebhook::from_queue(&body, received_at).as_ref(), Ok(&expected));
        assert_eq!(SesWebhook::from_sns(&body, received_at).as_ref(), Ok(&expected));
    }
}

#[test]
fn a_contract_in_the_queue_keeps_the_time_at_which_it_was_received() {
    let later = "2027-01-01T00:00:00Z".parse().unwrap();
    let webhook = SesWebhook::from_queue(SES_WEBHOOKS, later).unwrap();
    assert_eq!(webhook.received_at.to_string(), RECEIVED_AT);
}

#[test]
fn the_types_of_ses_are_folded_to_ours() {
    for (theirs, ours) in [
        ("Send", "send"),
        ("Reject", "reject"),
        ("Delivery", "delivery"),
        ("Bounce", "bounce"),
        ("Complaint", "complaint"),
        ("Open", "open"),
        ("CLICK", "click"),
    ] {
        let body: Value = serde_json::from_str(&read_event(&event("eventType", theirs))).unwrap();
        assert_eq!(body["notification_type"], ours);
    }
}

#[test]
fn an_event_without_its_mail_is_still_an_event() {
    insta::assert_snapshot!(
        read_event(&json!({ "eventType": "Open", "mail": null })),
        @r#"{"contract":"ses-webhooks","version":1,"provider":"ses","provider_event_id":"sns-message-123","notification_type":"open","received_at":"2026-05-24T12:00:00Z"}"#
    );
}

#[test]
fn what_is_not_about_a_mail_is_told_by_its_name() {
    let confirmation =
        json!({ "Type": "SubscriptionConfirmation", "MessageId": "m", "Token": "secret" });
    insta::assert_snapshot!(
        read(&confirmation),
        @"SNS sent SubscriptionConfirmation, which is about the subscription and not about a mail"
    );
    insta::assert_snapshot!(
        read(&json!({ "Type": "UnsubscribeConfirmation" })),
        @"SNS sent UnsubscribeConfirmation, which is about the subscription and not about a mail"
    );
    insta::assert_snapshot!(
        read(&envelope("Successfully validated SNS topic for Amazon SES event publishing.")),
        @"SES announced that it publishes to the topic, which is not about a mail"
    );
    for unsupported in [
        "Rendering Failure",
        "DeliveryDelay",
        "Subscription",
        "Received",
        "AmazonSnsSubscriptionSucceeded",
    ] {
        assert_eq!(
            read_event(&event("eventType", unsupported)),
            format!(
                "the SES event type {unsupported:?} is not \
                 one of send, reject, delivery, bounce, complaint, open, click"
            )
        );
    }
}

#[test]
fn a_broken_notification_is_told_precisely_and_without_a_value() {
    let mut told = Vec::new();
    told.push(read(&json!({ "Type": "Notification" })));
    told.push(read(&json!({ "Type": "ada@example.org", "MessageId": 7, "Message": {} })));
    told.push(read(&json!({ "Type": null, "MessageId": "", "Message": " " })));
    told.push(read(&envelope("ada@example.org")));
    told.push(read(&envelope("[]")));
    told.push(read_event(&json!({})));
    told.push(read_event(&json!({ "eventType": 7, "notificationType": "" , "mail": "ada" })));
    told.push(read_event(&event("eventType", "Ada Lovelace")));
    told.push(read_event(&event("notificationType", "Ada Lovelace")));
    told.push(read_event(
        &json!({ "eventType": "Send", "mail": { "messageId": 1, "timestamp": 2 } }),
    ));
    told.push(read(&event("eventType", "Send")));
    told.push(read(&json!({ "message": "ada@example.org" })));
    told.push(read(&json!([])));
    let told = told.join("\n");
    assert!(!told.to_lowercase().contains("ada"), "{told}");
    insta::assert_snapshot!(told);
}
