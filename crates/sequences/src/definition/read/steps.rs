//! The steps of a definition, with those in their branches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tidings_access::Slug;
use tidings_outreach::audience::Condition;
use tidings_people::contacts::{Attributes, MAX_TAGS, Tag, check_attribute_name};

use super::fields::{Fields, Node, Reader, nearest};
use super::times::{OF_WAIT, OF_WAIT_FOR};
use super::{MAX_BRANCHES, MAX_DEPTH, MAX_STEPS, MAX_VARIANTS};
use crate::definition::fault::within;
use crate::definition::program::key_of;
use crate::definition::{Action, Branch, Check, Fault, Mail, Mails, Setting, Step, Wait, WaitFor};

/// What a step can do.
pub(in crate::definition) const KINDS: [&str; 10] =
    ["send", "wait", "wait_for", "choice", "condition", "tag", "set", "inbox", "webhook", "exit"];
/// What a condition can ask.
pub(in crate::definition) const CHECKS: [&str; 7] = [
    "has_been_sent",
    "has_opened",
    "has_clicked",
    "subscriber_field_exists",
    "subscriber_field_equals",
    "in_audience",
    "matches",
];
const MAX_ID: usize = 100;
const MAX_REASON: usize = 200;
const MAX_TEXT: usize = 1_000;
const MAX_DATA: usize = 100;
const MAX_DATA_BYTES: usize = 32 * 1024;

impl Reader {
    /// There is one at least.
    pub(super) fn first_steps(&mut self, node: &Node<'_>) -> Vec<Step> {
        if node.value.as_array().is_some_and(Vec::is_empty) {
            let message =
                "there is nothing in it; begin with a step such as - send: onboarding/welcome";
            self.wrong::<()>(&node.pointer, message);
        }
        self.steps(node, 0)
    }

    fn steps(&mut self, node: &Node<'_>, depth: usize) -> Vec<Step> {
        if depth > MAX_DEPTH {
            self.wrong::<()>(
                &node.pointer,
                format!("branches are nested at most {MAX_DEPTH} deep"),
            );
            return Vec::new();
        }
        let nodes = self.list(node, MAX_STEPS);
        nodes.iter().filter_map(|node| self.step(node, depth)).collect()
    }

    fn branch(&mut self, fields: &Fields<'_>, name: &str, depth: usize) -> Vec<Step> {
        fields.get(name).map(|node| self.steps(&node, depth + 1)).unwrap_or_default()
    }

    fn step(&mut self, node: &Node<'_>, depth: usize) -> Option<Step> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            if self.steps == MAX_STEPS + 1 {
                let message = format!("a sequence has at most {MAX_STEPS} steps in all");
                self.wrong::<()>(&node.pointer, message);
            }
            return None;
        }
        let Value::Object(map) = node.value else {
            let message = "use an object such as {send: onboarding/welcome}";
            return self.wrong(&node.pointer, message);
        };
        let fields = Fields { map, pointer: node.pointer.clone() };
        let kind = self.kind(&fields)?;
        let known: &[&str] = match kind {
            "send" => &["id", "send", "subject"],
            "wait_for" => &["id", "wait_for", "filter", "timeout", "then", "else"],
            "choice" => &["id", "choice", "branches", "default"],
            "condition" => &["id", "condition", "then", "else"],
            other => &["id", other],
        };
        self.only(&fields, known);
        let id = fields.get("id").and_then(|node| self.id(&node)).unwrap_or_default();
        let action = self.action(kind, &fields, depth)?;
        Some(Step { id, pointer: node.pointer.clone(), action })
    }

    /// The one thing that the step does.
    fn kind<'f>(&mut self, fields: &Fields<'f>) -> Option<&'f str> {
        let names = || fields.map.keys().map(String::as_str);
        let kinds: Vec<&str> = names().filter(|name| KINDS.contains(name)).collect();
        match kinds[..] {
            [one] => Some(one),
            [] => {
                let meant = names().find_map(|name| nearest(name, &KINDS));
                let message = match meant {
                    Some(meant) => format!("no step does this; did you mean {meant}?"),
                    None => format!("say what the step does: {}", KINDS.join(", ")),
                };
                self.wrong(&fields.pointer, message)
            }
            _ => {
                let message =
                    format!("a step does one thing; make a step of each of {}", kinds.join(", "));
                self.wrong(&fields.pointer, message)
            }
        }
    }

    fn id(&mut self, node: &Node<'_>) -> Option<String> {
        let text = self.text(node)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let well_formed = text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.len() <= MAX_ID
            && text.chars().all(allowed);
        if !well_formed {
            let message = "use 1 to 100 letters, digits, _, - and ., beginning with a letter";
            return self.wrong(&node.pointer, message);
        }
        if let Some(other) = self.ids.insert(text.to_owned(), node.pointer.clone()) {
            let other = Fault::new(other.trim_end_matches("/id"), "").path();
            let message = format!("{other} is called {text} already; use another name");
            return self.wrong(&node.pointer, message);
        }
        Some(text.to_owned())
    }

    fn action(&mut self, kind: &str, fields: &Fields<'_>, depth: usize) -> Option<Action> {
        let node = fields.any(kind)?;
        match kind {
            "send" => self.send(&node, fields).map(Action::Send),
            "wait" => self.wait(&node).map(Action::Wait),
            "wait_for" => self.wait_for(&node, fields, depth).map(Action::WaitFor),
            "choice" => self.choice(&node, fields, depth),
            "condition" => self.condition(&node, fields, depth),
            "tag" => self.tag(&node),
            "set" => self.set(&node),
            "inbox" => self.inbox(&node).map(Action::Inbox),
            "webhook" => self.webhook(&node),
            _ => self.exit_step(&node),
        }
    }

    fn send(&mut self, node: &Node<'_>, fields: &Fields<'_>) -> Option<Mails> {
        let subject = fields.get("subject");
        if node.value.is_string() {
            let template = self.template(node);
            let subject = subject.and_then(|node| self.subject(&node));
            return Some(Mails::One(Mail { template: template?, subject }));
        }
        if let Some(subject) = subject {
            let message = "of several variants each has its own subject; put it there";
            self.wrong::<()>(&subject.pointer, message);
        }
        let example = "the key of a template, or an object with variants";
        let inside = self.object(node, &["variants"], example)?;
        let list =
            self.required(&inside, "variants", "list two at least, such as {template: a}")?;
        let nodes = self.list(&list, MAX_VARIANTS);
        if list.value.as_array().is_some_and(|list| list.len() < 2) {
            let message = "variants are two at least; for one mail use send: with its template";
            self.wrong::<()>(&list.pointer, message);
        }
        let variants: Vec<_> = nodes.iter().filter_map(|node| self.variant(node)).collect();
        // What is missing is told already.
        (variants.len() >= 2).then_some(Mails::Variants(variants))
    }

    fn variant(&mut self, node: &Node<'_>) -> Option<Mail> {
        let example = "an object such as {template: onboarding/welcome}";
        let fields = self.object(node, &["template", "subject"], example)?;
        let template = self.required(&fields, "template", "name the template of the mail");
        let template = template.and_then(|node| self.template(&node));
        let subject = fields.get("subject").and_then(|node| self.subject(&node));
        Some(Mail { template: template?, subject })
    }

    fn wait(&mut self, node: &Node<'_>) -> Option<Wait> {
        let is_until = |name: &str| matches!(name, "until" | "weekday" | "zone");
        let until = node.value.as_object().is_some_and(|map| map.keys().any(|name| is_until(name)));
        if !until {
            return self.duration(node, &OF_WAIT).map(Wait::For);
        }
        let fields = self.object(node, &["until", "weekday", "zone"], "an object")?;
        let time = self.required(&fields, "until", "say the time, such as \"09:00\"");
        let time = time.and_then(|node| self.time(&node));
        let weekday = fields.get("weekday").map(|node| self.weekday(&node));
        let zone = self.zone(&fields);
        Some(Wait::Until { weekday: weekday.flatten(), time: time?, zone: zone? })
    }

    fn wait_for(&mut self, node: &Node<'_>, fields: &Fields<'_>, depth: usize) -> Option<WaitFor> {
        let event = self.event(node);
        let filter = self.filter(fields);
        let timeout =
            self.required(fields, "timeout", "say how long to wait at most, such as 3 days");
        let timeout = timeout.and_then(|node| self.duration(&node, &OF_WAIT_FOR));
        let then = self.branch(fields, "then", depth);
        let otherwise = self.branch(fields, "else", depth);
        Some(WaitFor { event: event?, filter, timeout: timeout?, then, otherwise })
    }

    fn choice(&mut self, node: &Node<'_>, fields: &Fields<'_>, depth: usize) -> Option<Action> {
        let path = self.path(node);
        let list = self.required(fields, "branches", "list them, such as {value: pro, steps: []}");
        let nodes = list.as_ref().map(|node| self.list(node, MAX_BRANCHES)).unwrap_or_default();
        if let Some(list) = list.filter(|list| list.value.as_array().is_some_and(Vec::is_empty)) {
            self.wrong::<()>(
                &list.pointer,
                "there is one at least, such as {value: pro, steps: []}",
            );
        }
        let (mut branches, mut seen) = (Vec::new(), BTreeSet::new());
        for node in nodes {
            let example = "an object such as {value: pro, steps: []}";
            let Some(fields) = self.object(&node, &["value", "steps"], example) else { continue };
            let value = self.required(&fields, "value", "say what is chosen by, such as pro");
            let value = value.and_then(|node| {
                let value = self.scalar(&node)?;
                if !seen.insert(key_of(&value)) {
                    self.wrong::<()>(&node.pointer, "another branch has this value already");
                }
                Some(value)
            });
            let steps = self.branch(&fields, "steps", depth);
            branches.extend(value.map(|value| Branch { value, steps }));
        }
        let default = self.branch(fields, "default", depth);
        Some(Action::Choice { path: path?, branches, default })
    }

    /// A text, a number or a truth.
    fn scalar(&mut self, node: &Node<'_>) -> Option<Value> {
        match node.value {
            Value::String(text) if text.chars().count() > MAX_TEXT => {
                self.wrong(&node.pointer, "use at most 1,000 characters")
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(node.value.clone()),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                self.wrong(&node.pointer, "use a text, a number, true or false")
            }
        }
    }

    fn condition(&mut self, node: &Node<'_>, fields: &Fields<'_>, depth: usize) -> Option<Action> {
        let check = self.check(node);
        let then = self.branch(fields, "then", depth);
        let otherwise = self.branch(fields, "else", depth);
        if fields.get("then").is_none() && fields.get("else").is_none() {
            self.wrong::<()>(&fields.pointer, "say what happens: give it then, else or both");
        }
        Some(Action::Condition { check: check?, then, otherwise })
    }

    fn check(&mut self, node: &Node<'_>) -> Option<Check> {
        let example = "an object such as {has_been_sent: onboarding/welcome}";
        let fields = self.object(node, &CHECKS, example)?;
        let checks: Vec<_> =
            fields.nodes().filter(|(name, _)| CHECKS.contains(&name.as_str())).collect();
        let (name, node) = match &checks[..] {
            [one] => one,
            // An unknown key is told already.
            [] if !fields.map.is_empty() => return None,
            _ => {
                let message = format!("ask one thing: {}", CHECKS.join(", "));
                return self.wrong(&fields.pointer, message);
            }
        };
        match name.as_str() {
            "has_been_sent" => self.template(node).map(Check::HasBeenSent),
            "has_opened" => self.template(node).map(Check::HasOpened),
            "has_clicked" => self.template(node).map(Check::HasClicked),
            "subscriber_field_exists" => self.field(node).map(Check::FieldExists),
            "subscriber_field_equals" => {
                let example = "an object such as {field: plan, value: pro}";
                let fields = self.object(node, &["field", "value"], example)?;
                let field = self.required(&fields, "field", "name the field, such as plan");
                let field = field.and_then(|node| self.field(&node));
                let value =
                    self.required(&fields, "value", "say what it is compared with, such as pro");
                let value = value.and_then(|node| self.scalar(&node));
                Some(Check::FieldEquals(field?, value?))
            }
            "in_audience" => {
                self.parsed::<Slug>(node).map(|slug| Check::Matches(Condition::Audience(slug)))
            }
            _ => {
                let read = Condition::parse(node.value, "");
                self.violations(read, &node.pointer).map(Check::Matches)
            }
        }
    }

    /// An attribute, or one of the fields that everybody has.
    fn field(&mut self, node: &Node<'_>) -> Option<String> {
        let name = self.text(node)?;
        if !matches!(name, "email" | "firstName") {
            self.told(check_attribute_name(name), &node.pointer)?;
        }
        Some(name.to_owned())
    }

    fn tag(&mut self, node: &Node<'_>) -> Option<Action> {
        let fields =
            self.object(node, &["add", "remove"], "an object such as {add: [customer]}")?;
        let add = self.tags(&fields, "add");
        let remove = self.tags(&fields, "remove");
        if fields.get("add").is_none() && fields.get("remove").is_none() {
            return self.wrong(&node.pointer, "name tags to add, to remove, or both");
        }
        for both in add.iter().filter(|tag| remove.contains(tag)) {
            let message = format!("{both} is added and removed; leave one of them");
            self.wrong::<()>(&node.pointer, message);
        }
        Some(Action::Tag { add, remove })
    }

    fn tags(&mut self, fields: &Fields<'_>, name: &str) -> Vec<Tag> {
        let Some(list) = fields.get(name) else { return Vec::new() };
        if list.value.as_array().is_some_and(Vec::is_empty) {
            self.wrong::<()>(&list.pointer, "name one at least, or leave this out");
        }
        let nodes = self.list(&list, MAX_TAGS);
        let tags: BTreeSet<Tag> = nodes.iter().filter_map(|node| self.parsed(node)).collect();
        tags.into_iter().collect()
    }

    fn set(&mut self, node: &Node<'_>) -> Option<Action> {
        let Value::Object(map) = node.value else {
            return self.wrong(&node.pointer, "use an object such as {plan: pro}");
        };
        if map.is_empty() {
            return self.wrong(&node.pointer, "name an attribute at least, such as plan: pro");
        }
        let fields = Fields { map, pointer: node.pointer.clone() };
        let settings = self.settings(&fields);
        // Paths stand for values that nobody knows yet, and so only their names are checked.
        let known = |(name, setting): (&String, &Setting)| {
            let value = match setting {
                Setting::Value(value) => value.clone(),
                Setting::FromTrigger(_) => Value::Bool(true),
            };
            (name.clone(), value)
        };
        let values: Map<String, Value> = settings.iter().map(known).collect();
        for fault in Attributes::parse(values).err().unwrap_or_default() {
            let pointer = match fault.name.as_str() {
                "" if !map.contains_key("") => node.pointer.clone(),
                name => within(&node.pointer, name),
            };
            self.wrong::<()>(&pointer, fault.message);
        }
        Some(Action::Set(settings))
    }

    pub(super) fn settings(&mut self, fields: &Fields<'_>) -> BTreeMap<String, Setting> {
        let mut settings = BTreeMap::new();
        for (name, node) in fields.nodes() {
            settings.extend(self.setting(&node).map(|setting| (name.clone(), setting)));
        }
        settings
    }

    /// `$.plan` is a place in the trigger's data, and `$$.plan` the text `$.plan`.
    pub(super) fn setting(&mut self, node: &Node<'_>) -> Option<Setting> {
        match node.value {
            Value::String(text) if is_path(text) => {
                let path = self.path(node);
                path.map(Setting::FromTrigger)
            }
            Value::String(text) => {
                let text = if text.starts_with("$$") { &text[1..] } else { text };
                Some(Setting::Value(Value::from(text)))
            }
            inner => {
                if has_path(inner) {
                    let message =
                        "a path is read only directly under its name; give it a name of its own";
                    return self.wrong(&node.pointer, message);
                }
                Some(Setting::Value(inner.clone()))
            }
        }
    }

    fn webhook(&mut self, node: &Node<'_>) -> Option<Action> {
        let fields =
            self.object(node, &["event", "data"], "an object such as {event: trial.ending}")?;
        let event = self.event_of(&fields);
        let mut data = BTreeMap::new();
        if let Some(node) = fields.get("data") {
            let Value::Object(map) = node.value else {
                return self.wrong(&node.pointer, "use an object such as {plan: pro}");
            };
            let long = map.keys().any(|name| !(1..=100).contains(&name.chars().count()));
            if map.len() > MAX_DATA || long {
                let message = "use at most 100 names of 1 to 100 characters";
                return self.wrong(&node.pointer, message);
            }
            if serde_json::to_vec(map).map_or(usize::MAX, |json| json.len()) > MAX_DATA_BYTES {
                return self.wrong(&node.pointer, "use at most 32 KB of data");
            }
            data = self.settings(&Fields { map, pointer: node.pointer.clone() });
        }
        Some(Action::Webhook { event: event?, data })
    }

    fn exit_step(&mut self, node: &Node<'_>) -> Option<Action> {
        let reason = match node.value {
            Value::Null => None,
            Value::Object(map) if map.is_empty() => None,
            Value::String(_) => Some(self.line(node, MAX_REASON)?),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return self.wrong(&node.pointer, "use a reason, or {} for none");
            }
        };
        Some(Action::Exit { reason })
    }
}

/// Whether a text under `set` stands for what is at a place.
pub(in crate::definition) fn is_path(text: &str) -> bool {
    text.starts_with("$.") || text.starts_with("$[")
}

fn has_path(value: &Value) -> bool {
    match value {
        Value::String(text) => is_path(text),
        Value::Array(list) => list.iter().any(has_path),
        Value::Object(fields) => fields.values().any(has_path),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
