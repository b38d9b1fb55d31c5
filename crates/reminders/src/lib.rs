//! Reminders of overdue invoices: drafted by a program or a person, approved by a person, sent once.
//!
//! Everything is items in the table of seed 002: a customer's drafts, what was sent to him, what he paid, and one item
//! (`STATE`) that every change of his expects unchanged, so that of two which meet one is decided again. How a draft comes
//! to be is in `drafting`, what people decide about it in `decide`, how it goes out and what became of it in `send` and
//! `outcome`, and money that comes in is in `pay`. When a reminder may be sent is one pure function (`rules`).
//!
//! Not here: how a mail is sent and who must not be written to (`delivery`), and how any of this is asked for (`http-api`,
//! the command line).

mod case;
mod decide;
mod drafting;
mod escalate;
mod ids;
mod keys;
mod money;
mod news;
mod outcome;
mod owing;
mod pay;
mod read;
mod record;
mod report;
pub mod rules;
mod send;
pub mod settings;
pub mod templates;
#[cfg(test)]
mod tests;
mod worker;
mod wrong;

pub use decide::{
    Approve, ApproveError, ApproveMany, Approved, BatchError, BatchReport, Decided, Edit,
    EditError, Reject, RejectError, Seen, approve, approve_many, edit, reject,
};
pub use drafting::{
    BulkError, BulkReport, Choose, Customer, DraftError, Drafted, Facts, LeftOut, MAX_CONTENT,
    MAX_INVOICES, MAX_ROWS, New, Overdue, Text, draft, draft_many, note_overdue,
};
pub use ids::{CustomerId, DraftId, IdError, InvoiceId, Kind, KindError};
pub use money::{Currency, Money, MoneyError};
pub use pay::{PaidError, Payment, Recorded, paid};
pub use read::{
    FindError, Listing, ListingError, Outstanding, Page, Round, allowed, by_status, drafts_of, get,
    history, outstanding, payments, pending, recent, round, sent_between,
};
pub use record::{
    Approval, ContentType, Delivery, Draft, Edition, Invoice, Paid, Sent, Status, StatusError,
    TemplateRef,
};
pub use report::{Report, report};
pub use worker::{Tools, Worker};
pub use wrong::Wrong;
