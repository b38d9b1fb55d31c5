//! `tidings campaign`: one message to many, for operators.
//!
//! Here: what each command does (this file), what can be asked (`args`), a campaign from a file or flags (`drafted`),
//! following one (`follow`, `bar`), looking at whom it went to and what came of it (`looks`, `broadcasts`), and how all
//! that is shown (`shown`).

mod args;
mod bar;
mod broadcasts;
mod drafted;
mod follow;
mod looks;
mod shown;

use std::ops::ControlFlow;

use serde_json::{Map, json};
use tidings_access::{Cx, Limit, Slug};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_kernel::EmailAddress;
use tidings_outreach::audience::Preview;
use tidings_outreach::campaigns::control::{self, ControlError, Start, When};
use tidings_outreach::campaigns::draft::{self, Find, List};
use tidings_outreach::campaigns::dry_run;
use tidings_outreach::campaigns::duplicate;
use tidings_outreach::campaigns::named::{self, Name, NameError, Slugs};
use tidings_outreach::campaigns::test_send::{self, TestSend};
use tidings_outreach::campaigns::written;
use tidings_outreach::campaigns::{Campaign, Schedule, Status};

pub(crate) use self::args::CampaignArgs;
use self::args::CampaignCommand;
pub(crate) use self::bar::{grouped, long};
use self::drafted::{DraftArgs, not_written};
use crate::config::Config;
use crate::consent::the_client;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

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
        C::Duplicate { campaign, draft } => copy(open, cx, &campaign, *draft).await,
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
        C::Broadcasts { which } => broadcasts::print(open, cx, *which).await,
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
        C::Resume { campaign, reason } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            (control::resume(cx, campaign, reason).await, "under way before")
        }
        C::Cancel { campaign, reason } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            (control::cancel(cx, campaign, reason).await, "cancelled before")
        }
        C::RetryFailed { campaign, reason } => {
            let campaign = find(&the_campaign(cx, &campaign).await?);
            let retried = control::retry_failed(cx, campaign, reason).await.map_err(not_changed)?;
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

async fn copy(open: &Open, cx: &Cx, campaign: &Name, draft: DraftArgs) -> Result<(), Failure> {
    let before = the_campaign(cx, campaign).await?;
    let draft = draft.over(before.client, duplicate::form(cx, &before).await?)?;
    let drafted = draft::create(cx, draft).await.map_err(not_written)?;
    print(open, cx, &drafted.campaign).await
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
