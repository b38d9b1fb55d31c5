//! The brake: a campaign stops by itself when too many of its messages bounce, or too many people complain.
//!
//! Too many is more than 5 % bounces or 0.1 % complaints of the first thousand, or of what was delivered since; of what
//! was sent, where the provider does not tell of deliveries. What it refuses for good when it is handed over is a bounce,
//! too, and so is what comes back by mail, which is in the counters like all else. An operator who lets it go on takes the
//! brake off for that campaign and that reason; the other one can still stop it.

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, Key, tables};

/// What came back, as the counters have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    pub delivered: i64,
    pub bounced: i64,
    pub complained: i64,
}

/// Reads the counters of a campaign by its key.
pub async fn came(cx: &Cx, key: &str) -> Result<Came, StorageError> {
    let counters = Key::new(format!("STATS#{key}"), "COUNTERS");
    let item = cx.items().await?.get(&tables::MAIN, &counters).await?;
    Ok(Came::of(item.as_ref()))
}

impl Came {
    pub fn of(counters: Option<&Item>) -> Self {
        let count = |name| counters.and_then(|item| item.integer(name)).unwrap_or(0);
        Self {
            delivered: count("deliveryCount"),
            bounced: count("bounceCount"),
            complained: count("complaintCount"),
        }
    }
}

/// What the campaign itself knows of its recipients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handed {
    /// Everybody who is to be sent to.
    pub recipients: i64,
    pub sent: i64,
    /// Those whom the provider refused for good.
    pub refused: i64,
}

pub const BOUNCES: &str = "bounces";
pub const COMPLAINTS: &str = "complaints";

/// Why a campaign must stop, if it must: the gravest first.
pub fn reasons(came: &Came, handed: &Handed) -> Vec<&'static str> {
    let bounced = came.bounced + handed.refused;
    let told =
        if came.delivered > 0 { came.delivered + bounced } else { handed.sent + handed.refused };
    // A few bounces at the beginning say nothing about a campaign of many.
    let base = told.max(handed.recipients.clamp(1, 1_000));
    let mut reasons = Vec::new();
    if came.complained * 1_000 > base {
        reasons.push(COMPLAINTS);
    }
    if bounced * 20 > base {
        reasons.push(BOUNCES);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::{Came, Handed, reasons};

    fn check(delivered: i64, bounced: i64, complained: i64, recipients: i64, why: Option<&str>) {
        let came = Came { delivered, bounced, complained };
        let handed = Handed { recipients, sent: delivered + bounced, refused: 0 };
        assert_eq!(reasons(&came, &handed).first().copied(), why, "{came:?} of {recipients}");
    }

    #[test]
    fn more_than_a_twentieth_of_bounces_and_a_thousandth_of_complaints_is_too_much() {
        check(0, 0, 0, 0, None);
        check(0, 50, 0, 1_000_000, None);
        check(0, 51, 0, 1_000_000, Some("bounces"));
        check(900, 50, 1, 1_000_000, None);
        check(900, 50, 2, 1_000_000, Some("complaints"));
        check(94_999, 5_000, 0, 1_000_000, Some("bounces"));
        check(95_000, 5_000, 100, 1_000_000, None);
        check(95_000, 5_000, 101, 1_000_000, Some("complaints"));
        // Of a small one each counts.
        check(0, 1, 0, 20, None);
        check(0, 2, 0, 20, Some("bounces"));
        check(19, 0, 1, 20, Some("complaints"));
    }

    fn check_handed((bounced, complained): (i64, i64), sent: i64, refused: i64, why: Option<&str>) {
        let came = Came { delivered: 0, bounced, complained };
        let handed = Handed { recipients: 1_000_000, sent, refused };
        assert_eq!(reasons(&came, &handed).first().copied(), why, "{came:?} of {handed:?}");
    }

    #[test]
    fn where_deliveries_are_not_told_of_what_was_sent_counts() {
        check_handed((51, 1), 100_000, 0, None);
        check_handed((5_000, 100), 100_000, 0, None);
        check_handed((5_001, 100), 100_000, 0, Some("bounces"));
        check_handed((5_000, 101), 100_000, 0, Some("complaints"));
    }

    #[test]
    fn what_is_refused_when_it_is_handed_over_is_a_bounce() {
        check_handed((0, 0), 0, 50, None);
        check_handed((0, 0), 0, 51, Some("bounces"));
        check_handed((0, 0), 95_000, 5_000, None);
        check_handed((1, 0), 95_000, 5_000, Some("bounces"));
    }
}
