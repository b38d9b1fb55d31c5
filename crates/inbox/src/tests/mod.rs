//! Stories of readers: what they see, mark and count, whatever happens at the same time and whoever dies.

mod categories;
mod crash;
mod damage;
mod expiry;
mod forgotten;
mod list;
mod marks;
mod races;
mod signed_out;
mod verified;
mod visits;
pub(crate) mod world;
