//! What each said himself of those whom an earlier version merged. It did not keep that with the merges, so it is read off the
//! rows: decisions without IO.
//!
//! A row is his with whom it is at home, whoever has it now. What was taken back is also theirs who were one with him then.
//! That the merge itself made a row of the winner strict cannot be told from that he said so, and it stays.

use std::collections::BTreeMap;

use tidings_access::ClientId;

use super::own::{Own, Place, Standing, Topic, What};
use super::store::Merge;

/// What one row says, and of whom it was before any merge.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) home: i64,
    pub(super) said: Said,
}

#[derive(Debug)]
pub(super) enum Said {
    Left(i64),
    Place(Place),
    Topic(Topic),
}

/// What each of these leads said.
pub(super) fn said(rows: &[Row], leads: &[i64], merges: &[Merge]) -> BTreeMap<i64, Own> {
    let mut all: BTreeMap<i64, Own> = leads.iter().map(|lead| (*lead, Own::default())).collect();
    for row in rows {
        let own = all.entry(row.home).or_default();
        match &row.said {
            Said::Left(at) => own.left_at = Some(*at),
            Said::Place(place) => own.places.push(place.clone()),
            Said::Topic(topic) => own.topics.push(*topic),
        }
    }
    let said_again = merges.iter().filter_map(|merge| merge.said_at).max();
    for row in rows {
        let Some((what, at, written_at)) = row.said.taken_back() else { continue };
        let last = said_again.map_or(written_at, |again| again.max(written_at));
        let person = person(row.home, last, merges);
        for (lead, own) in &mut all {
            if *lead != row.home && self::person(*lead, last, merges) == person {
                own.take_back(what, at);
            }
        }
    }
    all
}

/// Whom a lead had become by then.
fn person(lead: i64, by: i64, merges: &[Merge]) -> i64 {
    let mut here = lead;
    // There are no more steps than merges, even if the rows said that somebody is his own descendant.
    for _ in merges {
        let next = merges.iter().find(|merge| merge.loser == here && merge.merged_at < by);
        let Some(next) = next else { break };
        here = next.winner;
    }
    here
}

impl Said {
    /// What this takes back, since when, and when it was written.
    fn taken_back(&self) -> Option<(What, i64, i64)> {
        match self {
            Self::Left(at) => Some((What::Everything, *at, *at)),
            Self::Place(place) if place.standing == Standing::Unsubscribed => {
                let what = What::Place(place.audience.into(), place.client.map(ClientId::from));
                Some((what, place.left_at.unwrap_or(place.updated_at), place.updated_at))
            }
            Self::Topic(topic) if !topic.on => {
                Some((What::Topic(topic.topic.into()), topic.updated_at, topic.updated_at))
            }
            Self::Place(_) | Self::Topic(_) => None,
        }
    }
}
