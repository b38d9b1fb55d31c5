//! The engagement score, and how it comes about: whoever reads the number can see what it is made of.

use std::collections::BTreeMap;

use tidings_kernel::Value;

use super::registry::{self, Today};
use super::state::State;

/// One part of the score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    pub points: i64,
    /// In words.
    pub because: String,
}

impl Part {
    pub(super) fn to_value(&self) -> Value {
        Value::M(BTreeMap::from([
            ("part".to_owned(), self.name.into()),
            ("points".to_owned(), self.points.into()),
            ("because".to_owned(), self.because.as_str().into()),
        ]))
    }
}

/// The sum, from 0 to 100.
pub(super) fn total(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.points).sum::<i64>().clamp(0, 100)
}

/// All parts, those without points too: that nothing happened explains a low score.
pub(super) fn parts(state: &State, today: Today) -> Vec<Part> {
    let part = |name, points, because| Part { name, points, because };
    let recency = match state.last_active_at.and_then(|at| today.since(at)) {
        Some(days) => {
            let points = 30 * (90 - days.min(90)) / 90;
            part("recency", points, format!("last did something {} ago", times(days, "day")))
        }
        None => part("recency", 0, "has not done anything yet".to_owned()),
    };
    let (opens, clicks) = (registry::opens(state, today), registry::clicks(state, today));
    let purchases = registry::purchases(state, today);
    let mut parts = vec![
        recency,
        part("opens", (4 * opens).min(20), format!("opened {} in 30 days", times(opens, "mail"))),
        part("clicks", (8 * clicks).min(25), format!("clicked {} in 30 days", often(clicks))),
        part(
            "purchases",
            (10 * purchases).min(25),
            format!("bought {} in 90 days", often(purchases)),
        ),
    ];
    if registry::campaign_ignored(state, today) {
        let because = "has not answered a mail of 7 days ago or earlier";
        parts.push(part("ignored", -15, because.to_owned()));
    }
    if let Some(left) = state.last_left_at
        && state.last_active_at.is_none_or(|active| active <= left)
    {
        let because = "complained or unsubscribed, and did nothing since";
        parts.push(part("left", -25, because.to_owned()));
    }
    parts
}

fn times(count: i64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn often(count: i64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
