//! How the servers are reached: what the engines share in configuring the SDK.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::tls;

/// What the SDK's own conventions (environment, profile, instance role) do not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A server other than the region's. `AWS_ENDPOINT_URL` does the same.
    pub endpoint: Option<String>,
    /// Begins the name of every table, queue and topic.
    pub prefix: String,
    pub missing: Missing,
}

/// What to do about a workspace that has no tables, or a queue that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Create,
    /// For those who only look: a mistyped name must not cost money.
    Refuse,
}

impl Default for Settings {
    fn default() -> Self {
        Self { endpoint: None, prefix: "tidings".to_owned(), missing: Missing::Create }
    }
}

/// The configuration that the SDK finds. A server that holds the line without an answer must not hold us for
/// ever, so each try has an end.
pub(crate) async fn load(longest_try: Duration) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(longest_try);
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(https())
        .timeout_config(timeouts.build());
    loader.load().await
}

pub(crate) fn to_endpoint(config: &SdkConfig, endpoint: Option<String>) -> SdkConfig {
    let mut config = config.to_builder().http_client(https());
    if let Some(endpoint) = endpoint {
        config.set_endpoint_url(Some(endpoint));
    }
    config.build()
}

/// The SDK's client with the cryptography that the rest of the program uses.
fn https() -> SharedHttpClient {
    let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    aws_smithy_http_client::Builder::new().tls_provider(provider).build_https()
}
