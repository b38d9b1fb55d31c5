//! The program `tidings`: configuration, command line, wiring.
//!
//! Here: what the commands are and say (`cli` and one module for each), where settings come from (`config`),
//! and which engine they mean (`store`). Not here: any rule of the product; the commands call the crates below.

mod access;
mod apply;
mod audit;
mod backup;
mod campaigns;
mod cli;
pub mod config;
mod config_command;
mod consent;
mod contact;
mod demo;
mod doctor;
mod events_command;
mod failure;
mod inbox;
mod items;
mod links;
mod logging;
mod mail;
mod memory_rules;
mod messages;
mod open;
mod outlet;
mod output;
mod people;
mod probe;
mod queues_command;
mod reminders;
mod runtime;
mod segments;
mod sequences;
mod serve;
mod store;
mod templates;
mod webhooks_command;
mod worker_command;

pub use cli::{command, main};
