//! What a mail provider posts to us. It has no key: what it posts is signed.
//!
//! Not here: whether the signature is right (`signals::sns`), and what follows (`signals::ses`, out of the queue).

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use tidings_access::Access;
use tidings_signals::sns::{MAX_BODY_BYTES, ReceiveError, Sns};

use crate::problem::Problem;
use crate::{Limits, around};

#[derive(Clone)]
struct Provider {
    access: Access,
    sns: Sns,
}

/// The routes for providers, to be merged with `router`.
pub fn provider(access: Access, sns: Sns, limits: Limits) -> Router {
    let routes = Router::new().route("/webhooks/ses", post(ses));
    let limits = Limits { max_body: limits.max_body.min(MAX_BODY_BYTES), ..limits };
    around(routes, limits).with_state(Provider { access, sns })
}

/// What SNS posts, as `text/plain`. A success says that it is in our queue: SNS posts everything else again.
async fn ses(State(provider): State<Provider>, body: Bytes) -> Result<StatusCode, Problem> {
    let body = std::str::from_utf8(&body)
        .map_err(|_| Problem::from_status(StatusCode::BAD_REQUEST, "the body is not UTF-8"))?;
    provider.sns.receive(&provider.access, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Envelope(_) | ReceiveError::Event(_) => {
                Self::from_status(StatusCode::BAD_REQUEST, error)
            }
            ReceiveError::NoTopics
            | ReceiveError::Topic
            | ReceiveError::CertificateUrl
            | ReceiveError::SubscribeUrl
            | ReceiveError::Signature
            | ReceiveError::Expired
            | ReceiveError::Old => Self::from_status(StatusCode::FORBIDDEN, error),
            ReceiveError::Certificate(_) | ReceiveError::Confirm(_) => {
                tracing::warn!(error = %tidings_kernel::causes(&error), "SNS was not reached");
                Self::unavailable(error)
            }
            ReceiveError::Enqueue(error) => {
                tracing::error!(error = %tidings_kernel::causes(&error), "An event of SES was not written down");
                Self::unavailable("the event could not be written down; post it again")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tidings_kernel::{QueueEngine as _, queues};
    use tidings_signals::sns::{Settings, Sns};
    use tidings_testbed::Bed;
    use tower::ServiceExt as _;

    use super::provider;
    use crate::Limits;

    const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:ses-events";

    /// Somewhere with the certificate of the envelope, and the envelope that names it.
    fn signed() -> (String, String) {
        use std::io::{Read as _, Write as _};

        let certificate = include_str!("../../signals/tests/fixtures/sns-certificate.pem");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 4096]).unwrap();
            let length = certificate.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{certificate}"
            );
            connection.write_all(answer.as_bytes()).unwrap();
        });
        let envelope = include_str!("../../signals/tests/fixtures/sns-version-1.json");
        let mut envelope: serde_json::Value = serde_json::from_str(envelope).unwrap();
        envelope["SigningCertURL"] = format!("{origin}/good.pem").into();
        (origin, envelope.to_string())
    }

    #[tokio::test]
    async fn what_is_proven_is_taken_and_what_cannot_be_written_down_is_asked_for_again() {
        let bed = Bed::memory().await;
        let limits = Limits::uniform(1024 * 1024, Duration::from_secs(5));
        let (origin, envelope) = signed();
        let listening = Settings { topics: vec![TOPIC.into()], certificate_origin: Some(origin) };
        let sns = Sns::new(listening);
        let post = async || {
            let router = provider(bed.access.clone(), sns.clone(), limits);
            let request = Request::post("/webhooks/ses").header("content-type", "text/plain");
            let request = request.body(Body::from(envelope.clone())).unwrap();
            router.oneshot(request).await.unwrap().status().as_u16()
        };
        assert_eq!(post().await, 204);
        let waiting = bed.queues.depth(&queues::SES_WEBHOOKS).await.unwrap().ready;
        assert_eq!(waiting, 1, "a success says that it is in the queue");
        bed.access.database().close().await;
        assert_eq!(post().await, 503, "SNS posts it again");
    }

    #[tokio::test]
    async fn what_is_not_proven_is_refused_with_the_reason() {
        let bed = Bed::memory().await;
        let limits = Limits::uniform(1024 * 1024, Duration::from_secs(5));
        let listening = Settings { topics: vec!["arn:x".into()], certificate_origin: None };
        let envelope = r#"{"Type":"Notification","MessageId":"1","TopicArn":"arn:y","Message":"{}",
            "Timestamp":"2026-07-01T12:00:00Z","SigningCertURL":"https://evil.example/","SignatureVersion":"2",
            "Signature":"AAAA"}"#;
        let mut told = Vec::new();
        for (settings, body) in [
            (listening.clone(), "nonsense".to_owned()),
            (listening.clone(), "{}".to_owned()),
            (listening.clone(), envelope.to_owned()),
            (listening.clone(), envelope.replace("arn:y", "arn:x")),
            (Settings::default(), envelope.to_owned()),
            (listening, "x".repeat(257 * 1024)),
        ] {
            let router = provider(bed.access.clone(), Sns::new(settings), limits);
            let request = Request::post("/webhooks/ses").header("content-type", "text/plain");
            let answer = router.oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
            let status = answer.status();
            let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
            told.push(format!("{status}: {}", problem["detail"].as_str().unwrap()));
        }
        insta::assert_snapshot!(told.join("\n"), @r"
        400 Bad Request: the body is not a JSON object
        400 Bad Request: the envelope of SNS lacks Type, MessageId, TopicArn, Message, Timestamp, SigningCertURL, SignatureVersion, Signature
        403 Forbidden: the topic is not one of signals.ses_topics
        403 Forbidden: the certificate must be https://sns.<region>.amazonaws.com/SimpleNotificationService-<hex>.pem
        403 Forbidden: no topics are configured: set signals.ses_topics to the ARNs of those that may post here
        413 Payload Too Large: the request's body is larger than this server takes
        ");
    }
}
