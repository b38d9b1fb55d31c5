//! `tidings contact tell`: what people did, from a file, on its way to their timelines.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidings_access::Cx;
use tidings_jobs::contracts::LeadIngestion;
use tidings_leads::identity::{Identity, IdentityError};
use tidings_leads::ingestion::{self, AcceptError, MAX_EVENTS, NewEvent};

use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

/// Said about every so many events.
const SAID: usize = 10_000;
/// So many faults are told.
const SHOWN: usize = 20;
/// So many bytes of lines are taken at once, if that is less than so many events.
const MOST_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
A line is an event as POST /v1/lead-events takes it:
  {\"event_type\":\"purchase_completed\",\"external_event_id\":\"order-77\",\"occurred_at\":\"2026-05-01T10:00:00Z\",
   \"identities\":[{\"channel\":\"email\",\"value\":\"ada@example.org\"}],\"payload\":{\"amount\":12.5,\"currency\":\"EUR\"}}
With an external_event_id it can be told again, and is there once.")]
pub(super) struct TellArgs {
    /// The file: events as JSON, one a line; `-` is stdin
    file: PathBuf,
    /// Which system events come from that do not say it
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

/// An event as a line has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    event_type: String,
    identities: Vec<Named>,
    source: Option<String>,
    source_type: Option<String>,
    external_event_id: Option<String>,
    occurred_at: Option<Timestamp>,
    object_id: Option<String>,
    object_id_ref: Option<String>,
    payload: Option<Map<String, Value>>,
    raw_payload: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    channel: String,
    value: String,
}

pub(super) async fn tell(args: TellArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut told = Told { cx, lines: Vec::new(), events: Vec::new(), bytes: 0, taken: 0 };
    for (place, line) in opened(&args.file)?.lines().enumerate() {
        let number = place + 1;
        let line = line.with_context(|| format!("line {number} cannot be read"))?;
        if line.trim().is_empty() {
            continue;
        }
        let event = read(&line, args.source.as_deref());
        let event = event.map_err(|wrong| told.stopped(&format!("line {number}: {wrong}")))?;
        told.add(number, line.len(), event.told(cx)).await?;
    }
    told.send().await?;
    open.print(&json!({ "told": told.taken }))
}

fn opened(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

fn read(line: &str, source: Option<&str>) -> Result<NewEvent, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| {
        // The line within the line is always the first.
        let told = error.to_string();
        told.split_once(" at line 1 ").map_or(told.clone(), |(what, at)| format!("{what} ({at})"))
    })?;
    let mut identities = Vec::new();
    for (place, Named { channel, value }) in line.identities.iter().enumerate() {
        let identity = Identity::new(channel, value).map_err(|error| {
            let part = if error == IdentityError::Channel { "channel" } else { "value" };
            format!("identities[{place}].{part}: {error}")
        })?;
        identities.push(identity);
    }
    Ok(NewEvent {
        event_type: line.event_type,
        identities,
        source: line.source.or_else(|| source.map(ToOwned::to_owned)),
        source_type: line.source_type,
        external_event_id: line.external_event_id,
        occurred_at: line.occurred_at,
        object_id: line.object_id,
        object_id_ref: line.object_id_ref,
        payload: line.payload,
        raw_payload: line.raw_payload,
    })
}

/// Events that wait to be taken together, and how many were.
struct Told<'a> {
    cx: &'a Cx,
    /// Where each of the events stands.
    lines: Vec<usize>,
    events: Vec<LeadIngestion>,
    bytes: usize,
    taken: usize,
}

impl Told<'_> {
    async fn add(
        &mut self,
        line: usize,
        bytes: usize,
        event: LeadIngestion,
    ) -> Result<(), Failure> {
        self.lines.push(line);
        self.events.push(event);
        self.bytes += bytes;
        if self.events.len() == MAX_EVENTS || self.bytes >= MOST_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Failure> {
        if self.events.is_empty() {
            return Ok(());
        }
        let (lines, events) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.events));
        self.bytes = 0;
        match ingestion::accept(self.cx, events).await {
            Ok(accepted) => {
                let before = self.taken;
                self.taken += accepted.len();
                if self.taken / SAID > before / SAID {
                    say(&format!(
                        "{} events told, up to line {}",
                        self.taken,
                        lines.last().unwrap_or(&0)
                    ));
                }
                Ok(())
            }
            Err(AcceptError::Invalid(faults)) => {
                for (place, fault) in faults.iter().take(SHOWN) {
                    let line = lines.get(*place).copied().unwrap_or_default();
                    say(&format!("line {line}: {}: {}", fault.field, fault.message));
                }
                let first = faults.first().and_then(|(place, _)| lines.get(*place));
                Err(self.stopped(&format!(
                    "{} things are wrong, the first of them in line {}",
                    faults.len(),
                    first.unwrap_or(&0)
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is wrong, and what was told before.
    fn stopped(&self, why: &str) -> Failure {
        let hint = match self.taken {
            0 => "nothing was told".to_owned(),
            taken => format!(
                "the first {taken} events were told; with an external_event_id each, the whole file can be told again"
            ),
        };
        Failure::usage(why.to_owned()).hint(hint)
    }
}
