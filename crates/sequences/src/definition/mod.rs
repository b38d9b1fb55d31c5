//! What a sequence is: who enters it, what happens to him step by step, and what takes him out again.
//!
//! Here: the definition as values. It is read and checked in `read` and written again in `written`; its form is described
//! to editors in `schema`, and what it names is listed in `mentions`. It is made into a program that can be walked in `program`, and drawn in `mermaid`. `path` and
//! `filter` look into the data of events, `time` says when waits end and windows open, and `arm` who gets which variant.
//! Nothing here has any IO. Not here: where definitions are kept (`versions`), and the walk (`executions`).

mod arm;
mod fault;
pub mod filter;
mod ids;
mod mentions;
mod mermaid;
mod names;
mod path;
mod program;
mod read;
mod schema;
#[cfg(test)]
pub(crate) mod tests;
mod time;
mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use serde_json::Value;
use tidings_access::Slug;
use tidings_delivery::templates::TemplateKey;
use tidings_inbox::keys::{Category, InboxKey};
use tidings_inbox::ttl::Ttl;
use tidings_outreach::audience::{Condition, Test};
use tidings_people::contacts::Tag;

pub use self::arm::arm;
pub use self::fault::Fault;
pub use self::mermaid::mermaid;
pub use self::names::{EventNameError, check_event_name};
pub use self::path::PathError;
pub use self::program::{Op, Place, Program, choose, is_same};
pub use self::read::{
    MAX_BRANCHES, MAX_BYTES, MAX_CLAUSES, MAX_DEPTH, MAX_EVENTS, MAX_EXITS, MAX_STEPS,
    MAX_VARIANTS, Marked, from_json, from_json_for, line_of, mark, parse_file, read, read_for,
};
pub use self::schema::schema;
pub use self::written::to_json;

/// A drip, as its author wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Also the key of its executions (`EXEC#<id>`) and of its numbers (`STATS#<id>`).
    pub id: Slug,
    pub name: Option<String>,
    pub description: Option<String>,
    /// On whose behalf its mails go out.
    pub client: Slug,
    /// One of the client's senders; else the template's, else the client's default.
    pub sender: Option<Slug>,
    /// Its mails go to those who have unsubscribed, too. Nothing goes past a suppression.
    pub transactional: bool,
    /// What its mails are part of, for what people have agreed to. Only of marketing.
    pub audience: Option<Slug>,
    pub topic: Option<Slug>,
    /// Without one it is entered by hand only.
    pub trigger: Option<Trigger>,
    /// An execution that is not at its end by then has failed.
    pub timeout: Duration,
    pub reentry: Reentry,
    /// Mails go out within it only.
    pub window: Option<Window>,
    pub exit_on: Vec<Exit>,
    /// Mails that an event sends by itself, whether or not the person is in the sequence.
    pub events: Vec<OneOff>,
    pub steps: Vec<Step>,
}

/// An event with which people come in.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    pub event: String,
    pub mapping: Mapping,
    /// All of them have to hold.
    pub filter: Vec<Clause>,
}

/// An event that takes a person out.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    pub event: String,
    /// Of `mapping` only the address counts here.
    pub mapping: Mapping,
    pub filter: Vec<Clause>,
}

/// An event that sends one mail.
#[derive(Debug, Clone, PartialEq)]
pub struct OneOff {
    pub event: String,
    pub mail: Mail,
    pub mapping: Mapping,
    pub filter: Vec<Clause>,
}

/// Where an event has what is known of its person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Without one it is the event's own address.
    pub email: Option<Path>,
    pub first_name: Option<Path>,
    /// Each attribute from its own place.
    pub attributes: BTreeMap<String, Path>,
    /// An object, all of whose fields are attributes.
    pub all_attributes: Option<Path>,
}

/// A place in the data of an event: `$.user.plan`, `$.items[0].sku`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// As it was written.
    pub text: String,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Field(String),
    Index(usize),
}

/// Something in the data of an event compares so.
#[derive(Debug, Clone, PartialEq)]
pub struct Clause {
    pub path: Path,
    pub test: Test,
}

/// What becomes of somebody who is in the sequence, or was, when its trigger comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reentry {
    /// He begins anew (seed 000).
    Restart,
    /// He goes on where he is. Who has left may come in again.
    Ignore,
    /// Nobody comes in again before this long after he came in last.
    After(Duration),
}

/// When mails may go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Empty for every day.
    pub days: Vec<Weekday>,
    /// From then on, and until before then. If they are alike, the whole day.
    pub from: Time,
    pub until: Time,
    /// For those of whom no zone is known.
    pub zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its author's name for it, or its place: `3`, `3.then.1`. Unique within its sequence.
    pub id: String,
    /// Where it stands in what was read: `/steps/2/then/0`.
    pub pointer: String,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(Mails),
    Wait(Wait),
    WaitFor(WaitFor),
    /// By what the trigger's data says. What is not there takes the default.
    Choice {
        path: Path,
        branches: Vec<Branch>,
        default: Vec<Step>,
    },
    /// By what is known of the person now.
    Condition {
        check: Check,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Tag {
        add: Vec<Tag>,
        remove: Vec<Tag>,
    },
    /// Attributes of the person. A text may have `$.…` for what the trigger's data says there.
    Set(BTreeMap<String, Setting>),
    /// A message to the inbox inside an app.
    Inbox(InboxMessage),
    /// Tells the endpoints of the workspace's webhooks.
    Webhook {
        /// The author's name for what is told.
        event: String,
        data: BTreeMap<String, Setting>,
    },
    /// The execution ends here.
    Exit {
        reason: Option<String>,
    },
}

/// What somebody finds in the inbox inside an app. What is not fixed is in the trigger's data.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxMessage {
    pub inbox: InboxKey,
    pub title: Setting,
    pub body: Option<InboxBody>,
    pub cta_uri: Option<Setting>,
    pub category: Option<Category>,
    pub expires_in: Option<Ttl>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboxBody {
    One(Setting),
    /// An object, each field of which may be of the trigger's data.
    Fields(BTreeMap<String, Setting>),
}

/// One mail, or one of several that are tried against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mails {
    One(Mail),
    /// Two at least. Who gets which follows from his address and the sequence (seed 000).
    Variants(Vec<Mail>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub template: TemplateKey,
    /// In place of the template's own.
    pub subject: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    For(Duration),
    /// The next time that it is so where the person is. Right now does not count.
    Until {
        weekday: Option<Weekday>,
        time: Time,
        /// For those of whom no zone is known.
        zone: TimeZone,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct WaitFor {
    pub event: String,
    pub filter: Vec<Clause>,
    pub timeout: Duration,
    /// When it came in time.
    pub then: Vec<Step>,
    /// When it did not.
    pub otherwise: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// A text, a number or a truth.
    pub value: Value,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    HasBeenSent(TemplateKey),
    HasOpened(TemplateKey),
    HasClicked(TemplateKey),
    /// Present, not null and not an empty text.
    FieldExists(String),
    FieldEquals(String, Value),
    /// Audiences, tags, attributes, features and memory, as campaigns ask them.
    Matches(Condition),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    Value(Value),
    FromTrigger(Path),
}
