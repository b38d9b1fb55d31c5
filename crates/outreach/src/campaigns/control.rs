//! Starting, pausing, resuming and cancelling a campaign, and sending again where it failed.
//!
//! Each is one commit on the campaign's row, with a message that makes a worker do the rest (`steps`). Doing the same
//! again changes nothing.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_delivery::transactional::{MAX_REASON, Wrong};
use tidings_sql::{DatabaseError, Tx};

use super::draft::{self, Find};
use super::life::{Command, Illegal, Move, decide};
use super::store::{self, Frozen, Locked};
use super::{Campaign, CampaignId, Schedule, Status, lost, snapshot, steps};

/// So often somebody prepares a start anew because the campaign was changed in the meantime.
const ATTEMPTS: usize = 8;
/// What a campaign is paused for that did not start when it should have.
pub const MISSED_START: &str = "missed_start";
/// What a campaign is paused for with which a worker could not go on, before what went wrong.
pub const STUCK: &str = "stuck";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub campaign: Find,
    /// `None`: when the campaign itself says, which is at once if it says nothing.
    pub when: Option<When>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Now,
    /// A time that has passed is now.
    Then(Schedule),
}

/// A campaign, and whether this call changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    pub campaign: Campaign,
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Retried {
    pub campaign: Campaign,
    /// How many are sent to again.
    pub recipients: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("there is no campaign {0}")]
    Missing(CampaignId),
    #[error("campaign {id} is not changed: {why}")]
    Illegal { id: CampaignId, why: Illegal },
    #[error("the campaign cannot start: {}", .0.iter().map(|one| format!("{}: {}", one.field, one.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Wrong>),
    #[error("a reason has at most {MAX_REASON} characters, and no control characters")]
    Reason,
    #[error("the campaign kept being changed: try again")]
    Contended,
    #[error("the campaign could not be changed")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for ControlError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// What a start means for a campaign as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// It was started before.
    Nothing,
    Begin(Option<Schedule>),
    PutOff(Schedule),
}

/// Starts a campaign now, or schedules it. From its start on nothing changes what it sends. Of two starts one starts
/// it, and the other finds it started.
pub async fn start(cx: &Cx, cmd: Start) -> Result<Changed, ControlError> {
    if let Some(When::Then(schedule)) = cmd.when
        && let Some(wrong) = draft::too_late(schedule, cx.now())
    {
        return Err(ControlError::Invalid(vec![wrong]));
    }
    for _ in 0..ATTEMPTS {
        let campaign = load(cx, cmd.campaign).await?;
        let id = campaign.id;
        let plan =
            plan(cx, &campaign, cmd.when).map_err(|why| ControlError::Illegal { id, why })?;
        if plan == Plan::Nothing {
            return Ok(Changed { campaign, changed: false });
        }
        // What is scheduled must be able to start, too, as far as is known today.
        let frozen = snapshot::freeze(cx, &campaign).await?.map_err(ControlError::Invalid)?;
        let within = cx.clone();
        let start = cx.database().write_committed(move |tx| {
            let Some(mut locked) = lock_same(tx, &within, &campaign)? else { return Ok(false) };
            match plan {
                Plan::Begin(schedule) => {
                    begin(tx, &within, &mut locked, (Command::Start, None), &frozen)?;
                    // Only now: as long as it is scheduled, it has a time.
                    store::set_schedule(tx, &within, id, schedule)?;
                    noted(tx, &within, &locked, "campaign.start", told(&campaign))?;
                }
                Plan::PutOff(schedule) => {
                    store::set_schedule(tx, &within, id, Some(schedule))?;
                    // It has not begun, so it can be.
                    store::make_move(tx, &within, &mut locked, Command::Schedule, None)?.ok();
                    store::step_at(tx, &within, id, schedule.due())?;
                    locked.scheduled_at = Some(schedule.due());
                    noted(tx, &within, &locked, "campaign.schedule", told(&campaign))?;
                }
                Plan::Nothing => {}
            }
            Ok::<_, DatabaseError>(true)
        });
        if start.await? {
            return Ok(Changed { campaign: load(cx, cmd.campaign).await?, changed: true });
        }
    }
    Err(ControlError::Contended)
}

fn plan(cx: &Cx, campaign: &Campaign, when: Option<When>) -> Result<Plan, Illegal> {
    let schedule = match when {
        None => campaign.schedule,
        Some(When::Now) => None,
        Some(When::Then(schedule)) => Some(schedule),
    };
    let is_the_same = when.is_none() || (schedule.is_some() && schedule == campaign.schedule);
    let plan = match schedule {
        Some(schedule) if schedule.due() > cx.now() => Plan::PutOff(schedule),
        _ => Plan::Begin(schedule),
    };
    let command = match plan {
        Plan::PutOff(_) => Command::Schedule,
        Plan::Begin(_) | Plan::Nothing => Command::Start,
    };
    let state = campaign.state(cx.now());
    // Whoever asks for the same again is answered with what came of it: to start one that is paused takes another word.
    let started = matches!(campaign.status, Status::Scheduled | Status::Paused)
        || decide(state, Command::Start) == Ok(Move::Already);
    match decide(state, command) {
        _ if is_the_same && started => Ok(Plan::Nothing),
        Ok(Move::To(_)) => Ok(plan),
        Ok(Move::Already) => Ok(Plan::Nothing),
        Err(why) => Err(why),
    }
}

/// The campaign that something was prepared for, if it is still as it was then.
pub(super) fn lock_same(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Campaign,
) -> Result<Option<Locked>, DatabaseError> {
    let locked = store::lock(tx, cx, campaign.id)?;
    Ok(locked.filter(|locked| {
        locked.status == campaign.status
            && locked.paused_in == campaign.paused_in
            && locked.request_hash == campaign.request_hash
            && locked.scheduled_at == campaign.times.scheduled_at
    }))
}

/// Lets a campaign begin: what it sends is frozen, and a worker finds its recipients.
pub(super) fn begin(
    tx: &mut Tx<'_>,
    cx: &Cx,
    locked: &mut Locked,
    (command, reason): (Command, Option<&str>),
    frozen: &Frozen,
) -> Result<(), DatabaseError> {
    store::freeze(tx, cx, locked.id, frozen)?;
    // Whoever calls this has asked whether it can be done.
    store::make_move(tx, cx, locked, command, reason)?.ok();
    store::step(tx, cx, locked.id)
}

/// Refuses a reason that cannot be written down.
fn check_reason(reason: Option<&String>) -> Result<(), ControlError> {
    let is_fit = |reason: &String| {
        reason.chars().count() <= MAX_REASON && !reason.chars().any(char::is_control)
    };
    if reason.is_none_or(is_fit) { Ok(()) } else { Err(ControlError::Reason) }
}

/// Stops a campaign. What is being handed over goes out; nothing else does until it is resumed.
pub async fn pause(cx: &Cx, find: Find, reason: Option<String>) -> Result<Changed, ControlError> {
    check_reason(reason.as_ref())?;
    change(cx, find, "campaign.pause", move |tx, cx, locked| {
        store::make_move(tx, cx, locked, Command::Pause, reason.as_deref())
    })
    .await
}

/// Lets a paused campaign go on with what it did. One that has stopped by itself does not do so again
/// for the same reason.
pub async fn resume(cx: &Cx, find: Find, reason: Option<String>) -> Result<Changed, ControlError> {
    check_reason(reason.as_ref())?;
    for _ in 0..ATTEMPTS {
        let campaign = load(cx, find).await?;
        let (id, state) = (campaign.id, campaign.state(cx.now()));
        let next = match decide(state, Command::Resume) {
            Ok(Move::To(next)) => next,
            Ok(Move::Already) => return Ok(Changed { campaign, changed: false }),
            Err(why) => return Err(ControlError::Illegal { id, why }),
        };
        let begins = next == Status::Snapshotting && state.paused_in == Some(Status::Scheduled);
        let frozen = match begins {
            true => Some(snapshot::freeze(cx, &campaign).await?.map_err(ControlError::Invalid)?),
            false => None,
        };
        let (within, reason) = (cx.clone(), reason.clone());
        let resume = cx.database().write_committed(move |tx| {
            let Some(mut locked) = lock_same(tx, &within, &campaign)? else { return Ok(false) };
            match &frozen {
                Some(frozen) => {
                    let command = (Command::Resume, reason.as_deref());
                    begin(tx, &within, &mut locked, command, frozen)?;
                }
                None => {
                    let reason = reason.as_deref();
                    store::make_move(tx, &within, &mut locked, Command::Resume, reason)?.ok();
                    lost::all_again(tx, &within, &locked)?;
                    match locked.scheduled_at.filter(|_| next == Status::Scheduled) {
                        Some(at) => store::step_at(tx, &within, id, at)?,
                        None => store::step(tx, &within, id)?,
                    }
                }
            }
            noted(tx, &within, &locked, "campaign.resume", told(&campaign))?;
            Ok::<_, DatabaseError>(true)
        });
        if resume.await? {
            return Ok(Changed { campaign: load(cx, find).await?, changed: true });
        }
    }
    Err(ControlError::Contended)
}

/// Pauses a campaign that does not get on: a worker has tried often enough. Whoever has seen to the cause resumes it.
pub(super) async fn stuck(cx: &Cx, id: CampaignId, why: &str) -> Result<(), DatabaseError> {
    let (within, why) = (cx.clone(), stuck_reason(why));
    let pause = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, id)? else { return Ok(()) };
        // If it is at its end, nothing is stuck.
        store::make_move(tx, &within, &mut locked, Command::Pause, Some(&why)).map(drop)
    });
    pause.await
}

fn stuck_reason(why: &str) -> String {
    let told = format!("{STUCK}: {why}");
    told.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REASON).collect()
}

/// Ends a campaign. Who has not been sent to yet is not sent to any more.
pub async fn cancel(cx: &Cx, find: Find, reason: Option<String>) -> Result<Changed, ControlError> {
    check_reason(reason.as_ref())?;
    change(cx, find, "campaign.cancel", move |tx, cx, locked| {
        let done = store::make_move(tx, cx, locked, Command::Cancel, reason.as_deref())?;
        if let Ok(Move::To(_)) = done {
            lost::all_again(tx, cx, locked)?;
            store::step(tx, cx, locked.id)?;
        }
        Ok(done)
    })
    .await
}

/// Sends again to those where it failed, and to nobody else. What nobody knows about is not sent again.
pub async fn retry_failed(
    cx: &Cx,
    find: Find,
    reason: Option<String>,
) -> Result<Retried, ControlError> {
    check_reason(reason.as_ref())?;
    let before = load(cx, find).await?;
    // There may be very many, and while they are counted nobody must wait for this campaign.
    let within = cx.clone();
    let count = cx.database().read(move |tx| steps::count_failed(tx, &within, find.id));
    let failed: i64 = count.await.map_err(|error: DatabaseError| error)?;
    let within = cx.clone();
    let retry = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, find.id)? else {
            return Err(ControlError::Missing(find.id));
        };
        if locked.status == Status::Sent && !steps::has_failed(tx, &within, find.id)? {
            return Ok(0);
        }
        let id = find.id;
        let done = store::make_move(tx, &within, &mut locked, Command::Retry, reason.as_deref())?;
        done.map_err(|why| ControlError::Illegal { id, why })?;
        locked.retry_cursor = Some(0);
        locked.save(tx, &within)?;
        store::step(tx, &within, id)?;
        noted(tx, &within, &locked, "campaign.retry_failed", told(&before))?;
        // Whoever there is now may have failed since they were counted.
        Ok(failed.max(1))
    });
    let recipients = retry.await?;
    Ok(Retried { campaign: load(cx, find).await?, recipients })
}

type Done = Result<Move, Illegal>;

/// One change of a campaign's row.
async fn change(
    cx: &Cx,
    find: Find,
    action: &'static str,
    change: impl Fn(&mut Tx<'_>, &Cx, &mut Locked) -> Result<Done, DatabaseError> + Send + 'static,
) -> Result<Changed, ControlError> {
    load(cx, find).await?;
    let (within, id) = (cx.clone(), find.id);
    let write = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, id)? else {
            return Err(ControlError::Missing(id));
        };
        let before = state(locked.status, locked.scheduled_at);
        let done = change(tx, &within, &mut locked)?;
        if let Ok(Move::To(_)) = done {
            noted(tx, &within, &locked, action, before)?;
        }
        done.map_err(|why| ControlError::Illegal { id, why })
    });
    let changed = matches!(write.await?, Move::To(_));
    Ok(Changed { campaign: load(cx, find).await?, changed })
}

/// Writes down who did it, and what it was before.
fn noted(
    tx: &mut Tx<'_>,
    cx: &Cx,
    locked: &Locked,
    action: &'static str,
    before: Value,
) -> Result<(), DatabaseError> {
    let after = state(locked.status, locked.scheduled_at);
    cx.record_change(tx, &Change::new(action, "campaign", locked.id).between(before, after))
}

fn told(campaign: &Campaign) -> Value {
    state(campaign.status, campaign.times.scheduled_at)
}

fn state(status: Status, scheduled_at: Option<Timestamp>) -> Value {
    json!({ "status": status.as_str(), "scheduled_at": scheduled_at.map(|at| at.to_string()) })
}

async fn load(cx: &Cx, find: Find) -> Result<Campaign, ControlError> {
    let within = cx.clone();
    let load = cx.database().read(move |tx| store::load(tx, &within, find.id));
    let found: Option<Campaign> = load.await?;
    found.filter(|one| find.sees(one)).ok_or(ControlError::Missing(find.id))
}
