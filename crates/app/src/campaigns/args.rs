//! What can be asked of `tidings campaign`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::DateTime;
use tidings_access::Slug;
use tidings_kernel::{EmailAddress, Workspace};
use tidings_outreach::campaigns::Status;
use tidings_outreach::campaigns::named::Name;

use super::broadcasts::BroadcastsArgs;
use super::drafted::DraftArgs;
use super::looks::{Became, WhichArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings campaign send --key spring --audience newsletter --template spring --dry-run
  tidings campaign send --key spring --audience newsletter --template spring
  tidings campaign send --file spring.toml --at 2030-03-20T09:00:00Z
  tidings campaign test spring --to me@example.org
  tidings campaign watch spring
  tidings campaign pause spring
  tidings campaign list --status sending

A campaign is named by its key or its id. The work is done by a running server (`tidings serve`); these commands write
down what is wanted and look. See docs/campaigns.md.")]
pub(crate) struct CampaignArgs {
    /// The workspace whose campaigns are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    pub(super) workspace: Workspace,
    /// Lay each answer out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pub(super) pretty: bool,
    #[command(subcommand)]
    pub(super) command: CampaignCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum CampaignCommand {
    /// Make a campaign, start it and follow it until it is sent
    #[command(after_help = "\
Examples:
  tidings campaign send --key spring --audience newsletter --template spring --dry-run
  tidings campaign send --key spring --audience newsletter --subject 'Hello {{ firstName }}' --html-file spring.html
  tidings campaign send --file spring.toml
  tidings campaign send --key beta --filter '{\"tag\":\"beta\"}' --template beta --rate-per-hour 2000

Ctrl-C leaves it: the campaign goes on in the server, and `tidings campaign watch KEY` follows it again. Sending the same
again with the same key sends nothing twice: it follows the campaign that is there.")]
    Send {
        #[command(flatten)]
        draft: Box<DraftArgs>,
        /// Only say whom it would go to
        #[arg(long)]
        dry_run: bool,
        /// Start it and do not follow it
        #[arg(long, conflicts_with = "dry_run")]
        no_follow: bool,
    },
    /// Make a campaign as a draft; nothing is sent before it is started
    Create {
        #[command(flatten)]
        draft: Box<DraftArgs>,
    },
    /// Change a campaign that has not begun; what is left out stays
    Update {
        /// Its key or its id
        campaign: Name,
        #[command(flatten)]
        draft: Box<DraftArgs>,
    },
    /// Make another campaign like one that there is, as a draft; flags say what is other about it
    #[command(after_help = "\
Examples:
  tidings campaign duplicate spring --key summer
  tidings campaign duplicate spring --key spring-2 --subject 'Once more' --filter '{\"tag\":\"beta\"}'

The new one has the content of the other and means the same people, but has no time yet.")]
    Duplicate {
        /// The key or the id of the one that there is
        campaign: Name,
        #[command(flatten)]
        draft: Box<DraftArgs>,
    },
    /// Delete a draft
    Delete {
        /// Its key or its id
        campaign: Name,
    },
    /// Print campaigns, the newest first
    List {
        /// Only those of this client
        #[arg(long, value_name = "SLUG")]
        client: Option<Slug>,
        /// Only those with this status
        #[arg(long)]
        status: Option<Status>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Print a campaign with everything in it
    Show {
        /// Its key or its id
        campaign: Name,
    },
    /// Say whom a campaign would go to, and why others would not get it
    Preview {
        /// Its key or its id
        campaign: Name,
    },
    /// Send a campaign to a few people to try it; a running server sends it
    Test {
        /// Its key or its id
        campaign: Name,
        /// To whom; up to 25 times
        #[arg(long, value_name = "EMAIL", required = true)]
        to: Vec<EmailAddress>,
        /// The name of one of its variants [default: all of them]
        #[arg(long, value_name = "NAME")]
        variant: Option<String>,
    },
    /// Start a campaign, when it says itself or now; a running server sends it
    Start {
        /// Its key or its id
        campaign: Name,
        /// Now, whatever it says itself
        #[arg(long)]
        now: bool,
    },
    /// Say when a campaign goes
    #[command(group = clap::ArgGroup::new("when").required(true))]
    Schedule {
        /// Its key or its id
        campaign: Name,
        /// Then, within a year
        #[arg(long, value_name = "TIME", group = "when")]
        at: Option<Timestamp>,
        /// When it is that time where each person is, such as 2030-01-31T09:00
        #[arg(long, value_name = "TIME", group = "when")]
        local_time: Option<DateTime>,
    },
    /// Stop a campaign until it is resumed
    Pause {
        /// Its key or its id
        campaign: Name,
        /// Why, for those who look later
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a paused campaign go on
    Resume {
        /// Its key or its id
        campaign: Name,
        /// Why, for those who look later
        #[arg(long)]
        reason: Option<String>,
    },
    /// End a campaign for good: who has not got it does not get it
    Cancel {
        /// Its key or its id
        campaign: Name,
        /// Why, for those who look later
        #[arg(long)]
        reason: Option<String>,
    },
    /// Send again to those where it failed, and to nobody else
    RetryFailed {
        /// Its key or its id
        campaign: Name,
        /// Why, for those who look later
        #[arg(long)]
        reason: Option<String>,
    },
    /// Follow a campaign until it has its end; Ctrl-C leaves it alone
    Watch {
        /// Its key or its id
        campaign: Name,
    },
    /// Print what came of a campaign, in numbers
    Results {
        /// Its key or its id
        campaign: Name,
    },
    /// Print the records of the campaigns that have begun, with what came back, the newest first
    Broadcasts {
        #[command(flatten)]
        which: Box<BroadcastsArgs>,
    },
    /// Print whom a campaign went to, one by one
    Recipients {
        /// Its key or its id
        campaign: Name,
        #[command(flatten)]
        which: Box<WhichArgs>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Print whom a campaign went to as CSV, all of them
    Export {
        /// Its key or its id
        campaign: Name,
        #[command(flatten)]
        which: Box<WhichArgs>,
    },
    /// Say why somebody got a campaign, or did not
    Why {
        /// Its key or its id
        campaign: Name,
        /// Of whom
        email: EmailAddress,
    },
    /// Print each change of a campaign's status, the latest first
    History {
        /// Its key or its id
        campaign: Name,
    },
    /// Print those to whom it was handed over without an answer, the oldest first
    Uncertain {
        /// Its key or its id
        campaign: Name,
    },
    /// Say what became of an uncertain recipient
    Settle {
        /// The id of the recipient, as `uncertain` prints it
        recipient: i64,
        /// What became of it
        outcome: Became,
        /// How that is known
        #[arg(long)]
        reason: Option<String>,
    },
}
