//! What happens later: contracts, the workers that take messages from queues, and what moves messages into them.
//!
//! Here: what a handler is and how it ends (`handler`), the loop that pulls, renews, settles and drains (`worker`),
//! the shape of an SQS event for Lambda (`event`), the outbox relay, timers, periodic work, and what the product tells of itself (`happened`). Not here: any
//! handler (the features bring theirs) and any engine.

mod backoff;
pub mod contracts;
mod event;
mod handler;
pub mod happened;
pub mod orders;
mod relay;
mod schedule;
mod tasks;
mod timers;
mod worker;

pub use backoff::retry_delay;
pub use event::{BatchItemFailure, BatchResponse, Event, EventError, Record};
pub use handler::{Handler, Outcome, Work, for_contract};
pub use relay::relay;
pub use schedule::{Schedule, ScheduleError, check_cron, keep_schedules};
pub use tasks::{Stop, wait};
pub use timers::fire_timers;
pub use worker::{Settings, Worker};
