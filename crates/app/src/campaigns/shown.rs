//! Campaigns as operators see them.

use serde_json::{Map, Value, json};
use tidings_outreach::audience::Preview;
use tidings_outreach::campaigns::dry_run::DryRun;
use tidings_outreach::campaigns::named::Slugs;
use tidings_outreach::campaigns::written::{self, wait_text};
use tidings_outreach::campaigns::{Campaign, Variant};

/// What it says, as it was written, and what became of it.
pub(super) fn whole(campaign: &Campaign, slugs: &Slugs) -> Value {
    let names = (slugs.audience(campaign), slugs.topic(campaign));
    let mut said = written::write(campaign, names);
    let progress = &campaign.progress;
    let winner = progress.winner.and_then(|place| usize::try_from(place).ok());
    let winner = winner.and_then(|place| campaign.variants.get(place));
    let mut shown = state(campaign, slugs);
    shown.append(&mut said);
    let more = json!({
        "from_email": campaign.sender.from_email,
        "from_name": campaign.sender.from_name,
        "reply_to": campaign.sender.reply_to,
        "template_version": campaign.content.template.as_ref().and_then(|one| one.version),
        "decide_at": progress.decide_at,
        "winner": winner.map(|variant: &Variant| &variant.name),
        "batches": progress.batches,
        "created_at": campaign.times.created_at,
        "updated_at": campaign.times.updated_at,
    });
    add(&mut shown, more);
    if let Some(test) = campaign.test {
        shown.insert(
            "test".to_owned(),
            json!({
                "percent": test.percent,
                "metric": test.metric.as_str(),
                "wait": wait_text(test.wait_ms),
            }),
        );
    }
    Value::Object(shown)
}

/// For lists, and after each change.
pub(super) fn short(campaign: &Campaign, slugs: &Slugs) -> Value {
    Value::Object(state(campaign, slugs))
}

fn state(campaign: &Campaign, slugs: &Slugs) -> Map<String, Value> {
    let mut shown = Map::new();
    let all = json!({
        "id": campaign.id.get(),
        "key": campaign.key(),
        "name": campaign.name,
        "client": slugs.client(campaign),
        "status": campaign.status.as_str(),
        "status_at": campaign.status_at,
        "pause_reason": campaign.pause_reason,
        "last_error": campaign.last_error,
        "recipients": campaign.progress.recipients,
        "scheduled_at": campaign.times.scheduled_at,
        "started_at": campaign.times.started_at,
        "sent_at": campaign.times.sent_at,
    });
    add(&mut shown, all);
    shown
}

/// What is not there is left out.
fn add(shown: &mut Map<String, Value>, more: Value) {
    if let Value::Object(mut more) = more {
        more.retain(|_, value| !value.is_null());
        shown.append(&mut more);
    }
}

pub(super) fn dry_run(run: &DryRun) -> Value {
    let Preview { count, sendable, deferred, excluded, sample, looked_at, complete } = &run.preview;
    let sample: Vec<_> = sample.iter().map(|one| one.email.as_str()).collect();
    let obstacle = |one: &tidings_delivery::transactional::Wrong| json!({ "field": one.field, "message": one.message });
    json!({
        "dry_run": true,
        "count": count,
        "sendable": sendable,
        "deferred": deferred,
        "excluded": excluded,
        "sample": sample,
        "looked_at": looked_at,
        "complete": complete,
        "obstacles": run.obstacles.iter().map(obstacle).collect::<Vec<_>>(),
    })
}
