//! Topics: the categories of mail that a person can switch off one by one.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, DisplayName, Limit, Page, Slug};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::TopicId;
use super::preferences::MAX_TOPICS;
use super::proof::{Line, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    pub slug: Slug,
    pub name: DisplayName,
    /// What it is about, for those who decide whether they want it.
    pub description: Option<Line>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Create {
    pub slug: Slug,
    pub name: DisplayName,
    pub description: Option<Line>,
}

/// What is `None` stays as it is.
#[derive(Debug, Clone)]
pub struct Update {
    pub slug: Slug,
    pub name: Option<DisplayName>,
    /// The inner `None` takes the description away.
    pub description: Option<Option<Line>>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is already a topic {0}")]
    Taken(Slug),
    #[error("a workspace has at most {MAX_TOPICS} topics")]
    TooMany,
    #[error("the topic could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no topic {0}")]
    Missing(Slug),
    #[error("the topic could not be reached")]
    Store(#[from] DatabaseError),
}

pub async fn create(cx: &Cx, cmd: Create) -> Result<Topic, CreateError> {
    let sql = "INSERT INTO topics (workspace_id, slug, name, description, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $5)
               ON CONFLICT (workspace_id, slug) DO NOTHING RETURNING id";
    let within = cx.clone();
    let create = cx.database().write(move |tx| {
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(cmd.slug.as_str()),
            Param::Text(cmd.name.as_str()),
            text(cmd.description.as_ref().map(Line::as_str)),
            Param::Int(within.now().as_millisecond()),
        ];
        let rows = tx.query(sql, &params)?;
        let Some(row) = rows.first() else { return Err(CreateError::Taken(cmd.slug.clone())) };
        // More of them would not be shown to anybody who decides what he wants.
        let all = "SELECT count(*) FROM topics WHERE workspace_id = $1";
        let all = tx.query(all, &params[..1])?.first().map_or(Ok(0), |row| row.int(0))?;
        if all > MAX_TOPICS as i64 {
            return Err(CreateError::TooMany);
        }
        let id = TopicId::from(row.int(0)?);
        let Create { slug, name, description } = cmd.clone();
        let (created_at, updated_at) = (within.now(), within.now());
        let made = Topic { id, slug, name, description, created_at, updated_at };
        let change = Change::new("topic.create", "topic", &made.slug).after(told(&made));
        within.record_change(tx, &change)?;
        Ok(made)
    });
    create.await
}

/// In the order of their slugs.
pub async fn list(
    cx: &Cx,
    after: Option<Slug>,
    limit: Limit,
) -> Result<Page<Topic, Slug>, DatabaseError> {
    let workspace = cx.workspace_id();
    let list = cx.database().read(move |tx| {
        let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug > $2 ORDER BY slug LIMIT $3");
        let after = after.as_ref().map_or("", Slug::as_str);
        let params = [Param::Int(workspace.get()), Param::Text(after), Param::Int(limit.and_one())];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |topic: &Topic| topic.slug.clone()))
    });
    list.await
}

pub async fn find(cx: &Cx, slug: Slug) -> Result<Topic, FindError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within, &slug)).await
}

pub async fn update(cx: &Cx, cmd: Update) -> Result<Topic, FindError> {
    let sql = "UPDATE topics SET name = $3, description = $4, updated_at = $5
               WHERE workspace_id = $1 AND slug = $2";
    let within = cx.clone();
    let update = cx.database().write(move |tx| {
        let before = load(tx, &within, &cmd.slug)?;
        let mut after = before.clone();
        if let Some(name) = &cmd.name {
            after.name = name.clone();
        }
        if let Some(description) = &cmd.description {
            after.description = description.clone();
        }
        if after == before {
            return Ok(before);
        }
        after.updated_at = within.now();
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(cmd.slug.as_str()),
            Param::Text(after.name.as_str()),
            text(after.description.as_ref().map(Line::as_str)),
            Param::Int(within.now().as_millisecond()),
        ];
        tx.execute(sql, &params)?;
        let change =
            Change::new("topic.update", "topic", &cmd.slug).between(told(&before), told(&after));
        within.record_change(tx, &change)?;
        Ok(after)
    });
    update.await
}

/// As the audit log has it.
fn told(topic: &Topic) -> Value {
    json!({
        "name": topic.name.as_str(),
        "description": topic.description.as_ref().map(Line::as_str),
    })
}

pub(super) const SELECT: &str =
    "SELECT id, slug, name, description, created_at, updated_at FROM topics";

pub(super) fn load(tx: &mut Tx<'_>, cx: &Cx, slug: &Slug) -> Result<Topic, FindError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug = $2");
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(slug.as_str())];
    let rows = tx.query(&sql, &params)?;
    let row = rows.first().ok_or_else(|| FindError::Missing(slug.clone()))?;
    Ok(read(row)?)
}

pub(super) fn read(row: &Row) -> Result<Topic, DatabaseError> {
    let description = match row.optional_text(3)? {
        Some(_) => Some(row.parsed(3, "a description")?),
        None => None,
    };
    Ok(Topic {
        id: TopicId::from(row.int(0)?),
        slug: row.parsed(1, "a slug")?,
        name: row.parsed(2, "a display name")?,
        description,
        created_at: row.time(4)?,
        updated_at: row.time(5)?,
    })
}
