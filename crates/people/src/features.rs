//! The names of the features that are computed of people, for those who let others ask for them, and what they are of somebody to whom nothing
//! has happened yet. Not here: how they are computed (`leads::features`).

use std::collections::BTreeMap;

use tidings_kernel::Value;

/// All of them, in their order.
pub const NAMES: [&str; 14] = [
    "campaign_ignored",
    "clicks_30d",
    "days_since_last_purchase",
    "engagement_score",
    "frequency_purchases_90d",
    "has_purchased",
    "monetary_total",
    "monetary_total_by_currency",
    "opens_30d",
    "overdue_amount",
    "overdue_amount_by_currency",
    "recency_days",
    "sentiment_avg_30d",
    "unread_inbox",
];

/// What a feature is as long as no event of somebody has been counted: he has never bought anything. `None` of what cannot be said then, such as
/// the days since he last did something.
pub fn before_anything(name: &str) -> Option<Value> {
    match name {
        "campaign_ignored" | "has_purchased" => Some(false.into()),
        "clicks_30d"
        | "engagement_score"
        | "frequency_purchases_90d"
        | "monetary_total"
        | "opens_30d"
        | "overdue_amount"
        | "unread_inbox" => Some(0.into()),
        _ => None,
    }
}

/// All of them with a name.
pub fn all_before_anything() -> BTreeMap<String, Value> {
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), before_anything(name)?))).collect()
}

/// Beyond so many letters that differ it is another word.
const NEAR: usize = 3;

/// Why there is no feature with this name, and which one was perhaps meant. `None` if there is one.
pub fn missing(name: &str) -> Option<String> {
    if NAMES.contains(&name) {
        return None;
    }
    let nearest = NAMES.iter().map(|known| (distance(name, known), *known)).min();
    Some(match nearest.filter(|(distance, _)| *distance <= NEAR) {
        Some((_, near)) => format!("there is no feature {name}; did you mean {near}?"),
        None => format!("there is no feature {name}; there are {}", NAMES.join(", ")),
    })
}

/// How many letters have to be put in, left out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut here = vec![row + 1];
        for (column, same) in other.iter().map(|known| *known == letter).enumerate() {
            let changed = above[column] + usize::from(!same);
            here.push(changed.min(above[column + 1] + 1).min(here[column] + 1));
        }
        above = here;
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn who_misspells_a_feature_is_told_the_near_one() {
        for (name, told) in [
            ("monetary_total", None),
            ("monetry_total", Some("did you mean monetary_total?")),
            ("opens_90d", Some("did you mean opens_30d?")),
            ("overdue_amounts", Some("did you mean overdue_amount?")),
            ("colour", Some("there are campaign_ignored, clicks_30d")),
        ] {
            let said = missing(name);
            assert_eq!(said.is_some(), told.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(told.unwrap_or_default()), "{name}");
        }
    }
}
