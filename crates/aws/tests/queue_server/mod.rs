//! The server of SQS and SNS that all tests share, each with queues of its own.

use tidings_aws::{Settings, Sqs};

use crate::credentials::config;

pub(crate) fn endpoint() -> String {
    #[expect(clippy::disallowed_methods, reason = "./test says here what it has started")]
    let endpoint = std::env::var("TIDINGS_TEST_SQS");
    endpoint.expect("run ./test, which starts the test servers")
}

/// Begins the names of one test's queues.
pub(crate) fn prefix() -> String {
    format!("test-{:016x}", fastrand::u64(..))
}

pub(crate) fn connect(prefix: &str) -> Sqs {
    let settings =
        Settings { endpoint: Some(endpoint()), prefix: prefix.to_owned(), ..Settings::default() };
    Sqs::new(&config(), settings)
}
