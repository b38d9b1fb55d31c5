//! Tallies: how many recipients of a campaign had which outcome, why, where, which variant and when.
//!
//! A recipient is counted once, in the commit that ends his batch (or that skips him in the snapshot). What can still
//! change after that (nobody knew whether it was sent, or it failed) is noted in his row (`tallied`), and whoever learns
//! more corrects the tallies in the commit that marks the row. So they always are what counting the rows would give.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_sql::{DatabaseError, Param, Row, Tx};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Outcome,
    /// By the reason.
    Skipped,
    /// By the kind of failure.
    Failed,
    /// What was sent, by the domain of the address.
    Domain,
    /// What was sent, by the place of the variant.
    Arm,
    /// What was sent, by the hour in UTC: `2026-07-01T12`.
    Hour,
}

/// How it ended with a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Sent,
    Failed,
    Skipped,
    Uncertain,
}

/// A row that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub outcome: Outcome,
    pub skip_reason: Option<String>,
    pub fail_reason: Option<String>,
    pub sent_at: Option<Timestamp>,
    pub email: Option<String>,
    pub arm: Option<i64>,
}

/// Changes of tallies, in the order of their keys, so that two nodes cannot wait for each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(Kind, String), i64>);

/// What `ENDED` selects can be read by [`read`]. The time is that of the send log, which does not change any more.
pub const ENDED: &str = "status, skip_reason, fail_reason, COALESCE(logged_at, sent_at),
    COALESCE(delivered_at, handed_at), email, arm";

/// Where nobody's domain is known any more.
const UNKNOWN: &str = "unknown";

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Outcome, Self::Skipped, Self::Failed, Self::Domain, Self::Arm, Self::Hour];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Domain => "domain",
            Self::Arm => "arm",
            Self::Hour => "hour",
        }
    }
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Sent, Self::Failed, Self::Skipped, Self::Uncertain];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Uncertain => "uncertain",
        }
    }

    /// Of a row that has its end. `None` if it has none yet. What was sent once was sent, whatever came after.
    pub fn of(status: &str, was_sent: bool) -> Option<Self> {
        match status {
            _ if was_sent => Some(Self::Sent),
            "sent" | "delivered" | "bounced" | "complained" => Some(Self::Sent),
            "failed" => Some(Self::Failed),
            "skipped" => Some(Self::Skipped),
            "uncertain" => Some(Self::Uncertain),
            _ => None,
        }
    }

    /// What is noted in a row that is counted so, if it can still change.
    pub fn tallied(self) -> Option<&'static str> {
        match self {
            Self::Failed | Self::Uncertain => Some(self.as_str()),
            Self::Sent | Self::Skipped => None,
        }
    }
}

/// Reads what `ENDED` selected, beginning at a column. `None` if the row has no end yet.
pub fn read(row: &Row, first: usize) -> Result<Option<Ended>, DatabaseError> {
    let text =
        |column| Ok::<_, DatabaseError>(row.optional_text(first + column)?.map(ToOwned::to_owned));
    let sent_at = row.optional_time(first + 3)?;
    let Some(outcome) = Outcome::of(row.text(first)?, sent_at.is_some()) else { return Ok(None) };
    Ok(Some(Ended {
        outcome,
        skip_reason: text(1)?,
        fail_reason: text(2)?,
        sent_at: sent_at.or(row.optional_time(first + 4)?),
        email: text(5)?,
        arm: row.optional_int(first + 6)?,
    }))
}

impl Counts {
    pub fn count(&mut self, kind: Kind, name: &str, by: i64) {
        *self.0.entry((kind, name.to_owned())).or_default() += by;
    }

    /// Counts a row, or takes it back with `by` = -1.
    pub fn row(&mut self, row: &Ended, by: i64) {
        self.count(Kind::Outcome, row.outcome.as_str(), by);
        match row.outcome {
            Outcome::Skipped => {
                self.count(Kind::Skipped, row.skip_reason.as_deref().unwrap_or(UNKNOWN), by);
            }
            Outcome::Failed => {
                self.count(Kind::Failed, row.fail_reason.as_deref().unwrap_or("other"), by);
            }
            Outcome::Uncertain => {}
            Outcome::Sent => {
                let domain = row.email.as_deref().and_then(|email| email.rsplit_once('@'));
                self.count(Kind::Domain, domain.map_or(UNKNOWN, |(_, domain)| domain), by);
                if let Some(arm) = row.arm {
                    self.count(Kind::Arm, &arm.to_string(), by);
                }
                if let Some(at) = row.sent_at {
                    self.count(Kind::Hour, &hour(at), by);
                }
            }
        }
    }

    pub fn get(&self, kind: Kind, name: &str) -> i64 {
        self.0.get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// In the order of their kinds and names.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &str, i64)> {
        self.0.iter().map(|((kind, name), count)| (*kind, name.as_str(), *count))
    }
}

/// The hour of a time, as tallies name it.
pub fn hour(at: Timestamp) -> String {
    at.to_string().chars().take(13).collect()
}

/// Adds to the tallies of a campaign.
pub fn add(
    tx: &mut Tx<'_>,
    (workspace, campaign): (i64, i64),
    counts: &Counts,
) -> Result<(), DatabaseError> {
    for (kind, name, by) in counts.iter().filter(|(_, _, by)| *by != 0) {
        // Nothing negative is put in, not even for a moment: PostgreSQL checks a row before it finds that it is there.
        let sql = if by > 0 {
            "INSERT INTO campaign_tallies (workspace_id, campaign_id, kind, name, count)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (campaign_id, kind, name) DO UPDATE SET count = campaign_tallies.count + excluded.count"
        } else {
            "UPDATE campaign_tallies SET count = count + $5
             WHERE workspace_id = $1 AND campaign_id = $2 AND kind = $3 AND name = $4"
        };
        let params = [
            Param::Int(workspace),
            Param::Int(campaign),
            Param::Text(kind.as_str()),
            Param::Text(name),
            Param::Int(by),
        ];
        tx.execute(sql, &params)?;
    }
    Ok(())
}

/// All tallies of a campaign: as many as there are domains and hours.
pub fn load(tx: &mut Tx<'_>, (workspace, campaign): (i64, i64)) -> Result<Counts, DatabaseError> {
    let sql = "SELECT kind, name, count FROM campaign_tallies
               WHERE workspace_id = $1 AND campaign_id = $2 AND count <> 0";
    let mut counts = Counts::default();
    for row in tx.query(sql, &[Param::Int(workspace), Param::Int(campaign)])? {
        let word = row.text(0)?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == word);
        let kind = kind.ok_or_else(|| DatabaseError::damaged(0, "the kind of a tally"))?;
        counts.count(kind, row.text(1)?, row.int(2)?);
    }
    Ok(counts)
}

/// One of the tallies.
pub fn one(
    tx: &mut Tx<'_>,
    (workspace, campaign): (i64, i64),
    kind: Kind,
    name: &str,
) -> Result<i64, DatabaseError> {
    let sql = "SELECT count FROM campaign_tallies
               WHERE workspace_id = $1 AND campaign_id = $2 AND kind = $3 AND name = $4";
    let params = [
        Param::Int(workspace),
        Param::Int(campaign),
        Param::Text(kind.as_str()),
        Param::Text(name),
    ];
    tx.query(sql, &params)?.first().map_or(Ok(0), |row| row.int(0))
}

/// Corrects the tallies if a recipient who was counted has another outcome now. To be called in the transaction that has
/// changed his row.
pub fn correct(tx: &mut Tx<'_>, workspace: i64, recipient: i64) -> Result<(), DatabaseError> {
    let sql = "SELECT r.tallied, r.campaign_id, c.winner, r.status, r.skip_reason, r.fail_reason,
                      COALESCE(r.logged_at, r.sent_at), COALESCE(r.delivered_at, r.handed_at), r.email, r.arm
               FROM campaign_recipients r
               JOIN campaigns c ON c.workspace_id = r.workspace_id AND c.id = r.campaign_id
               WHERE r.workspace_id = $1 AND r.id = $2 AND r.tallied IS NOT NULL";
    let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(recipient)])?;
    let Some(row) = rows.first() else { return Ok(()) };
    let counted = Outcome::of(row.text(0)?, false);
    let now = read(row, 3)?;
    let (Some(counted), Some(mut now)) = (counted, now) else { return Ok(()) };
    if counted == now.outcome {
        return Ok(());
    }
    now.arm = now.arm.or(row.optional_int(2)?);
    let mut counts = Counts::default();
    counts.row(&Ended { outcome: counted, ..now.clone() }, -1);
    counts.row(&now, 1);
    add(tx, (workspace, row.int(1)?), &counts)?;
    let tallied = now.outcome.tallied().map_or(Param::Null, Param::Text);
    let sql = "UPDATE campaign_recipients SET tallied = $3 WHERE workspace_id = $1 AND id = $2";
    tx.execute(sql, &[Param::Int(workspace), Param::Int(recipient), tallied]).map(drop)
}
