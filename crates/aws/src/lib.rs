//! AWS: the engines that live there. The only crate that may name `aws_*`.
//!
//! Here: items on DynamoDB, or on any server that speaks its protocol. Not here: what an item, a condition or a
//! transaction means (`kernel`), and any feature.

mod dynamodb;
mod lambda;

pub use dynamodb::{DynamoDb, Missing, Settings};
pub use lambda::run_lambda;
