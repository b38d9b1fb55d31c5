//! The brake: a campaign stops by itself when too many of its messages bounce, or too many people complain.
//!
//! Too many is more than 5 % bounces or 0.1 % complaints of the first thousand, or of what was delivered since. An
//! operator who lets it go on takes the brake off for that campaign.

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

/// Why a campaign with so many recipients to send to must stop, if it must.
pub fn reason(came: &Came, recipients: i64) -> Option<&'static str> {
    // A few bounces at the beginning say nothing about a campaign of many.
    let base = (came.delivered + came.bounced).max(recipients.clamp(1, 1_000));
    if came.complained * 1_000 > base {
        Some("complaints")
    } else if came.bounced * 20 > base {
        Some("bounces")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Came, reason};

    fn check(delivered: i64, bounced: i64, complained: i64, recipients: i64, why: Option<&str>) {
        let came = Came { delivered, bounced, complained };
        assert_eq!(reason(&came, recipients), why, "{came:?} of {recipients}");
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
}
