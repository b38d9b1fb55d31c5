//! SNS as far as we need it: notifications with signatures that are right, and the certificate behind them.
//!
//! The key is that of the tests: it proves nothing to anybody else.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use tidings_signals::sns::Settings;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::handoff::Handed;
use super::place::serve;

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:bench";
const KEY: &str = include_str!("../../../crates/signals/tests/fixtures/sns-test-key.pem");
const CERTIFICATE: &str =
    include_str!("../../../crates/signals/tests/fixtures/sns-certificate.pem");

pub(super) struct Signer {
    origin: String,
    key: Arc<RsaKeyPair>,
    /// Gone with the value.
    _server: JoinSet<()>,
}

impl Signer {
    pub(super) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let mut server = JoinSet::new();
        let routes = Router::new().route("/certificate.pem", get(|| async { CERTIFICATE }));
        server.spawn(serve(listener, routes));
        let (_, pem) = x509_parser::pem::parse_x509_pem(KEY.as_bytes())?;
        let key = RsaKeyPair::from_pkcs8(&pem.contents).ok().context("the key cannot be read")?;
        Ok(Self { origin, key: Arc::new(key), _server: server })
    }

    pub(super) fn settings(&self) -> Settings {
        Settings { topics: vec![TOPIC.to_owned()], certificate_origin: Some(self.origin.clone()) }
    }

    /// That each of these messages was delivered. It takes a while, and is not measured.
    pub(super) async fn deliveries(&self, handed: Vec<Handed>) -> anyhow::Result<Vec<String>> {
        let half = handed.len().div_ceil(2).max(1);
        let now = jiff::Timestamp::now();
        let signing: Vec<_> = handed
            .chunks(half)
            .map(|part| {
                let (part, key, origin) =
                    (part.to_vec(), Arc::clone(&self.key), self.origin.clone());
                tokio::task::spawn_blocking(move || {
                    part.iter().map(|one| sign(&key, &origin, one, now)).collect()
                })
            })
            .collect();
        let mut signed = Vec::new();
        for part in signing {
            let part: anyhow::Result<Vec<String>> = part.await?;
            signed.extend(part?);
        }
        Ok(signed)
    }
}

fn sign(
    key: &RsaKeyPair,
    origin: &str,
    handed: &Handed,
    now: jiff::Timestamp,
) -> anyhow::Result<String> {
    let tags: serde_json::Map<_, _> =
        handed.tags.iter().map(|(name, value)| ((*name).to_owned(), json!([value]))).collect();
    let (time, to, id) = (format!("{now:.3}"), &handed.to, &handed.provider_id);
    let header = |name: &str, value: &str| json!({ "name": name, "value": value });
    let event = json!({
        "eventType": "Delivery",
        "mail": {
            "timestamp": time,
            "messageId": id,
            "source": "shop@shop.example",
            "sourceArn": "arn:aws:ses:eu-west-1:123456789012:identity/shop.example",
            "sendingAccountId": "123456789012",
            "destination": [to],
            "headersTruncated": false,
            "headers": [header("From", "shop@shop.example"), header("To", to), header("Subject", "Your order")],
            "commonHeaders": { "from": ["shop@shop.example"], "to": [to], "messageId": id, "subject": "Your order" },
            "tags": tags,
        },
        "delivery": {
            "timestamp": time,
            "processingTimeMillis": 1234,
            "recipients": [to],
            "smtpResponse": "250 2.0.0 OK",
            "reportingMTA": "a1-1.smtp-out.eu-west-1.amazonses.com",
        },
    });
    let (message, number) = (event.to_string(), format!("notification-{id}"));
    let text = format!(
        "Message\n{message}\nMessageId\n{number}\nTimestamp\n{time}\nTopicArn\n{TOPIC}\nType\nNotification\n"
    );
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .ok()
        .context("it cannot be signed")?;
    let envelope = json!({
        "Type": "Notification",
        "MessageId": number,
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": time,
        "SignatureVersion": "2",
        "SigningCertURL": format!("{origin}/certificate.pem"),
        "Signature": BASE64_STANDARD.encode(signature),
    });
    Ok(envelope.to_string())
}
