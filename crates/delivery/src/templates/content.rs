//! What an author gives for a version, and whether it can be taken.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidings_templates::{Compiled, Fault, Part, Source, compile};

use super::key::TemplateKey;

/// How many bytes a version may have as an item, with its partials and both MJML and HTML: DynamoDB takes 400 KB.
pub const MAX_STORED: usize = 390 * 1024;
const MAX_EXAMPLES: usize = 16 * 1024;
const MAX_REQUIRED: usize = 100;
const MAX_PATH: usize = 100;

/// Variables that every mail has.
const GIVEN: [&str; 7] =
    ["email", "firstName", "unsubscribeUrl", "preferencesUrl", "currentYear", "tags", "member"];
/// Names under which there is more.
const NAMESPACES: [&str; 2] = ["memory", "features"];

/// A version as an author writes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// For people; the key if there is none.
    pub name: Option<String>,
    /// What sort of mail it is: `template_type` of seed 002.
    pub kind: Option<String>,
    pub description: Option<String>,
    pub source: Source,
    /// Paths that must be there and not empty, or nothing is sent.
    pub required: Vec<String>,
    /// What else may be there, with values to look at.
    pub examples: Map<String, Value>,
    /// The sender where a message names none.
    pub default_sender: Option<String>,
}

/// A content without faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    /// The variables that it names.
    pub variables: BTreeSet<String>,
    /// What works, but not as one may wish.
    pub warnings: Vec<String>,
}

/// A content that is ready to be stored.
pub(super) struct Ready {
    pub(super) content: Content,
    pub(super) compiled: Compiled,
    /// Those that it calls while it is rendered, by name.
    pub(super) partials: BTreeMap<String, String>,
}

impl Content {
    /// What those who call it as a partial get.
    pub fn partial_body(&self) -> Option<&str> {
        let Source { html, mjml, text, .. } = &self.source;
        html.as_deref().or(mjml.as_deref()).or(text.as_deref())
    }
}

impl Ready {
    /// Everything that is wrong with it, or it.
    pub(super) fn check(
        key: &TemplateKey,
        content: Content,
        available: &BTreeMap<String, String>,
    ) -> Result<Self, Vec<Fault>> {
        let mut faults = bounds(&content);
        let source =
            if key.is_partial() { as_template(&content.source) } else { content.source.clone() };
        let compiled = match compile(&source, available) {
            Ok(compiled) => compiled,
            Err(more) => {
                faults.extend(more);
                return Err(faults);
            }
        };
        // The names in a partial are given by those who call it, too.
        if !key.is_partial() {
            faults.extend(compiled.unknown(|path| is_known(&content, path)));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let used = compiled.partials().filter_map(|name| available.get_key_value(name));
        let partials = used.map(|(name, text)| (name.clone(), text.clone())).collect();
        Ok(Self { content, compiled, partials })
    }

    pub(super) fn validated(&self) -> Validated {
        let rendered = self.compiled.render(&self.content.examples);
        let warnings = match rendered {
            Ok(rendered) => rendered.warnings().iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("with its examples it cannot be rendered: {error}")],
        };
        Validated { variables: self.compiled.variables(), warnings }
    }

    /// The same for the same content, and for no other.
    pub(super) fn digest(&self) -> String {
        let Content { name, kind, description, source, required, examples, default_sender } =
            &self.content;
        let all = json!([
            name,
            kind,
            description,
            [source.subject, source.html, source.mjml, source.text, source.preheader],
            required,
            examples,
            default_sender,
            self.partials,
            self.compiled.html_source(),
        ]);
        let hash = Sha256::digest(all.to_string().as_bytes());
        tidings_kernel::hex(&hash)
    }
}

/// A partial has no subject, and its MJML is a piece of a whole: only its Liquid can be checked by itself.
fn as_template(source: &Source) -> Source {
    let subject = if source.subject.is_empty() { "partial" } else { &source.subject };
    let html = source.html.clone().or_else(|| source.mjml.clone());
    let text = source.text.clone();
    Source { subject: subject.to_owned(), html, mjml: None, text, preheader: None }
}

/// Whether somebody gives this variable: every mail has it, or the author says so.
fn is_known(content: &Content, path: &str) -> bool {
    let root = path.split('.').next().unwrap_or(path);
    if GIVEN.contains(&root) || NAMESPACES.contains(&root) {
        return true;
    }
    let declared = |name: &str| {
        content.required.iter().any(|path| path.split('.').next() == Some(name))
            || content.examples.contains_key(name)
    };
    // The label of an attribute is called after it.
    declared(root) || root.strip_suffix("Name").is_some_and(declared)
}

fn bounds(content: &Content) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut wrong = |message: String| {
        faults.push(Fault { part: Part::Template, line: None, column: None, message });
    };
    let lines = [
        ("name", &content.name, 100),
        ("type", &content.kind, 64),
        ("default_sender", &content.default_sender, 254),
        ("description", &content.description, 1000),
    ];
    for (field, text, most) in lines {
        let Some(text) = text else { continue };
        let fits =
            (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if !fits {
            wrong(format!("{field}: use 1 to {most} characters on one line"));
        }
    }
    if content.required.len() > MAX_REQUIRED {
        wrong(format!("required_variables: use at most {MAX_REQUIRED}"));
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    for path in content.required.iter().take(MAX_REQUIRED) {
        let well_formed = (1..=MAX_PATH).contains(&path.len()) && path.chars().all(inside);
        if !well_formed {
            let shown: String = path.chars().take(40).collect();
            wrong(format!("required_variables: {shown:?} is no path such as order.id"));
        }
    }
    if json!(content.examples).to_string().len() > MAX_EXAMPLES {
        wrong(format!("example_variables: use at most {} KB", MAX_EXAMPLES / 1024));
    }
    faults
}
