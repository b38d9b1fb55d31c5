//! Inboxes with messages in them, written as publishing would leave them, but many in one transaction.

use anyhow::Context;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Cx;
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::{self, InboxKey, UserId};
use tidings_inbox::records::{Content, Marks, Message, Own, Public, UserStats, public_stamp};
use tidings_kernel::{Expect, Item, Txn, Update, tables};

/// So many items are in one transaction.
const TOGETHER: usize = 99;

/// Gives a user so many messages of his own. Tells their ids, the oldest first.
pub(super) async fn own(
    cx: &Cx,
    inbox: &InboxKey,
    uid: &UserId,
    count: usize,
) -> anyhow::Result<Vec<MessageId>> {
    let (mut ids, mut items) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
    for number in 0..count {
        let message = message(cx, count - number)?;
        ids.push(message.id.clone());
        let own = Own { message, uid: uid.clone(), marks: Marks::default() };
        items.push(own.to_item(cx.workspace(), inbox));
    }
    let published = i64::try_from(count)?;
    // He was here before: who comes first is a case of its own.
    let soonest = items.iter().filter_map(|item| tables::INBOX.expires_at(item)).min();
    let stats = UserStats { since: Some(0), soonest, ..UserStats::default() };
    let stats = UserStats { published, rev: published, ..stats };
    items.push(stats.to_item(cx.workspace(), inbox, uid));
    put(cx, items).await?;
    Ok(ids)
}

/// Gives everyone so many messages.
pub(super) async fn public(cx: &Cx, inbox: &InboxKey, count: usize) -> anyhow::Result<()> {
    let mut items = Vec::with_capacity(count);
    for number in 0..count {
        let (message, seq) = (message(cx, count - number)?, i64::try_from(number + 1)?);
        items.push(Public { message, seq, redacted: None }.to_item(cx.workspace(), inbox));
    }
    put(cx, items).await?;
    let (count, key) = (i64::try_from(count)?, keys::counts(&keys::public(cx.workspace(), inbox)));
    let update = Update::new(&tables::INBOX, key);
    let stamp = public_stamp(cx.workspace(), inbox).into_iter();
    let update = stamp.fold(update, |update, (name, value)| update.set(name, value));
    let update = update.set("published", count).set("rev", count).set("issued", count);
    cx.items().await?.update(update).await?;
    Ok(())
}

async fn put(cx: &Cx, items: Vec<Item>) -> anyhow::Result<()> {
    let store = cx.items().await?;
    for some in items.chunks(TOGETHER) {
        let put = |txn: Txn, item: &Item| txn.put(&tables::INBOX, item.clone(), Expect::Absent);
        store.transact(some.iter().fold(Txn::new(), put)).await?;
    }
    Ok(())
}

/// One of so many seconds ago.
fn message(cx: &Cx, seconds: usize) -> anyhow::Result<Message> {
    let at = cx.now() - i64::try_from(seconds)?.seconds();
    let expires = (cx.now() + (30 * 24).hours()).as_second();
    Ok(Message {
        id: MessageId::new(at),
        host_system_id: None,
        sender: "shop".to_owned(),
        label: None,
        received: at,
        delivered: at,
        expires: jiff::Timestamp::from_second(expires).context("there is no such time")?,
        category: None,
        content: Some(Content {
            title: "Your order is on its way".to_owned(),
            body: json!({"text": "It left our house this morning and is with you tomorrow.", "order": seconds}),
            cta_uri: Some("https://shop.example/orders/1".to_owned()),
        }),
    })
}
