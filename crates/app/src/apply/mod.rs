//! `tidings apply`: a folder of templates, topics, audiences, segments, sequences and memory rules becomes what the workspace has.
//!
//! Here: the order of things: read all, check all, show what would change, then write. Not here: the files (`folder`), and
//! what a change is (`plan`). Nothing is taken away: what is not in the folder stays as it is.

mod diff;
mod folder;
mod plan;
mod steps;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tidings_access::Cx;
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

use folder::Folder;
use plan::Plan;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings apply ./mail --dry-run
  tidings apply ./mail --workspace acme --yes

The folder:
  templates/onboarding/welcome.mjml   a template; also .html and .liquid, and .txt for the text part
  templates/onboarding/welcome.toml   subject, preheader, name, type, description, required, examples,
                                      default_sender, status; or the same between two lines of --- at
                                      the top of the file
  templates/partials/footer.html      a partial, for {% include 'footer' %}
  topics.toml                         [[topics]] slug, name, description
  audiences.toml                      [[audiences]] slug, name, double_opt_in, confirm_template_key
  segments/vip.yaml                   a segment: condition, name (see docs/segments.md)
  sequences/onboarding.yaml           a sequence; also .yml and .json (see docs/sequences.md)
  memory-rules/shop.yaml              what to remember of which events (see docs/memory-features.md)

What topics.toml and audiences.toml do not name stays as it is; an empty text takes it away.
Everything is checked before anything is written. Doing it again changes nothing.")]
pub(crate) struct ApplyArgs {
    /// The folder
    folder: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The workspace that it is for
    #[arg(long, default_value = "default")]
    workspace: Workspace,
}

pub(crate) async fn run(args: ApplyArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(false)).await?;
    let done = match open.inside(args.workspace.clone()).await {
        Ok(cx) => apply(&args, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

/// Reads and checks a folder, and says what would change.
pub(crate) async fn check(open: &Open, cx: &Cx, path: &Path) -> Result<(), Failure> {
    planned(open, cx, path).await.map(drop)
}

/// Writes a folder without asking. Tells how many things changed.
pub(crate) async fn take_in(cx: &Cx, path: &Path) -> Result<usize, Failure> {
    let folder = Folder::read(path).map_err(|faults| told(&faults))?;
    let plan = Plan::make(cx, folder).await?.map_err(|faults| told(&faults))?;
    let changes = plan.changes();
    plan.write(cx, &mut |_| {}).await?;
    Ok(changes)
}

async fn apply(args: &ApplyArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let plan = planned(open, cx, &args.folder).await?;
    let changes = plan.changes();
    if changes == 0 {
        say("Nothing to do: everything is as the folder says.");
        return Ok(());
    }
    if args.dry_run {
        say(&format!("{changes} would change; without --dry-run they do."));
        return Ok(());
    }
    if !args.yes && !agreed(changes)? {
        say("Nothing was changed.");
        return Ok(());
    }
    let all = plan.len();
    plan.write(cx, &mut |done| say(&format!("{done} of {all} done"))).await?;
    say(&format!("{changes} changed."));
    Ok(())
}

async fn planned(open: &Open, cx: &Cx, path: &Path) -> Result<Plan, Failure> {
    let folder = match Folder::read(path) {
        Ok(folder) => folder,
        Err(faults) => return Err(told(&faults)),
    };
    let plan = match Plan::make(cx, folder).await? {
        Ok(plan) => plan,
        Err(faults) => return Err(told(&faults)),
    };
    let mut out = open.out();
    for line in plan.lines() {
        out.json(&line)?;
    }
    out.finish()?;
    Ok(plan)
}

fn told(faults: &[String]) -> Failure {
    for fault in faults.iter().take(100) {
        say(fault);
    }
    let more = faults.len().saturating_sub(100);
    if more > 0 {
        say(&format!("and {more} more"));
    }
    let one = if faults.len() == 1 { "fault" } else { "faults" };
    Failure::failed(format!("the folder has {} {one}; nothing was written", faults.len()))
}

fn agreed(changes: usize) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage("nobody is there to be asked")
            .hint("add --yes to write, or --dry-run to look"));
    }
    say(&format!("{changes} will change. Write them? [y/N]"));
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
