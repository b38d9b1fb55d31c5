//! What others are told of a campaign, in the commit that makes it true.

use serde_json::json;
use tidings_access::Cx;
use tidings_sql::{DatabaseError, Tx};
use tidings_webhooks::{Announcement, EventType, announce};

use super::{CampaignId, Status};

/// A change of status that was written down as the move `id`.
pub(super) struct Moved<'a> {
    pub(super) id: i64,
    pub(super) campaign: CampaignId,
    pub(super) key: &'a str,
    /// Whether it had not begun before.
    pub(super) begins: bool,
    pub(super) to: Status,
    pub(super) reason: Option<&'a str>,
}

pub(super) fn tell(cx: &Cx, tx: &mut Tx<'_>, moved: &Moved<'_>) -> Result<(), DatabaseError> {
    let event_type = match moved.to {
        Status::Snapshotting if moved.begins => EventType::CampaignStarted,
        Status::Paused => EventType::CampaignPaused,
        Status::Sent => EventType::CampaignFinished,
        Status::Cancelled => EventType::CampaignCancelled,
        Status::Failed => EventType::CampaignFailed,
        Status::Draft | Status::Scheduled | Status::Snapshotting | Status::Sending => return Ok(()),
    };
    let data = json!({
        "campaign_id": moved.campaign.get(),
        "campaign_key": moved.key,
        "status": moved.to.as_str(),
        "reason": moved.reason,
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    data.retain(|_, value| !value.is_null());
    let event_id = format!("campaign-move-{}", moved.id);
    announce(cx, tx, &Announcement { event_id, event_type, occurred_at: cx.now(), data })
}
