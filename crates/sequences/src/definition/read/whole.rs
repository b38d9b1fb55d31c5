//! What a definition has around its steps: whose it is, what brings people in and takes them out, when mails may go.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidings_access::DisplayName;
use tidings_delivery::templates::TemplateKey;
use tidings_outreach::audience::Test;
use tidings_people::contacts::check_attribute_name;

use super::fields::{Fields, Node, Reader, nearest};
use super::times::{OF_REENTRY, OF_TIMEOUT};
use super::{MAX_CLAUSES, MAX_EVENTS, MAX_EXITS};
use crate::definition::{
    Clause, Definition, Exit, Mail, Mapping, OneOff, Reentry, Trigger, Window, check_event_name,
    ids,
};

/// A year.
pub(in crate::definition) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const MAX_DESCRIPTION: usize = 1_000;
const MAX_SUBJECT: usize = 500;
const MAX_ATTRIBUTES: usize = 100;

/// All that can be said of a sequence.
pub(in crate::definition) const KEYS: [&str; 16] = [
    "id",
    "name",
    "description",
    "client",
    "sender",
    "transactional",
    "audience",
    "topic",
    "trigger",
    "timeout",
    "reentry",
    "window",
    "exitOn",
    "events",
    "steps",
    "$schema",
];

impl Reader {
    pub(super) fn definition(&mut self, node: &Node<'_>) -> Option<Definition> {
        let fields = self.object(node, &KEYS, "an object with id, client and steps")?;
        let id = self.required(&fields, "id", "name the sequence, such as onboarding");
        let id = id.and_then(|node| self.parsed(&node));
        let name = self.maybe::<DisplayName>(&fields, "name").map(|name| name.as_str().to_owned());
        let description = fields.get("description").and_then(|node| self.description(&node));
        let client = self.required(&fields, "client", "name the client whose mails these are");
        let client = client.and_then(|node| self.parsed(&node));
        let sender = self.maybe(&fields, "sender");
        let transactional =
            fields.get("transactional").and_then(|node| self.truth(&node)).unwrap_or(false);
        let (audience, topic) = (self.maybe(&fields, "audience"), self.maybe(&fields, "topic"));
        if transactional {
            self.no_marketing(&fields);
        }
        let trigger = fields.get("trigger").and_then(|node| self.trigger(&node));
        let timeout = fields.get("timeout").and_then(|node| self.duration(&node, &OF_TIMEOUT));
        let reentry = fields.get("reentry").and_then(|node| self.reentry(&node));
        let window = fields.get("window").and_then(|node| self.window(&node));
        let exit_on = self.each(&fields, "exitOn", MAX_EXITS, Self::exit);
        let events = self.each(&fields, "events", MAX_EVENTS, Self::one_off);
        let steps = self.required(
            &fields,
            "steps",
            "list what happens, such as - send: onboarding/welcome",
        );
        let mut steps = steps.map(|node| self.first_steps(&node)).unwrap_or_default();
        ids::assign(&mut steps);
        Some(Definition {
            id: id?,
            name,
            description,
            client: client?,
            sender,
            transactional,
            audience,
            topic,
            trigger,
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            reentry: reentry.unwrap_or(Reentry::Restart),
            window,
            exit_on,
            events,
            steps,
        })
    }

    fn description(&mut self, node: &Node<'_>) -> Option<String> {
        let text = self.text(node)?.trim();
        let well_formed = (1..=MAX_DESCRIPTION).contains(&text.chars().count())
            && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        if !well_formed {
            return self.wrong(&node.pointer, "use 1 to 1,000 characters");
        }
        Some(text.to_owned())
    }

    fn no_marketing(&mut self, fields: &Fields<'_>) {
        for name in ["audience", "topic"] {
            if let Some(node) = fields.get(name) {
                let message = "a transactional sequence asks for no subscription; leave this out, or leave transactional out";
                self.wrong::<()>(&node.pointer, message);
            }
        }
    }

    fn trigger(&mut self, node: &Node<'_>) -> Option<Trigger> {
        let known = ["event", "map", "filter"];
        let fields = self.object(node, &known, "an object such as {event: user.signed_up}")?;
        let event = self.event_of(&fields);
        let mapping = self.mapping(&fields, &["email", "firstName", "attributes"]);
        let filter = self.filter(&fields);
        Some(Trigger { event: event?, mapping, filter })
    }

    fn exit(&mut self, node: &Node<'_>) -> Option<Exit> {
        if node.value.is_string() {
            let event = self.event(node)?;
            return Some(Exit { event, mapping: Mapping::default(), filter: Vec::new() });
        }
        let known = ["event", "map", "filter"];
        let fields = self.object(
            node,
            &known,
            "the name of an event, or an object such as {event: user.cancelled}",
        )?;
        let event = self.event_of(&fields);
        let mapping = self.mapping(&fields, &["email"]);
        let filter = self.filter(&fields);
        Some(Exit { event: event?, mapping, filter })
    }

    fn one_off(&mut self, node: &Node<'_>) -> Option<OneOff> {
        let known = ["event", "send", "subject", "map", "filter"];
        let example =
            "an object such as {event: user.password_changed, send: account/password-changed}";
        let fields = self.object(node, &known, example)?;
        let event = self.event_of(&fields);
        let send = self.required(&fields, "send", "name the template of the mail");
        let template = send.and_then(|node| self.template(&node));
        let subject = fields.get("subject").and_then(|node| self.subject(&node));
        let mapping = self.mapping(&fields, &["email", "firstName", "attributes"]);
        let filter = self.filter(&fields);
        let mail = Mail { template: template?, subject };
        Some(OneOff { event: event?, mail, mapping, filter })
    }

    pub(super) fn event(&mut self, node: &Node<'_>) -> Option<String> {
        let name = self.text(node)?;
        self.told(check_event_name(name), &node.pointer)?;
        Some(name.to_owned())
    }

    pub(super) fn event_of(&mut self, fields: &Fields<'_>) -> Option<String> {
        let node = self.required(fields, "event", "name the event, such as user.signed_up")?;
        self.event(&node)
    }

    pub(super) fn template(&mut self, node: &Node<'_>) -> Option<TemplateKey> {
        let key: TemplateKey = self.parsed(node)?;
        if key.is_partial() {
            return self.wrong(&node.pointer, "a partial is never sent by itself; name a template");
        }
        Some(key)
    }

    pub(super) fn subject(&mut self, node: &Node<'_>) -> Option<String> {
        self.line(node, MAX_SUBJECT)
    }

    fn mapping(&mut self, fields: &Fields<'_>, known: &[&str]) -> Mapping {
        let mut mapping = Mapping::default();
        let Some(node) = fields.get("map") else { return mapping };
        let Some(fields) = self.object(&node, known, "an object such as {email: $.email}") else {
            return mapping;
        };
        mapping.email = fields.get("email").and_then(|node| self.path(&node));
        mapping.first_name = fields.get("firstName").and_then(|node| self.path(&node));
        match fields.get("attributes") {
            Some(Node { value: Value::Object(map), pointer }) => {
                mapping.attributes = self.attributes(&Fields { map, pointer });
            }
            Some(node) => mapping.all_attributes = self.path(&node),
            None => {}
        }
        mapping
    }

    fn attributes(&mut self, fields: &Fields<'_>) -> BTreeMap<String, crate::definition::Path> {
        let mut paths = BTreeMap::new();
        if fields.map.len() > MAX_ATTRIBUTES {
            self.wrong::<()>(&fields.pointer, "name at most 100 attributes");
            return paths;
        }
        for (name, node) in fields.nodes() {
            self.told(check_attribute_name(name), &node.pointer);
            paths.extend(self.path(&node).map(|path| (name.clone(), path)));
        }
        paths
    }

    /// Each is `{path: $.plan, equals: pro}`. Several tests in one object are as many clauses.
    pub(super) fn filter(&mut self, fields: &Fields<'_>) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let Some(list) = fields.get("filter") else { return clauses };
        for node in self.list(&list, MAX_CLAUSES) {
            let Value::Object(map) = node.value else {
                self.wrong::<()>(
                    &node.pointer,
                    "use an object such as {path: $.plan, equals: pro}",
                );
                continue;
            };
            let fields = Fields { map, pointer: node.pointer.clone() };
            let path = self.required(&fields, "path", "say what is compared, such as $.plan");
            let path = path.and_then(|node| self.path(&node));
            let tests = self.tests(&fields);
            clauses.extend(path.into_iter().flat_map(|path| {
                tests.iter().map(move |test| Clause { path: path.clone(), test: test.clone() })
            }));
        }
        if clauses.len() > MAX_CLAUSES {
            self.wrong::<()>(&list.pointer, format!("use at most {MAX_CLAUSES} tests in all"));
        }
        clauses
    }

    fn tests(&mut self, fields: &Fields<'_>) -> Vec<Test> {
        let mut tests = Vec::new();
        let mut named = false;
        for (name, node) in fields.nodes().filter(|(name, _)| *name != "path") {
            named = true;
            if Test::NAMES.contains(&name.as_str()) {
                let read = Test::parse(name, node.value, "");
                tests.extend(self.violations(read, &node.pointer));
                continue;
            }
            let message = match nearest(name, &Test::NAMES) {
                Some(meant) => format!("there is no such test; did you mean {meant}?"),
                None => format!("there is no such test; there are {}", Test::NAMES.join(", ")),
            };
            self.wrong::<()>(&node.pointer, message);
        }
        if !named {
            let message = format!("say how it compares: {}", Test::NAMES.join(", "));
            self.wrong::<()>(&fields.pointer, message);
        }
        tests
    }

    fn reentry(&mut self, node: &Node<'_>) -> Option<Reentry> {
        const REMEDY: &str = "use restart, ignore, or an object such as {after: 30 days}";
        match node.value {
            Value::String(text) if text == "restart" => Some(Reentry::Restart),
            Value::String(text) if text == "ignore" => Some(Reentry::Ignore),
            Value::Object(_) => {
                let fields = self.object(node, &["after"], "restart")?;
                let after = self.required(&fields, "after", "say how long, such as 30 days")?;
                self.duration(&after, &OF_REENTRY).map(Reentry::After)
            }
            _ => self.wrong(&node.pointer, REMEDY),
        }
    }

    fn window(&mut self, node: &Node<'_>) -> Option<Window> {
        let known = ["days", "from", "until", "zone"];
        let example = "an object such as {from: \"09:00\", until: \"17:00\"}";
        let fields = self.object(node, &known, example)?;
        let mut days = Vec::new();
        if let Some(list) = fields.get("days") {
            let nodes = self.list(&list, 14);
            if list.value.as_array().is_some_and(Vec::is_empty) {
                self.wrong::<()>(
                    &list.pointer,
                    "name a day at least, or leave this out for every day",
                );
            }
            days.extend(nodes.iter().filter_map(|node| self.weekday(node)));
            days.sort_by_key(|day| day.to_monday_zero_offset());
            days.dedup();
        }
        let from = self.required(&fields, "from", "say when it opens, such as \"09:00\"");
        let from = from.and_then(|node| self.time(&node));
        let until = self.required(&fields, "until", "say when it closes, such as \"17:00\"");
        let until = until.and_then(|node| self.time(&node));
        let zone = self.zone(&fields);
        Some(Window { days, from: from?, until: until?, zone: zone? })
    }

    /// Each of a list that can be left out.
    pub(super) fn each<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        most: usize,
        read: fn(&mut Self, &Node<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Some(list) = fields.get(name) else { return Vec::new() };
        let nodes = self.list(&list, most);
        nodes.iter().filter_map(|node| read(self, node)).collect()
    }
}
