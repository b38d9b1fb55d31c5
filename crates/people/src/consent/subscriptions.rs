//! Subscriptions: asking for mail, taking that back, and giving it again.

use tidings_access::{ClientId, Cx, StorageError};
use tidings_sql::{DatabaseError, Tx};

use super::contact;
use super::everything::{self, Bring, Came, Marks, Seen};
use super::merged::{self, What};
use super::proof::{self, Act, Action};
use super::rules::{self, Asked, Refusal, Standing, Step};
use super::{AudienceId, Scope, Status, Whom, audiences, client, confirmations, rows};
use crate::contacts::ContactId;

pub use rows::Subscription;

#[derive(Debug, Clone)]
pub struct Subscribe {
    pub whom: Whom,
    pub audience: AudienceId,
    /// Without a client it is to the whole audience.
    pub client: Option<ClientId>,
    /// He has confirmed it already, and the caller knows.
    pub confirmed: bool,
    pub act: Act,
}

#[derive(Debug, Clone)]
pub struct Unsubscribe {
    pub whom: Whom,
    pub scope: Scope,
    pub act: Act,
}

/// The same for the way back.
#[derive(Debug, Clone)]
pub struct Resubscribe {
    pub whom: Whom,
    pub scope: Scope,
    pub act: Act,
}

/// How things stand afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub contact: ContactId,
    /// The one that was meant, if there is one now.
    pub subscription: Option<Subscription>,
    /// He wants nothing but transactional mail, whatever the subscription says.
    pub left_everything: bool,
    /// The number of the mail that must ask somebody to confirm.
    pub to_confirm: Option<i64>,
    /// Whether anything was written.
    pub changed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    #[error("there is no such contact")]
    NoContact,
    #[error("there is no audience {0}")]
    NoAudience(AudienceId),
    #[error("there is no client {0}")]
    NoClient(ClientId),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("what the contact agreed to could not be saved")]
    Store(#[from] StorageError),
}

/// Subscribes, or asks for a confirmation first where the audience wants one. Doing it again changes nothing. What was
/// taken back comes back only by the person, or by an operator with a reason.
pub async fn subscribe(cx: &Cx, cmd: Subscribe) -> Result<Outcome, ConsentError> {
    subscribed(cx, cmd, None).await
}

/// The same, and if a confirmation must come first and the audience has a template to ask with, a mail asks for it, even if we
/// die now. Calls that come before that mail is made share it; a later one asks once more. It is made by whoever works on
/// `confirmation-mail`, or at once by `delivery::confirmation`. The client is who asks where the subscription is to the whole
/// audience.
pub async fn subscribe_and_ask(
    cx: &Cx,
    cmd: Subscribe,
    client: ClientId,
) -> Result<Outcome, ConsentError> {
    subscribed(cx, cmd, Some(client)).await
}

async fn subscribed(
    cx: &Cx,
    cmd: Subscribe,
    asks: Option<ClientId>,
) -> Result<Outcome, ConsentError> {
    let marked = Marks::load(cx, &cmd.whom).await?.left();
    let (within, again) = (cx.clone(), cmd.clone());
    let subscribe =
        cx.database().write(move |tx| try_subscribe(tx, &within, &again, (marked, asks)));
    let (mut outcome, returns) = subscribe.await?;
    if let (Some(kept), Some(seen)) = (&outcome.subscription, returns) {
        let bring = (Bring::Only(kept.id), seen);
        let came = everything::come_back(cx, outcome.contact, bring, cmd.act).await?;
        outcome.changed |= came == Came::Back;
        outcome.left_everything = came == Came::NotBack;
    }
    Ok(outcome)
}

fn try_subscribe(
    tx: &mut Tx<'_>,
    cx: &Cx,
    cmd: &Subscribe,
    (marked, asks): (bool, Option<ClientId>),
) -> Result<(Outcome, Option<Seen>), ConsentError> {
    let audience = audiences::load_by_id(tx, cx, cmd.audience)?;
    let audience = audience.ok_or(ConsentError::NoAudience(cmd.audience))?;
    if let Some(client) = cmd.client
        && !client::exists(tx, cx, client)?
    {
        return Err(ConsentError::NoClient(client));
    }
    let contact = contact::found_or_made(tx, cx, &cmd.whom)?.ok_or(ConsentError::NoContact)?;
    let place = (cmd.audience, cmd.client);
    let found = rows::find(tx, cx, contact.id, place)?;
    let standing = Standing {
        status: found.as_ref().map(|found| found.status),
        verified: found.as_ref().is_some_and(|found| found.verified_at.is_some()),
        left_audience: left_audience(tx, cx, contact.id, place, found.as_ref())?,
        left_everything: contact.left_at.is_some() || marked,
    };
    let asked = Asked {
        by: cmd.act.by,
        has_reason: cmd.act.reason.is_some(),
        double_opt_in: audience.double_opt_in,
        confirmed: cmd.confirmed,
    };
    let plan = rules::subscribe(standing, asked)?;
    let mut outcome = Outcome {
        contact: contact.id,
        subscription: found,
        left_everything: standing.left_everything,
        to_confirm: None,
        changed: false,
    };
    if plan.step != Step::Keep {
        take(tx, cx, (plan.step, cmd), (&mut outcome, contact.named))?;
    }
    if let (Some(send), Some(waiting)) = (outcome.to_confirm, &outcome.subscription)
        && let Some(client) = asks
        && audience.confirm_template_key.is_some()
    {
        confirmations::ask_later(tx, cx, (client, send), &[waiting.id.get()])?;
    }
    let seen = Seen { marked, left_at: contact.left_at, named: contact.named };
    Ok((outcome, plan.return_to_everything.then_some(seen)))
}

/// Whether he has left the whole audience, and not agreed to this client's part of it since.
fn left_audience(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (audience, client): (AudienceId, Option<ClientId>),
    found: Option<&Subscription>,
) -> Result<bool, DatabaseError> {
    if client.is_none() {
        return Ok(false);
    }
    let whole = rows::find(tx, cx, contact, (audience, None))?;
    let left = whole.filter(|whole| whole.status == Status::Unsubscribed);
    let left_at = left.and_then(|whole| whole.unsubscribed_at);
    let agreed_at = found.and_then(|found| found.agreed_at);
    Ok(left_at.is_some_and(|left_at| agreed_at.is_none_or(|agreed_at| agreed_at <= left_at)))
}

/// Takes the step that was decided on, and writes down that it was taken.
fn take(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (step, cmd): (Step, &Subscribe),
    (outcome, named): (&mut Outcome, Option<ContactId>),
) -> Result<(), DatabaseError> {
    let place = (cmd.audience, cmd.client);
    let before = outcome.subscription.as_ref().map(Subscription::told);
    let mut subscription = match outcome.subscription.take() {
        Some(found) => found,
        None => {
            let new = rows::insert(tx, cx, outcome.contact, place, &cmd.act.source)?;
            if let Some(home) = named {
                merged::is_at_home(tx, new.id, home)?;
            }
            new
        }
    };
    let now = cx.now();
    let (action, audited) = match step {
        Step::Keep => (None, ""),
        Step::Ask => {
            let opened = confirmations::open(tx, cx, subscription.id)?;
            outcome.to_confirm = Some(opened.send);
            (opened.new.then_some(Action::Requested), "subscription.request")
        }
        Step::Verify => {
            subscription.verified_at = Some(now);
            subscription.updated_at = now;
            (Some(Action::Confirmed), "subscription.confirm")
        }
        Step::Subscribe { again } => {
            subscription.agree(now);
            if cmd.confirmed && subscription.verified_at.is_none() {
                subscription.verified_at = Some(now);
            }
            match again {
                true => (Some(Action::Resubscribed), "subscription.resubscribe"),
                false => (Some(Action::Subscribed), "subscription.subscribe"),
            }
        }
    };
    if let Some(action) = action {
        rows::save(tx, cx, &subscription)?;
        if step != Step::Ask {
            merged::agreed_to(tx, cx, (outcome.contact, named), &subscription)?;
        }
        let change = (action, subscription.about());
        proof::write(tx, cx, outcome.contact, change, &cmd.act)?;
        cx.record_change(tx, &subscription.audited(audited, before))?;
        outcome.changed = true;
    }
    outcome.subscription = Some(subscription);
    Ok(())
}

/// From now on he is not written to, as far as the scope goes: not even if nobody knew him before. Doing it again
/// changes nothing, and the first date stays.
pub async fn unsubscribe(cx: &Cx, cmd: Unsubscribe) -> Result<Outcome, ConsentError> {
    let scope = cmd.scope;
    let within = cx.clone();
    let outcome = cx.database().write(move |tx| try_unsubscribe(tx, &within, &cmd)).await?;
    if scope == Scope::Global {
        let marks = Marks::load(cx, &outcome.contact.into()).await?;
        everything::mark_left(cx, &marks).await?;
    }
    Ok(outcome)
}

fn try_unsubscribe(tx: &mut Tx<'_>, cx: &Cx, cmd: &Unsubscribe) -> Result<Outcome, ConsentError> {
    let place = place(tx, cx, cmd.scope)?;
    let contact = contact::found_or_made(tx, cx, &cmd.whom)?.ok_or(ConsentError::NoContact)?;
    let mut outcome = Outcome {
        contact: contact.id,
        subscription: None,
        left_everything: contact.left_at.is_some(),
        to_confirm: None,
        changed: false,
    };
    let Some(place) = place else {
        outcome.changed = everything::leave(tx, cx, contact.id, &cmd.act)?;
        outcome.left_everything = true;
        return Ok(outcome);
    };
    let mut subscription = match rows::find(tx, cx, contact.id, place)? {
        Some(found) => found,
        None => rows::insert(tx, cx, contact.id, place, &cmd.act.source)?,
    };
    rows::void_requests(tx, cx, contact.id, Some(subscription.id))?;
    if subscription.status != Status::Unsubscribed {
        let before = subscription.told();
        subscription.leave(cx.now(), cmd.act.reason.as_ref(), cx.now());
        rows::save(tx, cx, &subscription)?;
        let change = (Action::Unsubscribed, subscription.about());
        proof::write(tx, cx, contact.id, change, &cmd.act)?;
        let change = subscription.audited("subscription.unsubscribe", Some(before));
        cx.record_change(tx, &change)?;
        outcome.changed = true;
    }
    merged::took_back(tx, cx, contact.id, What::Place(place.0, place.1))?;
    outcome.subscription = Some(subscription);
    Ok(outcome)
}

/// Takes back that he has left, as far as the scope goes. What he never left stays as it is.
pub async fn resubscribe(cx: &Cx, cmd: Resubscribe) -> Result<Outcome, ConsentError> {
    rules::resubscribe(cmd.act.by, cmd.act.reason.is_some())?;
    let marked = Marks::load(cx, &cmd.whom).await?.left();
    let (within, again) = (cx.clone(), cmd.clone());
    let resubscribe = cx.database().write(move |tx| try_resubscribe(tx, &within, &again, marked));
    let (mut outcome, seen) = resubscribe.await?;
    if cmd.scope == Scope::Global {
        let bring = (Bring::All, seen);
        let came = everything::come_back(cx, outcome.contact, bring, cmd.act).await?;
        outcome.changed = came == Came::Back;
        outcome.left_everything = came == Came::NotBack;
    }
    Ok(outcome)
}

/// And how he has left everything.
fn try_resubscribe(
    tx: &mut Tx<'_>,
    cx: &Cx,
    cmd: &Resubscribe,
    marked: bool,
) -> Result<(Outcome, Seen), ConsentError> {
    let place = place(tx, cx, cmd.scope)?;
    let contact = contact::find(tx, cx, &cmd.whom)?.ok_or(ConsentError::NoContact)?;
    let mut outcome = Outcome {
        contact: contact.id,
        subscription: None,
        left_everything: contact.left_at.is_some(),
        to_confirm: None,
        changed: false,
    };
    let seen = Seen { marked, left_at: contact.left_at, named: contact.named };
    let Some(place) = place else { return Ok((outcome, seen)) };
    outcome.subscription = rows::find(tx, cx, contact.id, place)?;
    let left_audience = left_audience(tx, cx, contact.id, place, outcome.subscription.as_ref())?;
    let Some(subscription) = outcome.subscription.as_mut() else {
        return Ok((outcome, seen));
    };
    if subscription.status == Status::Unsubscribed || left_audience {
        let before = subscription.told();
        subscription.agree(cx.now());
        rows::save(tx, cx, subscription)?;
        merged::agreed_to(tx, cx, (contact.id, contact.named), subscription)?;
        let change = (Action::Resubscribed, subscription.about());
        proof::write(tx, cx, contact.id, change, &cmd.act)?;
        let change = subscription.audited("subscription.resubscribe", Some(before));
        cx.record_change(tx, &change)?;
        outcome.changed = true;
    }
    Ok((outcome, seen))
}

/// What somebody is or was subscribed to. `None` if there is no such contact.
pub async fn list(cx: &Cx, whom: Whom) -> Result<Option<Vec<Subscription>>, DatabaseError> {
    let within = cx.clone();
    let list = cx.database().read(move |tx| match contact::find(tx, &within, &whom)? {
        Some(contact) => rows::all(tx, &within, contact.id).map(Some),
        None => Ok(None),
    });
    list.await
}

/// Which subscription a scope means; `None` for everything.
fn place(
    tx: &mut Tx<'_>,
    cx: &Cx,
    scope: Scope,
) -> Result<Option<(AudienceId, Option<ClientId>)>, ConsentError> {
    let place = match scope {
        Scope::Global => return Ok(None),
        Scope::Audience(audience) => (audience, None),
        Scope::Client(audience, client) => (audience, Some(client)),
    };
    if audiences::load_by_id(tx, cx, place.0)?.is_none() {
        return Err(ConsentError::NoAudience(place.0));
    }
    if let Some(client) = place.1
        && !client::exists(tx, cx, client)?
    {
        return Err(ConsentError::NoClient(client));
    }
    Ok(Some(place))
}

impl From<DatabaseError> for ConsentError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}
