//! The certificates that SNS signs with: fetched once from where it keeps them, and remembered.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::redirect::Policy;
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
};
use rustls::{ClientConfig, RootCertStore};
use tidings_kernel::causes;
use tokio::sync::Semaphore;
use url::Url;

use super::envelope::{Envelope, Version};

/// SNS has one certificate at a time in each region.
const REMEMBERED: usize = 16;
/// A certificate has about two thousand bytes.
const MAX_BYTES: usize = 64 * 1024;
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Whoever posts nonsense makes us fetch no more than this at once.
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("no answer: {0}")]
    NoAnswer(String),
    #[error("the answer was {0}")]
    Status(u16),
    #[error("the answer has more than 64 KiB")]
    TooLong,
    #[error("the answer is no certificate with an RSA key")]
    NoCertificate,
}

/// What is needed of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    not_before: i64,
    not_after: i64,
    /// PKCS #1.
    public_key: Vec<u8>,
}

/// Certificates by their URLs, the oldest first.
type Known = Vec<(String, Arc<Certificate>)>;

#[derive(Clone)]
pub(super) struct Certificates {
    known: Arc<Mutex<Known>>,
    /// Made when it is first needed: it reads the certificates of the machine.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
    turns: Arc<Semaphore>,
}

impl Default for Certificates {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Self { known: Arc::default(), client: Arc::default(), turns }
    }
}

impl Certificate {
    fn read(pem: &[u8]) -> Option<Self> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let validity = certificate.validity();
        let key = certificate.public_key();
        // Of another algorithm the bytes would mean something else.
        matches!(key.parsed(), Ok(x509_parser::public_key::PublicKey::RSA(_))).then(|| Self {
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            public_key: key.subject_public_key.data.to_vec(),
        })
    }

    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        (self.not_before..=self.not_after).contains(&now.as_second())
    }

    pub(super) fn proves(&self, envelope: &Envelope) -> bool {
        let algorithm = match envelope.version {
            Version::Sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Version::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.public_key);
        key.verify(envelope.signed_text().as_bytes(), &envelope.signature).is_ok()
    }
}

impl Certificates {
    /// The certificate at a URL. One that is past its time is looked for again.
    pub(super) async fn find(
        &self,
        url: &Url,
        now: Timestamp,
    ) -> Result<Arc<Certificate>, FetchError> {
        if let Some(known) = self.remembered(url.as_str())
            && known.is_valid(now)
        {
            return Ok(known);
        }
        let pem = self.get(url.clone()).await?;
        let read = Arc::new(Certificate::read(&pem).ok_or(FetchError::NoCertificate)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(known, _)| known != url.as_str());
        if known.len() >= REMEMBERED {
            known.remove(0);
        }
        known.push((url.to_string(), Arc::clone(&read)));
        Ok(read)
    }

    fn remembered(&self, url: &str) -> Option<Arc<Certificate>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| known == url).map(|(_, found)| Arc::clone(found))
    }

    /// What is at a URL that was checked. Redirects are not followed.
    pub(super) async fn get(&self, url: Url) -> Result<Vec<u8>, FetchError> {
        let no_answer = |error: reqwest::Error| FetchError::NoAnswer(causes(&error.without_url()));
        // It is never closed; if it were, one more at once would do no harm.
        let _turn = self.turns.acquire().await.ok();
        let client = self.client.get_or_init(build).clone().map_err(FetchError::NoAnswer)?;
        let request = client.get(url).timeout(TIME_LIMIT);
        let mut response = request.send().await.map_err(no_answer)?;
        if !response.status().is_success() {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(no_answer)? {
            if body.len() + part.len() > MAX_BYTES {
                return Err(FetchError::TooLong);
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }
}

fn build() -> Result<reqwest::Client, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| causes(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("Tidings/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| causes(&error))
}
