//! What is wrong with a request, all of it at once.

use std::fmt;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub field: String,
    pub message: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.message)
    }
}

/// So many are told; of a hundred thousand wrong users nobody reads more.
const MAX_TOLD: usize = 50;

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Wrongs {
    told: Vec<Wrong>,
    untold: usize,
}

impl Wrongs {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.told.len() == MAX_TOLD {
            self.untold += 1;
            return;
        }
        self.told.push(Wrong { field: field.into(), message: message.into() });
    }

    /// The value, or what is wrong with it.
    pub(crate) fn take<T, E: ToString>(&mut self, field: &str, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.add(field, error.to_string())).ok()
    }

    /// A text within its bounds, without control characters.
    pub(crate) fn text(&mut self, field: &str, text: &str, bounds: (usize, usize)) {
        let (min, max) = bounds;
        if text.trim().chars().count() < min {
            self.add(field, "must not be empty");
        } else if text.chars().count() > max {
            self.add(field, format!("must have at most {max} characters"));
        }
        if text.chars().any(char::is_control) {
            self.add(field, "must have no control characters");
        }
    }

    pub(crate) fn into_result(mut self) -> Result<(), Vec<Wrong>> {
        if self.untold > 0 {
            let message = format!("{} more are wrong", self.untold);
            self.told.push(Wrong { field: "…".to_owned(), message });
        }
        if self.told.is_empty() { Ok(()) } else { Err(self.told) }
    }
}

/// All of it in one line.
pub(crate) fn listed(wrongs: &[Wrong]) -> String {
    wrongs.iter().map(Wrong::to_string).collect::<Vec<_>>().join("; ")
}
