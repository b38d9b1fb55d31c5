//! The broadcast record of a campaign, as seed 000 has it: one item under `BROADCAST`, sorted by the time of the start.
//!
//! It is written once, when the recipients are known. What came back is not in it: the counters are merged in when it
//! is read.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value as Json, json};
use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::{Condition, Cursor, Expect, Item, Key, Put, Query, StoreError, Value, tables};
use tidings_people::keys::time;

use super::Campaign;
use super::named::{self, Name, NameError};

/// So many of all clients are looked at for a page of one.
const EXAMINED: usize = 1_000;
/// The partition of all broadcasts.
pub const PARTITION: &str = "BROADCAST";
/// What a record shows of the counters.
pub const COUNTERS: [&str; 5] =
    ["deliveryCount", "openCount", "clickCount", "bounceCount", "complaintCount"];

/// A record with what came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    pub item: Item,
    /// In the order of [`COUNTERS`].
    pub counts: [i64; 5],
}

/// What a record says, for people and programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// The key of the campaign.
    pub id: String,
    pub campaign_id: Option<i64>,
    pub audience: Option<String>,
    pub template_key: Option<String>,
    pub subject: Option<String>,
    pub from_email: Option<String>,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    pub filters: Json,
    pub audience_size: i64,
    pub sent_at: Option<String>,
    pub deliveries: i64,
    pub opens: i64,
    pub clicks: i64,
    pub bounces: i64,
    pub complaints: i64,
}

impl Broadcast {
    pub fn record(&self) -> Record {
        let item = &self.item;
        let text = |name: &str| item.text(name).map(ToOwned::to_owned);
        let sender = |name: &str| match item.get("sender") {
            Some(Value::M(fields)) => match fields.get(name) {
                Some(Value::S(text)) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let filters = item.get("filters").map(|filters| json!(filters));
        let [deliveries, opens, clicks, bounces, complaints] = self.counts;
        Record {
            id: text("broadcastId").unwrap_or_default(),
            campaign_id: item.integer("campaignId"),
            audience: text("audience"),
            template_key: text("templateKey"),
            subject: text("subject"),
            from_email: sender("fromEmail"),
            from_name: sender("fromName"),
            reply_to: sender("replyToEmail"),
            filters: filters.unwrap_or_else(|| json!({})),
            audience_size: item.integer("audienceSize").unwrap_or(0),
            sent_at: text("sentAt"),
            deliveries,
            opens,
            clicks,
            bounces,
            complaints,
        }
    }
}

/// Which broadcasts, the newest first.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Those of this client alone.
    pub client: Option<ClientId>,
    /// Started at this time or later.
    pub from: Option<Timestamp>,
    /// Started at this time or before.
    pub to: Option<Timestamp>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

pub fn key(started_at: Timestamp, campaign_key: &str) -> Key {
    Key::new(PARTITION, format!("{}#{campaign_key}", time(started_at)))
}

/// Writes the record. If it is there already, it stays as it is.
pub async fn write(cx: &Cx, campaign: &Campaign, subject: &str) -> Result<(), StorageError> {
    let slugs = named::slugs(cx, &[campaign]).await?;
    let audience = campaign.audience.and_then(|id| slugs.audiences.get(&id.get()));
    let record = record(campaign, audience.map(String::as_str), subject);
    let put = Put::new(&tables::MAIN, record).expect(Expect::Absent);
    match cx.items().await?.put(put).await {
        Ok(_) | Err(StoreError::ConditionFailed { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn record(campaign: &Campaign, audience: Option<&str>, subject: &str) -> Item {
    let started_at = campaign.times.started_at.unwrap_or(campaign.status_at);
    let content = campaign.content_for(Some(0));
    let sender = [
        ("fromEmail", campaign.sender.from_email.as_deref()),
        ("fromName", campaign.sender.from_name.as_deref()),
        ("replyToEmail", campaign.sender.reply_to.as_deref()),
    ];
    let sender =
        sender.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
    let mut item = tables::MAIN.bare_item(&key(started_at, &campaign.key()));
    item.set("broadcastId", campaign.key());
    item.set("campaignId", campaign.id.get());
    item.set("clientId", campaign.client.get());
    if let Some(audience) = audience {
        item.set("audience", audience);
    }
    if let Some(template) = &content.template {
        item.set("templateKey", template.key.as_str());
    }
    item.set("subject", subject);
    item.set("sender", Value::M(sender.collect()));
    item.set("filters", value(&nameless(&campaign.filter)));
    item.set("audienceSize", campaign.progress.recipients);
    item.set("sentAt", time(started_at));
    item
}

/// A list of people becomes their number: the record outlives them.
fn nameless(filter: &Json) -> Json {
    match filter {
        Json::Array(list) => list.iter().map(nameless).collect(),
        Json::Object(fields) => {
            let field = |(name, inner): (&String, &Json)| match (name.as_str(), inner) {
                ("contacts", Json::Array(people)) => (name.clone(), json!(people.len())),
                _ => (name.clone(), nameless(inner)),
            };
            Json::Object(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

fn value(json: &Json) -> Value {
    serde_json::from_str(&json.to_string()).unwrap_or(Value::Null)
}

/// A broadcast by its id. `None` if there is none, or it is another client's.
pub async fn get(
    cx: &Cx,
    id: &str,
    client: Option<ClientId>,
) -> Result<Option<Broadcast>, StorageError> {
    let campaign = match named::find(cx, &Name::Key(id.to_owned()), client).await {
        Ok(campaign) => campaign,
        Err(NameError::Missing(_)) => return Ok(None),
        Err(NameError::Store(error)) => return Err(error.into()),
    };
    let Some(started_at) = campaign.times.started_at else { return Ok(None) };
    let key = key(started_at, &campaign.key());
    let item = cx.items().await?.get(&tables::MAIN, &key).await?;
    Ok(merge(cx, item.into_iter().collect()).await?.pop())
}

/// The newest first. A client sees its own: a page of them may be short, or even empty, and still say where the next begins.
pub async fn list(cx: &Cx, list: List) -> Result<(Vec<Broadcast>, Option<Cursor>), StorageError> {
    let from = time(list.from.unwrap_or(Timestamp::UNIX_EPOCH));
    // Whatever follows the time in a key is below this.
    let to = format!("{}~", list.to.map_or_else(|| "9999".to_owned(), time));
    let mut query = Query::new(&tables::MAIN, PARTITION)
        .between(from, to)
        .backward()
        .limit(list.limit.clamp(1, 100))
        .after(list.after);
    if let Some(client) = list.client {
        query = query.filter(Condition::eq("clientId", client.get())).examine(EXAMINED);
    }
    let page = cx.items().await?.query(query).await?;
    Ok((merge(cx, page.items).await?, page.cursor))
}

async fn merge(cx: &Cx, items: Vec<Item>) -> Result<Vec<Broadcast>, StorageError> {
    let id = |item: &Item| item.text("broadcastId").unwrap_or_default().to_owned();
    let keys: Vec<_> =
        items.iter().map(|item| Key::new(format!("STATS#{}", id(item)), "COUNTERS")).collect();
    let counters = cx.items().await?.batch_get(&tables::MAIN, &keys).await?;
    let merged = items.into_iter().zip(counters).map(|(item, counters)| {
        let count = |name| counters.as_ref().and_then(|item| item.integer(name)).unwrap_or(0);
        Broadcast { item, counts: COUNTERS.map(count) }
    });
    Ok(merged.collect())
}
