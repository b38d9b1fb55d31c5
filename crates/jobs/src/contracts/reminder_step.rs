//! `reminder-steps`: a reminder of an overdue invoice has something to do. What it is about, its items say.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReminderStep {
    pub workspace: Workspace,
    pub task: ReminderTask,
    pub customer_id: Option<String>,
    pub draft: Option<String>,
    pub message_id: Option<i64>,
    pub invoice_id: Option<String>,
    pub amount: Option<String>,
    pub currency: Option<String>,
    pub reference: Option<String>,
    pub occurred_at: Option<Timestamp>,
    pub pays: Option<Pays>,
    pub cursor: Option<String>,
}

/// What somebody has paid who names no invoice. It has to be said: what names nothing pays nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    Everything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReminderTask {
    /// A draft is approved.
    Send,
    /// Its message in the ledger has news.
    Outcome,
    /// Money came in.
    Paid,
    /// What it asks for was paid: what is not sent yet is not sent.
    TakeBack,
    /// Nobody decided about a draft in time.
    Expire,
    /// The time has come to draft a customer's next reminder.
    Escalate,
    /// The policy was set: everybody who owes something is looked at, a page at a time.
    Arm,
}

impl ReminderStep {
    /// About nothing yet.
    pub fn new(workspace: Workspace, task: ReminderTask) -> Self {
        Self {
            workspace,
            task,
            customer_id: None,
            draft: None,
            message_id: None,
            invoice_id: None,
            amount: None,
            currency: None,
            reference: None,
            occurred_at: None,
            pays: None,
            cursor: None,
        }
    }
}

impl Contract for ReminderStep {
    const SHAPE: &'static Shape = &Shape {
        name: "reminder-step",
        version: 1,
        doc: "Take a reminder further: send what was approved, note what became of it, take it back because money came in, \
              let it expire, draft the next one, or look at everybody who owes something.",
        queues: &["reminder-steps"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "task",
                Kind::OneOf(&["send", "outcome", "paid", "take_back", "expire", "escalate", "arm"]),
                "What is to be done.",
            ),
            Field::optional(
                "customer_id",
                Kind::Text { max: 64 },
                "Which customer (paid, escalate).",
            ),
            Field::optional(
                "draft",
                Kind::Text { max: 80 },
                "Which draft (send, outcome, take_back, expire).",
            ),
            Field::optional(
                "message_id",
                Kind::PositiveInteger,
                "Its row in `transactional_messages` (outcome).",
            ),
            Field::optional("invoice_id", Kind::Text { max: 64 }, "Which invoice was paid (paid)."),
            Field::optional(
                "amount",
                Kind::Text { max: 64 },
                "How much was paid, a decimal (paid).",
            ),
            Field::optional("currency", Kind::Text { max: 3 }, "In which currency (paid)."),
            Field::optional(
                "reference",
                Kind::Text { max: 255 },
                "What tells the payment from others (paid).",
            ),
            Field::optional("occurred_at", Kind::Timestamp, "When it was paid (paid)."),
            Field::optional(
                "pays",
                Kind::OneOf(&["everything"]),
                "That no invoice is named because all that is owed was paid (paid).",
            ),
            Field::optional("cursor", Kind::TEXT, "Where the page before ended (arm)."),
        ],
    };
}
