//! The pace of a provider over all nodes: a row says until when its rate is used up, and nodes take turns out of it, some at a
//! time, so that the store is not asked for each message.
//!
//! Here: the rule, and the row. Not here: what a node does with the turns that it has (`pace`).

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::Lane;
use tidings_sql::{Database, DatabaseError, Param, Row, Tx};

use super::{GRACE, MAX_WAIT, ONE_BLOW, REGAIN_PER_SECOND};

/// The bucket holds one second's worth.
const SECOND_US: i64 = 1_000_000;
/// What is left of a rate in millionths.
const WHOLE: i64 = 1_000_000;

/// What all nodes know of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// The rate is used up until then, in microseconds.
    used_until_us: i64,
    /// How much of the rate was left after the last blow.
    level: i64,
    blow_at: Option<Timestamp>,
    /// Nothing goes before.
    pub(super) held_until: Option<Timestamp>,
    /// When the last of those comes again who were sent away with a message that somebody waits for.
    awaited_at: Option<Timestamp>,
}

impl Known {
    pub(super) const NEW: Self =
        Self { used_until_us: 0, level: WHOLE, blow_at: None, held_until: None, awaited_at: None };

    /// Messages a second, at this moment.
    pub(super) fn rate(&self, full: f64, now: Timestamp) -> f64 {
        let since = self.blow_at.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
        let level = self.level as f64 / WHOLE as f64 + since * REGAIN_PER_SECOND;
        (full * level.min(1.0)).max(1.0_f64.min(full))
    }

    /// Takes as many turns as there are, up to `most`, or tells from when on there is one.
    pub(super) fn take(
        &mut self,
        (lane, most): (Lane, usize),
        full: f64,
        now: Timestamp,
    ) -> Result<usize, Timestamp> {
        let rate = self.rate(full, now);
        let step_us = SECOND_US as f64 / rate;
        if let Some(held) = self.held_until.filter(|held| *held > now) {
            return Err(held);
        }
        if lane == Lane::Campaign
            && let Some(awaited) = self.awaited_at.and_then(|at| at.checked_add(GRACE).ok())
            && awaited > now
            && awaited.duration_since(now) <= MAX_WAIT + GRACE
        {
            return Err(awaited);
        }
        let now_us = now.as_microsecond();
        // A bucket of less than one message would never hold one.
        let room_us = SECOND_US.max(step_us.ceil() as i64);
        // What is used up in the future was used by a node whose clock is wrong, and must not stop the others.
        let ahead = self.used_until_us > now_us.saturating_add(SECOND_US);
        let used = if ahead { now_us } else { self.used_until_us };
        let used = used.max(now_us.saturating_sub(room_us));
        self.used_until_us = used;
        // A thousandth less than one: times are milliseconds, and a promise is kept to the millisecond.
        let there = ((now_us - used) as f64 / step_us + 0.001).floor();
        if there < 1.0 {
            let next = used.saturating_add(step_us.ceil() as i64);
            return Err(Timestamp::from_microsecond(next).unwrap_or(now));
        }
        let taken = (there as usize).min(most);
        self.used_until_us = used.saturating_add((taken as f64 * step_us) as i64);
        Ok(taken)
    }

    /// When whoever was sent away until `at` with a message that somebody waits for is to come again: one after the other,
    /// on whichever node, and campaigns leave those turns to them.
    fn await_turn(&mut self, at: Timestamp, full: f64, now: Timestamp) -> Timestamp {
        let step = SignedDuration::from_secs_f64(1.0 / self.rate(full, now));
        let after =
            self.awaited_at.filter(|last| *last > now).map(|last| last.saturating_add(step));
        let at = after.and_then(Result::ok).map_or(at, |after| at.max(after));
        let latest = self.held_until.unwrap_or(now).max(now).saturating_add(MAX_WAIT);
        let at = at.min(latest.unwrap_or(at));
        self.awaited_at = self.awaited_at.max(Some(at));
        at
    }

    /// The provider said that it was too much. Answers to messages that were on their way together count once, whichever
    /// node they came to.
    pub(super) fn blow(&mut self, until: Timestamp, now: Timestamp) {
        self.held_until = self.held_until.max(Some(until));
        let fresh = self.blow_at.is_none_or(|at| now.duration_since(at) >= ONE_BLOW);
        if fresh {
            let left = self.rate(WHOLE as f64, now);
            (self.level, self.blow_at) = ((left / 2.0) as i64, Some(now));
        }
    }
}

/// The row of one provider.
#[derive(Clone)]
pub(super) struct Shared {
    database: Database,
    provider: &'static str,
}

impl Shared {
    pub(super) fn new(database: Database, provider: &'static str) -> Self {
        Self { database, provider }
    }

    /// Takes turns for this node, and tells what is known.
    pub(super) async fn take(
        &self,
        (lane, most): (Lane, usize),
        full: f64,
        now: Timestamp,
    ) -> Result<(Known, Result<usize, Timestamp>), DatabaseError> {
        self.change(move |known| {
            known.take((lane, most), full, now).map_err(|at| match lane {
                Lane::Transactional => known.await_turn(at, full, now),
                Lane::Campaign => at,
            })
        })
        .await
    }

    /// What is known, of which nothing is changed.
    pub(super) async fn look(&self) -> Result<Known, DatabaseError> {
        let provider = self.provider;
        let look = self.database.glance(move |tx| {
            let sql =
                "SELECT used_until_us, level, blow_at, held_until, awaited_at FROM provider_pace
                       WHERE provider = $1";
            let rows = tx.query(sql, &[Param::Text(provider)])?;
            rows.first().map_or(Ok(Known::NEW), read)
        });
        look.await
    }

    pub(super) async fn blow(&self, until: Timestamp, now: Timestamp) -> Result<(), DatabaseError> {
        self.change(move |known| known.blow(until, now)).await.map(drop)
    }

    /// One node after the other.
    async fn change<T: Send + 'static>(
        &self,
        change: impl Fn(&mut Known) -> T + Send + 'static,
    ) -> Result<(Known, T), DatabaseError> {
        let (provider, database) = (self.provider, self.database.urgent());
        let write = database.write_committed(move |tx| {
            let before = lock(tx, provider)?;
            let mut known = before;
            let done = change(&mut known);
            if known != before {
                save(tx, provider, &known)?;
            }
            Ok::<_, DatabaseError>((known, done))
        });
        write.await
    }
}

/// The row, which nobody else changes before this is committed.
fn lock(tx: &mut Tx<'_>, provider: &str) -> Result<Known, DatabaseError> {
    let sql = "INSERT INTO provider_pace (provider) VALUES ($1)
               ON CONFLICT (provider) DO UPDATE SET provider = excluded.provider
               RETURNING used_until_us, level, blow_at, held_until, awaited_at";
    let rows = tx.query(sql, &[Param::Text(provider)])?;
    rows.first().map_or(Ok(Known::NEW), read)
}

fn read(row: &Row) -> Result<Known, DatabaseError> {
    let time = |column| -> Result<Option<Timestamp>, DatabaseError> {
        Ok(row.optional_int(column)?.and_then(|ms| Timestamp::from_millisecond(ms).ok()))
    };
    Ok(Known {
        used_until_us: row.int(0)?,
        level: row.int(1)?,
        blow_at: time(2)?,
        held_until: time(3)?,
        awaited_at: time(4)?,
    })
}

fn save(tx: &mut Tx<'_>, provider: &str, known: &Known) -> Result<(), DatabaseError> {
    let sql = "UPDATE provider_pace
               SET used_until_us = $2, level = $3, blow_at = $4, held_until = $5, awaited_at = $6
               WHERE provider = $1";
    let params = [
        Param::Text(provider),
        Param::Int(known.used_until_us),
        Param::Int(known.level),
        known.blow_at.into(),
        known.held_until.into(),
        known.awaited_at.into(),
    ];
    tx.execute(sql, &params).map(drop)
}
