//! Payment reminders of the demo: a template, and drafts of overdue invoices that wait for somebody to decide.

use serde_json::Map;
use tidings_access::Cx;
use tidings_reminders::{
    Choose, ContentType, Customer, DraftError, Facts, Invoice, Kind, Listing, Money, New, Text,
    draft, pending, templates,
};

use super::contacts;
use crate::failure::Failure;

const TEMPLATE: &str = "reminder_first";
const SUBJECT: &str = "Payment reminder: {{ invoice_ids }}";
const BODY: &str = "Dear {{ customer_name }},\n\n\
    {{ overdue_amount }} {{ currency }} are still open, of {{ invoice_ids }}. Perhaps it slipped your mind.\n\n\
    Yours, the demo shop\n";
/// Who owes what.
const OVERDUE: [(&str, &str, &str); 3] = [
    ("cust_001", "INV-1001", "1500.00"),
    ("cust_002", "INV-1002", "89.90"),
    ("cust_003", "INV-1003", "240.00"),
];

/// Drafts them, and tells how many wait. Drafts have keys, so in a folder that is kept nothing comes again.
pub(super) async fn fill(cx: &Cx) -> Result<usize, Failure> {
    let template = templates::Put {
        id: TEMPLATE.to_owned(),
        name: "First reminder".to_owned(),
        kind: Some(Kind::First),
        subject: SUBJECT.to_owned(),
        body: BODY.to_owned(),
        content_type: ContentType::Text,
        branding: None,
    };
    templates::put(cx, template).await?;
    for (number, (customer, invoice, amount)) in OVERDUE.into_iter().enumerate() {
        let owed = Money::new(amount, "EUR")?;
        let new = New {
            customer: Customer {
                id: customer.parse()?,
                name: format!("Customer {}", number + 1),
                email: contacts::email(number).parse()?,
            },
            choose: Choose::Kind(Kind::First),
            facts: Facts {
                owed,
                invoices: vec![Invoice { id: invoice.parse()?, amount: Some(owed), due: None }],
            },
            text: Text::Template { id: TEMPLATE.to_owned(), variables: Map::new() },
            created_by: "ai_system".to_owned(),
            idempotency_key: Some(format!("demo-{customer}")),
        };
        match draft(cx, new).await {
            // Somebody has played with them since.
            Ok(_)
            | Err(
                DraftError::TooEarly { .. }
                | DraftError::Paid(_)
                | DraftError::Suppressed(_)
                | DraftError::InProgress(_)
                | DraftError::KeyReused(_),
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pending(cx, Listing { limit: 100, cursor: None }).await?.items.len())
}
