//! Looking at what came of a campaign: the numbers, whom it went to, why (not), and whom nobody knows about.

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use tidings_access::{Cx, Limit};
use tidings_kernel::EmailAddress;
use tidings_outreach::campaigns::draft::{self, Find};
use tidings_outreach::campaigns::recipients::{self, Export, Filter, Happened, Recipient, State};
use tidings_outreach::campaigns::results::{self, Rates, Results};
use tidings_outreach::campaigns::sending::{self, SettleError, UncertainList};
use tidings_outreach::campaigns::why;

use super::bar::grouped;
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

#[derive(Debug, Args)]
pub(super) struct WhichArgs {
    /// Where they are now: pending, claimed, sent, failed, skipped, uncertain, delivered, bounced or complained
    #[arg(long)]
    status: Option<State>,
    /// Skipped for this reason
    #[arg(long, value_name = "REASON")]
    skip_reason: Option<String>,
    /// Failed so
    #[arg(long, value_name = "REASON")]
    fail_reason: Option<String>,
    /// The place of their variant, from 0
    #[arg(long, value_name = "N")]
    variant: Option<i64>,
    /// What happened, whatever happened after it: opened, clicked, bounced, complained or unsubscribed
    #[arg(long, value_name = "WHAT")]
    happened: Vec<Happened>,
    /// Whoever has this address
    #[arg(long)]
    email: Option<EmailAddress>,
}

impl WhichArgs {
    fn filter(self) -> Filter {
        Filter {
            state: self.status,
            skip_reason: self.skip_reason,
            fail_reason: self.fail_reason,
            arm: self.variant,
            happened: self.happened,
            email: self.email,
        }
    }
}

pub(super) async fn show_results(open: &Open, cx: &Cx, find: Find) -> Result<(), Failure> {
    let results = results::results(cx, find).await?;
    say(&in_words(&results));
    open.print(&results)
}

/// The few numbers that most want to know.
fn in_words(results: &Results) -> String {
    let (outcomes, totals, rates) = (&results.outcomes, &results.totals, &results.rates);
    let Rates { human_opened, human_clicked, .. } = rates;
    let part = |rate: &Option<f64>| match rate {
        Some(rate) => format!(" ({:.1} %)", rate * 100.0),
        None => String::new(),
    };
    format!(
        "{} is {}: {} of {} sent, {} skipped, {} failed, {} uncertain, {} pending.\n\
         People opened {}{} and clicked {}{}; {} bounced, {} complained, {} unsubscribed.",
        results.key,
        results.status,
        grouped(outcomes.sent),
        grouped(results.recipients),
        grouped(outcomes.skipped),
        grouped(outcomes.failed),
        grouped(outcomes.uncertain),
        grouped(outcomes.pending),
        grouped(totals.unique_human_open_count),
        part(human_opened),
        grouped(totals.unique_human_click_count),
        part(human_clicked),
        grouped(totals.bounce_count),
        grouped(totals.complaint_count),
        grouped(totals.unsubscribe_count),
    )
}

pub(super) async fn list(
    open: &Open,
    cx: &Cx,
    find: Find,
    which: WhichArgs,
    limit: usize,
) -> Result<(), Failure> {
    let (filter, mut out) = (which.filter(), open.out());
    let (mut after, mut left) = (None, limit);
    while left > 0 {
        let page = recipients::list(cx, find, filter.clone(), (after, Limit::MAX)).await?;
        for one in page.items.iter().take(left) {
            left -= 1;
            out.json(&shown(one))?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

fn shown(one: &Recipient) -> Value {
    let times = &one.times;
    let mut shown = json!({
        "id": one.id.get(),
        "contact_id": one.contact.get(),
        "email": one.email,
        "status": one.state.as_str(),
        "skip_reason": one.skip_reason,
        "fail_reason": one.fail_reason,
        "last_error": one.last_error,
        "attempts": one.attempts,
        "variant": one.arm,
        "provider": one.provider,
        "provider_message_id": one.provider_message_id,
        "open_count": one.opens,
        "click_count": one.clicks,
        "due_at": times.due_at,
        "sent_at": times.sent_at,
        "delivered_at": times.delivered_at,
        "bounced_at": times.bounced_at,
        "complained_at": times.complained_at,
        "first_opened_at": times.opened_at,
        "first_clicked_at": times.clicked_at,
        "unsubscribed_at": times.unsubscribed_at,
    });
    if let Some(fields) = shown.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    shown
}

pub(super) async fn export(
    open: &Open,
    cx: &Cx,
    find: Find,
    which: WhichArgs,
) -> Result<(), Failure> {
    let mut export = Export::new(cx.clone(), find, which.filter());
    let mut out = open.out();
    while let Some(piece) = export.next().await? {
        let text = String::from_utf8(piece).context("an export is text")?;
        out.text(&text)?;
    }
    out.finish()
}

pub(super) async fn explain(
    open: &Open,
    cx: &Cx,
    find: Find,
    email: EmailAddress,
) -> Result<(), Failure> {
    let why = why::why(cx, find, email).await?;
    say(why.answer.in_words());
    for step in &why.steps {
        let mark = match step.speaks_for {
            Some(true) => '+',
            Some(false) => '-',
            None => ' ',
        };
        let at = step.at.map(|at| format!("  {at:.0}")).unwrap_or_default();
        say(&format!("  {mark} {}{at}", step.told));
    }
    open.print(&json!({
        "campaign_id": why.campaign.get(),
        "email": why.email.as_str(),
        "answer": why.answer.as_str(),
        "steps": why.steps,
        "recipient": why.recipient.as_ref().map(shown),
    }))
}

pub(super) async fn history(open: &Open, cx: &Cx, find: Find) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = draft::moves(cx, find, after, Limit::MAX).await?;
        for one in page.items {
            out.json(&json!({
                "at": one.at,
                "status": one.status.as_str(),
                "reason": one.reason,
                "actor": one.actor,
            }))?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return out.finish(),
        }
    }
}

pub(super) async fn uncertain(open: &Open, cx: &Cx, find: Find) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let list = UncertainList { campaign: find.id, after, limit: Limit::MAX };
        let page = sending::uncertain(cx, list).await?;
        for one in page.items {
            out.json(&json!({
                "id": one.id.get(),
                "campaign_id": one.campaign.get(),
                "contact_id": one.contact,
                "email": one.email,
                "handed_at": one.handed_at,
                "provider": one.provider,
                "last_error": one.last_error,
            }))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Became {
    Sent,
    Failed,
}

pub(super) async fn settle(
    open: &Open,
    cx: &Cx,
    (recipient, outcome): (i64, Became),
    reason: Option<String>,
) -> Result<(), Failure> {
    let (outcome, word) = match outcome {
        Became::Sent => (sending::Settled::Sent, "sent"),
        Became::Failed => (sending::Settled::NotSent, "failed"),
    };
    let cmd = sending::Settle { recipient: recipient.into(), outcome, reason };
    sending::settle(cx, cmd).await.map_err(|error| match error {
        SettleError::Missing(_) | SettleError::NotUncertain { .. } => {
            Failure::from(error).hint("`tidings campaign uncertain KEY` shows those that can be")
        }
        SettleError::Reason | SettleError::Store(_) => error.into(),
    })?;
    open.print(&json!({ "id": recipient, "status": word }))
}
