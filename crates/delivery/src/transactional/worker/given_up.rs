//! A message that nobody could work on, and that its queue gives up: its row says so, and why.
//!
//! Of the row no more is read than that needs: it may be the row that cannot be read.

use tidings_access::StorageError;
use tidings_jobs::contracts::TransactionalEmail;
use tidings_sql::{DatabaseError, Param, Tx};

use super::Worker;
use crate::links::Source;
use crate::transactional::manage::is_key_of;
use crate::transactional::news::{self, About, News};
use crate::transactional::{MessageId, marks, reminder};

/// As much as others are told.
struct GivenUp {
    id: MessageId,
    workspace: i64,
    client: i64,
    key: String,
    contact: i64,
    email: Option<String>,
    template_key: Option<String>,
    sequence: Option<String>,
    reminder: Option<String>,
}

impl Worker {
    /// Says why a message is not sent. Of what was handed over nobody knows, and that stays so.
    pub(super) async fn give_up(
        &self,
        message: &TransactionalEmail,
        reason: &str,
    ) -> Result<(), StorageError> {
        let id = MessageId::from(message.transactional_message_id);
        let row = self.access.database().glance(move |tx| find(tx, id)).await?;
        // Anybody can write an envelope that names a message of others.
        let is_its = |row: &GivenUp| {
            row.client == message.client_id
                && is_key_of((row.id, &row.key), &message.idempotency_key)
        };
        let Some(row) = row.filter(is_its) else { return Ok(()) };
        let Some(cx) = self.access.working_for(row.workspace).await? else { return Ok(()) };
        let (why, now) = (format!("nobody could work on it: {reason}"), self.access.now());
        let mark = self.mark(move |tx| {
            if marks::given_up(tx, id, &why, now)? {
                news::tell_about(&cx, tx, &row.about(), &News::Failed, now)?;
                reminder::tell(tx, row.workspace, (id.get(), row.reminder.as_deref()), now)?;
            }
            Ok(())
        });
        Ok(mark.await?)
    }
}

impl GivenUp {
    fn about(&self) -> About<'_> {
        About {
            source: Source::Transactional(self.id.get()),
            client: self.client,
            contact: self.contact,
            email: self.email.as_deref(),
            template_key: self.template_key.as_deref(),
            campaign: None,
            sequence: self.sequence.as_deref(),
        }
    }
}

fn find(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<GivenUp>, DatabaseError> {
    let sql = "SELECT workspace_id, client_id, idempotency_key, lead_id, email, template_key, sequence_id, reminder
               FROM transactional_messages WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(id.get())])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(str::to_owned));
    Ok(Some(GivenUp {
        id,
        workspace: row.int(0)?,
        client: row.int(1)?,
        key: row.text(2)?.to_owned(),
        contact: row.int(3)?,
        email: text(4)?,
        template_key: text(5)?,
        sequence: text(6)?,
        reminder: text(7)?,
    }))
}
