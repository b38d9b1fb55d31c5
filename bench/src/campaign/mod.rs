//! A campaign, end to end: recipients found and written down, a mail rendered for each, every step in the ledger, and all
//! of it over SMTP; beside what `smtp-source` makes of the same sink with mails of the same size. Then how much memory
//! that took, and how long a message that somebody waits for takes meanwhile.
//!
//! Server and sink share the machine: what the sink costs is in every figure.

mod sink;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::product::{Product, Server};
use crate::report::Report;
use sink::Sink;

const CONNECTIONS: usize = 16;
/// Between two messages of those that somebody waits for.
const EVERY: Duration = Duration::from_millis(50);
/// Of an idle server, so many messages tell how long one takes.
const IDLE_MESSAGES: usize = 200;
/// So much memory is wanted at most, in megabytes.
const WANTED_MEGABYTES: f64 = 100.0;
/// Under a campaign a message may take so many times as long.
const WANTED_TIMES: f64 = 3.0;

/// What came of one size.
struct Run {
    recipients: usize,
    per_second: f64,
    megabytes: f64,
    /// How long transactional messages took until they were handed over, in ms: idle and meanwhile.
    idle_p99: f64,
    busy_p99: f64,
}

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes: &[usize] = if quick { &[1_000, 10_000] } else { &[10_000, 100_000, 1_000_000] };
    let command =
        format!("cargo run --release -p bench -- campaign{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("campaign", &command);
    std::fs::create_dir_all("target")?;
    let program = Product::build()?;

    let bytes = size_of_a_mail(&program)?;
    let sink = Sink::start(None)?.context("Postfix is not installed: it has smtp-sink")?;
    let limit = sink.limit(bytes, CONNECTIONS, if quick { 20_000 } else { 100_000 })?;
    report.line(&format!(
        "A mail has {bytes} bytes. `smtp-source` hands {limit:.0} a second to the same sink over {CONNECTIONS} connections.\n"
    ));
    report.line("| recipients | mails/s | of the limit | peak MB | transactional p99 ms, idle | meanwhile |");
    report.line("|---:|---:|---:|---:|---:|---:|");
    let mut runs = Vec::new();
    for &recipients in sizes {
        let run = measure(&program, &sink, recipients)?;
        report.line(&format!(
            "| {} | {:.0} | {:.2} | {:.0} | {:.1} | {:.1} |",
            run.recipients,
            run.per_second,
            run.per_second / limit,
            run.megabytes,
            run.idle_p99,
            run.busy_p99
        ));
        runs.push(run);
    }
    let (first, last) = (runs.first().context("no runs")?, runs.last().context("no runs")?);
    report.ratio("sqlite_vs_smtp_source", last.per_second / limit, 0.5);
    report.ratio("flat", last.per_second / first.per_second, 0.85);
    report.ratio("memory", WANTED_MEGABYTES / last.megabytes, 1.0);
    report.ratio("transactional_meanwhile", WANTED_TIMES * last.idle_p99 / last.busy_p99, 1.0);
    Ok(report)
}

/// As our mails are, so that the limit sends the same.
fn size_of_a_mail(program: &Path) -> anyhow::Result<usize> {
    let folder = tempfile::tempdir()?;
    open_to_all(folder.path())?;
    let sink = Sink::start(Some(folder.path()))?.context("Postfix is not installed")?;
    let (product, server) = furnish(program, &sink, 10)?;
    send(&server)?;
    drop((server, product));
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        sizes.push(usize::try_from(entry?.metadata()?.len())?);
    }
    ensure!(!sizes.is_empty(), "no mail came");
    Ok(sizes.iter().sum::<usize>() / sizes.len())
}

/// The sink is another user.
fn open_to_all(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))?)
}

fn measure(program: &Path, sink: &Sink, recipients: usize) -> anyhow::Result<Run> {
    let (product, server) = furnish(program, sink, recipients)?;
    for number in 0..IDLE_MESSAGES {
        order(&server, "idle", number)?;
        std::thread::sleep(EVERY / 5);
    }
    let idle_p99 = handed_over_p99(&product, "idle")?;
    let elapsed = send(&server)?;
    let megabytes = server.peak_megabytes()?;
    let busy_p99 = handed_over_p99(&product, "busy")?;
    Ok(Run {
        recipients,
        per_second: recipients as f64 / elapsed.as_secs_f64(),
        megabytes,
        idle_p99,
        busy_p99,
    })
}

/// A server with so many people and a template.
fn furnish(program: &Path, sink: &Sink, recipients: usize) -> anyhow::Result<(Product, Server)> {
    let product = Product::new(
        program,
        &[
            ("TIDINGS_MAIL__PROVIDER", "smtp".to_owned()),
            ("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1".to_owned()),
            ("TIDINGS_MAIL__SMTP_PORT", sink.port.to_string()),
            ("TIDINGS_MAIL__SMTP_TLS", "none".to_owned()),
            ("TIDINGS_MAIL__SMTP_CONNECTIONS", CONNECTIONS.to_string()),
            ("TIDINGS_MAIL__RATE_PER_SECOND", "100000".to_owned()),
        ],
    )?;
    product.run(&["bootstrap", "--client", "shop"])?;
    product.run(&["senders", "add", "news", "--from", "news@shop.example", "--client", "shop"])?;
    let key = ["keys", "create", "--client", "shop", "--name", "bench"];
    let may = ["--scope", "send", "--scope", "read", "--scope", "manage"];
    let fast = ["--requests-per-second", "10000", "--burst", "10000"];
    let made: Value = serde_json::from_str(&product.run(&[&key[..], &may, &fast].concat())?)?;
    let api_key = made["key"].as_str().context("no key")?.to_owned();
    import(&product, recipients)?;
    let server = product.serve(api_key)?;
    let paragraph =
        "Three things are new this month, and each of them was asked for by many of you. ";
    let html = format!(
        "<html><body><p>Hello {{{{ firstName }}}},</p><p>{}</p><p><a href=\"https://shop.example/new\">See all</a> \
         or <a href=\"https://shop.example/{{{{ plan }}}}\">your plan</a>.</p>\
         <p><a href=\"{{{{ unsubscribeUrl }}}}\">Unsubscribe</a></p></body></html>",
        paragraph.repeat(12)
    );
    let template = json!({ "subject": "News for {{ firstName }}", "html": html, "required_variables": ["plan"], "status": "active" });
    server.ask("PUT", "/v1/templates/news", &template.to_string())?;
    Ok((product, server))
}

fn import(product: &Product, count: usize) -> anyhow::Result<()> {
    let mut file = String::from("email,firstName,plan\n");
    for number in 0..count {
        writeln!(file, "person{number}@example{}.org,Ada,pro", number % 50)?;
    }
    let path = product.path("people.csv");
    std::fs::write(&path, file)?;
    product.run(&["contacts", "import", &path.to_string_lossy()])?;
    Ok(())
}

/// Sends a campaign to everybody, with messages in between that somebody waits for.
fn send(server: &Server) -> anyhow::Result<Duration> {
    let campaign = json!({
        "name": "News", "external_key": "news", "template": "news", "sender": "news",
    });
    server.ask("POST", "/v1/campaigns", &campaign.to_string())?;
    let began = Instant::now();
    server.ask("POST", "/v1/campaigns/news/start", "{}")?;
    for number in 0.. {
        order(server, "busy", number)?;
        let status = server.ask("GET", "/v1/campaigns/news", "")?["status"].clone();
        match status.as_str() {
            Some("sent") => return Ok(began.elapsed()),
            Some("snapshotting" | "sending") => std::thread::sleep(EVERY),
            _ => anyhow::bail!("the campaign is {status}"),
        }
    }
    unreachable!("numbers do not end")
}

fn order(server: &Server, when: &str, number: usize) -> anyhow::Result<()> {
    let message = json!({
        "to": "waiting@example.org", "template": "news", "sender": "news", "idempotency_key": format!("{when}-{number}"),
        "context": { "firstName": "Ada", "plan": "pro" },
    });
    server.ask("POST", "/v1/messages", &message.to_string()).map(drop)
}

/// From when a message was accepted until it was handed over, as the ledger has it.
fn handed_over_p99(product: &Product, when: &str) -> anyhow::Result<f64> {
    let database = rusqlite::Connection::open(product.path("tidings.db"))?;
    let waiting =
        "SELECT count(*) FROM transactional_messages WHERE status IN ('queued', 'claimed')";
    for _ in 0..1_000 {
        if database.query_row(waiting, [], |row| row.get::<_, i64>(0))? == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let sql = "SELECT handed_at - created_at FROM transactional_messages
               WHERE idempotency_key LIKE ?1 AND handed_at IS NOT NULL ORDER BY 1";
    let mut found = database.prepare(sql)?;
    let taken = found.query_map([format!("{when}-%")], |row| row.get::<_, i64>(0))?;
    let taken = taken.collect::<Result<Vec<_>, _>>()?;
    ensure!(!taken.is_empty(), "no message was handed over");
    let place = (taken.len() * 99 / 100).min(taken.len() - 1);
    // The ledger knows milliseconds: less than one counts as one.
    Ok(taken[place].max(1) as f64)
}
