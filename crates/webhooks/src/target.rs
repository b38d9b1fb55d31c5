//! Where we may post to. A URL comes from a customer and is opened by our servers, so it must not lead to what only our
//! servers can reach: themselves, their network, the metadata of their cloud.
//!
//! The check is made when an endpoint is registered and again at every delivery, on the very addresses that are then
//! connected to: a name that has moved meanwhile is caught.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use url::{Host, Url};

/// The longest URL of an endpoint.
const MAX_LENGTH: usize = 2048;
/// A name that is not found by then is not found.
const LOOKUP: Duration = Duration::from_secs(5);

/// A URL that can be posted to, as far as its form goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointUrl(Url);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("use a URL of at most {MAX_LENGTH} characters")]
    Long,
    #[error("use a URL such as https://example.org/webhooks")]
    Form,
    #[error("use a URL without a user name and a password: the signature proves who posts")]
    Credentials,
    #[error("use a URL without a fragment, the part after #")]
    Fragment,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("use https: what is told must not be read on the way")]
    NotHttps,
    #[error("use port 443 or 80")]
    Port,
    #[error("the host cannot be found")]
    Unknown,
    #[error("the host is not on the public internet")]
    NotPublic,
}

/// How names become addresses. Tests bring their own.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// What may be posted to.
#[derive(Clone)]
pub struct Targets {
    /// Anything at all, for development: http, any port, this machine.
    allow_private: bool,
    resolver: Arc<dyn Resolve>,
}

impl Targets {
    /// With the names that the machine knows.
    pub fn new(allow_private: bool) -> Self {
        Self::with_resolver(allow_private, Arc::new(System))
    }

    pub fn with_resolver(allow_private: bool, resolver: Arc<dyn Resolve>) -> Self {
        Self { allow_private, resolver }
    }

    /// Whether the URL leads where we may post to, as far as can be told now.
    pub async fn check(&self, url: &EndpointUrl) -> Result<(), TargetError> {
        self.check_form(url)?;
        match url.0.host() {
            Some(Host::Domain(name)) if !self.allow_private => self.addresses(name).await.map(drop),
            _ => Ok(()),
        }
    }

    /// The same without looking for the name.
    pub(crate) fn check_form(&self, url: &EndpointUrl) -> Result<(), TargetError> {
        if self.allow_private {
            return Ok(());
        }
        if url.0.scheme() != "https" {
            return Err(TargetError::NotHttps);
        }
        if !matches!(url.0.port_or_known_default(), Some(80 | 443)) {
            return Err(TargetError::Port);
        }
        let is_public = match url.0.host() {
            Some(Host::Ipv4(ip)) => is_public(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => is_public(IpAddr::V6(ip)),
            Some(Host::Domain(name)) => !is_local_name(name),
            None => false,
        };
        if is_public { Ok(()) } else { Err(TargetError::NotPublic) }
    }

    /// The addresses of a name. One that is not public spoils them all: whoever mixes them is up to something.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, TargetError> {
        let found = tokio::time::timeout(LOOKUP, self.resolver.resolve(host)).await;
        let Ok(Ok(found)) = found else { return Err(TargetError::Unknown) };
        if found.is_empty() {
            return Err(TargetError::Unknown);
        }
        if !self.allow_private
            && (is_local_name(host) || found.iter().any(|address| !is_public(*address)))
        {
            return Err(TargetError::NotPublic);
        }
        Ok(found)
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

impl EndpointUrl {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for EndpointUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_LENGTH {
            return Err(UrlError::Long);
        }
        let url = Url::parse(text).map_err(|_| UrlError::Form)?;
        if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
            return Err(UrlError::Form);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        // Escaping can make it longer.
        if url.as_str().len() > MAX_LENGTH { Err(UrlError::Long) } else { Ok(Self(url)) }
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

struct System;

#[async_trait]
impl Resolve for System {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address is one of the public internet: IANA's registries of special addresses say which are not.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224.., ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Only what is given out as global unicast, and of that nothing that stands for an IPv4 address or a document.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests;
