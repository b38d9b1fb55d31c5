//! An address that the server turned away at its door: nobody is there, and since it took nothing, no other news will come.
//!
//! So we say it ourselves, in the words and by the queue of a provider that takes everything and tells of a bounce later.
//! Whoever works on that queue (`signals::ses`) records it once and suppresses the address. So such a message counts as
//! sent and bounced, whichever way it went: rates of two providers mean the same. Not here: which answers of a
//! server say so (`mail::smtp`).

use jiff::Timestamp;
use serde_json::json;
use tidings_jobs::contracts::{Contract as _, NotificationType, Provider, SesWebhook};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, Tx};

use super::Source;

/// The most characters that are told of what a server said.
const MAX_SAID: usize = 1_000;

/// Who was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnedAway<'a> {
    pub workspace: i64,
    pub source: Source,
    /// Which try of the message it was: the same try is told once.
    pub attempt: i64,
    /// Whom the message was written to, or somebody who was to get a copy.
    pub email: &'a str,
    /// By RFC 3463.
    pub status: &'a str,
    pub said: &'a str,
}

/// Tells it in the commit that makes it true.
pub fn tell(
    tx: &mut Tx<'_>,
    turned_away: &TurnedAway<'_>,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let TurnedAway { workspace, source, attempt, email, status, said } = *turned_away;
    let said: String = said.chars().filter(|c| *c != '\0').take(MAX_SAID).collect();
    let details = json!({
        "event_timestamp": now,
        "bounce_type": "Permanent",
        "bounce_subtype": "General",
        "recipients": [{ "email": email, "status": status, "diagnostic": said }],
        "tags": { "workspace": workspace.to_string(), "message": source.reference() },
    });
    let webhook = SesWebhook {
        // The contract knows no other. What came over SMTP is told apart by its id.
        provider: Provider::Ses,
        provider_event_id: format!("{}:turned-away:{attempt}", source.reference()),
        notification_type: NotificationType::Bounce,
        received_at: now,
        ses_message_id: None,
        mail_message_id: None,
        raw_payload_s3_key: None,
        metadata: details.as_object().cloned(),
    };
    let body = webhook.to_body();
    let body = body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    Ok(tx.enqueue(&Outgoing::new(&queues::SES_WEBHOOKS, body), now)?)
}
