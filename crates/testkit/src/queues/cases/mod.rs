//! The cases, grouped by subject. The name of a case is its claim.

mod concurrency;
mod dead_letters;
mod depth;
mod lease;
mod refusals;
mod send_receive;
mod settle;
mod topics;

use super::ground::Ground;
use crate::suite::{Group, cases};

type Case = crate::suite::Case<Ground>;

pub(super) const GROUPS: &[Group<Ground>] = &[
    ("concurrency", concurrency::CASES),
    ("dead_letters", dead_letters::CASES),
    ("depth", depth::CASES),
    ("lease", lease::CASES),
    ("refusals", refusals::CASES),
    ("send_receive", send_receive::CASES),
    ("settle", settle::CASES),
    ("topics", topics::CASES),
];
