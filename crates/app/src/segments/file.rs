//! Segments as files: read, with the line of all that is wrong.
//!
//! `segments/vip.yaml` is the segment `vip`: `condition`, and if wanted `name` and `trigger_on_build`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tidings_outreach::audience::Condition;
use tidings_outreach::segments::{MAX_CONDITION_BYTES, Put, Violation};
use tidings_sequences::definition::{self, Marked};

/// What a file has besides its condition is short.
const MAX_BYTES: u64 = 2 * MAX_CONDITION_BYTES as u64;

/// A segment, which is called as its file is.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) put: Put,
    path: String,
    /// The line where the condition begins.
    line: Option<usize>,
}

impl Written {
    /// Reads a file, or tells all that is wrong with it in itself.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<String>> {
        let shown = path.display().to_string();
        let wrong = |message: String| vec![format!("{shown}: {message}")];
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > MAX_BYTES {
            return Err(wrong(format!("it is longer than {} KB", MAX_BYTES / 1024)));
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let slug = stem.parse().map_err(|error| wrong(format!("the file's name: {error}")))?;
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let marked = definition::parse_file(&text).map_err(|faults| {
            let told = |fault: &definition::Fault| {
                let line = fault.line.map_or_else(String::new, |line| format!(":{line}"));
                format!("{shown}{line}: {}", fault.message)
            };
            faults.iter().map(told).collect::<Vec<_>>()
        })?;
        let mut faults = Vec::new();
        let read = read_fields(&marked.value, &mut faults);
        let put = read.map(|(name, condition, trigger_on_build)| Put {
            slug,
            name,
            condition,
            trigger_on_build,
        });
        match put {
            Some(put) if faults.is_empty() => {
                Ok(Self { put, path: shown, line: marked.line("/condition") })
            }
            _ => Err(faults.iter().map(|one| told(&shown, &marked, one)).collect()),
        }
    }

    /// What is wrong with the condition in this workspace.
    pub(crate) fn told(&self, violations: &[Violation]) -> Vec<String> {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        violations.iter().map(|one| format!("{}{line}: {one}", self.path)).collect()
    }
}

type Read = (Option<tidings_access::DisplayName>, Value, bool);

fn read_fields(value: &Value, faults: &mut Vec<Violation>) -> Option<Read> {
    let mut wrong = |field: &str, message: String| {
        faults.push(Violation { field: field.to_owned(), message });
    };
    let Value::Object(fields) = value else {
        wrong("", "use an object with a condition".to_owned());
        return None;
    };
    for name in fields.keys() {
        if !matches!(name.as_str(), "name" | "condition" | "trigger_on_build") {
            wrong(name, "this does not belong here".to_owned());
        }
    }
    let name = match fields.get("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => match text.parse() {
            Ok(name) => Some(name),
            Err(error) => {
                wrong("name", format!("{error}"));
                None
            }
        },
        Some(_) => {
            wrong("name", "use a text".to_owned());
            None
        }
    };
    let trigger_on_build = match fields.get("trigger_on_build") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(wanted)) => *wanted,
        Some(_) => {
            wrong("trigger_on_build", "use true or false".to_owned());
            false
        }
    };
    let Some(condition) = fields.get("condition") else {
        wrong("condition", "this is required".to_owned());
        return None;
    };
    if let Err(violations) = Condition::parse(condition, "condition") {
        for one in violations {
            wrong(&one.path, one.message);
        }
    }
    Some((name, condition.clone(), trigger_on_build))
}

/// `segments/vip.yaml:3: condition.all[1].tag: use a text`.
fn told(path: &str, marked: &Marked, violation: &Violation) -> String {
    let pointer: String = violation
        .field
        .split(['.', '[', ']'])
        .filter(|part| !part.is_empty())
        .map(|part| format!("/{part}"))
        .collect();
    let line = marked.line(&pointer).map_or_else(String::new, |line| format!(":{line}"));
    let place = if violation.field.is_empty() { "" } else { ": " };
    format!("{path}{line}{place}{}: {}", violation.field, violation.message)
}
