//! What became of a reminder in the hands of the mail core: its message in the ledger says so, in whatever order and however
//! often it is told.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_delivery::transactional::{self, Find, FindError, Message, MessageId};
use tidings_kernel::{Condition, Expect, Key, Query, StoreError, Update, tables};
use tidings_people::race;
use tidings_webhooks::EventType;

use crate::ids::DraftId;
use crate::record::{Delivery, Draft, Last, Sent, State, Status, whole};
use crate::{case, escalate, keys, news, settings};

/// Writes down which message a draft has.
pub(crate) async fn note_message(cx: &Cx, id: &DraftId, message: i64) -> Result<(), StorageError> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
        if draft.message.is_some() {
            return Ok(());
        }
        let after = Draft { message: Some(message), ..draft };
        match items.transact(after.put(tidings_kernel::Txn::new())).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Looks at the message of a draft, and writes down what it says.
pub(crate) async fn learn(cx: &Cx, id: &DraftId, message: i64) -> Result<(), StorageError> {
    use transactional::Status as Ledger;
    let find = Find { id: MessageId::from(message), client: None };
    let message = match transactional::show(cx, find).await {
        Ok(found) => found.message,
        Err(FindError::Missing(_)) => return Ok(()),
        Err(FindError::Store(error)) => return Err(error.into()),
    };
    if message.reminder.as_deref() != Some(id.as_str()) {
        tracing::warn!(draft = %id, message.id = %message.id, "A message is not of the draft that was told of it");
        return Ok(());
    }
    let delivery = match message.status {
        Ledger::Queued | Ledger::Claimed => return Ok(()),
        Ledger::Uncertain => return uncertain(cx, id).await,
        Ledger::Skipped => {
            let why = message.skip_reason.as_deref().unwrap_or("skipped");
            return end(cx, id, Status::Failed, &format!("must not be written to: {why}")).await;
        }
        Ledger::Cancelled => return cancelled(cx, id, &message).await,
        Ledger::Failed => Delivery::Failed,
        Ledger::Sent => Delivery::Sent,
        Ledger::Delivered => Delivery::Delivered,
        Ledger::Bounced => Delivery::Bounced,
        Ledger::Complained => Delivery::Complained,
    };
    arrived(cx, id, &message, delivery).await
}

/// It was handed over, or the provider would not have it.
async fn arrived(
    cx: &Cx,
    id: &DraftId,
    message: &Message,
    delivery: Delivery,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let draft = case::load_draft(items.as_ref(), id).await?;
        let record = match &draft {
            Some(draft) => draft.sent.as_ref().map(|sort| keys::sent(&draft.customer, sort)),
            // The record of its sending is kept for longer.
            None => find_sent(cx, id).await?,
        };
        let written = match (record, draft, delivery) {
            (Some(key), _, _) => note_delivery(cx, key, (message, delivery)).await,
            (None, None, _) => return Ok(()),
            (None, Some(_), Delivery::Failed) => {
                // What the provider said may name a person, and is in the ledger.
                return end(cx, id, Status::Failed, "the provider refused it").await;
            }
            (None, Some(draft), _) => sent(cx, &draft, (message, delivery)).await,
        };
        match written {
            Ok(()) => return Ok(()),
            Err(StorageError::Items(error)) if race::lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Conflict.into())
}

/// From now on there is a record of it, and the rules count from when it was sent.
async fn sent(
    cx: &Cx,
    draft: &Draft,
    (message, delivery): (&Message, Delivery),
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let mut state = case::load_state(items.as_ref(), &draft.customer).await?;
    let times = &message.times;
    let mut at = whole(times.sent_at.or(times.handed_at).unwrap_or(times.updated_at));
    // Two of a kind in one second are not possible by the rules; a person who settles what nobody knew can make them.
    let record = loop {
        let record = Sent::of(draft, message.id.get(), at);
        let key = keys::sent(&draft.customer, &record.sort());
        if items.get(&tables::EMAIL_TRACKING, &key).await?.is_none() {
            break record;
        }
        at += jiff::SignedDuration::from_secs(1);
    };
    let provider_message_id = message.provider_message_id.clone();
    let record = Sent { delivery, provider_message_id, ..record };
    let mut after = case::moved(draft, &mut state, (Status::Sent, None), cx.now());
    after.sent = Some(record.sort());
    after.message = Some(message.id.get());
    counted(&mut state, draft, record.sent_at);
    let mut txn = record.put(case::written(&after, &state));
    txn = news::audited(cx, txn, "reminder.sent", (Some(draft), &after));
    let policy = settings::get(cx).await?.policy;
    txn = escalate::armed(cx, txn, &state, &policy);
    let txn = news::announced(cx, txn, &after, EventType::ReminderSent).await?;
    items.transact(txn).await?;
    tracing::info!(draft = %draft.id, message.id = %message.id, "Reminder {} was sent", draft.id);
    Ok(())
}

/// A later one may have been sent since, if nobody knew of this one for long.
fn counted(state: &mut State, draft: &Draft, at: Timestamp) {
    let is_newest =
        state.last(draft.kind).is_none_or(|last| last.draft == draft.id || last.at <= at);
    if is_newest {
        state.set_last(draft.kind, Some(Last { at, draft: draft.id.clone() }));
    }
}

/// The record of the sending of a draft that is not kept any more.
async fn find_sent(cx: &Cx, id: &DraftId) -> Result<Option<Key>, StorageError> {
    let items = cx.items().await?;
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::EMAIL_TRACKING, keys::customer(&id.customer()))
            .begins_with(keys::SENT)
            .filter(Condition::eq("draft", id.as_str()))
            .after(cursor);
        let page = items.query(query).await?;
        if let Some(item) = page.items.first() {
            return Ok(Some(tables::EMAIL_TRACKING.key_of(item).map_err(StoreError::from)?));
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}

/// What becomes of it after it was sent. It only ever becomes more: a delivery that is told late does not undo a bounce.
async fn note_delivery(
    cx: &Cx,
    key: Key,
    (message, delivery): (&Message, Delivery),
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let Some(item) = items.get(&tables::EMAIL_TRACKING, &key).await? else { return Ok(()) };
    let before = Sent::read(&item)?;
    let after = before.delivery.max(delivery);
    let provider_id = before.provider_message_id.clone().or(message.provider_message_id.clone());
    if after == before.delivery && provider_id == before.provider_message_id {
        return Ok(());
    }
    let same = Condition::eq("delivery_status", before.delivery.as_str());
    let mut update = Update::new(&tables::EMAIL_TRACKING, key)
        .set("delivery_status", after.as_str())
        .expect(Expect::That(same));
    if let Some(id) = provider_id {
        update = update.set("ses_message_id", id);
    }
    items.update(update).await?;
    Ok(())
}

/// Nobody knows whether it was sent. It counts as sent for the rules until somebody knows better.
async fn uncertain(cx: &Cx, id: &DraftId) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
    if draft.status != Status::Sending || draft.reason.is_some() {
        return Ok(());
    }
    let reason = Some("nobody knows whether it was sent: settle its message".to_owned());
    let after = Draft { reason, ..draft };
    match items.transact(after.put(tidings_kernel::Txn::new())).await {
        Ok(()) => Ok(()),
        // Whoever was faster knows more.
        Err(error) if race::lost(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn cancelled(cx: &Cx, id: &DraftId, message: &Message) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
    let paid = case::paid_among(items.as_ref(), &draft.customer, draft.asked()).await?;
    match (paid.first(), &message.email) {
        (Some(invoice), _) => end(cx, id, Status::Withdrawn, &format!("paid: {invoice}")).await,
        (None, None) => end(cx, id, Status::Withdrawn, "erased").await,
        (None, Some(_)) => end(cx, id, Status::Failed, "its message was cancelled").await,
    }
}

/// It was not sent, and does not count. Nothing is done if it has its end already.
pub(crate) async fn end(
    cx: &Cx,
    id: &DraftId,
    status: Status,
    reason: &str,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
        if draft.status != Status::Sending {
            return Ok(());
        }
        let mut state = case::load_state(items.as_ref(), &draft.customer).await?;
        let why = (status, Some(reason.chars().take(500).collect()));
        let after = case::moved(&draft, &mut state, why, cx.now());
        if state.last(draft.kind).is_some_and(|last| last.draft == draft.id) {
            state.set_last(draft.kind, draft.before.clone());
        }
        let policy = settings::get(cx).await?.policy;
        let txn = escalate::armed(cx, case::written(&after, &state), &state, &policy);
        let txn = news::audited(cx, txn, "reminder.stop", (Some(&draft), &after));
        let txn = news::failed(cx, txn, &after).await?;
        match items.transact(txn).await {
            Ok(()) => {
                tracing::info!(draft = %id, %status, "Reminder {id} was not sent");
                return Ok(());
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Lets a draft expire that nobody has decided about.
pub(crate) async fn expire(cx: &Cx, id: &DraftId) -> Result<(), StorageError> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
        // An edit lets it wait anew.
        if draft.status != Status::Draft || draft.expires_at > cx.now() {
            return Ok(());
        }
        let mut state = case::load_state(items.as_ref(), &draft.customer).await?;
        let why = (Status::Expired, Some("nobody decided in time".to_owned()));
        let after = case::moved(&draft, &mut state, why, cx.now());
        let policy = settings::get(cx).await?.policy;
        let txn = escalate::armed(cx, case::written(&after, &state), &state, &policy);
        let txn = news::audited(cx, txn, "reminder.expire", (Some(&draft), &after));
        match items.transact(txn).await {
            Ok(()) => {
                tracing::info!(draft = %id, "Reminder {id} expired");
                return Ok(());
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
