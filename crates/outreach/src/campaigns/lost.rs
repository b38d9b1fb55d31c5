//! Lost batches: on the queue as their rows say, while nobody has their message any more.
//!
//! A queue can lose a message, bury it after workers died with it, or have it thrown away by hand; and whoever gives a batch
//! up while somebody of it is just handed over cannot end it. A campaign would wait for such a batch for ever. So whoever
//! looks at a campaign puts a batch on the queue once more whose message was to come long ago, and so do those who resume or
//! cancel it with all of them. If the message was there after all, there are two, which changes nothing: what a batch still has
//! to do, its rows say. A worker that gives a batch back says when it comes again: what only waits is not lost.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_access::Cx;
use tidings_delivery::ledger::answers::LEASE;
use tidings_sql::{DatabaseError, Param, Tx};

use super::CampaignId;
use super::batches::{self, Batch};
use super::store::Locked;

/// A batch whose message did not come for so long may be lost.
const LONG: SignedDuration = SignedDuration::from_hours(1);
/// What is said of when a message comes is this exact: most come again in seconds, and not each time is worth a commit.
const ROUGHLY: SignedDuration = SignedDuration::from_mins(30);

/// Puts those on the queue again whose message was to come long ago.
pub(super) fn found_late(tx: &mut Tx<'_>, cx: &Cx, campaign: &Locked) -> Result<(), DatabaseError> {
    let long_ago = cx.now().saturating_sub(LONG).unwrap_or(Timestamp::MIN);
    send_again(tx, cx, campaign, long_ago)
}

/// Puts all on the queue again that are under way: somebody has changed what is to become of them.
pub(super) fn all_again(tx: &mut Tx<'_>, cx: &Cx, campaign: &Locked) -> Result<(), DatabaseError> {
    send_again(tx, cx, campaign, Timestamp::MAX)
}

fn send_again(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    awaited_until: Timestamp,
) -> Result<(), DatabaseError> {
    for batch in batches::fed(tx, campaign.id, awaited_until)? {
        let number = batch.number;
        // Everybody was moved out of it, and whoever did that could not end it. A message about nobody cannot be sent.
        if batch.recipients.is_empty() {
            batches::end(tx, cx, campaign, number)?;
            continue;
        }
        tracing::info!(campaign.id = %campaign.id, batch = number, "Batch {number} is put on the queue again");
        batches::put_on_queue(tx, cx, (campaign.id, &batch), Duration::ZERO)?;
    }
    Ok(())
}

/// Lets the message of a batch come again when nobody can be handing it over any more.
pub(super) fn after_the_claims(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    batch: &Batch,
) -> Result<(), DatabaseError> {
    let lease = Duration::try_from(LEASE).unwrap_or_default();
    batches::put_on_queue(tx, cx, (campaign.id, batch), lease)
}

/// Notes when the message of a batch comes again that a worker gave back. It is one row and decides nothing, so the campaign
/// need not be locked.
pub(super) fn comes_again(
    tx: &mut Tx<'_>,
    (campaign, number): (CampaignId, i64),
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE campaign_batches SET awaited_at = $3
               WHERE campaign_id = $1 AND number = $2 AND fed_at IS NOT NULL AND done_at IS NULL
                     AND COALESCE(awaited_at, fed_at) < $4";
    let params = [
        Param::Int(campaign.get()),
        Param::Int(number),
        Param::from(at),
        Param::from(at.saturating_sub(ROUGHLY).unwrap_or(at)),
    ];
    tx.execute(sql, &params).map(drop)
}
