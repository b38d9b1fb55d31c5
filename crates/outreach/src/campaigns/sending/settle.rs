//! What nobody knows of recipients: who they are, and what a person can say of them.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, Limit, Page};
use tidings_delivery::ledger::marks::log_recipient;
use tidings_delivery::ledger::news::{About, News, announcement};
use tidings_delivery::ledger::{Source, tallies};
use tidings_sql::{DatabaseError, Param, Row, Tx};
use tidings_webhooks::announce;

use crate::campaigns::{CampaignId, RecipientId, key_of};

/// The most characters of a reason.
pub const MAX_REASON: usize = 500;

/// What a person found out about a recipient that nobody knew about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    pub recipient: RecipientId,
    pub outcome: Settled,
    /// How it is known. Up to 500 characters.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Sent,
    /// It was not sent. He can be tried again, like all who failed.
    NotSent,
}

#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    #[error("there is no recipient {0}")]
    Missing(RecipientId),
    #[error("recipient {id} is {status}, and only an uncertain one can be settled")]
    NotUncertain { id: RecipientId, status: String },
    #[error("a reason has at most {MAX_REASON} characters, and no control characters")]
    Reason,
    #[error("the recipient could not be settled")]
    Store(#[from] DatabaseError),
}

/// Somebody to whom a message was handed over without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncertain {
    pub id: RecipientId,
    pub campaign: CampaignId,
    pub contact: i64,
    /// `None` once the person is erased.
    pub email: Option<String>,
    pub handed_at: Option<Timestamp>,
    pub provider: Option<String>,
    pub last_error: Option<String>,
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncertainList {
    pub campaign: CampaignId,
    /// The last one of the page before.
    pub after: Option<RecipientId>,
    pub limit: Limit,
}

/// Those of a campaign that were handed over without an answer, the oldest first. What a crash has left behind counts
/// from the moment its claim is over, whether or not a worker has come by since.
pub async fn uncertain(
    cx: &Cx,
    list: UncertainList,
) -> Result<Page<Uncertain, RecipientId>, DatabaseError> {
    let (workspace, now) = (cx.workspace_id().get(), cx.now());
    let find = cx.database().read(move |tx| {
        let columns = "SELECT id, campaign_id, lead_id, email, handed_at, provider, last_error FROM campaign_recipients
                       WHERE workspace_id = $1 AND campaign_id = $2 AND id > $3";
        let params = [
            Param::Int(workspace),
            Param::Int(list.campaign.get()),
            Param::Int(list.after.map_or(0, RecipientId::get)),
            Param::Int(list.limit.and_one()),
        ];
        let known = format!("{columns} AND status = 'uncertain' ORDER BY id LIMIT $4");
        let mut rows = tx.query(&known, &params)?;
        let left = format!(
            "{columns} AND status = 'claimed' AND claimed_until <= $5 AND handed_at IS NOT NULL ORDER BY id LIMIT $4"
        );
        let params = [&params[..], &[Param::from(now)]].concat();
        rows.extend(tx.query(&left, &params)?);
        let mut found = rows.iter().map(read).collect::<Result<Vec<_>, DatabaseError>>()?;
        found.sort_by_key(|one| one.id);
        Ok(Page::cut(found, list.limit, |one: &Uncertain| one.id))
    });
    find.await
}

fn read(row: &Row) -> Result<Uncertain, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(ToOwned::to_owned));
    Ok(Uncertain {
        id: row.int(0)?.into(),
        campaign: row.int(1)?.into(),
        contact: row.int(2)?,
        email: text(3)?,
        handed_at: row.optional_time(4)?,
        provider: text(5)?,
        last_error: text(6)?,
    })
}

/// Says what became of a recipient that nobody knew about. If he was sent to, the send log will say so; the campaign's
/// tallies are right at once.
pub async fn settle(cx: &Cx, cmd: Settle) -> Result<(), SettleError> {
    if cmd.reason.as_ref().is_some_and(|reason| {
        reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control)
    }) {
        return Err(SettleError::Reason);
    }
    let within = cx.clone();
    cx.database().write_committed(move |tx| settle_in(tx, &within, &cmd)).await
}

fn settle_in(tx: &mut Tx<'_>, cx: &Cx, cmd: &Settle) -> Result<(), SettleError> {
    let (workspace, id) = (cx.workspace_id().get(), cmd.recipient);
    let Some(tallied) = mark(tx, cx, cmd)? else {
        let sql = "SELECT status FROM campaign_recipients WHERE workspace_id = $1 AND id = $2";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(id.get())])?;
        let row = rows.first().ok_or(SettleError::Missing(id))?;
        return Err(SettleError::NotUncertain { id, status: row.text(0)?.to_owned() });
    };
    let (action, news, status) = match cmd.outcome {
        Settled::Sent => ("recipient.settle_sent", News::Sent, "sent"),
        Settled::NotSent => ("recipient.settle_not_sent", News::Failed, "failed"),
    };
    let change = Change::new(action, "recipient", id)
        .between(json!({ "status": "uncertain" }), json!({ "status": status }));
    cx.record_change(tx, &change)?;
    if cmd.outcome == Settled::Sent {
        // The worker finds that it was sent, and sees that the send log says so.
        log_recipient(tx, workspace, id.get(), cx.now())?;
    }
    if tallied {
        tallies::correct(tx, workspace, id.get())?;
    }
    Ok(tell(tx, cx, id, &news)?)
}

/// `None` if nobody is uncertain about him; else whether he was counted before.
fn mark(tx: &mut Tx<'_>, cx: &Cx, cmd: &Settle) -> Result<Option<bool>, DatabaseError> {
    let changes = match cmd.outcome {
        Settled::Sent => "status = 'sent', sent_at = COALESCE(sent_at, handed_at, $3)",
        Settled::NotSent => "status = 'failed', fail_reason = 'not_sent'",
    };
    let sql = format!(
        "UPDATE campaign_recipients
         SET {changes}, last_error = COALESCE($4, last_error), updated_at = $3, claimed_by = NULL, claimed_until = NULL
         WHERE workspace_id = $1 AND id = $2 AND (status = 'uncertain'
               OR (status = 'claimed' AND claimed_until <= $3 AND handed_at IS NOT NULL))
         RETURNING tallied"
    );
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(cmd.recipient.get()),
        Param::from(cx.now()),
        cmd.reason.as_deref().into(),
    ];
    let rows = tx.query(&sql, &params)?;
    rows.first().map(|row| Ok(row.optional_text(0)?.is_some())).transpose()
}

fn tell(tx: &mut Tx<'_>, cx: &Cx, id: RecipientId, news: &News<'_>) -> Result<(), DatabaseError> {
    let sql = "SELECT c.id, c.external_key, c.client_id, r.lead_id, r.email, c.template_key FROM campaign_recipients r
               JOIN campaigns c ON c.workspace_id = r.workspace_id AND c.id = r.campaign_id
               WHERE r.workspace_id = $1 AND r.id = $2";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])?;
    let row = rows.first().ok_or(DatabaseError::NoRow)?;
    let campaign = CampaignId::from(row.int(0)?);
    let key = key_of(campaign, row.optional_text(1)?);
    let about = About {
        source: Source::Recipient(id.get()),
        client: row.int(2)?,
        contact: row.int(3)?,
        email: row.optional_text(4)?,
        template_key: row.optional_text(5)?,
        campaign: Some((campaign.get(), &key)),
        sequence: None,
    };
    announce(cx, tx, &announcement(&about, news, cx.now()))
}
