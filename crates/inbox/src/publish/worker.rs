//! The worker of `inbox-posts`: takes a post further by a page.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, StorageError};
use tidings_jobs::contracts::{InboxPost, InboxTask};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::causes;

use super::begin::{Begun, begin};
use super::draft::Draft;
use super::{post as load, walk};
use crate::Inbox;
use crate::records::State;

/// How long a post waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How long a message to everyone waits for room.
const FULL_PAUSE: Duration = Duration::from_secs(600);

struct Posts {
    access: Access,
    inbox: Arc<Inbox>,
}

/// Who works on the queue `inbox-posts`.
pub fn handler(access: Access, inbox: Arc<Inbox>) -> Arc<dyn Handler> {
    for_contract(Posts { access, inbox })
}

#[async_trait]
impl Work<InboxPost> for Posts {
    async fn work(&self, message: InboxPost) -> Outcome {
        match self.go_on(&message).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let reason = format!("post {} could not go on: {}", message.id, causes(&error));
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }
}

impl Posts {
    async fn go_on(&self, message: &InboxPost) -> Result<Outcome, StorageError> {
        let (Ok(inbox), Ok(id)) = (message.inbox.parse(), message.id.parse()) else {
            return Ok(Outcome::dead("the message names no inbox and post"));
        };
        let Some(cx) = self.access.working_in(&message.workspace).await? else {
            return Ok(Outcome::Done);
        };
        let Some(mut post) = load(&cx, &inbox, &id).await? else {
            // One that nobody knows any more has expired, with all its messages; or it never came to be.
            if message.task == InboxTask::Redact {
                Draft { cx: &cx, inbox: &inbox, id: &id }.give_up().await?;
            }
            return Ok(Outcome::Done);
        };
        if message.task == InboxTask::Redact && post.state != State::Redacting {
            return Ok(Outcome::Done);
        }
        if message.task == InboxTask::Deliver && post.state == State::Scheduled {
            post = match begin(&self.inbox, &cx, &inbox, post).await? {
                Begun::Yes(post) => *post,
                Begun::Full => {
                    let reason = format!("post {id} waits: its inbox is full of public messages");
                    return Ok(Outcome::wait(reason, FULL_PAUSE));
                }
                Begun::Not => match load(&cx, &inbox, &id).await? {
                    Some(post) => post,
                    None => return Ok(Outcome::Done),
                },
            };
        }
        walk::page(&self.inbox, &cx, &inbox, post).await?;
        Ok(Outcome::Done)
    }
}
