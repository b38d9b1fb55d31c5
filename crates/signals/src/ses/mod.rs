//! What the provider tells: the worker of `ses-webhooks`.
//!
//! Here: reading a notification, finding the message that it is about, and recording an event for each person that it
//! happened to. Not here: whether a notification is genuine (`sns`, for those that come over HTTP), and what an event
//! changes (`events`).

mod notification;
pub mod stray;
#[cfg(test)]
mod tests;
mod verdicts;

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tidings_access::{Access, Cx, workspaces};
use tidings_delivery::ledger::{Message, Source};
use tidings_jobs::contracts::{IngressError, SesEvent, SesEventType};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::Delivery;
use tidings_sql::DatabaseError;

use crate::events::{EventKind, RecordError, record_of, times_seen};
use crate::replies::{self, Replies};
use crate::tracking::recompute;
use crate::tracking::sight::see;
pub(crate) use notification::Notification;

/// After so many tries a notification is taken to be about somebody else's message.
const PATIENCE: u32 = 6;

/// Who works on the queue. Mail that comes in by it is for `replies`.
pub fn worker(replies: Replies) -> Arc<dyn Handler> {
    let (access, keep_days) = (replies.access.clone(), replies.keep_days);
    Arc::new(Worker { access, replies, keep_days })
}

struct Worker {
    access: Access,
    replies: Replies,
    keep_days: Option<u32>,
}

#[async_trait]
impl Handler for Worker {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let notification = match Notification::read(&delivery.body, self.access.now()) {
            Ok(notification) => notification,
            Err(error @ (IngressError::Subscription(_) | IngressError::Announcement)) => {
                tracing::info!(message.id = delivery.id, %error, "A notification needs nothing done");
                return Outcome::Done;
            }
            Err(IngressError::Unsupported(event)) if event.kind == SesEventType::Received => {
                return self.take_mail(&event).await;
            }
            Err(IngressError::Unsupported(event)) => {
                let kind = event.kind.as_str();
                tracing::info!(event.id = event.id, "An event of type {kind} needs nothing done");
                return Outcome::Done;
            }
            Err(error) => return Outcome::dead(error.to_string()),
        };
        match self.take(&notification, delivery).await {
            Ok(outcome) => outcome,
            Err(error) => failed(&error, told(&notification, &error)),
        }
    }
}

fn failed(error: &RecordError, reason: String) -> Outcome {
    match error.wait_for() {
        Some(after) => Outcome::wait(reason, after),
        None if error.is_passing() => Outcome::retry(reason),
        None => Outcome::dead(reason),
    }
}

fn told(notification: &Notification, error: &RecordError) -> String {
    format!("event {} was not recorded: {}", notification.id, tidings_kernel::causes(error))
}

impl Worker {
    /// A mail that came in, in the encoding that the rule of SES says.
    async fn take_mail(&self, event: &SesEvent) -> Outcome {
        let Some(content) = event.event.get("content").and_then(Value::as_str) else {
            return Outcome::dead(format!(
                "mail {} came without its content: let the rule of SES publish to SNS",
                event.id
            ));
        };
        let action = event.event.get("receipt").map(|receipt| &receipt["action"]["encoding"]);
        let is_base64 = action
            .and_then(Value::as_str)
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("BASE64"));
        let mime = if is_base64 {
            // Some encoders break the lines.
            let text: String = content.split_whitespace().collect();
            match BASE64_STANDARD.decode(text) {
                Ok(mime) => mime,
                Err(_) => return Outcome::dead(format!("mail {} is not base64", event.id)),
            }
        } else {
            content.as_bytes().to_vec()
        };
        let trust = verdicts::trust(event.event.get("receipt"));
        match self.replies.deliver(&mime, trust).await {
            Ok(_) => Outcome::Done,
            Err(replies::ReceiveError::Record(error)) => {
                failed(&error, format!("mail {} was not recorded: {error}", event.id))
            }
            Err(error) => Outcome::dead(format!("mail {} was not recorded: {error}", event.id)),
        }
    }

    async fn take(
        &self,
        notification: &Notification,
        delivery: &Delivery,
    ) -> Result<Outcome, RecordError> {
        let id = &notification.id;
        let (cx, message) = match self.find(notification).await? {
            Some((cx, message)) => (cx, Some(message)),
            // The provider may be quicker than whoever writes down the id that it gave.
            None if delivery.receives <= PATIENCE => {
                return Ok(Outcome::retry(format!("event {id} is about no message yet")));
            }
            None => match self.tagged(notification).await? {
                Some(cx) => (cx, None),
                None => {
                    tracing::info!(event.id = id, "A notification is about no message of ours");
                    self.keep(notification).await?;
                    return Ok(Outcome::Done);
                }
            },
        };
        for mut event in notification.events(message.as_ref()) {
            event.keep_days = self.keep_days;
            let said = notification.facts();
            event.is_echo =
                said.is_some() && message.as_ref().is_some_and(|message| message.is_tracked);
            let arrived = event.source.filter(|_| event.kind == EventKind::Delivery);
            match (said, &message) {
                // Who did it is decided of what is counted, and only of that.
                (Some(said), Some(message)) if !event.is_echo && event.is_of_addressee(message) => {
                    let again = notification.again(&delivery.body);
                    see(&cx, message, event, said, again).await?;
                }
                _ => drop(record_of(&cx, event, message.as_ref()).await?),
            }
            // Whoever opened it before we knew when it arrived is looked at again. Most often nobody has.
            if let Some(source) = arrived
                && times_seen(&cx, source).await? != (0, 0)
            {
                recompute(&cx, source).await?;
            }
        }
        Ok(Outcome::Done)
    }

    /// The one message that it is about, and the workspace of that.
    async fn find(&self, notice: &Notification) -> Result<Option<(Cx, Message)>, DatabaseError> {
        if let Some(source) = notice.tag("message").and_then(Source::from_reference) {
            let found = self.access.database().glance(move |tx| Message::find(tx, source)).await?;
            if let Some(message) = found
                && let Some(cx) = self.access.working_for(message.workspace).await?
                && notice.is_about(&message, &cx)
            {
                return Ok(Some((cx, message)));
            }
        }
        let Some(id) = notice.provider_message_id.clone() else { return Ok(None) };
        let find = self.access.database().read(move |tx| Message::of_provider(tx, &id));
        let mut found: Vec<Message> = find.await?;
        if found.len() > 1 {
            tracing::warn!(event.id = notice.id, "A notification is about more than one message");
            return Ok(None);
        }
        let Some(message) = found.pop() else { return Ok(None) };
        let cx = self.access.working_for(message.workspace).await?;
        Ok(cx.map(|cx| (cx, message)))
    }

    /// The workspace that the tag names, if there is one.
    async fn tagged(&self, notice: &Notification) -> Result<Option<Cx>, DatabaseError> {
        let Some(tag) = notice.tag("workspace") else { return Ok(None) };
        if let Ok(id) = tag.parse() {
            return self.access.working_for(id).await;
        }
        let Ok(name) = tag.parse() else { return Ok(None) };
        match workspaces::find(&self.access, name).await {
            Ok(found) => self.access.working_for(found.id.get()).await,
            Err(workspaces::FindError::Missing(_)) => Ok(None),
            Err(workspaces::FindError::Store(error)) => Err(error),
        }
    }

    async fn keep(&self, notice: &Notification) -> Result<(), DatabaseError> {
        let stray = stray::Stray {
            id: notice.id.clone(),
            event_type: notice.kind.as_str().to_owned(),
            reason: "it is about no message of ours".to_owned(),
            received_at: notice.received_at,
            // Nobody can say whose it is, so nobody could erase what it says of people.
            body: notice.without_people().to_string(),
        };
        stray::keep(self.access.database(), stray).await
    }
}
