//! Letting many people in: said once, done by a server, and followed as long as somebody looks.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Cx, Slug};
use tidings_kernel::{Clock as _, SystemClock};
use tidings_outreach::audience::{Condition, Previewed, Walk, preview_of, unknown_names};
use tidings_sequences::executions::{self, BeginError, Enrolment, EnrolmentId};
use tidings_sequences::versions::Versions;
use tokio::time::MissedTickBehavior;

use super::form::Form;
use super::missing;
use crate::campaigns::grouped;
use crate::failure::Failure;
use crate::output::say;

/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(500);
/// Where nobody watches, a line is written after this much time.
const QUIET_MS: i64 = 30_000;
/// If nothing moves for so long, something may be missing.
const STUCK_MS: i64 = 10_000;
/// So many are looked at to say how many are meant.
const COUNTED: u64 = 200_000;

/// Whom it means.
pub(super) struct Many {
    pub(super) condition: Option<Value>,
    pub(super) audience: Option<Slug>,
    pub(super) tag: Option<String>,
    pub(super) data: Option<Value>,
}

pub(super) async fn enrol(
    form: Form,
    cx: &Cx,
    (id, many): (&Slug, Many),
    (yes, no_follow): (bool, bool),
) -> Result<(), Failure> {
    let condition = many.condition(cx).await?;
    let versions = Versions::default();
    let active = versions.active(cx, id.as_str()).await?.ok_or_else(|| missing(id))?;
    if !active.takes_people {
        return Err(Failure::failed(format!("nobody comes into {id}: it is not active"))
            .hint(format!("`tidings sequence resume {id}` lets people in again")));
    }
    if !yes {
        let walk = Walk {
            condition: condition.clone(),
            client: active.client,
            audience: active.audience,
            profiles: false,
        };
        let previewed = Previewed { walk, topic: active.topic };
        let counted = preview_of(cx, &previewed, COUNTED).await?;
        let more = if counted.complete { "" } else { "more than " };
        let count = grouped(i64::try_from(counted.count).unwrap_or(i64::MAX));
        if !agreed(&format!("{more}{count}"), id)? {
            say("Nobody was let in.");
            return Ok(());
        }
    }
    let data = many.data.unwrap_or_else(|| json!({}));
    let begun = executions::begin_enrolment(cx, &versions, id.as_str(), (condition, data)).await;
    let begun = begun.map_err(|error| match error {
        BeginError::Missing(_) => missing(id),
        BeginError::KeyReused | BeginError::Store(_) => error.into(),
    })?;
    if no_follow {
        let words = format!(
            "Enrolment {} has begun; a running server (`tidings serve`) does it, and `tidings sequence enrolment {}` follows it",
            begun.id, begun.id
        );
        return form.print(&summary(&begun), &words);
    }
    follow(form, cx, &begun.id).await
}

impl Many {
    async fn condition(&self, cx: &Cx) -> Result<Condition, Failure> {
        let written = match (&self.condition, &self.audience, &self.tag) {
            (Some(condition), ..) => condition.clone(),
            (None, Some(audience), _) => json!({ "audience": audience.as_str() }),
            (None, None, tag) => json!({ "tag": tag }),
        };
        let condition = Condition::parse(&written, "where").map_err(|wrong| {
            let told: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            Failure::usage(told.join("; ")).hint("docs/campaigns.md lists the conditions")
        })?;
        if let Some(unknown) = unknown_names(cx, &condition).await?.first() {
            return Err(Failure::failed(unknown.clone()).hint(
                "`tidings audiences list` and `tidings segment list` show those that there are",
            ));
        }
        Ok(condition)
    }
}

fn agreed(count: &str, id: &Slug) -> Result<bool, Failure> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(format!("{count} are meant, and nobody is there to be asked"))
            .hint("add --yes to let them in"));
    }
    say(&format!("{count} are meant. Let them into {id}? [y/N]"));
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Follows it until it is done, and prints what came of it. Ctrl-C leaves it alone.
pub(super) async fn follow(form: Form, cx: &Cx, id: &EnrolmentId) -> Result<(), Failure> {
    let clock = SystemClock;
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut teller = Teller::default();
    let left = tokio::signal::ctrl_c();
    tokio::pin!(left);
    loop {
        tokio::select! {
            listening = &mut left => {
                listening.context("Ctrl-C cannot be listened for")?;
                teller.close();
                say(&format!("Left. It goes on; `tidings sequence enrolment {id}` follows it again."));
                return Ok(());
            }
            _ = ticks.tick() => {}
        }
        let found = executions::enrolment(cx, id).await?;
        let now = found.ok_or_else(|| Failure::failed(format!("there is no enrolment {id}")))?;
        if now.ended_at.is_some() {
            teller.close();
            return form.print(&summary(&now), &in_words(&now));
        }
        teller.tell(&now, clock.now());
    }
}

fn in_words(now: &Enrolment) -> String {
    let counts = now.counts;
    let state = if now.ended_at.is_some() { "done" } else { "under way" };
    format!(
        "{} is {state}: {} came in, {} are or were in it, {} may not; {} looked at",
        now.sequence,
        grouped(counts.entered),
        grouped(counts.already_in),
        grouped(counts.refused),
        grouped(counts.looked_at)
    )
}

fn summary(now: &Enrolment) -> Value {
    json!({
        "enrolment": now.id.as_str(),
        "sequence": now.sequence,
        "condition": now.condition.to_json(),
        "began_at": now.began_at,
        "ended_at": now.ended_at,
        "looked_at": now.counts.looked_at,
        "entered": now.counts.entered,
        "already_in": now.counts.already_in,
        "refused": now.counts.refused,
    })
}

/// What is said on the way: on a terminal one line that changes, elsewhere a few.
#[derive(Default)]
struct Teller {
    open_line: bool,
    said: Option<Timestamp>,
    moved: Option<(i64, Timestamp)>,
    warned: bool,
}

impl Teller {
    fn tell(&mut self, now: &Enrolment, at: Timestamp) {
        let since = |then: Timestamp| at.as_millisecond() - then.as_millisecond();
        if io::stderr().is_terminal() {
            // The rest of a longer line before it is cleared.
            let line = format!("\r{}\x1b[K", in_words(now));
            drop(io::stderr().write_all(line.as_bytes()).and_then(|()| io::stderr().flush()));
            self.open_line = true;
        } else if self.said.is_none_or(|then| since(then) >= QUIET_MS) {
            self.said = Some(at);
            say(&in_words(now));
        }
        match self.moved {
            Some((count, then)) if count == now.counts.looked_at => {
                if since(then) >= STUCK_MS && !self.warned {
                    self.warned = true;
                    self.close();
                    say(
                        "Nothing moves. Is `tidings serve` running on this store? It does the work; this only looks.",
                    );
                }
            }
            _ => self.moved = Some((now.counts.looked_at, at)),
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open_line) {
            say("");
        }
    }
}
