//! AWS: the engines that live there. The only crate that may name `aws_*`.
//!
//! Here: items and timers on DynamoDB, queues on SQS and SNS, or on any servers that speak their protocols. Not
//! here: what an item, a transaction or a queue means (`kernel`), and any feature.

mod connection;
mod dynamodb;
mod sqs;
mod trouble;

pub use connection::{Missing, Settings};
pub use dynamodb::{DynamoDb, DynamoOutbox, DynamoTimers, Workspaces};
pub use sqs::Sqs;
