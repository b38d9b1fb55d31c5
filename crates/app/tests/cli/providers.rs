//! The mail servers that the tests send to: what they have is what people would have got.

#[cfg(feature = "aws")]
use serde_json::{Value, json};
use tidings_testkit::SmtpSink;

#[cfg(feature = "aws")]
use crate::ledger::told;
use crate::world::World;
#[cfg(feature = "aws")]
use crate::world::ask;

/// What came, each mail with its subject first.
pub(crate) type Received = Box<dyn Fn() -> Vec<String>>;

pub(crate) fn over_smtp(world: &mut World, options: &[&str]) -> Received {
    let sink = SmtpSink::start(options);
    smtp(world, &sink);
    Box::new(move || sink.messages())
}

pub(crate) fn smtp(world: &mut World, sink: &SmtpSink) {
    world.set("TIDINGS_MAIL__PROVIDER", "smtp");
    world.set("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1");
    world.set("TIDINGS_MAIL__SMTP_PORT", &sink.port.to_string());
    world.set("TIDINGS_MAIL__SMTP_TLS", "none");
}

/// Mail goes to the server that knows SES. Tests share it, so each has an account of its own there: the twelve digits of
/// its access key.
#[cfg(feature = "aws")]
pub(crate) fn over_ses(world: &mut World) -> Received {
    let endpoint = told("TIDINGS_TEST_SES");
    world.set("TIDINGS_MAIL__PROVIDER", "ses");
    world.set("TIDINGS_AWS__MAIL_ENDPOINT_URL", &endpoint);
    let host = endpoint.trim_start_matches("http://").to_owned();
    let address = host.parse().unwrap();
    let account = format!("{:012}", fastrand::u64(1..1_000_000_000_000));
    world.set("AWS_ACCESS_KEY_ID", &account);
    let body = json!({"EmailIdentity": "hello@example.org"}).to_string();
    let signed = format!(
        "authorization: AWS4-HMAC-SHA256 Credential={account}/20260101/eu-central-1/ses/aws4_request, \
         SignedHeaders=host, Signature=0"
    );
    let known = ask(
        address,
        &format!(
            "POST /v2/email/identities HTTP/1.0\r\nhost: {host}\r\n{signed}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    assert!(known.contains(" 200 "), "{known}");
    Box::new(move || {
        let path = format!("/_ministack/ses/messages?account={account}");
        let listed = ask(address, &format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n"));
        let listed: Value = serde_json::from_str(listed.split_once("\r\n\r\n").unwrap().1).unwrap();
        let messages = listed["messages"].as_object().unwrap().values();
        messages
            .flat_map(|of_account| of_account.as_array().unwrap())
            .map(|mail| {
                let text = |name: &str| mail[name].as_str().unwrap_or_default();
                format!("Subject: {}\n\n{}", text("Subject"), text("BodyHtml"))
            })
            .collect()
    })
}
