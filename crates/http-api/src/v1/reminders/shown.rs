//! How reminders look in an answer, and what stands against a request.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_reminders::rules::Answer;
use tidings_reminders::templates::{self, Preview, Template};
use tidings_reminders::{
    ApproveError, Approved, BatchError, BatchReport, BulkError, BulkReport, Draft, DraftError,
    EditError, FindError, Invoice, LeftOut, ListingError, Outstanding, Paid, PaidError, Recorded,
    RejectError, Report, Sent, Wrong, settings,
};
use utoipa::ToSchema;

use super::read::{InvoiceBody, Rows};
use crate::problem::{Problem, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Reminder)]
pub(in crate::v1) struct DraftBody {
    #[schema(example = "20250921_143022_cust_001")]
    id: String,
    customer_id: String,
    /// Null once the person is erased, as are address, subject and content
    customer_name: Option<String>,
    customer_email: Option<String>,
    #[schema(example = "first")]
    reminder_type: &'static str,
    #[schema(
        pattern = "^(draft|approved|sending|sent|failed|rejected|expired|superseded|withdrawn)$"
    )]
    status: &'static str,
    /// Why it is what it is
    reason: Option<String>,
    subject: Option<String>,
    content: Option<String>,
    content_type: &'static str,
    #[schema(example = "1500.00")]
    overdue_amount: String,
    #[schema(example = "EUR")]
    currency: String,
    invoices: Vec<InvoiceBody>,
    template: Option<String>,
    template_version: Option<i64>,
    created_by: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Of all that an approval is of
    hash: String,
    edition: i64,
    approvals: Vec<ApprovalBody>,
    approvals_needed: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    approved_at: Option<Timestamp>,
    decided_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// When the status became what it is
    #[schema(value_type = String, format = DateTime)]
    changed_at: Timestamp,
    message_id: Option<i64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderApproved)]
pub(in crate::v1) struct ApprovalBody {
    by: String,
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    edition: i64,
    hash: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderSent)]
pub(in crate::v1) struct SentBody {
    id: String,
    customer_id: String,
    reminder_type: &'static str,
    email: Option<String>,
    subject: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    sent_at: Timestamp,
    approved_by: Vec<String>,
    overdue_amount: String,
    currency: String,
    invoices: Vec<String>,
    /// The draft that it was
    draft: String,
    message_id: i64,
    provider_message_id: Option<String>,
    #[schema(example = "delivered")]
    delivery_status: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderDecision)]
pub(in crate::v1) struct ApprovedBody {
    reminder: DraftBody,
    /// How many more people have to approve it before it is sent
    missing: u32,
    /// It was approved by this person before
    replayed: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderDecisions)]
pub(in crate::v1) struct BatchBody {
    data: Vec<DecidedBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderDecided)]
pub(in crate::v1) struct DecidedBody {
    id: String,
    status: Option<&'static str>,
    missing: Option<u32>,
    /// Why it could not be approved
    error: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RemindersDrafted)]
pub(in crate::v1) struct BulkBody {
    drafted: Vec<DraftBody>,
    left_out: Vec<LeftOutBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderLeftOut)]
pub(in crate::v1) struct LeftOutBody {
    /// Which of the list, from 0
    row: usize,
    /// Null if what was sent has none that can be read
    customer_id: Option<String>,
    #[schema(example = "too_early")]
    reason: &'static str,
    detail: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    allowed_from: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderAllowed)]
pub(in crate::v1) struct AllowedBody {
    reminder_type: &'static str,
    allowed: bool,
    #[schema(value_type = Option<String>, format = DateTime)]
    allowed_from: Option<Timestamp>,
    /// What has to be sent before
    needs: Option<&'static str>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OverdueCustomer)]
pub(in crate::v1) struct OutstandingBody {
    customer_id: String,
    customer_name: Option<String>,
    overdue_amount: String,
    currency: String,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    invoices: Vec<InvoiceBody>,
    open_draft: Option<String>,
    last_reminder_type: Option<&'static str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_reminder_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RecordedPayment)]
pub(in crate::v1) struct PaidBody {
    customer_id: String,
    invoice_id: Option<String>,
    amount: Option<String>,
    currency: Option<String>,
    /// What of it was more than was owed
    over: Option<String>,
    /// What is left of the invoice, if it was paid in part
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    paid_at: Timestamp,
    reference: String,
    /// The last reminder before it that named the invoice
    recovered_after: Option<&'static str>,
    /// The draft that is not sent because of it
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RemindersReport)]
pub(in crate::v1) struct ReportBody {
    /// By currency
    #[schema(value_type = Object)]
    outstanding: Value,
    customers_outstanding: u64,
    #[schema(value_type = Object)]
    recovered: Value,
    drafted: u64,
    approved: u64,
    rejected: u64,
    sent: u64,
    failed: u64,
    expired: u64,
    superseded: u64,
    withdrawn: u64,
    median_seconds_to_approve: Option<u64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderTemplate)]
pub(in crate::v1) struct TemplateBody {
    id: String,
    version: i64,
    active: bool,
    name: String,
    reminder_type: Option<&'static str>,
    subject: String,
    body: String,
    content_type: &'static str,
    branding: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ReminderPreview)]
pub(in crate::v1) struct PreviewBody {
    version: i64,
    subject: String,
    content: String,
    content_type: &'static str,
    /// What it names and nobody gives
    missing: Vec<String>,
}

fn invoice(invoice: &Invoice) -> InvoiceBody {
    InvoiceBody {
        id: invoice.id.to_string(),
        amount: invoice.amount.map(|money| money.digits()),
        due: invoice.due,
    }
}

impl From<Draft> for DraftBody {
    fn from(draft: Draft) -> Self {
        let approvals = draft.approvals.into_iter().map(|one| ApprovalBody {
            by: one.by,
            actor: one.actor,
            at: one.at,
            edition: one.edition,
            hash: one.hash,
        });
        Self {
            id: draft.id.to_string(),
            customer_id: draft.customer.to_string(),
            customer_name: draft.name,
            customer_email: draft.email.map(|email| email.to_string()),
            reminder_type: draft.kind.as_str(),
            status: draft.status.as_str(),
            reason: draft.reason,
            subject: draft.subject,
            content: draft.content,
            content_type: draft.content_type.as_str(),
            overdue_amount: draft.owed.digits(),
            currency: draft.owed.currency.to_string(),
            invoices: draft.invoices.iter().map(invoice).collect(),
            template: draft.template.as_ref().map(|template| template.id.clone()),
            template_version: draft.template.map(|template| template.version),
            created_by: draft.created_by,
            created_at: draft.created_at,
            hash: draft.hash,
            edition: draft.edition,
            approvals: approvals.collect(),
            approvals_needed: draft.approvals_needed,
            approved_at: draft.approved_at,
            decided_by: draft.decided_by,
            expires_at: draft.expires_at,
            changed_at: draft.changed_at,
            message_id: draft.message,
        }
    }
}

impl From<Sent> for SentBody {
    fn from(sent: Sent) -> Self {
        Self {
            id: sent.id,
            customer_id: sent.customer.to_string(),
            reminder_type: sent.kind.as_str(),
            email: sent.email,
            subject: sent.subject,
            sent_at: sent.sent_at,
            approved_by: sent.approved_by,
            overdue_amount: sent.owed.digits(),
            currency: sent.owed.currency.to_string(),
            invoices: sent.invoices.iter().map(ToString::to_string).collect(),
            draft: sent.draft.to_string(),
            message_id: sent.message,
            provider_message_id: sent.provider_message_id,
            delivery_status: sent.delivery.as_str(),
        }
    }
}

impl From<Approved> for ApprovedBody {
    fn from(approved: Approved) -> Self {
        let Approved { draft, missing, replayed } = approved;
        Self { reminder: draft.into(), missing, replayed }
    }
}

impl From<BatchReport> for BatchBody {
    fn from(report: BatchReport) -> Self {
        let decided = report.decided.into_iter().map(|one| {
            let id = one.draft.to_string();
            match one.outcome {
                Ok(approved) => DecidedBody {
                    id,
                    status: Some(approved.draft.status.as_str()),
                    missing: Some(approved.missing),
                    error: None,
                },
                Err(error) => {
                    DecidedBody { id, status: None, missing: None, error: Some(error.to_string()) }
                }
            }
        });
        Self { data: decided.collect() }
    }
}

/// What became of the rows that could be read, and those that could not.
impl<T> From<(BulkReport, Rows<T>)> for BulkBody {
    fn from((report, rows): (BulkReport, Rows<T>)) -> Self {
        let place = |at: usize| rows.places.get(at).copied().unwrap_or(at);
        let left_out = report.left_out.into_iter().map(|one| {
            let LeftOut { row, customer, reason, detail, allowed_from } = one;
            let customer_id = Some(customer.to_string());
            LeftOutBody { row: place(row), customer_id, reason, detail, allowed_from }
        });
        let unread = rows.unread.into_iter().map(|one| LeftOutBody {
            row: one.row,
            customer_id: one.customer.map(|id| id.to_string()),
            reason: "invalid",
            detail: one.detail,
            allowed_from: None,
        });
        let mut left_out: Vec<_> = left_out.chain(unread).collect();
        left_out.sort_by_key(|one| one.row);
        let drafted = report.drafted.into_iter().map(|drafted| drafted.draft.into());
        Self { drafted: drafted.collect(), left_out }
    }
}

impl From<(tidings_reminders::Kind, Answer)> for AllowedBody {
    fn from((kind, answer): (tidings_reminders::Kind, Answer)) -> Self {
        let (allowed_from, needs) = match answer {
            Answer::Allowed => (None, None),
            Answer::NotBefore(at) => (Some(at), None),
            Answer::Needs(before) => (None, Some(before.as_str())),
        };
        let allowed = answer == Answer::Allowed;
        Self { reminder_type: kind.as_str(), allowed, allowed_from, needs }
    }
}

impl From<Outstanding> for OutstandingBody {
    fn from(one: Outstanding) -> Self {
        Self {
            customer_id: one.customer.to_string(),
            customer_name: one.name,
            overdue_amount: one.owed.digits(),
            currency: one.owed.currency.to_string(),
            since: one.since,
            invoices: one.invoices.iter().map(invoice).collect(),
            open_draft: one.open.map(|id| id.to_string()),
            last_reminder_type: one.last.map(|(kind, _)| kind.as_str()),
            last_reminder_at: one.last.map(|(_, at)| at),
        }
    }
}

impl From<Paid> for PaidBody {
    fn from(paid: Paid) -> Self {
        Self {
            customer_id: paid.customer.to_string(),
            invoice_id: paid.invoice.map(|id| id.to_string()),
            amount: paid.money.map(|money| money.digits()),
            currency: paid.money.map(|money| money.currency.to_string()),
            over: paid.over.map(|money| money.digits()),
            left: None,
            paid_at: paid.paid_at,
            reference: paid.reference,
            recovered_after: paid.recovered_after.map(tidings_reminders::Kind::as_str),
            withdrawn: None,
            replayed: None,
        }
    }
}

impl From<Recorded> for PaidBody {
    fn from(recorded: Recorded) -> Self {
        let withdrawn = recorded.withdrawn.map(|id| id.to_string());
        let left = recorded.left.map(|money| money.digits());
        Self { left, withdrawn, replayed: Some(recorded.replayed), ..recorded.payment.into() }
    }
}

impl From<Report> for ReportBody {
    fn from(report: Report) -> Self {
        let sums = |sums: &std::collections::BTreeMap<_, tidings_kernel::Number>| -> Value {
            let one =
                |(currency, amount): (&tidings_reminders::Currency, &tidings_kernel::Number)| {
                    (currency.to_string(), Value::String(amount.to_string()))
                };
            Value::Object(sums.iter().map(one).collect())
        };
        Self {
            outstanding: sums(&report.outstanding),
            customers_outstanding: report.customers_outstanding,
            recovered: sums(&report.recovered),
            drafted: report.drafted,
            approved: report.approved,
            rejected: report.rejected,
            sent: report.sent,
            failed: report.failed,
            expired: report.expired,
            superseded: report.superseded,
            withdrawn: report.withdrawn,
            median_seconds_to_approve: report.median_time_to_approve.map(|time| time.as_secs()),
        }
    }
}

impl From<Template> for TemplateBody {
    fn from(template: Template) -> Self {
        Self {
            id: template.id,
            version: template.version,
            active: template.active,
            name: template.name,
            reminder_type: template.kind.map(tidings_reminders::Kind::as_str),
            subject: template.subject,
            body: template.body,
            content_type: template.content_type.as_str(),
            branding: template.branding,
            created_at: template.created_at,
        }
    }
}

impl From<Preview> for PreviewBody {
    fn from(preview: Preview) -> Self {
        let Preview { version, subject, content, content_type, missing } = preview;
        Self { version, subject, content, content_type: content_type.as_str(), missing }
    }
}

fn invalid(wrong: Vec<Wrong>) -> Problem {
    let violation = |Wrong { field, message }| Violation { field, message };
    Problem::invalid(wrong.into_iter().map(violation).collect())
}

impl From<DraftError> for Problem {
    fn from(error: DraftError) -> Self {
        let reason = error.reason();
        match error {
            DraftError::Invalid(wrong) => invalid(wrong),
            DraftError::Store(error) => error.into(),
            DraftError::TooEarly { allowed_from, .. } => {
                Self::conflict(error).because(reason).until(allowed_from)
            }
            error => Self::conflict(error).because(reason),
        }
    }
}

impl From<ApproveError> for Problem {
    fn from(error: ApproveError) -> Self {
        match error {
            ApproveError::Missing(_) => Self::not_found(error),
            ApproveError::Edited { .. } => Self::conflict(error).because("edited"),
            ApproveError::NotDraft { .. } => Self::conflict(error).because("not_draft"),
            ApproveError::Expired { .. } => Self::conflict(error).because("expired"),
            ApproveError::NoSender => Self::conflict(error).because("no_sender"),
            ApproveError::SameKey(_) => Self::conflict(error).because("same_key"),
            ApproveError::Invalid(wrong) => invalid(wrong),
            ApproveError::Store(error) => error.into(),
        }
    }
}

impl From<BatchError> for Problem {
    fn from(error: BatchError) -> Self {
        let at = |message: String| {
            let violation = Violation { field: "reminders".to_owned(), message };
            Self::invalid(vec![violation])
        };
        match error {
            BatchError::Count(_) => at(error.to_string()),
            BatchError::NotAlike(_) => Self::conflict(error).because("not_alike"),
            BatchError::TooMuch { .. } => Self::conflict(error).because("too_much"),
            BatchError::Invalid(wrong) => invalid(wrong),
            BatchError::Refused(refused) => {
                let told: Vec<_> = refused.iter().map(|(_, why)| why.to_string()).collect();
                Self::conflict(format!("none was approved: {}", told.join("; "))).because("refused")
            }
            BatchError::Store(error) => error.into(),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Missing(_) => Self::not_found(error),
            EditError::NotEditable { .. } => Self::conflict(error).because("not_editable"),
            EditError::Edited { .. } => Self::conflict(error).because("edited"),
            EditError::Paid(_) => Self::conflict(error).because("paid"),
            EditError::Invalid(wrong) => invalid(wrong),
            EditError::Store(error) => error.into(),
        }
    }
}

impl From<RejectError> for Problem {
    fn from(error: RejectError) -> Self {
        match error {
            RejectError::Missing(_) => Self::not_found(error),
            RejectError::NotOpen { .. } => Self::conflict(error).because("not_open"),
            RejectError::Invalid(wrong) => invalid(wrong),
            RejectError::Store(error) => error.into(),
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Missing(_) => Self::not_found(error),
            FindError::Store(error) => error.into(),
        }
    }
}

impl From<ListingError> for Problem {
    fn from(error: ListingError) -> Self {
        let field = match error {
            ListingError::Limit => "limit",
            ListingError::Cursor => "cursor",
            ListingError::Range => "to",
            ListingError::Store(error) => return error.into(),
        };
        Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    }
}

impl From<BulkError> for Problem {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Count => {
                let (field, message) = ("reminders".to_owned(), error.to_string());
                Self::invalid(vec![Violation { field, message }])
            }
            BulkError::Store(error) => error.into(),
        }
    }
}

impl From<PaidError> for Problem {
    fn from(error: PaidError) -> Self {
        match error {
            PaidError::Invalid(wrong) => invalid(wrong),
            PaidError::UnknownInvoice(_) => Self::not_found(error),
            PaidError::Reused(_) => Self::conflict(error).because("reference_reused"),
            PaidError::Store(error) => error.into(),
        }
    }
}

impl From<templates::PutError> for Problem {
    fn from(error: templates::PutError) -> Self {
        match error {
            templates::PutError::Invalid(wrong) => invalid(wrong),
            templates::PutError::Store(error) => error.into(),
        }
    }
}

impl From<templates::GetError> for Problem {
    fn from(error: templates::GetError) -> Self {
        match error {
            templates::GetError::Missing(_) => Self::not_found(error),
            templates::GetError::Render(_) => Self::conflict(error).because("render"),
            templates::GetError::Store(error) => error.into(),
        }
    }
}

impl From<settings::PutError> for Problem {
    fn from(error: settings::PutError) -> Self {
        match error {
            settings::PutError::Invalid(wrong) => invalid(wrong),
            settings::PutError::Store(error) => error.into(),
        }
    }
}
