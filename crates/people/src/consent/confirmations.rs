//! Double opt-in: a subscription that counts only once its owner has confirmed it.
//!
//! Here: the request, how often a mail may ask for it, and the confirmation. Not here: that mail
//! (`delivery::confirmation`), and the signed link in it (`delivery::links`).

use jiff::Timestamp;
use tidings_access::{Cx, DisplayName, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::everything::{self, Bring, Marks, Seen};
use super::proof::{self, Act, Action, Line, Proof};
use super::rows::{self, Subscription};
use super::{By, ContactId, Status, SubscriptionId, audiences, contact, rules};

/// What the mail needs that asks somebody to confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub subscription: Subscription,
    pub email: EmailAddress,
    pub audience: DisplayName,
    pub template_key: Line,
    /// The how manieth mail this is, from 1.
    pub send: i64,
    pub expires_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("there is no subscription {0}")]
    Missing(SubscriptionId),
    #[error("subscription {0} waits for no confirmation")]
    NotAsked(SubscriptionId),
    #[error("subscription {0} has no e-mail address to ask")]
    NoAddress(SubscriptionId),
    /// The client asks by itself.
    #[error("the audience of subscription {0} has no template to ask with")]
    NoTemplate(SubscriptionId),
    #[error(
        "{} mails have asked to confirm subscription {id} within a day; the next can go at {next}",
        rules::MAX_SENDS
    )]
    TooMany { id: SubscriptionId, next: Timestamp },
    #[error(
        "{} mails have asked the person of subscription {id} to confirm something within a day; the next can go at {next}",
        rules::MAX_SENDS_TO_PERSON
    )]
    TooManyToPerson { id: SubscriptionId, next: Timestamp },
    #[error("the request could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, Clone)]
pub struct Confirm {
    pub subscription: SubscriptionId,
    pub proof: Proof,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    #[error("there is no subscription {0}")]
    Missing(SubscriptionId),
    #[error("subscription {0} waits for no confirmation")]
    NotAsked(SubscriptionId),
    #[error("the time to confirm subscription {id} ended at {at}")]
    Expired { id: SubscriptionId, at: Timestamp },
    #[error("the confirmation could not be saved")]
    Store(#[from] StorageError),
}

/// Counts one more mail that asks, and tells what it needs. Whoever calls this sends it.
pub async fn request(cx: &Cx, id: SubscriptionId) -> Result<Request, RequestError> {
    let within = cx.clone();
    cx.database().write(move |tx| try_request(tx, &within, id)).await
}

fn try_request(tx: &mut Tx<'_>, cx: &Cx, id: SubscriptionId) -> Result<Request, RequestError> {
    let subscription = rows::load(tx, cx, id)?.ok_or(RequestError::Missing(id))?;
    let waiting = load(tx, cx, id)?.filter(|waiting| waiting.is_open(cx.now()));
    let waiting = waiting.ok_or(RequestError::NotAsked(id))?;
    let audience = audiences::load_by_id(tx, cx, subscription.audience)?;
    let audience = audience.ok_or(DatabaseError::NoRow)?;
    let template_key = audience.confirm_template_key.ok_or(RequestError::NoTemplate(id))?;
    let addresses = contact::addresses(tx, cx, subscription.contact)?;
    let email = addresses.into_iter().next().ok_or(RequestError::NoAddress(id))?;
    let sends = rules::send_another(&waiting.recent_sends, cx.now());
    let sends = sends.map_err(|next| RequestError::TooMany { id, next })?;
    let asked = sends_to(tx, cx, subscription.contact)?;
    rules::ask_again(&asked, cx.now())
        .map_err(|next| RequestError::TooManyToPerson { id, next })?;
    let millis: Vec<i64> = sends.iter().map(|at| at.as_millisecond()).collect();
    let recent = serde_json::Value::from(millis).to_string();
    let sql = "UPDATE confirmations SET sends = sends + 1, last_sent_at = $3, recent_sends = $4
               WHERE workspace_id = $1 AND subscription_id = $2";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        Param::Int(cx.now().as_millisecond()),
        Param::Text(&recent),
    ];
    tx.execute(sql, &params)?;
    Ok(Request {
        subscription,
        email,
        audience: audience.name,
        template_key,
        send: waiting.sends + 1,
        expires_at: waiting.expires_at,
    })
}

/// Confirms: he is subscribed from now on, and has shown that he reads the mail to his address. Doing it again changes
/// nothing; a link that is too old, or that he has unsubscribed after, confirms nothing.
pub async fn confirm(cx: &Cx, cmd: Confirm) -> Result<Subscription, ConfirmError> {
    let source = "confirmation".parse::<Line>().expect("it is one line");
    let act = Act { by: By::Person, source, reason: None, proof: cmd.proof };
    let (within, id) = (cx.clone(), cmd.subscription);
    let known = cx.database().read(move |tx| rows::load(tx, &within, id)).await?;
    let contact = known.ok_or(ConfirmError::Missing(id))?.contact;
    let marked = Marks::load(cx, &contact.into()).await?.left();
    let (within, done) = (cx.clone(), act.clone());
    let confirm = cx.database().write(move |tx| try_confirm(tx, &within, (id, marked), &done));
    let (subscription, left) = confirm.await?;
    if let Some(seen) = left {
        // A request that was open when he left everything was made void, so this one is younger: he comes back.
        let bring = (Bring::Only(subscription.id), seen);
        everything::come_back(cx, contact, bring, act).await?;
    }
    Ok(subscription)
}

fn try_confirm(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, marked): (SubscriptionId, bool),
    act: &Act,
) -> Result<(Subscription, Option<Seen>), ConfirmError> {
    let mut subscription = rows::load(tx, cx, id)?.ok_or(ConfirmError::Missing(id))?;
    let contact = contact::find(tx, cx, &subscription.contact.into())?;
    let contact = contact.ok_or(DatabaseError::NoRow)?;
    let seen = Seen { marked, left_at: contact.left_at };
    let waiting = load(tx, cx, id)?;
    let subscribed =
        subscription.status == Status::Subscribed && subscription.verified_at.is_some();
    let Some(waiting) = waiting else {
        let nothing = ConfirmError::NotAsked(id);
        return if subscribed { Ok((subscription, None)) } else { Err(nothing) };
    };
    if let Some(confirmed_at) = waiting.confirmed_at {
        if !subscribed {
            return Err(ConfirmError::Expired { id, at: waiting.expires_at.min(cx.now()) });
        }
        // The one before may have died between the subscription and the rest.
        let unfinished = contact.left_at.map_or(marked, |left_at| left_at <= confirmed_at);
        return Ok((subscription, unfinished.then_some(seen)));
    }
    if !waiting.is_open(cx.now()) {
        return Err(ConfirmError::Expired { id, at: waiting.expires_at });
    }
    let before = subscription.told();
    subscription.agree(cx.now());
    subscription.verified_at = Some(cx.now());
    rows::save(tx, cx, &subscription)?;
    let sql = "UPDATE confirmations SET confirmed_at = $3
               WHERE workspace_id = $1 AND subscription_id = $2";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    let change = (Action::Confirmed, subscription.about());
    proof::write(tx, cx, subscription.contact, change, act)?;
    cx.record_change(tx, &subscription.audited("subscription.confirm", Some(before)))?;
    let left = contact.left_at.is_some() || marked;
    Ok((subscription, left.then_some(seen)))
}

/// How a request stands.
struct Waiting {
    sends: i64,
    recent_sends: Vec<Timestamp>,
    expires_at: Timestamp,
    confirmed_at: Option<Timestamp>,
}

impl Waiting {
    fn is_open(&self, now: Timestamp) -> bool {
        self.confirmed_at.is_none() && self.expires_at > now
    }
}

/// Asks for a confirmation of this subscription. False if it is asked for already. How often a mail asked before still
/// counts: a new request is no way around the limit.
pub(super) fn open(tx: &mut Tx<'_>, cx: &Cx, id: SubscriptionId) -> Result<bool, DatabaseError> {
    let now = cx.now();
    let expires_at = now.saturating_add(rules::CONFIRM_WITHIN).unwrap_or(Timestamp::MAX);
    if load(tx, cx, id)?.is_some_and(|waiting| waiting.is_open(now)) {
        return Ok(false);
    }
    let sql = "INSERT INTO confirmations (workspace_id, subscription_id, expires_at, created_at)
               VALUES ($1, $2, $3, $4)
               ON CONFLICT (subscription_id) DO UPDATE SET expires_at = $3, confirmed_at = NULL";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        Param::Int(expires_at.as_millisecond()),
        Param::Int(now.as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    Ok(true)
}

/// When mails asked a person of late, for whichever of his subscriptions.
fn sends_to(tx: &mut Tx<'_>, cx: &Cx, contact: ContactId) -> Result<Vec<Timestamp>, DatabaseError> {
    let sql = "SELECT c.recent_sends FROM subscriptions s
               JOIN confirmations c ON c.workspace_id = s.workspace_id AND c.subscription_id = s.id
               WHERE s.workspace_id = $1 AND s.lead_id = $2 AND c.last_sent_at > $3";
    let since = cx.now().saturating_sub(rules::SENDS_WITHIN).unwrap_or(Timestamp::MIN);
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(since.as_millisecond()),
    ];
    let mut sends = Vec::new();
    for row in tx.query(sql, &params)? {
        sends.extend(times(row.text(0)?)?);
    }
    Ok(sends)
}

fn times(text: &str) -> Result<Vec<Timestamp>, DatabaseError> {
    let damaged = || DatabaseError::damaged(1, "times");
    let millis: Vec<i64> = serde_json::from_str(text).map_err(|_| damaged())?;
    let times: Result<_, _> = millis.into_iter().map(Timestamp::from_millisecond).collect();
    times.map_err(|_| damaged())
}

fn load(tx: &mut Tx<'_>, cx: &Cx, id: SubscriptionId) -> Result<Option<Waiting>, DatabaseError> {
    let sql = "SELECT sends, recent_sends, expires_at, confirmed_at FROM confirmations
               WHERE workspace_id = $1 AND subscription_id = $2";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Waiting {
        sends: row.int(0)?,
        recent_sends: times(row.text(1)?)?,
        expires_at: row.time(2)?,
        confirmed_at: row.optional_time(3)?,
    }))
}

impl From<DatabaseError> for ConfirmError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}
