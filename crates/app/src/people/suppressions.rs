//! `tidings suppressions`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidings_access::{Cx, Limit};
use tidings_kernel::{EmailAddress, Workspace};
use tidings_people::suppression::{
    self, AtProvider, Kind, Lift, LiftError, Reason, Suppress, Suppressed, Suppression,
};

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::outlet;
use crate::output::say;

const SHOW_ALL: &str = "`tidings suppressions list` shows those that there are";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings suppressions list
  tidings suppressions show ada@example.org
  tidings suppressions add ada@example.org --reason 'asked us by phone'
  tidings suppressions remove ada@example.org --reason 'the mailbox is back'")]
pub(crate) struct SuppressionsArgs {
    /// The workspace whose suppressions are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each suppression out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: SuppressionsCommand,
}

#[derive(Debug, Subcommand)]
enum SuppressionsCommand {
    /// Print all suppressed addresses
    List,
    /// Print why an address is suppressed, also if whoever had it was erased
    Show {
        /// The address
        email: EmailAddress,
    },
    /// Send nothing to an address any more, whatever anybody agrees to
    Add {
        /// The address; it need not be a contact's
        email: EmailAddress,
        /// Why
        #[arg(long)]
        reason: Reason,
        /// Permanent, Complaint, Transient or Manual
        #[arg(long = "type", default_value = "Manual")]
        kind: Kind,
        /// More about it
        #[arg(long)]
        note: Option<Reason>,
    },
    /// Let mail go to an address again, as far as consent allows
    Remove {
        /// The address
        email: EmailAddress,
        /// Why
        #[arg(long)]
        reason: Reason,
    },
}

pub(crate) async fn run(args: SuppressionsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx, config).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(
    command: SuppressionsCommand,
    open: &Open,
    cx: &Cx,
    config: &Config,
) -> Result<(), Failure> {
    match command {
        SuppressionsCommand::List => list(open, cx).await,
        SuppressionsCommand::Show { email } => show(open, cx, &email).await,
        SuppressionsCommand::Add { email, reason, kind, note } => {
            let (source, at) = (None, cx.now());
            let cmd = Suppress { email, kind, reason, source, note, at };
            let provider = outlet::suppressions(config).await?;
            match suppression::suppress_everywhere(cx, cmd, provider.as_deref()).await? {
                Suppressed::New(suppression) => open.print(&shown(&suppression)),
                Suppressed::Already(suppression) => {
                    say("The address was suppressed before.");
                    open.print(&shown(&suppression))
                }
                Suppressed::Stale => Err(Failure::failed("the suppression was lifted meanwhile")),
            }
        }
        SuppressionsCommand::Remove { email, reason } => {
            let provider = outlet::suppressions(config).await?;
            let lift = Lift { email, reason };
            let lifted = suppression::lift_everywhere(cx, lift, provider.as_deref()).await;
            let (lifted, there) = lifted.map_err(|error| match error {
                LiftError::Missing => Failure::from(error).hint(SHOW_ALL),
                LiftError::Store(_) => error.into(),
            })?;
            if there == AtProvider::NotReached {
                say("The provider could not be reached: remove the address from its list by hand.");
            }
            let mut told = shown(&lifted);
            told["provider"] = there.as_str().into();
            open.print(&told)
        }
    }
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = suppression::list(cx, after, Limit::MAX).await?;
        for suppression in &page.items {
            out.json(&shown(suppression))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

async fn show(open: &Open, cx: &Cx, email: &EmailAddress) -> Result<(), Failure> {
    let status = suppression::status(cx, email).await?;
    let missing = || Failure::from(LiftError::Missing).hint(SHOW_ALL);
    open.print(&shown(&status.suppression.ok_or_else(missing)?))
}

pub(super) fn shown(suppression: &Suppression) -> Value {
    json!({
        "email": suppression.email.as_str(),
        "type": suppression.kind.as_str(),
        "reason": suppression.reason,
        "suppressed_at": suppression.suppressed_at,
        "source": suppression.source,
        "actor": suppression.actor,
        "note": suppression.note,
    })
}
