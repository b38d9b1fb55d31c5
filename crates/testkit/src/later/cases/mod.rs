//! The cases, grouped by subject. The name of a case is its claim.

mod clock;
mod enqueue;
mod fire;
mod timers;

use super::ground::Ground;
use crate::suite::{Group, cases};

type Case = crate::suite::Case<Ground>;

pub(super) const GROUPS: &[Group<Ground>] = &[
    ("clock", clock::CASES),
    ("enqueue", enqueue::CASES),
    ("fire", fire::CASES),
    ("timers", timers::CASES),
];
