//! One request to an endpoint: to addresses that were checked, without redirects, without proxies, within its time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use tidings_kernel::causes;
use tokio::time::Instant;

use crate::target::{EndpointUrl, Targets};

/// An endpoint has so long to answer, from the look for its name to the last byte.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// So much of an answer is kept, in bytes.
pub(crate) const MAX_ANSWER: usize = 1024;
/// So much of an error is kept, in bytes.
const MAX_ERROR: usize = 500;

/// Posts to endpoints. A clone shares the connections.
#[derive(Clone)]
pub struct Poster {
    targets: Targets,
    time_limit: Duration,
    /// Made when it is first needed: it reads the certificates of the machine.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    pub(crate) id: &'a str,
    pub(crate) seconds: i64,
    pub(crate) signatures: &'a str,
    pub(crate) body: &'a str,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) result: Result<Answer, String>,
    pub(crate) took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The beginning of the body.
    pub(crate) text: String,
}

impl Poster {
    pub fn new(targets: Targets) -> Self {
        Self { targets, time_limit: TIME_LIMIT, client: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn within(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    pub(crate) async fn post(&self, post: Post<'_>) -> Attempt {
        let began = Instant::now();
        let result = self.try_to_post(post).await;
        let result = result.map_err(|reason| plain(reason.as_bytes(), MAX_ERROR));
        Attempt { result, took: began.elapsed() }
    }

    async fn try_to_post(&self, post: Post<'_>) -> Result<Answer, String> {
        let url: EndpointUrl = post.url.parse().map_err(|error| told(&error))?;
        self.targets.check_form(&url).map_err(|error| told(&error))?;
        let client = self.client.get_or_init(|| build(&self.targets)).clone()?;
        let request = client
            .post(url.url().clone())
            .headers(headers(&post)?)
            .body(post.body.to_owned())
            .timeout(self.time_limit);
        let mut response = request.send().await.map_err(told_of)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        // The status has said enough: an answer that breaks off is as good as a short one.
        while body.len() < MAX_ANSWER
            && let Ok(Some(part)) = response.chunk().await
        {
            body.extend_from_slice(&part[..part.len().min(MAX_ANSWER - body.len())]);
        }
        Ok(Answer { status, text: plain(&body, MAX_ANSWER) })
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").field("targets", &self.targets).finish_non_exhaustive()
    }
}

fn headers(post: &Post<'_>) -> Result<HeaderMap, String> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| told(&error));
    Ok(HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (HeaderName::from_static("webhook-id"), value(post.id)?),
        (HeaderName::from_static("webhook-timestamp"), post.seconds.into()),
        (HeaderName::from_static("webhook-signature"), value(post.signatures)?),
    ]))
}

fn build(targets: &Targets) -> Result<reqwest::Client, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "A certificate of the machine could not be read");
    }
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| told(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Checked(targets.clone()))
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("Tidings-Webhooks/", env!("CARGO_PKG_VERSION")))
        // A connection that is used again leads where it led: to an address that was checked.
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(4)
        .build()
        .map_err(told_of)
}

/// The only way from a name to an address that the client has.
struct Checked(Targets);

impl reqwest::dns::Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let targets = self.0.clone();
        Box::pin(async move {
            let found = targets.addresses(name.as_str()).await?;
            // The client puts the port of the URL in the place of 0.
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

fn told(error: &dyn std::error::Error) -> String {
    causes(error)
}

/// Without the URL: its path may be a secret of the endpoint.
fn told_of(error: reqwest::Error) -> String {
    causes(&error.without_url())
}

/// Text without control characters, of at most so many bytes.
fn plain(bytes: &[u8], max: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.replace(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'), " ");
    let text = text.trim();
    let end = text.floor_char_boundary(max);
    text[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn an_answer_is_kept_as_harmless_text() {
        for (bytes, max, expected) in [
            (&b" ok\r\n"[..], 10, "ok"),
            (b"a\x00b\x1b[31mc", 10, "a b [31mc"),
            (b"\xff\xfe", 10, "\u{fffd}\u{fffd}"),
            ("éééé".as_bytes(), 5, "éé"),
            (b"", 5, ""),
        ] {
            assert_eq!(plain(bytes, max), expected);
        }
    }
}
