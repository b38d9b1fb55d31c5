//! Single writes: put, update, delete. Each answers with an item as it was or is.

use std::error::Error;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_sdk_dynamodb::types::{
    ReturnValue, ReturnValuesOnConditionCheckFailure as ReturnOnFailure,
};
use tidings_kernel::{Delete, Item, Put, Returns, StoreError, Txn, Update, Write};

use super::expression::{self, Compiled};
use super::retry::{once, send_write};
use super::store::Store;
use super::trouble::Trouble;
use super::value::{Attributes, key_attributes, to_attributes, to_item};

impl Store {
    pub(super) async fn write(&self, write: Write) -> Result<Option<Item>, StoreError> {
        write.validate()?;
        let compiled = expression::write(&write);
        match write {
            Write::Put(put) => self.put_item(put, compiled).await,
            Write::Update(update) => self.update_item(update, compiled).await,
            Write::Delete(delete) => self.delete_item(delete, compiled).await,
            // Only a transaction can check and do nothing else.
            Write::Check(_) => self.commit(Txn::new().write(write)).await.map(|()| None),
        }
    }

    async fn put_item(&self, put: Put, compiled: Compiled) -> Result<Option<Item>, StoreError> {
        let request = self
            .client
            .put_item()
            .table_name(self.name(put.table))
            .set_item(Some(to_attributes(put.item)))
            .set_condition_expression(compiled.condition)
            .set_expression_attribute_names(compiled.names)
            .set_expression_attribute_values(compiled.values)
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ReturnOnFailure::AllOld);
        let sent = send_write(|| request.clone().customize().config_override(once()).send()).await;
        answer(sent.map(|sent| sent.attributes), |error| match error {
            PutItemError::ConditionalCheckFailedException(failed) => Some(failed),
            _ => None,
        })
    }

    async fn update_item(
        &self,
        update: Update,
        compiled: Compiled,
    ) -> Result<Option<Item>, StoreError> {
        let returns = match update.returns {
            Returns::Nothing => ReturnValue::None,
            Returns::Old => ReturnValue::AllOld,
            Returns::New => ReturnValue::AllNew,
        };
        let request = self
            .client
            .update_item()
            .table_name(self.name(update.table))
            .set_key(Some(key_attributes(update.table, &update.key)))
            .set_update_expression(compiled.update)
            .set_condition_expression(compiled.condition)
            .set_expression_attribute_names(compiled.names)
            .set_expression_attribute_values(compiled.values)
            .return_values(returns)
            .return_values_on_condition_check_failure(ReturnOnFailure::AllOld);
        let sent = send_write(|| request.clone().customize().config_override(once()).send()).await;
        answer(sent.map(|sent| sent.attributes), |error| match error {
            UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed),
            _ => None,
        })
    }

    async fn delete_item(
        &self,
        delete: Delete,
        compiled: Compiled,
    ) -> Result<Option<Item>, StoreError> {
        let request = self
            .client
            .delete_item()
            .table_name(self.name(delete.table))
            .set_key(Some(key_attributes(delete.table, &delete.key)))
            .set_condition_expression(compiled.condition)
            .set_expression_attribute_names(compiled.names)
            .set_expression_attribute_values(compiled.values)
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ReturnOnFailure::AllOld);
        let sent = send_write(|| request.clone().customize().config_override(once()).send()).await;
        answer(sent.map(|sent| sent.attributes), |error| match error {
            DeleteItemError::ConditionalCheckFailedException(failed) => Some(failed),
            _ => None,
        })
    }
}

fn answer<E>(
    sent: Result<Option<Attributes>, Trouble<E>>,
    failed_condition: fn(&E) -> Option<&ConditionalCheckFailedException>,
) -> Result<Option<Item>, StoreError>
where
    E: Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    match sent {
        Ok(attributes) => there(attributes),
        Err(trouble) => match trouble.service_error().and_then(failed_condition) {
            Some(failed) => {
                let current = there(failed.item.clone())?.map(Box::new);
                Err(StoreError::ConditionFailed { current })
            }
            None => Err(trouble.of_write()),
        },
    }
}

/// No item has no attributes: some servers send an empty map for one that is not there.
pub(super) fn there(attributes: Option<Attributes>) -> Result<Option<Item>, StoreError> {
    attributes.filter(|attributes| !attributes.is_empty()).map(to_item).transpose()
}
