//! What is wrong with a request, all of it at once.

use crate::drafting::is_bidi;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Where: `customer.email`, `invoices[2].amount`.
    pub field: String,
    /// What would be right.
    pub message: String,
}

/// Collects them.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<Wrong>);

impl Found {
    pub(crate) fn tell(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Wrong { field: field.into(), message: message.into() });
    }

    /// A text of one line.
    pub(crate) fn line(&mut self, field: &str, text: &str, most: usize) {
        let fits = (1..=most).contains(&text.chars().count())
            && !text.trim().is_empty()
            && !text.chars().any(|c| c.is_control() || is_bidi(c));
        if !fits {
            self.tell(field, format!("use 1 to {most} characters on one line"));
        }
    }

    pub(crate) fn into_result(self) -> Result<(), Vec<Wrong>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// All of them in one line, for an error.
pub(crate) fn listed(all: &[Wrong]) -> String {
    let told: Vec<_> = all.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
    told.join("; ")
}
