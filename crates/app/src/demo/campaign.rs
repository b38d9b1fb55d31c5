//! The demo's campaign: one mail to some of its people, all the way into the capture.

use anyhow::Context as _;
use serde_json::json;
use tidings_access::{ClientId, Cx};
use tidings_kernel::{Queue, queues};
use tidings_outreach::campaigns::control::{self, Start};
use tidings_outreach::campaigns::draft::{self, Draft, DraftError, Find};
use tidings_outreach::campaigns::progress::{Standing, standing};
use tidings_outreach::campaigns::{Content, Status, Template};

use crate::config::Config;
use crate::failure::Failure;
use crate::runtime::Runtime;

pub(super) const KEY: &str = "new-reports";
/// Whom it means.
pub(super) const COUNTRY: &str = "DE";
/// Far more turns than the demo's people need.
const TURNS: usize = 1_000;

/// Makes it, starts it and works until it is sent. Each can be done again.
pub(super) async fn send(
    cx: &Cx,
    client: ClientId,
    runtime: &Runtime,
    config: &Config,
) -> Result<Standing, Failure> {
    let find = Find { id: make(cx, client).await?, client: None };
    control::start(cx, Start { campaign: find, when: None }).await?;
    let workers = runtime.workers(config);
    let worker = |queue: &Queue| {
        let found = workers.iter().find(|worker| worker.queue == queue);
        found.context("nobody works on campaigns")
    };
    let (steps, mail) = (worker(&queues::CAMPAIGN_STEPS)?, worker(&queues::CAMPAIGN_EMAIL)?);
    for _ in 0..TURNS {
        steps.run_until_idle().await?;
        mail.run_until_idle().await?;
        let now = standing(cx, find).await?;
        if !matches!(now.campaign.status, Status::Snapshotting | Status::Sending) {
            return Ok(now);
        }
    }
    // Whatever is left, the server does.
    Ok(standing(cx, find).await?)
}

async fn make(
    cx: &Cx,
    client: ClientId,
) -> Result<tidings_outreach::campaigns::CampaignId, Failure> {
    let template = Template { key: "news/launch".to_owned(), version: None };
    let content = Content { template: Some(template), ..Content::default() };
    let draft = Draft {
        key: Some(KEY.to_owned()),
        audience: Some("newsletter".parse()?),
        topic: Some("product-news".parse()?),
        filter: json!({"attribute": "country", "equals": COUNTRY}),
        ..Draft::of(client, "The new reports", content)
    };
    match draft::create(cx, draft).await {
        Ok(drafted) => Ok(drafted.campaign.id),
        // Somebody has changed it in a folder that is kept.
        Err(DraftError::KeyReused(key)) => {
            let found = draft::by_key(cx, key, None).await?;
            Ok(found.context("the campaign is gone")?.id)
        }
        Err(error) => Err(error.into()),
    }
}
