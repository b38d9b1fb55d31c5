//! Variants: who gets which, who is part of a test, and which one did best. Pure, but for counting.
//!
//! Which one somebody gets follows from his address and the campaign's key, as seed 000 says: whoever asks again, on
//! whichever node, gets the same answer.

use sha2::{Digest as _, Sha256};
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::{Campaign, CampaignId, Metric, Variant};

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

/// The first four bytes of the hash, the highest first.
fn number(text: &str) -> u64 {
    let digest = Sha256::digest(text);
    digest[..4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
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

/// Counts what came of each variant.
pub fn count(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: CampaignId,
    variants: usize,
) -> Result<Vec<Came>, DatabaseError> {
    let sql = "SELECT arm, COUNT(*), COUNT(first_opened_at), COUNT(first_clicked_at) FROM campaign_recipients
               WHERE workspace_id = $1 AND campaign_id = $2 AND arm IS NOT NULL
                     AND (sent_at IS NOT NULL OR status IN ('delivered', 'bounced', 'complained'))
               GROUP BY arm";
    let mut arms = vec![Came::default(); variants];
    for row in tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Int(id.get())])? {
        let place = usize::try_from(row.int(0)?).ok();
        if let Some(arm) = place.and_then(|place| arms.get_mut(place)) {
            *arm = Came { sent: row.int(1)?, opened: row.int(2)?, clicked: row.int(3)? };
        }
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::{Came, arm, best, number};
    use crate::campaigns::{Metric, Variant};

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
