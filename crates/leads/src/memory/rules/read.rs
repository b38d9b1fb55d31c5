//! Reading rules. All that is wrong is told at once, each with its place.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Map, Value as Json};

use super::{Clause, Path, Piece, Rule, RuleSet, Source, Test, Text};
use crate::memory::derive::{self, CERTAIN};

/// So long a file may be, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
pub const MAX_RULES: usize = 50;
const MAX_TYPES: usize = 20;
const MAX_CLAUSES: usize = 20;
/// So many faults are told.
const MAX_FAULTS: usize = 100;
const DEFAULT_CONFIDENCE: i64 = 8_000;
/// Ten years.
const LONGEST: i64 = 3_660 * 24 * 60 * 60;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, as a JSON pointer: `/rules/2/key`. Empty for the whole.
    pub pointer: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Fault {
    /// Where, as people write it: `rules[2].key`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for part in self.pointer.split('/').skip(1) {
            if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
                path.push_str(&format!("[{part}]"));
                continue;
            }
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(part);
        }
        path
    }
}

/// Reads rules, or tells all that is wrong with them.
pub fn from_json(json: &Json) -> Result<RuleSet, Vec<Fault>> {
    let mut reader = Reader { faults: Vec::new() };
    if json.to_string().len() > MAX_BYTES {
        reader.wrong::<()>("", format!("rules have at most {} KB", MAX_BYTES / 1024));
        return Err(reader.faults);
    }
    let read = reader.set(json);
    match read {
        Some(set) if reader.faults.is_empty() => Ok(set),
        _ => Err(reader.faults),
    }
}

struct Reader {
    faults: Vec<Fault>,
}

const RULE: [&str; 8] =
    ["name", "on", "where", "type", "key", "value", "confidence", "expires_after"];

impl Reader {
    /// `None`, so that it can stand for what was to be read.
    fn wrong<T>(&mut self, pointer: &str, message: impl Into<String>) -> Option<T> {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { pointer: pointer.to_owned(), message: message.into() });
        }
        None
    }

    fn told<T, E: Display>(&mut self, read: Result<T, E>, pointer: &str) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => self.wrong(pointer, error.to_string()),
        }
    }

    fn object<'v>(
        &mut self,
        json: &'v Json,
        pointer: &str,
        known: &[&str],
    ) -> Option<&'v Map<String, Json>> {
        let Some(map) = json.as_object() else { return self.wrong(pointer, "use an object") };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let short: String = name.chars().take(100).collect();
            let message = format!("this key is not known here; there are {}", known.join(", "));
            self.wrong::<()>(&within(pointer, &short), message);
        }
        Some(map)
    }

    fn set(&mut self, json: &Json) -> Option<RuleSet> {
        let map = self.object(json, "", &["description", "rules"])?;
        let description = match given(map, "description") {
            Some(json) => self.line(json, "/description", 500),
            None => None,
        };
        let Some(Json::Array(list)) = given(map, "rules") else {
            return self.wrong("/rules", "use a list of rules");
        };
        if list.is_empty() || list.len() > MAX_RULES {
            return self.wrong("/rules", format!("use 1 to {MAX_RULES} rules"));
        }
        let mut names = BTreeSet::new();
        let mut rules = Vec::new();
        for (place, json) in list.iter().enumerate() {
            let pointer = format!("/rules/{place}");
            if let Some(rule) = self.rule(json, &pointer) {
                if !names.insert(rule.name.clone()) {
                    self.wrong::<()>(&within(&pointer, "name"), "another rule has this name");
                }
                rules.push(rule);
            }
        }
        Some(RuleSet { description, rules })
    }

    fn rule(&mut self, json: &Json, at: &str) -> Option<Rule> {
        let map = self.object(json, at, &RULE)?;
        let text = |reader: &mut Self, name: &str, most| match given(map, name) {
            Some(json) => reader.line(json, &within(at, name), most),
            None => reader.wrong(&within(at, name), "this is missing"),
        };
        let name = text(self, "name", 64);
        let on = self.types(given(map, "on"), &within(at, "on"));
        let clauses = self.clauses(given(map, "where"), &within(at, "where"));
        let memory_type =
            text(self, "type", 64).and_then(|text| self.told(text.parse(), &within(at, "type")));
        let key = text(self, "key", 200).and_then(|text| self.key(&text, &within(at, "key")));
        let value = self.value(given(map, "value"), &within(at, "value"));
        let confidence = self.confidence(given(map, "confidence"), &within(at, "confidence"));
        let expires = self.duration(given(map, "expires_after"), &within(at, "expires_after"));
        Some(Rule {
            name: name?,
            on: on?,
            clauses: clauses?,
            memory_type: memory_type?,
            key: key?,
            value: value?,
            confidence: confidence?,
            expires_after: expires?,
        })
    }

    fn line(&mut self, json: &Json, at: &str, most: usize) -> Option<String> {
        let Some(text) = json.as_str().map(str::trim) else { return self.wrong(at, "use a text") };
        let fits = (1..=most).contains(&text.chars().count());
        if !fits || text.chars().any(char::is_control) {
            return self.wrong(at, format!("use 1 to {most} characters on one line"));
        }
        Some(text.to_owned())
    }

    /// One type, or a list of them.
    fn types(&mut self, json: Option<&Json>, at: &str) -> Option<Vec<String>> {
        let one = json.map(std::slice::from_ref).unwrap_or_default();
        let list = match json {
            Some(Json::Array(list)) => list.as_slice(),
            _ => one,
        };
        if list.is_empty() || list.len() > MAX_TYPES {
            return self.wrong(at, format!("use a type of events, or a list of 1 to {MAX_TYPES}"));
        }
        let mut types = Vec::new();
        for json in list {
            let text = self.line(json, at, 128)?;
            if text.trim_end_matches('*').contains('*') || text.matches('*').count() > 1 {
                return self.wrong(at, "a * can only stand at the end");
            }
            types.push(text);
        }
        Some(types)
    }

    fn clauses(&mut self, json: Option<&Json>, at: &str) -> Option<Vec<Clause>> {
        let list = match json {
            None => return Some(Vec::new()),
            Some(Json::Array(list)) if list.len() <= MAX_CLAUSES => list,
            Some(_) => {
                let message = format!(
                    "use a list of at most {MAX_CLAUSES} such as {{path: $.category, equals: coffee}}"
                );
                return self.wrong(at, message);
            }
        };
        let mut clauses = Vec::new();
        for (place, json) in list.iter().enumerate() {
            clauses.push(self.clause(json, &format!("{at}/{place}")));
        }
        clauses.into_iter().collect()
    }

    fn clause(&mut self, json: &Json, at: &str) -> Option<Clause> {
        let mut known = vec!["path"];
        known.extend(Test::NAMES);
        let map = self.object(json, at, &known)?;
        let path = match given(map, "path") {
            Some(json) => self.path(json, &within(at, "path")),
            None => self.wrong(&within(at, "path"), "this is missing"),
        };
        let tests: Vec<_> =
            Test::NAMES.into_iter().filter_map(|name| Some((name, map.get(name)?))).collect();
        let [(name, wanted)] = tests.as_slice() else {
            return self.wrong(at, format!("use one of {}", Test::NAMES.join(", ")));
        };
        let test = self.told(Test::parse(name, wanted), &within(at, name));
        Some(Clause { path: path?, test: test? })
    }

    fn path(&mut self, json: &Json, at: &str) -> Option<Path> {
        let text = self.line(json, at, 200)?;
        self.told(text.parse(), at)
    }

    /// A text with `{$.paths}` in it.
    fn key(&mut self, text: &str, at: &str) -> Option<Text> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{$") {
            let Some((path, after)) = after.split_once('}') else {
                return self.wrong(at, "a {$.path} does not end; close it with }");
            };
            if !before.is_empty() {
                pieces.push(Piece::As(before.to_owned()));
            }
            pieces.push(Piece::At(self.told(format!("${path}").parse(), at)?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::As(rest.to_owned()));
        }
        Some(Text(pieces))
    }

    fn value(&mut self, json: Option<&Json>, at: &str) -> Option<Source> {
        let Some(json) = json else {
            return self.wrong(at, "this is missing; use a path such as $.category, or a value");
        };
        match json {
            Json::String(text) if text.starts_with('$') => self.path(json, at).map(Source::At),
            json if derive::kept(json).is_none() => {
                self.wrong(at, format!("use a value of at most {} KB", derive::MAX_VALUE / 1024))
            }
            json => Some(Source::As(json.clone())),
        }
    }

    fn confidence(&mut self, json: Option<&Json>, at: &str) -> Option<i64> {
        let Some(json) = json else { return Some(DEFAULT_CONFIDENCE) };
        let parts = json.as_f64().map(|given| (given * CERTAIN as f64).round() as i64);
        match parts {
            Some(parts @ 1..=CERTAIN) => Some(parts),
            _ => self.wrong(at, "use a number above 0 and at most 1"),
        }
    }

    /// The inner `None` means for ever.
    fn duration(&mut self, json: Option<&Json>, at: &str) -> Option<Option<i64>> {
        let Some(json) = json else { return Some(None) };
        let seconds = json.as_str().and_then(duration);
        match seconds {
            Some(seconds) => Some(Some(seconds)),
            None => self.wrong(at, "use a time such as 90d, 12h or 30m, of at most ten years"),
        }
    }
}

const UNITS: [(&str, i64); 4] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60)];

/// `90d` in seconds.
pub fn duration(text: &str) -> Option<i64> {
    let text = text.trim();
    let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let count: i64 = text.strip_suffix(unit)?.parse().ok()?;
    count.checked_mul(seconds).filter(|seconds| (1..=LONGEST).contains(seconds))
}

pub(super) fn written_duration(seconds: i64) -> String {
    let whole = UNITS[1..].iter().find(|(_, unit)| seconds % unit == 0);
    let (name, unit) = whole.copied().unwrap_or(("m", 60));
    format!("{}{name}", seconds / unit)
}

/// A null is as good as nothing.
fn given<'v>(map: &'v Map<String, Json>, name: &str) -> Option<&'v Json> {
    map.get(name).filter(|json| !json.is_null())
}

fn within(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
