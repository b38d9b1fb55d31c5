//! Batches: recipients who are sent to together, and how they get on and off the queue.
//!
//! A batch goes to the queue (`feed`), again only if its message seems to be lost (`lost`), and is done once (`finish`), when each of its recipients has his end. Whoever
//! cannot be sent to now is moved to another batch before (`regroup`), and so is all that is left when the campaign was
//! paused (`hand_back`); so what a batch has counted never changes, and its message can come as often as it likes.
//!
//! Every function here locks the campaign's row first. `cx` is of this very moment: what is due is decided by its time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_access::Cx;
use tidings_jobs::contracts::{CampaignEmail, Contract as _};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{Among, DatabaseError, Dialect, Param, Row, Tx};

use super::brake::{self, Came, Handed};
use super::life::Command;
use super::pace::{MOST, Turn, batch_size};
use super::store::{self, Locked};
use super::tallies::{self, Counts, ENDED, Outcome};
use super::{CampaignId, RecipientId, Status, control, late};

/// So many batches are on the queue at once at most.
pub const WINDOW: i64 = 32;
/// So often somebody looks at a campaign that has batches on the queue, even if none of them is finished.
const WATCH: SignedDuration = SignedDuration::from_mins(1);
/// What those get who are left when a campaign is cancelled.
pub const CANCELLED: &str = "campaign_cancelled";
/// The same when it fails.
pub const FAILED: &str = "campaign_failed";
/// Until when somebody waits is rounded up to this, so that those who wait alike wait together.
const TOGETHER_MS: i64 = 60_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub number: i64,
    pub recipients: Vec<i64>,
    pub held: bool,
    pub due_at: Timestamp,
    pub fed_at: Option<Timestamp>,
    pub done_at: Option<Timestamp>,
}

/// What became of a batch that was to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    Now,
    Before,
    /// Some of its recipients have no end yet, so neither has it.
    Open,
    /// There is no such batch.
    Missing,
}

/// `campaign-55-batch-0001`
pub fn batch_id(campaign: CampaignId, number: i64) -> String {
    format!("campaign-{campaign}-batch-{number:04}")
}

/// What [`batch_id`] wrote.
pub fn number_of(batch_id: &str) -> Option<i64> {
    batch_id.rsplit_once("-batch-")?.1.parse().ok().filter(|number| *number > 0)
}

const SELECT: &str = "SELECT number, CAST(recipient_ids AS TEXT), held, due_at, fed_at, done_at FROM campaign_batches";

pub fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    number: i64,
) -> Result<Option<Batch>, DatabaseError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND campaign_id = $2 AND number = $3");
    let params =
        [Param::Int(cx.workspace_id().get()), Param::Int(campaign.get()), Param::Int(number)];
    tx.query(&sql, &params)?.first().map(read).transpose()
}

fn read(row: &Row) -> Result<Batch, DatabaseError> {
    let ids = serde_json::from_str(row.text(1)?);
    Ok(Batch {
        number: row.int(0)?,
        recipients: ids.map_err(|_| DatabaseError::damaged(1, "a list of ids"))?,
        held: row.int(2)? == 1,
        due_at: row.time(3)?,
        fed_at: row.optional_time(4)?,
        done_at: row.optional_time(5)?,
    })
}

/// Ends a batch whose recipients all have their end: counts them, and lets the campaign go on, or end. Exactly once,
/// however often and on however many nodes it is called.
pub fn finish(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    number: i64,
    came: &Came,
) -> Result<Finished, DatabaseError> {
    let Some(mut campaign) = store::lock(tx, cx, campaign)? else { return Ok(Finished::Missing) };
    let finished = end(tx, cx, &campaign, number)?;
    if finished == Finished::Now {
        feed(tx, cx, &mut campaign, came)?;
    }
    Ok(finished)
}

/// Moves recipients out of their batch into others that are due later, as if nothing had been tried. Those who have
/// their end meanwhile stay where they are, and so do those who are handed over without an answer yet. The batch itself
/// is still to be finished.
pub fn regroup(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    number: i64,
    later: &[(RecipientId, Timestamp)],
) -> Result<(), DatabaseError> {
    let Some(mut campaign) = store::lock(tx, cx, campaign)? else { return Ok(()) };
    move_out(tx, cx, &mut campaign, number, later)
}

/// Takes a batch off the queue because its campaign is paused: who has no end yet goes into another batch, which is fed
/// when the campaign goes on. Exactly once, like `finish`. `Open` if somebody is handed over and no answer is known yet:
/// then its message has to come again.
pub fn hand_back(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    number: i64,
) -> Result<Finished, DatabaseError> {
    let Some(mut campaign) = store::lock(tx, cx, campaign)? else { return Ok(Finished::Missing) };
    let Some(batch) = find(tx, cx, campaign.id, number)? else { return Ok(Finished::Missing) };
    if batch.done_at.is_some() {
        return Ok(Finished::Before);
    }
    let later: Vec<_> =
        batch.recipients.iter().map(|id| (RecipientId::from(*id), batch.due_at)).collect();
    move_out(tx, cx, &mut campaign, number, &later)?;
    let finished = end(tx, cx, &campaign, number)?;
    if campaign.status == Status::Sending {
        // Somebody has resumed it in the meantime, and does not know of this batch.
        store::step(tx, cx, campaign.id)?;
    }
    Ok(finished)
}

/// What those get who are left when a campaign has this end, if it is one that leaves anybody.
pub(super) fn left_by(end: Status) -> Option<&'static str> {
    match end {
        Status::Cancelled => Some(CANCELLED),
        Status::Failed => Some(FAILED),
        Status::Draft
        | Status::Scheduled
        | Status::Snapshotting
        | Status::Sending
        | Status::Paused
        | Status::Sent => None,
    }
}

/// Ends a batch of a campaign that was cancelled or has failed: who has not been sent to is not sent to any more. What is
/// being handed over right now has to have its end first.
pub fn give_up(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    number: i64,
) -> Result<Finished, DatabaseError> {
    let Some(campaign) = store::lock(tx, cx, campaign)? else { return Ok(Finished::Missing) };
    give_up_locked(tx, cx, &campaign, number)
}

pub(super) fn give_up_locked(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    number: i64,
) -> Result<Finished, DatabaseError> {
    let Some(batch) = find(tx, cx, campaign.id, number)? else { return Ok(Finished::Missing) };
    let Some(reason) = left_by(campaign.status) else { return Ok(Finished::Open) };
    if batch.done_at.is_some() {
        return Ok(Finished::Before);
    }
    let sql = "UPDATE campaign_recipients
               SET status = 'skipped', skip_reason = $2, claimed_by = NULL, claimed_until = NULL, updated_at = $1
               WHERE id {among} AND (status IN ('pending', 'queued')
                     OR (status = 'claimed' AND handed_at IS NULL AND claimed_until <= $1))";
    let params = [Param::from(cx.now()), Param::Text(reason)];
    tx.query_among(sql, &params, Among::Ints(&batch.recipients))?;
    end(tx, cx, campaign, number)
}

/// Puts due batches on the queue as far as rate, warm-up and window let it, and sees to it that somebody looks again
/// when there is more to do; ends the campaign if there is nothing left.
pub(super) fn feed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    came: &Came,
) -> Result<(), DatabaseError> {
    if campaign.status != Status::Sending || !campaign.is_complete() {
        return Ok(());
    }
    let is_missed = late::is_missed(tx, cx, campaign)?;
    campaign.looked_at = Some(cx.now());
    let under_way = under_way(tx, campaign.id)?;
    let due = due(tx, campaign.id, cx.now(), (WINDOW - under_way).max(0))?;
    // What is on the queue can be stopped, too: a small campaign is there as a whole before anything comes back.
    if under_way > 0 || !due.is_empty() {
        let handed = handed(tx, cx, campaign)?;
        if let Some(reason) = stopped_by(tx, cx, campaign, &brake::reasons(came, &handed))? {
            campaign.save(tx, cx)?;
            // It is sending, so it can be paused.
            return store::make_move(tx, cx, campaign, Command::Pause, Some(reason)).map(drop);
        }
    }
    if is_missed {
        campaign.save(tx, cx)?;
        let reason = Some(control::MISSED_START);
        return store::make_move(tx, cx, campaign, Command::Pause, reason).map(drop);
    }
    let mut fed = 0;
    let mut next = None;
    for batch in &due {
        match campaign.pace.take(&campaign.limits, batch.recipients.len().max(1), cx.now()) {
            Turn::Now(count) => {
                let part = split(tx, cx, campaign, batch, count)?;
                put_on_queue(tx, cx, (campaign.id, &part), Duration::ZERO)?;
                fed += 1;
                if part.number != batch.number {
                    // The rest of it is for tomorrow; asking for its turn tells when that is.
                    if let Turn::At(at) = campaign.pace.clone().take(&campaign.limits, 1, cx.now())
                    {
                        next = Some(at);
                    }
                    break;
                }
            }
            Turn::At(at) => {
                next = Some(at);
                break;
            }
        }
    }
    look_again(tx, cx, campaign, (under_way + fed, next))?;
    campaign.save(tx, cx)
}

/// The first of these reasons that nobody has let the campaign go on in spite of.
fn stopped_by(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    reasons: &[&'static str],
) -> Result<Option<&'static str>, DatabaseError> {
    for reason in reasons {
        // It is sending: if it has stopped for that once, somebody has resumed it.
        if !store::has_stopped_for(tx, cx, campaign.id, reason)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// What the brake has to know of the recipients.
fn handed(tx: &mut Tx<'_>, cx: &Cx, campaign: &Locked) -> Result<Handed, DatabaseError> {
    let skipped = tallies::outcome(tx, cx, campaign.id, Outcome::Skipped)?;
    Ok(Handed {
        recipients: campaign.recipients - skipped,
        sent: tallies::outcome(tx, cx, campaign.id, Outcome::Sent)?,
        refused: tallies::refused(tx, cx, campaign.id)?,
    })
}

/// Decides when somebody has to look again, or that nobody has to.
fn look_again(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    (under_way, next): (i64, Option<Timestamp>),
) -> Result<(), DatabaseError> {
    let waiting = next_due(tx, campaign.id, false)?;
    // What is due and still waits although its turn may have come waits for room: whoever finishes a batch looks.
    let mut next = next.or(waiting.filter(|at| *at > cx.now()));
    if under_way > 0 {
        // Bounces and complaints come whether or not a batch is finished.
        next = earlier(next, cx.now().saturating_add(WATCH).ok());
    } else if let Some(decide_at) = decided_at(tx, cx, campaign, waiting)? {
        campaign.decide_at = Some(decide_at);
        next = earlier(next, Some(decide_at));
    } else if waiting.is_none() {
        store::make_move(tx, cx, campaign, Command::Finish, None)?.ok();
        return Ok(());
    }
    match next {
        Some(at) => store::step_at(tx, cx, campaign.id, at),
        None => Ok(()),
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// When it is decided what did best, if somebody waits for that and for nothing else. The wait begins when everybody of the
/// test has it. Who of them is put off for longer than the wait is not waited for: he gets it when he can, and all others
/// need not wait for him.
fn decided_at(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    waiting: Option<Timestamp>,
) -> Result<Option<Timestamp>, DatabaseError> {
    if next_due(tx, campaign.id, true)?.is_none() {
        return Ok(None);
    }
    let wait = SignedDuration::from_millis(campaign.winner_wait_ms.unwrap_or(0));
    let decide_at =
        campaign.decide_at.unwrap_or_else(|| cx.now().saturating_add(wait).unwrap_or(cx.now()));
    Ok(Some(decide_at).filter(|at| waiting.is_none_or(|waiting| waiting > *at)))
}

/// How many are on the queue.
fn under_way(tx: &mut Tx<'_>, campaign: CampaignId) -> Result<i64, DatabaseError> {
    let sql = "SELECT COUNT(*) FROM campaign_batches
               WHERE campaign_id = $1 AND fed_at IS NOT NULL AND done_at IS NULL";
    tx.query(sql, &[Param::Int(campaign.get())])?.first().ok_or(DatabaseError::NoRow)?.int(0)
}

/// Those that are on the queue, and whose message was to come by then.
pub(super) fn fed(
    tx: &mut Tx<'_>,
    campaign: CampaignId,
    until: Timestamp,
) -> Result<Vec<Batch>, DatabaseError> {
    let sql = format!(
        "{SELECT} WHERE campaign_id = $1 AND fed_at IS NOT NULL AND done_at IS NULL
               AND COALESCE(awaited_at, fed_at) <= $2 ORDER BY number"
    );
    let params = [Param::Int(campaign.get()), Param::from(until)];
    tx.query(&sql, &params)?.iter().map(read).collect()
}

fn due(
    tx: &mut Tx<'_>,
    campaign: CampaignId,
    now: Timestamp,
    most: i64,
) -> Result<Vec<Batch>, DatabaseError> {
    let sql = format!(
        "{SELECT} WHERE campaign_id = $1 AND held = 0 AND due_at <= $2 AND fed_at IS NULL
         ORDER BY due_at, number LIMIT $3"
    );
    let params = [Param::Int(campaign.get()), Param::from(now), Param::Int(most)];
    tx.query(&sql, &params)?.iter().map(read).collect()
}

/// When the first of those that are not on the queue yet is due.
fn next_due(
    tx: &mut Tx<'_>,
    campaign: CampaignId,
    held: bool,
) -> Result<Option<Timestamp>, DatabaseError> {
    let sql = "SELECT due_at FROM campaign_batches
               WHERE campaign_id = $1 AND held = $2 AND fed_at IS NULL ORDER BY due_at LIMIT 1";
    let rows = tx.query(sql, &[Param::Int(campaign.get()), Param::Int(held.into())])?;
    rows.first().map(|row| row.time(0)).transpose()
}

/// Makes the first so many of a batch a batch of their own, if it has more.
fn split(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    batch: &Batch,
    count: usize,
) -> Result<Batch, DatabaseError> {
    if count >= batch.recipients.len() {
        return Ok(batch.clone());
    }
    let (now, later) = batch.recipients.split_at(count);
    set_recipients(tx, campaign.id, batch.number, later)?;
    campaign.batches += 1;
    let part = Batch { number: campaign.batches, recipients: now.to_vec(), ..batch.clone() };
    name_batch(tx, campaign.id, part.number, &part.recipients)?;
    insert(tx, cx, campaign.id, &part)?;
    Ok(part)
}

/// Its message comes after so long.
pub(super) fn put_on_queue(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (campaign, batch): (CampaignId, &Batch),
    after: Duration,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaign_batches SET fed_at = COALESCE(fed_at, $3), awaited_at = $4
               WHERE campaign_id = $1 AND number = $2";
    let params = [
        Param::Int(campaign.get()),
        Param::Int(batch.number),
        Param::from(cx.now()),
        Param::from(cx.now().saturating_add(after).unwrap_or(cx.now())),
    ];
    tx.execute(sql, &params)?;
    let id = batch_id(campaign, batch.number);
    let contract = CampaignEmail {
        campaign_id: campaign.get(),
        batch_id: id.clone(),
        campaign_recipient_ids: batch.recipients.clone(),
        idempotency_key: Some(id),
        metadata: None,
    };
    let body = contract.to_body();
    let body = body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    let message = Outgoing::new(&queues::CAMPAIGN_EMAIL, body).delayed(after);
    Ok(tx.enqueue(&message, cx.now())?)
}

/// Marks a batch as done and counts its recipients, if they all have their end and it is not done yet.
pub(super) fn end(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    number: i64,
) -> Result<Finished, DatabaseError> {
    let Some(batch) = find(tx, cx, campaign.id, number)? else { return Ok(Finished::Missing) };
    if batch.done_at.is_some() {
        return Ok(Finished::Before);
    }
    // What came back can change a row at any time: who counts it holds it.
    let lock = match tx.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "ORDER BY id FOR UPDATE",
    };
    let sql = format!("SELECT id, {ENDED} FROM campaign_recipients WHERE id {{among}} {lock}");
    let rows = tx.query_among(&sql, &[], Among::Ints(&batch.recipients))?;
    let mut counts = Counts::default();
    let mut changeable = Vec::new();
    for row in &rows {
        let Some(mut ended) = tallies::read(row, 1)? else { return Ok(Finished::Open) };
        if campaign.has_variants {
            ended.arm = ended.arm.or(campaign.winner);
        }
        counts.row(&ended, 1);
        changeable.extend(ended.outcome.tallied().map(|word| (word, row.int(0))));
    }
    for outcome in ["failed", "uncertain"] {
        let ids = changeable.iter().filter(|(word, _)| *word == outcome);
        let ids = ids.map(|(_, id)| id.clone()).collect::<Result<Vec<_>, _>>()?;
        if ids.is_empty() {
            continue;
        }
        let sql = "UPDATE campaign_recipients SET tallied = $1 WHERE id {among}";
        tx.query_among(sql, &[Param::Text(outcome)], Among::Ints(&ids))?;
    }
    let sql = "UPDATE campaign_batches SET done_at = $3, fed_at = COALESCE(fed_at, $3)
               WHERE campaign_id = $1 AND number = $2";
    let params = [Param::Int(campaign.id.get()), Param::Int(number), Param::from(cx.now())];
    tx.execute(sql, &params)?;
    tallies::add(tx, cx, campaign.id, &counts)?;
    Ok(Finished::Now)
}

fn move_out(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    number: i64,
    later: &[(RecipientId, Timestamp)],
) -> Result<(), DatabaseError> {
    let Some(batch) = find(tx, cx, campaign.id, number)? else { return Ok(()) };
    if batch.done_at.is_some() || later.is_empty() {
        return Ok(());
    }
    let mut groups = std::collections::BTreeMap::<Timestamp, Vec<i64>>::new();
    for (id, due_at) in later {
        let due_at = if *due_at == batch.due_at { *due_at } else { together(*due_at) };
        if batch.recipients.contains(&id.get()) {
            groups.entry(due_at).or_default().push(id.get());
        }
    }
    let mut gone = Vec::new();
    for (due_at, ids) in groups {
        let sql = "UPDATE campaign_recipients
                   SET status = 'pending', due_at = $1, claimed_by = NULL, claimed_until = NULL, handed_at = NULL,
                       updated_at = $2
                   WHERE id {among} AND (status IN ('pending', 'queued') OR (status = 'claimed' AND handed_at IS NULL))
                   RETURNING id";
        let params = [Param::from(due_at), Param::from(cx.now())];
        let rows = tx.query_among(sql, &params, Among::Ints(&ids))?;
        let mut moved = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
        moved.sort_unstable();
        place(tx, cx, campaign, (batch.held, due_at), &moved)?;
        gone.extend(moved);
    }
    let stay: Vec<i64> = batch.recipients.iter().copied().filter(|id| !gone.contains(id)).collect();
    set_recipients(tx, campaign.id, number, &stay)?;
    if let Some(fed_at) = batch.fed_at {
        campaign.pace.give_back(&campaign.limits, gone.len(), fed_at);
    }
    campaign.save(tx, cx)
}

fn together(at: Timestamp) -> Timestamp {
    let millis = at.as_millisecond();
    let up = millis + (TOGETHER_MS - millis.rem_euclid(TOGETHER_MS)) % TOGETHER_MS;
    Timestamp::from_millisecond(up).unwrap_or(at)
}

/// Puts recipients into batches that are not on the queue yet.
pub(super) fn place(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &mut Locked,
    group: (bool, Timestamp),
    ids: &[i64],
) -> Result<(), DatabaseError> {
    let mut ids = ids;
    for slot in slots(tx, campaign, group, ids.len())? {
        let (some, rest) = ids.split_at(slot.count.min(ids.len()));
        name_batch(tx, campaign.id, slot.number, some)?;
        fill(tx, cx, campaign.id, (group, &slot), some)?;
        ids = rest;
    }
    Ok(())
}

/// Room in a batch that is not on the queue yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: i64,
    /// How many it is for.
    pub(super) count: usize,
    /// Who is in it already, if there is such a batch.
    before: Option<Vec<i64>>,
}

/// Finds room for so many: in the last batch of those that are due at the same time, and then in new ones. Each slot is
/// to be filled.
pub(super) fn slots(
    tx: &mut Tx<'_>,
    campaign: &mut Locked,
    (held, due_at): (bool, Timestamp),
    count: usize,
) -> Result<Vec<Slot>, DatabaseError> {
    let most = batch_size(campaign.limits.rate_per_hour).min(MOST);
    let sql = format!(
        "{SELECT} WHERE campaign_id = $1 AND held = $2 AND due_at = $3 AND fed_at IS NULL
         ORDER BY number DESC LIMIT 1"
    );
    let params = [Param::Int(campaign.id.get()), Param::Int(held.into()), Param::from(due_at)];
    let (mut slots, mut left) = (Vec::new(), count);
    // The last one alone: those before it are full, and there may be very many.
    let last = if count == 0 { Vec::new() } else { tx.query(&sql, &params)? };
    let last = last.first().map(read).transpose()?;
    if let Some(batch) = last.filter(|batch| batch.recipients.len() < most) {
        let count = (most - batch.recipients.len()).min(left);
        slots.push(Slot { number: batch.number, count, before: Some(batch.recipients) });
        left -= count;
    }
    while left > 0 {
        campaign.batches += 1;
        let count = most.min(left);
        slots.push(Slot { number: campaign.batches, count, before: None });
        left -= count;
    }
    Ok(slots)
}

/// Puts recipients into the room that was found for them. Their rows say so already.
pub(super) fn fill(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    ((held, due_at), slot): ((bool, Timestamp), &Slot),
    ids: &[i64],
) -> Result<(), DatabaseError> {
    if let Some(before) = &slot.before {
        return set_recipients(tx, campaign, slot.number, &[before, ids].concat());
    }
    let (number, recipients) = (slot.number, ids.to_vec());
    let batch = Batch { number, recipients, held, due_at, fed_at: None, done_at: None };
    insert(tx, cx, campaign, &batch)
}

/// The rows say which batch they are in.
fn name_batch(
    tx: &mut Tx<'_>,
    campaign: CampaignId,
    number: i64,
    ids: &[i64],
) -> Result<(), DatabaseError> {
    let id = batch_id(campaign, number);
    let sql = "UPDATE campaign_recipients SET batch_id = $1 WHERE id {among}";
    tx.query_among(sql, &[Param::Text(&id)], Among::Ints(ids)).map(drop)
}

fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    batch: &Batch,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, held, due_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let ids = store::json_of(&batch.recipients);
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(campaign.get()),
        Param::Int(batch.number),
        Param::Text(&ids),
        Param::Int(batch.recipients.len() as i64),
        Param::Int(batch.held.into()),
        Param::from(batch.due_at),
    ];
    tx.execute(sql, &params).map(drop)
}

fn set_recipients(
    tx: &mut Tx<'_>,
    campaign: CampaignId,
    number: i64,
    ids: &[i64],
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaign_batches SET recipient_ids = $3, size = $4
               WHERE campaign_id = $1 AND number = $2";
    let json = store::json_of(&ids);
    let params = [
        Param::Int(campaign.get()),
        Param::Int(number),
        Param::Text(&json),
        Param::Int(ids.len() as i64),
    ];
    tx.execute(sql, &params).map(drop)
}
