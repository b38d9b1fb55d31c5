//! `tidings campaign`: one message to many, for operators.
//!
//! Here: the commands (this file), a campaign from a file or flags (`drafted`), following one (`follow`, `bar`), looking at
//! whom it went to and what came of it (`looks`), and how all that is shown (`shown`).

mod bar;
mod drafted;
mod follow;
mod looks;
mod shown;

use std::ops::ControlFlow;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde_json::{Map, json};
use tidings_access::{Cx, Limit, Slug};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_kernel::{EmailAddress, Workspace};
use tidings_outreach::audience::Preview;
use tidings_outreach::campaigns::control::{self, ControlError, Start, When};
use tidings_outreach::campaigns::draft::{self, Find, List};
use tidings_outreach::campaigns::dry_run;
use tidings_outreach::campaigns::named::{self, Name, NameError, Slugs};
use tidings_outreach::campaigns::test_send::{self, TestSend};
use tidings_outreach::campaigns::written;
use tidings_outreach::campaigns::{Campaign, Schedule, Status};

use self::drafted::{DraftArgs, not_written};
use self::looks::{Became, WhichArgs};
use crate::config::Config;
use crate::consent::the_client;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

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
    workspace: Workspace,
    /// Lay each answer out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: CampaignCommand,
}

#[derive(Debug, Subcommand)]
enum CampaignCommand {
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
    /// Change a draft or a scheduled campaign; what is left out stays
    Update {
        /// Its key or its id
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
    },
    /// End a campaign for good: who has not got it does not get it
    Cancel {
        /// Its key or its id
        campaign: Name,
    },
    /// Send again to those where it failed, and to nobody else
    RetryFailed {
        /// Its key or its id
        campaign: Name,
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

pub(crate) async fn run(args: CampaignArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: CampaignCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    use CampaignCommand as C;
    match command {
        C::Send { draft, dry_run: true, .. } => foresee(open, cx, *draft).await,
        C::Send { draft, no_follow, .. } => send(open, cx, *draft, no_follow).await,
        C::Create { draft } => {
            let drafted = draft::create(cx, draft.draft(cx).await?).await.map_err(not_written)?;
            print(open, cx, &drafted.campaign).await
        }
        C::Update { campaign, draft } => update(open, cx, &campaign, *draft).await,
        C::Delete { campaign } => {
            let campaign = the_campaign(cx, &campaign).await?;
            draft::delete(cx, find(&campaign)).await.map_err(not_written)?;
            open.print(&json!({ "id": campaign.id.get(), "deleted": true }))
        }
        C::List { client, status, limit } => list(open, cx, (client, status), limit).await,
        C::Show { campaign } => {
            let campaign = the_campaign(cx, &campaign).await?;
            open.print(&shown::whole(&campaign, &slugs(cx, &campaign).await?))
        }
        C::Preview { campaign } => {
            let campaign = the_campaign(cx, &campaign).await?;
            let mut said = Looked::default();
            let mut seen = |preview: &Preview| said.see(preview);
            let run = dry_run::of_campaign(cx, &campaign, &mut seen).await?;
            open.print(&shown::dry_run(&run))
        }
        C::Test { campaign, to, variant } => test(open, cx, &campaign, (to, variant)).await,
        C::Watch { campaign } => {
            let campaign = the_campaign(cx, &campaign).await?;
            follow::follow(open, cx, find(&campaign)).await
        }
        C::Settle { recipient, outcome, reason } => {
            looks::settle(open, cx, (recipient, outcome), reason).await
        }
        other => look(other, open, cx).await,
    }
}

/// What came of a campaign.
async fn look(command: CampaignCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    use CampaignCommand as C;
    match command {
        C::Results { campaign } => {
            looks::show_results(open, cx, find(&the_campaign(cx, &campaign).await?)).await
        }
        C::Recipients { campaign, which, limit } => {
            let find = find(&the_campaign(cx, &campaign).await?);
            looks::list(open, cx, find, *which, limit).await
        }
        C::Export { campaign, which } => {
            looks::export(open, cx, find(&the_campaign(cx, &campaign).await?), *which).await
        }
        C::Why { campaign, email } => {
            looks::explain(open, cx, find(&the_campaign(cx, &campaign).await?), email).await
        }
        C::History { campaign } => {
            looks::history(open, cx, find(&the_campaign(cx, &campaign).await?)).await
        }
        C::Uncertain { campaign } => {
            looks::uncertain(open, cx, find(&the_campaign(cx, &campaign).await?)).await
        }
        control => steer(control, open, cx).await,
    }
}

/// What changes where a campaign is on its way.
async fn steer(command: CampaignCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    use CampaignCommand as C;
    let (changed, what) = match command {
        C::Start { campaign, now } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            let when = now.then_some(When::Now);
            (control::start(cx, Start { campaign, when }).await, "started before")
        }
        C::Schedule { campaign, at, local_time } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            let when = at.map(Schedule::At).or(local_time.map(Schedule::Local)).map(When::Then);
            (control::start(cx, Start { campaign, when }).await, "scheduled for then before")
        }
        C::Pause { campaign, reason } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            (control::pause(cx, campaign, reason).await, "paused before")
        }
        C::Resume { campaign } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            (control::resume(cx, campaign).await, "under way before")
        }
        C::Cancel { campaign } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            (control::cancel(cx, campaign).await, "cancelled before")
        }
        C::RetryFailed { campaign } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            let retried = control::retry_failed(cx, campaign).await.map_err(not_changed)?;
            say(&format!("{} are sent to again", retried.recipients));
            return print(open, cx, &retried.campaign).await;
        }
        _ => return Err(Failure::failed("this is no change of a campaign")),
    };
    let changed = changed.map_err(not_changed)?;
    if !changed.changed {
        say(&format!("Nothing was changed: it was {what}"));
    }
    print(open, cx, &changed.campaign).await
}

/// Makes it, starts it and follows it. Each can be done again.
async fn send(open: &Open, cx: &Cx, draft: DraftArgs, no_follow: bool) -> Result<(), Failure> {
    let drafted = draft::create(cx, draft.draft(cx).await?).await.map_err(not_written)?;
    let campaign = find(&drafted.campaign);
    if !drafted.created {
        say(&format!(
            "Campaign {} is there already; nothing is sent twice",
            drafted.campaign.key()
        ));
    }
    let started = control::start(cx, Start { campaign, when: None }).await;
    let started = started.map_err(not_changed)?.campaign;
    if no_follow || started.status == Status::Scheduled {
        let (key, server) = (started.key(), "a running server (`tidings serve`) sends it");
        match started.times.scheduled_at.filter(|_| started.status == Status::Scheduled) {
            Some(at) => say(&format!("Campaign {key} is scheduled for {at}; {server}")),
            None => say(&format!("Campaign {key} is under way; {server}")),
        }
        return print(open, cx, &started).await;
    }
    follow::follow(open, cx, campaign).await
}

async fn foresee(open: &Open, cx: &Cx, draft: DraftArgs) -> Result<(), Failure> {
    let draft = draft.draft(cx).await?;
    let mut said = Looked::default();
    let mut seen = |preview: &Preview| said.see(preview);
    let run = dry_run::of_draft(cx, draft, &mut seen).await.map_err(not_written)?;
    let preview = &run.preview;
    say(&format!(
        "{} are meant, {} would get it, {} of them later; nothing was sent or written down",
        preview.count, preview.sendable, preview.deferred
    ));
    open.print(&shown::dry_run(&run))
}

/// Says now and then how many were looked at.
#[derive(Default)]
struct Looked {
    said: u64,
}

impl Looked {
    fn see(&mut self, preview: &Preview) -> ControlFlow<()> {
        const EVERY: u64 = 50_000;
        if preview.looked_at / EVERY > self.said {
            self.said = preview.looked_at / EVERY;
            say(&format!("{} looked at, {} meant", preview.looked_at, preview.count));
        }
        ControlFlow::Continue(())
    }
}

async fn update(open: &Open, cx: &Cx, campaign: &Name, draft: DraftArgs) -> Result<(), Failure> {
    let before = the_campaign(cx, campaign).await?;
    let slugs = slugs(cx, &before).await?;
    let said = written::write(&before, (slugs.audience(&before), slugs.topic(&before)));
    let draft = draft.over(before.client, said)?;
    let updated = draft::update(cx, find(&before), draft).await.map_err(not_written)?;
    print(open, cx, &updated).await
}

async fn list(
    open: &Open,
    cx: &Cx,
    (client, status): (Option<Slug>, Option<Status>),
    limit: usize,
) -> Result<(), Failure> {
    let client = match client {
        Some(slug) => Some(the_client(cx, slug).await?),
        None => None,
    };
    let (mut out, mut after, mut left) = (open.out(), None, limit);
    while left > 0 {
        let list = List { client, status, after, limit: Limit::MAX };
        let page = draft::list(cx, list).await?;
        let slugs = named::slugs(cx, &page.items.iter().collect::<Vec<_>>()).await?;
        for campaign in page.items.iter().take(left) {
            left -= 1;
            out.json(&shown::short(campaign, &slugs))?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

async fn test(
    open: &Open,
    cx: &Cx,
    campaign: &Name,
    (to, variant): (Vec<EmailAddress>, Option<String>),
) -> Result<(), Failure> {
    let campaign = the_campaign(cx, campaign).await?;
    let cmd = TestSend { campaign, to, variant, context: Map::new(), idempotency_key: None };
    let told = test_send::test(cx, &Messages::new(Templates::default()), cmd).await?;
    let (mut out, mut all_good) = (open.out(), true);
    for one in told {
        let shown = match &one.answer {
            Ok(accepted) => json!({
                "to": one.to.as_str(),
                "variant": one.variant,
                "id": accepted.id.get(),
                "status": accepted.status.as_str(),
                "skip_reason": accepted.skip_reason,
            }),
            Err(error) => {
                all_good = false;
                json!({ "to": one.to.as_str(), "variant": one.variant, "error": error.to_string() })
            }
        };
        out.json(&shown)?;
    }
    out.finish()?;
    if all_good { Ok(()) } else { Err(Failure::told()) }
}

async fn the_campaign(cx: &Cx, name: &Name) -> Result<Campaign, Failure> {
    named::find(cx, name, None).await.map_err(|error| match error {
        NameError::Missing(_) => {
            Failure::from(error).hint("`tidings campaign list` shows those that there are")
        }
        NameError::Store(_) => error.into(),
    })
}

fn find(campaign: &Campaign) -> Find {
    Find { id: campaign.id, client: None }
}

async fn slugs(cx: &Cx, campaign: &Campaign) -> Result<Slugs, Failure> {
    Ok(named::slugs(cx, &[campaign]).await?)
}

async fn print(open: &Open, cx: &Cx, campaign: &Campaign) -> Result<(), Failure> {
    open.print(&shown::short(campaign, &slugs(cx, campaign).await?))
}

fn not_changed(error: ControlError) -> Failure {
    match error {
        ControlError::Invalid(_) => Failure::from(error)
            .hint("`tidings templates list` and `tidings senders list` show what there is"),
        ControlError::Illegal { .. } => {
            Failure::from(error).hint("`tidings campaign show` says where it is on its way")
        }
        ControlError::Missing(_) | ControlError::Reason | ControlError::Contended => error.into(),
        ControlError::Store(error) => error.into(),
    }
}
