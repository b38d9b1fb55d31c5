//! Stories of readers: what they see, mark and count, whatever happens at the same time and whoever dies.

mod categories;
mod crash;
mod damage;
mod expiry;
mod forgotten;
mod horizon;
mod list;
mod marks;
mod races;
mod rolling;
mod signed_out;
mod verified;
mod visits;
pub(crate) mod world;
