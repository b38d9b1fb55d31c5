//! Stories of readers: what they see, mark and count, whatever happens at the same time and whoever dies.

mod categories;
mod crash;
mod expiry;
mod list;
mod marks;
mod model;
mod races;
mod world;
