//! Reading a definition: from a file in YAML or JSON, or from JSON that came in. All that is wrong is told at once.
//!
//! A file becomes JSON first, with the line of everything in it (`marked`); from there on files and the API are read by
//! the same code: what a definition has around its steps (`whole`), the steps (`steps`), and how times are written
//! (`times`). Not here: whether what it names is there, such as its client and its templates (`versions`).

mod fields;
mod inbox;
mod marked;
mod steps;
mod times;
mod whole;

use serde_json::Value;

use self::fields::{Node, Reader};
pub use self::marked::{Marked, parse as parse_file};
use super::{Definition, Fault};

#[cfg(test)]
pub(super) use self::steps::CHECKS;
pub(super) use self::steps::{KINDS, is_path};
pub(super) use self::times::{written_duration, written_time, written_weekday};
pub(super) use self::whole::DEFAULT_TIMEOUT;
#[cfg(test)]
pub(super) use self::whole::KEYS;

/// So long a file may be, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// So many steps a sequence has, those in branches too.
pub const MAX_STEPS: usize = 500;
/// So deep branches are nested.
pub const MAX_DEPTH: usize = 16;
pub const MAX_EXITS: usize = 20;
pub const MAX_EVENTS: usize = 20;
pub const MAX_CLAUSES: usize = 20;
pub const MAX_VARIANTS: usize = 10;
pub const MAX_BRANCHES: usize = 100;
/// So many faults are told.
const MAX_FAULTS: usize = 100;

/// Reads a file, or tells all that is wrong with it, in the order of its lines.
pub fn read(text: &str) -> Result<Definition, Vec<Fault>> {
    read_for(text, &[])
}

/// Reads a file of which some texts are known beforehand, such as its id: it may leave them out, and says nothing else.
pub fn read_for(text: &str, known: &[(&str, &str)]) -> Result<Definition, Vec<Fault>> {
    let mut marked = marked::parse(text)?;
    let value = std::mem::take(&mut marked.value);
    from_json_for(value, known).map_err(|mut faults| {
        for fault in &mut faults {
            fault.line = marked.line(&fault.pointer);
        }
        faults.sort_by_key(|fault| fault.line);
        faults
    })
}

/// The line of what is there, or would be, in a file that can be read: for what is found to be wrong later.
pub fn line_of(text: &str, pointer: &str) -> Option<usize> {
    marked::parse(text).ok()?.line(pointer)
}

/// Says of faults that were found later in which line they are, of a file that can be read.
pub fn mark(text: &str, faults: &mut [Fault]) {
    if let Ok(marked) = marked::parse(text) {
        for fault in faults {
            fault.line = marked.line(&fault.pointer);
        }
    }
}

/// Reads what is JSON already and of which some texts are known beforehand.
pub fn from_json_for(mut value: Value, known: &[(&str, &str)]) -> Result<Definition, Vec<Fault>> {
    let mut faults = Vec::new();
    if let Value::Object(fields) = &mut value {
        for (name, known) in known {
            match fields.get(*name) {
                None | Some(Value::Null) => {
                    fields.insert((*name).to_owned(), (*known).into());
                }
                Some(Value::String(said)) if said != known => {
                    let message = format!("here it can only be {known}; say that, or leave it out");
                    faults.push(Fault::new(format!("/{name}"), message));
                }
                Some(_) => {}
            }
        }
    }
    match from_json(&value) {
        Ok(definition) if faults.is_empty() => Ok(definition),
        Ok(_) => Err(faults),
        Err(found) => {
            faults.extend(found);
            Err(faults)
        }
    }
}

/// Reads what is JSON already.
pub fn from_json(value: &Value) -> Result<Definition, Vec<Fault>> {
    let mut reader = Reader::default();
    let read = reader.definition(&Node::whole(value));
    match read {
        Some(definition) if reader.faults.is_empty() => Ok(definition),
        _ => Err(reader.faults),
    }
}
