//! Deliveries: what each endpoint was told, how often that was tried, and telling it again.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_access::{Change, Cx, Limit, Page};
use tidings_jobs::contracts::Object;
use tidings_kernel::{TimerChange, hex};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::endpoints::{self, FindError as EndpointError};
use crate::event_type::TEST;
use crate::fanout::{self, NewDelivery};
use crate::rows::{self, DeliveryId, EndpointId};

/// So many deliveries one call replays. Whoever has more calls again.
const REPLAYED: i64 = 1000;
/// Nothing comes to a delivery that has been due for so long, or it would have: what should have brought it is lost.
const STRANDED: SignedDuration = SignedDuration::from_hours(1);
/// So many attempts are shown, the newest: more there are only of what was replayed again and again.
const SHOWN: i64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub endpoint: EndpointId,
    /// What the endpoint sees as `webhook-id`.
    pub event_id: String,
    pub event_type: String,
    pub status: Status,
    /// Why it failed, if it did: `exhausted`, `endpoint_gone`, `endpoint_disabled`, `lost` or `erased`.
    pub failure: Option<String>,
    /// Since it was made or last replayed.
    pub attempts: i64,
    pub next_attempt_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    Delivered,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use pending, delivered or failed")]
pub struct StatusError;

/// One request that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What the endpoint answered, if it did.
    pub status_code: Option<i64>,
    /// The beginning of its answer.
    pub answer: Option<String>,
    /// Why there was none.
    pub error: Option<String>,
    pub duration_ms: i64,
    pub attempted_at: Timestamp,
}

/// A delivery with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    pub delivery: Delivery,
    /// What the endpoint is told, word for word. `None` when it was erased or is too old.
    pub body: Option<String>,
    /// The newest first.
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no delivery {0}")]
    Missing(DeliveryId),
    #[error("the delivery could not be reached")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no delivery {0}")]
    Missing(DeliveryId),
    #[error("delivery {0} is still being tried")]
    Pending(DeliveryId),
    #[error("what delivery {0} told is not kept any more")]
    Forgotten(DeliveryId),
    #[error("the endpoint of delivery {0} is disabled or deleted")]
    Disabled(DeliveryId),
    #[error("the delivery could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum EndpointReplayError {
    #[error("there is no webhook {0}")]
    Missing(EndpointId),
    #[error("webhook {0} is disabled: enable it first")]
    Disabled(EndpointId),
    #[error("the deliveries could not be saved")]
    Store(#[from] DatabaseError),
}

/// What replaying many has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    pub count: u64,
    /// Whether there may be more: call again.
    pub more: bool,
}

/// What an endpoint was told, the newest first.
pub async fn list(
    cx: &Cx,
    endpoint: EndpointId,
    status: Option<Status>,
    before: Option<DeliveryId>,
    limit: Limit,
) -> Result<Page<Delivery, DeliveryId>, EndpointError> {
    let within = cx.clone();
    let list = cx.database().read(move |tx| {
        endpoints::load(tx, &within, endpoint)?;
        // A word of ours, not a parameter: only so the partial indices are seen to fit.
        let status = status.map_or(String::new(), |status| format!("AND status = '{status}'"));
        let sql = format!(
            "SELECT {COLUMNS} {FROM} AND endpoint_id = $2 AND id < $3 {status} ORDER BY id DESC LIMIT $4"
        );
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(endpoint.get()),
            Param::Int(before.map_or(i64::MAX, DeliveryId::get)),
            Param::Int(limit.and_one()),
        ];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |delivery: &Delivery| delivery.id))
    });
    list.await
}

pub async fn find(cx: &Cx, id: DeliveryId) -> Result<Details, FindError> {
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        let (delivery, body) = load(tx, &within, id)?.ok_or(FindError::Missing(id))?;
        let sql =
            "SELECT status_code, answer, error, duration_ms, attempted_at FROM webhook_attempts
                   WHERE delivery_id = $1 ORDER BY id DESC LIMIT $2";
        let rows = tx.query(sql, &[Param::Int(id.get()), Param::Int(SHOWN)])?;
        let attempts = rows.iter().map(read_attempt).collect::<Result<_, _>>()?;
        Ok(Details { delivery, body: Some(body).filter(|body| !body.is_empty()), attempts })
    });
    find.await
}

/// Sends an event that means nothing, whatever types the endpoint wants, so that its owner sees that all is well.
pub async fn send_test(cx: &Cx, endpoint: EndpointId) -> Result<Delivery, EndpointReplayError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system has randomness");
    let event_id = format!("evt_{}", hex(&random));
    let within = cx.clone();
    let send = cx.database().write(move |tx| {
        enabled(tx, &within, endpoint)?;
        let data = json!({ "webhook_id": endpoint.get() });
        let data: Object = data.as_object().cloned().unwrap_or_default();
        let body = fanout::body(TEST, within.now(), &data);
        let new = NewDelivery {
            workspace: within.workspace_id().get(),
            endpoint,
            event_id: &event_id,
            event_type: TEST,
            about: None,
            body: &body,
            now: within.now().as_millisecond(),
        };
        let id = fanout::insert(tx, &new)?.ok_or(DatabaseError::NoRow)?;
        let told = json!({ "delivery": id.get() });
        let change = Change::new("webhook.test", "webhook", endpoint).after(told);
        within.record_change(tx, &change)?;
        let (delivery, _) = load(tx, &within, id)?.ok_or(DatabaseError::NoRow)?;
        Ok(delivery)
    });
    send.await
}

/// Tells it again, from the first attempt on, with the same `webhook-id`.
pub async fn replay(cx: &Cx, id: DeliveryId) -> Result<Delivery, ReplayError> {
    let within = cx.clone();
    let replay = cx.database().write(move |tx| {
        let (delivery, body) = load(tx, &within, id)?.ok_or(ReplayError::Missing(id))?;
        if delivery.status == Status::Pending && !is_stranded(tx, &within, id)? {
            return Err(ReplayError::Pending(id));
        }
        if body.is_empty() {
            return Err(ReplayError::Forgotten(id));
        }
        match enabled(tx, &within, delivery.endpoint) {
            Ok(()) => {}
            Err(EndpointReplayError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(ReplayError::Disabled(id)),
        }
        begin_again(tx, &within, id)?;
        let change = Change::new("webhook_delivery.replay", "webhook_delivery", id)
            .between(json!({ "status": delivery.status.as_str() }), json!({ "status": "pending" }));
        within.record_change(tx, &change)?;
        let (delivery, _) = load(tx, &within, id)?.ok_or(ReplayError::Missing(id))?;
        Ok(delivery)
    });
    replay.await
}

/// Tells an endpoint again what it has missed since then: the deliveries made since that failed, the oldest first.
pub async fn replay_failed(
    cx: &Cx,
    endpoint: EndpointId,
    since: Timestamp,
) -> Result<Replayed, EndpointReplayError> {
    let within = cx.clone();
    let replay = cx.database().write(move |tx| {
        enabled(tx, &within, endpoint)?;
        let sql = "SELECT id FROM webhook_deliveries
                   WHERE workspace_id = $1 AND endpoint_id = $2 AND status = 'failed' AND created_at >= $3
                     AND body <> '' ORDER BY id LIMIT $4";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(endpoint.get()),
            Param::Int(since.as_millisecond()),
            Param::Int(REPLAYED),
        ];
        let rows = tx.query(sql, &params)?;
        for row in &rows {
            begin_again(tx, &within, DeliveryId::from(row.int(0)?))?;
        }
        if !rows.is_empty() {
            let told = json!({ "since": since.to_string(), "deliveries": rows.len() });
            let change = Change::new("webhook.replay", "webhook", endpoint).after(told);
            within.record_change(tx, &change)?;
        }
        Ok(Replayed { count: rows.len() as u64, more: rows.len() as i64 == REPLAYED })
    });
    replay.await
}

fn enabled(tx: &mut Tx<'_>, cx: &Cx, id: EndpointId) -> Result<(), EndpointReplayError> {
    match endpoints::load(tx, cx, id) {
        Ok(endpoint) if endpoint.disabled.is_none() => Ok(()),
        Ok(_) => Err(EndpointReplayError::Disabled(id)),
        Err(EndpointError::Missing(_)) => Err(EndpointReplayError::Missing(id)),
        Err(EndpointError::Store(error)) => Err(error.into()),
    }
}

/// Whether it waits for something that does not come: its message was buried, for one.
fn is_stranded(tx: &mut Tx<'_>, cx: &Cx, id: DeliveryId) -> Result<bool, DatabaseError> {
    let sql = "SELECT id FROM webhook_deliveries
               WHERE workspace_id = $1 AND id = $2 AND status = 'pending' AND next_attempt_at < $3
                 AND (claimed_until IS NULL OR claimed_until <= $4)";
    let now = cx.now();
    let long_ago = now.checked_sub(STRANDED).unwrap_or(Timestamp::UNIX_EPOCH);
    let params =
        [Param::Int(cx.workspace_id().get()), Param::Int(id.get()), long_ago.into(), now.into()];
    Ok(!tx.query(sql, &params)?.is_empty())
}

/// In a transaction that has seen that nobody is at it.
fn begin_again(tx: &mut Tx<'_>, cx: &Cx, id: DeliveryId) -> Result<(), DatabaseError> {
    let sql = "UPDATE webhook_deliveries
               SET status = 'pending', failure = NULL, delivered_at = NULL, attempts = 0, next_attempt_at = $3,
                   claimed_until = NULL
               WHERE workspace_id = $1 AND id = $2";
    let workspace = cx.workspace_id().get();
    let now = Param::Int(cx.now().as_millisecond());
    tx.execute(sql, &[Param::Int(workspace), Param::Int(id.get()), now])?;
    let timer = TimerChange::Cancel(format!("webhook-delivery/{id}"));
    tx.change_timer(cx.workspace(), &timer).map_err(rows::bounded)?;
    rows::enqueue_delivery(tx, workspace, id, cx.now())
}

const COLUMNS: &str =
    "id, endpoint_id, event_id, event_type, status, failure, attempts, next_attempt_at,
    delivered_at, created_at";
const FROM: &str = "FROM webhook_deliveries WHERE workspace_id = $1";

fn load(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: DeliveryId,
) -> Result<Option<(Delivery, String)>, DatabaseError> {
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(id.get())];
    let rows = tx.query(&format!("SELECT {COLUMNS}, body {FROM} AND id = $2"), &params)?;
    rows.first().map(|row| Ok((read(row)?, row.text(10)?.to_owned()))).transpose()
}

fn read(row: &Row) -> Result<Delivery, DatabaseError> {
    Ok(Delivery {
        id: DeliveryId::from(row.int(0)?),
        endpoint: EndpointId::from(row.int(1)?),
        event_id: row.text(2)?.to_owned(),
        event_type: row.text(3)?.to_owned(),
        status: row.parsed(4, "the status of a delivery")?,
        failure: row.optional_text(5)?.map(str::to_owned),
        attempts: row.int(6)?,
        next_attempt_at: row.optional_time(7)?,
        delivered_at: row.optional_time(8)?,
        created_at: row.time(9)?,
    })
}

fn read_attempt(row: &Row) -> Result<Attempt, DatabaseError> {
    Ok(Attempt {
        status_code: row.optional_int(0)?,
        answer: row.optional_text(1)?.map(str::to_owned),
        error: row.optional_text(2)?.map(str::to_owned),
        duration_ms: row.int(3)?,
        attempted_at: row.time(4)?,
    })
}

impl Details {
    /// What the endpoint is told, as JSON.
    pub fn payload(&self) -> Option<Value> {
        self.body.as_deref().and_then(|body| serde_json::from_str(body).ok())
    }
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Pending, Self::Delivered, Self::Failed];
        all.into_iter().find(|status| status.as_str() == text).ok_or(StatusError)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
