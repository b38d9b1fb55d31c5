//! Executions on both engines, with a clock that is set by hand.

mod crash;
mod enrolment;
mod rules;
mod stories;
