//! The dry run: whom a campaign would go to, why others would not get it, and what keeps it from starting. It changes
//! nothing, and a campaign need not be written down for it.

use std::ops::ControlFlow;

use tidings_access::{Cx, StorageError};
use tidings_delivery::transactional::Wrong;

use super::draft::{self, Draft, DraftError};
use super::{Campaign, CampaignId, Progress, Sender, Status, Times, snapshot};
use crate::audience::{Condition, Counting, Preview, Previewed, Violation, Walk};

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    pub preview: Preview,
    /// What keeps it from starting: a template that is not there, or no sender.
    pub obstacles: Vec<Wrong>,
}

/// What is told after each page, and can end it there.
pub type Seen<'a> = &'a mut (dyn FnMut(&Preview) -> ControlFlow<()> + Send);

/// A dry run that goes on page by page, for whoever wants to be told of each.
pub struct Running {
    /// `None` if nobody can be counted.
    counting: Option<Counting>,
    obstacles: Vec<Wrong>,
}

impl Running {
    /// Of a campaign that is written down.
    pub async fn of_campaign(cx: &Cx, campaign: &Campaign) -> Result<Self, StorageError> {
        let mut obstacles = snapshot::freeze(cx, campaign).await?.err().unwrap_or_default();
        let condition = match Condition::parse(&campaign.filter, "filter") {
            Ok(condition) => condition,
            Err(wrong) => {
                let told = |one: Violation| Wrong { field: one.path, message: one.message };
                obstacles.extend(wrong.into_iter().map(told));
                return Ok(Self { counting: None, obstacles });
            }
        };
        let (client, audience) = (campaign.client, campaign.audience);
        let walk = Walk { condition, client, audience, profiles: false };
        let previewed = Previewed { walk, topic: campaign.topic };
        Ok(Self { counting: Some(Counting::begin(cx, previewed).await?), obstacles })
    }

    /// Of one that is not.
    pub async fn of_draft(cx: &Cx, draft: Draft) -> Result<Self, DraftError> {
        let campaign = unwritten(cx, draft).await?;
        Ok(Self::of_campaign(cx, &campaign).await?)
    }

    /// Counts some more, and tells whether there may be others.
    pub async fn page(&mut self, cx: &Cx) -> Result<ControlFlow<()>, StorageError> {
        match &mut self.counting {
            Some(counting) => counting.page(cx).await,
            None => Ok(ControlFlow::Break(())),
        }
    }

    /// What would happen, as far as it is counted.
    pub fn so_far(&self) -> DryRun {
        let preview = self.counting.as_ref().map(|counting| counting.so_far().clone());
        DryRun { preview: preview.unwrap_or_default(), obstacles: self.obstacles.clone() }
    }

    async fn run(mut self, cx: &Cx, seen: Seen<'_>) -> Result<DryRun, StorageError> {
        loop {
            let more = self.page(cx).await?;
            let told = self
                .counting
                .as_ref()
                .map_or(ControlFlow::Break(()), |counting| seen(counting.so_far()));
            if more.is_break() || told.is_break() {
                return Ok(self.so_far());
            }
        }
    }
}

/// Of a campaign that is written down.
pub async fn of_campaign(
    cx: &Cx,
    campaign: &Campaign,
    seen: Seen<'_>,
) -> Result<DryRun, StorageError> {
    Running::of_campaign(cx, campaign).await?.run(cx, seen).await
}

/// Of one that is not.
pub async fn of_draft(cx: &Cx, draft: Draft, seen: Seen<'_>) -> Result<DryRun, DraftError> {
    Ok(Running::of_draft(cx, draft).await?.run(cx, seen).await?)
}

/// The campaign that a draft would be.
async fn unwritten(cx: &Cx, draft: Draft) -> Result<Campaign, DraftError> {
    let (audience, topic) = draft::check_only(cx, &draft).await?;
    let now = cx.now();
    Ok(Campaign {
        id: CampaignId::from(0),
        workspace: cx.workspace_id().get(),
        client: draft.client,
        external_key: draft.key,
        name: draft.name,
        audience,
        topic,
        filter: draft.filter,
        sender: Sender { slug: draft.sender.map(|slug| slug.to_string()), ..Sender::default() },
        content: draft.content,
        variants: draft.variants,
        test: draft.test,
        tracking: draft.tracking,
        metadata: draft.metadata,
        schedule: draft.schedule,
        rate_per_hour: draft.rate_per_hour,
        warmup: draft.warmup,
        status: Status::Draft,
        status_at: now,
        pause_reason: None,
        paused_in: None,
        last_error: None,
        progress: Progress::default(),
        times: Times {
            created_at: now,
            updated_at: now,
            scheduled_at: None,
            started_at: None,
            sent_at: None,
        },
        request_hash: None,
    })
}
