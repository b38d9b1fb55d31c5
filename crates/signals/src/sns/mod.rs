//! Whether what comes over HTTP was sent by SNS: envelopes, their signatures, and the certificates behind those.
//!
//! Here: [`Sns::receive`], which takes an envelope once it is proven. Not here: what is in it (`ses`). Anybody can post to the endpoint, so nothing is believed before the signature is: not the topic, not the
//! address of a certificate, not that of a confirmation.

mod certificates;
mod envelope;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tidings_access::Access;
use tidings_jobs::contracts::{Contract as _, IngressError, SesEventType, SesWebhook};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::EnqueueError;
use url::Url;

use certificates::Certificates;
pub use certificates::FetchError;
pub use envelope::EnvelopeError;
use envelope::{Envelope, Kind};

/// The longest body that is read.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// An older envelope is not taken: SNS gives up after an hour, and who kept one longer means no good.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// What the endpoint must know.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The topics that are listened to, by their ARN. None means none.
    pub topics: Vec<String>,
    /// Where certificates may come from besides SNS itself, for tests: `http://127.0.0.1:4566`.
    pub certificate_origin: Option<String>,
}

/// Takes what SNS posts. A clone shares the certificates.
#[derive(Clone)]
pub struct Sns {
    settings: Arc<Settings>,
    certificates: Certificates,
}

/// What became of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It is in the queue.
    Queued,
    /// The subscription is confirmed.
    Confirmed,
    /// There is nothing to do.
    Nothing,
}

#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(
        "no topics are configured: set signals.ses_topics to the ARNs of those that may post here"
    )]
    NoTopics,
    #[error("the topic is not one of signals.ses_topics")]
    Topic,
    #[error(
        "the certificate must be https://sns.<region>.amazonaws.com/SimpleNotificationService-<hex>.pem"
    )]
    CertificateUrl,
    #[error(
        "the confirmation must be https://sns.<region>.amazonaws.com/?Action=ConfirmSubscription of this topic"
    )]
    SubscribeUrl,
    #[error("the signature is not right")]
    Signature,
    #[error("the certificate is not valid at this time")]
    Expired,
    #[error("the envelope is older than a day")]
    Old,
    #[error("the certificate could not be fetched or read")]
    Certificate(#[source] FetchError),
    #[error("the subscription could not be confirmed")]
    Confirm(#[source] FetchError),
    #[error(transparent)]
    Event(#[from] IngressError),
    #[error("the event could not be written down")]
    Enqueue(#[from] EnqueueError),
}

impl Sns {
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), certificates: Certificates::default() }
    }

    /// Takes one post of SNS. It is answered only once the event is in the queue.
    pub async fn receive(&self, access: &Access, body: &str) -> Result<Received, ReceiveError> {
        let envelope = Envelope::read(body)?;
        let now = access.now();
        self.prove(&envelope, now).await?;
        match envelope.kind {
            Kind::Unsubscription { .. } => {
                tracing::warn!(topic = envelope.topic, "SNS does not post to us any more");
                Ok(Received::Nothing)
            }
            Kind::Subscription { subscribe_url, .. } => {
                let url = self.subscribe_url(&subscribe_url, &envelope.topic);
                let url = url.ok_or(ReceiveError::SubscribeUrl)?;
                self.certificates.get(url).await.map_err(ReceiveError::Confirm)?;
                tracing::info!(topic = envelope.topic, "A subscription of SNS is confirmed");
                Ok(Received::Confirmed)
            }
            Kind::Notification { .. } => enqueue(access, body, now).await,
        }
    }

    async fn prove(&self, envelope: &Envelope, now: Timestamp) -> Result<(), ReceiveError> {
        if self.settings.topics.is_empty() {
            return Err(ReceiveError::NoTopics);
        }
        if !self.settings.topics.contains(&envelope.topic) {
            return Err(ReceiveError::Topic);
        }
        let url = self.certificate_url(&envelope.certificate_url);
        let url = url.ok_or(ReceiveError::CertificateUrl)?;
        let certificate =
            self.certificates.find(&url, now).await.map_err(ReceiveError::Certificate)?;
        if !certificate.is_valid(now) {
            return Err(ReceiveError::Expired);
        }
        if !certificate.proves(envelope) {
            return Err(ReceiveError::Signature);
        }
        let age = now.duration_since(envelope.timestamp);
        if age > jiff::SignedDuration::try_from(MAX_AGE).unwrap_or(jiff::SignedDuration::MAX) {
            return Err(ReceiveError::Old);
        }
        Ok(())
    }

    /// Where the certificate is. The host alone proves nothing: what an API of SNS answers, others can have written.
    fn certificate_url(&self, text: &str) -> Option<Url> {
        let url: Url = text.parse().ok()?;
        (self.is_test_origin(&url) || (is_of_sns(&url) && is_certificate(&url))).then_some(url)
    }

    /// Where a subscription to this topic is confirmed. Nothing else is done for whoever wrote the URL.
    fn subscribe_url(&self, text: &str, topic: &str) -> Option<Url> {
        let url: Url = text.parse().ok()?;
        let only = |name: &str, value: &str| {
            let mut found = url.query_pairs().filter(|(found, _)| found == name);
            found.next().is_some_and(|(_, found)| found == value) && found.next().is_none()
        };
        let confirms = url.path() == "/"
            && url.fragment().is_none()
            && only("Action", "ConfirmSubscription")
            && only("TopicArn", topic);
        (confirms && (self.is_test_origin(&url) || is_of_sns(&url))).then_some(url)
    }

    fn is_test_origin(&self, url: &Url) -> bool {
        let extra = self.settings.certificate_origin.as_deref();
        extra
            .and_then(|extra| extra.parse::<Url>().ok())
            .is_some_and(|extra| extra.origin() == url.origin())
    }
}

/// `https://sns.<region>.amazonaws.com`, or `.com.cn`, and nothing else that looks like it.
fn is_of_sns(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let region = host.strip_prefix("sns.").and_then(|rest| {
        rest.strip_suffix(".amazonaws.com").or_else(|| rest.strip_suffix(".amazonaws.com.cn"))
    });
    let region = region.is_some_and(|region| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=32).contains(&region.len()) && region.chars().all(plain)
    });
    let alone = url.username().is_empty() && url.password().is_none() && url.port().is_none();
    url.scheme() == "https" && alone && region
}

/// `/SimpleNotificationService-0123abcd.pem`, where SNS keeps its certificates.
fn is_certificate(url: &Url) -> bool {
    let name = url.path().strip_prefix("/SimpleNotificationService-");
    let digits = name.and_then(|name| name.strip_suffix(".pem"));
    let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    let named = digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(hex));
    named && url.query().is_none() && url.fragment().is_none()
}

/// Writes the contract down in its queue, or the envelope where the contract has no place for the event.
async fn enqueue(access: &Access, body: &str, now: Timestamp) -> Result<Received, ReceiveError> {
    let body = match SesWebhook::from_sns(body, now) {
        Ok(webhook) => webhook.to_body().map_err(IngressError::Contract)?,
        Err(IngressError::Unsupported(event)) => match event.kind {
            SesEventType::Subscription | SesEventType::SubscriptionSucceeded => {
                return Ok(Received::Nothing);
            }
            _ => body.to_owned(),
        },
        Err(IngressError::Announcement) => return Ok(Received::Nothing),
        Err(error) => return Err(error.into()),
    };
    let message = Outgoing::new(&queues::SES_WEBHOOKS, body);
    // One row that nothing else depends on: it need not wait for others.
    let write = access.database().write_committed(move |tx| tx.enqueue(&message, now));
    write.await?;
    Ok(Received::Queued)
}
