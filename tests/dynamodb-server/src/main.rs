//! A throw-away DynamoDB for the tests: dynoxide over HTTP, in memory, with a clock that the test sets.
//!
//! It prints its endpoint, then takes one command a line on stdin and answers each with one line:
//! `now <unix seconds>` sets the clock, `sweep` deletes what is past its TTL and tells how many. It ends when
//! stdin closes, so that it never outlives the test that started it.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;

use dynoxide::Database;
use dynoxide::storage_backend::ManualClock;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let database = Database::memory_with_clock(clock.clone())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("http://{}", listener.local_addr()?))?;
    tokio::spawn(dynoxide::server::serve_on(listener, database.clone()));

    // Reading stdin blocks, so it has a thread of its own, and the server the rest.
    let commands = move || -> Result<(), String> {
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| error.to_string())?;
            let answer = obey(&line, &clock, &database)?;
            say(&answer).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    tokio::task::spawn_blocking(commands).await??;
    // Connections may still be open; nobody is left to use them.
    std::process::exit(0)
}

fn obey(line: &str, clock: &ManualClock, database: &Database) -> Result<String, String> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("now", second) => {
            clock.set(second.parse().map_err(|_| format!("{second:?} is no second"))?);
            Ok("ok".to_owned())
        }
        ("sweep", "") => {
            let swept = database.sweep_ttl().map_err(|error| format!("{error:?}"))?;
            Ok(swept.to_string())
        }
        _ => Err(format!("unknown command {line:?}")),
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
