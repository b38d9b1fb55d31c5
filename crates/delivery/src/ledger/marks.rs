//! Marking rows with what became of their messages.

use tidings_sql::{DatabaseError, Param, Tx};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Sent,
    Failed,
    Delivered,
    Bounced,
    Complained,
    Opened,
    Clicked,
    Unsubscribed,
}

/// The rows that a mark is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rows {
    Recipient(i64),
    Transactional(i64),
    /// Of either table.
    WithMessageId(String),
}

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

    /// The status that it gives, and those that it comes after. News that come late change nothing.
    fn status(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Sent => Some(("sent", "'pending', 'queued', 'claimed', 'uncertain'")),
            Self::Failed => Some(("failed", "'pending', 'queued', 'claimed', 'uncertain', 'sent'")),
            Self::Delivered => {
                Some(("delivered", "'pending', 'queued', 'claimed', 'uncertain', 'sent'"))
            }
            Self::Bounced => Some((
                "bounced",
                "'pending', 'queued', 'claimed', 'uncertain', 'sent', 'delivered'",
            )),
            Self::Complained => Some((
                "complained",
                "'pending', 'queued', 'claimed', 'uncertain', 'sent', 'delivered', 'bounced'",
            )),
            Self::Opened | Self::Clicked | Self::Unsubscribed => None,
        }
    }
}

/// Marks the rows, and tells how many there are.
pub(super) fn mark(
    tx: &mut Tx<'_>,
    rows: &Rows,
    mark: Mark,
    at: i64,
    now: i64,
) -> Result<u64, DatabaseError> {
    let (tables, condition, key): (&[&str], _, _) = match rows {
        Rows::Recipient(id) => (&["campaign_recipients"], "id = $1", Param::Int(*id)),
        Rows::Transactional(id) => (&["transactional_messages"], "id = $1", Param::Int(*id)),
        Rows::WithMessageId(id) => (
            &["campaign_recipients", "transactional_messages"],
            "ses_message_id = $1",
            Param::Text(id),
        ),
    };
    let mut found = 0;
    for table in tables {
        let sql = format!("UPDATE {table} SET {} WHERE {condition}", changes(mark));
        let params = [key, Param::Int(now), Param::Int(at)];
        // PostgreSQL wants no parameter that the statement does not name.
        let named = if mark.column().is_some() { 3 } else { 2 };
        found += tx.execute(&sql, &params[..named])?;
    }
    Ok(found)
}

fn changes(mark: Mark) -> String {
    let mut changes = vec!["updated_at = $2".to_owned()];
    if let Some(column) = mark.column() {
        // The earliest, in whatever order they come.
        changes.push(format!("{column} = CASE WHEN {column} <= $3 THEN {column} ELSE $3 END"));
    }
    if let Some((status, after)) = mark.status() {
        changes.push(format!(
            "status = CASE WHEN status IN ({after}) THEN '{status}' ELSE status END"
        ));
    }
    changes.join(", ")
}
