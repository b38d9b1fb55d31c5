//! `tidings settings`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};
use tidings_access::Cx;
use tidings_delivery::eligibility::settings::{self, Sending, Zone, cap_of, quiet_of};
use tidings_delivery::templates::display_names::{self, DisplayNames};
use tidings_leads::identity::{self, Policy};
use tidings_signals::replies::settings::{self as replies, PassOn};

use super::Within;
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings settings show --workspace acme
  tidings settings sending --frequency-cap-count 3 --frequency-cap-hours 168
  tidings settings sending --quiet-from 21:00 --quiet-until 08:00 --quiet-zone Europe/Berlin
  tidings settings sending     nothing waits any more
  tidings settings identity flag
  tidings settings replies support@example.org
  tidings settings display-names names.json")]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    within: Within,
    #[command(subcommand)]
    command: SettingsCommand,
}

#[derive(Debug, Subcommand)]
enum SettingsCommand {
    /// Print what is in force
    Show,
    /// Set when marketing mail waits, all of it at once: what is not given no longer holds
    Sending {
        /// How many marketing mails a person gets at most, 1 to 100
        #[arg(long, value_name = "NUMBER")]
        frequency_cap_count: Option<i64>,
        /// In so many hours, 1 to 720
        #[arg(long, value_name = "HOURS")]
        frequency_cap_hours: Option<i64>,
        /// From when none is sent, where the person is
        #[arg(long, value_name = "HH:MM", value_parser = minute)]
        quiet_from: Option<Time>,
        /// Until when
        #[arg(long, value_name = "HH:MM", value_parser = minute)]
        quiet_until: Option<Time>,
        /// For those of whom no time zone is known [default: UTC]
        #[arg(long, value_name = "ZONE")]
        quiet_zone: Option<Zone>,
    },
    /// Show or set what is done when one event names identities of two contacts
    Identity {
        /// Make them one, or flag them for a person to decide
        #[arg(value_enum)]
        shared: Option<Shared>,
    },
    /// Show or set to whom replies are passed on
    Replies {
        /// An address, `off`, or `default` for what the configuration says
        #[arg(value_name = "ADDRESS")]
        forward_to: Option<PassOn>,
    },
    /// Show or set what values of attributes are called in templates
    DisplayNames {
        /// JSON with all of them, as they are shown: {"names": {"planName": {"pro": "Professional"}}}; `-` is stdin
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Shared {
    Merge,
    Flag,
}

#[derive(Serialize)]
struct Shown {
    frequency_cap_count: Option<u8>,
    frequency_cap_hours: Option<u16>,
    quiet_from: Option<String>,
    quiet_until: Option<String>,
    quiet_zone: Option<String>,
    updated_at: Option<Timestamp>,
}

pub(crate) async fn run(args: SettingsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.within.pretty)).await?;
    let done = match open.inside(args.within.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: SettingsCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let sending = match command {
        SettingsCommand::Show => settings::show(cx).await?,
        SettingsCommand::Identity { shared } => return identities(shared, open, cx).await,
        SettingsCommand::Replies { forward_to } => return pass_on(forward_to, open, cx).await,
        SettingsCommand::DisplayNames { file } => return names(file.as_deref(), open, cx).await,
        SettingsCommand::Sending {
            frequency_cap_count,
            frequency_cap_hours,
            quiet_from,
            quiet_until,
            quiet_zone,
        } => {
            let wrong = |error: settings::Wrong| Failure::usage(error.to_string());
            let cap = cap_of(frequency_cap_count, frequency_cap_hours).map_err(wrong)?;
            let quiet = quiet_of(quiet_from, quiet_until).map_err(wrong)?;
            settings::put(cx, Sending { cap, quiet, quiet_zone, updated_at: None }).await?
        }
    };
    open.print(&Shown::from(sending))
}

async fn identities(shared: Option<Shared>, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match shared {
        Some(Shared::Merge) => identity::set_policy(cx, Policy::Merge).await?,
        Some(Shared::Flag) => identity::set_policy(cx, Policy::Flag).await?,
        None => {}
    }
    let shared = match identity::policy(cx).await? {
        Policy::Merge => Shared::Merge,
        Policy::Flag => Shared::Flag,
    };
    open.print(&serde_json::json!({ "shared_identities": shared }))
}

async fn pass_on(to: Option<PassOn>, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let now = match to {
        Some(to) => replies::put(cx, to).await?,
        None => replies::show(cx).await?,
    };
    open.print(&serde_json::json!({ "forward_to": now.to_string() }))
}

async fn names(file: Option<&Path>, open: &Open, cx: &Cx) -> Result<(), Failure> {
    if let Some(path) = file {
        let text = match path == Path::new("-") {
            true => io::read_to_string(io::stdin()),
            false => fs::read_to_string(path),
        };
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        display_names::set(cx, &parse_names(&text)?).await?;
    }
    let all = display_names::get(cx).await?;
    let all: BTreeMap<_, _> = all.iter().collect();
    open.print(&serde_json::json!({ "names": all }))
}

fn parse_names(text: &str) -> Result<DisplayNames, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        names: serde_json::Map<String, serde_json::Value>,
    }
    let read: Written = serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("the file is not right: {error}")))?;
    DisplayNames::parse(read.names).map_err(|faults| {
        let told: Vec<_> =
            faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
        Failure::usage(told.join("; "))
    })
}

fn minute(text: &str) -> Result<Time, &'static str> {
    let wrong = "use a time of the day such as 21:00";
    let time = text.parse().map_err(|_| wrong)?;
    if text.len() == 5 { Ok(time) } else { Err(wrong) }
}

impl From<Sending> for Shown {
    fn from(sending: Sending) -> Self {
        let text = |time: Time| time.strftime("%H:%M").to_string();
        Self {
            frequency_cap_count: sending.cap.map(|cap| cap.count),
            frequency_cap_hours: sending.cap.map(|cap| cap.hours),
            quiet_from: sending.quiet.map(|(from, _)| text(from)),
            quiet_until: sending.quiet.map(|(_, until)| text(until)),
            quiet_zone: sending.quiet_zone.map(|zone| zone.as_str().to_owned()),
            updated_at: sending.updated_at,
        }
    }
}
