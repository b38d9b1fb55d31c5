//! Following a campaign until it has its end. It goes on in the server whether or not anybody follows.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_outreach::campaigns::draft::Find;
use tidings_outreach::campaigns::progress::{Standing, standing};
use tidings_outreach::campaigns::{Campaign, Status};
use tokio::time::MissedTickBehavior;

use super::bar::{Pace, Seen, grouped, line, percent};
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(500);
/// Where nobody watches, a line is written after this much time or a tenth of the way.
const QUIET_MS: i64 = 30_000;
/// If nothing moves for so long, something may be missing.
const STUCK_MS: i64 = 10_000;

/// Follows a campaign and prints what came of it. Ctrl-C leaves it alone.
pub(super) async fn follow(open: &Open, cx: &Cx, find: Find) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut teller = Teller::new(open.access.now());
    let left = tokio::signal::ctrl_c();
    tokio::pin!(left);
    loop {
        tokio::select! {
            listening = &mut left => {
                listening.context("Ctrl-C cannot be listened for")?;
                teller.leave();
                return Ok(());
            }
            _ = ticks.tick() => {}
        }
        let now = standing(cx, find).await?;
        teller.tell(&now, open.access.now());
        if let Some(ended) = end(&now) {
            teller.close();
            say(&ended);
            open.print(&summary(&now))?;
            return match now.campaign.status {
                Status::Failed => Err(Failure::told()),
                _ => Ok(()),
            };
        }
    }
}

/// What is said at the end, if that is one.
fn end(now: &Standing) -> Option<String> {
    let campaign = &now.campaign;
    let key = campaign.key();
    let counts = format!(
        "{} sent, {} skipped, {} failed, {} uncertain",
        grouped(now.sent),
        grouped(now.skipped),
        grouped(now.failed),
        grouped(now.uncertain)
    );
    let mut text = match campaign.status {
        Status::Sent => format!("Campaign {key} is sent: {counts}."),
        Status::Cancelled => format!("Campaign {key} is cancelled: {counts} so far."),
        Status::Failed => {
            let why = campaign.last_error.as_deref().unwrap_or("no reason is known");
            format!("Campaign {key} has failed: {why}.")
        }
        Status::Paused => {
            let why = campaign.pause_reason.as_deref();
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!(
                "Campaign {key} is paused{why}: {counts} so far. `tidings campaign resume {key}` lets it go on."
            )
        }
        Status::Draft | Status::Scheduled | Status::Snapshotting | Status::Sending => return None,
    };
    if campaign.status == Status::Sent && now.failed > 0 {
        text.push_str(&format!(" `tidings campaign retry-failed {key}` tries those again."));
    }
    if now.uncertain > 0 {
        text.push_str(&format!(
            " `tidings campaign uncertain {key}` lists whom nobody knows about."
        ));
    }
    Some(text)
}

/// In numbers, for programs.
pub(super) fn summary(now: &Standing) -> Value {
    let campaign = &now.campaign;
    json!({
        "id": campaign.id.get(),
        "key": campaign.key(),
        "status": campaign.status.as_str(),
        "recipients": campaign.progress.recipients,
        "sent": now.sent,
        "skipped": now.skipped,
        "failed": now.failed,
        "uncertain": now.uncertain,
    })
}

/// What is said on the way: on a terminal one line that changes, elsewhere a few.
struct Teller {
    is_terminal: bool,
    pace: Pace,
    key: String,
    /// What was said last: the status, the tenth of the way, and when.
    said: Option<(Status, i64, Timestamp)>,
    moved: (i64, Timestamp),
    warned: bool,
    open_line: bool,
}

impl Teller {
    fn new(now: Timestamp) -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            pace: Pace::default(),
            key: String::new(),
            said: None,
            moved: (0, now),
            warned: false,
            open_line: false,
        }
    }

    fn tell(&mut self, now: &Standing, at: Timestamp) {
        let campaign = &now.campaign;
        self.key = campaign.key();
        let seen = Seen {
            at,
            ended: now.ended(),
            total: campaign.progress.recipients.max(now.ended()),
            sent: now.sent,
            counting: is_counting(campaign),
        };
        self.pace.see(at, seen.ended);
        let text = match (campaign.status, campaign.times.scheduled_at) {
            (Status::Scheduled, Some(due)) => format!("scheduled for {due}"),
            (status, _) => line(status.as_str(), &seen, &self.pace),
        };
        if self.is_terminal {
            // The rest of a longer line before it is cleared.
            drop(write!(io::stderr(), "\r{text}\x1b[K").and_then(|()| io::stderr().flush()));
            self.open_line = true;
        } else {
            let tenth = percent(&seen) / 10;
            let quiet = |(status, before, since): (Status, i64, Timestamp)| {
                status == campaign.status
                    && before == tenth
                    && at.as_millisecond() - since.as_millisecond() < QUIET_MS
            };
            if !self.said.is_some_and(quiet) {
                self.said = Some((campaign.status, tenth, at));
                say(&text);
            }
        }
        self.warn_if_stuck(campaign, &seen);
    }

    /// Once: nobody works, or the campaign waits for something.
    fn warn_if_stuck(&mut self, campaign: &Campaign, seen: &Seen) {
        if seen.ended + seen.total != self.moved.0 {
            self.moved = (seen.ended + seen.total, seen.at);
        }
        let stuck = seen.at.as_millisecond() - self.moved.1.as_millisecond() >= STUCK_MS;
        let works = matches!(campaign.status, Status::Snapshotting | Status::Sending);
        if stuck && works && !self.warned && seen.ended == 0 {
            self.warned = true;
            self.close();
            say(
                "Nothing moves. Is `tidings serve` running on this store? It does the work; this only looks.",
            );
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open_line) {
            say("");
        }
    }

    fn leave(&mut self) {
        self.close();
        let key = &self.key;
        say(&format!(
            "Left. The campaign goes on; `tidings campaign watch {key}` follows it again."
        ));
    }
}

fn is_counting(campaign: &Campaign) -> bool {
    campaign.progress.snapshot_done_at.is_none()
}
