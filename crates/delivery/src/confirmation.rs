//! The mail that asks somebody to confirm a subscription.
//!
//! Here: what that mail says and to whom, counted against the limit of such mails. Not here: what a confirmation
//! changes (`people::consent::confirmations`), the link's proof (`links`), and how the mail is sent (`transactional`).

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_access::{ClientId, Cx, StorageError};
use tidings_people::consent::SubscriptionId;
use tidings_people::consent::confirmations::{self, Request, RequestError};

use crate::links::Links;
use crate::templates::{self, Pick, TemplateKey};
use crate::transactional::{AcceptError, Accepted, Content, Messages, Send, Tracking};

#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub subscription: SubscriptionId,
    /// Who asks, if the subscription is to the whole audience.
    pub client: ClientId,
}

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the mail that asks for a confirmation was not accepted")]
    Accept(#[from] AcceptError),
}

/// Sends one more mail that asks somebody to confirm. If we die before it is accepted, it counts all the same: the
/// person can ask again, and nobody gets more than the limit.
pub async fn ask(
    cx: &Cx,
    messages: &Messages,
    links: &Links,
    cmd: Ask,
) -> Result<Accepted, AskError> {
    links.refresh(cx.now()).await.map_err(AcceptError::from)?;
    let request = confirmations::request(cx, cmd.subscription).await?;
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
    send.idempotency_key = Some(format!("confirm:{}:{}", request.subscription.id, request.send));
    send.tracking = Tracking::Off;
    send
}

#[cfg(test)]
mod tests {
    use tidings_people::consent::confirmations::{self, RequestError};
    use tidings_people::consent::subscriptions::{self, Subscribe};
    use tidings_people::consent::{Act, By, Proof, Whom, audiences};
    use tidings_testbed::{Bed, each_store};

    use super::mail;
    use crate::links::Links;
    use crate::transactional::{Content, Tracking};

    each_store! { the_mail_has_a_link_that_confirms_and_there_are_three_a_day }

    async fn the_mail_has_a_link_that_confirms_and_there_are_three_a_day(bed: &Bed) {
        let cx = bed.cx().await;
        let create = audiences::Create {
            slug: "news".parse().unwrap(),
            name: "The news".parse().unwrap(),
            double_opt_in: true,
            confirm_template_key: Some("confirm/news".parse().unwrap()),
        };
        let audience = audiences::create(&cx, create).await.unwrap().id;
        let source = "form".parse().unwrap();
        let act = Act { by: By::Person, source, reason: None, proof: Proof::default() };
        let whom = Whom::Email("ada@example.org".parse().unwrap());
        let cmd = Subscribe { whom, audience, client: None, confirmed: false, act };
        let pending = subscriptions::subscribe(&cx, cmd).await.unwrap().subscription.unwrap();
        let links = Links::load(cx.database(), "https://mail.example.org", cx.now()).await.unwrap();
        let (id, shop) = (pending.id, bed.shop(&cx).await.id);
        let url = links.confirm(cx.workspace_id().get(), id.get());
        let token = url.strip_prefix("https://mail.example.org/confirm/").unwrap();
        let read = links.read_confirm(token, cx.now()).await.unwrap();
        assert_eq!(read.subscription, id.get());
        let mut keys = Vec::new();
        for _ in 0..3 {
            let request = confirmations::request(&cx, id).await.unwrap();
            let send = mail(request, shop, url.clone());
            assert_eq!((send.to.as_str(), send.client), ("ada@example.org", shop));
            assert_eq!(send.content, Content::Template("confirm/news".to_owned()));
            assert_eq!(send.context["confirm_url"], url);
            assert_eq!(send.context["audience"], "The news");
            assert_eq!(send.tracking, Tracking::Off, "the link must lead where it says");
            keys.push(send.idempotency_key.unwrap());
        }
        keys.dedup();
        assert_eq!(keys.len(), 3, "{keys:?}");
        let fourth = confirmations::request(&cx, id).await.unwrap_err();
        assert!(matches!(fourth, RequestError::TooMany { .. }), "{fourth:?}");
    }
}
