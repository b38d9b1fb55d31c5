//! Asking for what was recorded: the events of a person, a template or a sequence, and the numbers.
//!
//! Not here: recording them (`events`).

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value as Json;
use tidings_access::{Cx, Limit, Page, StorageError};
use tidings_delivery::ledger::Source;
use tidings_kernel::{
    Condition, Cursor, EmailAddress, Invalid, Item, Key, MAX_BATCH_GET, Query, StoreError, tables,
};
use tidings_people::keys as people;

use crate::events::{Counts, EventKind, keys};

/// So many reads one question takes at most. Whoever wants to know more goes on with the cursor.
const READS: usize = 20;
/// So many events each read looks at, at most: a type that is rare is not searched for through all that there is.
const EXAMINED: usize = 500;
/// So many events of one message are told at most.
pub const MAX_OF_MESSAGE: usize = 200;
/// The longest range of days.
pub const MAX_DAYS: i32 = 366;

/// Whose events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    Contact(EmailAddress),
    Template(String),
    /// A sequence, or a campaign by its key.
    Sequence(String),
}

/// Which of them. Each bound may be left out; both are included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub of: Of,
    /// One of [`EventKind::NAMES`].
    pub kind: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// An event as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub id: Option<String>,
    pub kind: String,
    pub email: String,
    pub occurred_at: Timestamp,
    pub template_key: Option<String>,
    pub sequence_id: Option<String>,
    pub subject: Option<String>,
    /// The message in the ledger: `t-101`, `c-501`.
    pub message: Option<String>,
    pub provider_message_id: Option<String>,
    pub url: Option<String>,
    pub user_agent: Option<String>,
    pub verdict: Option<Json>,
    pub bounce_type: Option<String>,
    pub bounce_subtype: Option<String>,
    pub bounce_class: Option<String>,
    pub status: Option<String>,
    pub diagnostic: Option<String>,
    pub feedback_type: Option<String>,
    pub reason: Option<String>,
    /// What a reply says.
    pub body: Option<String>,
    pub auto_reply: bool,
    /// Nothing proves that the person wrote the reply.
    pub unproven: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("the range ends before it begins")]
    Backwards,
    #[error("the cursor is not one of this list")]
    Cursor,
    #[error("there is no type of event with this name: use one of {}", EventKind::NAMES.join(", "))]
    Kind,
    #[error("the events could not be read")]
    Store(#[from] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    #[error("the range ends before it begins")]
    Backwards,
    #[error("the range has more than {MAX_DAYS} days")]
    TooLong,
    #[error("the numbers could not be read")]
    Store(#[from] StorageError),
}

/// The newest first. A page may be short, and even empty, and yet have a cursor: no call looks at more than a bounded
/// number of events.
pub async fn list(
    cx: &Cx,
    filter: &Filter,
    after: Option<Cursor>,
    limit: Limit,
) -> Result<Page<Stored, Cursor>, ListError> {
    if filter.kind.as_deref().is_some_and(|kind| !EventKind::NAMES.contains(&kind)) {
        return Err(ListError::Kind);
    }
    let items = cx.items().await?;
    let wanted = usize::try_from(limit.and_one() - 1).unwrap_or(1);
    let mut found = Vec::new();
    let mut cursor = after;
    for _ in 0..READS {
        let query = filter.query()?.limit(wanted - found.len()).after(cursor);
        let page = items.query(query).await.map_err(refused)?;
        found.extend(page.items.iter().filter_map(Stored::read));
        cursor = page.cursor;
        if cursor.is_none() || found.len() >= wanted {
            break;
        }
    }
    Ok(Page { items: found, next: cursor })
}

/// What happened to one message and because of it, the oldest first; of very many the newest. `since` is when it was
/// written down.
pub async fn of_message(
    cx: &Cx,
    (source, email): (Source, &EmailAddress),
    since: Timestamp,
) -> Result<Vec<Stored>, StorageError> {
    let items = cx.items().await?;
    let (low, high) = (format!("EVT#{}", people::time(since)), "EVT#~".to_owned());
    let mut found = Vec::new();
    let mut cursor = None;
    for _ in 0..READS {
        let query = Query::new(&tables::EVENTS, people::subscriber(email))
            .between(low.clone(), high.clone())
            .backward()
            .filter(Condition::eq("messageRef", source.reference()))
            .examine(EXAMINED)
            .limit(MAX_OF_MESSAGE - found.len())
            .after(cursor);
        let page = items.query(query).await?;
        found.extend(page.items.iter().filter_map(Stored::read));
        cursor = page.cursor;
        if cursor.is_none() || found.len() >= MAX_OF_MESSAGE {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

fn refused(error: StoreError) -> ListError {
    match error {
        StoreError::Invalid(Invalid::BadCursor) => ListError::Cursor,
        error => ListError::Store(error.into()),
    }
}

/// The numbers of each day in UTC, both ends included. A day without events has noughts.
pub async fn days(cx: &Cx, from: Date, to: Date) -> Result<Vec<(Date, Counts)>, StatsError> {
    let span = (to - from).get_days();
    if span < 0 {
        return Err(StatsError::Backwards);
    }
    if span >= MAX_DAYS {
        return Err(StatsError::TooLong);
    }
    let items = cx.items().await?;
    let mut days: Vec<(Date, Counts)> = from
        .series(jiff::Span::new().days(1))
        .take_while(|day| *day <= to)
        .map(|day| (day, Counts::default()))
        .collect();
    let places: Vec<(usize, Key)> = (0..days.len())
        .flat_map(|at| (0..keys::SHARDS).map(move |shard| (at, shard)))
        .map(|(at, shard)| (at, keys::day(days[at].0, shard)))
        .collect();
    for places in places.chunks(MAX_BATCH_GET) {
        let wanted: Vec<Key> = places.iter().map(|(_, key)| key.clone()).collect();
        let found = items.batch_get(&tables::MAIN, &wanted).await.map_err(StorageError::from)?;
        for ((at, _), item) in places.iter().zip(found) {
            if let Some(item) = item {
                days[*at].1.add(Counts::of(&item));
            }
        }
    }
    Ok(days)
}

/// `None` if nothing was counted under this id.
pub async fn sequence(cx: &Cx, id: &str) -> Result<Option<Counts>, StorageError> {
    counts(cx, &keys::sequence(id)).await
}

/// `None` if nothing was counted under this key.
pub async fn template(cx: &Cx, key: &str) -> Result<Option<Counts>, StorageError> {
    counts(cx, &keys::template(key)).await
}

async fn counts(cx: &Cx, key: &Key) -> Result<Option<Counts>, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, key).await?;
    Ok(item.as_ref().map(Counts::of))
}

impl Filter {
    fn query(&self) -> Result<Query, ListError> {
        let query = match &self.of {
            Of::Contact(email) => Query::new(&tables::EVENTS, people::subscriber(email)),
            Of::Template(key) => Query::new(&tables::EVENTS, key).index("TemplateIndex"),
            Of::Sequence(id) => Query::new(&tables::EVENTS, id).index("SequenceIndex"),
        };
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(ListError::Backwards);
        }
        // Keys have years of four digits.
        let text = |at: Timestamp| people::time(at.max(Timestamp::UNIX_EPOCH));
        let low = self.from.map(text).unwrap_or_default();
        let high = self.to.map(text).unwrap_or_default();
        // The tilde comes after everything that can follow a time in a key.
        let query = query.between(format!("EVT#{low}"), format!("EVT#{high}~")).backward();
        Ok(match &self.kind {
            Some(kind) => query.filter(Condition::eq("eventType", kind.as_str())).examine(EXAMINED),
            None => query,
        })
    }
}

impl Stored {
    /// `None` for what is no event of ours: it cannot be shown.
    fn read(item: &Item) -> Option<Self> {
        let text = |name: &str| item.text(name).map(ToOwned::to_owned);
        Some(Self {
            id: text("eventId"),
            kind: text("eventType")?,
            email: item.text("PK")?.strip_prefix("SUB#")?.to_owned(),
            occurred_at: item.text("timestamp")?.parse().ok()?,
            template_key: text("templateKey"),
            sequence_id: text("sequenceId"),
            subject: text("subject"),
            message: text("messageRef"),
            provider_message_id: text("sesMessageId"),
            url: text("linkUrl"),
            user_agent: text("userAgent"),
            verdict: item.get("verdict").map(plain),
            bounce_type: text("bounceType"),
            bounce_subtype: text("bounceSubType"),
            bounce_class: text("bounceClass"),
            status: text("status"),
            diagnostic: text("diagnostic"),
            feedback_type: text("feedbackType"),
            reason: text("reason"),
            body: text("body"),
            auto_reply: item.get("autoReply") == Some(&true.into()),
            unproven: item.get("unproven") == Some(&true.into()),
        })
    }
}

/// An attribute as JSON.
fn plain(value: &tidings_kernel::Value) -> Json {
    use tidings_kernel::Value;
    match value {
        Value::S(text) => text.as_str().into(),
        Value::N(number) => match number.to_i64() {
            Some(number) => number.into(),
            None => number.to_string().into(),
        },
        Value::Bool(flag) => (*flag).into(),
        Value::L(list) => list.iter().map(plain).collect(),
        Value::M(map) => map.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        Value::Null | Value::B(_) | Value::Ss(_) | Value::Ns(_) | Value::Bs(_) => Json::Null,
    }
}
