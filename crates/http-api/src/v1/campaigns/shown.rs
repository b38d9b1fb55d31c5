//! Campaigns as callers see them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_outreach::audience::Preview;
use tidings_outreach::campaigns::dry_run::DryRun;
use tidings_outreach::campaigns::named::Slugs;
use tidings_outreach::campaigns::store::Moved;
use tidings_outreach::campaigns::test_send::Tested;
use tidings_outreach::campaigns::written::wait_text;
use tidings_outreach::campaigns::{Campaign, Schedule, Tracking};
use utoipa::ToSchema;

use crate::problem::{Problem, Violation};
use crate::v1::messages::ResultBody;

#[derive(Serialize, ToSchema)]
#[schema(as = Campaign)]
pub(crate) struct CampaignBody {
    #[schema(minimum = 1, example = 55)]
    id: i64,
    /// What its numbers are kept under: its external key, or one made from its id
    #[schema(example = "spring-2030")]
    key: String,
    external_key: Option<String>,
    #[schema(example = "Spring sale")]
    name: String,
    #[schema(value_type = String, pattern = "^(draft|scheduled|snapshotting|sending|paused|sent|cancelled|failed)$")]
    status: &'static str,
    /// Since when it is that
    #[schema(value_type = String, format = DateTime)]
    status_at: Timestamp,
    /// Why it is paused: `bounces` and `complaints` if it stopped by itself, `missed_start` if its time was missed
    pause_reason: Option<String>,
    /// Why it failed
    last_error: Option<String>,
    audience: Option<String>,
    topic: Option<String>,
    sender: Option<String>,
    /// Frozen at the start, like the name and where answers go
    from_email: Option<String>,
    from_name: Option<String>,
    reply_to: Option<String>,
    template: Option<String>,
    /// Frozen at the start
    #[schema(minimum = 1)]
    template_version: Option<i64>,
    subject: Option<String>,
    preview_text: Option<String>,
    variants: Vec<VariantBody>,
    test: Option<TestBody>,
    #[schema(value_type = String, pattern = "^(on|off)$")]
    tracking: Tracking,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// When it goes; with `local_time` the earliest moment at which it is that time anywhere
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    #[schema(example = "2030-01-31T09:00:00")]
    local_time: Option<String>,
    rate_per_hour: Option<i64>,
    warmup: Vec<i64>,
    /// Everybody it means, those who are skipped too, as far as they are written down
    #[schema(minimum = 0)]
    recipients: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    /// When the last one was sent
    #[schema(value_type = Option<String>, format = DateTime)]
    sent_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignVariant)]
pub(crate) struct VariantBody {
    name: String,
    weight: i64,
    template: Option<String>,
    #[schema(minimum = 1)]
    template_version: Option<i64>,
    subject: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignTest)]
pub(crate) struct TestBody {
    percent: i64,
    #[schema(value_type = String, pattern = "^(opens|clicks)$")]
    metric: &'static str,
    #[schema(example = "240m")]
    wait: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    decide_at: Option<Timestamp>,
    /// The name of the variant that did best
    winner: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignWithBodies)]
pub(crate) struct ShownBody {
    #[serde(flatten)]
    campaign: CampaignBody,
    /// Whom it means
    #[schema(value_type = Object)]
    filter: Value,
    html: Option<String>,
    text: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignPreview)]
pub(crate) struct PreviewBody {
    /// How many are meant
    #[schema(minimum = 0)]
    count: u64,
    /// How many of them would get it
    #[schema(minimum = 0)]
    sendable: u64,
    /// How many of those would get it later only: because of quiet hours, or of what they got lately
    #[schema(minimum = 0)]
    deferred: u64,
    /// How many would not get it, by reason
    #[schema(value_type = Object, example = json!({"hard_bounce": 3, "global_unsubscribe": 20}))]
    excluded: BTreeMap<&'static str, u64>,
    /// Up to 20 who would get it
    sample: Vec<SampleBody>,
    /// How many contacts were looked at
    #[schema(minimum = 0)]
    looked_at: u64,
    /// Whether that was everybody; else the numbers are of the first part
    complete: bool,
    /// What keeps it from starting
    obstacles: Vec<Violation>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignSample)]
pub(crate) struct SampleBody {
    #[schema(minimum = 1)]
    contact_id: i64,
    #[schema(format = Email)]
    email: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignChange)]
pub(crate) struct ChangedBody {
    /// Whether this request changed something
    pub(crate) changed: bool,
    pub(crate) campaign: CampaignBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignRetry)]
pub(crate) struct RetriedBody {
    /// How many are sent to again
    #[schema(minimum = 0)]
    pub(crate) recipients: i64,
    pub(crate) campaign: CampaignBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignMove)]
pub(crate) struct MoveBody {
    #[schema(value_type = String, pattern = "^(draft|scheduled|snapshotting|sending|paused|sent|cancelled|failed)$")]
    status: &'static str,
    reason: Option<String>,
    /// Who did it
    #[schema(example = "operator")]
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignTestResult)]
pub(crate) struct TestedBody {
    /// One for each address and variant
    data: Vec<TestedOneBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignTestResultOne)]
pub(crate) struct TestedOneBody {
    #[schema(format = Email, example = "ada@example.org")]
    to: String,
    variant: Option<String>,
    #[serde(flatten)]
    result: ResultBody,
}

impl CampaignBody {
    pub(crate) fn new(campaign: Campaign, slugs: &Slugs) -> Self {
        let name = |slug: Option<&str>| slug.map(ToOwned::to_owned);
        let winner = campaign.progress.winner.and_then(|place| usize::try_from(place).ok());
        let winner = winner.and_then(|place| campaign.variants.get(place));
        let test = campaign.test.map(|test| TestBody {
            percent: test.percent,
            metric: test.metric.as_str(),
            wait: wait_text(test.wait_ms),
            decide_at: campaign.progress.decide_at,
            winner: winner.map(|variant| variant.name.clone()),
        });
        let local_time = match campaign.schedule {
            Some(Schedule::Local(local)) => Some(local.to_string()),
            Some(Schedule::At(_)) | None => None,
        };
        let variant = |one: tidings_outreach::campaigns::Variant| VariantBody {
            name: one.name,
            weight: one.weight,
            template: one.template,
            template_version: one.template_version,
            subject: one.subject,
        };
        Self {
            id: campaign.id.get(),
            key: campaign.key(),
            audience: name(slugs.audience(&campaign)),
            topic: name(slugs.topic(&campaign)),
            external_key: campaign.external_key,
            name: campaign.name,
            status: campaign.status.as_str(),
            status_at: campaign.status_at,
            pause_reason: campaign.pause_reason,
            last_error: campaign.last_error,
            sender: campaign.sender.slug,
            from_email: campaign.sender.from_email,
            from_name: campaign.sender.from_name,
            reply_to: campaign.sender.reply_to,
            template_version: campaign.content.template.as_ref().and_then(|one| one.version),
            template: campaign.content.template.map(|template| template.key),
            subject: campaign.content.subject,
            preview_text: campaign.content.preview_text,
            variants: campaign.variants.into_iter().map(variant).collect(),
            test,
            tracking: campaign.tracking,
            metadata: campaign.metadata,
            scheduled_at: campaign.times.scheduled_at,
            local_time,
            rate_per_hour: campaign.rate_per_hour,
            warmup: campaign.warmup,
            recipients: campaign.progress.recipients,
            created_at: campaign.times.created_at,
            updated_at: campaign.times.updated_at,
            started_at: campaign.times.started_at,
            sent_at: campaign.times.sent_at,
        }
    }
}

impl ShownBody {
    pub(crate) fn new(mut campaign: Campaign, slugs: &Slugs) -> Self {
        let content = &mut campaign.content;
        let (html, text) = (content.html.take(), content.text.take());
        let filter = std::mem::take(&mut campaign.filter);
        Self { campaign: CampaignBody::new(campaign, slugs), filter, html, text }
    }
}

impl From<DryRun> for PreviewBody {
    fn from(run: DryRun) -> Self {
        let Preview { count, sendable, deferred, excluded, sample, looked_at, complete } =
            run.preview;
        let shown = |one: tidings_outreach::audience::Sample| SampleBody {
            contact_id: one.lead_id.get(),
            email: one.email.to_string(),
        };
        Self {
            count,
            sendable,
            deferred,
            excluded,
            sample: sample.into_iter().map(shown).collect(),
            looked_at,
            complete,
            obstacles: super::violations(run.obstacles),
        }
    }
}

impl From<Moved> for MoveBody {
    fn from(one: Moved) -> Self {
        Self { status: one.status.as_str(), reason: one.reason, actor: one.actor, at: one.at }
    }
}

impl From<Vec<Tested>> for TestedBody {
    fn from(tested: Vec<Tested>) -> Self {
        let shown = |one: Tested| TestedOneBody {
            to: one.to.to_string(),
            variant: one.variant,
            result: match one.answer {
                Ok(accepted) => ResultBody::from(accepted),
                Err(error) => ResultBody::from(Problem::from(error)),
            },
        };
        Self { data: tested.into_iter().map(shown).collect() }
    }
}
