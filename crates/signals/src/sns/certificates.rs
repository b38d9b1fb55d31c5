//! The certificates that SNS signs with: fetched once from where it keeps them, and remembered.
//!
//! Anybody can post an envelope that names one. So of those who need the same one only the first fetches it, what could not be
//! fetched is not tried again at once, and no more than so many wait.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::redirect::Policy;
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
};
use rustls::{ClientConfig, RootCertStore};
use tidings_kernel::causes;
use tokio::sync::{OnceCell, Semaphore};
use url::Url;

use super::envelope::{Envelope, Version};

/// SNS has one certificate at a time in each region. As many failures are remembered besides.
const REMEMBERED: usize = 16;
/// For so long a URL is not asked again that had no certificate, or one that is not valid.
const PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// A certificate has about two thousand bytes.
const MAX_BYTES: usize = 64 * 1024;
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Whoever posts nonsense makes us fetch no more than this at once.
const AT_ONCE: usize = 4;
/// So many may wait for a certificate. SNS posts again what was refused.
pub(super) const MAX_WAITING: usize = 64;

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
    #[error("too many wait for certificates")]
    Busy,
}

/// What is needed of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    not_before: i64,
    not_after: i64,
    /// PKCS #1.
    public_key: Vec<u8>,
}

type Fetched = Result<Arc<Certificate>, FetchError>;
/// What all who need the same certificate wait for.
type Flight = OnceCell<Fetched>;

/// What came of a URL, and when.
struct Known {
    url: String,
    at: Timestamp,
    fetched: Fetched,
}

/// What is known by URL, the oldest first. Failures have a place of their own: whoever makes them up drives no certificate out.
#[derive(Default)]
struct Memory {
    found: Vec<Known>,
    failed: Vec<Known>,
    /// Those that somebody waits for. If nobody does any more, they are gone.
    flights: Vec<(String, Weak<Flight>)>,
}

#[derive(Clone)]
pub(super) struct Certificates {
    memory: Arc<Mutex<Memory>>,
    /// Made when it is first needed: it reads the certificates of the machine.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Default for Certificates {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let places = Arc::new(Semaphore::new(MAX_WAITING));
        Self { memory: Arc::default(), client: Arc::default(), turns, places }
    }
}

impl Memory {
    fn known(&self, url: &str, now: Timestamp) -> Option<Fetched> {
        let known = self.found.iter().chain(&self.failed).find(|known| known.url == url)?;
        let is_valid = known.fetched.as_ref().is_ok_and(|found| found.is_valid(now));
        (is_valid || now.duration_since(known.at) < PAUSE).then(|| known.fetched.clone())
    }

    fn keep(&mut self, url: &str, now: Timestamp, fetched: Fetched) {
        for list in [&mut self.found, &mut self.failed] {
            list.retain(|known| known.url != url);
        }
        let list = if fetched.is_ok() { &mut self.found } else { &mut self.failed };
        if list.len() >= REMEMBERED {
            list.remove(0);
        }
        list.push(Known { url: url.to_owned(), at: now, fetched });
    }

    fn flight(&mut self, url: &str) -> Arc<Flight> {
        self.flights.retain(|(_, flight)| flight.strong_count() > 0);
        let same = self.flights.iter().find(|(known, _)| known == url);
        if let Some(flight) = same.and_then(|(_, flight)| flight.upgrade()) {
            return flight;
        }
        let flight = Arc::default();
        self.flights.push((url.to_owned(), Arc::downgrade(&flight)));
        flight
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
    /// The certificate at a URL. One that is past its time is looked for again, and what was not there too, after a while.
    pub(super) async fn find(&self, url: &Url, now: Timestamp) -> Fetched {
        if let Some(known) = self.memory().known(url.as_str(), now) {
            return known;
        }
        let _place = self.places.try_acquire().map_err(|_| FetchError::Busy)?;
        let flight = self.memory().flight(url.as_str());
        // If whoever fetches it hangs up, the next one does.
        let fetched = flight.get_or_init(|| self.fetch(url)).await.clone();
        self.memory().keep(url.as_str(), now, fetched.clone());
        fetched
    }

    async fn fetch(&self, url: &Url) -> Fetched {
        let pem = self.get(url.clone()).await?;
        Certificate::read(&pem).map(Arc::new).ok_or(FetchError::NoCertificate)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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
