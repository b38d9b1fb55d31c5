//! Audiences: the lists that people are subscribed to.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, DisplayName, Limit, Page, Slug};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::AudienceId;
use super::proof::{Line, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    pub id: AudienceId,
    pub slug: Slug,
    pub name: DisplayName,
    /// Whether a new subscription counts only once it is confirmed.
    pub double_opt_in: bool,
    /// The template of the mail that asks for it. Without one the client asks by itself, and says so.
    pub confirm_template_key: Option<Line>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Create {
    pub slug: Slug,
    pub name: DisplayName,
    pub double_opt_in: bool,
    pub confirm_template_key: Option<Line>,
}

/// What is `None` stays as it is.
#[derive(Debug, Clone)]
pub struct Update {
    pub slug: Slug,
    pub name: Option<DisplayName>,
    pub double_opt_in: Option<bool>,
    /// The inner `None` takes the template away.
    pub confirm_template_key: Option<Option<Line>>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is already an audience {0}")]
    Taken(Slug),
    #[error("the audience could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no audience {0}")]
    Missing(Slug),
    #[error("the audience could not be reached")]
    Store(#[from] DatabaseError),
}

pub async fn create(cx: &Cx, cmd: Create) -> Result<Audience, CreateError> {
    let sql = "INSERT INTO audiences
                   (workspace_id, slug, name, double_opt_in, confirm_template_key, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $6)
               ON CONFLICT (workspace_id, slug) DO NOTHING RETURNING id";
    let within = cx.clone();
    let create = cx.database().write(move |tx| {
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(cmd.slug.as_str()),
            Param::Text(cmd.name.as_str()),
            Param::Int(cmd.double_opt_in.into()),
            text(cmd.confirm_template_key.as_ref().map(Line::as_str)),
            Param::Int(within.now().as_millisecond()),
        ];
        let rows = tx.query(sql, &params)?;
        let Some(row) = rows.first() else { return Err(CreateError::Taken(cmd.slug.clone())) };
        let id = AudienceId::from(row.int(0)?);
        let made = load_by_id(tx, &within, id)?.ok_or(DatabaseError::NoRow)?;
        let change = Change::new("audience.create", "audience", &cmd.slug).after(told(&made));
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
) -> Result<Page<Audience, Slug>, DatabaseError> {
    let workspace = cx.workspace_id();
    let list = cx.database().read(move |tx| {
        let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug > $2 ORDER BY slug LIMIT $3");
        let after = after.as_ref().map_or("", Slug::as_str);
        let params = [Param::Int(workspace.get()), Param::Text(after), Param::Int(limit.and_one())];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |audience: &Audience| audience.slug.clone()))
    });
    list.await
}

pub async fn find(cx: &Cx, slug: Slug) -> Result<Audience, FindError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within, &slug)).await
}

/// Changes what is given. Whoever is subscribed stays so; where a confirmation is required from now on, those who
/// never gave one are not written to.
pub async fn update(cx: &Cx, cmd: Update) -> Result<Audience, FindError> {
    let sql = "UPDATE audiences
               SET name = $3, double_opt_in = $4, confirm_template_key = $5, updated_at = $6
               WHERE workspace_id = $1 AND slug = $2";
    let within = cx.clone();
    let update = cx.database().write(move |tx| {
        let before = load(tx, &within, &cmd.slug)?;
        let mut after = before.clone();
        if let Some(name) = &cmd.name {
            after.name = name.clone();
        }
        if let Some(double_opt_in) = cmd.double_opt_in {
            after.double_opt_in = double_opt_in;
        }
        if let Some(key) = &cmd.confirm_template_key {
            after.confirm_template_key = key.clone();
        }
        if after == before {
            return Ok(before);
        }
        after.updated_at = within.now();
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(cmd.slug.as_str()),
            Param::Text(after.name.as_str()),
            Param::Int(after.double_opt_in.into()),
            text(after.confirm_template_key.as_ref().map(Line::as_str)),
            Param::Int(within.now().as_millisecond()),
        ];
        tx.execute(sql, &params)?;
        let change = Change::new("audience.update", "audience", &cmd.slug)
            .between(told(&before), told(&after));
        within.record_change(tx, &change)?;
        Ok(after)
    });
    update.await
}

/// As the audit log has it.
fn told(audience: &Audience) -> Value {
    json!({
        "name": audience.name.as_str(),
        "double_opt_in": audience.double_opt_in,
        "confirm_template_key": audience.confirm_template_key.as_ref().map(Line::as_str),
    })
}

const SELECT: &str =
    "SELECT id, slug, name, double_opt_in, confirm_template_key, created_at, updated_at
                      FROM audiences";

fn load(tx: &mut Tx<'_>, cx: &Cx, slug: &Slug) -> Result<Audience, FindError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug = $2");
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(slug.as_str())];
    let rows = tx.query(&sql, &params)?;
    let row = rows.first().ok_or_else(|| FindError::Missing(slug.clone()))?;
    Ok(read(row)?)
}

pub(super) fn load_by_id(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: AudienceId,
) -> Result<Option<Audience>, DatabaseError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND id = $2");
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(id.get())];
    tx.query(&sql, &params)?.first().map(read).transpose()
}

fn read(row: &Row) -> Result<Audience, DatabaseError> {
    let template = match row.optional_text(4)? {
        Some(_) => Some(row.parsed(4, "the key of a template")?),
        None => None,
    };
    Ok(Audience {
        id: AudienceId::from(row.int(0)?),
        slug: row.parsed(1, "a slug")?,
        name: row.parsed(2, "a display name")?,
        double_opt_in: row.int(3)? == 1,
        confirm_template_key: template,
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
    })
}
