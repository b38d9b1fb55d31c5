//! The real binary, run on an empty folder as its user would run it.

#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod access;
mod audit;
#[cfg(feature = "aws")]
mod aws;
mod backup;
mod campaign_kill;
mod campaigns;
mod config;
mod consent;
mod demo;
mod doctor;
mod events;
mod help;
mod inbox;
mod inbox_crowd;
mod inbox_kill;
mod items;
mod kill;
#[cfg(feature = "aws")]
mod lambda;
mod leads_kill;
mod learned;
mod ledger;
mod mail;
mod people;
mod postgres;
mod providers;
mod queues;
mod reminders;
mod segments;
mod sequence_kill;
mod sequences;
mod serve;
mod story;
mod templates;
mod webhooks;
mod world;
