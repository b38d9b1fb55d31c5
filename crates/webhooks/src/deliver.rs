//! One attempt of one delivery: claim it, post it, write down what came of it.
//!
//! Nothing is held open while the endpoint is asked. A worker that dies between the answer and the record leaves the
//! claim behind; when that has run out the delivery is posted again, with the same `webhook-id`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_access::{Access, Change, Cx};
use tidings_jobs::contracts::WebhookDelivery;
use tidings_jobs::{Outcome, Work};
use tidings_kernel::{Timer, TimerChange, queues};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::post::{Attempt, Post, Poster};
use crate::rows::{self, DeliveryId, EndpointId};
use crate::rules::{self, Verdict};
use crate::secret::{Secret, signatures};

/// Longer than an attempt can take.
const CLAIM: SignedDuration = SignedDuration::from_secs(45);
/// A message that comes before its time by no more than the clocks of two nodes may differ waits; one that comes long
/// before is a repeat, and the timer has another.
const EARLY: SignedDuration = SignedDuration::from_mins(5);

pub(crate) struct Deliver {
    access: Access,
    poster: Poster,
    busy: Busy,
}

/// What this process has to do with each endpoint now.
type Busy = Arc<Mutex<HashMap<EndpointId, Load>>>;

#[derive(Default)]
struct Load {
    /// Attempts under way.
    running: usize,
    /// How many were turned away since there was nothing to do.
    turned_away: usize,
}

/// A delivery that is ours for a while, with all that an attempt needs.
#[derive(Debug)]
struct Claim {
    id: DeliveryId,
    endpoint: EndpointId,
    event_id: String,
    body: String,
    /// Before this one.
    attempts: i64,
    url: String,
    secrets: Vec<Secret>,
}

enum Claimed {
    Ours(Claim),
    /// There is nothing to do any more.
    Settled,
    Missing,
    /// It is with somebody else, or not due yet.
    Later(SignedDuration),
}

impl Deliver {
    pub(crate) fn new(access: Access, poster: Poster) -> Self {
        Self { access, poster, busy: Arc::default() }
    }

    async fn attempt(&self, cx: &Cx, id: DeliveryId) -> Result<Outcome, DatabaseError> {
        let endpoint = endpoint_of(cx, id).await?;
        let Some(endpoint) = endpoint else {
            return Ok(Outcome::dead(format!("there is no delivery {id}")));
        };
        let _seat = match Seat::take(&self.busy, endpoint) {
            Ok(seat) => seat,
            Err(wait) => {
                let reason = format!("endpoint {endpoint} has enough attempts under way");
                return Ok(Outcome::wait(reason, wait));
            }
        };
        let claim = match claim(cx, id).await? {
            Claimed::Ours(claim) => claim,
            Claimed::Settled => return Ok(Outcome::Done),
            Claimed::Missing => return Ok(Outcome::dead(format!("there is no delivery {id}"))),
            Claimed::Later(wait) => {
                let wait = wait.max(SignedDuration::from_secs(1)).unsigned_abs();
                return Ok(Outcome::wait(format!("delivery {id} is not free yet"), wait));
            }
        };
        let began = self.access.now();
        let seconds = began.as_second();
        let signatures = signatures(&claim.secrets, &claim.event_id, seconds, &claim.body);
        let post = Post {
            url: &claim.url,
            id: &claim.event_id,
            seconds,
            signatures: &signatures,
            body: &claim.body,
        };
        let attempt = self.poster.post(post).await;
        let now = self.access.now();
        let verdict = rules::judge(id, claim.attempts, &attempt, now);
        let record = Record { cx: cx.clone(), claim, attempt, verdict, began, now };
        cx.database().write_committed(move |tx| record.write(tx)).await?;
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Work<WebhookDelivery> for Deliver {
    async fn work(&self, message: WebhookDelivery) -> Outcome {
        let id = DeliveryId::from(message.delivery_id);
        let tried = match self.access.working_for(message.workspace_id).await {
            Ok(Some(cx)) => self.attempt(&cx, id).await,
            Ok(None) => {
                Ok(Outcome::dead(format!("there is no workspace {}", message.workspace_id)))
            }
            Err(error) => Err(error),
        };
        tried.unwrap_or_else(|error| crate::troubled(&error))
    }
}

/// One of the attempts that an endpoint gets at once.
struct Seat {
    busy: Busy,
    endpoint: EndpointId,
}

impl Seat {
    /// Or how long to wait for one.
    fn take(busy: &Busy, endpoint: EndpointId) -> Result<Self, Duration> {
        let mut loads = busy.lock().unwrap_or_else(PoisonError::into_inner);
        let load = loads.entry(endpoint).or_default();
        if load.running >= rules::AT_ONCE {
            let wait = rules::turned_away(load.turned_away);
            load.turned_away += 1;
            return Err(wait);
        }
        load.running += 1;
        Ok(Self { busy: Arc::clone(busy), endpoint })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut loads = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(load) = loads.get_mut(&self.endpoint) {
            load.running -= 1;
            // One of them has its turn.
            load.turned_away = load.turned_away.saturating_sub(1);
            if load.running == 0 {
                loads.remove(&self.endpoint);
            }
        }
    }
}

async fn endpoint_of(cx: &Cx, id: DeliveryId) -> Result<Option<EndpointId>, DatabaseError> {
    let workspace = cx.workspace_id().get();
    let find = cx.database().read(move |tx| {
        let sql = "SELECT endpoint_id FROM webhook_deliveries WHERE workspace_id = $1 AND id = $2";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(id.get())])?;
        rows.first().map(|row| row.int(0).map(EndpointId::from)).transpose()
    });
    find.await
}

async fn claim(cx: &Cx, id: DeliveryId) -> Result<Claimed, DatabaseError> {
    let within = cx.clone();
    // One statement takes the row or finds it taken.
    cx.database().write_committed(move |tx| claim_in(tx, &within, id)).await
}

fn claim_in(tx: &mut Tx<'_>, cx: &Cx, id: DeliveryId) -> Result<Claimed, DatabaseError> {
    let (workspace, now) = (cx.workspace_id().get(), cx.now());
    let sql = "UPDATE webhook_deliveries SET claimed_until = $4
               WHERE workspace_id = $1 AND id = $2 AND status = 'pending' AND next_attempt_at <= $3
                 AND (claimed_until IS NULL OR claimed_until <= $3)
               RETURNING endpoint_id, event_id, body, attempts";
    let params = [
        Param::Int(workspace),
        Param::Int(id.get()),
        Param::Int(now.as_millisecond()),
        Param::Int(now.as_millisecond() + CLAIM.as_millis() as i64),
    ];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return why_not(tx, workspace, id, now) };
    let endpoint = EndpointId::from(row.int(0)?);
    let sql = "SELECT url, secret, previous_secret, previous_secret_until, disabled_at
               FROM webhook_endpoints WHERE workspace_id = $1 AND id = $2";
    let found = tx.query(sql, &[Param::Int(workspace), Param::Int(endpoint.get())])?;
    let found = found.first().ok_or(DatabaseError::NoRow)?;
    if found.optional_int(4)?.is_some() {
        give_up(tx, workspace, id)?;
        return Ok(Claimed::Settled);
    }
    Ok(Claimed::Ours(Claim {
        id,
        endpoint,
        event_id: row.text(1)?.to_owned(),
        body: row.text(2)?.to_owned(),
        attempts: row.int(3)?,
        url: found.text(0)?.to_owned(),
        secrets: secrets(found, now)?,
    }))
}

/// The newest first; the one before it until its time has passed.
fn secrets(row: &Row, now: Timestamp) -> Result<Vec<Secret>, DatabaseError> {
    let mut secrets = vec![Secret::stored(row.text(1)?)];
    if let (Some(previous), Some(until)) = (row.optional_text(2)?, row.optional_time(3)?)
        && until > now
    {
        secrets.push(Secret::stored(previous));
    }
    Ok(secrets)
}

fn why_not(
    tx: &mut Tx<'_>,
    workspace: i64,
    id: DeliveryId,
    now: Timestamp,
) -> Result<Claimed, DatabaseError> {
    let sql = "SELECT status, next_attempt_at, claimed_until FROM webhook_deliveries
               WHERE workspace_id = $1 AND id = $2";
    let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(id.get())])?;
    let Some(row) = rows.first() else { return Ok(Claimed::Missing) };
    let (due, claimed) = (row.optional_time(1)?, row.optional_time(2)?);
    let Some(due) = due else { return Ok(Claimed::Settled) };
    let free = claimed.map_or(due, |claimed| claimed.max(due));
    let wait = free.duration_since(now);
    Ok(if due.duration_since(now) > EARLY { Claimed::Settled } else { Claimed::Later(wait) })
}

/// An endpoint that is disabled is not asked. The delivery can be replayed when it is enabled again.
fn give_up(tx: &mut Tx<'_>, workspace: i64, id: DeliveryId) -> Result<(), DatabaseError> {
    let sql = "UPDATE webhook_deliveries
               SET status = 'failed', failure = 'endpoint_disabled', next_attempt_at = NULL, claimed_until = NULL
               WHERE workspace_id = $1 AND id = $2 AND status = 'pending'";
    tx.execute(sql, &[Param::Int(workspace), Param::Int(id.get())]).map(drop)
}

/// All that is written down after an attempt, in one transaction.
struct Record {
    cx: Cx,
    claim: Claim,
    attempt: Attempt,
    verdict: Verdict,
    began: Timestamp,
    now: Timestamp,
}

impl Record {
    fn write(&self, tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
        let is_current = self.settle(tx)?;
        self.keep_attempt(tx, is_current)?;
        if !is_current {
            return Ok(());
        }
        match self.verdict {
            Verdict::Delivered => self.endpoint_works(tx),
            Verdict::Gone => self.disable(tx, "gone"),
            Verdict::Again { at } => {
                self.arm(tx, at)?;
                self.endpoint_fails(tx)
            }
            Verdict::Exhausted => self.endpoint_fails(tx),
        }
    }

    /// Not if somebody else was faster, because our claim had run out, or if the delivery was erased meanwhile.
    fn settle(&self, tx: &mut Tx<'_>) -> Result<bool, DatabaseError> {
        let (status, failure, next, delivered) = match self.verdict {
            Verdict::Delivered => ("delivered", None, None, Some(self.now)),
            Verdict::Again { at } => ("pending", None, Some(at), None),
            Verdict::Exhausted => ("failed", Some("exhausted"), None, None),
            Verdict::Gone => ("failed", Some("endpoint_gone"), None, None),
        };
        // Once it was taken it is delivered, whoever else failed meanwhile.
        let unchanged = match self.verdict {
            Verdict::Delivered => "attempts >= $7",
            _ => "attempts = $7",
        };
        let sql = format!(
            "UPDATE webhook_deliveries
             SET status = $3, failure = $4, next_attempt_at = $5, delivered_at = $6, claimed_until = NULL,
                 attempts = attempts + 1
             WHERE workspace_id = $1 AND id = $2 AND status = 'pending' AND {unchanged}"
        );
        let params = [
            Param::Int(self.cx.workspace_id().get()),
            Param::Int(self.claim.id.get()),
            Param::Text(status),
            failure.into(),
            next.into(),
            delivered.into(),
            Param::Int(self.claim.attempts),
        ];
        Ok(tx.execute(&sql, &params)? > 0)
    }

    fn keep_attempt(&self, tx: &mut Tx<'_>, is_current: bool) -> Result<(), DatabaseError> {
        let (status, answer, error) = match &self.attempt.result {
            Ok(answer) => (Some(answer.status), Some(answer.text.as_str()), None),
            Err(error) => (None, None, Some(error.as_str())),
        };
        let sql = "INSERT INTO webhook_attempts
                       (workspace_id, delivery_id, status_code, answer, error, duration_ms, attempted_at)
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let params = [
            Param::Int(self.cx.workspace_id().get()),
            Param::Int(self.claim.id.get()),
            status.map(i64::from).into(),
            answer.filter(|_| is_current).into(),
            error.into(),
            Param::Int(i64::try_from(self.attempt.took.as_millis()).unwrap_or(i64::MAX)),
            Param::Int(self.began.as_millisecond()),
        ];
        tx.execute(sql, &params).map(drop)
    }

    fn arm(&self, tx: &mut Tx<'_>, due: Timestamp) -> Result<(), DatabaseError> {
        let id = self.claim.id;
        let timer = TimerChange::Arm(Timer {
            key: format!("webhook-delivery/{id}"),
            due,
            queue: &queues::WEBHOOK_DELIVERY,
            body: rows::ask_for(self.cx.workspace_id().get(), id),
        });
        tx.change_timer(self.cx.workspace(), &timer).map_err(rows::bounded)
    }

    /// While all is well the row is left alone: every delivery of the endpoint would wait for it.
    fn endpoint_works(&self, tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
        let sql = "UPDATE webhook_endpoints SET failures = 0, failing_since = NULL
                   WHERE workspace_id = $1 AND id = $2 AND failures > 0";
        tx.execute(sql, &self.endpoint()).map(drop)
    }

    fn endpoint_fails(&self, tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
        let sql = "UPDATE webhook_endpoints
                   SET failures = failures + 1, failing_since = COALESCE(failing_since, $3)
                   WHERE workspace_id = $1 AND id = $2 AND disabled_at IS NULL
                   RETURNING failures, failing_since";
        let [workspace, endpoint] = self.endpoint();
        let params = [workspace, endpoint, Param::Int(self.now.as_millisecond())];
        let rows = tx.query(sql, &params)?;
        let Some(row) = rows.first() else { return Ok(()) };
        if rules::is_hopeless(row.int(0)?, row.time(1)?, self.now) {
            return self.disable(tx, "failing");
        }
        Ok(())
    }

    fn disable(&self, tx: &mut Tx<'_>, reason: &'static str) -> Result<(), DatabaseError> {
        let sql =
            "UPDATE webhook_endpoints SET disabled_at = $3, disabled_reason = $4, updated_at = $3
                   WHERE workspace_id = $1 AND id = $2 AND disabled_at IS NULL";
        let [workspace, endpoint] = self.endpoint();
        let now = Param::Int(self.now.as_millisecond());
        if tx.execute(sql, &[workspace, endpoint, now, Param::Text(reason)])? > 0 {
            let change = Change::new("webhook.disable", "webhook", self.claim.endpoint)
                .between(json!({ "disabled": null }), json!({ "disabled": reason }));
            self.cx.record_change(tx, &change)?;
        }
        Ok(())
    }

    fn endpoint(&self) -> [Param<'static>; 2] {
        [Param::Int(self.cx.workspace_id().get()), Param::Int(self.claim.endpoint.get())]
    }
}
