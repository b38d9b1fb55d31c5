//! Outreach: what goes to many people, or goes out by itself.
//!
//! Here: whom a campaign means (`audience`), campaigns from the draft to the last recipient (`campaigns`), and the number
//! by which somebody gets one of several mails (`lots`), and saved conditions whose members are kept up (`segments`). Not here: how one message is sent and who may be written to
//! (`delivery`), and what comes back (`signals`), whose numbers are read from the items.

pub mod audience;
pub mod campaigns;
pub mod lots;
pub mod segments;
