//! Consent, as those who give it and take it back notice it.

mod double_opt_in;
mod erased;
mod leaving;
mod switches;

use jiff::ToSpan as _;
use tidings_access::{ClientId, Cx, DisplayName, Limit, Slug};
use tidings_kernel::{EmailAddress, Item, Value, tables};
use tidings_testbed::Bed;

use super::audiences::{self, Audience};
use super::proof::{self, Act, Entry, Proof};
use super::subscriptions::{self, Outcome, Resubscribe, Subscribe, Unsubscribe};
use super::{By, Scope, Whom, topics};
use crate::keys;

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

fn email(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

fn ada() -> Whom {
    Whom::Email(email("ada@example.org"))
}

fn act(by: By) -> Act {
    Act { by, source: "form".parse().unwrap(), reason: None, proof: Proof::default() }
}

fn because(by: By, reason: &str) -> Act {
    Act { reason: Some(reason.parse().unwrap()), ..act(by) }
}

async fn audience(cx: &Cx, name: &str, double_opt_in: bool) -> Audience {
    let create = audiences::Create {
        slug: slug(name),
        name: DisplayName::from(&slug(name)),
        double_opt_in,
        confirm_template_key: None,
    };
    audiences::create(cx, create).await.unwrap()
}

async fn topic(cx: &Cx, name: &str) {
    let name = slug(name);
    let create = topics::Create { name: DisplayName::from(&name), slug: name, description: None };
    topics::create(cx, create).await.unwrap();
}

async fn subscribe(cx: &Cx, audience: &Audience, client: Option<ClientId>, by: By) -> Outcome {
    let cmd =
        Subscribe { whom: ada(), audience: audience.id, client, confirmed: false, act: act(by) };
    subscriptions::subscribe(cx, cmd).await.unwrap()
}

async fn leave(cx: &Cx, scope: Scope) -> Outcome {
    let cmd = Unsubscribe { whom: ada(), scope, act: because(By::Person, "too much mail") };
    subscriptions::unsubscribe(cx, cmd).await.unwrap()
}

async fn come_back(cx: &Cx, scope: Scope) -> Outcome {
    let cmd = Resubscribe { whom: ada(), scope, act: act(By::Person) };
    subscriptions::resubscribe(cx, cmd).await.unwrap()
}

/// A little later: what happens at the same moment has no order.
async fn later(bed: &Bed) -> Cx {
    bed.clock.advance(1.minute());
    bed.cx().await
}

async fn log(cx: &Cx) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let limit = Limit::try_from(2).unwrap();
        let Some(page) = proof::list(cx, ada(), before, limit).await.unwrap() else { return all };
        all.extend(page.items);
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

/// The log as words, the newest first: `unsubscribed news/shop`.
async fn logged(cx: &Cx) -> Vec<String> {
    let line = |entry: Entry| {
        let place: Vec<_> = [entry.audience, entry.client, entry.topic]
            .into_iter()
            .flatten()
            .map(|slug| slug.to_string())
            .collect();
        let place = if place.is_empty() { "everything".to_owned() } else { place.join("/") };
        format!("{} {place}", entry.action.as_str())
    };
    log(cx).await.into_iter().map(line).collect()
}

async fn profile(cx: &Cx) -> Option<Item> {
    let key = keys::profile(&email("ada@example.org"));
    cx.items().await.unwrap().get(&tables::MAIN, &key).await.unwrap()
}

async fn is_marked(cx: &Cx) -> bool {
    profile(cx).await.is_some_and(|item| item.get("unsubscribed") == Some(&Value::Bool(true)))
}

async fn audited(cx: &Cx) -> i64 {
    let sql = "SELECT count(*) FROM audit_log WHERE action LIKE 'subscription.%' OR action LIKE 'contact.%'
               OR action LIKE 'preference.%'";
    cx.database().read(move |tx| tx.query(sql, &[])?[0].int(0)).await.unwrap()
}
