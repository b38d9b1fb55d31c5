//! `tidings workspaces`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::Limit;
use tidings_access::workspaces::{self, CreateError, Registration};
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout, no_workspace};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings workspaces list
  tidings workspaces create acme
  tidings workspaces disable acme")]
pub(crate) struct WorkspacesArgs {
    /// Lay each workspace out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: WorkspacesCommand,
}

#[derive(Debug, Subcommand)]
enum WorkspacesCommand {
    /// Print all workspaces, by name
    List,
    /// Make a workspace
    Create(Named),
    /// Refuse all keys of a workspace, until it is enabled again
    Disable(Named),
    /// Take the keys of a workspace again
    Enable(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Its name: up to 40 lower-case letters, digits and hyphens
    name: Workspace,
}

#[derive(Serialize)]
struct Shown {
    name: Workspace,
    disabled_at: Option<Timestamp>,
    created_at: Timestamp,
}

pub(crate) async fn run(args: WorkspacesArgs, config: &Config) -> Result<(), Failure> {
    let layout = layout(args.pretty);
    let open = match args.command {
        WorkspacesCommand::Create(_) => Open::make(config, layout).await?,
        WorkspacesCommand::List | WorkspacesCommand::Disable(_) | WorkspacesCommand::Enable(_) => {
            Open::existing(config, layout).await?
        }
    };
    let done = answer(args.command, &open).await;
    open.close().await;
    done
}

async fn answer(command: WorkspacesCommand, open: &Open) -> Result<(), Failure> {
    let access = &open.access;
    let workspace = match command {
        WorkspacesCommand::List => return list(open).await,
        WorkspacesCommand::Create(Named { name }) => {
            workspaces::create(access, name).await.map_err(taken)?
        }
        WorkspacesCommand::Disable(Named { name }) => {
            let disabled = workspaces::disable(access, name).await.map_err(no_workspace)?;
            super::until_everybody_knows().await;
            disabled
        }
        WorkspacesCommand::Enable(Named { name }) => {
            workspaces::enable(access, name).await.map_err(no_workspace)?
        }
    };
    open.print(&Shown::from(workspace))
}

async fn list(open: &Open) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = workspaces::list(&open.access, after, Limit::MAX).await?;
        for workspace in page.items {
            out.json(&Shown::from(workspace))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

fn taken(error: CreateError) -> Failure {
    match error {
        CreateError::Taken(_) => {
            Failure::from(error).hint("`tidings workspaces list` shows those that there are")
        }
        CreateError::Store(_) => error.into(),
    }
}

impl From<Registration> for Shown {
    fn from(workspace: Registration) -> Self {
        Self {
            name: workspace.name,
            disabled_at: workspace.disabled_at,
            created_at: workspace.created_at,
        }
    }
}
