//! The rows of `campaigns` and `campaign_moves`, and the statements on them.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tidings_access::{Actor, ClientId, Cx};
use tidings_jobs::contracts::{CampaignStep, Contract as _};
use tidings_kernel::{Outgoing, Timer, TimerChange, queues};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::life::{Command, Move, State, decide};
use super::pace::{Limits, Pace};
use super::{
    Campaign, CampaignId, Content, Metric, MoveId, Progress, Schedule, Sender, Status, Template,
    Test, Times, Tracking, Variant, key_of, news,
};

/// What can be said of a campaign before it starts, as its columns have it.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    pub(super) client: ClientId,
    pub(super) key: Option<String>,
    pub(super) hash: String,
    pub(super) name: String,
    pub(super) audience: Option<i64>,
    pub(super) topic: Option<i64>,
    pub(super) filter: Value,
    pub(super) sender: Option<String>,
    pub(super) content: Content,
    pub(super) variants: Vec<Variant>,
    pub(super) test: Option<Test>,
    pub(super) tracking: Tracking,
    pub(super) metadata: Value,
    pub(super) schedule: Option<Schedule>,
    pub(super) rate_per_hour: Option<i64>,
    pub(super) warmup: Vec<i64>,
}

const COLUMNS: &str = "client_id, external_key, request_hash, name, audience_id, topic_id, filter, sender_slug,
    template_key, template_version, subject, preview_text, html_body, text_body, variants, test_percent, winner_metric,
    winner_wait_ms, tracking, metadata, scheduled_at, local_time, rate_per_hour, warmup";

impl Fields {
    /// Owned texts that the parameters point into.
    fn texts(&self) -> Texts {
        Texts {
            filter: self.filter.to_string(),
            variants: json_of(&self.variants),
            metadata: self.metadata.to_string(),
            warmup: json_of(&self.warmup),
            local: match self.schedule {
                Some(Schedule::Local(local)) => Some(local.to_string()),
                _ => None,
            },
        }
    }

    /// In the order of `COLUMNS`.
    fn params<'a>(&'a self, texts: &'a Texts) -> Vec<Param<'a>> {
        fn text(text: Option<&String>) -> Param<'_> {
            text.map(String::as_str).into()
        }
        let (content, test) = (&self.content, self.test);
        let template = content.template.as_ref();
        vec![
            Param::Int(self.client.get()),
            text(self.key.as_ref()),
            Param::Text(&self.hash),
            Param::Text(&self.name),
            self.audience.into(),
            self.topic.into(),
            Param::Text(&texts.filter),
            text(self.sender.as_ref()),
            text(template.map(|template| &template.key)),
            template.and_then(|template| template.version).into(),
            text(content.subject.as_ref()),
            text(content.preview_text.as_ref()),
            text(content.html.as_ref()),
            text(content.text.as_ref()),
            Param::Text(&texts.variants),
            test.map(|test| test.percent).into(),
            test.map(|test| test.metric.as_str()).into(),
            test.map(|test| test.wait_ms).into(),
            Param::Int((self.tracking == Tracking::On).into()),
            Param::Text(&texts.metadata),
            self.schedule.map(Schedule::due).into(),
            text(texts.local.as_ref()),
            self.rate_per_hour.into(),
            Param::Text(&texts.warmup),
        ]
    }
}

struct Texts {
    filter: String,
    variants: String,
    metadata: String,
    warmup: String,
    local: Option<String>,
}

pub(super) fn json_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("texts and numbers have a JSON form")
}

/// Writes a draft down. `None` if its key is taken.
pub(super) fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    fields: &Fields,
) -> Result<Option<CampaignId>, DatabaseError> {
    let texts = fields.texts();
    let mut params = vec![Param::Int(cx.workspace_id().get()), Param::from(cx.now())];
    params.extend(fields.params(&texts));
    let sql = format!(
        "INSERT INTO campaigns (workspace_id, created_at, updated_at, status_at, {COLUMNS})
         VALUES ($1, $2, $2, $2, {})
         ON CONFLICT DO NOTHING RETURNING id",
        numbered(3, params.len())
    );
    let rows = tx.query(&sql, &params)?;
    rows.first().map(|row| row.int(0).map(CampaignId::from)).transpose()
}

/// Puts what can be said in the place of what was said.
pub(super) fn update(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    fields: &Fields,
) -> Result<(), DatabaseError> {
    let texts = fields.texts();
    let mut params =
        vec![Param::Int(cx.workspace_id().get()), Param::Int(id.get()), Param::from(cx.now())];
    params.extend(fields.params(&texts));
    let names = COLUMNS.split(',').map(str::trim);
    let sets: Vec<_> =
        names.enumerate().map(|(place, name)| format!("{name} = ${}", place + 4)).collect();
    let sql = format!(
        "UPDATE campaigns SET updated_at = $3, {} WHERE workspace_id = $1 AND id = $2",
        sets.join(", ")
    );
    tx.execute(&sql, &params).map(drop)
}

fn numbered(first: usize, last: usize) -> String {
    (first..=last).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// All but the bodies. A page of campaigns must not bring megabytes.
const SELECT: &str = "SELECT id, workspace_id, client_id, external_key, name, audience_id, topic_id, CAST(filter AS TEXT),
    sender_slug, from_email, from_name, reply_to, template_key, template_version, subject, preview_text,
    CAST(variants AS TEXT), test_percent, winner_metric, winner_wait_ms, tracking, CAST(metadata AS TEXT), scheduled_at,
    local_time, rate_per_hour, CAST(warmup AS TEXT), status, status_at, pause_reason, paused_in, last_error,
    recipient_count, batch_count, snapshot_cursor, snapshot_done_at, retry_cursor, decide_at, winner,
    created_at, updated_at, started_at, sent_at, request_hash";
/// What can be megabytes, too: it may name ten thousand people.
const FILTER: &str = "CAST(filter AS TEXT)";
/// Where the bodies are, for those who ask for them.
const BODIES: usize = 43;

/// A campaign with its bodies.
pub fn load(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId) -> Result<Option<Campaign>, DatabaseError> {
    let sql = format!(
        "{SELECT}, html_body, text_body FROM campaigns WHERE workspace_id = $1 AND id = $2"
    );
    let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])?;
    rows.first().map(read).transpose()
}

/// The same without its bodies.
pub fn glance(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId) -> Result<Option<Campaign>, DatabaseError> {
    let sql = format!("{SELECT} FROM campaigns WHERE workspace_id = $1 AND id = $2");
    let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])?;
    rows.first().map(read).transpose()
}

/// The campaign that has this key, and the fingerprint of what was asked for.
pub(super) fn by_key(
    tx: &mut Tx<'_>,
    cx: &Cx,
    key: &str,
) -> Result<Option<(CampaignId, ClientId, Option<String>)>, DatabaseError> {
    let sql = "SELECT id, client_id, request_hash FROM campaigns
               WHERE workspace_id = $1 AND external_key = $2";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Text(key)])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let hash = row.optional_text(2)?.map(ToOwned::to_owned);
    Ok(Some((row.int(0)?.into(), row.int(1)?.into(), hash)))
}

/// The newest first, without their bodies and filters.
pub(super) fn list(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (client, status): (Option<ClientId>, Option<Status>),
    (before, limit): (i64, i64),
) -> Result<Vec<Campaign>, DatabaseError> {
    let client = client.map(|client| format!(" AND client_id = {client}")).unwrap_or_default();
    let status = status.map(|status| format!(" AND status = '{status}'")).unwrap_or_default();
    let sql = format!(
        "{} FROM campaigns WHERE workspace_id = $1 AND id < $2{client}{status} ORDER BY id DESC LIMIT $3",
        SELECT.replace(FILTER, "'{}'")
    );
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(before), Param::Int(limit)];
    tx.query(&sql, &params)?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Campaign, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(str::to_owned));
    let status = |column| match row.optional_text(column)? {
        Some(_) => row.parsed(column, "a status").map(Some),
        None => Ok(None),
    };
    let template = match (text(12)?, row.optional_int(13)?) {
        (Some(key), version) => Some(Template { key, version }),
        (None, _) => None,
    };
    let test = match (row.optional_int(17)?, row.optional_int(19)?) {
        (Some(percent), Some(wait_ms)) => {
            Some(Test { percent, metric: row.parsed::<Metric>(18, "a metric")?, wait_ms })
        }
        _ => None,
    };
    let schedule = match (row.optional_text(23)?, row.optional_time(22)?) {
        (Some(_), _) => Some(Schedule::Local(row.parsed(23, "a local time")?)),
        (None, at) => at.map(Schedule::At),
    };
    Ok(Campaign {
        id: row.int(0)?.into(),
        workspace: row.int(1)?,
        client: row.int(2)?.into(),
        external_key: text(3)?,
        name: row.text(4)?.to_owned(),
        audience: row.optional_int(5)?.map(Into::into),
        topic: row.optional_int(6)?.map(Into::into),
        filter: json(row, 7)?,
        sender: Sender {
            slug: text(8)?,
            from_email: text(9)?,
            from_name: text(10)?,
            reply_to: text(11)?,
        },
        content: Content {
            template,
            subject: text(14)?,
            preview_text: text(15)?,
            html: text(BODIES)?,
            text: text(BODIES + 1)?,
        },
        variants: json(row, 16)?,
        test,
        tracking: if row.int(20)? == 1 { Tracking::On } else { Tracking::Off },
        metadata: json(row, 21)?,
        schedule,
        rate_per_hour: row.optional_int(24)?,
        warmup: json(row, 25)?,
        status: row.parsed(26, "a status")?,
        status_at: row.time(27)?,
        pause_reason: text(28)?,
        paused_in: status(29)?,
        last_error: text(30)?,
        progress: Progress {
            recipients: row.int(31)?,
            batches: row.int(32)?,
            snapshot_cursor: text(33)?,
            snapshot_done_at: row.optional_time(34)?,
            retry_cursor: row.optional_int(35)?,
            decide_at: row.optional_time(36)?,
            winner: row.optional_int(37)?,
        },
        times: Times {
            created_at: row.time(38)?,
            updated_at: row.time(39)?,
            scheduled_at: row.optional_time(22)?,
            started_at: row.optional_time(40)?,
            sent_at: row.optional_time(41)?,
        },
        request_hash: text(42)?,
    })
}

fn json<T: for<'a> Deserialize<'a>>(row: &Row, column: usize) -> Result<T, DatabaseError> {
    serde_json::from_str(row.text(column)?).map_err(|_| DatabaseError::Column {
        column,
        found: "other JSON",
        expected: "what this version writes there",
    })
}

/// A campaign whose row nobody else can change before this transaction ends, as far as it decides what happens next.
#[derive(Debug, Clone)]
pub struct Locked {
    pub id: CampaignId,
    pub key: String,
    pub status: Status,
    pub paused_in: Option<Status>,
    pub scheduled_at: Option<Timestamp>,
    pub snapshot_cursor: Option<String>,
    pub snapshot_done: bool,
    pub retry_cursor: Option<i64>,
    pub recipients: i64,
    pub batches: i64,
    pub limits: Limits,
    pub pace: Pace,
    pub has_variants: bool,
    pub winner: Option<i64>,
    pub decide_at: Option<Timestamp>,
    pub winner_wait_ms: Option<i64>,
    /// At what time where he is each gets it, if it goes so.
    pub local_time: Option<String>,
    /// Since when it has its status.
    pub status_at: Timestamp,
    /// When somebody last looked at what of it is to be sent.
    pub looked_at: Option<Timestamp>,
    /// What was asked for: whoever prepared something for another request has to prepare it again.
    pub(super) request_hash: Option<String>,
}

/// Locks a campaign: every other change of it waits for the end of this transaction, and is decided on what it leaves. To
/// be done first in a transaction that changes it.
pub fn lock(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId) -> Result<Option<Locked>, DatabaseError> {
    let sql = "UPDATE campaigns SET updated_at = CASE WHEN updated_at > $3 THEN updated_at ELSE $3 END
               WHERE workspace_id = $1 AND id = $2
               RETURNING external_key, status, paused_in, scheduled_at, snapshot_cursor, snapshot_done_at, retry_cursor,
                   recipient_count, batch_count, rate_per_hour, CAST(warmup AS TEXT), started_at, paced_until_us,
                   warmup_day, warmup_step, warmup_used, CAST(variants AS TEXT), winner, decide_at, winner_wait_ms,
                   request_hash, local_time, status_at, looked_at";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(id.get()), Param::from(cx.now())];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let paused_in = match row.optional_text(2)? {
        Some(_) => Some(row.parsed(2, "a status")?),
        None => None,
    };
    Ok(Some(Locked {
        id,
        key: key_of(id, row.optional_text(0)?),
        status: row.parsed(1, "a status")?,
        paused_in,
        scheduled_at: row.optional_time(3)?,
        snapshot_cursor: row.optional_text(4)?.map(ToOwned::to_owned),
        snapshot_done: row.optional_time(5)?.is_some(),
        retry_cursor: row.optional_int(6)?,
        recipients: row.int(7)?,
        batches: row.int(8)?,
        limits: Limits {
            rate_per_hour: row.optional_int(9)?,
            warmup: json(row, 10)?,
            started_at: row.optional_time(11)?.unwrap_or(cx.now()),
        },
        pace: Pace {
            paced_until: row.optional_int(12)?,
            warmup_day: row.optional_int(13)?,
            warmup_step: row.int(14)?,
            warmup_used: row.int(15)?,
        },
        has_variants: row.text(16)?.contains('{'),
        winner: row.optional_int(17)?,
        decide_at: row.optional_time(18)?,
        winner_wait_ms: row.optional_int(19)?,
        request_hash: row.optional_text(20)?.map(ToOwned::to_owned),
        local_time: row.optional_text(21)?.map(ToOwned::to_owned),
        status_at: row.time(22)?,
        looked_at: row.optional_time(23)?,
    }))
}

impl Locked {
    pub fn state(&self, now: Timestamp) -> State {
        let due = self.scheduled_at.is_none_or(|at| at <= now);
        State { status: self.status, paused_in: self.paused_in, due }
    }

    /// Whether all that can be sent is in batches.
    pub(super) fn is_complete(&self) -> bool {
        self.snapshot_done && self.retry_cursor.is_none()
    }

    /// Writes down how far it is.
    pub(super) fn save(&self, tx: &mut Tx<'_>, cx: &Cx) -> Result<(), DatabaseError> {
        let sql = "UPDATE campaigns SET paced_until_us = $3, warmup_day = $4, warmup_step = $5, warmup_used = $6,
                       batch_count = $7, recipient_count = $8, retry_cursor = $9, winner = $10, decide_at = $11,
                       looked_at = $12
                   WHERE workspace_id = $1 AND id = $2";
        let params = [
            Param::Int(cx.workspace_id().get()),
            Param::Int(self.id.get()),
            self.pace.paced_until.into(),
            self.pace.warmup_day.into(),
            Param::Int(self.pace.warmup_step),
            Param::Int(self.pace.warmup_used),
            Param::Int(self.batches),
            Param::Int(self.recipients),
            self.retry_cursor.into(),
            self.winner.into(),
            self.decide_at.into(),
            self.looked_at.into(),
        ];
        tx.execute(sql, &params).map(drop)
    }
}

/// Makes a move that the rules allow, and tells what it was. Whatever follows from it is the caller's.
pub(super) fn make_move(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    command: Command,
    reason: Option<&str>,
) -> Result<Result<Move, super::life::Illegal>, DatabaseError> {
    let next = match decide(campaign.state(cx.now()), command) {
        Ok(Move::To(next)) => next,
        other => return Ok(other),
    };
    move_to(tx, cx, campaign, next, reason)?;
    Ok(Ok(Move::To(next)))
}

/// Writes a move down: in the row, in the list of moves, and for those who want to be told.
fn move_to(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    next: Status,
    reason: Option<&str>,
) -> Result<(), DatabaseError> {
    let from = campaign.status;
    let waited = campaign.paused_in == Some(Status::Scheduled);
    let paused_in = (next == Status::Paused).then_some(from);
    let sql = "UPDATE campaigns SET status = $3, status_at = $4, updated_at = $4, paused_in = $5,
                   pause_reason = CASE WHEN $3 = 'paused' THEN $6 ELSE NULL END,
                   last_error = CASE WHEN $3 = 'failed' THEN $6 ELSE last_error END,
                   started_at = CASE WHEN $3 = 'snapshotting' THEN COALESCE(started_at, $4) ELSE started_at END,
                   sent_at = CASE WHEN $3 = 'sent' THEN $4 ELSE sent_at END,
                   snapshot_cursor = CASE WHEN $3 IN ('cancelled', 'failed') THEN NULL ELSE snapshot_cursor END
               WHERE workspace_id = $1 AND id = $2";
    let (workspace, id, now) = (cx.workspace_id().get(), campaign.id.get(), cx.now());
    let params = [
        Param::Int(workspace),
        Param::Int(id),
        Param::Text(next.as_str()),
        Param::from(now),
        paused_in.map(Status::as_str).into(),
        reason.into(),
    ];
    tx.execute(sql, &params)?;
    let sql =
        "INSERT INTO campaign_moves (workspace_id, campaign_id, status, reason, actor, happened_at)
               VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
    let actor = cx.actor().to_string();
    let params = [
        Param::Int(workspace),
        Param::Int(id),
        Param::Text(next.as_str()),
        reason.into(),
        Param::Text(&actor),
        Param::from(now),
    ];
    let rows = tx.query(sql, &params)?;
    let moved = news::Moved {
        id: rows.first().ok_or(DatabaseError::NoRow)?.int(0)?,
        campaign: campaign.id,
        key: &campaign.key,
        begins: from.is_editable() || waited,
        to: next,
        reason,
    };
    news::tell(cx, tx, &moved)?;
    if matches!(next, Status::Paused | Status::Cancelled | Status::Sent | Status::Failed) {
        change_timer(tx, cx, &TimerChange::Cancel(timer_key(campaign.id)))?;
    }
    (campaign.status, campaign.paused_in, campaign.status_at) = (next, paused_in, now);
    Ok(())
}

/// What a campaign sends from its start on, whatever becomes of templates and senders.
#[derive(Debug, Clone)]
pub(super) struct Frozen {
    pub(super) template_version: Option<i64>,
    pub(super) variants: Vec<Variant>,
    pub(super) from_email: String,
    pub(super) from_name: Option<String>,
    pub(super) reply_to: Option<String>,
}

pub(super) fn freeze(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    frozen: &Frozen,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaigns SET template_version = $3, variants = $4, from_email = $5, from_name = $6, reply_to = $7
               WHERE workspace_id = $1 AND id = $2";
    let variants = json_of(&frozen.variants);
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        frozen.template_version.into(),
        Param::Text(&variants),
        Param::Text(&frozen.from_email),
        frozen.from_name.as_deref().into(),
        frozen.reply_to.as_deref().into(),
    ];
    tx.execute(sql, &params).map(drop)
}

/// When it is to start.
pub(super) fn set_schedule(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    schedule: Option<Schedule>,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaigns SET scheduled_at = $3, local_time = $4 WHERE workspace_id = $1 AND id = $2";
    let local = match schedule {
        Some(Schedule::Local(local)) => Some(local.to_string()),
        Some(Schedule::At(_)) | None => None,
    };
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id.get()),
        schedule.map(Schedule::due).into(),
        local.as_deref().into(),
    ];
    tx.execute(sql, &params).map(drop)
}

/// A worker will look at it.
pub(super) fn step(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId) -> Result<(), DatabaseError> {
    let message = Outgoing::new(&queues::CAMPAIGN_STEPS, step_body(id)?);
    Ok(tx.enqueue(&message, cx.now())?)
}

/// A worker will look at it then, and not before: of one campaign there is one timer.
pub(super) fn step_at(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    due: Timestamp,
) -> Result<(), DatabaseError> {
    let (key, body) = (timer_key(id), step_body(id)?);
    let timer = Timer { key, due, queue: &queues::CAMPAIGN_STEPS, body };
    change_timer(tx, cx, &TimerChange::Arm(timer))
}

fn change_timer(tx: &mut Tx<'_>, cx: &Cx, change: &TimerChange) -> Result<(), DatabaseError> {
    Ok(tx.change_timer(cx.workspace(), change)?)
}

fn timer_key(id: CampaignId) -> String {
    format!("campaign/{id}")
}

fn step_body(id: CampaignId) -> Result<String, DatabaseError> {
    let body = CampaignStep { campaign_id: id.get() }.to_body();
    body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))
}

/// A change of a campaign's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub id: MoveId,
    pub status: Status,
    pub reason: Option<String>,
    pub actor: String,
    pub at: Timestamp,
}

/// Whether it has ever paused by itself for just this reason. A person can give the same reason, and has not seen for what
/// it would stop.
pub(super) fn has_stopped_for(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    reason: &str,
) -> Result<bool, DatabaseError> {
    let sql = "SELECT id FROM campaign_moves
               WHERE workspace_id = $1 AND campaign_id = $2 AND status = 'paused' AND reason = $3 AND actor = $4 LIMIT 1";
    let by_itself = Actor::Worker.to_string();
    let (workspace, id) = (Param::Int(cx.workspace_id().get()), Param::Int(id.get()));
    let params = [workspace, id, Param::Text(reason), Param::Text(&by_itself)];
    Ok(!tx.query(sql, &params)?.is_empty())
}

/// The moves of a campaign before this one, the latest first, at most so many.
pub(super) fn moves(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    (before, most): (i64, i64),
) -> Result<Vec<Moved>, DatabaseError> {
    let sql = "SELECT id, status, reason, actor, happened_at FROM campaign_moves
               WHERE workspace_id = $1 AND campaign_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4";
    let (workspace, id) = (Param::Int(cx.workspace_id().get()), Param::Int(id.get()));
    let params = [workspace, id, Param::Int(before), Param::Int(most)];
    let read = |row: &Row| {
        Ok(Moved {
            id: row.int(0)?.into(),
            status: row.parsed(1, "a status")?,
            reason: row.optional_text(2)?.map(ToOwned::to_owned),
            actor: row.text(3)?.to_owned(),
            at: row.time(4)?,
        })
    };
    tx.query(sql, &params)?.iter().map(read).collect()
}
