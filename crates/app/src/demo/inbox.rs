//! What the demo's user finds in the inbox of the page: messages of his own and some for everyone, one of them read.

use anyhow::Context as _;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_inbox::Reader;
use tidings_inbox::marks::{Mark, mark};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::read::{Counts, counts};

use super::NAME;
use crate::failure::Failure;
use crate::runtime::Runtime;

/// Where, and whose.
pub(super) const INBOX: &str = "app";
pub(super) const USER: &str = "demo";

/// Publishes them, and tells how many there are then. Posts have ids, so in a folder that is kept nothing comes again.
pub(super) async fn fill(cx: &Cx, runtime: &Runtime) -> Result<Counts, Failure> {
    let reader = Reader { inbox: INBOX.parse()?, uid: USER.parse()?, let_in: None };
    let own = || To::Users(vec![USER.to_owned()]);
    let posts = [
        (
            own(),
            Some("orders"),
            "Your order has arrived",
            json!("Two boxes of tea, order **A-16**."),
            "/orders/A-16",
        ),
        (
            To::Everyone,
            Some("news"),
            "Dark mode is here",
            json!("Choose it under *Settings*, or let your device decide."),
            "/settings",
        ),
        (
            own(),
            Some("account"),
            "Somebody signed in",
            json!("From a new device. If it was not you, change your password."),
            "/account",
        ),
        (
            To::Everyone,
            None,
            "We pause on Sunday",
            json!({"text": "From 6 to 7 in the morning nothing can be ordered."}),
            "",
        ),
        (
            own(),
            Some("orders"),
            "Your order is on its way",
            json!("Order **A-17** will be there on Friday."),
            "/orders/A-17",
        ),
    ];
    for (number, (to, category, title, body, cta_uri)) in posts.into_iter().enumerate() {
        // Each at its own time: readers see them in that order.
        let now = runtime.access().working_in(cx.workspace()).await?;
        let now = now.context("the workspace is gone")?;
        let new = post(to, category, (title, body), (cta_uri, number));
        let published = runtime.inbox.publish(&now, &reader.inbox, new).await?;
        if number == 0 && !published.replayed {
            mark(&now, &runtime.inbox, &reader, Mark::Read, &[published.id]).await?;
        }
    }
    Ok(counts(cx, &runtime.inbox, &reader).await?)
}

fn post(
    to: To,
    category: Option<&str>,
    (title, body): (&str, Value),
    (cta_uri, number): (&str, usize),
) -> NewPost {
    NewPost {
        to,
        label: None,
        category: category.map(ToOwned::to_owned),
        title: title.to_owned(),
        body,
        cta_uri: Some(cta_uri).filter(|uri| !uri.is_empty()).map(ToOwned::to_owned),
        host_system_id: Some(format!("demo/{number}")),
        send_at: None,
        expires_in: None,
        sender: NAME.to_owned(),
    }
}
