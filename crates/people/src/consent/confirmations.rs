//! Double opt-in: a subscription that counts only once its owner has confirmed it.
//!
//! Here: the request, how often a mail may ask for it, and the confirmation. Not here: that mail
//! (`delivery::confirmation`), and the signed link in it (`delivery::links`).

use jiff::Timestamp;
use tidings_access::{ClientId, Cx, DisplayName, StorageError};
use tidings_jobs::contracts::{ConfirmationAsk, Contract as _};
use tidings_kernel::{EmailAddress, Outgoing, queues};
use tidings_sql::{DatabaseError, Param, Tx};

use super::everything::{self, Bring, Marks, Seen};
use super::merged;
use super::proof::{self, Act, Action, Line, Proof};
use super::rows::{self, Subscription};
use super::{By, ContactId, Status, SubscriptionId, audiences, contact, rules};
use crate::heard;

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

/// Counts the mail with this number, and tells what it needs. Whoever calls this sends it. One that was counted before is
/// told again: whoever counted it may have died before it was a message.
pub async fn request(cx: &Cx, id: SubscriptionId, send: i64) -> Result<Request, RequestError> {
    let within = cx.clone();
    cx.database().write(move |tx| try_request(tx, &within, (id, send))).await
}

/// The same for many, in one commit, each with an answer of its own.
pub async fn request_all(
    cx: &Cx,
    ids: Vec<SubscriptionId>,
    send: i64,
) -> Result<Vec<Result<Request, RequestError>>, DatabaseError> {
    let within = cx.clone();
    let all = cx.database().write(move |tx| {
        let mut answers = Vec::with_capacity(ids.len());
        for id in &ids {
            match try_request(tx, &within, (*id, send)) {
                Err(RequestError::Store(error)) => return Err(error),
                answer => answers.push(answer),
            }
        }
        Ok(answers)
    });
    all.await
}

fn try_request(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, send): (SubscriptionId, i64),
) -> Result<Request, RequestError> {
    let subscription = rows::load(tx, cx, id)?.ok_or(RequestError::Missing(id))?;
    let waiting = load(tx, cx, id)?.filter(|waiting| waiting.is_open(cx.now()));
    let waiting = waiting.ok_or(RequestError::NotAsked(id))?;
    let audience = audiences::load_by_id(tx, cx, subscription.audience)?;
    let audience = audience.ok_or(DatabaseError::NoRow)?;
    let template_key = audience.confirm_template_key.ok_or(RequestError::NoTemplate(id))?;
    let addresses = contact::addresses(tx, cx, subscription.contact)?;
    let email = addresses.into_iter().next().ok_or(RequestError::NoAddress(id))?;
    if waiting.sends < send {
        count(tx, cx, &subscription, &waiting, send)?;
    }
    Ok(Request {
        subscription,
        email,
        audience: audience.name,
        template_key,
        send,
        expires_at: waiting.expires_at,
    })
}

/// Counts a mail that asks, if there may be one more.
fn count(
    tx: &mut Tx<'_>,
    cx: &Cx,
    subscription: &Subscription,
    waiting: &Waiting,
    send: i64,
) -> Result<(), RequestError> {
    let id = subscription.id;
    let sends = rules::send_another(&waiting.recent_sends, cx.now());
    let sends = sends.map_err(|next| RequestError::TooMany { id, next })?;
    let asked = sends_to(tx, cx, subscription.contact)?;
    rules::ask_again(&asked, cx.now())
        .map_err(|next| RequestError::TooManyToPerson { id, next })?;
    let millis: Vec<i64> = sends.iter().map(|at| at.as_millisecond()).collect();
    let recent = serde_json::Value::from(millis).to_string();
    let sql = "UPDATE confirmations SET sends = $5, last_sent_at = $3, recent_sends = $4
               WHERE workspace_id = $1 AND subscription_id = $2";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        Param::Int(cx.now().as_millisecond()),
        Param::Text(&recent),
        Param::Int(send),
    ];
    tx.execute(sql, &params)?;
    Ok(())
}

/// Somebody sees to it that these mails go if the transaction is committed, whatever becomes of whoever commits it.
pub(crate) fn ask_later(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (client, send): (ClientId, i64),
    subscriptions: &[i64],
) -> Result<(), DatabaseError> {
    for some in subscriptions.chunks(ConfirmationAsk::MAX_SUBSCRIPTIONS) {
        let (workspace, subscriptions) = (cx.workspace().clone(), some.to_vec());
        let ask = ConfirmationAsk { workspace, client_id: client.get(), send, subscriptions };
        let body = ask.to_body().expect("the number of subscriptions is bounded");
        heard::enqueue(tx, cx, &Outgoing::new(&queues::CONFIRMATION_MAIL, body))?;
    }
    Ok(())
}

/// Confirms: he is subscribed from now on, and has shown that he reads the mail to his address. Doing it again changes
/// nothing; a link that is too old, or that he has unsubscribed after, confirms nothing.
pub async fn confirm(cx: &Cx, cmd: Confirm) -> Result<Subscription, ConfirmError> {
    let source = "confirmation".parse::<Line>().expect("it is one line");
    let act = Act { by: By::Person, source, reason: None, proof: cmd.proof };
    let (within, id) = (cx.clone(), cmd.subscription);
    let known = cx.database().read(move |tx| rows::load(tx, &within, id)).await?;
    let of = known.ok_or(ConfirmError::Missing(id))?.contact;
    let marked = Marks::load(cx, &of.into()).await?.left();
    let (within, done) = (cx.clone(), act.clone());
    let confirm = cx.database().write(move |tx| try_confirm(tx, &within, (id, marked), &done));
    let (subscription, left) = confirm.await?;
    if let Some(seen) = left {
        // A request that was open when he left everything was made void, so this one is younger: he comes back.
        let bring = (Bring::Only(subscription.id), seen);
        everything::come_back(cx, subscription.contact, bring, act).await?;
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
    // Whoever had left may have asked by any of the person's addresses.
    let home = merged::home_of(tx, id)?;
    let named = home.filter(|_| subscription.status == Status::Pending);
    let seen = Seen { marked, left_at: contact.left_at, named };
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
    if subscription.contact != contact.id {
        // He whom it asked became one with somebody since: the person's own row counts. What the person took back meanwhile, no
        // mail from before brings back.
        let place = (subscription.audience, subscription.client);
        let persons = rows::find(tx, cx, contact.id, place)?;
        let stays_left = contact.left_at.is_some() || marked;
        let open = persons.filter(|row| row.status != Status::Unsubscribed && !stays_left);
        let expired = ConfirmError::Expired { id, at: waiting.expires_at.min(cx.now()) };
        let persons = open.ok_or(expired)?;
        confirmed(tx, cx, &mut subscription)?;
        subscription = persons;
    }
    let before = subscription.told();
    confirmed(tx, cx, &mut subscription)?;
    merged::agreed_to(tx, cx, (contact.id, named), &subscription)?;
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

fn confirmed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    subscription: &mut Subscription,
) -> Result<(), DatabaseError> {
    subscription.agree(cx.now());
    subscription.verified_at = Some(cx.now());
    rows::save(tx, cx, subscription)
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

/// A request that waits to be confirmed.
pub(super) struct Opened {
    /// It was not asked for already.
    pub(super) new: bool,
    /// The number of the next mail that asks.
    pub(super) send: i64,
}

/// Until when what is asked for now can be confirmed.
pub(crate) fn expiry(now: Timestamp) -> Timestamp {
    now.saturating_add(rules::CONFIRM_WITHIN).unwrap_or(Timestamp::MAX)
}

/// Asks for a confirmation of this subscription. How often a mail asked before still counts: a new request is no way
/// around the limit.
pub(super) fn open(tx: &mut Tx<'_>, cx: &Cx, id: SubscriptionId) -> Result<Opened, DatabaseError> {
    let (now, expires_at) = (cx.now(), expiry(cx.now()));
    let before = load(tx, cx, id)?;
    let send = before.as_ref().map_or(0, |waiting| waiting.sends) + 1;
    if before.is_some_and(|waiting| waiting.is_open(now)) {
        return Ok(Opened { new: false, send });
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
    Ok(Opened { new: true, send })
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
