//! `tidings senders` and `tidings mail`: whom a client writes as, and mail that was captured.

mod captured;
mod senders;

pub(crate) use captured::{MailArgs, run as captured};
pub(crate) use senders::{SendersArgs, run as senders};
