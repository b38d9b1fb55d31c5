//! Reading the audit log, from the newest entry back.
//!
//! Every question is answered from an index: one filter chooses it, and what else is asked is looked for among at most
//! `WALK` entries of it. A page that stops there says where to go on, though it may have found little.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::Value;
use tidings_sql::{Database, DatabaseError, Param, Row, Tx};

use crate::access::{Access, Cx};
use crate::page::{Limit, Page};
use crate::rows::WorkspaceId;

/// An entry as it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub id: i64,
    pub actor: String,
    pub action: String,
    pub target_type: String,
    pub target_id: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub happened_at: Timestamp,
}

/// What is looked for. What is not said is not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub actor: Option<String>,
    /// An area, `campaign`, or one action of it, `campaign.start`.
    pub action: Option<String>,
    pub target_type: Option<String>,
    pub target_id: Option<String>,
    pub since: Option<Timestamp>,
    /// Entries before this time, not at it.
    pub until: Option<Timestamp>,
}

/// Where an entry stands: by its time, and among those of one time by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    millis: i64,
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a position in the audit log")]
pub struct PositionError;

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.id)
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (millis, id) = text.split_once('-').ok_or(PositionError)?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if plain { text.parse().map_err(|_| PositionError) } else { Err(PositionError) }
        };
        Ok(Self { millis: number(millis)?, id: number(id)? })
    }
}

/// So many entries are looked through for one page.
const WALK: i64 = 2_000;
const COLUMNS: &str =
    "id, actor, action, target_type, target_id, state_before, state_after, happened_at";
/// As in the index.
const AREA: &str = "rtrim(action, 'abcdefghijklmnopqrstuvwxyz_')";

/// What was changed in a workspace.
pub async fn list(
    cx: &Cx,
    filter: Filter,
    after: Option<Position>,
    limit: Limit,
) -> Result<Page<Listed, Position>, DatabaseError> {
    find(&cx.database, Some(cx.workspace), filter, (after, limit)).await
}

/// What was changed in the installation as a whole.
pub async fn list_of_installation(
    access: &Access,
    filter: Filter,
    after: Option<Position>,
    limit: Limit,
) -> Result<Page<Listed, Position>, DatabaseError> {
    find(&access.database, None, filter, (after, limit)).await
}

/// Conditions over columns and the texts that they compare with.
#[derive(Default)]
struct Conditions {
    /// What the index is entered by, and what is looked for there.
    within: Vec<(String, String)>,
    besides: Vec<(String, String)>,
}

impl Conditions {
    /// The filter that leaves the fewest entries is the one to look by.
    fn of(filter: &Filter) -> Self {
        let mut these = Self::default();
        let target = (filter.target_type.as_ref(), filter.target_id.as_ref());
        if let (Some(kind), Some(id)) = target {
            these.within.push(("target_type".to_owned(), kind.clone()));
            these.within.push(("target_id".to_owned(), id.clone()));
        }
        if let Some(actor) = &filter.actor {
            these.add("actor", actor.clone());
        }
        match filter.action.as_deref().map(|action| action.trim_end_matches('.')) {
            Some(action) if action.contains('.') => these.add("action", action.to_owned()),
            Some(area) => these.add(AREA, format!("{area}.")),
            None => {}
        }
        match target {
            (Some(kind), None) => these.besides.push(("target_type".to_owned(), kind.clone())),
            (None, Some(id)) => these.besides.push(("target_id".to_owned(), id.clone())),
            _ => {}
        }
        these
    }

    fn add(&mut self, column: &str, value: String) {
        let place = if self.within.is_empty() { &mut self.within } else { &mut self.besides };
        place.push((column.to_owned(), value));
    }
}

async fn find(
    database: &Database,
    workspace: Option<WorkspaceId>,
    filter: Filter,
    (after, limit): (Option<Position>, Limit),
) -> Result<Page<Listed, Position>, DatabaseError> {
    let conditions = Conditions::of(&filter);
    let mut given = Vec::new();
    if let Some(id) = workspace {
        given.push(Given::Int(id.get()));
    }
    let mut inner = match workspace {
        Some(_) => "workspace_id = $1".to_owned(),
        None => "workspace_id IS NULL".to_owned(),
    };
    for (column, value) in &conditions.within {
        given.push(Given::Text(value.clone()));
        inner += &format!(" AND {column} = ${}", given.len());
    }
    if let Some(position) = after {
        given.push(Given::Int(position.millis));
        given.push(Given::Int(position.id));
        inner += &format!(" AND (happened_at, id) < (${}, ${})", given.len() - 1, given.len());
    }
    for (sign, at) in [(">=", filter.since), ("<", filter.until)] {
        let Some(at) = at else { continue };
        given.push(Given::Int(at.as_millisecond()));
        inner += &format!(" AND happened_at {sign} ${}", given.len());
    }
    database.read(move |tx| page(tx, &inner, &given, (&conditions, limit))).await
}

/// A parameter that outlives the question.
enum Given {
    Int(i64),
    Text(String),
}

impl Given {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Int(number) => Param::Int(*number),
            Self::Text(text) => Param::Text(text),
        }
    }
}

fn page(
    tx: &mut Tx<'_>,
    inner: &str,
    given: &[Given],
    (conditions, limit): (&Conditions, Limit),
) -> Result<Page<Listed, Position>, DatabaseError> {
    const ORDER: &str = "ORDER BY happened_at DESC, id DESC";
    let mut params: Vec<_> = given.iter().map(Given::param).collect();
    let walks = !conditions.besides.is_empty();
    let mut besides = String::new();
    for (column, value) in &conditions.besides {
        params.push(Param::Text(value));
        besides += if besides.is_empty() { "WHERE " } else { " AND " };
        besides += &format!("{column} = ${}", params.len());
    }
    let many = if walks { WALK } else { limit.and_one() };
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT {COLUMNS} FROM audit_log WHERE {inner} {ORDER} LIMIT {many}) AS walked
         {besides} {ORDER} LIMIT {}",
        limit.and_one()
    );
    let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut page = Page::cut(found, limit, Listed::position);
    if walks && page.next.is_none() {
        let sql = format!(
            "SELECT happened_at, id FROM audit_log WHERE {inner} {ORDER} LIMIT 1 OFFSET {}",
            WALK - 1
        );
        let rows = tx.query(&sql, &params[..given.len()])?;
        if let Some(row) = rows.first() {
            page.next = Some(Position { millis: row.int(0)?, id: row.int(1)? });
        }
    }
    Ok(page)
}

impl Listed {
    pub fn position(&self) -> Position {
        Position { millis: self.happened_at.as_millisecond(), id: self.id }
    }
}

fn read(row: &Row) -> Result<Listed, DatabaseError> {
    let state = |column| -> Result<Option<Value>, DatabaseError> {
        let text = row.optional_text(column)?;
        let read = text.map(serde_json::from_str).transpose();
        read.map_err(|_| DatabaseError::damaged(column, "a state"))
    };
    Ok(Listed {
        id: row.int(0)?,
        actor: row.text(1)?.to_owned(),
        action: row.text(2)?.to_owned(),
        target_type: row.text(3)?.to_owned(),
        target_id: row.text(4)?.to_owned(),
        before: state(5)?,
        after: state(6)?,
        happened_at: row.time(7)?,
    })
}
