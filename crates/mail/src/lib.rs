//! A message on paper: MIME and its headers, the signature, what comes back by mail, and the way over SMTP.
//!
//! Here: `Letter` and `compose`, which turn what somebody wants to say into the bytes that go over the wire; `Dkim`;
//! `Smtp`, a sender; `Franked`, which gives every message of an installation its bounce address and its signature;
//! `inbound`, which reads mail that others sent. Not here: who is written to and when, and any store (`delivery`).

mod dkim;
mod franked;
pub mod inbound;
mod letter;
mod smtp;

pub use dkim::{Dkim, DkimError, DkimKeys, TwoKeys};
pub use franked::Franked;
pub use letter::{
    Attachment, Calendar, ComposeError, Content, Disposition, Kind, Letter, ListUnsubscribe,
    Mailbox, Violation, check_attachment, check_calendar, check_header, compose,
};
pub use smtp::{Smtp, SmtpError, SmtpSettings, Tls};
