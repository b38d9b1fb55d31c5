//! The mail that asks somebody to confirm a subscription.
//!
//! Here: what that mail says and to whom, counted against the limit of such mails. Not here: what a confirmation
//! changes (`people::consent::confirmations`), the link's proof (`links`), and handing the mail over.

use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_people::consent::SubscriptionId;
use tidings_people::consent::confirmations::{self, Request, RequestError};

use crate::links::Links;

#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub subscription: SubscriptionId,
    /// Who asks, if the subscription is to the whole audience.
    pub client: ClientId,
}

/// The mail, ready to be accepted as a transactional message.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    pub client: ClientId,
    pub to: EmailAddress,
    pub template_key: String,
    /// `confirm_url`, `audience` and `expires_at`.
    pub context: Map<String, Value>,
    /// Each mail that asks has its own, so that a repeat of one is not sent twice.
    pub idempotency_key: String,
}

/// Counts one more mail that asks, and makes it. If we die before it is accepted, it counts all the same: the person
/// can ask again, and nobody gets more than the limit.
pub async fn prepare(cx: &Cx, links: &Links, cmd: Ask) -> Result<Asking, RequestError> {
    let request = confirmations::request(cx, cmd.subscription).await?;
    let url = links.confirm(cx.workspace_id().get(), cmd.subscription.get());
    Ok(mail(request, cmd.client, url))
}

fn mail(request: Request, client: ClientId, url: String) -> Asking {
    let context = [
        ("confirm_url", url),
        ("audience", request.audience.to_string()),
        ("expires_at", request.expires_at.to_string()),
    ];
    Asking {
        client: request.subscription.client.unwrap_or(client),
        to: request.email,
        template_key: request.template_key.to_string(),
        context: context.map(|(name, text)| (name.to_owned(), text.into())).into_iter().collect(),
        idempotency_key: format!("confirm:{}:{}", request.subscription.id, request.send),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

    use tidings_people::consent::confirmations::RequestError;
    use tidings_people::consent::subscriptions::{self, Subscribe};
    use tidings_people::consent::{Act, By, Proof, Whom, audiences};
    use tidings_testbed::{Bed, each_store};

    use super::{Ask, prepare};
    use crate::links::Links;

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
        let ask = Ask { subscription: pending.id, client: bed.shop(&cx).await.id };
        let mail = prepare(&cx, &links, ask).await.unwrap();
        assert_eq!((mail.to.as_str(), mail.client), ("ada@example.org", ask.client));
        assert_eq!(mail.template_key, "confirm/news");
        assert_eq!(mail.context["audience"], "The news");
        let url = mail.context["confirm_url"].as_str().unwrap();
        let token = url.strip_prefix("https://mail.example.org/confirm/").unwrap();
        let read = links.read_confirm(token, cx.now()).await.unwrap();
        assert_eq!(read.subscription, pending.id.get());
        let second = prepare(&cx, &links, ask).await.unwrap();
        assert_ne!(second.idempotency_key, mail.idempotency_key);
        prepare(&cx, &links, ask).await.unwrap();
        let fourth = prepare(&cx, &links, ask).await.unwrap_err();
        assert!(matches!(fourth, RequestError::TooMany { .. }), "{fourth:?}");
    }
}
