//! Telling others what happened: their endpoints, the signed deliveries, and what became of each.
//!
//! A feature announces what happened in the commit that makes it true (`announce` in a SQL transaction, `message` for
//! one of items). Of that one message the fan-out makes a delivery for each endpoint that wants to know, and each
//! delivery is posted, signed as Standard Webhooks says, until the endpoint has taken it or more than a day has passed.
//! An endpoint is told of each event at least once, with the same `webhook-id` every time.
//!
//! Not here: what happens (the features say so with an announcement), and the webhooks that others send to us
//! (`signals`).

mod announcement;
mod deliver;
pub mod deliveries;
pub mod endpoints;
mod event_type;
mod fanout;
mod keep;
mod post;
mod rows;
mod rules;
mod secret;
mod target;
#[cfg(test)]
mod tests;

pub use announcement::{
    Announcement, MAX_DATA_BYTES, announce, announce_all, announce_each, message, wanted,
};
pub use event_type::{EventType, EventTypeError, EventTypes};
pub use keep::{BODIES_KEPT_DAYS, ROWS_KEPT_DAYS, erase, erased_at, sweep};
pub use post::Poster;
pub use rows::{DeliveryId, EndpointId};
pub use secret::Secret;
pub use target::{EndpointUrl, Resolve, TargetError, Targets, UrlError};

use std::sync::Arc;
use std::time::Duration;

use tidings_access::Access;
use tidings_jobs::{Handler, Outcome, for_contract};
use tidings_kernel::{Queue, causes, queues};
use tidings_sql::DatabaseError;

/// How long what is to be told waits while the store cannot be used. It may be for as long as that takes.
const STORE_PAUSE: Duration = Duration::from_secs(15);

/// Who works on the queues of the webhooks.
pub fn handlers(access: &Access, poster: Poster) -> Vec<(&'static Queue, Arc<dyn Handler>)> {
    let fanout = fanout::Fanout { access: access.clone() };
    let deliver = deliver::Deliver::new(access.clone(), poster);
    vec![
        (&queues::WEBHOOK_FANOUT, for_contract(fanout)),
        (&queues::WEBHOOK_DELIVERY, for_contract(deliver)),
    ]
}

/// That a store cannot be used now is no failure of what is told, and does not count as a try.
pub(crate) fn troubled(error: &DatabaseError) -> Outcome {
    let reason = causes(error).to_string();
    if error.is_passing() { Outcome::wait(reason, STORE_PAUSE) } else { Outcome::retry(reason) }
}
