//! Who is believed to be SNS, with certificates of our own from a server on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::FutureExt as _;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use tidings_kernel::{QueueEngine as _, queues};
use tidings_testbed::Bed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::certificates::MAX_WAITING;
use super::{FetchError, ReceiveError, Received, Settings, Sns, is_certificate, is_of_sns};

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:ses-events";

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn confirmation() -> String {
    format!("/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=token")
}

/// A server with certificates, which counts how often it is asked.
struct Place {
    origin: String,
    asked: Arc<AtomicUsize>,
    /// Opens what is held back.
    gate: Arc<Semaphore>,
}

impl Place {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new(Semaphore::new(0));
        let (counter, held) = (Arc::clone(&asked), Arc::clone(&gate));
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let held = Arc::clone(&held);
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    let length = connection.read(&mut request).await.unwrap();
                    let request = String::from_utf8_lossy(&request[..length]).into_owned();
                    let path = request.split_whitespace().nth(1).unwrap_or_default();
                    let (status, body) = match path {
                        path if path.starts_with("/held.pem") => {
                            held.acquire().await.unwrap().forget();
                            ("200 OK", fixture("sns-certificate.pem"))
                        }
                        "/good.pem" => ("200 OK", fixture("sns-certificate.pem")),
                        "/expired.pem" => ("200 OK", fixture("sns-certificate-expired.pem")),
                        "/huge.pem" => ("200 OK", "x".repeat(100_000)),
                        "/nonsense.pem" => ("200 OK", "nonsense".to_owned()),
                        "/moved.pem" => ("302 Found\r\nlocation: /good.pem", String::new()),
                        path if path == confirmation() => ("200 OK", "<ok/>".to_owned()),
                        _ => ("404 Not Found", String::new()),
                    };
                    let length = body.len();
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                    );
                    // Whoever has read enough hangs up.
                    let _ = connection.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { origin, asked, gate }
    }

    fn sns(&self) -> Sns {
        Sns::new(Settings {
            topics: vec![TOPIC.to_owned()],
            certificate_origin: Some(self.origin.clone()),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// An envelope around an event of the documentation, signed.
    fn envelope(&self, kind: &str) -> Value {
        let event: Value = serde_json::from_str(&fixture("delivery.json")).unwrap();
        let mut envelope = json!({
            "Type": kind,
            "MessageId": "id-1",
            "TopicArn": TOPIC,
            "Message": event.to_string(),
            "Timestamp": "2026-07-01T11:59:59.900Z",
            "SignatureVersion": "2",
            "SigningCertURL": format!("{}/good.pem", self.origin),
        });
        if kind != "Notification" {
            envelope["Token"] = "token".into();
            envelope["SubscribeURL"] = format!("{}{}", self.origin, confirmation()).into();
        }
        sign(&mut envelope);
        envelope
    }
}

fn sign(envelope: &mut Value) {
    let names: &[&str] = match envelope["Type"].as_str().unwrap() {
        "Notification" => &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
        _ => &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"],
    };
    let mut text = String::new();
    for name in names {
        if let Some(value) = envelope[name].as_str() {
            text += &format!("{name}\n{value}\n");
        }
    }
    let key = fixture("sns-test-key.pem");
    let (_, pem) = x509_parser::pem::parse_x509_pem(key.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(&pem.contents).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    envelope["Signature"] = BASE64_STANDARD.encode(signature).into();
}

async fn waiting(bed: &Bed) -> u64 {
    bed.queues.depth(&queues::SES_WEBHOOKS).await.unwrap().ready
}

#[tokio::test]
async fn both_versions_of_the_signature_are_taken() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    let envelope = place.envelope("Notification");
    let received = sns.receive(&bed.access, &envelope.to_string()).await.unwrap();
    assert_eq!(received, Received::Queued);
    let mut old: Value = serde_json::from_str(&fixture("sns-version-1.json")).unwrap();
    old["SigningCertURL"] = format!("{}/good.pem", place.origin).into();
    let received = sns.receive(&bed.access, &old.to_string()).await.unwrap();
    assert_eq!(received, Received::Queued);
    assert_eq!(waiting(&bed).await, 2);
    assert_eq!(place.asked(), 1, "a certificate is fetched once");
}

#[tokio::test]
async fn what_was_changed_on_the_way_is_refused() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    let mut old: Value = serde_json::from_str(&fixture("sns-version-1.json")).unwrap();
    old["SigningCertURL"] = format!("{}/good.pem", place.origin).into();
    for envelope in [place.envelope("Notification"), old] {
        for (name, value) in [
            ("Message", "{}"),
            ("MessageId", "id-2"),
            ("Subject", "Another"),
            ("Timestamp", "2026-07-01T11:59:58.900Z"),
            ("Signature", "AAAA"),
        ] {
            let mut changed = envelope.clone();
            changed[name] = value.into();
            let refused = sns.receive(&bed.access, &changed.to_string()).await;
            assert!(matches!(refused, Err(ReceiveError::Signature)), "{name}: {refused:?}");
        }
        // The one hash is not the other.
        let mut changed = envelope.clone();
        let other = if envelope["SignatureVersion"] == "1" { "2" } else { "1" };
        changed["SignatureVersion"] = other.into();
        let refused = sns.receive(&bed.access, &changed.to_string()).await;
        assert!(matches!(refused, Err(ReceiveError::Signature)), "{refused:?}");
    }
    assert_eq!(waiting(&bed).await, 0);
}

#[tokio::test]
async fn only_configured_topics_are_listened_to() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let mut envelope = place.envelope("Notification");
    envelope["TopicArn"] = "arn:aws:sns:eu-west-1:666666666666:ses-events".into();
    sign(&mut envelope);
    let refused = place.sns().receive(&bed.access, &envelope.to_string()).await;
    assert!(matches!(refused, Err(ReceiveError::Topic)), "{refused:?}");
    let nobody = Sns::new(Settings::default());
    let refused = nobody.receive(&bed.access, &place.envelope("Notification").to_string()).await;
    assert!(matches!(refused, Err(ReceiveError::NoTopics)), "{refused:?}");
    assert_eq!(place.asked(), 0, "nothing is fetched for a stranger");
}

#[tokio::test]
async fn a_certificate_from_elsewhere_proves_nothing() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    for (path, asked) in [
        ("https://sns.eu-west-1.amazonaws.com.evil.example/good.pem", 0),
        ("http://sns.eu-west-1.amazonaws.com/good.pem", 0),
        ("https://evil.example/good.pem", 0),
        // What an API of SNS answers there, an attacker can have written.
        ("https://sns.eu-west-1.amazonaws.com/?Action=GetEndpointAttributes", 0),
        ("https://sns.eu-west-1.amazonaws.com/good.pem", 0),
        ("nonsense", 0),
    ] {
        let mut envelope = place.envelope("Notification");
        envelope["SigningCertURL"] = path.into();
        let refused = sns.receive(&bed.access, &envelope.to_string()).await;
        assert!(matches!(refused, Err(ReceiveError::CertificateUrl)), "{path}: {refused:?}");
        assert_eq!(place.asked(), asked, "{path}");
    }
    for name in ["huge.pem", "nonsense.pem", "moved.pem", "missing.pem"] {
        let mut envelope = place.envelope("Notification");
        envelope["SigningCertURL"] = format!("{}/{name}", place.origin).into();
        let refused = sns.receive(&bed.access, &envelope.to_string()).await;
        assert!(matches!(refused, Err(ReceiveError::Certificate(_))), "{name}: {refused:?}");
    }
    let mut envelope = place.envelope("Notification");
    envelope["SigningCertURL"] = format!("{}/expired.pem", place.origin).into();
    let refused = sns.receive(&bed.access, &envelope.to_string()).await;
    assert!(matches!(refused, Err(ReceiveError::Expired)), "{refused:?}");
    assert_eq!(waiting(&bed).await, 0);
}

#[tokio::test]
async fn who_needs_the_same_certificate_waits_for_the_one_who_fetches_it() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let (sns, envelope) = (place.sns(), place.envelope("Notification").to_string());
    let all = (0..20).map(|_| sns.receive(&bed.access, &envelope));
    for received in futures_util::future::join_all(all).await {
        assert_eq!(received.unwrap(), Received::Queued);
    }
    assert_eq!(place.asked(), 1);
}

#[tokio::test]
async fn what_could_not_be_fetched_is_not_tried_again_for_a_minute() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    for (name, asked) in [("missing.pem", 1), ("nonsense.pem", 2), ("expired.pem", 3)] {
        let mut envelope = place.envelope("Notification");
        envelope["SigningCertURL"] = format!("{}/{name}", place.origin).into();
        for _ in 0..3 {
            sns.receive(&bed.access, &envelope.to_string()).await.unwrap_err();
        }
        assert_eq!(place.asked(), asked, "{name}");
    }
    bed.advance(1).await;
    let mut envelope = place.envelope("Notification");
    envelope["SigningCertURL"] = format!("{}/missing.pem", place.origin).into();
    sns.receive(&bed.access, &envelope.to_string()).await.unwrap_err();
    assert_eq!(place.asked(), 4);
    // Failures that somebody makes up drive out no certificate, and not more than so many are remembered.
    let good = place.envelope("Notification").to_string();
    sns.receive(&bed.access, &good).await.unwrap();
    for number in 0..20 {
        envelope["SigningCertURL"] = format!("{}/missing-{number}.pem", place.origin).into();
        sns.receive(&bed.access, &envelope.to_string()).await.unwrap_err();
    }
    let asked = place.asked();
    sns.receive(&bed.access, &good).await.unwrap();
    assert_eq!(place.asked(), asked);
}

#[tokio::test]
async fn no_more_than_so_many_wait_for_a_certificate() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    let mut envelope = place.envelope("Notification");
    // The first one is fetched by somebody who hangs up.
    envelope["SigningCertURL"] = format!("{}/held.pem", place.origin).into();
    let held = envelope.to_string();
    let waiting = (0..MAX_WAITING).map(|_| sns.receive(&bed.access, &held));
    let mut waiting = Box::pin(futures_util::future::join_all(waiting));
    assert!((&mut waiting).now_or_never().is_none());
    let refused = sns.receive(&bed.access, &held).await;
    assert!(
        matches!(refused, Err(ReceiveError::Certificate(FetchError::Busy))),
        "SNS posts it again: {refused:?}"
    );
    // Whoever hangs up leaves his place, and no flight that nobody is on.
    drop(waiting);
    place.gate.add_permits(2);
    assert_eq!(sns.receive(&bed.access, &held).await.unwrap(), Received::Queued);
}

#[test]
fn only_the_hosts_of_sns_are_its() {
    for (url, ours) in [
        ("https://sns.eu-west-1.amazonaws.com/x.pem", true),
        ("https://sns.cn-north-1.amazonaws.com.cn/x.pem", true),
        ("http://sns.eu-west-1.amazonaws.com/x.pem", false),
        ("https://sns.amazonaws.com/x.pem", false),
        ("https://sns..amazonaws.com/x.pem", false),
        ("https://sns.a.b.amazonaws.com/x.pem", false),
        ("https://sns.eu-west-1.amazonaws.com:8443/x.pem", false),
        ("https://sns.eu-west-1.amazonaws.com.evil.example/x.pem", false),
        ("https://evil.example/sns.eu-west-1.amazonaws.com", false),
        ("https://sns.eu-west-1.amazonaws.com@evil.example/", false),
        ("https://s3.eu-west-1.amazonaws.com/x.pem", false),
    ] {
        assert_eq!(is_of_sns(&url.parse().unwrap()), ours, "{url}");
    }
    let user = "https://user@sns.eu-west-1.amazonaws.com/x.pem";
    assert!(!is_of_sns(&user.parse().unwrap()));
}

#[test]
fn only_where_sns_keeps_its_certificates_is_one() {
    for (path, is_one) in [
        ("SimpleNotificationService-0123456789abcdef.pem", true),
        ("SimpleNotificationService-.pem", false),
        ("SimpleNotificationService-xyz.pem", false),
        ("SimpleNotificationService-01ab.pem?Action=Publish", false),
        ("SimpleNotificationService-01ab.pem#x", false),
        ("SimpleNotificationService-01ab.pem/", false),
        ("x/SimpleNotificationService-01ab.pem", false),
        ("SimpleNotificationService-01ab%2Epem", false),
        ("?Action=GetEndpointAttributes", false),
    ] {
        let url = format!("https://sns.eu-west-1.amazonaws.com/{path}");
        assert_eq!(is_certificate(&url.parse().unwrap()), is_one, "{path}");
    }
}

#[tokio::test]
async fn a_subscription_is_confirmed_where_sns_lives_and_nowhere_else() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    let envelope = place.envelope("SubscriptionConfirmation");
    let received = sns.receive(&bed.access, &envelope.to_string()).await.unwrap();
    assert_eq!(received, Received::Confirmed);
    assert_eq!(place.asked(), 2, "the certificate, and the confirmation");

    let mut elsewhere = envelope.clone();
    elsewhere["SubscribeURL"] = "https://evil.example/".into();
    let refused = sns.receive(&bed.access, &elsewhere.to_string()).await;
    assert!(matches!(refused, Err(ReceiveError::Signature)), "{refused:?}");
    sign(&mut elsewhere);
    let refused = sns.receive(&bed.access, &elsewhere.to_string()).await;
    assert!(matches!(refused, Err(ReceiveError::SubscribeUrl)), "{refused:?}");

    // Signed or not: nothing else is asked of SNS, and nothing of another topic.
    let topic = format!("TopicArn={TOPIC}");
    for wrong in [
        format!("/?Action=DeleteTopic&{topic}"),
        format!("/?Action=DeleteTopic&Action=ConfirmSubscription&{topic}"),
        "/?Action=ConfirmSubscription".to_owned(),
        format!("/?Action=ConfirmSubscription&{topic}-of-others"),
        format!("/elsewhere?Action=ConfirmSubscription&{topic}"),
    ] {
        let mut changed = envelope.clone();
        changed["SubscribeURL"] = format!("{}{wrong}", place.origin).into();
        sign(&mut changed);
        let refused = sns.receive(&bed.access, &changed.to_string()).await;
        assert!(matches!(refused, Err(ReceiveError::SubscribeUrl)), "{wrong}: {refused:?}");
    }
    assert_eq!(place.asked(), 2);

    // Following this one would begin the subscription anew.
    let ended = place.envelope("UnsubscribeConfirmation");
    let received = sns.receive(&bed.access, &ended.to_string()).await.unwrap();
    assert_eq!(received, Received::Nothing);
    assert_eq!(place.asked(), 2);
}

#[tokio::test]
async fn what_was_kept_for_a_day_is_not_taken_any_more() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let (sns, envelope) = (place.sns(), place.envelope("Notification").to_string());
    // Posted again at once it is one event: the worker knows its id.
    for _ in 0..2 {
        assert_eq!(sns.receive(&bed.access, &envelope).await.unwrap(), Received::Queued);
    }
    bed.advance(25 * 60).await;
    let refused = sns.receive(&bed.access, &envelope).await;
    assert!(matches!(refused, Err(ReceiveError::Old)), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_envelope_is_told_all_that_it_lacks() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let sns = place.sns();
    let mut told = Vec::new();
    for body in ["", "[]", "{}", r#"{"Type":"Else"}"#, r#"{"Type":"SubscriptionConfirmation"}"#] {
        told.push(sns.receive(&bed.access, body).await.unwrap_err().to_string());
    }
    for (name, value) in
        [("Type", "Else"), ("SignatureVersion", "3"), ("Signature", "?"), ("Timestamp", "today")]
    {
        let mut envelope = place.envelope("Notification");
        envelope[name] = value.into();
        told.push(sns.receive(&bed.access, &envelope.to_string()).await.unwrap_err().to_string());
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn what_is_not_written_down_is_not_taken() {
    let (bed, place) = (Bed::memory().await, Place::open().await);
    let (sns, envelope) = (place.sns(), place.envelope("Notification").to_string());
    bed.access.database().close().await;
    let refused = sns.receive(&bed.access, &envelope).await;
    assert!(matches!(refused, Err(ReceiveError::Enqueue(_))), "{refused:?}");
}
