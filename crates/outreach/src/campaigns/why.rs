//! Why somebody got a campaign, or did not: everything that is known of it, in its order.
//!
//! Who has a row was meant: the row says what became of it. Who has none was not meant when the recipients were written
//! down, or was not there yet; what a condition says of him is said of now, as nobody knows any more what was true
//! then. Here are steps as data; surfaces print them.

use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, StorageError};
use tidings_delivery::eligibility::{Explanation, Outcome, Verdict};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::batches::{Batch, batch_id};
use super::draft::Find;
use super::recipients::{self, Filter, Recipient, State};
use super::results::LookError;
use super::{Campaign, CampaignId, Status, batches, snapshot, store};
use crate::audience::{self, Condition, Told, Walk};

/// The answer, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub campaign: CampaignId,
    pub email: EmailAddress,
    pub answer: Answer,
    /// In the order in which they happened, or were decided.
    pub steps: Vec<Step>,
    /// The row of the ledger, if he was meant.
    pub recipient: Option<Recipient>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The campaign has not started.
    NotStarted,
    /// Its recipients are still being written down.
    NotYet,
    /// Nobody has this address.
    NoContact,
    /// The audience or the condition leaves him out.
    NotMeant,
    /// He came after the recipients were written down.
    AddedLater,
    /// He would be meant now, and was not then: what is known of him has changed.
    MeantSince,
    /// He is to get it.
    Waiting,
    Skipped,
    Failed,
    /// It was handed over, and nobody knows whether it was taken.
    Uncertain,
    Sent,
}

/// One thing that decided or happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    pub kind: StepKind,
    /// When it happened. `None` for what is true now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Whether it speaks for sending (`true`) or against it. `None` for what only happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaks_for: Option<bool>,
    /// In words.
    pub told: String,
    /// The condition with all its parts, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Told>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    Campaign,
    Snapshot,
    Contact,
    Audience,
    Condition,
    Recipient,
    Variant,
    Batch,
    Handed,
    Refused,
    Skipped,
    Failed,
    Uncertain,
    Sent,
    Delivered,
    Bounced,
    Complained,
    Opened,
    Clicked,
    Unsubscribed,
    /// What the gate of all mail says now.
    Eligibility,
}

/// What the relations know of it.
struct Known {
    campaign: Campaign,
    recipient: Option<Recipient>,
    batch: Option<Batch>,
    /// Since when somebody has the address.
    added_at: Option<Timestamp>,
}

/// Tells why whoever has an address got a campaign, or did not.
pub async fn why(cx: &Cx, find: Find, email: EmailAddress) -> Result<Why, LookError> {
    let (within, asked) = (cx.clone(), email.clone());
    let read = cx.database().read(move |tx| known(tx, &within, find, &asked));
    let known = read.await?.ok_or(LookError::Missing(find.id))?;
    let campaign = &known.campaign;
    let mut steps = vec![of_campaign(campaign)];
    steps.extend(of_snapshot(campaign));
    steps.push(of_contact(known.added_at));
    let answer = match &known.recipient {
        Some(recipient) => {
            steps.extend(of_recipient(campaign, recipient));
            steps.extend(known.batch.as_ref().map(|batch| of_batch(campaign.id, batch)));
            steps.extend(of_row(recipient));
            answered(recipient)
        }
        None => {
            let meant = of_audience(cx, campaign, &email, &mut steps).await?;
            unwritten(campaign, known.added_at, meant)
        }
    };
    steps.extend(of_eligibility(cx, campaign, written_to(&known, &email)).await?);
    Ok(Why { campaign: campaign.id, email, answer, steps, recipient: known.recipient })
}

/// The address that he is written to at: that of his row, if it has one.
fn written_to(known: &Known, email: &EmailAddress) -> EmailAddress {
    let of_row = known.recipient.as_ref().and_then(|one| one.email.as_deref());
    of_row.and_then(|of_row| of_row.parse().ok()).unwrap_or_else(|| email.clone())
}

fn known(
    tx: &mut Tx<'_>,
    cx: &Cx,
    find: Find,
    email: &EmailAddress,
) -> Result<Option<Known>, DatabaseError> {
    let found = store::glance(tx, cx, find.id)?.filter(|one| find.sees(one));
    let Some(campaign) = found else { return Ok(None) };
    let filter = Filter { email: Some(email.clone()), ..Filter::default() };
    let mut rows = recipients::select(tx, cx, &campaign, &filter, (0, 10))?;
    // Two who became one person since may both have one: the one that was sent to this address comes first.
    rows.sort_by_key(|row| row.email.as_deref() != Some(email.as_str()));
    let recipient = rows.into_iter().next();
    let named = recipient.as_ref().and_then(|one| one.batch.as_deref());
    let batch = match named.and_then(batches::number_of) {
        Some(number) => batches::find(tx, cx, campaign.id, number)?,
        None => None,
    };
    let sql = "SELECT created_at FROM channel_identities
               WHERE workspace_id = $1 AND channel = 'email' AND value = $2";
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(email.as_str())];
    let added_at = tx.query(sql, &params)?.first().map(|row| row.time(0)).transpose()?;
    Ok(Some(Known { campaign, recipient, batch, added_at }))
}

fn answered(recipient: &Recipient) -> Answer {
    match recipient.state {
        _ if recipient.times.sent_at.is_some() => Answer::Sent,
        State::Pending | State::Claimed => Answer::Waiting,
        State::Skipped => Answer::Skipped,
        State::Failed => Answer::Failed,
        State::Uncertain => Answer::Uncertain,
        State::Sent | State::Delivered | State::Bounced | State::Complained => Answer::Sent,
    }
}

/// Of somebody without a row.
fn unwritten(campaign: &Campaign, added_at: Option<Timestamp>, meant: bool) -> Answer {
    let started = campaign.times.started_at;
    match (started, campaign.progress.snapshot_done_at) {
        (None, _) => Answer::NotStarted,
        _ if added_at.is_none() => Answer::NoContact,
        // It was stopped before everybody was written down.
        (_, None) if meant => Answer::NotYet,
        (Some(started), Some(_)) if meant && added_at.is_some_and(|at| at > started) => {
            Answer::AddedLater
        }
        _ if meant => Answer::MeantSince,
        _ => Answer::NotMeant,
    }
}

impl Step {
    fn new(kind: StepKind, told: impl Into<String>) -> Self {
        Self { kind, at: None, speaks_for: None, told: told.into(), condition: None }
    }

    fn at(mut self, at: impl Into<Option<Timestamp>>) -> Self {
        self.at = at.into();
        self
    }

    fn speaks(mut self, speaks_for: bool) -> Self {
        self.speaks_for = Some(speaks_for);
        self
    }
}

fn of_campaign(campaign: &Campaign) -> Step {
    let mut told = format!("campaign {} is {}", campaign.id, campaign.status);
    let reason = match campaign.status {
        Status::Paused => campaign.pause_reason.as_deref(),
        Status::Failed => campaign.last_error.as_deref(),
        _ => None,
    };
    if let Some(reason) = reason {
        told += &format!(": {reason}");
    }
    let step = Step::new(StepKind::Campaign, told).at(campaign.status_at);
    match campaign.status {
        Status::Sending | Status::Sent => step.speaks(true),
        Status::Snapshotting => step,
        _ => step.speaks(false),
    }
}

fn of_snapshot(campaign: &Campaign) -> Vec<Step> {
    let step = |told: &str| Step::new(StepKind::Snapshot, told);
    let Some(started) = campaign.times.started_at else {
        return vec![step("nobody is written down as a recipient yet").speaks(false)];
    };
    let begun = step("its recipients began to be written down").at(started);
    let end = match campaign.progress.snapshot_done_at {
        Some(done) => {
            let count = campaign.progress.recipients;
            step(&format!("all {count} recipients were written down")).at(done)
        }
        None => step("not all recipients are written down"),
    };
    vec![begun, end]
}

fn of_contact(added_at: Option<Timestamp>) -> Step {
    match added_at {
        Some(at) => Step::new(StepKind::Contact, "a contact has this address").at(at).speaks(true),
        None => Step::new(StepKind::Contact, "no contact has this address").speaks(false),
    }
}

fn of_recipient(campaign: &Campaign, recipient: &Recipient) -> Vec<Step> {
    let told = format!("he was meant, and is recipient {}", recipient.id);
    let written = Step::new(StepKind::Recipient, told).at(recipient.times.created_at).speaks(true);
    let place = recipient.arm.and_then(|arm| usize::try_from(arm).ok());
    let variant = place.and_then(|place| campaign.variants.get(place));
    let variant = match variant {
        Some(variant) => Some(Step::new(StepKind::Variant, format!("variant {}", variant.name))),
        None if campaign.variants.is_empty() => None,
        None => {
            let told = "he gets the variant that does best, which is not known yet";
            let step = Step::new(StepKind::Variant, told);
            Some(step.at(campaign.progress.decide_at).speaks(false))
        }
    };
    [Some(written), variant].into_iter().flatten().collect()
}

fn of_batch(campaign: CampaignId, batch: &Batch) -> Step {
    let id = batch_id(campaign, batch.number);
    let (told, at) = match (batch.fed_at, batch.done_at) {
        (_, Some(done)) => ("is done", done),
        (Some(fed), None) => ("is on the queue", fed),
        (None, None) if batch.held => ("waits until the best variant is known", batch.due_at),
        (None, None) => ("waits for its turn", batch.due_at),
    };
    Step::new(StepKind::Batch, format!("batch {id} {told}")).at(at)
}

/// What the row says of itself, in the order of time; how it ended comes last.
fn of_row(recipient: &Recipient) -> Vec<Step> {
    let times = &recipient.times;
    let provider = recipient.provider.as_deref().unwrap_or("the provider");
    let called = match &recipient.provider_message_id {
        Some(id) => format!("{provider} took it as {id}"),
        None => format!("{provider} took it"),
    };
    let often = |count: i64| if count == 1 { "once".into() } else { format!("{count} times") };
    let opened = format!("it was opened {}", often(recipient.opens));
    let clicked = format!("a link was clicked {}", often(recipient.clicks));
    let handed = format!("it was handed to {provider}");
    let happened = [
        (StepKind::Handed, times.handed_at, handed.as_str()),
        (StepKind::Sent, times.sent_at, &called),
        (StepKind::Delivered, times.delivered_at, "it arrived"),
        (StepKind::Bounced, times.bounced_at, "it came back"),
        (StepKind::Opened, times.opened_at, &opened),
        (StepKind::Clicked, times.clicked_at, &clicked),
        (StepKind::Complained, times.complained_at, "he complained"),
        (StepKind::Unsubscribed, times.unsubscribed_at, "he unsubscribed because of it"),
    ];
    let mut steps: Vec<_> = happened
        .into_iter()
        .filter_map(|(kind, at, told)| at.map(|at| Step::new(kind, told).at(at)))
        .collect();
    // Stable, so what happened at the same time stays in the order above.
    steps.sort_by_key(|step| step.at);
    if recipient.refusals > 0 {
        let said = recipient.last_error.as_deref().unwrap_or("nothing");
        let told =
            format!("{provider} did not take it {}; last: {said}", often(recipient.refusals));
        steps.insert(0, Step::new(StepKind::Refused, told).speaks(false));
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "no reason".to_owned());
    let end = match recipient.state {
        State::Skipped => {
            Some((StepKind::Skipped, format!("skipped: {}", text(&recipient.skip_reason))))
        }
        State::Failed => {
            let (kind, said) = (text(&recipient.fail_reason), text(&recipient.last_error));
            Some((StepKind::Failed, format!("failed: {kind}: {said}")))
        }
        State::Uncertain => {
            let said = text(&recipient.last_error);
            Some((StepKind::Uncertain, format!("nobody knows whether it was taken: {said}")))
        }
        _ => None,
    };
    steps.extend(end.map(|(kind, told)| Step::new(kind, told).at(times.updated_at).speaks(false)));
    steps
}

/// Whether he would be meant now, and why (not).
async fn of_audience(
    cx: &Cx,
    campaign: &Campaign,
    email: &EmailAddress,
    steps: &mut Vec<Step>,
) -> Result<bool, StorageError> {
    let Ok(condition) = Condition::parse(&campaign.filter, "filter") else {
        steps.push(Step::new(StepKind::Condition, "its filter cannot be read").speaks(false));
        return Ok(false);
    };
    let (client, audience) = (campaign.client, campaign.audience);
    let walk = Walk { condition, client, audience, profiles: false };
    let why = audience::why(cx, &walk, email).await?;
    if let Some(subscribed) = why.in_audience {
        let told = match subscribed {
            true => "he is subscribed to its audience",
            false => "he is not subscribed to its audience",
        };
        steps.push(Step::new(StepKind::Audience, told).speaks(subscribed));
    }
    if let Some(told) = why.condition {
        let step = match told.met {
            true => Step::new(StepKind::Condition, "he meets its filter"),
            false => {
                let missing = unmet(&told).join("; ");
                Step::new(StepKind::Condition, format!("he does not meet its filter: {missing}"))
            }
        };
        steps.push(Step { condition: Some(told.clone()), ..step.speaks(told.met) });
    }
    Ok(why.meant)
}

/// The clauses that decide that a condition is not met, down to what is known.
fn unmet(told: &Told) -> Vec<String> {
    if told.clause == "not" || told.parts.is_empty() {
        let inner = told.parts.first().map(|part| format!(" {}", part.clause)).unwrap_or_default();
        return vec![format!("{}{inner} ({})", told.clause, told.fact)];
    }
    told.parts.iter().filter(|part| !part.met).flat_map(unmet).collect()
}

async fn of_eligibility(
    cx: &Cx,
    campaign: &Campaign,
    email: EmailAddress,
) -> Result<Vec<Step>, StorageError> {
    let condition = Condition::parse(&campaign.filter, "filter").unwrap_or_default();
    let gate = snapshot::gate(cx, campaign, condition).await?;
    let Explanation { verdict, checks } = gate.explain(cx, &email).await?;
    if verdict == Verdict::Send {
        let told = "he could be written to now";
        return Ok(vec![Step::new(StepKind::Eligibility, told).speaks(true)]);
    }
    let against = checks.into_iter().filter_map(|checked| {
        let told = match checked.outcome {
            Outcome::Passed | Outcome::NotAsked => return None,
            Outcome::Stopped(reason) => {
                format!("he could not be written to now: {} ({})", reason.as_str(), checked.fact)
            }
            Outcome::PutOff { reason, until } => format!(
                "he could not be written to before {until}: {} ({})",
                reason.as_str(),
                checked.fact
            ),
        };
        Some(Step::new(StepKind::Eligibility, told).speaks(false))
    });
    Ok(against.collect())
}

impl Answer {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::NotYet => "not_yet",
            Self::NoContact => "no_contact",
            Self::NotMeant => "not_meant",
            Self::AddedLater => "added_later",
            Self::MeantSince => "meant_since",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Uncertain => "uncertain",
            Self::Sent => "sent",
        }
    }

    /// The answer in a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NotStarted => "The campaign has not started.",
            Self::NotYet => "Not all recipients are written down, and he is none yet.",
            Self::NoContact => "Nobody has this address.",
            Self::NotMeant => "He is not one of those whom the campaign means.",
            Self::AddedLater => "He came after the recipients were written down.",
            Self::MeantSince => {
                "He would be meant now, and was not when the recipients were written down."
            }
            Self::Waiting => "He is a recipient, and it is not sent yet.",
            Self::Skipped => "He is a recipient, and was left out.",
            Self::Failed => "He is a recipient, and it could not be sent.",
            Self::Uncertain => "It was handed over, and nobody knows whether it was taken.",
            Self::Sent => "It was sent.",
        }
    }
}

impl StepKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::Snapshot => "snapshot",
            Self::Contact => "contact",
            Self::Audience => "audience",
            Self::Condition => "condition",
            Self::Recipient => "recipient",
            Self::Variant => "variant",
            Self::Batch => "batch",
            Self::Handed => "handed",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Uncertain => "uncertain",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Unsubscribed => "unsubscribed",
            Self::Eligibility => "eligibility",
        }
    }
}
