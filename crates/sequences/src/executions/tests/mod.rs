//! Executions on both engines, with a clock that is set by hand.

mod crash;
mod endings;
mod enrolment;
mod rules;
mod segments;
mod steps;
mod stories;
