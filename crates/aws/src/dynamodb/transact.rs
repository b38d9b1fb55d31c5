//! Transactions: all writes or none, and for each the reason why not.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};
use tidings_kernel::{Cancellation, Invalid, StoreError, Txn, Write};

use super::expression;
use super::retry::{FEW, PATIENCE, once, pause};
use super::store::Store;
use super::timers::timer_writes;
use super::value::{key_attributes, to_attributes};
use super::write::there;
use crate::trouble::{Kind, Trouble};

const ON_FAILURE: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

impl Store {
    /// One token goes with all tries. DynamoDB makes the writes of a token once, so a try that got no answer
    /// may be repeated: if it had landed after all, the repetition is answered as the first would have been.
    pub(super) async fn commit(&self, txn: Txn) -> Result<(), StoreError> {
        txn.validate()?;
        let now = self.clock.now();
        self.note_hours(&txn.timers, now).await.map_err(not_begun)?;
        let asked = txn.writes.len();
        let messages = txn.messages.into_iter().map(|message| self.message_write(message, now));
        let timers = txn.timers.into_iter().flat_map(|change| timer_writes(change, now));
        let writes = txn.writes.into_iter().chain(messages).chain(timers);
        let writes = writes.map(|write| self.item_of(write)).collect();
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(writes))
            .client_request_token(token());
        let (mut tries, mut unanswered) = (0, 0);
        loop {
            let trouble = match request.clone().customize().config_override(once()).send().await {
                Ok(_) => return Ok(()),
                Err(error) => Trouble::new(error),
            };
            tries += 1;
            let again = match trouble.kind {
                Kind::Throttled | Kind::Conflict => tries < PATIENCE,
                Kind::NotSent => tries < FEW,
                Kind::Unanswered => {
                    unanswered += 1;
                    unanswered < FEW
                }
                Kind::Answered => reasons(&trouble).is_some_and(only_conflicts) && tries < PATIENCE,
                Kind::Refused => false,
            };
            if !again {
                return Err(refusal(trouble, asked, unanswered > 0));
            }
            pause(tries).await;
        }
    }

    fn item_of(&self, write: Write) -> TransactWriteItem {
        let name = self.name(write.table());
        let compiled = expression::write(&write);
        let complete = "table, key or item, and expression are set";
        let item = TransactWriteItem::builder();
        match write {
            Write::Put(put) => item.put(
                Put::builder()
                    .table_name(name)
                    .set_item(Some(to_attributes(put.item)))
                    .set_condition_expression(compiled.condition)
                    .set_expression_attribute_names(compiled.names)
                    .set_expression_attribute_values(compiled.values)
                    .return_values_on_condition_check_failure(ON_FAILURE)
                    .build()
                    .expect(complete),
            ),
            Write::Update(update) => item.update(
                Update::builder()
                    .table_name(name)
                    .set_key(Some(key_attributes(update.table, &update.key)))
                    .set_update_expression(compiled.update)
                    .set_condition_expression(compiled.condition)
                    .set_expression_attribute_names(compiled.names)
                    .set_expression_attribute_values(compiled.values)
                    .return_values_on_condition_check_failure(ON_FAILURE)
                    .build()
                    .expect(complete),
            ),
            Write::Delete(delete) => item.delete(
                Delete::builder()
                    .table_name(name)
                    .set_key(Some(key_attributes(delete.table, &delete.key)))
                    .set_condition_expression(compiled.condition)
                    .set_expression_attribute_names(compiled.names)
                    .set_expression_attribute_values(compiled.values)
                    .return_values_on_condition_check_failure(ON_FAILURE)
                    .build()
                    .expect(complete),
            ),
            Write::Check(check) => item.condition_check(
                ConditionCheck::builder()
                    .table_name(name)
                    .set_key(Some(key_attributes(check.table, &check.key)))
                    .set_condition_expression(compiled.condition)
                    .set_expression_attribute_names(compiled.names)
                    .set_expression_attribute_values(compiled.values)
                    .return_values_on_condition_check_failure(ON_FAILURE)
                    .build()
                    .expect(complete),
            ),
        }
        .build()
    }
}

/// What comes before the transaction may have been made or not; the transaction was certainly not.
fn not_begun(error: StoreError) -> StoreError {
    match error {
        StoreError::Uncertain(source) => StoreError::Unavailable(source),
        error => error,
    }
}

/// Told apart from all others of the last ten minutes. The hasher's keys come from the operating system.
fn token() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

fn reasons(trouble: &Trouble<TransactWriteItemsError>) -> Option<&[CancellationReason]> {
    match trouble.service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            Some(cancelled.cancellation_reasons())
        }
        _ => None,
    }
}

fn only_conflicts(reasons: &[CancellationReason]) -> bool {
    let mut told = reasons.iter().filter_map(|reason| reason.code()).filter(|code| *code != "None");
    told.all(is_conflict)
}

/// What goes away by itself. A throttled write of a cancelled transaction is no different.
fn is_conflict(code: &str) -> bool {
    matches!(code, "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded")
}

/// Only of the writes that were asked for is a reason told; those of messages and timers come after them and expect
/// nothing. `may_have_landed`: a try got no answer, and may still be at work.
fn refusal(
    trouble: Trouble<TransactWriteItemsError>,
    asked: usize,
    may_have_landed: bool,
) -> StoreError {
    match reasons(&trouble) {
        Some(reasons) if !only_conflicts(reasons) => {
            let told: Result<Vec<_>, _> = reasons.iter().take(asked).map(cancellation).collect();
            match told {
                Ok(told) if told.iter().all(|reason| *reason == Cancellation::None) => {
                    trouble.of_write()
                }
                Ok(told) => StoreError::Cancelled(told),
                Err(error) => error,
            }
        }
        _ if may_have_landed => trouble.uncertain(),
        Some(_) => StoreError::Conflict,
        None => trouble.of_write(),
    }
}

fn cancellation(reason: &CancellationReason) -> Result<Cancellation, StoreError> {
    Ok(match reason.code() {
        None | Some("None") => Cancellation::None,
        Some("ConditionalCheckFailed") => {
            Cancellation::ConditionFailed { current: there(reason.item.clone())? }
        }
        Some(code) if is_conflict(code) => Cancellation::Conflict,
        Some(code) => {
            Cancellation::Invalid(Invalid::Refused(reason.message().unwrap_or(code).to_owned()))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aws_sdk_dynamodb::types::CancellationReason;
    use tidings_kernel::{Cancellation, Invalid};

    use super::{cancellation, only_conflicts, token};

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).message("told").build()
    }

    #[test]
    fn reasons_keep_their_meaning() {
        let refused = || Cancellation::Invalid(Invalid::Refused("told".to_owned()));
        for (code, expected) in [
            ("None", Cancellation::None),
            ("ConditionalCheckFailed", Cancellation::ConditionFailed { current: None }),
            ("TransactionConflict", Cancellation::Conflict),
            ("ThrottlingError", Cancellation::Conflict),
            ("ValidationError", refused()),
            ("ItemCollectionSizeLimitExceeded", refused()),
        ] {
            assert_eq!(cancellation(&reason(code)).unwrap(), expected, "{code}");
        }
    }

    #[test]
    fn only_what_goes_away_is_tried_again() {
        for (codes, again) in [
            (&["None", "TransactionConflict"][..], true),
            (&["ThrottlingError"], true),
            (&["ConditionalCheckFailed", "TransactionConflict"], false),
            (&["ValidationError"], false),
        ] {
            let reasons: Vec<_> = codes.iter().map(|code| reason(code)).collect();
            assert_eq!(only_conflicts(&reasons), again, "{codes:?}");
        }
    }

    #[test]
    fn tokens_differ() {
        let tokens: HashSet<_> = (0..1000).map(|_| token()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| token.len() == 32));
    }
}
