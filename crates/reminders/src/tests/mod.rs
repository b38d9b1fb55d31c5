//! Reminders on both engines, with a provider that remembers what it was given.

mod crash;
mod deciding;
mod drafting;
mod erasing;
mod life;
mod model;
mod money;
mod owing;
mod paying;
mod policy;
mod private;
mod races;
mod reporting;
mod texts;
mod world;
