//! What callers send about reminders, field by field.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Value};
use tidings_kernel::EmailAddress;
use tidings_reminders::templates::Put;
use tidings_reminders::{
    Approve, ApproveMany, Choose, ContentType, Customer, CustomerId, DraftId, Edit, Facts, Invoice,
    InvoiceId, Kind, MAX_ROWS, Money, New, Overdue, Payment, Reject, Seen, Text,
};
use utoipa::ToSchema;

use super::super::input::{Fields, FromFields};

/// A draft as somebody wants it.
#[derive(ToSchema)]
#[schema(as = NewReminder)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct NewBody {
    #[schema(example = "cust_001", max_length = 64)]
    customer_id: String,
    #[schema(example = "Ada Ltd", max_length = 200)]
    customer_name: String,
    #[schema(format = Email, example = "ada@example.org", max_length = 254)]
    customer_email: String,
    /// `next` is the one that comes next for this customer, and the default
    #[schema(example = "first", pattern = "^(first|second|final|next)$")]
    reminder_type: Option<String>,
    /// An exact decimal, as a text
    #[schema(example = "1500.00")]
    overdue_amount: String,
    /// ISO 4217
    #[schema(example = "EUR", min_length = 3, max_length = 3)]
    currency: String,
    #[schema(min_items = 1, max_items = 50)]
    invoices: Vec<InvoiceBody>,
    /// With `content`: exactly this text. Without both it is made from a template
    #[schema(max_length = 255)]
    subject: Option<String>,
    #[schema(max_length = 30000)]
    content: Option<String>,
    #[schema(example = "text", pattern = "^(text|html)$")]
    content_type: Option<String>,
    /// A template; without it the one that the settings name for the type, or the active one of the type
    template: Option<String>,
    /// For the template, besides what every template has
    #[schema(value_type = Option<Object>)]
    variables: Option<Map<String, Value>>,
    /// The person, program or agent that wrote it
    #[schema(example = "agent:dunning", max_length = 100)]
    created_by: String,
    /// With the same key the same draft is made once
    #[schema(max_length = 255)]
    idempotency_key: Option<String>,
}

#[derive(serde::Serialize, ToSchema)]
#[schema(as = ReminderInvoice)]
pub(in crate::v1) struct InvoiceBody {
    #[schema(example = "INV-17", max_length = 64)]
    pub(super) id: String,
    #[schema(example = "1500.00")]
    pub(super) amount: Option<String>,
    #[schema(value_type = Option<String>, format = Date)]
    pub(super) due: Option<Date>,
}

pub(in crate::v1) struct NewReminder(pub(super) New);
pub(in crate::v1) struct NewReminders(pub(super) Rows<New>);
pub(in crate::v1) struct NewOverdue(pub(super) Rows<Overdue>);

/// A list of which each row is read by itself: one that is wrong keeps no other from being drafted.
pub(in crate::v1) struct Rows<T> {
    pub(super) good: Vec<T>,
    /// Which rows the good ones are.
    pub(super) places: Vec<usize>,
    pub(super) unread: Vec<Unread>,
}

impl<T> Rows<T> {
    /// The good ones, and all that is known besides.
    pub(super) fn taken(mut self) -> (Self, Vec<T>) {
        let good = std::mem::take(&mut self.good);
        (self, good)
    }
}

/// A row that is wrong.
pub(in crate::v1) struct Unread {
    pub(super) row: usize,
    pub(super) customer: Option<CustomerId>,
    pub(super) detail: String,
}

struct OverdueOne(Overdue);

/// Many of them.
#[derive(ToSchema)]
#[schema(as = NewReminders)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct ManyBody {
    #[schema(min_items = 1, max_items = 500)]
    reminders: Vec<NewBody>,
}

/// Who owes what.
#[derive(ToSchema)]
#[schema(as = OverdueCustomers)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct OverdueBody {
    /// Each with `customer_id`, `customer_name`, `customer_email`, `overdue_amount`, `currency` and `invoices`, as in a draft
    #[schema(min_items = 1, max_items = 500, value_type = Vec<Object>)]
    customers: Vec<Value>,
}

impl FromFields for NewReminder {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let customer = customer(fields);
        let choose = match fields.optional::<String>("reminder_type")?.as_deref() {
            None | Some("next") => Some(Choose::Next),
            Some(word) => match word.parse() {
                Ok(kind) => Some(Choose::Kind(kind)),
                Err(_) => fields.wrong("reminder_type", "use first, second, final or next"),
            },
        };
        let facts = facts(fields);
        let text = text(fields);
        let created_by = fields.required("created_by");
        let idempotency_key = fields.optional("idempotency_key");
        Some(Self(New {
            customer: customer?,
            choose: choose?,
            facts: facts?,
            text: text?,
            created_by: created_by?,
            idempotency_key: idempotency_key?,
        }))
    }
}

impl FromFields for NewReminders {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self(rows(fields, "reminders", |NewReminder(new)| new)?))
    }
}

impl FromFields for OverdueOne {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (customer, facts) = (customer(fields), facts(fields));
        Some(Self(Overdue { customer: customer?, facts: facts? }))
    }
}

impl FromFields for NewOverdue {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self(rows(fields, "customers", |OverdueOne(one)| one)?))
    }
}

fn rows<T: FromFields, U>(
    fields: &mut Fields,
    name: &'static str,
    of: impl Fn(T) -> U,
) -> Option<Rows<U>> {
    let all = fields.each_up_to::<T>(name, MAX_ROWS)?;
    let (mut good, mut places, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (row, (sent, read)) in all.into_iter().enumerate() {
        match read {
            Ok(one) => {
                good.push(of(one));
                places.push(row);
            }
            Err(wrong) => {
                let customer = sent.get("customer_id").and_then(Value::as_str);
                let told = wrong.iter().map(|one| format!("{}: {}", one.field, one.message));
                let told: Vec<_> = told.collect();
                let customer = customer.and_then(|id| id.parse().ok());
                unread.push(Unread { row, customer, detail: told.join("; ") });
            }
        }
    }
    Some(Rows { good, places, unread })
}

fn customer(fields: &mut Fields) -> Option<Customer> {
    let id = fields.required::<CustomerId>("customer_id");
    let name = fields.required::<String>("customer_name");
    let email = fields.required::<EmailAddress>("customer_email");
    Some(Customer { id: id?, name: name?, email: email? })
}

/// What is owed, with its invoices.
fn facts(fields: &mut Fields) -> Option<Facts> {
    let amount = fields.required::<String>("overdue_amount");
    let currency = fields.required::<String>("currency");
    let invoices = fields.objects::<InvoiceFields>("invoices");
    let (amount, currency) = (amount?, currency?);
    let owed = match Money::new(&amount, &currency) {
        Ok(money) => Some(money),
        Err(error) => fields.wrong("overdue_amount", error.to_string()),
    };
    let mut all = Vec::new();
    for (place, InvoiceFields { id, amount, due }) in invoices?.into_iter().enumerate() {
        let money = amount.map(|amount| Money::new(&amount, &currency)).transpose();
        match money {
            Ok(amount) => all.push(Invoice { id, amount, due }),
            Err(error) => {
                return fields.wrong(&format!("invoices[{place}].amount"), error.to_string());
            }
        }
    }
    Some(Facts { owed: owed?, invoices: all })
}

struct InvoiceFields {
    id: InvoiceId,
    amount: Option<String>,
    due: Option<Date>,
}

impl FromFields for InvoiceFields {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let id = fields.required("id");
        let amount = fields.optional("amount");
        let due = fields.optional("due");
        Some(Self { id: id?, amount: amount?, due: due? })
    }
}

fn text(fields: &mut Fields) -> Option<Text> {
    let (subject, content) = (fields.optional("subject"), fields.optional("content"));
    let content_type = content_type(fields);
    let template = fields.optional::<String>("template");
    let variables = fields.optional_object("variables");
    match (subject?, content?, template?, variables?) {
        (None, None, None, None) => Some(Text::DefaultTemplate),
        (None, None, Some(id), variables) => {
            Some(Text::Template { id, variables: variables.unwrap_or_default() })
        }
        (Some(subject), Some(content), None, None) => {
            let content_type = content_type?.unwrap_or(ContentType::Text);
            Some(Text::Written { subject, content, content_type })
        }
        _ => fields.wrong(
            "content",
            "use subject and content, or template (with variables), or none of them",
        ),
    }
}

fn content_type(fields: &mut Fields) -> Option<Option<ContentType>> {
    let Some(word) = fields.optional::<String>("content_type")? else { return Some(None) };
    match ContentType::parse(&word) {
        Some(known) => Some(Some(known)),
        None => fields.wrong("content_type", "use text or html"),
    }
}

/// An approval of what was seen.
#[derive(ToSchema)]
#[schema(as = ReminderApproval)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct ApproveBody {
    /// The person
    #[schema(example = "Grace Hopper", max_length = 100)]
    by: String,
    /// The `hash` of what was seen; or `edition`
    hash: Option<String>,
    #[schema(minimum = 1)]
    edition: Option<i64>,
}

pub(in crate::v1) struct Approving {
    by: String,
    seen: Seen,
}

impl Approving {
    pub(super) fn of(self, draft: DraftId) -> Approve {
        Approve { draft, seen: self.seen, by: self.by }
    }
}

impl FromFields for Approving {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (by, seen) = (fields.required("by"), seen(fields));
        Some(Self { by: by?, seen: seen? })
    }
}

fn seen(fields: &mut Fields) -> Option<Seen> {
    let (hash, edition) = (fields.optional("hash"), fields.optional_integer("edition"));
    match (hash?, edition?) {
        (Some(hash), None) => Some(Seen::Hash(hash)),
        (None, Some(edition)) => Some(Seen::Edition(edition)),
        _ => fields.wrong("hash", "use hash or edition of what you saw"),
    }
}

/// Approvals of many that are alike.
#[derive(ToSchema)]
#[schema(as = ReminderApprovals)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct ApproveManyBody {
    #[schema(example = "Grace Hopper", max_length = 100)]
    by: String,
    /// Each with `id` and `hash` or `edition`
    #[schema(min_items = 1, max_items = 100, value_type = Vec<Object>)]
    reminders: Vec<Value>,
}

pub(in crate::v1) struct ApprovingMany(pub(super) ApproveMany);

struct Chosen(DraftId, Seen);

impl FromFields for Chosen {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (id, seen) = (fields.required("id"), seen(fields));
        Some(Self(id?, seen?))
    }
}

impl FromFields for ApprovingMany {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (by, all) = (fields.required("by"), fields.objects::<Chosen>("reminders"));
        let drafts = all?.into_iter().map(|Chosen(id, seen)| (id, seen)).collect();
        Some(Self(ApproveMany { drafts, by: by? }))
    }
}

/// A rejection.
#[derive(ToSchema)]
#[schema(as = ReminderRejection)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct RejectBody {
    #[schema(example = "Grace Hopper", max_length = 100)]
    by: String,
    #[schema(max_length = 500)]
    reason: String,
}

pub(in crate::v1) struct Rejecting {
    by: String,
    reason: String,
}

impl Rejecting {
    pub(super) fn of(self, draft: DraftId) -> Reject {
        Reject { draft, reason: self.reason, by: self.by }
    }
}

impl FromFields for Rejecting {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (by, reason) = (fields.required("by"), fields.required("reason"));
        Some(Self { by: by?, reason: reason? })
    }
}

/// A change of a draft. What is left out stays.
#[derive(ToSchema)]
#[schema(as = ReminderEdit)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct EditBody {
    #[schema(example = "Grace Hopper", max_length = 100)]
    by: String,
    subject: Option<String>,
    #[schema(max_length = 30000)]
    content: Option<String>,
    #[schema(pattern = "^(text|html)$")]
    content_type: Option<String>,
    /// With `currency` and `invoices`
    overdue_amount: Option<String>,
    currency: Option<String>,
    invoices: Option<Vec<InvoiceBody>>,
    /// The edition that was seen: somebody else's edit in the meantime is not overwritten
    edition: Option<i64>,
}

pub(in crate::v1) struct Editing(pub(super) Edit);

impl FromFields for Editing {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let by = fields.required("by");
        let (subject, content) = (fields.optional("subject"), fields.optional("content"));
        let content_type = content_type(fields);
        let edition = fields.optional_integer("edition");
        let any = ["overdue_amount", "currency", "invoices"].iter().any(|name| fields.has(name));
        let facts = if any { facts(fields).map(Some) } else { Some(None) };
        Some(Self(Edit {
            subject: subject?,
            content: content?,
            content_type: content_type?,
            facts: facts?,
            edition: edition?,
            by: by?,
        }))
    }
}

/// Money that came in.
#[derive(ToSchema)]
#[schema(as = ReminderPayment)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct PaymentBody {
    /// It may be left out where the invoice is known
    customer_id: Option<String>,
    /// Without it the customer has paid all that he owed, and `reference` is needed. With an `amount` below what it comes
    /// to the rest stays open; without an amount all of it is paid
    invoice_id: Option<String>,
    #[schema(example = "1500.00")]
    amount: Option<String>,
    currency: Option<String>,
    #[schema(format = DateTime)]
    paid_at: Option<String>,
    /// Told twice, it counts once. Each payment of an invoice has one of its own
    #[schema(max_length = 255)]
    reference: Option<String>,
}

pub(in crate::v1) struct Paying(pub(super) Payment);

impl FromFields for Paying {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let customer = fields.optional("customer_id");
        let invoice = fields.optional("invoice_id");
        let (amount, currency) =
            (fields.optional::<String>("amount"), fields.optional::<String>("currency"));
        let paid_at: Option<Option<Timestamp>> = fields.optional_time("paid_at");
        let reference = fields.optional("reference");
        let money = match (amount?, currency?) {
            (None, None) => Some(None),
            (Some(amount), Some(currency)) => match Money::new(&amount, &currency) {
                Ok(money) => Some(Some(money)),
                Err(error) => fields.wrong("amount", error.to_string()),
            },
            _ => fields.wrong("amount", "use amount and currency together"),
        };
        Some(Self(Payment {
            customer: customer?,
            invoice: invoice?,
            money: money?,
            paid_at: paid_at?,
            reference: reference?,
        }))
    }
}

/// A template of reminders.
#[derive(ToSchema)]
#[schema(as = NewReminderTemplate)]
#[expect(dead_code, reason = "`FromFields` reads it; this says how it looks")]
pub(in crate::v1) struct NewTemplateBody {
    #[schema(example = "Friendly", max_length = 100)]
    name: String,
    /// What it is for; any of them without it
    #[schema(pattern = "^(first|second|final)$")]
    reminder_type: Option<String>,
    /// Liquid
    #[schema(example = "Invoice {{ invoice_ids }} is overdue")]
    subject: String,
    /// Liquid
    body: String,
    #[schema(pattern = "^(text|html)$")]
    content_type: Option<String>,
    branding: Option<String>,
}

pub(in crate::v1) struct NewTemplate {
    name: String,
    kind: Option<Kind>,
    subject: String,
    body: String,
    content_type: ContentType,
    branding: Option<String>,
}

impl NewTemplate {
    pub(super) fn of(self, id: String) -> Put {
        let Self { name, kind, subject, body, content_type, branding } = self;
        Put { id, name, kind, subject, body, content_type, branding }
    }
}

impl FromFields for NewTemplate {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let name = fields.required("name");
        let kind = fields.optional("reminder_type");
        let (subject, body) = (fields.required("subject"), fields.required("body"));
        let content_type = content_type(fields);
        let branding = fields.optional("branding");
        Some(Self {
            name: name?,
            kind: kind?,
            subject: subject?,
            body: body?,
            content_type: content_type?.unwrap_or(ContentType::Text),
            branding: branding?,
        })
    }
}
