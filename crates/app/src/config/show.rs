//! The configuration for people: what is in force, and a file to begin with.

use std::fmt::Write as _;

use serde_json::json;

use super::keys::{Preset, all_keys};
use super::mask::mask;
use super::settings::{Setting, Settings};
use super::value::{Kind, Value};

/// Every key with its value and where it came from. It is itself a valid file, but for the hidden secrets.
pub fn as_text(settings: &Settings) -> String {
    let lines: Vec<_> = settings
        .iter()
        .map(|setting| {
            let line = match shown(setting) {
                Some(value) => format!("{} = {value}", setting.key.name),
                None => format!("# {} is not set", setting.key.name),
            };
            (line, setting)
        })
        .collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, setting) in lines {
        if setting.value.is_some() {
            writeln!(text, "{line:width$}  # {}", origin(setting)).expect("a String takes all");
        } else {
            writeln!(text, "{line}").expect("a String takes all");
        }
    }
    text
}

/// The same for programs.
pub fn as_json(settings: &Settings) -> serde_json::Value {
    let entry = |setting: &Setting| {
        let value = match &setting.value {
            Some(Value::Integer(number)) => json!(number),
            Some(value) => json!(masked(setting, &value.to_string())),
            None => json!(null),
        };
        (setting.key.name.to_owned(), json!({ "value": value, "origin": origin(setting) }))
    };
    serde_json::Value::Object(settings.iter().map(entry).collect())
}

/// A `tidings.toml` with every key, its meaning and its default, all commented out.
pub fn template() -> String {
    let mut text = String::from(
        "# Configuration of Tidings. Every key is here with its default; uncomment what you change.\n\
         # A key can also be set in the environment (http.listen is TIDINGS_HTTP__LISTEN) and by flag\n\
         # (--set http.listen=…): the environment wins over this file, and a flag over both.\n\
         # `tidings config` shows what is in force and where it came from.\n",
    );
    let mut section = "";
    for key in all_keys() {
        if key.section() != section {
            section = key.section();
            write!(text, "\n[{section}]\n").expect("a String takes all");
        }
        text.push('\n');
        for line in key.doc.lines().map(str::to_owned).chain(key.kind.describe()) {
            writeln!(text, "# {line}").expect("a String takes all");
        }
        if key.secret {
            writeln!(text, "# Or {}_file: a file that holds it.", key.leaf())
                .expect("a String takes all");
        }
        let value = match key.preset {
            Preset::Default(default) => written(&key.kind, default),
            Preset::Unset { example } => {
                writeln!(text, "# Not set by default.").expect("a String takes all");
                written(&key.kind, example)
            }
        };
        writeln!(text, "#{} = {value}", key.leaf()).expect("a String takes all");
    }
    text
}

fn shown(setting: &Setting) -> Option<String> {
    let text = setting.value.as_ref()?.to_string();
    Some(written(&setting.key.kind, &masked(setting, &text)))
}

/// A password that looks like a URL is hidden whole all the same.
fn masked(setting: &Setting, text: &str) -> String {
    let is_url = matches!(setting.key.kind, Kind::Url { .. });
    if setting.key.secret && !is_url { mask("", true) } else { mask(text, setting.key.secret) }
}

/// A value as TOML writes it.
fn written(kind: &Kind, text: &str) -> String {
    match kind {
        Kind::Integer { .. } => text.to_owned(),
        // A JSON string is a TOML string.
        _ => json!(text).to_string(),
    }
}

fn origin(setting: &Setting) -> String {
    match &setting.read_from {
        Some(path) => format!("{}, read from {}", setting.origin, path.display()),
        None => setting.origin.to_string(),
    }
}
