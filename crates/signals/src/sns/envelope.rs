//! The envelope of SNS, and the text that its signature is over.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// What SNS posts. Nothing in it is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) kind: Kind,
    pub(super) message_id: String,
    pub(super) topic: String,
    pub(super) message: String,
    pub(super) timestamp: Timestamp,
    pub(super) certificate_url: String,
    pub(super) version: Version,
    pub(super) signature: Vec<u8>,
    /// As it was written: the signature is over the text.
    written_timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Notification {
        subject: Option<String>,
    },
    Subscription {
        subscribe_url: String,
        token: String,
    },
    /// Somebody ended the subscription. Its confirmation would begin it anew.
    Unsubscription {
        subscribe_url: String,
        token: String,
    },
}

/// Which hash is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Sha1,
    Sha256,
}

/// Why it is no envelope of SNS. Values are not told: they may be anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("the body is not a JSON object")]
    NotJson,
    #[error("the envelope of SNS lacks {}", .0.join(", "))]
    Missing(Vec<&'static str>),
    #[error("the Type is none of Notification, SubscriptionConfirmation, UnsubscribeConfirmation")]
    Type,
    #[error("the SignatureVersion is neither 1 nor 2")]
    Version,
    #[error("the Signature is not base64")]
    Signature,
    #[error("the Timestamp is not a time")]
    Timestamp,
}

impl Envelope {
    pub(super) fn read(body: &str) -> Result<Self, EnvelopeError> {
        let Ok(Value::Object(fields)) = serde_json::from_str(body) else {
            return Err(EnvelopeError::NotJson);
        };
        let mut fields = Fields { fields, missing: Vec::new() };
        let kind = fields.required("Type");
        let message_id = fields.required("MessageId");
        let topic = fields.required("TopicArn");
        let message = fields.required("Message");
        let written_timestamp = fields.required("Timestamp");
        let certificate_url = fields.required("SigningCertURL");
        let version = fields.required("SignatureVersion");
        let signature = fields.required("Signature");
        let kind = match kind.as_str() {
            "Notification" => Ok(Kind::Notification { subject: fields.optional("Subject") }),
            "SubscriptionConfirmation" => {
                let (subscribe_url, token) = fields.confirmation();
                Ok(Kind::Subscription { subscribe_url, token })
            }
            "UnsubscribeConfirmation" => {
                let (subscribe_url, token) = fields.confirmation();
                Ok(Kind::Unsubscription { subscribe_url, token })
            }
            _ => Err(EnvelopeError::Type),
        };
        if !fields.missing.is_empty() {
            return Err(EnvelopeError::Missing(fields.missing));
        }
        Ok(Self {
            kind: kind?,
            message_id,
            topic,
            message,
            timestamp: written_timestamp.parse().map_err(|_| EnvelopeError::Timestamp)?,
            certificate_url,
            version: match version.as_str() {
                "1" => Version::Sha1,
                "2" => Version::Sha256,
                _ => return Err(EnvelopeError::Version),
            },
            signature: BASE64_STANDARD.decode(signature).map_err(|_| EnvelopeError::Signature)?,
            written_timestamp,
        })
    }

    /// What is signed: some of the fields by their names in the order of the alphabet, each on a line of its own.
    pub(super) fn signed_text(&self) -> String {
        let mut pairs = vec![("Message", self.message.as_str()), ("MessageId", &self.message_id)];
        let name = match &self.kind {
            Kind::Notification { subject } => {
                pairs.extend(subject.as_deref().map(|subject| ("Subject", subject)));
                "Notification"
            }
            Kind::Subscription { subscribe_url, .. } => {
                pairs.push(("SubscribeURL", subscribe_url));
                "SubscriptionConfirmation"
            }
            Kind::Unsubscription { subscribe_url, .. } => {
                pairs.push(("SubscribeURL", subscribe_url));
                "UnsubscribeConfirmation"
            }
        };
        pairs.push(("Timestamp", &self.written_timestamp));
        if let Kind::Subscription { token, .. } | Kind::Unsubscription { token, .. } = &self.kind {
            pairs.push(("Token", token));
        }
        pairs.extend([("TopicArn", self.topic.as_str()), ("Type", name)]);
        pairs.iter().map(|(name, value)| format!("{name}\n{value}\n")).collect()
    }
}

struct Fields {
    fields: Map<String, Value>,
    missing: Vec<&'static str>,
}

impl Fields {
    fn optional(&mut self, name: &'static str) -> Option<String> {
        self.fields.get(name)?.as_str().map(ToOwned::to_owned)
    }

    fn confirmation(&mut self) -> (String, String) {
        (self.required("SubscribeURL"), self.required("Token"))
    }

    fn required(&mut self, name: &'static str) -> String {
        let found = self.optional(name).filter(|text| !text.is_empty());
        if found.is_none() {
            self.missing.push(name);
        }
        found.unwrap_or_default()
    }
}
