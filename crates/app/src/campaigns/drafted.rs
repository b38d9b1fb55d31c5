//! A campaign from a file, from flags, or from both: a flag wins over the file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde_json::{Map, Value, json};
use tidings_access::{ClientId, Cx, Slug};
use tidings_delivery::transactional::Wrong;
use tidings_outreach::campaigns::draft::{Draft, DraftError};
use tidings_outreach::campaigns::written;
use tidings_sequences::definition::{self, Fault};

use crate::consent::{an_only_client, the_client};
use crate::failure::Failure;

/// The largest file.
const MAX_FILE: u64 = 4 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct DraftArgs {
    /// A file with the campaign, as JSON, TOML or YAML; `-` is JSON on stdin. Flags win over it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Who sends it [default: the only client that there is]
    #[arg(long, value_name = "SLUG")]
    pub(super) client: Option<Slug>,
    /// What you call it: the same again with the same key is the same campaign
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// A name for people [default: the key]
    #[arg(long)]
    name: Option<String>,
    /// Only those who are subscribed to this audience
    #[arg(long, value_name = "SLUG")]
    audience: Option<Slug>,
    /// Whoever has switched this topic off does not get it
    #[arg(long, value_name = "SLUG")]
    topic: Option<Slug>,
    /// Whom it means, as a condition [default: everybody]
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    filter: Option<Value>,
    /// One of the client's senders [default: the template's, or the client's default]
    #[arg(long, value_name = "SLUG")]
    sender: Option<Slug>,
    /// The key of a stored template
    #[arg(long, value_name = "KEY")]
    template: Option<String>,
    /// The subject, as Liquid; with a template, in the place of the template's
    #[arg(long)]
    subject: Option<String>,
    /// What a mailbox shows beside the subject
    #[arg(long, value_name = "TEXT")]
    preview_text: Option<String>,
    /// The HTML body, as Liquid
    #[arg(long, conflicts_with = "html_file")]
    html: Option<String>,
    /// The HTML body from a file
    #[arg(long, value_name = "FILE")]
    html_file: Option<PathBuf>,
    /// The text body, as Liquid
    #[arg(long)]
    text: Option<String>,
    /// When it goes, within a year
    #[arg(long, value_name = "TIME", conflicts_with = "local_time")]
    at: Option<Timestamp>,
    /// When it goes, as a time where each person is, such as 2030-01-31T09:00
    #[arg(long, value_name = "TIME")]
    local_time: Option<DateTime>,
    /// The most messages of an hour
    #[arg(long, value_name = "N")]
    rate_per_hour: Option<i64>,
    /// The most messages of the first day, of the second, and so on, with commas between
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    warmup: Vec<i64>,
    /// Leave links as they are, and add no pixel
    #[arg(long)]
    no_tracking: bool,
}

fn json_value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|_| "use JSON such as {\"tag\":\"beta\"}".to_owned())
}

impl DraftArgs {
    pub(super) async fn client(&self, cx: &Cx) -> Result<ClientId, Failure> {
        let named = match self.client.clone() {
            Some(slug) => Some(the_client(cx, slug).await?),
            None => None,
        };
        an_only_client(cx, named).await?.ok_or_else(|| {
            Failure::usage("there are several clients, or none: name one with --client")
                .hint("`tidings clients list` shows those that there are")
        })
    }

    /// A new campaign.
    pub(super) async fn draft(self, cx: &Cx) -> Result<Draft, Failure> {
        let client = self.client(cx).await?;
        let mut fields = self.fields(Map::new())?;
        if let (None, Some(key)) = (fields.get("name"), fields.get("external_key")) {
            let name = key.clone();
            fields.insert("name".to_owned(), name);
        }
        written::read(client, fields).map_err(|wrong| unreadable(&wrong))
    }

    /// What was there, with what the file and the flags say in its place.
    pub(super) fn over(
        self,
        client: ClientId,
        before: Map<String, Value>,
    ) -> Result<Draft, Failure> {
        let fields = self.fields(before)?;
        written::read(client, fields).map_err(|wrong| unreadable(&wrong))
    }

    fn fields(self, before: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let mut fields = before;
        if let Some(path) = &self.file {
            replace(&mut fields, of_file(path)?);
        }
        let html = match &self.html_file {
            Some(path) => Some(read_text(path)?),
            None => self.html,
        };
        let text = |slug: &Slug| slug.to_string();
        let flags = json!({
            "external_key": self.key,
            "name": self.name,
            "audience": self.audience.as_ref().map(text),
            "topic": self.topic.as_ref().map(text),
            "filter": self.filter,
            "sender": self.sender.as_ref().map(text),
            "template": self.template,
            "subject": self.subject,
            "preview_text": self.preview_text,
            "html": html,
            "text": self.text,
            "scheduled_at": self.at,
            "local_time": self.local_time.map(|local| local.to_string()),
            "rate_per_hour": self.rate_per_hour,
            "warmup": (!self.warmup.is_empty()).then_some(self.warmup),
            "tracking": self.no_tracking.then_some("off"),
        });
        let Value::Object(mut flags) = flags else { return Ok(fields) };
        flags.retain(|_, value| !value.is_null());
        replace(&mut fields, flags);
        Ok(fields)
    }
}

/// What is said later stands in the place of what was said before, and of what cannot stand beside it.
fn replace(fields: &mut Map<String, Value>, later: Map<String, Value>) {
    if later.contains_key("template") {
        for other in ["html", "text", "preview_text", "subject"] {
            fields.remove(other);
        }
    } else if later.contains_key("html") || later.contains_key("text") {
        fields.remove("template");
    }
    if later.contains_key("scheduled_at") || later.contains_key("local_time") {
        fields.remove("scheduled_at");
        fields.remove("local_time");
    }
    fields.extend(later);
}

fn of_file(path: &Path) -> Result<Map<String, Value>, Failure> {
    let text = read_text(path)?;
    let (kind, read) = match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("toml") => {
            let read = toml::from_str::<toml::Table>(&text).map_err(|error| error.to_string());
            ("TOML", read.map(|table| of_toml(toml::Value::Table(table))))
        }
        Some("yaml" | "yml") => ("YAML", of_yaml(&text)),
        _ => ("JSON", serde_json::from_str(&text).map_err(|error| error.to_string())),
    };
    match read {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Failure::usage(format!("{}: it must be one object", path.display()))),
        Err(error) => Err(Failure::usage(format!("{} is not {kind}: {error}", path.display()))),
    }
}

fn of_yaml(text: &str) -> Result<Value, String> {
    let marked = definition::parse_file(text).map_err(|faults| {
        let told = |fault: &Fault| match fault.line {
            Some(line) => format!("line {line}: {}", fault.message),
            None => fault.message.clone(),
        };
        faults.iter().map(told).collect::<Vec<_>>().join("; ")
    })?;
    Ok(marked.value)
}

/// A date of TOML is the text that it was written as.
fn of_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => json!(number),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(is) => json!(is),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(values) => values.into_iter().map(of_toml).collect(),
        toml::Value::Table(fields) => {
            fields.into_iter().map(|(name, value)| (name, of_toml(value))).collect()
        }
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_FILE + 1).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Failure::usage(format!("{} is larger than {MAX_FILE} bytes", path.display())));
    }
    Ok(text)
}

fn unreadable(wrong: &[Wrong]) -> Failure {
    let told: Vec<_> = wrong.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
    Failure::usage(format!("the campaign cannot be read: {}", told.join("; ")))
}

pub(super) fn not_written(error: DraftError) -> Failure {
    match error {
        DraftError::Invalid(_) => Failure::usage(error.to_string()),
        DraftError::KeyReused(_) => Failure::from(error).hint(
            "`tidings campaign show KEY` shows it; `tidings campaign update KEY …` changes it while it is a draft",
        ),
        DraftError::Missing(_) | DraftError::Illegal { .. } => error.into(),
        DraftError::Store(error) => error.into(),
    }
}
