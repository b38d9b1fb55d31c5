//! Looking at templates and their versions.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_access::{Cx, Limit, Page, StorageError};
use tidings_kernel::{ItemStore, Query, SortRange, tables};

use super::key::TemplateKey;
use super::store::{ALL, Current, Status, Stored, current, read_current, read_version};

/// A template in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub key: TemplateKey,
    pub name: String,
    pub kind: Option<String>,
    pub description: Option<String>,
    pub active_version: Option<i64>,
    pub latest_version: i64,
    pub updated_at: Option<Timestamp>,
}

/// A version in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSummary {
    pub version: i64,
    pub status: Status,
    pub subject: String,
    pub created_at: Option<Timestamp>,
    pub created_by: Option<String>,
}

/// Which version is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Active,
    Latest,
    Number(i64),
}

/// In the order of their keys; those that begin with the prefix if there is one. A template that was made a moment ago may
/// be missing on DynamoDB.
pub async fn list(
    cx: &Cx,
    prefix: Option<&str>,
    after: Option<TemplateKey>,
    limit: Limit,
) -> Result<Page<Summary, TemplateKey>, StorageError> {
    let items = cx.items().await?;
    let prefix = prefix.unwrap_or_default();
    // Keys are ASCII below `~`.
    let end = format!("{prefix}~");
    let start = after.as_ref().map_or(prefix, TemplateKey::as_str).max(prefix).to_owned();
    let range = match (&after, start.is_empty()) {
        (_, true) => SortRange::Lt(end),
        _ if start > end => return Ok(Page { items: Vec::new(), next: None }),
        _ => SortRange::Between(start, end),
    };
    let wanted = usize::try_from(limit.and_one()).unwrap_or(1) + 1;
    let query = Query::new(&tables::EMAIL_TRACKING, ALL).index("GSI1").range(range).limit(wanted);
    let found = items.query(query).await?.items;
    let summaries = found.iter().filter_map(|item| {
        let key: TemplateKey = item.text("template_id")?.parse().ok()?;
        Some(summary(key, read_current(item)))
    });
    let mut summaries: Vec<Summary> =
        summaries.filter(|summary| after.as_ref() != Some(&summary.key)).collect();
    summaries.truncate(wanted - 1);
    Ok(Page::cut(summaries, limit, |summary| summary.key.clone()))
}

/// A template with one of its versions. `None` if there is no such template or version.
pub async fn find(
    cx: &Cx,
    key: &TemplateKey,
    pick: Pick,
) -> Result<Option<(Summary, Status, Arc<Stored>)>, StorageError> {
    let items = cx.items().await?;
    let Some(current) = current(items.as_ref(), key).await? else { return Ok(None) };
    let Some(version) = picked(&current, pick) else { return Ok(None) };
    let item = items.get(&tables::EMAIL_TRACKING, &key.version(version)).await?;
    let Some(item) = item else { return Ok(None) };
    let stored = Arc::new(read_version(key, &item)?);
    Ok(Some((summary(key.clone(), current), Status::read(&item), stored)))
}

/// The newest first. `None` if there is no such template.
pub async fn versions(
    cx: &Cx,
    key: &TemplateKey,
    before: Option<i64>,
    limit: Limit,
) -> Result<Option<Page<VersionSummary, i64>>, StorageError> {
    let items = cx.items().await?;
    let Some(current) = current(items.as_ref(), key).await? else { return Ok(None) };
    let newest = before.map_or(current.latest, |before| current.latest.min(before - 1));
    let oldest = (newest - limit.and_one() + 1).max(1);
    let numbers: Vec<i64> = (oldest..=newest).rev().collect();
    let keys: Vec<_> = numbers.iter().map(|number| key.version(*number)).collect();
    if keys.is_empty() {
        return Ok(Some(Page { items: Vec::new(), next: None }));
    }
    let found = items.batch_get(&tables::EMAIL_TRACKING, &keys).await?;
    let summaries = numbers.iter().zip(found).filter_map(|(number, item)| {
        let item = item?;
        Some(VersionSummary {
            version: *number,
            status: Status::read(&item),
            subject: item.text("subject_template").unwrap_or_default().to_owned(),
            created_at: item.text("created_date").and_then(|text| text.parse().ok()),
            created_by: item.text("created_by").map(str::to_owned),
        })
    });
    Ok(Some(Page::cut(summaries.collect(), limit, |summary| summary.version)))
}

pub(super) fn picked(current: &Current, pick: Pick) -> Option<i64> {
    match pick {
        Pick::Active => current.active,
        Pick::Latest => Some(current.latest),
        Pick::Number(number) => (1..=current.latest).contains(&number).then_some(number),
    }
}

pub(super) async fn load(
    items: &dyn ItemStore,
    key: &TemplateKey,
    version: i64,
) -> Result<Option<Stored>, StorageError> {
    let item = items.get(&tables::EMAIL_TRACKING, &key.version(version)).await?;
    item.as_ref().map(|item| read_version(key, item)).transpose()
}

fn summary(key: TemplateKey, current: Current) -> Summary {
    Summary {
        key,
        name: current.name,
        kind: current.kind,
        description: current.description,
        active_version: current.active,
        latest_version: current.latest,
        updated_at: current.updated_at,
    }
}
