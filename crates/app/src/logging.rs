//! The log: lines on stderr, for people or for machines.

use std::io;
use std::panic::PanicHookInfo;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Log, LogFormat, Origin, Settings};
use crate::failure::in_colour;

/// Starts the log of the server.
pub(crate) fn start(log: &Log) {
    let filter: Targets = log.level.parse().expect("checked when it was read");
    begin(log.format, filter);
    std::panic::set_hook(Box::new(log_panic));
}

/// Starts the log of a command, which is silent but for warnings unless the user wants to hear more.
pub(crate) fn start_quietly(settings: &Settings, log: &Log) {
    let wanted = settings.get("log.level").is_some_and(|level| level.origin != Origin::Default);
    let filter = if wanted {
        log.level.parse().expect("checked when it was read")
    } else {
        // The SDK warns at length about every place where it found no region; the error says it in one line.
        let quiet = Targets::new().with_default(LevelFilter::WARN);
        quiet.with_target("aws_config", LevelFilter::ERROR)
    };
    begin(log.format, filter);
}

fn begin(format: LogFormat, filter: Targets) {
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(io::stderr).with_ansi(in_colour()).with_target(false))
            .init(),
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(io::stderr)).init()
        }
    }
}

/// A panic is a log line like any other, inside the span of the request that it ended.
fn log_panic(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(panic.location = location, "A task panicked: {message}");
}
