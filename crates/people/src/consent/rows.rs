//! The rows of subscriptions, and the confirmations they wait for.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, ClientId, Cx, Slug};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::proof::{About, Line, number, text};
use super::{AudienceId, Status, SubscriptionId};
use crate::contacts::ContactId;

/// Somebody's subscription to an audience, or to one client's mail to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub contact: ContactId,
    pub audience: AudienceId,
    pub audience_slug: Slug,
    /// Without a client it is to the whole audience.
    pub client: Option<ClientId>,
    pub client_slug: Option<Slug>,
    pub status: Status,
    pub source: Option<String>,
    /// When he has shown that he reads the mail to his address.
    pub verified_at: Option<Timestamp>,
    /// When he last agreed.
    pub agreed_at: Option<Timestamp>,
    pub unsubscribed_at: Option<Timestamp>,
    pub unsubscribe_reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const SELECT: &str =
    "SELECT s.id, s.lead_id, s.audience_id, a.slug, s.client_id, c.slug, s.status, s.source, s.verified_at,
            s.agreed_at, s.unsubscribed_at, s.unsubscribe_reason, s.created_at, s.updated_at
     FROM subscriptions s
     JOIN audiences a ON a.workspace_id = s.workspace_id AND a.id = s.audience_id
     LEFT JOIN clients c ON c.workspace_id = s.workspace_id AND c.id = s.client_id";

/// So many subscriptions of one person are looked at.
const MANY: i64 = 1000;

pub(super) fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (audience, client): (AudienceId, Option<ClientId>),
) -> Result<Option<Subscription>, DatabaseError> {
    // Not `client_id IS $4`: only SQLite takes that for a comparison.
    let sql = format!(
        "{SELECT} WHERE s.workspace_id = $1 AND s.lead_id = $2 AND s.audience_id = $3
         AND coalesce(s.client_id, 0) = $4"
    );
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(audience.get()),
        Param::Int(client.map_or(0, ClientId::get)),
    ];
    tx.query(&sql, &params)?.first().map(read).transpose()
}

pub(super) fn load(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: SubscriptionId,
) -> Result<Option<Subscription>, DatabaseError> {
    let sql = format!("{SELECT} WHERE s.workspace_id = $1 AND s.id = $2");
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(id.get())];
    tx.query(&sql, &params)?.first().map(read).transpose()
}

/// All of one person, in the order in which they came.
pub(super) fn all(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
) -> Result<Vec<Subscription>, DatabaseError> {
    let sql =
        format!("{SELECT} WHERE s.workspace_id = $1 AND s.lead_id = $2 ORDER BY s.id LIMIT $3");
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(contact.get()), Param::Int(MANY)];
    tx.query(&sql, &params)?.iter().map(read).collect()
}

/// A row that was not there.
pub(super) fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    place: (AudienceId, Option<ClientId>),
    source: &Line,
) -> Result<Subscription, DatabaseError> {
    let sql = "INSERT INTO subscriptions
                   (workspace_id, lead_id, audience_id, client_id, status, source, created_at, updated_at)
               VALUES ($1, $2, $3, $4, 'pending', $5, $6, $6)
               ON CONFLICT DO NOTHING";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(place.0.get()),
        number(place.1.map(ClientId::get)),
        Param::Text(source.as_str()),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    find(tx, cx, contact, place)?.ok_or(DatabaseError::NoRow)
}

/// Writes what may change in a row.
pub(super) fn save(
    tx: &mut Tx<'_>,
    cx: &Cx,
    subscription: &Subscription,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE subscriptions
               SET status = $3, verified_at = $4, agreed_at = $5, unsubscribed_at = $6,
                   unsubscribe_reason = $7, updated_at = $8
               WHERE workspace_id = $1 AND id = $2";
    let millis = |at: Option<Timestamp>| number(at.map(Timestamp::as_millisecond));
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(subscription.id.get()),
        Param::Text(subscription.status.as_str()),
        millis(subscription.verified_at),
        millis(subscription.agreed_at),
        millis(subscription.unsubscribed_at),
        text(subscription.unsubscribe_reason.as_deref()),
        Param::Int(subscription.updated_at.as_millisecond()),
    ];
    tx.execute(sql, &params).map(drop)
}

/// A request that was not confirmed cannot be any more: who leaves does not come back by an old mail.
pub(super) fn void_requests(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    only: Option<SubscriptionId>,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE confirmations SET expires_at = $3
               WHERE workspace_id = $1 AND confirmed_at IS NULL AND expires_at > $3
                 AND subscription_id IN
                     (SELECT id FROM subscriptions WHERE lead_id = $2 AND (id = $4 OR $4 = 0))";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(cx.now().as_millisecond()),
        Param::Int(only.map_or(0, SubscriptionId::get)),
    ];
    tx.execute(sql, &params).map(drop)
}

fn read(row: &Row) -> Result<Subscription, DatabaseError> {
    let optional = |column| row.optional_text(column).map(|text| text.map(str::to_owned));
    let client_slug = match row.optional_text(5)? {
        Some(_) => Some(row.parsed(5, "a slug")?),
        None => None,
    };
    Ok(Subscription {
        id: SubscriptionId::from(row.int(0)?),
        contact: ContactId::from(row.int(1)?),
        audience: AudienceId::from(row.int(2)?),
        audience_slug: row.parsed(3, "a slug")?,
        client: row.optional_int(4)?.map(ClientId::from),
        client_slug,
        status: row.parsed(6, "the status of a subscription")?,
        source: optional(7)?,
        verified_at: row.optional_time(8)?,
        agreed_at: row.optional_time(9)?,
        unsubscribed_at: row.optional_time(10)?,
        unsubscribe_reason: optional(11)?,
        created_at: row.time(12)?,
        updated_at: row.time(13)?,
    })
}

impl Subscription {
    pub(super) fn about(&self) -> About {
        About { audience: Some(self.audience), client: self.client, topic: None }
    }

    /// As the audit log has it.
    pub(super) fn told(&self) -> Value {
        json!({
            "audience": self.audience_slug.as_str(),
            "client": self.client_slug.as_ref().map(Slug::as_str),
            "status": self.status.as_str(),
            "verified": self.verified_at.is_some(),
        })
    }

    /// What became of it, for the audit log.
    pub(super) fn audited(&self, action: &'static str, before: Option<Value>) -> Change {
        let change = Change::new(action, "subscription", self.id);
        match before {
            Some(before) => change.before(before).after(self.told()),
            None => change.after(self.told()),
        }
    }

    /// As it is when he agrees now.
    pub(super) fn agree(&mut self, now: Timestamp) {
        self.status = Status::Subscribed;
        self.agreed_at = Some(now);
        self.unsubscribed_at = None;
        self.unsubscribe_reason = None;
        self.updated_at = now;
    }

    pub(super) fn leave(&mut self, at: Timestamp, reason: Option<&Line>, now: Timestamp) {
        self.status = Status::Unsubscribed;
        self.unsubscribed_at = Some(at);
        self.unsubscribe_reason = reason.map(Line::to_string);
        self.updated_at = now;
    }
}
