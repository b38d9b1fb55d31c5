//! The mail that asks somebody to confirm a subscription.
//!
//! Here: what that mail says and to whom, counted against the limit of such mails. The commit that makes the mail necessary
//! puts a message into `confirmation-mail`, whose worker (`worker`) makes it; whoever waits for an answer makes it himself, at
//! once, and the worker finds it done: each mail has a number, and a key made of it. Not here: what a confirmation
//! changes (`people::consent::confirmations`), the link's proof (`links`), and how the mail is sent (`transactional`).

#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_people::consent::confirmations::{self, Request, RequestError};
use tidings_people::consent::{SubscriptionId, audiences};

use crate::links::Links;
use crate::templates::{self, Pick, TemplateKey};
use crate::transactional::{AcceptError, Accepted, Content, Messages, Send, Tracking};

pub use worker::Worker;

#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub subscription: SubscriptionId,
    /// Who asks, if the subscription is to the whole audience.
    pub client: ClientId,
    /// The number of the mail.
    pub send: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the mail that asks for a confirmation was not accepted")]
    Accept(#[from] AcceptError),
}

/// Sends the mail with this number that asks somebody to confirm, once: doing it again finds it done.
pub async fn ask(
    cx: &Cx,
    messages: &Messages,
    links: &Links,
    cmd: Ask,
) -> Result<Accepted, AskError> {
    links.refresh(cx.now()).await.map_err(AcceptError::from)?;
    let request = confirmations::request(cx, cmd.subscription, cmd.send).await?;
    let url = links.confirm(cx.workspace_id().get(), cmd.subscription.get());
    Ok(messages.accept(cx, mail(request, cmd.client, url)).await?)
}

/// Why a template cannot ask for confirmations, if it cannot. Those that are about to be made active count as if they were.
pub async fn wrong_template(
    cx: &Cx,
    key: &str,
    coming: &BTreeSet<TemplateKey>,
) -> Result<Option<String>, StorageError> {
    let Ok(key) = key.parse::<TemplateKey>() else {
        return Ok(Some(format!("{key} is no key of a template")));
    };
    if key.is_partial() {
        return Ok(Some(format!("{key} is a part of templates, and no mail")));
    }
    if coming.contains(&key) || templates::find(cx, &key, Pick::Active).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(format!("there is no active template {key}")))
}

/// Whether whoever comes to an audience is asked by a mail, or why he cannot be.
pub async fn asks(cx: &Cx, audience: Slug) -> Result<Result<bool, String>, StorageError> {
    let audience = match audiences::find(cx, audience).await {
        Ok(audience) => audience,
        // Whoever wants to join it is told.
        Err(audiences::FindError::Missing(_)) => return Ok(Ok(false)),
        Err(audiences::FindError::Store(error)) => return Err(error.into()),
    };
    let template = audience.confirm_template_key.filter(|_| audience.double_opt_in);
    let Some(key) = template else { return Ok(Ok(false)) };
    let wrong = wrong_template(cx, key.as_str(), &BTreeSet::new()).await?;
    Ok(wrong.map_or(Ok(true), Err))
}

/// What became of asking somebody who waits.
#[derive(Debug)]
pub enum Asked {
    Accepted(Accepted),
    /// As many mails have asked as may within a day.
    TooMany {
        next: Timestamp,
    },
    /// The audience has no template: whoever subscribes people asks them by himself.
    ByClient,
    /// The mail could not be made. The subscription waits all the same.
    Refused(AcceptError),
    /// Meanwhile there is nobody to ask, or nothing to ask for.
    Over,
}

/// Asks somebody who has just been subscribed: a mail that cannot be sent does not undo that.
pub async fn ask_once_subscribed(
    cx: &Cx,
    messages: &Messages,
    links: &Links,
    cmd: Ask,
) -> Result<Asked, StorageError> {
    match ask(cx, messages, links, cmd).await {
        Ok(accepted) => Ok(Asked::Accepted(accepted)),
        Err(AskError::Request(error)) => match error {
            RequestError::TooMany { next, .. } | RequestError::TooManyToPerson { next, .. } => {
                Ok(Asked::TooMany { next })
            }
            RequestError::NoTemplate(_) => Ok(Asked::ByClient),
            RequestError::Missing(_) | RequestError::NotAsked(_) | RequestError::NoAddress(_) => {
                Ok(Asked::Over)
            }
            RequestError::Store(error) => Err(error.into()),
        },
        Err(AskError::Accept(AcceptError::Store(error))) => Err(error),
        Err(AskError::Accept(error)) => Ok(Asked::Refused(error)),
    }
}

/// The template knows `confirm_url`, `audience` and `expires_at`.
fn mail(request: Request, client: ClientId, url: String) -> Send {
    let client = request.subscription.client.unwrap_or(client);
    let content = Content::Template(request.template_key.to_string());
    let mut send = Send::of(client, request.email, content);
    for (name, text) in [
        ("confirm_url", url),
        ("audience", request.audience.to_string()),
        ("expires_at", request.expires_at.to_string()),
    ] {
        send.context.insert(name.to_owned(), text.into());
    }
    // Each mail that asks has its own key, so that a repeat of one is not sent twice.
    send.idempotency_key = Some(key(request.subscription.id, request.send));
    send.tracking = Tracking::Off;
    send
}

fn key(subscription: SubscriptionId, send: i64) -> String {
    format!("confirm:{subscription}:{send}")
}
