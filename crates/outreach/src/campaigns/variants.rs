//! Variants: who gets which, who is part of a test, and which one did best. Pure, but for reading what was counted.
//!
//! Which one somebody gets follows from his address and the campaign's key, as seed 000 says: whoever asks again, on
//! whichever node, gets the same answer.

use tidings_access::{Cx, StorageError};
use tidings_delivery::breakdown;
use tidings_delivery::counts::Counts;
use tidings_delivery::ledger::tallies;
use tidings_kernel::{EmailAddress, tables};
use tidings_sql::DatabaseError;

use super::{Campaign, Metric, Variant};
use crate::lots::number;

/// The place of somebody in a campaign: whether he is part of its test, and which variant he gets. `None` for the
/// variant means: whatever did best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lot {
    pub arm: Option<i64>,
    /// He waits until it is known what did best.
    pub held: bool,
}

/// What came of one variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    pub sent: i64,
    /// Messages, however often they were opened.
    pub opened: i64,
    pub clicked: i64,
}

pub fn lot(campaign: &Campaign, email: &EmailAddress) -> Lot {
    if campaign.variants.is_empty() {
        return Lot { arm: None, held: false };
    }
    let key = campaign.key();
    let tested = |percent| number(&format!("{email}:{key}:test")) % 100 < percent;
    match campaign.test {
        Some(test) if !tested(u64::try_from(test.percent).unwrap_or(100)) => {
            Lot { arm: None, held: true }
        }
        _ => Lot { arm: Some(arm(email, &key, &campaign.variants)), held: false },
    }
}

/// By the number of the seed. Where all weights are alike it is that number modulo the number of variants, as there.
fn arm(email: &EmailAddress, key: &str, variants: &[Variant]) -> i64 {
    let number = number(&format!("{email}:{key}"));
    let weight = |variant: &Variant| u64::try_from(variant.weight).unwrap_or(1).max(1);
    let first = variants.first().map_or(1, weight);
    if variants.iter().all(|variant| weight(variant) == first) {
        return i64::try_from(number % variants.len() as u64).unwrap_or(0);
    }
    let mut left = number % variants.iter().map(weight).sum::<u64>();
    for (place, variant) in variants.iter().enumerate() {
        if left < weight(variant) {
            return place as i64;
        }
        left -= weight(variant);
    }
    0
}

/// The place of the variant with most of what counts for each message sent. Of several that are as good, the first.
pub fn best(metric: Metric, arms: &[Came]) -> i64 {
    let hits = |came: &Came| match metric {
        Metric::Opens => came.opened,
        Metric::Clicks => came.clicked,
    };
    let mut best = 0;
    for (place, came) in arms.iter().enumerate() {
        let leader = &arms[best];
        // Without fractions: hits/sent is more than theirs. Nothing sent is no hit.
        if hits(came) * leader.sent.max(1) > hits(leader) * came.sent.max(1) {
            best = place;
        }
    }
    best as i64
}

/// Reads what came of each variant: what was sent says the ledger, and what people did the counters. Where nobody could
/// tell people from machines, all count.
pub async fn came(cx: &Cx, campaign: &Campaign) -> Result<Vec<Came>, StorageError> {
    let places = 0..campaign.variants.len() as i64;
    let (of, asked) = ((cx.workspace_id().get(), campaign.id.get()), places.clone());
    let read = cx.database().read(move |tx| {
        let sent = |place: i64| tallies::one(tx, of, tallies::Kind::Arm, &place.to_string());
        asked.clone().map(sent).collect::<Result<Vec<_>, DatabaseError>>()
    });
    let sent = read.await?;
    let key = campaign.key();
    let keys: Vec<_> = places.map(|place| breakdown::keys::arm(&key, place)).collect();
    let found = cx.items().await?.batch_get(&tables::MAIN, &keys).await?;
    let counts: Vec<_> =
        found.iter().map(|item| item.as_ref().map(Counts::of).unwrap_or_default()).collect();
    let human_opens = counts.iter().any(|one| one.unique_human_open_count > 0);
    let human_clicks = counts.iter().any(|one| one.unique_human_click_count > 0);
    let of = |(sent, one): (i64, &Counts)| Came {
        sent,
        opened: if human_opens { one.unique_human_open_count } else { one.unique_open_count },
        clicked: if human_clicks { one.unique_human_click_count } else { one.unique_click_count },
    };
    Ok(sent.into_iter().zip(&counts).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::{Came, arm, best};
    use crate::campaigns::{Metric, Variant};
    use crate::lots::number;

    fn variants(weights: &[i64]) -> Vec<Variant> {
        let variant = |(place, weight): (usize, &i64)| Variant {
            name: format!("v{place}"),
            weight: *weight,
            template: None,
            template_version: None,
            subject: Some("Hello".to_owned()),
        };
        weights.iter().enumerate().map(variant).collect()
    }

    #[test]
    fn an_arm_is_that_of_the_seed() {
        // SHA-256("ada@example.org:spring") begins with these bytes.
        let first = number("ada@example.org:spring");
        assert_eq!(first, 0x867c_8ece);
        let email = "ada@example.org".parse().unwrap();
        for count in 2..10 {
            let expected = i64::try_from(first % count as u64).unwrap();
            assert_eq!(arm(&email, "spring", &variants(&vec![1; count])), expected);
            assert_eq!(arm(&email, "spring", &variants(&vec![7; count])), expected);
        }
    }

    #[test]
    fn weights_are_kept() {
        let variants = variants(&[1, 2, 7]);
        let mut counts = [0; 3];
        for person in 0..10_000 {
            let email = format!("p{person}@example.org").parse().unwrap();
            counts[usize::try_from(arm(&email, "spring", &variants)).unwrap()] += 1;
        }
        for (count, expected) in counts.into_iter().zip([1_000, 2_000, 7_000]) {
            assert!((expected - 200..expected + 200).contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn the_best_has_most_for_each_message_sent_and_of_equals_it_is_the_first() {
        let came = |sent, opened, clicked| Came { sent, opened, clicked };
        let check = |metric, arms: &[Came], expected| assert_eq!(best(metric, arms), expected);
        check(Metric::Opens, &[came(100, 20, 9), came(50, 11, 1)], 1);
        check(Metric::Clicks, &[came(100, 20, 9), came(50, 11, 1)], 0);
        check(Metric::Opens, &[came(100, 20, 0), came(50, 10, 0)], 0);
        check(Metric::Clicks, &[came(0, 0, 0), came(50, 10, 0)], 0);
        check(Metric::Opens, &[came(0, 0, 0), came(50, 1, 0)], 1);
        check(Metric::Opens, &[came(9, 1, 0), came(9, 2, 0), came(9, 3, 0)], 2);
    }
}
