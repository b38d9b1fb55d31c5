//! Whom an event is about: the decision, without a store.
//!
//! Ids that a system gives to one person and no other (`user_id`, `customer_id`) are strong: two different ones are two
//! people, whatever else they share. Everything else can be shared by people at one computer, in one house, in one office.

use std::collections::{BTreeMap, BTreeSet};

use super::channel::{Channel, Identity};

/// So many leads can be one person: whoever reads a timeline reads them all.
pub const MAX_MERGED: usize = 16;

/// What is done when an event names identities of two people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    #[default]
    Merge,
    Flag,
}

/// Why two leads were flagged and not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Each has an id that the other one has not: a shared address, or a shared computer.
    IdsDiffer,
    /// The workspace wants to be asked.
    Setting,
    /// Somebody has taken them apart before.
    TakenApart,
    /// So many leads are one person already that it cannot be right.
    TooMany,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdsDiffer => "ids_differ",
            Self::Setting => "setting",
            Self::TakenApart => "taken_apart",
            Self::TooMany => "too_many",
        }
    }
}

/// A lead that has an identity of the event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub lead: i64,
    /// His strong ids.
    pub ids: BTreeMap<Channel, BTreeSet<String>>,
    /// How many leads he is.
    pub leads: usize,
}

/// Who the event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Lead(i64),
    New,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub who: Who,
    /// Identities that nobody has, by their place: his from now on.
    pub attach: Vec<usize>,
    /// Strong ids that nobody has and that cannot be his: each is somebody of its own, and flagged.
    pub others: Vec<usize>,
    /// Leads that are the same person.
    pub merge: Vec<i64>,
    pub flag: Vec<(i64, Cause)>,
}

/// The identities of an event, each with the lead who has it, if any; all the leads; and pairs who were taken apart.
pub(super) struct Case<'a> {
    pub identities: &'a [(Identity, Option<i64>)],
    pub known: &'a BTreeMap<i64, Known>,
    pub taken_apart: &'a BTreeSet<(i64, i64)>,
    pub policy: Policy,
}

impl Case<'_> {
    pub(super) fn decide(&self) -> Plan {
        let who = self.who();
        let mut person = match who {
            Who::Lead(lead) => self.lead(lead),
            Who::New => Known { leads: 1, ..Known::default() },
        };
        let (mut attach, mut others) = (Vec::new(), Vec::new());
        for (place, (identity, lead)) in self.identities.iter().enumerate() {
            match (lead, identity.channel().is_strong()) {
                (Some(_), _) => {}
                (None, true) if person.ids.contains_key(identity.channel()) => others.push(place),
                (None, true) => {
                    let ids = person.ids.entry(identity.channel().clone()).or_default();
                    ids.insert(identity.value().to_owned());
                    attach.push(place);
                }
                (None, false) => attach.push(place),
            }
        }
        let (mut merge, mut flag) = (Vec::new(), Vec::new());
        let mut merged: Vec<i64> = match who {
            Who::Lead(lead) => vec![lead],
            Who::New => Vec::new(),
        };
        for lead in self.candidates() {
            if merged.contains(&lead) || flag.iter().any(|(flagged, _)| *flagged == lead) {
                continue;
            }
            let other = self.lead(lead);
            match self.against(&person, &merged, &other) {
                Some(cause) => flag.push((lead, cause)),
                None => {
                    merge.push(lead);
                    merged.push(lead);
                    person.take_in(other);
                }
            }
        }
        Plan { who, attach, others, merge, flag }
    }

    fn against(&self, person: &Known, merged: &[i64], other: &Known) -> Option<Cause> {
        let apart = |lead: &i64| {
            let pair = (*lead.min(&other.lead), *lead.max(&other.lead));
            self.taken_apart.contains(&pair)
        };
        if person.differs_from(other) {
            Some(Cause::IdsDiffer)
        } else if self.policy == Policy::Flag {
            Some(Cause::Setting)
        } else if merged.iter().any(apart) {
            Some(Cause::TakenApart)
        } else if person.leads + other.leads > MAX_MERGED {
            Some(Cause::TooMany)
        } else {
            None
        }
    }

    /// Whoever has a strong id of the event is meant. Else whoever has another of its identities, unless the event
    /// calls him what he is not called.
    fn who(&self) -> Who {
        let strong = self.identities.iter().filter(|(one, _)| one.channel().is_strong());
        if let Some(lead) = strong.filter_map(|(_, lead)| *lead).next() {
            return Who::Lead(lead);
        }
        let mut named = Known::default();
        for (identity, _) in self.identities.iter().filter(|(one, _)| one.channel().is_strong()) {
            // Only the first of a channel: he has one.
            let ids = named.ids.entry(identity.channel().clone()).or_default();
            if ids.is_empty() {
                ids.insert(identity.value().to_owned());
            }
        }
        let mut candidates = self.candidates().into_iter();
        candidates.find(|lead| !named.differs_from(&self.lead(*lead))).map_or(Who::New, Who::Lead)
    }

    /// Those with strong ids first, and else as the event names them.
    fn candidates(&self) -> Vec<i64> {
        let of = |strong: bool| {
            self.identities
                .iter()
                .filter(move |(identity, _)| identity.channel().is_strong() == strong)
                .filter_map(|(_, lead)| *lead)
        };
        let mut found = Vec::new();
        for lead in of(true).chain(of(false)) {
            if !found.contains(&lead) {
                found.push(lead);
            }
        }
        found
    }

    fn lead(&self, lead: i64) -> Known {
        let known = self.known.get(&lead).cloned().unwrap_or_default();
        Known { lead, ..known }
    }
}

impl Known {
    /// Whether each has a strong id on a channel, and none in common there.
    fn differs_from(&self, other: &Self) -> bool {
        self.ids.iter().any(|(channel, mine)| {
            let theirs = other.ids.get(channel);
            theirs.is_some_and(|theirs| !theirs.is_empty() && mine.is_disjoint(theirs))
        })
    }

    fn take_in(&mut self, other: Self) {
        self.leads += other.leads;
        for (channel, ids) in other.ids {
            self.ids.entry(channel).or_default().extend(ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Case, Identity, Known, Policy, Who};

    /// `identities` are `channel:value` with `=lead` where somebody has it; `ids` are `lead channel:value`.
    #[track_caller]
    fn check(identities: &str, ids: &str, policy: Policy, expected: &str) {
        let one = |text: &str| {
            let (channel, value) = text.split_once(':').unwrap();
            Identity::new(channel, value).unwrap()
        };
        let identities: Vec<_> = identities
            .split_whitespace()
            .map(|text| match text.split_once('=') {
                Some((identity, lead)) => (one(identity), Some(lead.parse().unwrap())),
                None => (one(text), None),
            })
            .collect();
        let mut known: BTreeMap<i64, Known> = BTreeMap::new();
        for lead in identities.iter().filter_map(|(_, lead)| *lead) {
            known.entry(lead).or_insert(Known { lead, leads: 1, ..Known::default() });
        }
        for text in ids.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let (lead, id) = text.split_once(' ').unwrap();
            let id = one(id);
            let known = known.entry(lead.parse().unwrap()).or_default();
            known.ids.entry(id.channel().clone()).or_default().insert(id.value().to_owned());
        }
        let taken_apart = BTreeSet::from([(8, 9)]);
        let case =
            Case { identities: &identities, known: &known, taken_apart: &taken_apart, policy };
        let plan = case.decide();
        let who = match plan.who {
            Who::Lead(lead) => lead.to_string(),
            Who::New => "new".to_owned(),
        };
        let flags: Vec<_> =
            plan.flag.iter().map(|(lead, cause)| format!("{lead} {}", cause.as_str())).collect();
        let said = format!(
            "{who} attach {:?} others {:?} merge {:?} flag {flags:?}",
            plan.attach, plan.others, plan.merge
        );
        assert_eq!(said, expected);
    }

    #[test]
    fn an_event_is_about_one_person() {
        use Policy::{Flag, Merge};
        check(
            "phone:+491234567 user_id:u1",
            "",
            Merge,
            "new attach [0, 1] others [] merge [] flag []",
        );
        check("anonymous_id:a=1", "", Merge, "1 attach [] others [] merge [] flag []");
        check("anonymous_id:a=1 user_id:u1", "", Merge, "1 attach [1] others [] merge [] flag []");
        check(
            "anonymous_id:a=1 user_id:u1=2",
            "2 user_id:u1",
            Merge,
            "2 attach [] others [] merge [1] flag []",
        );
        check(
            "anonymous_id:a=1 phone:+491234567=2",
            "",
            Merge,
            "1 attach [] others [] merge [2] flag []",
        );
        check(
            "anonymous_id:a=1 phone:+491234567=2",
            "",
            Flag,
            "1 attach [] others [] merge [] flag [\"2 setting\"]",
        );
        check(
            "anonymous_id:a=8 phone:+491234567=9",
            "",
            Merge,
            "8 attach [] others [] merge [] flag [\"9 taken_apart\"]",
        );
    }

    #[test]
    fn different_ids_are_different_people() {
        use Policy::Merge;
        // A shared computer: somebody else logs in.
        check(
            "anonymous_id:a=1 user_id:u2",
            "1 user_id:u1",
            Merge,
            "new attach [1] others [] merge [] flag [\"1 ids_differ\"]",
        );
        check(
            "email:x@example.org=1 user_id:u2=2",
            "1 user_id:u1, 2 user_id:u2",
            Merge,
            "2 attach [] others [] merge [] flag [\"1 ids_differ\"]",
        );
        check("user_id:u1 user_id:u2", "", Merge, "new attach [0] others [1] merge [] flag []");
        check(
            "user_id:u1=1 customer_id:c2",
            "1 user_id:u1, 1 customer_id:c1",
            Merge,
            "1 attach [] others [1] merge [] flag []",
        );
        // Two people whom a third identity would join.
        check(
            "anonymous_id:a=1 phone:+491234567=2 email:x@example.org=3",
            "2 user_id:u2, 3 user_id:u3",
            Merge,
            "1 attach [] others [] merge [2] flag [\"3 ids_differ\"]",
        );
    }
}
