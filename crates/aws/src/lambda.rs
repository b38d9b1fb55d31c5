//! The runtime of AWS Lambda: takes one event after the other, and answers each.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;

/// Answers events until Lambda ends the process. An error concerns its event alone, which Lambda hands over again.
pub async fn run_lambda<F>(answer: impl Fn(Value) -> F) -> Result<(), Error>
where
    F: Future<Output = Result<Value, Error>>,
{
    lambda_runtime::run(service_fn(|event: LambdaEvent<Value>| answer(event.payload))).await
}
