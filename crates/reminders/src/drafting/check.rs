//! What bounds a draft, and what tells two requests apart. Pure.

use std::collections::HashSet;

use serde_json::{Value, json};
use tidings_delivery::canonical;
use tidings_kernel::Number;

use super::{Choose, Customer, Facts, New, Overdue, Text};
use crate::wrong::{Found, Wrong};

/// The most bytes of what a reminder says. It is a letter.
pub const MAX_CONTENT: usize = 30_000;
/// The most invoices of one reminder.
pub const MAX_INVOICES: usize = 50;
/// The longest subject.
const MAX_SUBJECT: usize = 200;
/// The longest key.
const MAX_KEY: usize = 255;
/// The most bytes of variables, as JSON.
const MAX_VARIABLES: usize = 16 * 1024;

pub(super) fn new(new: &New) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    customer(&mut found, &new.customer);
    facts(&mut found, &new.facts);
    found.line("created_by", &new.created_by, 100);
    if let Some(key) = &new.idempotency_key {
        found.line("idempotency_key", key, MAX_KEY);
    }
    match &new.text {
        Text::Written { subject, content, .. } => {
            self::content(&mut found, Some(subject), Some(content))
        }
        Text::Template { variables, .. } => {
            let size = serde_json::to_string(variables).map_or(usize::MAX, |text| text.len());
            if size > MAX_VARIABLES {
                found.tell("variables", format!("use at most {} KB", MAX_VARIABLES / 1024));
            }
        }
        Text::DefaultTemplate => {}
    }
    found.into_result()
}

pub(super) fn overdue(overdue: &Overdue) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    customer(&mut found, &overdue.customer);
    facts(&mut found, &overdue.facts);
    found.into_result()
}

fn customer(found: &mut Found, customer: &Customer) {
    found.line("customer.name", &customer.name, 200);
}

pub(crate) fn facts(found: &mut Found, facts: &Facts) {
    if !(1..=MAX_INVOICES).contains(&facts.invoices.len()) {
        found.tell("invoices", format!("use 1 to {MAX_INVOICES} invoices"));
    }
    let (mut seen, mut sum) = (HashSet::new(), Some(Number::ZERO));
    for (at, invoice) in facts.invoices.iter().enumerate() {
        if !seen.insert(&invoice.id) {
            found.tell(format!("invoices[{at}].id"), "it is in the list before");
        }
        let same = |money: &crate::Money| money.currency == facts.owed.currency;
        if !invoice.amount.as_ref().is_none_or(same) {
            let told = format!("use {}, as the whole amount", facts.owed.currency);
            found.tell(format!("invoices[{at}].amount"), told);
        }
        sum = sum.zip(invoice.amount).and_then(|(sum, one)| sum.checked_add(one.amount).ok());
    }
    // Whoever asks for another amount than the invoices have asks for the wrong one.
    if !facts.invoices.is_empty() && sum.is_some_and(|sum| sum != facts.owed.amount) {
        found.tell("amount", "the amounts of the invoices make another sum");
    }
}

pub(crate) fn content(found: &mut Found, subject: Option<&str>, content: Option<&str>) {
    if let Some(subject) = subject {
        found.line("subject", subject, MAX_SUBJECT);
    }
    let Some(content) = content else { return };
    // A line that is written over, or words that are shown in another order, are not what is sent.
    let odd = |c: char| (c.is_control() && !['\n', '\t'].contains(&c)) || is_bidi(c);
    let content = lines(content);
    if content.trim().is_empty() || content.len() > MAX_CONTENT || content.chars().any(odd) {
        found.tell(
            "content",
            format!(
                "use 1 to {MAX_CONTENT} bytes of text, without control characters and marks that turn the direction of words"
            ),
        );
    }
}

/// The same text with the line ends of one kind. A lone carriage return is none.
pub(crate) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// What makes a text look like another one: overrides, embeddings and isolates of direction.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Tells a request from another one with the same key.
pub(super) fn fingerprint(new: &New) -> String {
    let text = match &new.text {
        Text::Written { subject, content, content_type } => {
            json!({ "subject": subject, "content": content, "type": content_type.as_str() })
        }
        Text::Template { id, variables } => json!({ "template": id, "variables": variables }),
        Text::DefaultTemplate => json!("default"),
    };
    let invoices: Vec<Value> = new
        .facts
        .invoices
        .iter()
        .map(|one| {
            let (amount, due) = (one.amount.map(|money| money.to_string()), one.due);
            json!([one.id.as_str(), amount, due.map(|due| due.to_string())])
        })
        .collect();
    canonical::hash(&json!({
        "customer": [new.customer.id.as_str(), new.customer.name, new.customer.email.as_str()],
        "kind": match new.choose {
            Choose::Kind(kind) => kind.as_str(),
            Choose::Next => "next",
        },
        "owed": new.facts.owed.to_string(),
        "invoices": invoices,
        "text": text,
        "created_by": new.created_by,
    }))
}
