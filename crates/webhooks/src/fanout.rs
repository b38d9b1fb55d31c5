//! Of one event a delivery for each endpoint that wants to know.

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidings_access::Access;
use tidings_jobs::contracts::{Object, WebhookFanout};
use tidings_jobs::{Outcome, Work};
use tidings_kernel::{EmailAddress, hex};
use tidings_sql::{DatabaseError, Param, Tx};

use crate::keep;
use crate::rows::{self, DeliveryId, EndpointId};

pub(crate) struct Fanout {
    pub(crate) access: Access,
}

#[async_trait]
impl Work<WebhookFanout> for Fanout {
    async fn work(&self, event: WebhookFanout) -> Outcome {
        let workspace = event.workspace_id;
        match self.access.working_for(workspace).await {
            Ok(Some(cx)) => {
                let now = cx.now().as_millisecond();
                // The statements are right by themselves: a delivery that is there already is left alone.
                let fanned =
                    cx.database().write_committed(move |tx| fan_out(tx, &event, now)).await;
                match fanned {
                    Ok(()) => Outcome::Done,
                    Err(error) => crate::troubled(&error),
                }
            }
            Ok(None) => Outcome::dead(format!("there is no workspace {workspace}")),
            Err(error) => crate::troubled(&error),
        }
    }
}

/// A delivery on its way into its row.
pub(crate) struct NewDelivery<'a> {
    pub(crate) workspace: i64,
    pub(crate) endpoint: EndpointId,
    pub(crate) event_id: &'a str,
    pub(crate) event_type: &'a str,
    pub(crate) about: Option<&'a str>,
    pub(crate) body: &'a str,
    pub(crate) now: i64,
}

fn fan_out(tx: &mut Tx<'_>, event: &WebhookFanout, now: i64) -> Result<(), DatabaseError> {
    let listening = rows::listening(tx, event.workspace_id)?;
    let mut data = event.data.clone();
    if is_erased(tx, event.workspace_id, &data)? {
        data.remove("email");
    }
    let body = body(&event.event_type, event.occurred_at, &data);
    let about = about(event.workspace_id, &data);
    for (endpoint, types) in listening {
        if !types.has(&event.event_type) {
            continue;
        }
        let new = NewDelivery {
            workspace: event.workspace_id,
            endpoint,
            event_id: &event.event_id,
            event_type: &event.event_type,
            about: about.as_deref(),
            body: &body,
            now,
        };
        insert(tx, &new)?;
    }
    Ok(())
}

/// Whether the contact, or whoever else had the address, was erased since it was announced: then it must not come back
/// by this way. Somebody new may have the address by now.
fn is_erased(tx: &mut Tx<'_>, workspace: i64, data: &Object) -> Result<bool, DatabaseError> {
    let contact = data.get("contact_id").and_then(Value::as_i64);
    if let Some(contact) = contact {
        let sql =
            "SELECT id FROM leads WHERE workspace_id = $1 AND id = $2 AND erased_at IS NOT NULL";
        if !tx.query(sql, &[Param::Int(workspace), Param::Int(contact)])?.is_empty() {
            return Ok(true);
        }
    }
    let Some(email) = data.get("email").and_then(Value::as_str) else { return Ok(false) };
    let address = email.parse::<EmailAddress>();
    let value = address.as_ref().map_or(email, EmailAddress::as_str);
    let sql = "SELECT id FROM channel_identities
               WHERE workspace_id = $1 AND channel = 'email' AND value = $2";
    let has = !tx.query(sql, &[Param::Int(workspace), Param::Text(value)])?.is_empty();
    Ok(!has && keep::erased_at(tx, workspace, value)?.is_some())
}

/// Makes a delivery and asks for its first attempt, unless the endpoint has been told before.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    new: &NewDelivery<'_>,
) -> Result<Option<DeliveryId>, DatabaseError> {
    let sql = "INSERT INTO webhook_deliveries
                   (workspace_id, endpoint_id, event_id, event_type, about, body, next_attempt_at, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
               ON CONFLICT (endpoint_id, event_id) DO NOTHING RETURNING id";
    let params = [
        Param::Int(new.workspace),
        Param::Int(new.endpoint.get()),
        Param::Text(new.event_id),
        Param::Text(new.event_type),
        new.about.into(),
        Param::Text(new.body),
        Param::Int(new.now),
    ];
    let inserted = tx.query(sql, &params)?;
    let Some(row) = inserted.first() else { return Ok(None) };
    let id = DeliveryId::from(row.int(0)?);
    let now = jiff::Timestamp::from_millisecond(new.now);
    let now = now.map_err(|_| DatabaseError::damaged(0, "a time"))?;
    rows::enqueue_delivery(tx, new.workspace, id, now)?;
    Ok(Some(id))
}

/// What an endpoint gets to read: `{"type":…,"timestamp":…,"data":…}`.
pub(crate) fn body(event_type: &str, occurred_at: jiff::Timestamp, data: &Object) -> String {
    json!({ "type": event_type, "timestamp": occurred_at.to_string(), "data": data }).to_string()
}

/// A hash of the address that the data tells, by which erasure finds the delivery.
pub(crate) fn about(workspace: i64, data: &Object) -> Option<String> {
    let email = data.get("email").and_then(Value::as_str)?;
    Some(match email.parse::<EmailAddress>() {
        Ok(address) => hash(workspace, address.as_str()),
        Err(_) => hash(workspace, email),
    })
}

pub(crate) fn hash(workspace: i64, email: &str) -> String {
    let digest = Sha256::digest(format!("{workspace}\0{email}"));
    hex(&digest)
}
