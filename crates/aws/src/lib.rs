//! AWS: the engines that live there. The only crate that may name `aws_*`.
//!
//! Here: items and timers on DynamoDB, queues on SQS and SNS, mail through SES, or on any servers that speak their protocols, and
//! the runtime of Lambda. Not here: what an item, a transaction or a queue means (`kernel`), and any feature.

mod connection;
mod dynamodb;
mod lambda;
mod ses;
mod sqs;
mod trouble;

pub use connection::{Missing, Settings};
pub use dynamodb::{DynamoDb, DynamoOutbox, DynamoTimers, TRIMMED_METRIC, Workspaces};
pub use lambda::run_lambda;
pub use ses::{Ses, SesAccount, SesSettings};
pub use sqs::Sqs;
