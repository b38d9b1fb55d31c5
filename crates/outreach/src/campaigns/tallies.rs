//! The tallies of a campaign. They are the ledger's (`delivery::ledger::tallies`), because whoever marks one of its rows
//! keeps them right; here is what campaigns use of them.

use tidings_access::Cx;
use tidings_delivery::ledger::tallies;
pub use tidings_delivery::ledger::tallies::{
    Counts, ENDED, Ended, Kind, Outcome, correct, hour, read,
};
use tidings_sql::{DatabaseError, Tx};

use super::CampaignId;

/// The kind of failure of those whom the provider refused for good.
pub const REFUSED: &str = "refused";

pub fn add(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    counts: &Counts,
) -> Result<(), DatabaseError> {
    tallies::add(tx, (cx.workspace_id().get(), campaign.get()), counts)
}

/// All of them: as many as there are domains and hours.
pub fn load(tx: &mut Tx<'_>, cx: &Cx, campaign: CampaignId) -> Result<Counts, DatabaseError> {
    tallies::load(tx, (cx.workspace_id().get(), campaign.get()))
}

/// How many had this outcome so far.
pub fn outcome(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    outcome: Outcome,
) -> Result<i64, DatabaseError> {
    let of = (cx.workspace_id().get(), campaign.get());
    tallies::one(tx, of, Kind::Outcome, outcome.as_str())
}

/// How many the provider refused for good when they were handed over.
pub fn refused(tx: &mut Tx<'_>, cx: &Cx, campaign: CampaignId) -> Result<i64, DatabaseError> {
    tallies::one(tx, (cx.workspace_id().get(), campaign.get()), Kind::Failed, REFUSED)
}
