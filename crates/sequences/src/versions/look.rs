//! Looking at sequences and their versions, and at which of them an event matters to.

use jiff::Timestamp;
use serde_json::Value;
use tidings_access::{ClientId, Cx, Limit, Page, Slug};
use tidings_sql::{DatabaseError, Param, Row};

use super::{Sequence, Status};

/// Which sequences are wanted. A client sees its own.
#[derive(Debug, Clone, Default)]
pub struct List {
    pub client: Option<ClientId>,
    pub status: Option<Status>,
    pub after: Option<Slug>,
    pub limit: Limit,
}

/// A sequence with its active version.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub sequence: Sequence,
    /// As it is kept: the form of `definition::to_json`.
    pub definition: Value,
    /// Of the definition.
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSummary {
    pub version: i64,
    pub hash: String,
    pub created_by: String,
    pub created_at: Timestamp,
}

/// What an event is to a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Trigger,
    /// It sends a mail by itself.
    Event,
    Exit,
    Wait,
}

/// A sequence that an event matters to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) sequence: String,
    pub(crate) role: Role,
    pub(crate) status: Status,
}

const SELECT: &str = "SELECT s.slug, s.name, s.client_id, c.slug, s.transactional, s.active_version, s.status, s.created_at,
        s.updated_at,
        (SELECT MIN(l.event_name) FROM sequence_listens l WHERE l.sequence_id = s.id AND l.role = 'trigger')";
const FROM: &str = "FROM sequences s JOIN clients c ON c.id = s.client_id";

/// In the order of what they are called.
pub async fn list(cx: &Cx, cmd: List) -> Result<Page<Sequence, Slug>, DatabaseError> {
    let (workspace, limit) = (cx.workspace_id().get(), cmd.limit);
    let read = cx.database().read(move |tx| {
        let client = cmd.client.map(|client| format!(" AND s.client_id = {client}"));
        let status = cmd.status.map(|status| format!(" AND s.status = '{status}'"));
        let sql = format!(
            "{SELECT} {FROM} WHERE s.workspace_id = $1 AND s.slug > $2{}{} ORDER BY s.slug LIMIT $3",
            client.unwrap_or_default(),
            status.unwrap_or_default()
        );
        let after = cmd.after.as_ref().map_or("", Slug::as_str);
        let params =
            [Param::Int(workspace), Param::Text(after), Param::Int(cmd.limit.and_one())];
        let rows = tx.query(&sql, &params)?;
        let read = |row: &Row| Ok((sequence(row)?, row.parsed::<Slug>(0, "a slug")?));
        rows.iter().map(read).collect::<Result<Vec<_>, DatabaseError>>()
    });
    let page = Page::cut(read.await?, limit, |(_, slug)| slug.clone());
    Ok(Page { items: page.items.into_iter().map(|(one, _)| one).collect(), next: page.next })
}

/// A sequence with what it is now. `None` if there is none of this name.
pub async fn show(cx: &Cx, id: &str) -> Result<Option<Shown>, DatabaseError> {
    let (workspace, slug) = (cx.workspace_id().get(), id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = format!(
            "{SELECT}, CAST(v.definition AS TEXT), v.hash {FROM}
             JOIN sequence_versions v ON v.sequence_id = s.id AND v.version = s.active_version
             WHERE s.workspace_id = $1 AND s.slug = $2"
        );
        let rows = tx.query(&sql, &[Param::Int(workspace), Param::Text(&slug)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let shown = Shown {
            sequence: sequence(row)?,
            definition: definition(row, 10)?,
            hash: row.text(11)?.to_owned(),
        };
        Ok::<_, DatabaseError>(Some(shown))
    });
    read.await
}

pub(super) async fn find(cx: &Cx, id: &str) -> Result<Option<Sequence>, DatabaseError> {
    let (workspace, slug) = (cx.workspace_id().get(), id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = format!("{SELECT} {FROM} WHERE s.workspace_id = $1 AND s.slug = $2");
        let rows = tx.query(&sql, &[Param::Int(workspace), Param::Text(&slug)])?;
        rows.first().map(sequence).transpose()
    });
    read.await
}

/// The newest first. Empty if there is no such sequence.
pub async fn versions(
    cx: &Cx,
    id: &str,
    before: Option<i64>,
    limit: Limit,
) -> Result<Page<VersionSummary, i64>, DatabaseError> {
    let (workspace, slug) = (cx.workspace_id().get(), id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT v.version, v.hash, v.created_by, v.created_at
                   FROM sequence_versions v JOIN sequences s ON s.id = v.sequence_id
                   WHERE s.workspace_id = $1 AND s.slug = $2 AND v.version < $3
                   ORDER BY v.version DESC LIMIT $4";
        let before = before.unwrap_or(i64::MAX);
        let params = [
            Param::Int(workspace),
            Param::Text(&slug),
            Param::Int(before),
            Param::Int(limit.and_one()),
        ];
        let read = |row: &Row| {
            Ok(VersionSummary {
                version: row.int(0)?,
                hash: row.text(1)?.to_owned(),
                created_by: row.text(2)?.to_owned(),
                created_at: row.time(3)?,
            })
        };
        tx.query(sql, &params)?.iter().map(read).collect::<Result<Vec<_>, DatabaseError>>()
    });
    Ok(Page::cut(read.await?, limit, |version| version.version))
}

/// What a version is. `None` if there is no such sequence or version.
pub async fn definition_of(
    cx: &Cx,
    id: &str,
    version: i64,
) -> Result<Option<Value>, DatabaseError> {
    let (workspace, slug) = (cx.workspace_id().get(), id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT CAST(v.definition AS TEXT)
                   FROM sequence_versions v JOIN sequences s ON s.id = v.sequence_id
                   WHERE s.workspace_id = $1 AND s.slug = $2 AND v.version = $3";
        let params = [Param::Int(workspace), Param::Text(&slug), Param::Int(version)];
        tx.query(sql, &params)?.first().map(|row| definition(row, 0)).transpose()
    });
    read.await
}

/// The number of the newest version.
pub(super) async fn last_version(cx: &Cx, id: &str) -> Result<i64, DatabaseError> {
    let newest = versions(cx, id, None, Limit::default()).await?;
    Ok(newest.items.first().map_or(0, |version| version.version))
}

/// Whom an event matters to.
pub(crate) async fn listeners(cx: &Cx, event: &str) -> Result<Vec<Listener>, DatabaseError> {
    let (workspace, event) = (cx.workspace_id().get(), event.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT s.slug, l.role, s.status FROM sequence_listens l JOIN sequences s ON s.id = l.sequence_id
                   WHERE l.workspace_id = $1 AND l.event_name = $2 ORDER BY s.slug, l.role";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&event)])?;
        let read = |row: &Row| {
            Ok(Listener {
                sequence: row.text(0)?.to_owned(),
                role: row.parsed(1, "a role")?,
                status: row.parsed(2, "a status")?,
            })
        };
        rows.iter().map(read).collect::<Result<Vec<_>, DatabaseError>>()
    });
    read.await
}

fn sequence(row: &Row) -> Result<Sequence, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(str::to_owned));
    Ok(Sequence {
        id: row.text(0)?.to_owned(),
        name: text(1)?,
        client: row.int(2)?.into(),
        client_slug: row.text(3)?.to_owned(),
        transactional: row.int(4)? == 1,
        version: row.int(5)?,
        status: row.parsed(6, "a status")?,
        created_at: row.time(7)?,
        updated_at: row.time(8)?,
        trigger: text(9)?,
    })
}

fn definition(row: &Row, column: usize) -> Result<Value, DatabaseError> {
    serde_json::from_str(row.text(column)?).map_err(|_| DatabaseError::Column {
        column,
        found: "other JSON",
        expected: "a definition of a sequence",
    })
}

impl Role {
    const ALL: [Self; 4] = [Self::Trigger, Self::Event, Self::Exit, Self::Wait];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Event => "event",
            Self::Exit => "exit",
            Self::Wait => "wait",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or("there is no such role")
    }
}
