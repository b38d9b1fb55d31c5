//! How far a campaign is, for those who watch it: a few numbers that cost the same however large it is.

use tidings_access::Cx;

use super::draft::{Find, FindError};
use super::tallies::{self, Outcome};
use super::{Campaign, store};

/// A campaign and what became of its recipients so far. They are counted batch by batch, so the numbers may be a moment
/// behind.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Without its bodies.
    pub campaign: Campaign,
    pub sent: i64,
    pub failed: i64,
    pub skipped: i64,
    pub uncertain: i64,
}

impl Standing {
    /// How many have their end.
    pub fn ended(&self) -> i64 {
        self.sent + self.failed + self.skipped + self.uncertain
    }
}

pub async fn standing(cx: &Cx, find: Find) -> Result<Standing, FindError> {
    let within = cx.clone();
    let read = cx.database().read(move |tx| {
        let campaign = store::glance(tx, &within, find.id)?;
        let campaign = campaign.filter(|one| find.sees(one));
        let campaign = campaign.ok_or(FindError::Missing(find.id))?;
        let mut count = |outcome: Outcome| tallies::outcome(tx, &within, find.id, outcome);
        Ok(Standing {
            sent: count(Outcome::Sent)?,
            failed: count(Outcome::Failed)?,
            skipped: count(Outcome::Skipped)?,
            uncertain: count(Outcome::Uncertain)?,
            campaign,
        })
    });
    read.await
}
