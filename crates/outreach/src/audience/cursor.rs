//! What drives a walk, and the text that says how far it came.
//!
//! A walk goes on with what it began with, also in a later version that would choose another: the text names it.

use std::fmt;

use tidings_access::Slug;
use tidings_kernel::{Invalid, StoreError};
use tidings_people::consent::AudienceId;
use tidings_people::contacts::Tag;

use super::condition::{Addresses, Condition};
use super::walk::Walk;

/// Where candidates come from. Each gives everybody whom the walk can mean, in an order that does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver<'w> {
    /// The addresses that the condition lists.
    Listed(&'w Addresses),
    /// The index of a tag, by address.
    Tagged(&'w Tag),
    /// The indexes of several tags together, by address: clauses that are tags all of them.
    AnyTagged(&'w [Condition]),
    /// The members of a segment, by contact.
    Segment(&'w Slug),
    /// The subscriptions to the campaign's own audience, by contact.
    Audience(AudienceId),
    /// The subscriptions to an audience that the condition names.
    Named(&'w Slug),
    /// All contacts, by id.
    Contacts,
}

/// After which of them a walk goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    /// After so many of a list.
    Count(usize),
    /// After this contact.
    Id(i64),
    /// After this address, as the index of the tag has it.
    Address(String),
}

/// So many indexes are read together at most.
const MOST_TAGS: usize = 20;

/// The tags of a condition that is met by whoever has one of them.
pub(super) fn tags(parts: &[Condition]) -> impl Iterator<Item = &Tag> {
    parts.iter().filter_map(|part| if let Condition::Tag(tag) = part { Some(tag) } else { None })
}

/// The best first: what is likely to be smallest. The shortest list before the index of a tag, that before the indexes of
/// several, the members of a segment and the subscriptions to an audience, and all contacts where nothing else will do.
fn drivers(walk: &Walk) -> Vec<Driver<'_>> {
    let required = walk.condition.required();
    let mut listed: Vec<&Addresses> = required
        .iter()
        .filter_map(|clause| if let Condition::Contacts(list) = clause { Some(list) } else { None })
        .collect();
    listed.sort_by_key(|list| list.as_slice().len());
    let tagged = required.iter().filter_map(|clause| match clause {
        Condition::Tag(tag) => Some(Driver::Tagged(tag)),
        _ => None,
    });
    let any_tag = required.iter().filter_map(|clause| match clause {
        Condition::Any(parts) if (1..=MOST_TAGS).contains(&parts.len()) => {
            (tags(parts).count() == parts.len()).then_some(Driver::AnyTagged(parts))
        }
        _ => None,
    });
    let segments = required.iter().filter_map(|clause| match clause {
        Condition::Segment(slug) => Some(Driver::Segment(slug)),
        _ => None,
    });
    let named = required.iter().filter_map(|clause| match clause {
        Condition::Audience(slug) => Some(Driver::Named(slug)),
        _ => None,
    });
    let mut drivers: Vec<Driver<'_>> = listed.into_iter().map(Driver::Listed).collect();
    drivers.extend(tagged);
    drivers.extend(any_tag);
    drivers.extend(segments);
    drivers.extend(walk.audience.map(Driver::Audience));
    drivers.extend(named);
    drivers.push(Driver::Contacts);
    drivers
}

/// Where a walk goes on, or begins.
pub(super) fn resume<'w>(
    walk: &'w Walk,
    after: Option<&str>,
) -> Result<(Driver<'w>, Place), StoreError> {
    let mut drivers = drivers(walk).into_iter();
    let found = match after {
        None => drivers.next().map(|first| (first, Place::Start)),
        Some(text) => drivers.find_map(|driver| Some((driver, driver.read(text)?))),
    };
    // A cursor of another walk.
    found.ok_or_else(|| Invalid::BadCursor.into())
}

impl Driver<'_> {
    fn read(&self, text: &str) -> Option<Place> {
        let rest = text.strip_prefix(&self.to_string())?;
        match self {
            Self::Listed(list) => {
                let count = rest.parse().ok().filter(|count| *count <= list.as_slice().len())?;
                Some(Place::Count(count))
            }
            Self::Tagged(_) | Self::AnyTagged(_) => {
                (!rest.is_empty()).then(|| Place::Address(rest.to_owned()))
            }
            Self::Segment(_) | Self::Audience(_) | Self::Named(_) | Self::Contacts => {
                rest.parse().ok().map(Place::Id)
            }
        }
    }

    pub(super) fn cursor(&self, place: &Place) -> Option<String> {
        match place {
            Place::Start => None,
            Place::Count(count) => Some(format!("{self}{count}")),
            Place::Id(id) => Some(format!("{self}{id}")),
            Place::Address(address) => Some(format!("{self}{address}")),
        }
    }
}

/// How its cursors begin.
impl fmt::Display for Driver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Of two that are as long, it is always the first.
            Self::Listed(list) => write!(f, "l.{}.", list.as_slice().len()),
            Self::Tagged(tag) => write!(f, "t.{tag}."),
            Self::AnyTagged(parts) => {
                let tags: Vec<_> = tags(parts).map(ToString::to_string).collect();
                write!(f, "u.{}.", tags.join("+"))
            }
            Self::Segment(slug) => write!(f, "g.{slug}."),
            Self::Audience(id) => write!(f, "a.{id}."),
            Self::Named(slug) => write!(f, "s.{slug}."),
            Self::Contacts => f.write_str("c."),
        }
    }
}
