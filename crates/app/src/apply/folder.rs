//! The files of a folder, read and put together. All that is wrong with them is told at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tidings_delivery::templates::{Content, Put, TemplateKey, Then};
use tidings_templates::{MAX_SOURCE, Source};

use crate::memory_rules;
use crate::segments;
use crate::sequences::Written;

/// How many files a folder may have, and how deep they may be.
const MAX_FILES: usize = 5000;
const MAX_DEPTH: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) templates: Vec<Put>,
    pub(super) topics: Vec<Topic>,
    pub(super) audiences: Vec<Audience>,
    pub(super) segments: Vec<segments::Written>,
    pub(super) sequences: Vec<Written>,
    pub(super) memory_rules: Vec<memory_rules::Written>,
}

/// What a file does not name stays as it is; an empty text takes it away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    pub(super) slug: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
}

/// As with topics: leaving out `double_opt_in` must not switch it off.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Audience {
    pub(super) slug: String,
    pub(super) name: String,
    pub(super) double_opt_in: Option<bool>,
    pub(super) confirm_template_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topics {
    #[serde(default)]
    topics: Vec<Topic>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Audiences {
    #[serde(default)]
    audiences: Vec<Audience>,
}

/// What stands beside a template or on top of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    subject: Option<String>,
    preheader: Option<String>,
    name: Option<String>,
    r#type: Option<String>,
    description: Option<String>,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    examples: Map<String, Value>,
    default_sender: Option<String>,
    status: Option<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Draft,
}

/// The files of one template.
#[derive(Default)]
struct Files {
    meta: Option<(PathBuf, Meta)>,
    html: Option<String>,
    mjml: Option<String>,
    text: Option<String>,
}

impl Folder {
    pub(super) fn read(path: &Path) -> Result<Self, Vec<String>> {
        let mut reading = Reading { faults: Vec::new(), files: 0 };
        if !path.is_dir() {
            return Err(vec![format!("{} is no folder", path.display())]);
        }
        let templates = reading.templates(&path.join("templates"));
        let topics = reading.list::<Topics>(&path.join("topics.toml"));
        let audiences = reading.list::<Audiences>(&path.join("audiences.toml"));
        let segments = reading.segments(&path.join("segments"));
        let sequences = reading.sequences(&path.join("sequences"));
        let memory_rules = reading.memory_rules(&path.join("memory-rules"));
        let folder = Self {
            templates,
            topics: topics.map(|read| read.topics).unwrap_or_default(),
            audiences: audiences.map(|read| read.audiences).unwrap_or_default(),
            segments,
            sequences,
            memory_rules,
        };
        let is_empty = folder.templates.is_empty()
            && folder.topics.is_empty()
            && folder.audiences.is_empty()
            && folder.segments.is_empty()
            && folder.sequences.is_empty()
            && folder.memory_rules.is_empty();
        if is_empty && reading.faults.is_empty() {
            reading.faults.push(format!(
                "{} has neither templates nor segments nor sequences nor memory-rules nor topics.toml nor audiences.toml",
                path.display()
            ));
        }
        if reading.faults.is_empty() { Ok(folder) } else { Err(reading.faults) }
    }
}

struct Reading {
    faults: Vec<String>,
    files: usize,
}

impl Reading {
    fn wrong(&mut self, path: &Path, message: impl std::fmt::Display) {
        self.faults.push(format!("{}: {message}", path.display()));
    }

    fn list<T: DeserializeOwned>(&mut self, path: &Path) -> Option<T> {
        if !path.exists() {
            return None;
        }
        let text = self.text(path)?;
        self.toml(path, &text)
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let length = fs::metadata(path).map_or(0, |meta| meta.len());
        if length > MAX_SOURCE as u64 {
            self.wrong(path, format_args!("it is longer than {} KB", MAX_SOURCE / 1024));
            return None;
        }
        match fs::read_to_string(path) {
            Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n")),
            Err(error) => {
                self.wrong(path, error);
                None
            }
        }
    }

    fn toml<T: DeserializeOwned>(&mut self, path: &Path, text: &str) -> Option<T> {
        match toml::from_str(text) {
            Ok(read) => Some(read),
            Err(error) => {
                self.wrong(path, error.to_string().trim_end());
                None
            }
        }
    }

    fn templates(&mut self, root: &Path) -> Vec<Put> {
        let mut found: BTreeMap<String, Files> = BTreeMap::new();
        if root.is_dir() {
            self.walk(root, root, 0, &mut found);
        }
        found.into_iter().filter_map(|(key, files)| self.template(root, &key, files)).collect()
    }

    fn walk(
        &mut self,
        root: &Path,
        folder: &Path,
        depth: usize,
        found: &mut BTreeMap<String, Files>,
    ) {
        if depth > MAX_DEPTH {
            return self.wrong(folder, "folders are nested too deep");
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().collect::<Vec<_>>(),
            Err(error) => return self.wrong(folder, error),
        };
        for entry in entries {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let Ok(kind) = entry.file_type() else { continue };
            if hidden {
                continue;
            }
            if kind.is_symlink() {
                self.wrong(&path, "links are not followed");
            } else if kind.is_dir() {
                self.walk(root, &path, depth + 1, found);
            } else {
                self.files += 1;
                if self.files > MAX_FILES {
                    if self.files == MAX_FILES + 1 {
                        self.wrong(root, format_args!("it has more than {MAX_FILES} files"));
                    }
                    return;
                }
                self.file(root, &path, found);
            }
        }
    }

    fn file(&mut self, root: &Path, path: &Path, found: &mut BTreeMap<String, Files>) {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_owned();
        if !matches!(extension.as_str(), "html" | "liquid" | "mjml" | "txt" | "toml") {
            return self.wrong(path, "use .html, .liquid, .mjml, .txt or .toml");
        }
        let stem = path.with_extension("");
        let relative = stem.strip_prefix(root).unwrap_or(&stem);
        let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        let key = parts.join("/");
        let Some(text) = self.text(path) else { return };
        let files = found.entry(key).or_default();
        let (front, body) = match extension.as_str() {
            "toml" => (Some(text.as_str()), ""),
            _ => front_matter(&text),
        };
        let meta = front.and_then(|front| self.toml::<Meta>(path, front));
        if let Some(meta) = meta
            && let Some((other, _)) = files.meta.replace((path.to_owned(), meta))
        {
            self.wrong(path, format_args!("{} says it already", other.display()));
        }
        let slot = match extension.as_str() {
            "html" | "liquid" => &mut files.html,
            "mjml" => &mut files.mjml,
            "txt" => &mut files.text,
            _ => return,
        };
        if slot.replace(body.to_owned()).is_some() {
            self.wrong(path, "use either .html or .liquid");
        }
    }

    /// In the order of their names. Each is a file; one that is wrong does not hide the others.
    fn sequences(&mut self, folder: &Path) -> Vec<Written> {
        let (mut read, mut named) = (Vec::new(), BTreeMap::<String, PathBuf>::new());
        for path in self.documents(folder) {
            match Written::read(&path) {
                Ok(written) => {
                    let id = written.definition.id.to_string();
                    if let Some(other) = named.insert(id.clone(), path.clone()) {
                        self.wrong(&path, format_args!("{} is {id} already", other.display()));
                    }
                    read.push(written);
                }
                Err(faults) => self.faults.extend(faults),
            }
        }
        read
    }

    /// The same with rules of memory. Each set is called as its file is.
    fn memory_rules(&mut self, folder: &Path) -> Vec<memory_rules::Written> {
        let (mut read, mut named) = (Vec::new(), BTreeMap::<String, PathBuf>::new());
        for path in self.documents(folder) {
            match memory_rules::Written::read(&path) {
                Ok(written) => {
                    let name = written.name.to_string();
                    if let Some(other) = named.insert(name.clone(), path.clone()) {
                        self.wrong(&path, format_args!("{} is {name} already", other.display()));
                    }
                    read.push(written);
                }
                Err(faults) => self.faults.extend(faults),
            }
        }
        read
    }

    /// The same with segments.
    fn segments(&mut self, folder: &Path) -> Vec<segments::Written> {
        let (mut read, mut named) = (Vec::new(), BTreeMap::<String, PathBuf>::new());
        for path in self.documents(folder) {
            match segments::Written::read(&path) {
                Ok(written) => {
                    let slug = written.put.slug.to_string();
                    if let Some(other) = named.insert(slug.clone(), path.clone()) {
                        self.wrong(&path, format_args!("{} is {slug} already", other.display()));
                    }
                    read.push(written);
                }
                Err(faults) => self.faults.extend(faults),
            }
        }
        read
    }

    /// The files of a folder that are YAML or JSON. It may not be there.
    fn documents(&mut self, folder: &Path) -> Vec<PathBuf> {
        if !folder.exists() {
            return Vec::new();
        }
        let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => {
                self.wrong(folder, error);
                return Vec::new();
            }
        };
        paths.sort();
        let mut documents = Vec::new();
        for path in paths {
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            if hidden {
                continue;
            }
            self.files += 1;
            if self.files > MAX_FILES {
                self.wrong(folder, format_args!("it has more than {MAX_FILES} files"));
                break;
            }
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if path.is_symlink() {
                self.wrong(&path, "links are not followed");
            } else if path.is_dir() || !matches!(extension, "yaml" | "yml" | "json") {
                self.wrong(&path, "use files that end with .yaml, .yml or .json");
            } else {
                documents.push(path);
            }
        }
        documents
    }

    fn template(&mut self, root: &Path, key: &str, files: Files) -> Option<Put> {
        let place = root.join(key);
        let key: TemplateKey = match key.parse() {
            Ok(key) => key,
            Err(error) => {
                self.wrong(&place, error);
                return None;
            }
        };
        let meta = files.meta.map(|(_, meta)| meta).unwrap_or_default();
        if key.is_partial() && meta.status == Some(Status::Draft) {
            self.wrong(&place, "a partial cannot be a draft: others would not find it");
        }
        let then = match meta.status {
            Some(Status::Draft) => Then::KeepAsDraft,
            _ => Then::Activate,
        };
        let content = Content {
            name: meta.name,
            kind: meta.r#type,
            description: meta.description,
            source: Source {
                subject: meta.subject.unwrap_or_default(),
                html: files.html,
                mjml: files.mjml,
                text: files.text,
                preheader: meta.preheader,
            },
            required: meta.required,
            examples: meta.examples,
            default_sender: meta.default_sender,
        };
        Some(Put { key, content, then })
    }
}

/// What stands between two lines of `---` at the top, and what comes after.
fn front_matter(text: &str) -> (Option<&str>, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return (None, text) };
    match rest.split_once("\n---\n") {
        Some((front, body)) => (Some(front), body),
        None => (None, text),
    }
}
