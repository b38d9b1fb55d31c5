//! `tidings doctor`: is everything as it should be, and what to do where it is not.
//!
//! Each check gives findings; none stops the others. Here: what a finding is and how it is shown. The checks
//! are in the modules below, one subject each.

mod clock;
mod files;
mod mail;
mod port;
mod probe;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use serde_json::json;

use crate::config::{Config, Engine, Settings};
use crate::failure::Failure;
use crate::output::{Layout, Output};
use crate::store::Store;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidings doctor
  tidings doctor --json | jq '.findings[] | select(.state != \"ok\")'

It writes, reads and deletes one probe item in table main of workspace \"default\".
The exit code is 1 if anything fails; warnings alone leave it 0.")]
pub(crate) struct DoctorArgs {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: State::Ok, message: message.into(), remedy: None }
    }

    fn warn(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Warn, message: message.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Fail, message: message.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) async fn run(
    args: &DoctorArgs,
    settings: &Settings,
    config: &Config,
) -> Result<(), Failure> {
    let mut findings = files::check_config(settings);
    if config.engine == Engine::Embedded {
        findings.extend(files::check_database(&config.embedded.path));
    }
    let is_missing = config.engine == Engine::Embedded && !config.embedded.path.exists();
    if is_missing {
        findings.push(Finding::warn(
            "store",
            format!("there is no database {} yet", config.embedded.path.display()),
            "`tidings serve` makes it; if there should be one, embedded.path is wrong",
        ));
        findings.push(clock::check_alone());
    } else {
        match Store::open(config).await {
            Ok(store) => {
                findings.extend(probe::check(&store).await);
                findings.push(clock::check(&store).await);
                store.close().await;
            }
            Err(failure) => {
                let remedy = failure.advice().unwrap_or("see the message").to_owned();
                findings.push(Finding::fail("store", failure.message(), remedy));
                findings.push(clock::check_alone());
            }
        }
    }
    findings.push(port::check(config.http.listen).await);
    findings.extend(mail::check(config).await);

    let mut out = Output::new(Layout::Pretty);
    if args.json {
        out.json(&as_json(&findings))?;
    } else {
        let in_colour = std::io::stdout().is_terminal() && crate::failure::in_colour();
        out.text(&as_text(&findings, in_colour))?;
    }
    out.finish()?;
    if worst(&findings) == State::Fail { Err(Failure::told()) } else { Ok(()) }
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Warn => "warn",
        State::Fail => "fail",
    }
}

fn worst(findings: &[Finding]) -> State {
    let has = |state| findings.iter().any(|finding| finding.state == state);
    if has(State::Fail) {
        State::Fail
    } else if has(State::Warn) {
        State::Warn
    } else {
        State::Ok
    }
}

fn as_text(findings: &[Finding], in_colour: bool) -> String {
    let mut text = String::new();
    for Finding { check, state, message, remedy } in findings {
        let word = word(*state);
        let colour = match state {
            State::Ok => "\x1b[32m",
            State::Warn => "\x1b[33m",
            State::Fail => "\x1b[31m",
        };
        let (on, off) = if in_colour { (colour, "\x1b[0m") } else { ("", "") };
        text.push_str(&format!("{on}{word:4}{off}  {check:11}  {message}\n"));
        if let Some(remedy) = remedy {
            text.push_str(&format!("{:4}  {:11}  -> {remedy}\n", "", ""));
        }
    }
    text
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let each = findings.iter().map(|finding| {
        json!({
            "check": finding.check,
            "state": word(finding.state),
            "message": finding.message,
            "remedy": finding.remedy,
        })
    });
    json!({ "state": word(worst(findings)), "findings": each.collect::<Vec<_>>() })
}
