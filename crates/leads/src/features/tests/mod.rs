//! Features: what they are, that they are counted once, and that they stay true over the months.

mod cost;
mod crash;
mod daily;
mod events;
mod inbox;
mod merged;
mod model;
pub(crate) mod world;
