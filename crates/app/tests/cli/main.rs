//! The real binary, run on an empty folder as its user would run it.

#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod access;
#[cfg(feature = "aws")]
mod aws;
mod backup;
mod config;
mod doctor;
mod help;
mod items;
#[cfg(feature = "aws")]
mod lambda;
mod people;
mod postgres;
mod queues;
mod serve;
mod webhooks;
mod world;
