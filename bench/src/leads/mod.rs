//! Leads: how fast events become features, how long one takes, and the work of a day, with few and with very many people
//! and events.
//!
//! Everything runs in this process on SQLite, with the workers of the product: what is accepted is in the queue
//! `lead-ingestion`, and is done when its features are written.

mod place;
mod seed;

use std::time::Duration;

use anyhow::Context;

use crate::report::Report;
use place::Place;

struct Sizes {
    people: &'static [usize],
    /// Stored events of each of some people: few, and very many.
    events: (usize, usize),
    /// Events that are timed.
    told: usize,
    /// Events that come one by one, and how far apart.
    single: usize,
    apart: Duration,
}

/// So many people are told of where it matters how many events each of them has.
const KNOWN: usize = 64;
/// One day of so few is over before it can be measured.
const FEW_DAYS: i64 = 20;

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let apart = Duration::from_millis(10);
    let sizes = if quick {
        let people = &[1_000, 10_000];
        Sizes { people, events: (10, 500), told: 4_000, single: 200, apart }
    } else {
        let people = &[10_000, 100_000, 1_000_000];
        Sizes { people, events: (10, 10_000), told: 10_000, single: 1_000, apart }
    };
    let command =
        format!("cargo run --release -p bench -- leads{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("leads", &command);
    // Not in /tmp, which may be memory.
    std::fs::create_dir_all("target")?;
    by_people(&sizes, &mut report).await?;
    by_events(&sizes, &mut report).await?;
    Ok(report)
}

struct Figures {
    events_per_second: f64,
    p50: Duration,
    p99: Duration,
    contacts_per_second: f64,
}

impl Figures {
    fn row(&self, of: usize) -> String {
        format!(
            "| {of} | {:.0} | {:.1} | {:.1} | {:.0} |",
            self.events_per_second,
            self.p50.as_secs_f64() * 1e3,
            self.p99.as_secs_f64() * 1e3,
            self.contacts_per_second
        )
    }
}

async fn by_people(sizes: &Sizes, report: &mut Report) -> anyhow::Result<()> {
    report.line("The workspace has one memory rule and one segment whose condition asks for a feature; queues are worked on with the defaults.\n");
    report.line(&format!(
        "{} events of people taken at random, accepted in batches of 500; then {} events one by one, {} ms apart; then the \
         work of a day for all of them:\n",
        sizes.told,
        sizes.single,
        sizes.apart.as_millis()
    ));
    report.line("| people | events to features/s | p50 ms | p99 ms | the day's people/s |");
    report.line("|---:|---:|---:|---:|---:|");
    let mut all = Vec::new();
    for &people in sizes.people {
        let folder = tempfile::tempdir_in("target")?;
        let path = folder.path().join("leads.db");
        let place = Place::open(&path).await?;
        seed::people(&place, people).await?;
        seed::uses(&place).await?;
        let place = place.reopened(&path).await?;
        let figures = measure(&place, people, sizes).await?;
        place.close().await;
        report.line(&figures.row(people));
        all.push(figures);
    }
    let (few, many) = (all.first().context("no runs")?, all.last().context("no runs")?);
    report.ratio("flat_people_events", many.events_per_second / few.events_per_second, 0.85);
    report.ratio("flat_people_latency", few.p99.as_secs_f64() / many.p99.as_secs_f64(), 0.5);
    report.ratio("flat_people_daily", many.contacts_per_second / few.contacts_per_second, 0.85);
    // Visible within a second.
    report.ratio("latency_p99", 1.0 / many.p99.as_secs_f64(), 1.0);
    report.line("");
    Ok(())
}

async fn measure(place: &Place, people: usize, sizes: &Sizes) -> anyhow::Result<Figures> {
    let events_per_second = place.tell(people, sizes.told).await?;
    let (p50, p99) = place.tell_one_by_one(people, sizes.single, sizes.apart).await?;
    seed::copied(place, people).await?;
    let contacts_per_second = people as f64 / place.days(1).await?.as_secs_f64();
    Ok(Figures { events_per_second, p50, p99, contacts_per_second })
}

async fn by_events(sizes: &Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (few, many) = sizes.events;
    // As many people and as many events in both, so that only how they are spread is another.
    let people = KNOWN * many / few;
    report.line(&format!(
        "{people} people with {} events in all, and {} more of {KNOWN} of them, who have so many each, known to their features; then {} \
         one by one, {} ms apart; then the work of a day for those {KNOWN}:\n",
        KNOWN * many,
        sizes.told,
        sizes.single,
        sizes.apart.as_millis()
    ));
    report.line("| events of each | events to features/s | p50 ms | p99 ms | the day's people/s |");
    report.line("|---:|---:|---:|---:|---:|");
    let mut all = Vec::new();
    for events in [few, many] {
        let folder = tempfile::tempdir_in("target")?;
        let path = folder.path().join("leads.db");
        let place = Place::open(&path).await?;
        seed::people(&place, people).await?;
        let known = seed::first(&place, KNOWN).await?;
        let who = if events == few { seed::partitions(&place).await? } else { known.clone() };
        seed::events(&place, &who, events).await?;
        seed::uses(&place).await?;
        seed::derived(&place, &known).await?;
        place.settle().await?;
        let place = place.reopened(&path).await?;
        let events_per_second = place.tell(KNOWN, sizes.told).await?;
        let (p50, p99) = place.tell_one_by_one(KNOWN, sizes.single, sizes.apart).await?;
        let contacts_per_second = KNOWN as f64 / place.days(FEW_DAYS).await?.as_secs_f64();
        place.close().await;
        let figures = Figures { events_per_second, p50, p99, contacts_per_second };
        report.line(&figures.row(events));
        all.push(figures);
    }
    if let [few, many] = all.as_slice() {
        report.ratio("flat_history_events", many.events_per_second / few.events_per_second, 0.85);
        report.ratio("flat_history_latency", few.p99.as_secs_f64() / many.p99.as_secs_f64(), 0.5);
        report.ratio(
            "flat_history_daily",
            many.contacts_per_second / few.contacts_per_second,
            0.85,
        );
    }
    report.line("");
    Ok(())
}
