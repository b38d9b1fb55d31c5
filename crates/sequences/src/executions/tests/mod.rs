//! Executions on both engines, with a clock that is set by hand.

mod crash;
mod edits;
mod endings;
mod enrolment;
mod live;
mod rules;
mod segments;
mod skips;
mod steps;
mod stories;
