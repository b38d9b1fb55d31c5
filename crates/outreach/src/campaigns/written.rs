//! A campaign as people write it: the one JSON form that the API and files share.
//!
//! Here: from JSON to a draft, with all that cannot be read, and back. Pure. Not here: whether what was read makes sense
//! (`draft`).

use std::fmt::Display;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde_json::{Map, Value, json};
use tidings_access::{ClientId, Slug};
use tidings_delivery::transactional::Wrong;

use super::draft::{Draft, MAX_VARIANTS, MAX_WARMUP};
use super::{Campaign, Content, Metric, Schedule, Template, Test, Tracking, Variant};

/// All that can be said of a campaign.
pub const FIELDS: [&str; 19] = [
    "external_key",
    "name",
    "audience",
    "topic",
    "filter",
    "sender",
    "template",
    "subject",
    "preview_text",
    "html",
    "text",
    "variants",
    "test",
    "tracking",
    "metadata",
    "scheduled_at",
    "local_time",
    "rate_per_hour",
    "warmup",
];
const OF_VARIANT: [&str; 4] = ["name", "weight", "template", "subject"];
const OF_TEST: [&str; 3] = ["percent", "metric", "wait"];
const MINUTE_MS: i64 = 60_000;

/// Reads a campaign, or tells all that cannot be read. A null is as good as nothing.
pub fn read(client: ClientId, fields: Map<String, Value>) -> Result<Draft, Vec<Wrong>> {
    let mut reader = Reader { fields, within: String::new(), wrong: Vec::new() };
    let draft = reader.draft(client);
    reader.end(&FIELDS);
    if reader.wrong.is_empty() { Ok(draft) } else { Err(reader.wrong) }
}

/// The time of a start as people write it: a moment, or a time where each person is.
pub fn read_schedule(mut fields: Map<String, Value>) -> Result<Option<Schedule>, Vec<Wrong>> {
    fields.retain(|name, _| matches!(name.as_str(), "scheduled_at" | "local_time"));
    let mut reader = Reader { fields, within: String::new(), wrong: Vec::new() };
    let schedule = reader.schedule();
    if reader.wrong.is_empty() { Ok(schedule) } else { Err(reader.wrong) }
}

/// The same form of a campaign that there is. Its audience and topic are known by id, and written by these names.
pub fn write(
    campaign: &Campaign,
    (audience, topic): (Option<&str>, Option<&str>),
) -> Map<String, Value> {
    let Content { template, subject, preview_text, html, text } = &campaign.content;
    let (at, local) = match campaign.schedule {
        Some(Schedule::At(at)) => (Some(at), None),
        Some(Schedule::Local(local)) => (None, Some(local.to_string())),
        None => (None, None),
    };
    let variant = |one: &Variant| json!({ "name": one.name, "weight": one.weight, "template": one.template, "subject": one.subject });
    let test = campaign.test.map(|test| {
        json!({ "percent": test.percent, "metric": test.metric.as_str(), "wait": wait_text(test.wait_ms) })
    });
    let mut all = json!({
        "external_key": campaign.external_key,
        "name": campaign.name,
        "audience": audience,
        "topic": topic,
        "filter": campaign.filter,
        "sender": campaign.sender.slug,
        "template": template.as_ref().map(|template| &template.key),
        "subject": subject,
        "preview_text": preview_text,
        "html": html,
        "text": text,
        "variants": campaign.variants.iter().map(variant).collect::<Vec<_>>(),
        "test": test,
        "tracking": campaign.tracking,
        "metadata": campaign.metadata,
        "scheduled_at": at,
        "local_time": local,
        "rate_per_hour": campaign.rate_per_hour,
        "warmup": campaign.warmup,
    });
    let mut all = all.as_object_mut().map(std::mem::take).unwrap_or_default();
    all.retain(|_, value| !value.is_null());
    all
}

/// `90m` or `2d`: how long until a winner is decided, in milliseconds.
pub fn read_wait(text: &str) -> Option<i64> {
    let span: Span = text.trim().parse().ok()?;
    let long = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    i64::try_from(long.as_millis()).ok()
}

pub fn wait_text(ms: i64) -> String {
    match ms {
        ms if ms % MINUTE_MS == 0 => format!("{}m", ms / MINUTE_MS),
        ms => format!("{:#}", SignedDuration::from_millis(ms)),
    }
}

/// Fields that nobody has asked for yet, and what was wrong with those before.
struct Reader {
    fields: Map<String, Value>,
    /// Before each name: `variants[0].`
    within: String,
    wrong: Vec<Wrong>,
}

impl Reader {
    fn draft(&mut self, client: ClientId) -> Draft {
        let content = Content {
            template: self.text("template").map(|key| Template { key, version: None }),
            subject: self.text("subject"),
            preview_text: self.text("preview_text"),
            html: self.text("html"),
            text: self.text("text"),
        };
        Draft {
            client,
            key: self.text("external_key"),
            name: self.required("name"),
            audience: self.parsed::<Slug>("audience"),
            topic: self.parsed::<Slug>("topic"),
            filter: self.take("filter").unwrap_or_else(|| json!({})),
            sender: self.parsed::<Slug>("sender"),
            content,
            variants: self.variants(),
            test: self.test(),
            tracking: self.tracking(),
            metadata: self.object("metadata").unwrap_or_default(),
            schedule: self.schedule(),
            rate_per_hour: self.number("rate_per_hour"),
            warmup: self.warmup(),
        }
    }

    fn variants(&mut self) -> Vec<Variant> {
        let list = match self.take("variants") {
            None => return Vec::new(),
            Some(Value::Array(list)) if list.len() <= MAX_VARIANTS => list,
            Some(_) => {
                self.note("variants", format!("use a list of at most {MAX_VARIANTS} objects"));
                return Vec::new();
            }
        };
        let mut variants = Vec::new();
        for (place, value) in list.into_iter().enumerate() {
            let name = format!("variants[{place}]");
            let read = |reader: &mut Self| Variant {
                name: reader.required("name"),
                weight: reader.number("weight").unwrap_or(1),
                template: reader.text("template"),
                template_version: None,
                subject: reader.text("subject"),
            };
            variants.extend(self.inside(&name, value, &OF_VARIANT, read));
        }
        variants
    }

    fn test(&mut self) -> Option<Test> {
        let value = self.take("test")?;
        let read = |reader: &mut Self| {
            let (percent, metric) = (reader.number("percent"), reader.parsed::<Metric>("metric"));
            let wait = reader.text("wait");
            if percent.is_none() {
                reader.missing("percent");
            }
            let wait_ms = wait.as_deref().map(read_wait);
            if matches!(wait_ms, None | Some(None)) {
                reader.note("wait", "use how long, such as 4h or 2d");
            }
            Test {
                percent: percent.unwrap_or(0),
                metric: metric.unwrap_or(Metric::Opens),
                wait_ms: wait_ms.flatten().unwrap_or(0),
            }
        };
        self.inside("test", value, &OF_TEST, read)
    }

    fn tracking(&mut self) -> Tracking {
        match self.text("tracking").as_deref() {
            None | Some("on") => Tracking::On,
            Some("off") => Tracking::Off,
            Some(_) => {
                self.note("tracking", "use on or off");
                Tracking::On
            }
        }
    }

    fn schedule(&mut self) -> Option<Schedule> {
        let told = "use a time such as 2030-01-31T12:00:00Z";
        let at = self.read("scheduled_at", told, |text| text.parse::<Timestamp>().ok());
        let told = "use a time without a zone, such as 2030-01-31T09:00";
        // What says where it is meant is no local time.
        let local = self.read("local_time", told, |text| {
            text.parse::<Timestamp>().is_err().then(|| text.parse::<DateTime>().ok()).flatten()
        });
        match (at, local) {
            (Some(_), Some(_)) => {
                self.note("local_time", "use either scheduled_at or local_time");
                None
            }
            (Some(at), None) => Some(Schedule::At(at)),
            (None, local) => local.map(Schedule::Local),
        }
    }

    fn warmup(&mut self) -> Vec<i64> {
        let told = || format!("use a list of at most {MAX_WARMUP} whole numbers");
        match self.take("warmup") {
            None => Vec::new(),
            Some(Value::Array(days)) if days.len() <= MAX_WARMUP => {
                match days.iter().map(Value::as_i64).collect() {
                    Some(days) => days,
                    None => {
                        self.note("warmup", told());
                        Vec::new()
                    }
                }
            }
            Some(_) => {
                self.note("warmup", told());
                Vec::new()
            }
        }
    }

    /// An object of its own. What is wrong with it is told with where it is.
    fn inside<T>(
        &mut self,
        name: &str,
        value: Value,
        known: &[&str],
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let Value::Object(fields) = value else {
            self.note(name, "use an object");
            return None;
        };
        let within = format!("{}{name}.", self.within);
        let mut inner = Self { fields, within, wrong: Vec::new() };
        let read = read(&mut inner);
        inner.end(known);
        self.wrong.append(&mut inner.wrong);
        Some(read)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    fn required(&mut self, name: &str) -> String {
        if self.fields.get(name).is_none_or(Value::is_null) {
            self.missing(name);
        }
        self.text(name).unwrap_or_default()
    }

    fn missing(&mut self, name: &str) {
        let name = name.to_owned();
        if !self.wrong.iter().any(|one| one.field == format!("{}{name}", self.within)) {
            self.note(&name, "this is required");
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            _ => {
                self.note(name, "use a text");
                None
            }
        }
    }

    fn read<T>(
        &mut self,
        name: &str,
        told: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(name)?;
        let read = value.as_str().and_then(read);
        if read.is_none() {
            self.note(name, told);
        }
        read
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<T> {
        match self.text(name)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.note(name, error);
                None
            }
        }
    }

    fn number(&mut self, name: &str) -> Option<i64> {
        let number = self.take(name)?.as_i64();
        if number.is_none() {
            self.note(name, "use a whole number");
        }
        number
    }

    fn object(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(object) => Some(object),
            _ => {
                self.note(name, "use an object");
                None
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers hand over an error or a text")]
    fn note(&mut self, name: &str, message: impl ToString) {
        let field = format!("{}{name}", self.within).chars().take(100).collect();
        self.wrong.push(Wrong { field, message: message.to_string() });
    }

    /// Of the fields that nobody has asked for.
    fn end(&mut self, known: &[&str]) {
        for (name, _) in std::mem::take(&mut self.fields) {
            self.note(&name, format!("there is no such field; there are {}", known.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{read, read_wait, wait_text};

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn wrong(value: &Value) -> String {
        let wrong = read(1.into(), fields(value)).unwrap_err();
        let lines = wrong.iter().map(|one| format!("{}: {}\n", one.field, one.message));
        lines.collect()
    }

    #[test]
    fn everything_that_cannot_be_read_is_told_with_its_place() {
        insta::assert_snapshot!(wrong(&json!({
            "name": 7,
            "audience": "No Slug",
            "variants": [{"weight": "x"}, 7, {"name": "b", "colour": "red"}],
            "test": {"metric": "smiles", "wait": "soon"},
            "tracking": "maybe",
            "metadata": [],
            "scheduled_at": "tomorrow",
            "local_time": "2030-01-31T09:00:00Z",
            "rate_per_hour": 1.5,
            "warmup": [1, "2"],
            "subjekt": "x",
        })));
        assert_eq!(wrong(&json!({})), "name: this is required\n");
        let both = json!({"name": "x", "scheduled_at": "2030-01-31T09:00:00Z", "local_time": "2030-01-31T09:00"});
        assert_eq!(wrong(&both), "local_time: use either scheduled_at or local_time\n");
    }

    #[test]
    fn waits_are_read_and_written() {
        for (text, minutes) in [("4h", 240), ("90m", 90), ("2d", 2_880), ("1h30m", 90)] {
            assert_eq!(read_wait(text), Some(minutes * 60_000), "{text}");
            assert_eq!(read_wait(&wait_text(minutes * 60_000)), Some(minutes * 60_000));
        }
        for text in ["", "soon", "4", "1 year"] {
            assert_eq!(read_wait(text), None, "{text}");
        }
    }
}
