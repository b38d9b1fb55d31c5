//! Segments: saved conditions whose members are kept up as things happen.
//!
//! Here: the operations on segments, what of them is stored (`store`), looking at people again and writing down what
//! changed (`settle`) with what follows from it (`told`), the walk over everybody for a condition that is new (`build`), and
//! the worker of `segment-processing`. Not here: the language of conditions (`audience`), and who says that somebody
//! has to be looked at (`people::segments`, in the commit that changes something).
//!
//! Who is in a segment is a row; `members` of the segment is how many there are, and changes with them in one
//! transaction. A segment's own condition names no segments, so one look at a person is enough.

mod build;
mod put;
mod settle;
mod show;
mod store;
#[cfg(test)]
mod tests;
mod told;
mod worker;

use jiff::Timestamp;
use tidings_access::{ClientId, DisplayName, Slug, row_ids};

pub use put::{
    Change, MAX_CONDITION_BYTES, MAX_SEGMENTS, Put, PutError, Violation, compare, delete, put,
    rebuild,
};
pub use show::{FindError, Member, Verified, Why, find, list, members, verify, why};
pub use worker::handler;

use crate::audience::{Condition, Walk};

row_ids! {
    SegmentId
}

/// A saved condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub id: SegmentId,
    pub slug: Slug,
    pub name: DisplayName,
    pub condition: Condition,
    pub state: State,
    /// Whether those whom the walk over everybody finds for a new condition count as entering. Otherwise only who changes
    /// afterwards does.
    pub trigger_on_build: bool,
    /// How many are in it, exactly.
    pub members: u64,
    /// One more with each new condition.
    pub rev: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// How far the walk over everybody is. It may hold an address, so it is not for logs.
    build_cursor: Option<String>,
    build_page: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Everybody is being looked at. Who changes meanwhile is looked at besides.
    Building,
    /// It has exactly those who meet its condition, but for changes that are on their way.
    Live,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Live => "live",
        }
    }
}

impl Segment {
    /// Whether it is told who enters and leaves.
    fn is_told(&self) -> bool {
        self.state == State::Live || self.trigger_on_build || self.is_walked_again()
    }

    /// Whether everybody is looked at once more with a condition that was live: who enters or leaves meanwhile does so because
    /// something happened, also where the walk meets him before the message of it does.
    fn is_walked_again(&self) -> bool {
        self.build_cursor.as_deref().is_some_and(|cursor| cursor.starts_with(build::AGAIN))
    }

    fn walk(&self) -> Walk {
        walk(self.condition.clone())
    }
}

/// No client writes here, so only subscriptions to a whole audience count: there is no client 0.
fn walk(condition: Condition) -> Walk {
    Walk { condition, client: ClientId::from(0), audience: None, profiles: false }
}
