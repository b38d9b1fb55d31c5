//! `transactional-email`: one message that was written down before.

use async_trait::async_trait;
use tidings_jobs::contracts::TransactionalEmail;
use tidings_jobs::{Outcome, Work};
use tidings_sql::{DatabaseError, Param};

use super::{Ledger, failed, is_settled, nobody_to_hand_it_to};

pub(super) struct Send(pub(super) Ledger);

/// What the ledger says of the message.
struct Row {
    client_id: i64,
    idempotency_key: String,
    status: String,
}

#[async_trait]
impl Work<TransactionalEmail> for Send {
    async fn work(&self, message: TransactionalEmail) -> Outcome {
        match self.load(message.transactional_message_id).await {
            Ok(row) => decide(&message, row.as_ref()),
            Err(error) => failed(&error),
        }
    }
}

impl Send {
    async fn load(&self, id: i64) -> Result<Option<Row>, DatabaseError> {
        let sql = "SELECT client_id, idempotency_key, status FROM transactional_messages
                   WHERE id = $1";
        let rows = self.0.database.read(move |tx| tx.query(sql, &[Param::Int(id)])).await?;
        let row = rows.first().map(|row| {
            Ok(Row {
                client_id: row.int(0)?,
                idempotency_key: row.text(1)?.to_owned(),
                status: row.text(2)?.to_owned(),
            })
        });
        row.transpose()
    }
}

fn decide(message: &TransactionalEmail, row: Option<&Row>) -> Outcome {
    let id = message.transactional_message_id;
    match row {
        None => Outcome::retry(format!("there is no transactional message {id}")),
        Some(row)
            if row.client_id != message.client_id
                || row.idempotency_key != message.idempotency_key =>
        {
            Outcome::dead(format!(
                "transactional message {id} is another client's, or has another idempotency key"
            ))
        }
        Some(row) if is_settled(&row.status) => Outcome::Done,
        Some(_) => nobody_to_hand_it_to(),
    }
}
