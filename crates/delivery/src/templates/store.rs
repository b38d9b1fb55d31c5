//! The items of templates, as seed 002 has them, and back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, ItemStore, StoreError, Value, tables};
use tidings_templates::{Compiled, Lines, RenderError, Rendered, Source, compile};

use super::content::{Content, Ready};
use super::key::TemplateKey;
use super::variables::to_json;

/// Where all templates are listed, in the index of the table.
pub(super) const ALL: &str = "TEMPLATES";

/// What a version is at the moment. Only one of a template is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Draft,
    Active,
    Inactive,
}

/// A version. It never changes; whether it is active is not a part of it.
#[derive(Debug)]
pub struct Stored {
    pub key: TemplateKey,
    pub version: i64,
    pub content: Content,
    pub created_at: Option<Timestamp>,
    /// The HTML with its Liquid: as it was written, or as MJML made it.
    pub body: Option<String>,
    compiled: Compiled,
}

/// The pointer: which version is active, and which the newest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Current {
    pub(super) active: Option<i64>,
    pub(super) latest: i64,
    pub(super) latest_digest: String,
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) description: Option<String>,
    pub(super) updated_at: Option<Timestamp>,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Inactive => "inactive",
        }
    }

    pub(super) fn index(self) -> String {
        format!("STATUS#{}", self.as_str())
    }

    pub(super) fn read(item: &Item) -> Self {
        match item.text("status") {
            Some("active") => Self::Active,
            Some("inactive") => Self::Inactive,
            _ => Self::Draft,
        }
    }
}

impl Stored {
    /// A mail. What is absent from the variables is empty in it.
    pub fn render(&self, variables: &Map<String, Json>) -> Result<Rendered, RenderError> {
        self.compiled.render(variables)
    }

    /// The same with another subject or preheader.
    pub fn render_with(
        &self,
        lines: &Lines,
        variables: &Map<String, Json>,
    ) -> Result<Rendered, RenderError> {
        self.compiled.render_with(lines, variables)
    }

    /// The variables that it names, as dotted paths.
    pub fn variables(&self) -> std::collections::BTreeSet<String> {
        self.compiled.variables()
    }

    /// What the variables that it names or requires begin with.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        let required = self.content.required.iter();
        let required = required.map(|path| path.split('.').next().unwrap_or(path));
        self.compiled.roots().chain(required)
    }
}

/// A time as seed 002 has it: `2025-09-21T12:00:00Z`.
pub(super) fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// The item of a new version.
pub(super) fn version_item(
    cx: &Cx,
    (key, number): (&TemplateKey, i64),
    ready: &Ready,
    status: Status,
) -> Item {
    let Content { name, kind, description, source, required, examples, default_sender } =
        &ready.content;
    let now = time(cx.now());
    let mut item = tables::EMAIL_TRACKING
        .bare_item(&key.version(number))
        .with("GSI1PK", status.index())
        .with("GSI1SK", now.as_str())
        .with("template_id", key.as_str())
        .with("template_name", name.as_deref().unwrap_or(key.as_str()))
        .with("template_type", kind.as_deref().unwrap_or_else(|| default_kind(key)))
        .with("subject_template", source.subject.as_str())
        .with("status", status.as_str())
        .with("created_date", now.as_str())
        .with("created_by", cx.actor().to_string())
        .with("version", number);
    let body = ready.compiled.html_source().filter(|_| !key.is_partial());
    let body = body.or(source.html.as_deref()).or(source.mjml.as_deref());
    let texts = [
        ("body_template", body.or(source.text.as_deref())),
        ("body_format", Some(if body.is_some() { "html" } else { "text" })),
        ("text_template", source.text.as_deref()),
        ("mjml_source", source.mjml.as_deref()),
        ("preheader", source.preheader.as_deref()),
        ("default_sender", default_sender.as_deref()),
        ("description", description.as_deref()),
        ("given_name", name.as_deref()),
        ("given_type", kind.as_deref()),
    ];
    for (attribute, text) in texts {
        if let Some(text) = text {
            item.set(attribute, text);
        }
    }
    if !required.is_empty() {
        let list: Vec<Value> = required.iter().map(|path| path.as_str().into()).collect();
        item.set("required_variables", list);
    }
    if !examples.is_empty() {
        // As text: numbers and nulls come back as they were given.
        item.set("example_variables", Json::Object(examples.clone()).to_string());
    }
    if !ready.partials.is_empty() {
        let map: BTreeMap<String, Value> = ready
            .partials
            .iter()
            .map(|(name, text)| (name.clone(), text.as_str().into()))
            .collect();
        item.set("partials", map);
    }
    item
}

fn default_kind(key: &TemplateKey) -> &'static str {
    if key.is_partial() { "partial" } else { "email" }
}

pub(super) fn read_version(key: &TemplateKey, item: &Item) -> Result<Stored, StorageError> {
    let content = read_content(item);
    let body = item.text("body_template").filter(|_| item.text("body_format") != Some("text"));
    let partials = match item.get("partials") {
        Some(Value::M(map)) => map
            .iter()
            .filter_map(|(name, text)| Some((name.clone(), text.as_text()?.to_owned())))
            .collect(),
        _ => BTreeMap::new(),
    };
    let subject =
        if content.source.subject.is_empty() { "partial" } else { &content.source.subject };
    let source = Source {
        subject: subject.to_owned(),
        html: body.map(Into::into),
        mjml: None,
        text: content.source.text.clone(),
        preheader: content.source.preheader.clone(),
    };
    let compiled = compile(&source, &partials).map_err(|faults| {
        let told = faults.first().map_or_else(String::new, ToString::to_string);
        corrupt(format!("a stored version of template {key} has faults: {told}"))
    })?;
    Ok(Stored {
        key: key.clone(),
        version: item.integer("version").unwrap_or_default(),
        created_at: item.text("created_date").and_then(|text| text.parse().ok()),
        body: body.map(Into::into),
        content,
        compiled,
    })
}

fn corrupt(message: String) -> StorageError {
    StorageError::Items(StoreError::Corrupt(message.into()))
}

fn read_content(item: &Item) -> Content {
    let text = |name: &str| item.text(name).map(str::to_owned);
    let mjml = text("mjml_source");
    let is_text = item.text("body_format") == Some("text");
    let html = text("body_template").filter(|_| mjml.is_none() && !is_text);
    let examples = item.text("example_variables").and_then(|json| serde_json::from_str(json).ok());
    let required = match item.get("required_variables").map(to_json) {
        Some(Json::Array(paths)) => {
            paths.iter().filter_map(Json::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    Content {
        name: text("given_name"),
        kind: text("given_type"),
        description: text("description"),
        source: Source {
            subject: text("subject_template").unwrap_or_default(),
            html,
            mjml,
            text: text("text_template"),
            preheader: text("preheader"),
        },
        required,
        examples: examples.unwrap_or_default(),
        default_sender: text("default_sender"),
    }
}

pub(super) async fn current(
    items: &dyn ItemStore,
    key: &TemplateKey,
) -> Result<Option<Current>, StoreError> {
    let item = items.get(&tables::EMAIL_TRACKING, &key.current()).await?;
    Ok(item.as_ref().map(read_current))
}

pub(super) fn read_current(item: &Item) -> Current {
    Current {
        active: item.integer("active_version"),
        latest: item.integer("latest_version").unwrap_or_default(),
        latest_digest: item.text("latest_digest").unwrap_or_default().to_owned(),
        name: item.text("template_name").unwrap_or_default().to_owned(),
        kind: item.text("template_type").map(str::to_owned),
        description: item.text("description").map(str::to_owned),
        updated_at: item.text("updated_date").and_then(|text| text.parse().ok()),
    }
}

pub(super) fn current_item(cx: &Cx, key: &TemplateKey, current: &Current) -> Item {
    let mut item = tables::EMAIL_TRACKING
        .bare_item(&key.current())
        .with("GSI1PK", ALL)
        .with("GSI1SK", key.as_str())
        .with("template_id", key.as_str())
        .with("template_name", current.name.as_str())
        .with("latest_version", current.latest)
        .with("latest_digest", current.latest_digest.as_str())
        .with("updated_date", time(cx.now()))
        .with("updated_by", cx.actor().to_string());
    if let Some(active) = current.active {
        item.set("active_version", active);
    }
    let texts = [("template_type", &current.kind), ("description", &current.description)];
    for (attribute, text) in texts {
        if let Some(text) = text {
            item.set(attribute, text.as_str());
        }
    }
    item
}

/// How the pointer names a new version.
pub(super) fn pointing_to(key: &TemplateKey, number: i64, ready: &Ready) -> Current {
    let content = &ready.content;
    Current {
        active: None,
        latest: number,
        latest_digest: ready.digest(),
        name: content.name.clone().unwrap_or_else(|| key.to_string()),
        kind: content.kind.clone().or_else(|| Some(default_kind(key).to_owned())),
        description: content.description.clone(),
        updated_at: None,
    }
}
