//! The worker of `campaign-steps`: looks at a campaign and does what it has to do next.
//!
//! A message says only which campaign; what there is to do, its row says. So a message can come twice, late or for
//! nothing. Long work is done in pages, each one commit; after some of them the worker lets somebody else go on, with a
//! message in the commit of the last page, so that no lease runs out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, Cx, StorageError};
use tidings_jobs::contracts::CampaignStep;
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::causes;
use tidings_sql::{Among, DatabaseError, Param, Tx};

use super::batches::{self, Finished};
use super::life::Command;
use super::snapshot::{Page, Then};
use super::store::{self, Locked};
use super::tallies::{self, Counts, ENDED};
use super::{
    Campaign, CampaignId, Schedule, Status, brake, broadcast, control, late, lost, snapshot,
    variants,
};

/// How long a step waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How much is done at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// So many people are on a page of the snapshot at most.
    pub(super) people: usize,
    /// So many rows are collected at once to be sent again.
    pub(super) rows: i64,
    /// So many batches of a campaign that was cancelled or has failed are ended at once.
    pub(super) batches: i64,
    /// So many of these a worker does before somebody else may go on.
    pub(super) turns: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { people: 500, rows: 500, batches: 20, turns: 20 }
    }
}

struct Steps {
    access: Access,
    sizes: Sizes,
}

/// Who works on the queue `campaign-steps`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    with(access, Sizes::default())
}

pub(super) fn with(access: Access, sizes: Sizes) -> Arc<dyn Handler> {
    for_contract(Steps { access, sizes })
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There is something to do at once.
    More,
    /// The same, and a message that makes somebody do it is on its way.
    HandedOn,
    Nothing,
}

impl Next {
    /// After a commit that may have such a message in it.
    fn after(then: Then) -> Self {
        match then {
            Then::GoOn => Self::More,
            Then::Yield => Self::HandedOn,
        }
    }
}

#[async_trait]
impl Work<CampaignStep> for Steps {
    async fn work(&self, message: CampaignStep) -> Outcome {
        let id = CampaignId::from(message.campaign_id);
        match self.steps(id).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let reason = format!("campaign {id} could not go on: {}", causes(&error));
                // A store that is away is no fault of the campaign, and uses up none of its tries.
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }

    async fn given_up(&self, message: CampaignStep, reason: &str) {
        let id = CampaignId::from(message.campaign_id);
        let pause = async {
            match self.inside(id).await? {
                Some(cx) => Ok::<_, StorageError>(control::stuck(&cx, id, reason).await?),
                None => Ok(()),
            }
        };
        if let Err(error) = pause.await {
            tracing::error!(campaign.id = %id, error = %causes(&error), "Campaign {id} is stuck, and could not be paused");
        }
    }
}

impl Steps {
    /// The workspace of a campaign. `None` if it was a draft that somebody deleted.
    async fn inside(&self, id: CampaignId) -> Result<Option<Cx>, StorageError> {
        let workspace = self.access.database().read(move |tx| {
            let sql = "SELECT workspace_id FROM campaigns WHERE id = $1";
            tx.query(sql, &[Param::Int(id.get())])?.first().map(|row| row.int(0)).transpose()
        });
        let workspace: Result<Option<i64>, DatabaseError> = workspace.await;
        match workspace? {
            Some(workspace) => Ok(self.access.working_for(workspace).await?),
            None => Ok(None),
        }
    }

    async fn steps(&self, id: CampaignId) -> Result<(), StorageError> {
        let Some(first) = self.inside(id).await? else { return Ok(()) };
        let workspace = first.workspace_id().get();
        let mut ahead = None;
        for turn in 1.. {
            // Each turn has its own time: what is due is decided by it.
            let Some(cx) = self.access.working_for(workspace).await? else { return Ok(()) };
            let within = cx.clone();
            let load = cx.database().read(move |tx| store::glance(tx, &within, id));
            let found: Result<Option<Campaign>, DatabaseError> = load.await;
            let Some(campaign) = found? else { return Ok(()) };
            let then = if turn >= self.sizes.turns { Then::Yield } else { Then::GoOn };
            // Who was overtaken in his last turn has handed nothing on, and so has one more.
            match self.step(&cx, &campaign, &mut ahead, then).await? {
                Next::More => {}
                Next::HandedOn | Next::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    async fn step(
        &self,
        cx: &Cx,
        campaign: &Campaign,
        ahead: &mut Option<snapshot::Read>,
        then: Then,
    ) -> Result<Next, StorageError> {
        match campaign.status {
            Status::Draft | Status::Paused | Status::Sent => Ok(Next::Nothing),
            Status::Scheduled => begin(cx, campaign).await,
            Status::Snapshotting if campaign.progress.snapshot_done_at.is_none() => {
                match snapshot::page(cx, campaign, ahead, (self.sizes.people, then)).await? {
                    Ok(Page::Written | Page::Last) => Ok(Next::after(then)),
                    // Whoever was faster may be a worker that nobody waits for any more, so this one goes on, too.
                    Ok(Page::Overtaken) => Ok(Next::More),
                    Err(why) => fail(cx, campaign, why).await,
                }
            }
            Status::Snapshotting => send(cx, campaign).await,
            Status::Sending => go_on(cx, campaign, (self.sizes.rows, then)).await,
            Status::Cancelled | Status::Failed => {
                end_batches(cx, campaign, (self.sizes.batches, then)).await
            }
        }
    }
}

/// Begins a campaign whose time has come, unless it is too late for that.
async fn begin(cx: &Cx, campaign: &Campaign) -> Result<Next, StorageError> {
    let Some(at) = campaign.times.scheduled_at.filter(|at| *at <= cx.now()) else {
        return put_off(cx, campaign).await;
    };
    let is_late = match campaign.schedule {
        _ if !late::is_late(at, cx.now()) => false,
        // That was the time where a day begins first, and maybe nobody is there.
        Some(Schedule::Local(local)) => late::is_anybody_missed(cx, local).await?,
        Some(Schedule::At(_)) | None => true,
    };
    let frozen = match is_late {
        true => None,
        false => match snapshot::freeze(cx, campaign).await? {
            Ok(frozen) => Some(frozen),
            Err(wrong) => {
                let why: Vec<_> =
                    wrong.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
                return fail(cx, campaign, why.join("; ")).await;
            }
        },
    };
    let (within, campaign) = (cx.clone(), campaign.clone());
    let begin = cx.database().write_committed(move |tx| {
        // If it was changed in the meantime, it is looked at again.
        let locked = control::lock_same(tx, &within, &campaign)?;
        let Some(mut locked) = locked else { return Ok(Next::More) };
        match &frozen {
            Some(frozen) => {
                control::begin(tx, &within, &mut locked, (Command::Start, None), frozen)?;
                // The message that this sends goes on with it.
                Ok::<_, DatabaseError>(Next::Nothing)
            }
            None => {
                let reason = Some(control::MISSED_START);
                store::make_move(tx, &within, &mut locked, Command::Pause, reason)?.ok();
                Ok(Next::Nothing)
            }
        }
    });
    Ok(begin.await?)
}

/// It is too early: it was put off, or the clock of whoever fired the timer is ahead. In the second case there is no timer left.
async fn put_off(cx: &Cx, campaign: &Campaign) -> Result<Next, StorageError> {
    let (within, campaign) = (cx.clone(), campaign.clone());
    let arm = cx.database().write_committed(move |tx| {
        let locked = control::lock_same(tx, &within, &campaign)?;
        let Some(locked) = locked else { return Ok(Next::More) };
        if let Some(at) = locked.scheduled_at {
            store::step_at(tx, &within, locked.id, at)?;
        }
        Ok::<_, DatabaseError>(Next::Nothing)
    });
    Ok(arm.await?)
}

/// All recipients are known: the broadcast is recorded, and sending begins.
async fn send(cx: &Cx, campaign: &Campaign) -> Result<Next, StorageError> {
    let subject = snapshot::subject(cx, campaign).await?;
    broadcast::write(cx, campaign, &subject).await?;
    let (within, id) = (cx.clone(), campaign.id);
    let came = brake::came(cx, &campaign.key()).await?;
    let send = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, id)? else { return Ok(()) };
        if locked.snapshot_done {
            // Whoever was faster has fed the first batches, or somebody has paused or cancelled it.
            store::make_move(tx, &within, &mut locked, Command::Send, None)?.ok();
            batches::feed(tx, &within, &mut locked, &came)?;
        }
        Ok::<_, DatabaseError>(())
    });
    send.await?;
    Ok(Next::Nothing)
}

/// Collects what is to be sent again, decides the winner of a test, and feeds.
async fn go_on(
    cx: &Cx,
    campaign: &Campaign,
    (rows, then): (i64, Then),
) -> Result<Next, StorageError> {
    let (within, id) = (cx.clone(), campaign.id);
    if let Some(cursor) = campaign.progress.retry_cursor {
        let collect = cx.database().write_committed(move |tx| {
            let locked = store::lock(tx, &within, id)?;
            let current = |locked: &Locked| {
                locked.status == Status::Sending && locked.retry_cursor == Some(cursor)
            };
            let Some(mut locked) = locked.filter(current) else { return Ok(Next::More) };
            collect_failed(tx, &within, &mut locked, (cursor, rows))?;
            if then == Then::Yield {
                store::step(tx, &within, id)?;
            }
            Ok::<_, DatabaseError>(Next::after(then))
        });
        return Ok(collect.await?);
    }
    let winner = winner(cx, campaign).await?;
    let came = brake::came(cx, &campaign.key()).await?;
    let feed = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, id)? else { return Ok(()) };
        if let Some(winner) = winner
            && locked.winner.is_none()
            && locked.status == Status::Sending
        {
            locked.winner = Some(winner);
            let sql = "UPDATE campaign_batches SET held = 0
                       WHERE campaign_id = $1 AND held = 1 AND fed_at IS NULL";
            tx.execute(sql, &[Param::Int(id.get())])?;
            locked.save(tx, &within)?;
        }
        if locked.status == Status::Sending {
            lost::found_late(tx, &within, &locked)?;
        }
        batches::feed(tx, &within, &mut locked, &came)
    });
    feed.await?;
    Ok(Next::Nothing)
}

/// The place of the variant that did best, if it is time to say so.
async fn winner(cx: &Cx, campaign: &Campaign) -> Result<Option<i64>, StorageError> {
    let progress = &campaign.progress;
    let (Some(test), None) = (campaign.test, progress.winner) else { return Ok(None) };
    if progress.decide_at.is_none_or(|at| at > cx.now()) {
        return Ok(None);
    }
    let arms = variants::came(cx, campaign).await?;
    Ok(Some(variants::best(test.metric, &arms)))
}

/// Who can be sent to again. Of whoever is erased there is no address.
const FAILED: &str =
    "workspace_id = $1 AND campaign_id = $2 AND status = 'failed' AND id > $3 AND sent_at IS NULL
               AND email IS NOT NULL AND tallied IS NOT NULL";

/// To how many it can be sent again. The tallies have those who were erased since, too.
pub(super) fn count_failed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
) -> Result<i64, DatabaseError> {
    let sql = format!("SELECT count(*) FROM campaign_recipients WHERE {FAILED}");
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(campaign.get()), Param::Int(0)];
    tx.query(&sql, &params)?[0].int(0)
}

/// Whether there is anybody to whom it can be sent again.
pub(super) fn has_failed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
) -> Result<bool, DatabaseError> {
    let sql = format!("SELECT id FROM campaign_recipients WHERE {FAILED} LIMIT 1");
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(campaign.get()), Param::Int(0)];
    Ok(!tx.query(&sql, &params)?.is_empty())
}

/// Makes failed rows pending again, a page of them.
fn collect_failed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    locked: &mut Locked,
    (cursor, most): (i64, i64),
) -> Result<(), DatabaseError> {
    let sql = format!(
        "SELECT id, {ENDED} FROM campaign_recipients
         WHERE {FAILED} ORDER BY id LIMIT $4"
    );
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(locked.id.get()),
        Param::Int(cursor),
        Param::Int(most),
    ];
    let rows = tx.query(&sql, &params)?;
    locked.retry_cursor = rows.last().map(|row| row.int(0)).transpose()?;
    let found = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    // What came back a moment ago may have changed one: then it is not failed any more. `attempts` goes on: by it an answer
    // knows its claim, and one of an earlier claim may still come.
    let sql = "UPDATE campaign_recipients
               SET status = 'pending', refusals = 0, tallied = NULL, fail_reason = NULL, last_error = NULL,
                   handed_at = NULL, claimed_by = NULL, claimed_until = NULL, updated_at = $1
               WHERE id {among} AND status = 'failed' AND sent_at IS NULL AND email IS NOT NULL RETURNING id";
    let changed = tx.query_among(sql, &[Param::from(cx.now())], Among::Ints(&found))?;
    let mut ids = changed.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    ids.sort_unstable();
    let mut counts = Counts::default();
    for (row, id) in rows.iter().zip(&found) {
        if ids.binary_search(id).is_ok()
            && let Some(ended) = tallies::read(row, 1)?
        {
            counts.row(&ended, -1);
        }
    }
    batches::place(tx, cx, locked, (false, cx.now()), &ids)?;
    tallies::add(tx, cx, locked.id, &counts)?;
    locked.save(tx, cx)
}

/// Ends the batches of a campaign that was cancelled or has failed, if they are not on the queue. Those that are, their
/// worker ends: whoever cancelled it has put them there once more. One that fails has not begun to send.
async fn end_batches(
    cx: &Cx,
    campaign: &Campaign,
    (most, then): (i64, Then),
) -> Result<Next, StorageError> {
    let (within, id) = (cx.clone(), campaign.id);
    let end = cx.database().write_committed(move |tx| {
        let locked = store::lock(tx, &within, id)?;
        let leaves = |locked: &Locked| batches::left_by(locked.status).is_some();
        let Some(locked) = locked.filter(leaves) else { return Ok(Next::Nothing) };
        let sql = "SELECT number FROM campaign_batches
                   WHERE campaign_id = $1 AND fed_at IS NULL ORDER BY held, due_at, number LIMIT $2";
        let rows = tx.query(sql, &[Param::Int(id.get()), Param::Int(most)])?;
        for row in &rows {
            let number = row.int(0)?;
            let ended = batches::give_up_locked(tx, &within, &locked, number)?;
            // Nobody hands over what is not on the queue. If somebody did after all, its message ends it after that; nobody
            // would if it were only looked at again and again.
            if ended == Finished::Open
                && let Some(batch) = batches::find(tx, &within, id, number)?
            {
                lost::after_the_claims(tx, &within, &locked, &batch)?;
            }
        }
        if rows.is_empty() {
            return Ok(Next::Nothing);
        }
        if then == Then::Yield {
            store::step(tx, &within, id)?;
        }
        Ok::<_, DatabaseError>(Next::after(then))
    });
    Ok(end.await?)
}

/// It cannot be sent, and trying again would not help. Whoever is written down already is seen to next.
async fn fail(cx: &Cx, campaign: &Campaign, why: String) -> Result<Next, StorageError> {
    let (within, campaign) = (cx.clone(), campaign.clone());
    let fail = cx.database().write_committed(move |tx| {
        let Some(mut locked) = control::lock_same(tx, &within, &campaign)? else {
            return Ok(Next::More);
        };
        store::make_move(tx, &within, &mut locked, Command::Fail, Some(&why))?.ok();
        Ok::<_, DatabaseError>(Next::More)
    });
    Ok(fail.await?)
}
