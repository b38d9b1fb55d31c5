//! Pace: how many messages a second all nodes hand to a provider, and whose turn it is.
//!
//! A bucket holds one second's worth. Whoever finds it empty is told when to come again: nobody sleeps here. Mail that
//! somebody waits for goes before campaigns, always. When the provider says that it was too much, the rate halves and
//! then grows back in small steps. The bucket is in the store (`shared`), and a node takes a tenth of a second's worth out of
//! it at once; without a store it is this node's own.

mod shared;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
pub use tidings_kernel::Lane;
use tidings_kernel::{Accepted, Clock, Mail, SendError, Sender, causes};
use tidings_sql::Database;

use shared::{Known, Shared};

/// How much of the full rate comes back in a second.
const REGAIN_PER_SECOND: f64 = 0.05;
/// Answers to messages that were on their way together count once.
const ONE_BLOW: SignedDuration = SignedDuration::from_secs(1);
/// How long nothing is handed over after a blow, if the provider does not say.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);
/// The longest that anybody is sent away for, so that a promise to many cannot reach into the next day.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(10);
/// Who has not come again by then is served by another node, or not at all any more.
const GRACE: SignedDuration = SignedDuration::from_secs(1);

/// So much can be made at once of mails that take their turns later.
const BUCKET: SignedDuration = SignedDuration::from_secs(1);
/// What a node takes at once, in parts of a second's worth.
const BLOCK: f64 = 0.1;
/// Turns that a node has taken and not used by then are lost: used later, they would come on top of those of others.
const KEPT: SignedDuration = SignedDuration::from_secs(1);
/// How long to wait if the store does not say.
const STORE_PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// Come again then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotBefore(pub Timestamp);

impl NotBefore {
    pub fn wait_from(self, now: Timestamp) -> Duration {
        Duration::try_from(self.0.duration_since(now)).unwrap_or_default()
    }
}

/// Shared by all who send from this node.
pub struct Pace {
    state: Mutex<State>,
    /// Where the turns come from. Without it this node has all of them.
    shared: Option<Shared>,
}

#[derive(Debug)]
struct State {
    /// As configured.
    full: f64,
    rate: f64,
    tokens: f64,
    /// Until when the above is worked out.
    at: Timestamp,
    held_until: Timestamp,
    last_blow: Option<Timestamp>,
    /// Of the transactional lane: how many were sent away and have not come again.
    waiting: u32,
    promised: [Option<Timestamp>; 2],
    /// How long the mails that were made here take to be handed over.
    filled_until: Timestamp,
}

impl Pace {
    pub fn new(per_second: u32, now: Timestamp) -> Self {
        let full = f64::from(per_second.max(1));
        let state = State {
            full,
            rate: full,
            tokens: full,
            at: now,
            held_until: now,
            last_blow: None,
            waiting: 0,
            promised: [None, None],
            filled_until: now,
        };
        Self { state: Mutex::new(state), shared: None }
    }

    /// So many messages a second over all nodes with the same store.
    pub fn over_all_nodes(
        per_second: u32,
        now: Timestamp,
        (database, provider): (Database, &'static str),
    ) -> Self {
        let pace = Self::new(per_second, now);
        pace.state().tokens = 0.0;
        Self { shared: Some(Shared::new(database, provider)), ..pace }
    }

    /// Takes the right to hand over as many messages as there is room for on all nodes, up to `most`, and tells how many.
    /// If there is no room for a single one, it says when to ask again.
    pub async fn turn(&self, lane: Lane, most: usize, now: Timestamp) -> Result<usize, NotBefore> {
        let Some(shared) = &self.shared else { return self.ready_for(lane, most, now) };
        let (full, block) = {
            let mut state = self.state();
            state.drop_old(now);
            if let Some(taken) = state.take_leased(most) {
                return Ok(taken);
            }
            (state.full, (state.rate * BLOCK) as usize)
        };
        match shared.take((lane, most.max(block)), full, now).await {
            Ok((known, Ok(leased))) => {
                let mut state = self.state();
                state.learn(&known, now);
                state.tokens += leased as f64;
                state.at = now;
                // Another task of this node may have been quicker with them.
                state.take_leased(most).ok_or_else(|| NotBefore(state.come_after(lane, now, now)))
            }
            Ok((known, Err(at))) => {
                let mut state = self.state();
                state.learn(&known, now);
                Err(NotBefore(match lane {
                    Lane::Transactional => to_the_millisecond(at),
                    Lane::Campaign => state.come_after(lane, at, now),
                }))
            }
            Err(error) => {
                tracing::warn!(error = %causes(&error), "Nobody could say whose turn it is to send");
                Err(NotBefore(now.saturating_add(STORE_PAUSE).unwrap_or(now)))
            }
        }
    }

    /// How many mails there is room for that are made now and take their turns when they are handed over, up to `most`. It
    /// takes none of their turns. This node makes no more of them in a second than the provider takes, so that what somebody
    /// waits for finds few before it. If there is no room for a single one, it says when to ask again.
    pub async fn room(&self, lane: Lane, most: usize, now: Timestamp) -> Result<usize, NotBefore> {
        let full = {
            let mut state = self.state();
            state.unfilled(lane, now)?;
            state.full
        };
        let there = match &self.shared {
            None => self.state().there(lane, now),
            Some(shared) => match shared.look().await {
                Ok(mut known) => {
                    self.state().learn(&known, now);
                    known.take((lane, most), full, now)
                }
                Err(error) => {
                    tracing::warn!(error = %causes(&error), "Nobody could say whether there is room to send");
                    return Err(NotBefore(now.saturating_add(STORE_PAUSE).unwrap_or(now)));
                }
            },
        };
        let mut state = self.state();
        let there = there.map_err(|at| NotBefore(state.come_after(lane, at, now)))?;
        // Another task of this node may have been quicker.
        let room = there.min(state.unfilled(lane, now)?).min(most);
        let takes = SignedDuration::from_secs_f64(room as f64 / state.rate);
        state.filled_until = state.filled_until.max(now).saturating_add(takes).unwrap_or(now);
        Ok(room)
    }

    /// Takes the right to hand one message over, or says when to ask again.
    pub fn ready(&self, lane: Lane, now: Timestamp) -> Result<(), NotBefore> {
        self.ready_for(lane, 1, now).map(drop)
    }

    /// Takes the right to hand over as many messages as there is room for, up to `most`, and tells how many. If there is
    /// no room for a single one, it says when to ask again.
    pub fn ready_for(&self, lane: Lane, most: usize, now: Timestamp) -> Result<usize, NotBefore> {
        let mut state = self.state();
        state.advance(now);
        let taken = match lane {
            Lane::Campaign if state.others_wait(now) => 0,
            Lane::Campaign | Lane::Transactional => {
                (0..most).take_while(|_| state.take(now)).count()
            }
        };
        if lane == Lane::Transactional {
            let served = u32::try_from(taken).unwrap_or(u32::MAX);
            state.waiting = state.waiting.saturating_sub(served);
        }
        if taken > 0 {
            return Ok(taken);
        }
        if lane == Lane::Transactional {
            state.waiting += 1;
        }
        Err(NotBefore(state.promise(lane, now)))
    }

    /// The provider said that it was too much. All nodes know it when they take the next turns.
    pub async fn slow_down(&self, retry_after: Option<Duration>, now: Timestamp) {
        let until = self.throttled(retry_after, now);
        if let Some(shared) = &self.shared
            && let Err(error) = shared.blow(until, now).await
        {
            tracing::warn!(error = %causes(&error), "Other nodes do not know that the provider wants less mail");
        }
    }

    /// The same for this node alone. Tells until when nothing goes.
    pub fn throttled(&self, retry_after: Option<Duration>, now: Timestamp) -> Timestamp {
        let mut state = self.state();
        state.advance(now);
        let pause =
            retry_after.and_then(|wait| SignedDuration::try_from(wait).ok()).unwrap_or(PAUSE);
        let until = now.saturating_add(pause.min(SignedDuration::from_mins(15))).unwrap_or(now);
        state.held_until = state.held_until.max(until);
        state.tokens = 0.0;
        let fresh = state.last_blow.is_none_or(|last| now.duration_since(last) >= ONE_BLOW);
        if fresh {
            state.rate = (state.rate / 2.0).max(1.0);
            state.last_blow = Some(now);
        }
        until
    }

    /// Messages a second, at this moment.
    pub fn rate(&self, now: Timestamp) -> f64 {
        let mut state = self.state();
        if self.shared.is_none() {
            state.advance(now);
        }
        state.rate
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Up to the next one: who comes a moment early is sent away once more.
fn to_the_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond() + 1).unwrap_or(at)
}

impl State {
    /// What the store said of all nodes.
    fn learn(&mut self, known: &Known, now: Timestamp) {
        self.rate = known.rate(self.full, now);
        self.held_until = self.held_until.max(known.held_until.unwrap_or(now));
    }

    fn drop_old(&mut self, now: Timestamp) {
        if now.duration_since(self.at) > KEPT || now < self.held_until {
            self.tokens = 0.0;
        }
    }

    /// Turns that were taken before.
    fn take_leased(&mut self, most: usize) -> Option<usize> {
        let taken = most.min(self.tokens as usize);
        self.tokens -= taken as f64;
        (taken > 0).then_some(taken)
    }

    /// How many mails this node may make beyond those that it has made, or from when on there may be one.
    fn unfilled(&mut self, lane: Lane, now: Timestamp) -> Result<usize, NotBefore> {
        let ahead = self.filled_until.duration_since(now).max(SignedDuration::ZERO);
        let left = ((BUCKET - ahead).as_secs_f64() * self.rate + 0.001).floor();
        if left >= 1.0 {
            return Ok(left as usize);
        }
        let step = SignedDuration::from_secs_f64(1.0 / self.rate);
        let at = now.saturating_add(ahead + step - BUCKET).unwrap_or(now);
        Err(NotBefore(self.come_after(lane, at, now)))
    }

    /// How many turns could be taken of this node's own, or from when on there is one.
    fn there(&mut self, lane: Lane, now: Timestamp) -> Result<usize, Timestamp> {
        self.advance(now);
        let left_to_others = lane == Lane::Campaign && self.others_wait(now);
        let there = (self.tokens + 0.001) as usize;
        if left_to_others || now < self.held_until || there == 0 {
            let step = SignedDuration::from_secs_f64(1.0 / self.rate);
            return Err(self.held_until.max(now).saturating_add(step).unwrap_or(now));
        }
        Ok(there)
    }

    /// Not before `at`, and one after the other.
    fn come_after(&mut self, lane: Lane, at: Timestamp, now: Timestamp) -> Timestamp {
        let step = SignedDuration::from_secs_f64(1.0 / self.rate);
        let index = lane as usize;
        let before = self.promised[index].filter(|before| *before > now);
        let after = before.and_then(|before| before.checked_add(step).ok());
        let at = after.map_or(at, |after| at.max(after));
        let latest = self.held_until.max(now).saturating_add(MAX_WAIT).unwrap_or(at);
        let at = to_the_millisecond(at.min(latest));
        self.promised[index] = Some(at);
        at
    }

    fn advance(&mut self, now: Timestamp) {
        let seconds = now.duration_since(self.at).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.at = now;
        self.rate = (self.rate + seconds * self.full * REGAIN_PER_SECOND).min(self.full);
        if now > self.held_until {
            let open = now.duration_since(self.held_until).as_secs_f64().min(seconds);
            self.tokens = (self.tokens + open * self.rate).min(self.rate.max(1.0));
        }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        // A little less than one: times are milliseconds, and a promise is kept to the millisecond.
        if now < self.held_until || self.tokens < 0.999 {
            return false;
        }
        self.tokens = (self.tokens - 1.0).max(0.0);
        true
    }

    /// Whether the transactional lane waits.
    fn others_wait(&mut self, now: Timestamp) -> bool {
        let Some(promised) = self.promised[0].filter(|_| self.waiting > 0) else { return false };
        if now.duration_since(promised) > GRACE {
            self.waiting = 0;
        }
        self.waiting > 0
    }

    /// One after the other: all at the same time would find one token.
    fn promise(&mut self, lane: Lane, now: Timestamp) -> Timestamp {
        let step = SignedDuration::from_secs_f64(1.0 / self.rate);
        let missing = SignedDuration::from_secs_f64((1.0 - self.tokens).max(0.0) / self.rate);
        let open = self.held_until.max(now);
        let mut at = open.saturating_add(missing).unwrap_or(open);
        if lane == Lane::Campaign
            && self.waiting > 0
            && let Some(before) = self.promised[0]
        {
            at = at.max(before.saturating_add(step).unwrap_or(before));
        }
        let index = lane as usize;
        if let Some(before) = self.promised[index].filter(|before| *before > now) {
            at = at.max(before.saturating_add(step).unwrap_or(before));
        }
        let latest = open.saturating_add(MAX_WAIT).unwrap_or(open);
        // Up to the next millisecond: who comes a moment early is sent away once more.
        let at = Timestamp::from_millisecond(at.min(latest).as_millisecond() + 1).unwrap_or(at);
        self.promised[index] = Some(at);
        at
    }
}

/// A sender whose answers set the pace. Who uses it asks `ready` first.
pub struct Paced {
    sender: Arc<dyn Sender>,
    pace: Arc<Pace>,
    clock: Arc<dyn Clock>,
}

impl Paced {
    pub fn new(sender: Arc<dyn Sender>, pace: Arc<Pace>, clock: Arc<dyn Clock>) -> Self {
        Self { sender, pace, clock }
    }
}

#[async_trait]
impl Sender for Paced {
    fn name(&self) -> &'static str {
        self.sender.name()
    }

    fn at_once(&self) -> Option<usize> {
        self.sender.at_once()
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let sent = self.sender.send(mail).await;
        if let Err(SendError::Throttled { retry_after, .. }) = &sent {
            self.pace.slow_down(*retry_after, self.clock.now()).await;
        }
        sent
    }
}
