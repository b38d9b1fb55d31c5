//! `tidings stats`.

use clap::{Args, Subcommand};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use tidings_access::Cx;
use tidings_kernel::Workspace;
use tidings_signals::events::Counts;
use tidings_signals::queries;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings stats days --from 2026-07-01 --to 2026-07-31 --workspace acme
  tidings stats template onboarding/welcome
  tidings stats sequence spring")]
pub(crate) struct StatsArgs {
    /// The workspace whose messages are counted
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each line out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: StatsCommand,
}

#[derive(Debug, Subcommand)]
enum StatsCommand {
    /// Print the numbers of each day in UTC, up to 366 of them
    Days {
        /// The first day [default: 29 days before the last]
        #[arg(long, value_name = "DAY")]
        from: Option<Date>,
        /// The last day [default: today]
        #[arg(long, value_name = "DAY")]
        to: Option<Date>,
    },
    /// Print the numbers of a template
    Template {
        /// Its key
        key: String,
    },
    /// Print the numbers of a sequence or a campaign
    Sequence {
        /// The id of the sequence, or the key of the campaign
        id: String,
    },
}

#[derive(Serialize)]
struct Day {
    day: Date,
    #[serde(flatten)]
    counts: Counts,
}

pub(crate) async fn stats(args: StatsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: StatsCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let counts = match command {
        StatsCommand::Days { from, to } => {
            let to = to.unwrap_or_else(|| cx.now().to_zoned(TimeZone::UTC).date());
            let from = from.unwrap_or_else(|| to.saturating_sub(jiff::Span::new().days(29)));
            let mut out = open.out();
            for (day, counts) in queries::days(cx, from, to).await? {
                out.json(&Day { day, counts })?;
            }
            return out.finish();
        }
        StatsCommand::Template { key } => queries::template(cx, &key).await?,
        StatsCommand::Sequence { id } => queries::sequence(cx, &id).await?,
    };
    open.print(&counts.unwrap_or_default())
}
