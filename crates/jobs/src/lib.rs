//! What happens later: the messages that queues carry.
//!
//! Here: the contracts of those messages. Not here: what a feature does with one, and the engines that keep queues.

pub mod contracts;
