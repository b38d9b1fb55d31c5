//! What a workspace wants to be remembered besides what is built in: rules in YAML or JSON.
//!
//! Here: what a rule is, what it derives from an event, and its one written form. Not here: reading one with all that is wrong with it (`read`),
//! how data compare (`test`), places in a payload (`path`), keeping them (`kept`), and having them at hand (`known`).

mod kept;
mod known;
mod path;
mod read;
mod test;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json, json};

use super::derive::{self, Derived};
use super::names::{MemoryKey, MemoryType};
use crate::event::StoredEvent;
pub use kept::{Change, Kept, MAX_SETS, PutError, change, delete, get, list, put};
pub(super) use known::Known;
pub use path::Path;
pub use read::{Fault, MAX_BYTES, MAX_RULES, duration, from_json};
pub use test::Test;

/// Some rules that belong together, as a file has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuleSet {
    pub description: Option<String>,
    pub rules: Vec<Rule>,
}

/// If an event is so, then remember that.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Who is told to have derived it.
    pub name: String,
    /// Types of events. One that ends with `*` means all that begin so.
    pub on: Vec<String>,
    /// All of these hold.
    pub clauses: Vec<Clause>,
    pub memory_type: MemoryType,
    pub key: Text,
    pub value: Source,
    /// In ten-thousandths.
    pub confidence: i64,
    /// In seconds.
    pub expires_after: Option<i64>,
}

/// Something in the payload compares so.
#[derive(Debug, Clone, PartialEq)]
pub struct Clause {
    pub path: Path,
    pub test: Test,
}

/// A text with places of the payload in it: `category:{$.category}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Text(pub Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    As(String),
    At(Path),
}

/// What is remembered: a place of the payload, or always the same.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    At(Path),
    As(Json),
}

impl RuleSet {
    pub(super) fn derive(&self, event: &StoredEvent) -> Vec<Derived> {
        let data = Json::Object(event.payload.clone());
        self.rules.iter().filter_map(|rule| rule.derive(&event.event_type, &data)).collect()
    }

    /// The form in which it is kept and shown. Reading it gives the same.
    pub fn to_json(&self) -> Json {
        let mut set = Map::new();
        if let Some(description) = &self.description {
            set.insert("description".to_owned(), description.as_str().into());
        }
        set.insert("rules".to_owned(), self.rules.iter().map(Rule::to_json).collect());
        Json::Object(set)
    }
}

impl Rule {
    fn derive(&self, event_type: &str, data: &Json) -> Option<Derived> {
        let is_meant = |on: &String| match on.strip_suffix('*') {
            Some(prefix) => event_type.starts_with(prefix),
            None => on == event_type,
        };
        if !self.on.iter().any(is_meant) {
            return None;
        }
        if !self.clauses.iter().all(|clause| clause.test.holds(clause.path.find(data))) {
            return None;
        }
        let value = match &self.value {
            Source::At(path) => derive::kept(path.find(data)?)?,
            Source::As(json) => derive::kept(json)?,
        };
        Some(Derived {
            memory_type: self.memory_type.clone(),
            key: self.key.fill(data)?,
            value,
            confidence: self.confidence,
            expires_after: self.expires_after,
            source: format!("rule:{}", self.name),
        })
    }

    fn to_json(&self) -> Json {
        let mut rule = json!({
            "name": self.name,
            "on": self.on,
            "type": self.memory_type.as_str(),
            "key": self.key.written(),
            "value": match &self.value {
                Source::At(path) => path.to_string().into(),
                Source::As(json) => json.clone(),
            },
            "confidence": self.confidence as f64 / derive::CERTAIN as f64,
        });
        if !self.clauses.is_empty() {
            let clauses = self.clauses.iter().map(|clause| {
                let mut written = json!({"path": clause.path.to_string()});
                written[clause.test.name()] = clause.test.wanted();
                written
            });
            rule["where"] = clauses.collect();
        }
        if let Some(seconds) = self.expires_after {
            rule["expires_after"] = read::written_duration(seconds).into();
        }
        rule
    }
}

impl Text {
    fn fill(&self, data: &Json) -> Option<MemoryKey> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::As(plain) => text.push_str(plain),
                Piece::At(path) => text.push_str(&match path.find(data)? {
                    Json::String(text) => text.trim().to_owned(),
                    Json::Number(number) => number.to_string(),
                    Json::Bool(truth) => truth.to_string(),
                    Json::Null | Json::Array(_) | Json::Object(_) => return None,
                }),
            }
        }
        text.parse().ok()
    }

    fn written(&self) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::As(plain) => plain.clone(),
            Piece::At(path) => format!("{{{path}}}"),
        });
        pieces.collect()
    }
}
