//! Capture: mail that is not sent but kept to look at. It is what a new installation sends with.
//!
//! Here: the sender, and looking at what it kept. Of each workspace the newest ten thousand messages are kept.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_access::{Change, Cx, Limit, Page, row_ids};
use tidings_kernel::{Accepted, Clock, Mail, SendError, Sender};
use tidings_mail::inbound;
use tidings_sql::{Cell, Database, DatabaseError, Param, Row, Tx};

/// How many are kept of each workspace.
pub const KEPT: i64 = 10_000;
/// After how many the surplus is looked for; so many more than `KEPT` can be there for a while, from each node.
const TRIM_EVERY: u32 = 64;

row_ids! {
    CapturedId
}

/// A message that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub id: CapturedId,
    /// The envelope's sender.
    pub from: String,
    /// Everybody in the envelope.
    pub to: Vec<String>,
    pub subject: Option<String>,
    pub tags: Map<String, Value>,
    pub bytes: i64,
    pub created_at: Timestamp,
}

/// The same with what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub captured: Captured,
    pub text: Option<String>,
    pub html: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no captured mail {0}")]
    Missing(CapturedId),
    #[error("the captured mail could not be reached")]
    Store(#[from] DatabaseError),
}

/// Takes mail and keeps it. The tag `workspace` says whose it is.
pub struct Capture {
    database: Database,
    clock: Arc<dyn Clock>,
    /// Of each workspace, how many came since the surplus was looked for.
    since_trim: Mutex<HashMap<Option<i64>, u32>>,
}

impl Capture {
    pub fn new(database: Database, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock, since_trim: Mutex::default() }
    }

    /// At the first message and then now and then.
    fn is_time_to_trim(&self, workspace: Option<i64>) -> bool {
        let mut counts = self.since_trim.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(workspace).or_insert(0);
        let now = *count == 0;
        *count = (*count + 1) % TRIM_EVERY;
        now
    }
}

#[async_trait]
impl Sender for Capture {
    fn name(&self) -> &'static str {
        "capture"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let tag = mail.tags.iter().find(|(name, _)| *name == "workspace");
        let workspace = tag.and_then(|(_, id)| id.parse::<i64>().ok());
        let trim = self.is_time_to_trim(workspace);
        let now = self.clock.now();
        let mail = mail.clone();
        let keep = self.database.write_committed(move |tx| {
            let id = insert(tx, workspace, &mail, now)?;
            if trim {
                drop_surplus(tx, workspace)?;
            }
            Ok::<_, DatabaseError>(id)
        });
        match keep.await {
            Ok(id) => Ok(Accepted::by_all(Some(format!("captured-{id}")))),
            Err(error @ DatabaseError::Uncertain(_)) => {
                Err(SendError::Uncertain(error.to_string()))
            }
            Err(error @ DatabaseError::Constraint(_)) => Err(SendError::Refused(format!(
                "the workspace of the mail does not exist: {error}"
            ))),
            Err(error) => Err(SendError::Later(error.to_string())),
        }
    }
}

/// The newest first; `before` is the last one of the page before.
pub async fn list(
    cx: &Cx,
    before: Option<CapturedId>,
    limit: Limit,
) -> Result<Page<Captured, CapturedId>, DatabaseError> {
    let workspace = cx.workspace_id();
    let list = cx.database().read(move |tx| {
        let sql = format!(
            "{SELECT} FROM captured_mails WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
        );
        let before = before.map_or(i64::MAX, CapturedId::get);
        let params = [Param::Int(workspace.get()), Param::Int(before), Param::Int(limit.and_one())];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |captured: &Captured| captured.id))
    });
    list.await
}

pub async fn find(cx: &Cx, id: CapturedId) -> Result<Opened, FindError> {
    let (captured, mime) = load(cx, id).await?;
    let contents = inbound::contents(&mime);
    Ok(Opened { captured, text: contents.text, html: contents.html })
}

/// The message as it would have gone over the wire.
pub async fn raw(cx: &Cx, id: CapturedId) -> Result<Vec<u8>, FindError> {
    Ok(load(cx, id).await?.1)
}

/// Forgets all of the workspace. Tells how many there were.
pub async fn clear(cx: &Cx) -> Result<u64, DatabaseError> {
    let within = cx.clone();
    let clear = cx.database().write(move |tx| {
        let workspace = Param::Int(within.workspace_id().get());
        let gone =
            tx.execute("DELETE FROM captured_mails WHERE workspace_id = $1", &[workspace])?;
        if gone > 0 {
            let change = Change::new("captured.clear", "workspace", within.workspace())
                .before(json!({ "mails": gone }));
            within.record_change(tx, &change)?;
        }
        Ok(gone)
    });
    clear.await
}

const SELECT: &str = "SELECT id, mail_from, rcpt_to, subject, tags, length(mime), created_at";

fn insert(
    tx: &mut Tx<'_>,
    workspace: Option<i64>,
    mail: &Mail,
    now: Timestamp,
) -> Result<i64, DatabaseError> {
    let sql = "INSERT INTO captured_mails
                   (workspace_id, mail_from, rcpt_to, subject, mime, tags, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";
    let to: Vec<Value> = mail.to.iter().map(|to| Value::from(to.as_str())).collect();
    let tags: Map<String, Value> =
        mail.tags.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
    // PostgreSQL takes no NUL in a text, and mail from outside may have one.
    let subject = inbound::subject(&mail.mime).map(|subject| subject.replace('\0', ""));
    let params = [
        workspace.map_or(Param::Null, Param::Int),
        Param::Text(mail.from.as_str()),
        Param::Text(&Value::from(to).to_string()),
        subject.as_deref().map_or(Param::Null, Param::Text),
        Param::Bytes(&mail.mime),
        Param::Text(&Value::from(tags).to_string()),
        Param::Int(now.as_millisecond()),
    ];
    tx.query(sql, &params)?.first().ok_or(DatabaseError::NoRow)?.int(0)
}

/// All but the newest. Two that do it at once delete the same rows.
fn drop_surplus(tx: &mut Tx<'_>, workspace: Option<i64>) -> Result<(), DatabaseError> {
    let (whose, params) = match &workspace {
        Some(id) => ("workspace_id = $2", vec![Param::Int(KEPT), Param::Int(*id)]),
        None => ("workspace_id IS NULL", vec![Param::Int(KEPT)]),
    };
    let sql = format!(
        "DELETE FROM captured_mails WHERE {whose} AND id <=
             (SELECT id FROM captured_mails WHERE {whose} ORDER BY id DESC LIMIT 1 OFFSET $1)"
    );
    tx.execute(&sql, &params)?;
    Ok(())
}

async fn load(cx: &Cx, id: CapturedId) -> Result<(Captured, Vec<u8>), FindError> {
    let workspace = cx.workspace_id();
    let load = cx.database().read(move |tx| {
        let sql = format!("{SELECT}, mime FROM captured_mails WHERE workspace_id = $1 AND id = $2");
        let rows = tx.query(&sql, &[Param::Int(workspace.get()), Param::Int(id.get())])?;
        let row = rows.first().ok_or(FindError::Missing(id))?;
        let mime = match row.cell(7) {
            Cell::Bytes(bytes) => bytes.clone(),
            _ => return Err(DatabaseError::damaged(7, "bytes").into()),
        };
        Ok((read(row)?, mime))
    });
    load.await
}

fn read(row: &Row) -> Result<Captured, DatabaseError> {
    Ok(Captured {
        id: CapturedId::from(row.int(0)?),
        from: row.text(1)?.to_owned(),
        to: serde_json::from_str(row.text(2)?)
            .map_err(|_| DatabaseError::damaged(2, "a list of addresses"))?,
        subject: row.optional_text(3)?.map(str::to_owned),
        tags: serde_json::from_str(row.text(4)?).map_err(|_| DatabaseError::damaged(4, "tags"))?,
        bytes: row.int(5)?,
        created_at: row.time(6)?,
    })
}
