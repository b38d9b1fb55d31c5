//! What came back, marked in the ledger: `ses-webhooks` from the provider, `email-events` from our own endpoints.

use async_trait::async_trait;
use tidings_jobs::contracts::{EmailEvent, EventType, IngressError, NotificationType, SesWebhook};
use tidings_jobs::{Handler, Outcome, Work};
use tidings_kernel::Delivery;

use super::marks::{Mark, Rows, mark};
use super::{Ledger, failed};

/// After so many tries a notification is taken to be about somebody else's message.
const PATIENCE: u32 = 6;

pub(super) struct ProviderEvents(pub(super) Ledger);

#[async_trait]
impl Handler for ProviderEvents {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let event = match SesWebhook::from_queue(&delivery.body, self.0.clock.now()) {
            Ok(event) => event,
            Err(
                error @ (IngressError::Subscription(_)
                | IngressError::Announcement
                | IngressError::Unsupported(_)),
            ) => {
                tracing::info!(message.id = delivery.id, %error, "A notification needs nothing done");
                return Outcome::Done;
            }
            Err(error) => return Outcome::dead(error.to_string()),
        };
        let Some(message) = event.ses_message_id else { return Outcome::Done };
        let kind = match event.notification_type {
            NotificationType::Send => Mark::Sent,
            NotificationType::Reject => Mark::Failed,
            NotificationType::Delivery => Mark::Delivered,
            NotificationType::Bounce => Mark::Bounced,
            NotificationType::Complaint => Mark::Complained,
            NotificationType::Open => Mark::Opened,
            NotificationType::Click => Mark::Clicked,
        };
        let at = event.received_at.as_millisecond();
        match self.0.mark(Rows::WithMessageId(message), kind, at).await {
            // The provider may be quicker than whoever writes down the id that it gave.
            Ok(0) if delivery.receives <= PATIENCE => {
                Outcome::retry(format!("event {} is about no message yet", event.provider_event_id))
            }
            Ok(0) => {
                let event = event.provider_event_id;
                tracing::info!(event.id = event, "A notification is about no message of ours");
                Outcome::Done
            }
            Ok(_) => Outcome::Done,
            Err(error) => failed(&error),
        }
    }
}

pub(super) struct FirstPartyEvents(pub(super) Ledger);

#[async_trait]
impl Work<EmailEvent> for FirstPartyEvents {
    async fn work(&self, event: EmailEvent) -> Outcome {
        let rows = match (event.campaign_recipient_id, event.transactional_message_id) {
            (Some(id), _) => Rows::Recipient(id),
            (None, Some(id)) => Rows::Transactional(id),
            (None, None) => {
                return Outcome::dead(format!("event {} names no message", event.event_id));
            }
        };
        let kind = match event.event_type {
            EventType::Open => Mark::Opened,
            EventType::Click => Mark::Clicked,
            EventType::Unsubscribe => Mark::Unsubscribed,
        };
        match self.0.mark(rows, kind, event.occurred_at.as_millisecond()).await {
            Ok(0) => {
                Outcome::retry(format!("event {} is about a row that is not there", event.event_id))
            }
            Ok(_) => Outcome::Done,
            Err(error) => failed(&error),
        }
    }
}

impl Ledger {
    async fn mark(
        &self,
        rows: Rows,
        kind: Mark,
        at: i64,
    ) -> Result<u64, tidings_sql::DatabaseError> {
        let now = self.clock.now().as_millisecond();
        self.database.write_committed(move |tx| mark(tx, &rows, kind, at, now)).await
    }
}
