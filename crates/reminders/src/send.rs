//! From an approved draft to one message in the ledger.
//!
//! The rules are asked again, and the answer counts only if the guard is what it was when they were asked: the same
//! transaction says that a reminder of this kind is being sent. So of two that race one is sent. From there on the draft
//! has a message: its idempotency key is made from draft and edition, and whoever tries again finds the same row.

use serde_json::Map;
use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_delivery::eligibility::{self, Question, Verdict};
use tidings_delivery::transactional::{
    AcceptError, CancelError, Content, Find, MessageId, Messages, Send, Status as Ledger, cancel,
};
use tidings_kernel::{EmailAddress, ItemStore, StoreError};
use tidings_people::race;

use crate::ids::DraftId;
use crate::record::{ContentType, Draft, Last, State, Status, hash_of, whole};
use crate::rules::{self, Answer};
use crate::settings::{self, Settings};
use crate::{case, escalate, news, outcome};

/// Why something has to be tried again.
#[derive(Debug)]
pub(crate) enum Trouble {
    Store(StorageError),
    /// Another worker does the same.
    Busy,
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// Why somebody must not be written to, if so.
pub(crate) async fn refusal(
    cx: &Cx,
    email: &EmailAddress,
    client: ClientId,
) -> Result<Option<&'static str>, StorageError> {
    let question = Question {
        kind: eligibility::Kind::Reminder,
        email: email.clone(),
        client,
        audience: None,
        topic: None,
    };
    Ok(match eligibility::check(cx, &question).await?.verdict {
        Verdict::Skip(reason) => Some(reason.as_str()),
        Verdict::Send | Verdict::Defer { .. } => None,
    })
}

/// Takes an approved draft to the ledger, or says in it why not.
pub(crate) async fn send(cx: &Cx, messages: &Messages, id: &DraftId) -> Result<(), Trouble> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
        match draft.status {
            Status::Approved => match claim(cx, items.as_ref(), &draft).await {
                Ok(Some(claimed)) => return hand_over(cx, messages, claimed).await,
                Ok(None) => return Ok(()),
                Err(Trouble::Store(StorageError::Items(error))) if race::lost(&error) => {}
                Err(trouble) => return Err(trouble),
            },
            // Somebody came so far and no further.
            Status::Sending => return hand_over(cx, messages, draft).await,
            // It was edited, rejected or withdrawn since, or is sent.
            Status::Draft
            | Status::Sent
            | Status::Failed
            | Status::Rejected
            | Status::Expired
            | Status::Superseded
            | Status::Withdrawn => return Ok(()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Says that it is being sent, if it may be. Else says why not, and there is nothing to send.
async fn claim(cx: &Cx, items: &dyn ItemStore, draft: &Draft) -> Result<Option<Draft>, Trouble> {
    let settings = settings::get(cx).await?;
    let mut state = case::load_state(items, &draft.customer).await?;
    let client = match decide(cx, items, draft, (&state, &settings)).await? {
        Ok(client) => client,
        Err((status, reason)) => {
            let after = case::moved(draft, &mut state, (status, Some(reason)), cx.now());
            let txn = case::written(&after, &state);
            let txn = escalate::armed(cx, txn, &state, &settings.policy);
            let txn = news::audited(cx, txn, "reminder.stop", (Some(draft), &after));
            items.transact(news::failed(cx, txn, &after).await?).await?;
            tracing::info!(draft = %after.id, status = %after.status, "Reminder {} is not sent", after.id);
            return Ok(None);
        }
    };
    let mut after = case::moved(draft, &mut state, (Status::Sending, None), cx.now());
    after.before = state.last(draft.kind).cloned();
    after.client = Some(client.get());
    after.sender = settings.sender.as_ref().map(|sender| sender.as_str().to_owned());
    let last = Last { at: whole(cx.now()), draft: draft.id.clone() };
    state.set_last(draft.kind, Some(last));
    state.open = Some(draft.id.clone());
    let txn = case::written(&after, &state);
    items.transact(news::audited(cx, txn, "reminder.send", (Some(draft), &after))).await?;
    Ok(Some(Draft { rev: after.rev + 1, ..after }))
}

/// As whose client it is sent, or what becomes of it instead and why.
async fn decide(
    cx: &Cx,
    items: &dyn ItemStore,
    draft: &Draft,
    (state, settings): (&State, &Settings),
) -> Result<Result<ClientId, (Status, String)>, Trouble> {
    let withdrawn = |reason: String| Ok(Err((Status::Withdrawn, reason)));
    let failed = |reason: String| Ok(Err((Status::Failed, reason)));
    let Some(email) = &draft.email else { return withdrawn("erased".to_owned()) };
    let paid = case::paid_among(items, &draft.customer, draft.asked()).await?;
    if let Some(invoice) = paid.first() {
        return withdrawn(format!("paid: {invoice}"));
    }
    let approved = draft.approvals.iter().filter(|one| one.hash == draft.hash).count();
    if hash_of(draft) != draft.hash || approved < draft.approvals_needed as usize {
        return failed("it is not what was approved".to_owned());
    }
    match rules::ask(&state.history(), &settings.days, draft.kind, cx.now()) {
        Answer::Allowed => {}
        Answer::NotBefore(from) => {
            return failed(format!(
                "too early: a {} reminder is allowed from {from} on",
                draft.kind
            ));
        }
        Answer::Needs(before) => {
            return failed(format!("a {} reminder needs a {before} one before it", draft.kind));
        }
    }
    let Some(client) = settings.find_client(cx).await? else {
        return failed("there is no client that reminders are sent with".to_owned());
    };
    match refusal(cx, email, client).await? {
        Some(reason) => failed(format!("must not be written to: {reason}")),
        None => Ok(Ok(client)),
    }
}

/// Writes the message down, once, and what became of it if that is known at once.
async fn hand_over(cx: &Cx, messages: &Messages, draft: Draft) -> Result<(), Trouble> {
    let message = match draft.message {
        Some(message) => message,
        None => match letter(&draft) {
            // The person was erased while it was being sent, before it had a message.
            None => return Ok(outcome::end(cx, &draft.id, Status::Withdrawn, "erased").await?),
            Some(letter) => match messages.accept(cx, letter).await {
                Ok(accepted) => accepted.id.get(),
                // The same draft and edition: whatever differs, it is this one.
                Err(AcceptError::KeyReused(id)) => id.get(),
                Err(AcceptError::Store(error)) => return Err(error.into()),
                Err(AcceptError::InFlight) => return Err(Trouble::Busy),
                Err(error) => {
                    let why = error.to_string();
                    return Ok(outcome::end(cx, &draft.id, Status::Failed, &why).await?);
                }
            },
        },
    };
    outcome::note_message(cx, &draft.id, message).await?;
    // Money may have come in while it had no message that could be taken back.
    take_back(cx, &draft.id).await?;
    outcome::learn(cx, &draft.id, message).await.map_err(Trouble::from)
}

/// Takes back what asks for money that has come in. While somebody is sending it nobody knows how that ends, and it is
/// looked at again: what a provider does not take now waits to be sent, and must not be.
pub(crate) async fn take_back(cx: &Cx, id: &DraftId) -> Result<(), Trouble> {
    let items = cx.items().await?;
    let Some(draft) = case::load_draft(items.as_ref(), id).await? else { return Ok(()) };
    let (Status::Sending, Some(message)) = (draft.status, draft.message) else { return Ok(()) };
    let paid = case::paid_among(items.as_ref(), &draft.customer, draft.asked()).await?;
    if paid.is_empty() {
        return Ok(());
    }
    match cancel(cx, Find { id: MessageId::from(message), client: None }).await {
        Err(CancelError::TooLate { status: Ledger::Claimed, .. }) => Err(Trouble::Busy),
        // That is told to the draft like everything else that becomes of its message.
        Ok(_) | Err(CancelError::TooLate { .. } | CancelError::Missing(_)) => Ok(()),
        Err(CancelError::Store(error)) => Err(Trouble::Store(error.into())),
    }
}

/// The mail: exactly what was approved. It is no template any more, so it goes in as variables of one that says nothing.
/// `None` if there is nothing left of it.
fn letter(draft: &Draft) -> Option<Send> {
    let (email, subject, body) =
        (draft.email.clone()?, draft.subject.clone()?, draft.content.clone()?);
    let (html, text) = match draft.content_type {
        ContentType::Html => (Some("{{ reminder_content | raw }}".to_owned()), None),
        ContentType::Text => (None, Some("{{ reminder_content }}".to_owned())),
    };
    let content = Content::Inline { subject: "{{ reminder_subject }}".to_owned(), html, text };
    let mut send = Send::of(ClientId::from(draft.client?), email, content);
    send.context = Map::from_iter([
        ("reminder_subject".to_owned(), subject.into()),
        ("reminder_content".to_owned(), body.into()),
    ]);
    send.sender = draft.sender.as_ref().and_then(|slug| slug.parse::<Slug>().ok());
    send.idempotency_key = Some(format!("reminder/{}/{}", draft.id, draft.edition));
    send.reminder = Some(draft.id.as_str().to_owned());
    Some(send)
}
