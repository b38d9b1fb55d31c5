//! Reading a condition: everything in it is bounded, and all that is wrong is told with its place.

use std::fmt;

use serde_json::{Map, Value as Json};
use tidings_kernel::Value;
use tidings_people::contacts;

use super::condition::{Addresses, Condition, Subject, Test};

/// So deep conditions can be nested.
pub const MAX_DEPTH: usize = 8;
/// So many conditions one can be made of, itself among them.
pub const MAX_CONDITIONS: usize = 100;
/// So many addresses it can name, in all its lists together.
pub const MAX_ADDRESSES: usize = 10_000;
/// So many values an `in` can list.
const MAX_VALUES: usize = 200;
/// So long a text is that something is compared with, in characters.
const MAX_TEXT: usize = 1_000;
const MAX_NAME: usize = 64;
const MAX_KEY: usize = 256;
/// So many mistakes are told.
const MAX_VIOLATIONS: usize = 50;

/// What is wrong, and where: `filter.all[1].tag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

pub(super) fn parse(json: &Json, field: &str) -> Result<Condition, Vec<Violation>> {
    let mut parser = Parser { violations: Vec::new(), conditions: 0, addresses: 0 };
    let read = parser.condition(json, field, 1);
    match read {
        Some(condition) if parser.violations.is_empty() => Ok(condition),
        _ => Err(parser.violations),
    }
}

pub(super) fn test(name: &str, json: &Json, field: &str) -> Result<Test, Vec<Violation>> {
    let mut parser = Parser { violations: Vec::new(), conditions: 0, addresses: 0 };
    let read = parser.test(name, json, field);
    match read {
        Some(test) if parser.violations.is_empty() => Ok(test),
        _ => Err(parser.violations),
    }
}

struct Parser {
    violations: Vec<Violation>,
    conditions: usize,
    addresses: usize,
}

type Fields = Map<String, Json>;

/// The words that begin a clause. `tags` and `attributes` may stand together, as seed 000 writes its filters.
const HEADS: [&str; 12] = [
    "all",
    "any",
    "not",
    "audience",
    "segment",
    "tag",
    "contacts",
    "attribute",
    "feature",
    "memory",
    "tags",
    "attributes",
];

impl Parser {
    /// `None` if something is wrong with it, which is told then.
    fn condition(&mut self, json: &Json, path: &str, depth: usize) -> Option<Condition> {
        let Json::Object(fields) = json else {
            return self.wrong(path, "use an object such as {\"tag\": \"beta\"}");
        };
        if depth > MAX_DEPTH {
            return self.wrong(path, "conditions are nested at most 8 deep");
        }
        let heads = HEADS.into_iter().filter(|head| fields.contains_key(*head));
        let head = match heads.collect::<Vec<_>>()[..] {
            [] if fields.is_empty() => return self.counted(Condition::EVERYONE, path, depth),
            [] => {
                return self.wrong(path, format!("name one of {}", HEADS.join(", ")));
            }
            [one] => one,
            ["tags", "attributes"] => "tags",
            _ => {
                return self.wrong(path, "use one condition in an object, and join several by all");
            }
        };
        match head {
            "all" | "any" | "not" => self.joined(head, fields, path, depth),
            "audience" | "segment" | "tag" | "contacts" => {
                self.only(&[head], fields, path);
                let clause = self.clause(head, &fields[head], &at(path, head))?;
                self.counted(clause, path, depth)
            }
            "attribute" | "feature" | "memory" => {
                let clause = self.comparison(head, fields, path)?;
                self.counted(clause, path, depth)
            }
            _ => {
                let clause = self.seed(fields, path)?;
                self.counted(clause, path, depth)
            }
        }
    }

    fn joined(
        &mut self,
        head: &str,
        fields: &Fields,
        path: &str,
        depth: usize,
    ) -> Option<Condition> {
        self.only(&[head], fields, path);
        let path = at(path, head);
        // The conditions inside count themselves.
        self.count(1, &path)?;
        if head == "not" {
            let inner = self.condition(&fields[head], &path, depth + 1)?;
            return Some(Condition::Not(Box::new(inner)));
        }
        let Json::Array(list) = &fields[head] else {
            return self.wrong(&path, "use a list of conditions");
        };
        if list.is_empty() && head == "any" {
            return self.wrong(&path, "name at least one condition");
        }
        let mut parts = Vec::new();
        for (place, json) in list.iter().enumerate() {
            if self.conditions > MAX_CONDITIONS {
                return None;
            }
            parts.push(self.condition(json, &format!("{path}[{place}]"), depth + 1));
        }
        let parts = parts.into_iter().collect::<Option<_>>()?;
        Some(if head == "all" { Condition::All(parts) } else { Condition::Any(parts) })
    }

    fn clause(&mut self, head: &str, json: &Json, path: &str) -> Option<Condition> {
        match head {
            "audience" => {
                let slug = self.text(json, path)?.parse();
                self.told(slug, path).map(Condition::Audience)
            }
            "segment" => {
                let slug = self.text(json, path)?.parse();
                self.told(slug, path).map(Condition::Segment)
            }
            "tag" => {
                let tag = self.text(json, path)?.parse();
                self.told(tag, path).map(Condition::Tag)
            }
            _ => self.contacts(json, path),
        }
    }

    fn contacts(&mut self, json: &Json, path: &str) -> Option<Condition> {
        let Some(list) = json.as_array().filter(|list| !list.is_empty()) else {
            return self.wrong(path, "use a list of at least one address");
        };
        self.addresses = self.addresses.saturating_add(list.len());
        if self.addresses > MAX_ADDRESSES {
            return self.wrong(path, "name at most 10,000 addresses in all");
        }
        let mut addresses = Vec::with_capacity(list.len());
        for (place, json) in list.iter().enumerate() {
            let path = format!("{path}[{place}]");
            let Some(text) = self.text(json, &path) else { continue };
            let address = text.parse();
            addresses.extend(self.told(address, &path));
        }
        Some(Condition::Contacts(Addresses::new(addresses)))
    }

    /// `{"attribute": "plan", "equals": "pro"}`. Several tests of one thing must all be met.
    fn comparison(&mut self, head: &str, fields: &Fields, path: &str) -> Option<Condition> {
        let subject = self.subject(head, &fields[head], &at(path, head));
        let mut tests = Vec::new();
        for (name, json) in fields.iter().filter(|(name, _)| *name != head) {
            tests.push(self.test(name, json, &at(path, name)));
        }
        if tests.is_empty() {
            let message = "name a test: equals, not_equals, greater_than, less_than, at_least, at_most, in, contains or exists";
            return self.wrong(path, message);
        }
        let (subject, tests) = (subject?, tests.into_iter().collect::<Option<Vec<_>>>()?);
        let clauses = tests.into_iter().map(|test| Condition::Known(subject.clone(), test));
        Some(alone_or_all(clauses.collect()))
    }

    fn subject(&mut self, head: &str, json: &Json, path: &str) -> Option<Subject> {
        let text = self.text(json, path)?;
        match head {
            "attribute" => {
                let checked = contacts::check_attribute_name(text);
                self.told(checked, path).map(|()| Subject::Attribute(text.to_owned()))
            }
            "feature" if is_name(text) => Some(Subject::Feature(text.to_owned())),
            "feature" => self.wrong(
                path,
                "a name has 1 to 64 letters, digits and any of _ - . : and begins with a letter or a digit",
            ),
            _ => match text.split_once('/') {
                Some((memory_type, key)) if is_name(memory_type) && is_key(key) => {
                    Some(Subject::Memory {
                        memory_type: memory_type.to_owned(),
                        key: key.to_owned(),
                    })
                }
                _ => self.wrong(path, "use a type and a key, such as purchase/product:whey_1kg"),
            },
        }
    }

    fn test(&mut self, name: &str, json: &Json, path: &str) -> Option<Test> {
        match name {
            "equals" => self.scalar(json, path).map(Test::Equals),
            "not_equals" => self.scalar(json, path).map(Test::NotEquals),
            "greater_than" => self.ordered(json, path).map(Test::GreaterThan),
            "less_than" => self.ordered(json, path).map(Test::LessThan),
            "at_least" => self.ordered(json, path).map(Test::AtLeast),
            "at_most" => self.ordered(json, path).map(Test::AtMost),
            "contains" => self.scalar(json, path).map(Test::Contains),
            "exists" => match json {
                Json::Bool(there) => Some(Test::Exists(*there)),
                _ => self.wrong(path, "use true or false"),
            },
            "in" => {
                let list = json.as_array().filter(|list| (1..=MAX_VALUES).contains(&list.len()));
                let Some(list) = list else {
                    return self.wrong(path, "use a list of 1 to 200 values");
                };
                let mut values = Vec::with_capacity(list.len());
                for (place, json) in list.iter().enumerate() {
                    values.push(self.scalar(json, &format!("{path}[{place}]")));
                }
                values.into_iter().collect::<Option<_>>().map(Test::In)
            }
            _ => self.wrong(path, "there is no such test"),
        }
    }

    /// `{"tags": ["a", "b"], "attributes": {"plan": "pro"}}` of seed 000, and `{"tags": {"all": […], "none": […]}}`.
    fn seed(&mut self, fields: &Fields, path: &str) -> Option<Condition> {
        self.only(&["tags", "attributes"], fields, path);
        let mut clauses = Vec::new();
        if let Some(tags) = fields.get("tags") {
            self.tags(tags, &at(path, "tags"), &mut clauses);
        }
        match fields.get("attributes") {
            None => {}
            Some(Json::Object(wanted)) => {
                let path = at(path, "attributes");
                for (name, json) in wanted {
                    let path = at(&path, name);
                    let checked = contacts::check_attribute_name(name);
                    let (Some(()), Some(value)) =
                        (self.told(checked, &path), self.scalar(json, &path))
                    else {
                        continue;
                    };
                    let subject = Subject::Attribute(name.clone());
                    clauses.push(Condition::Known(subject, Test::Equals(value)));
                }
            }
            Some(_) => {
                return self
                    .wrong(&at(path, "attributes"), "use an object such as {\"plan\": \"pro\"}");
            }
        }
        Some(alone_or_all(clauses))
    }

    fn tags(&mut self, json: &Json, path: &str, clauses: &mut Vec<Condition>) {
        match json {
            Json::Array(_) => clauses.extend(self.tag_list(json, path)),
            Json::Object(groups) if !groups.is_empty() => {
                self.only(&["all", "any", "none"], groups, path);
                for (name, json) in groups {
                    let tags = self.tag_list(json, &at(path, name));
                    match name.as_str() {
                        "all" => clauses.extend(tags),
                        "any" if tags.is_empty() => {
                            self.wrong::<()>(&at(path, name), "name at least one tag");
                        }
                        "any" => clauses.push(Condition::Any(tags)),
                        _ => clauses
                            .extend(tags.into_iter().map(|tag| Condition::Not(Box::new(tag)))),
                    }
                }
            }
            _ => {
                self.wrong::<()>(
                    path,
                    "use a list of tags, or an object with all, any or none of them",
                );
            }
        }
    }

    fn tag_list(&mut self, json: &Json, path: &str) -> Vec<Condition> {
        let Json::Array(list) = json else {
            self.wrong::<()>(path, "use a list of tags");
            return Vec::new();
        };
        let list = list.iter().enumerate().take(MAX_CONDITIONS + 1);
        list.filter_map(|(place, json)| self.clause("tag", json, &format!("{path}[{place}]")))
            .collect()
    }

    /// What something can be compared with.
    fn scalar(&mut self, json: &Json, path: &str) -> Option<Value> {
        match json {
            Json::Bool(flag) => Some(Value::Bool(*flag)),
            Json::String(_) => self.text(json, path).map(Value::from),
            Json::Number(_) => {
                let number = serde_json::from_value::<Value>(json.clone()).ok();
                // One that would be written in another way than it is read.
                let plain = |value: &Value| {
                    serde_json::to_value(value).is_ok_and(|written| written.is_number())
                };
                match number.filter(plain) {
                    Some(number) => Some(number),
                    None => self.wrong(path, "use a number with at most 15 digits"),
                }
            }
            Json::Null => self.wrong(path, "to ask whether there is anything, use exists"),
            Json::Array(_) | Json::Object(_) => {
                self.wrong(path, "use a text, a number, true or false")
            }
        }
    }

    fn ordered(&mut self, json: &Json, path: &str) -> Option<Value> {
        match json {
            Json::Bool(_) => self.wrong(path, "use a number, a time or a text"),
            _ => self.scalar(json, path),
        }
    }

    fn text<'j>(&mut self, json: &'j Json, path: &str) -> Option<&'j str> {
        match json {
            Json::String(text) if text.chars().count() > MAX_TEXT => {
                self.wrong(path, "use at most 1,000 characters")
            }
            Json::String(text) if text.contains('\0') => {
                self.wrong(path, "a text cannot have the character U+0000")
            }
            Json::String(text) => Some(text),
            _ => self.wrong(path, "use a text"),
        }
    }

    fn only(&mut self, known: &[&str], fields: &Fields, path: &str) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.wrong::<()>(&at(path, name), "this does not belong here");
        }
    }

    /// Counts a clause with all that its short form stands for.
    fn counted(&mut self, clause: Condition, path: &str, depth: usize) -> Option<Condition> {
        self.count(clause.size(), path)?;
        if depth + clause.depth() - 1 > MAX_DEPTH {
            return self.wrong(path, "conditions are nested at most 8 deep");
        }
        Some(clause)
    }

    fn count(&mut self, more: usize, path: &str) -> Option<()> {
        let before = self.conditions;
        self.conditions += more;
        if self.conditions <= MAX_CONDITIONS {
            return Some(());
        }
        // Told once, where it began to be too much.
        if before <= MAX_CONDITIONS {
            self.wrong::<()>(path, "use at most 100 conditions in all");
        }
        None
    }

    fn told<T, E: fmt::Display>(&mut self, read: Result<T, E>, path: &str) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => self.wrong(path, error.to_string()),
        }
    }

    fn wrong<T>(&mut self, path: &str, message: impl Into<String>) -> Option<T> {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation { path: path.to_owned(), message: message.into() });
        }
        None
    }
}

fn alone_or_all(mut clauses: Vec<Condition>) -> Condition {
    if clauses.len() == 1 { clauses.remove(0) } else { Condition::All(clauses) }
}

/// A field of what is at `path`. Names come from outside, and may be long.
fn at(path: &str, field: &str) -> String {
    let field: String = field.chars().take(MAX_NAME).collect();
    if path.is_empty() { field } else { format!("{path}.{field}") }
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    (1..=MAX_NAME).contains(&text.len())
        && text.chars().all(allowed)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_key(text: &str) -> bool {
    (1..=MAX_KEY).contains(&text.len()) && !text.chars().any(char::is_control)
}
