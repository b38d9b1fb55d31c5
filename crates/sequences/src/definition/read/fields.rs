//! What everything is read with: values that know where they stand, and the faults so far.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::{Map, Value};
use tidings_outreach::audience::Violation;

use super::MAX_FAULTS;
use crate::definition::fault::within;
use crate::definition::{Fault, Path};

#[derive(Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
    /// So many steps were met.
    pub(super) steps: usize,
    /// The names that authors gave, and where.
    pub(super) ids: BTreeMap<String, String>,
}

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node<'v> {
    pub(super) value: &'v Value,
    pub(super) pointer: String,
}

/// An object, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Fields<'v> {
    pub(super) map: &'v Map<String, Value>,
    pub(super) pointer: String,
}

impl<'v> Node<'v> {
    pub(super) fn whole(value: &'v Value) -> Self {
        Self { value, pointer: String::new() }
    }
}

impl<'v> Fields<'v> {
    /// A null is as good as nothing.
    pub(super) fn get(&self, name: &str) -> Option<Node<'v>> {
        self.any(name).filter(|node| !node.value.is_null())
    }

    /// Also if it is null.
    pub(super) fn any(&self, name: &str) -> Option<Node<'v>> {
        let value = self.map.get(name)?;
        Some(Node { value, pointer: within(&self.pointer, name) })
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&'v String, Node<'v>)> {
        let pointer = self.pointer.clone();
        self.map
            .iter()
            .map(move |(name, value)| (name, Node { value, pointer: within(&pointer, name) }))
    }
}

impl Reader {
    /// Notes what is wrong. `None`, so that it can stand for what was to be read.
    pub(super) fn wrong<T>(&mut self, pointer: &str, message: impl Into<String>) -> Option<T> {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault::new(pointer, message));
        }
        None
    }

    pub(super) fn told<T, E: Display>(&mut self, read: Result<T, E>, pointer: &str) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => self.wrong(pointer, error.to_string()),
        }
    }

    /// What the language of conditions finds wrong, at its place.
    pub(super) fn violations<T>(
        &mut self,
        read: Result<T, Vec<Violation>>,
        pointer: &str,
    ) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(violations) => {
                for Violation { path, message } in violations {
                    let path = path.replace('[', ".").replace(']', "");
                    let names = path.split('.').filter(|name| !name.is_empty());
                    let pointer = names.fold(pointer.to_owned(), |at, name| within(&at, name));
                    self.wrong::<()>(&pointer, message);
                }
                None
            }
        }
    }

    /// An object that has these keys and no others.
    pub(super) fn object<'v>(
        &mut self,
        node: &Node<'v>,
        known: &[&str],
        example: &str,
    ) -> Option<Fields<'v>> {
        let Value::Object(map) = node.value else {
            return self.wrong(&node.pointer, format!("use {example}"));
        };
        let fields = Fields { map, pointer: node.pointer.clone() };
        self.only(&fields, known);
        Some(fields)
    }

    pub(super) fn only(&mut self, fields: &Fields<'_>, known: &[&str]) {
        for (name, node) in fields.nodes().filter(|(name, _)| !known.contains(&name.as_str())) {
            let message = match nearest(name, known) {
                Some(meant) => format!("this key is not known here; did you mean {meant}?"),
                None if known.len() == 1 => {
                    format!("this key is not known here; there is only {}", known[0])
                }
                None => format!("this key is not known here; there are {}", known.join(", ")),
            };
            self.wrong::<()>(&node.pointer, message);
        }
    }

    /// What has to be there.
    pub(super) fn required<'v>(
        &mut self,
        fields: &Fields<'v>,
        name: &str,
        message: &str,
    ) -> Option<Node<'v>> {
        let found = fields.get(name);
        if found.is_none() {
            self.wrong::<()>(&within(&fields.pointer, name), format!("this is missing; {message}"));
        }
        found
    }

    pub(super) fn list<'v>(&mut self, node: &Node<'v>, most: usize) -> Vec<Node<'v>> {
        let Value::Array(list) = node.value else {
            self.wrong::<()>(&node.pointer, "use a list");
            return Vec::new();
        };
        if list.len() > most {
            self.wrong::<()>(&node.pointer, format!("use a list of at most {most}"));
            return Vec::new();
        }
        let node = |(place, value)| Node { value, pointer: format!("{}/{place}", node.pointer) };
        list.iter().enumerate().map(node).collect()
    }

    pub(super) fn text<'v>(&mut self, node: &Node<'v>) -> Option<&'v str> {
        match node.value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => {
                self.wrong(&node.pointer, "use a text; put it in quotes")
            }
            Value::Null | Value::Array(_) | Value::Object(_) => {
                self.wrong(&node.pointer, "use a text")
            }
        }
    }

    /// A text on one line, of so many characters.
    pub(super) fn line(&mut self, node: &Node<'_>, most: usize) -> Option<String> {
        let text = self.text(node)?.trim();
        let fits = (1..=most).contains(&text.chars().count());
        if !fits || text.chars().any(char::is_control) {
            return self.wrong(&node.pointer, format!("use 1 to {most} characters on one line"));
        }
        Some(text.to_owned())
    }

    pub(super) fn truth(&mut self, node: &Node<'_>) -> Option<bool> {
        match node.value {
            Value::Bool(truth) => Some(*truth),
            _ => self.wrong(&node.pointer, "use true or false"),
        }
    }

    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, node: &Node<'_>) -> Option<T> {
        let text = self.text(node)?;
        self.told(text.parse(), &node.pointer)
    }

    /// What can be left out.
    pub(super) fn maybe<T: FromStr<Err: Display>>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
    ) -> Option<T> {
        fields.get(name).and_then(|node| self.parsed(&node))
    }

    pub(super) fn path(&mut self, node: &Node<'_>) -> Option<Path> {
        self.parsed(node)
    }
}

/// The key that was probably meant. `exit_on` is as near to `exitOn` as can be.
pub(super) fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    const GOOD_ENOUGH: f64 = 0.6;
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    // Names come from outside, and comparing takes long if they are.
    let given = plain(&given.chars().take(60).collect::<String>());
    known
        .iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(&given, &plain(name)), *name))
        .filter(|(score, _)| *score >= GOOD_ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}
