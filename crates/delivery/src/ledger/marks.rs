//! Marking rows with what became of their messages.
//!
//! The same news, again or in another order, leave the same row: a first time is the earliest one, a number never goes
//! down, and a status only goes up the list of `RANKS`.

use jiff::Timestamp;
use tidings_jobs::contracts::{CampaignEmail, Contract as _};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, Param, Tx};

use super::{Source, tallies};
use crate::transactional;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Sent,
    Failed,
    Delivered,
    Bounced,
    Complained,
    Opened,
    Clicked,
    Unsubscribed,
}

/// What is known of a message besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the provider calls it. Kept if the row has none, as after a hand-over without an answer.
    pub provider_message_id: Option<String>,
    /// How often it was opened and clicked in all, as far as is known.
    pub opens: i64,
    pub clicks: i64,
    /// Why it failed.
    pub error: Option<String>,
}

/// From what is least known of a message to what is most. What is not here (`skipped`, `cancelled`) was not sent, and
/// nothing that comes back changes it.
const RANKS: [&[&str]; 6] = [
    &["pending", "queued", "claimed", "uncertain"],
    &["sent"],
    &["failed"],
    &["delivered"],
    &["bounced"],
    &["complained"],
];

impl Mark {
    /// The column that keeps the first time.
    fn column(self) -> Option<&'static str> {
        match self {
            Self::Sent => Some("sent_at"),
            Self::Failed => None,
            Self::Delivered => Some("delivered_at"),
            Self::Bounced => Some("bounced_at"),
            Self::Complained => Some("complained_at"),
            Self::Opened => Some("first_opened_at"),
            Self::Clicked => Some("first_clicked_at"),
            Self::Unsubscribed => Some("unsubscribed_at"),
        }
    }

    fn status(self) -> Option<&'static str> {
        match self {
            Self::Sent => Some("sent"),
            Self::Failed => Some("failed"),
            Self::Delivered => Some("delivered"),
            Self::Bounced => Some("bounced"),
            Self::Complained => Some("complained"),
            Self::Opened | Self::Clicked | Self::Unsubscribed => None,
        }
    }
}

/// Marks a row of the workspace, and tells whether there is one. Without a mark only the facts are noted.
pub fn mark(
    tx: &mut Tx<'_>,
    (workspace, source): (i64, Source),
    mark: Option<(Mark, Timestamp)>,
    facts: &Facts,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let unlogged = match source {
        Source::Transactional(_) => {
            "CASE WHEN logged_at IS NULL AND email IS NOT NULL
                       AND status IN ('sent', 'delivered', 'bounced', 'complained') THEN 1 ELSE 0 END,
             client_id, idempotency_key, sequence_id, reminder"
        }
        Source::Recipient(_) => {
            "CASE WHEN logged_at IS NULL AND email IS NOT NULL AND batch_id IS NOT NULL
                       AND status IN ('sent', 'delivered', 'bounced', 'complained') THEN 1 ELSE 0 END,
             CASE WHEN tallied IS NOT NULL THEN 1 ELSE 0 END"
        }
    };
    let sql = format!(
        "UPDATE {} SET {} WHERE id = $1 AND workspace_id = $2 RETURNING {unlogged}",
        source.table(),
        changes(mark.map(|(mark, _)| mark), facts)
    );
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (provider_id, error) = (text(&facts.provider_message_id), text(&facts.error));
    // PostgreSQL wants no parameter that the statement does not name, so all of them are named.
    let params = [
        Param::Int(source.id()),
        Param::Int(workspace),
        Param::Int(now.as_millisecond()),
        Param::Int(mark.map_or(0, |(_, at)| at.as_millisecond())),
        Param::Text(&provider_id),
        Param::Int(facts.opens),
        Param::Int(facts.clicks),
        Param::Text(&error),
    ];
    let rows = tx.query(&sql, &params)?;
    let Some(row) = rows.first() else { return Ok(false) };
    // Nobody knew whether it was sent. Now it is known, and the send log must say so: its worker sees to it.
    let unlogged = row.int(0)? == 1;
    match source {
        Source::Transactional(id) => {
            if unlogged {
                let body = transactional::envelope(id.into(), row.int(1)?.into(), row.text(2)?)?;
                let queue = transactional::queue_of(row.optional_text(3)?);
                let message = Outgoing::new(queue, body);
                tx.enqueue(&message, now)?;
            }
            // An id may come with what says nothing else of the sending.
            if mark.is_some_and(|(mark, _)| mark.status().is_some())
                || facts.provider_message_id.is_some()
            {
                let about = (id, row.optional_text(4)?);
                transactional::tell_reminder(tx, workspace, about, now)?;
            }
        }
        Source::Recipient(id) => {
            if unlogged {
                log_recipient(tx, workspace, id, now)?;
            }
            if row.int(1)? == 1 {
                tallies::correct(tx, workspace, id)?;
            }
        }
    }
    Ok(true)
}

/// Decides once under which time the send log has a recipient that was sent to, and lets the worker of his batch write the
/// line. If that is decided already, the line is there or on its way.
pub fn log_recipient(
    tx: &mut Tx<'_>,
    workspace: i64,
    recipient: i64,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaign_recipients SET logged_at = COALESCE(sent_at, handed_at, $3)
               WHERE workspace_id = $1 AND id = $2 AND logged_at IS NULL RETURNING campaign_id, batch_id";
    let params = [Param::Int(workspace), Param::Int(recipient), Param::Int(now.as_millisecond())];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(()) };
    let Some(batch_id) = row.optional_text(1)? else { return Ok(()) };
    let contract = CampaignEmail {
        campaign_id: row.int(0)?,
        batch_id: batch_id.to_owned(),
        campaign_recipient_ids: vec![recipient],
        idempotency_key: None,
        metadata: None,
    };
    let body = contract.to_body();
    let body = body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    let message = Outgoing::new(&queues::CAMPAIGN_EMAIL, body);
    Ok(tx.enqueue(&message, now)?)
}

fn changes(mark: Option<Mark>, facts: &Facts) -> String {
    let mut changes = vec![
        "updated_at = CASE WHEN updated_at > $3 THEN updated_at ELSE $3 END".to_owned(),
        "open_count = CASE WHEN open_count >= $6 THEN open_count ELSE $6 END".to_owned(),
        "click_count = CASE WHEN click_count >= $7 THEN click_count ELSE $7 END".to_owned(),
        named("ses_message_id", "$5", facts.provider_message_id.is_some()),
        named("last_error", "$8", facts.error.is_some()),
    ];
    // The earliest, in whatever order they come.
    let column = mark.and_then(Mark::column);
    let kept = column.unwrap_or("sent_at");
    let at = if column.is_some() { "$4" } else { "CAST(NULL AS BIGINT)" };
    changes
        .push(format!("{kept} = CASE WHEN {kept} <= $4 OR {at} IS NULL THEN {kept} ELSE {at} END"));
    if let Some(status) = mark.and_then(Mark::status) {
        let before = RANKS.iter().take_while(|rank| !rank.contains(&status)).copied().flatten();
        let before: Vec<_> = before.map(|status| format!("'{status}'")).collect();
        changes.push(format!(
            "status = CASE WHEN status IN ({}) THEN '{status}' ELSE status END",
            before.join(", ")
        ));
    }
    changes.join(", ")
}

/// Sets a column that is still empty, if there is something to set it to.
fn named(column: &str, param: &str, is_known: bool) -> String {
    let known = if is_known { "1" } else { "0" };
    format!("{column} = CASE WHEN {known} = 1 AND {column} IS NULL THEN {param} ELSE {column} END")
}
