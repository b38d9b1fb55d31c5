//! What has been before: whether a person was sent a template, and what he did with it.
//!
//! Sequences decide by it. What people did is written by `signals`; it is read here, as items, because whoever sends must
//! not know who recorded it. Not here: the send log itself (`sent`), and lists of events for people to look at
//! (`signals::queries`).

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, EmailAddress, Path, Query, tables};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param};

use crate::templates::TemplateKey;

/// Whether somebody was sent a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// A provider has taken it, or may have: nobody knows, and nobody sends it again.
    Yes,
    No,
    /// It is written down, and not sent yet.
    OnItsWay,
}

/// What somebody can do with a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    Open,
    Click,
}

impl Did {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Click => "click",
        }
    }
}

/// Whether a template was sent to an address, in whatever kind of mail, or is about to be. What was skipped, cancelled or
/// refused was not sent, and what is to be sent at a later time is not either until then. Of campaigns only the send log is
/// asked.
pub async fn was_sent(
    cx: &Cx,
    email: &EmailAddress,
    template: &TemplateKey,
) -> Result<Sent, StorageError> {
    let log = Query::new(&tables::MAIN, keys::subscriber(email))
        .begins_with("SENT#")
        .backward()
        .filter(Condition::eq("templateKey", template.as_str()));
    if is_any(cx, log).await? {
        return Ok(Sent::Yes);
    }
    // The log has its line only after the row says so, and lines can be forgotten before rows are.
    let (within, email, template) = (cx.clone(), email.clone(), template.clone());
    let look = cx.database().read(move |tx| {
        let sql = "SELECT DISTINCT m.status FROM channel_identities i
                   JOIN transactional_messages m ON m.lead_id = i.lead_id
                   WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2 AND m.email = $2
                     AND m.template_key = $3
                     AND m.status NOT IN ('failed', 'skipped', 'cancelled')
                     AND (m.status <> 'queued' OR m.scheduled_at IS NULL OR m.scheduled_at <= $4)";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(email.as_str()),
            Param::Text(template.as_str()),
            Param::Int(within.now().as_millisecond()),
        ];
        let rows = tx.query(sql, &params)?;
        let open = |status: &str| matches!(status, "queued" | "claimed");
        let mut sent = Sent::No;
        for row in &rows {
            match row.text(0)? {
                status if open(status) => sent = Sent::OnItsWay,
                _ => return Ok(Sent::Yes),
            }
        }
        Ok::<_, DatabaseError>(sent)
    });
    Ok(look.await?)
}

/// Whether somebody has opened a mail of a template, or clicked in one. What a machine did, or may have done, does not
/// count.
pub async fn has_event(
    cx: &Cx,
    email: &EmailAddress,
    did: Did,
    template: &TemplateKey,
) -> Result<bool, StorageError> {
    let by_a_person = Condition::eq("eventType", did.as_str())
        .and(Condition::eq("templateKey", template.as_str()))
        .and(Condition::eq(Path::of("verdict").key("human"), true));
    let events = Query::new(&tables::EVENTS, keys::subscriber(email))
        .begins_with("EVT#")
        .backward()
        .filter(by_a_person);
    is_any(cx, events).await
}

/// Whether there is an item like that. However long a log is, no more than a page of it is in memory, and a page without
/// a match is not the end.
async fn is_any(cx: &Cx, query: Query) -> Result<bool, StorageError> {
    let items = cx.items().await?;
    let mut cursor = None;
    loop {
        let page = items.query(query.clone().limit(1).after(cursor)).await?;
        if !page.items.is_empty() {
            return Ok(true);
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests;
