//! What bounds a draft. Whether its template and sender exist is asked when it starts (`snapshot::freeze`).

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_delivery::templates::TemplateKey;
use tidings_delivery::transactional::{MAX_CONTENT_BYTES, MAX_DEPTH, MAX_LINE, Wrong};

use super::Draft;
use crate::audience::{Condition, unknown_names};
use crate::campaigns::{Content, Schedule, Variant};

/// The longest key.
pub const MAX_KEY: usize = 180;
/// The longest name.
pub const MAX_NAME: usize = 200;
/// The most variants.
pub const MAX_VARIANTS: usize = 10;
/// The most days of a warm-up.
pub const MAX_WARMUP: usize = 90;
/// The most bytes of metadata, as JSON.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// How long it can take at least and at most until a winner is decided.
pub const MIN_WAIT_MS: i64 = 60_000;
pub const MAX_WAIT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
const MAX_RATE: i64 = 100_000_000;
const MAX_WEIGHT: i64 = 1_000;

struct Found(Vec<Wrong>);

impl Found {
    fn wrong(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Wrong { field: field.into(), message: message.into() });
    }
}

/// All that is wrong with a draft in itself.
pub(super) async fn check(cx: &Cx, draft: &Draft) -> Result<Vec<Wrong>, StorageError> {
    let mut found = Found(Vec::new());
    check_names(&mut found, draft);
    match Condition::parse(&draft.filter, "filter") {
        Ok(condition) => {
            for message in unknown_names(cx, &condition).await? {
                found.wrong("filter", message);
            }
        }
        Err(violations) => {
            found.0.extend(
                violations.into_iter().map(|one| Wrong { field: one.path, message: one.message }),
            );
        }
    }
    check_content(&mut found, draft);
    check_variants(&mut found, draft);
    check_pace(&mut found, draft, cx.now());
    Ok(found.0)
}

fn check_names(found: &mut Found, draft: &Draft) {
    let name = draft.name.trim();
    if !(1..=MAX_NAME).contains(&name.chars().count()) || name.chars().any(char::is_control) {
        found.wrong("name", format!("use 1 to {MAX_NAME} characters on one line"));
    }
    if let Some(key) = &draft.key {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        if !(1..=MAX_KEY).contains(&key.len()) || !key.chars().all(allowed) {
            let message = format!("use 1 to {MAX_KEY} letters, digits and . _ : -");
            found.wrong("external_key", message);
        }
        let made = key.strip_prefix("campaign-").is_some_and(|id| id.parse::<i64>().is_ok());
        if made {
            // Campaigns without a key of their own are known by such a one.
            found.wrong("external_key", "use another key than campaign- and a number");
        }
        if key.parse::<i64>().is_ok() || key == "preview" {
            // A number is an id, and the API has another use for that word.
            found.wrong("external_key", "use another key than a number or preview");
        }
    }
    let metadata = Value::Object(draft.metadata.clone());
    if metadata.to_string().len() > MAX_METADATA_BYTES || depth(&metadata) > MAX_DEPTH {
        let message =
            format!("use at most {MAX_METADATA_BYTES} bytes, nested at most {MAX_DEPTH} deep");
        found.wrong("metadata", message);
    }
    if metadata.to_string().contains("\\u0000") {
        found.wrong("metadata", "use no U+0000");
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_content(found: &mut Found, draft: &Draft) {
    let Content { template, subject, preview_text, html, text } = &draft.content;
    if let Some(subject) = subject {
        check_line(found, "subject", subject);
    }
    if let Some(preview) = preview_text {
        check_line(found, "preview_text", preview);
    }
    let has_body = html.is_some() || text.is_some();
    match template {
        Some(template) => {
            check_template(found, "template", &template.key);
            if has_body || preview_text.is_some() {
                found.wrong("template", "use either a template or html, text and preview_text");
            }
        }
        None if has_body => {
            let named = draft.variants.iter().all(|one| one.subject.is_some());
            if subject.is_none() && (draft.variants.is_empty() || !named) {
                found.wrong("subject", "a campaign without a template needs a subject");
            }
            compile(found, &draft.content);
        }
        None if draft.variants.is_empty() => {
            found.wrong("template", "name a template, or give a subject with html or text");
        }
        None => {}
    }
}

fn check_line(found: &mut Found, field: &str, line: &str) {
    if line.trim().is_empty() || line.chars().count() > MAX_LINE {
        found.wrong(field, format!("use 1 to {MAX_LINE} characters"));
    }
    if line.chars().any(char::is_control) {
        found.wrong(field, "use one line without control characters");
    }
}

fn check_template(found: &mut Found, field: &str, key: &str) {
    match key.parse::<TemplateKey>() {
        Ok(key) if key.is_partial() => found.wrong(field, "a partial cannot be sent by itself"),
        Ok(_) => {}
        Err(error) => found.wrong(field, error.to_string()),
    }
}

/// What cannot be rendered is refused at once.
fn compile(found: &mut Found, content: &Content) {
    let parts = [&content.subject, &content.preview_text, &content.html, &content.text];
    let bytes: usize = parts.into_iter().flatten().map(String::len).sum();
    if bytes > MAX_CONTENT_BYTES {
        let message =
            format!("subject and bodies have {bytes} bytes, and {MAX_CONTENT_BYTES} are the most");
        return found.wrong("html", message);
    }
    for (field, body) in [("html", &content.html), ("text", &content.text)] {
        if body.as_ref().is_some_and(|body| body.contains('\0')) {
            found.wrong(field, "use no U+0000");
        }
    }
    let source = tidings_templates::Source {
        subject: content.subject.clone().unwrap_or_else(|| "-".to_owned()),
        html: content.html.clone(),
        text: content.text.clone(),
        preheader: content.preview_text.clone(),
        ..Default::default()
    };
    if let Err(faults) = tidings_templates::compile(&source, &BTreeMap::new()) {
        for fault in faults {
            found.wrong(fault.part.to_string(), fault.message);
        }
    }
}

fn check_variants(found: &mut Found, draft: &Draft) {
    let variants = &draft.variants;
    if variants.len() == 1 || variants.len() > MAX_VARIANTS {
        found.wrong("variants", format!("use none, or 2 to {MAX_VARIANTS}"));
    }
    let has_base = draft.content.template.is_some()
        || draft.content.html.is_some()
        || draft.content.text.is_some();
    for (place, variant) in variants.iter().enumerate().take(MAX_VARIANTS) {
        let field = |name: &str| format!("variants[{place}].{name}");
        let Variant { name, weight, template, subject, .. } = variant;
        if name.trim().is_empty()
            || name.chars().count() > 100
            || name.chars().any(char::is_control)
        {
            found.wrong(field("name"), "use 1 to 100 characters on one line");
        }
        if variants.iter().take(place).any(|other| other.name == *name) {
            found.wrong(field("name"), "there is another variant with this name");
        }
        if !(1..=MAX_WEIGHT).contains(weight) {
            found.wrong(field("weight"), format!("use a number from 1 to {MAX_WEIGHT}"));
        }
        if let Some(subject) = subject {
            check_line(found, &field("subject"), subject);
        }
        match template {
            Some(key) => check_template(found, &field("template"), key),
            None if subject.is_none() => {
                found.wrong(field("subject"), "a variant needs a template, a subject or both");
            }
            None if !has_base => {
                found
                    .wrong(field("template"), "without a content of the campaign, name a template");
            }
            None => {}
        }
    }
    let Some(test) = draft.test else { return };
    if variants.is_empty() {
        found.wrong("test", "there is nothing to test without variants");
    }
    if !(1..=99).contains(&test.percent) {
        found.wrong("test.percent", "use a number from 1 to 99");
    }
    if !(MIN_WAIT_MS..=MAX_WAIT_MS).contains(&test.wait_ms) {
        found.wrong("test.wait", "use a minute to 30 days");
    }
}

fn check_pace(found: &mut Found, draft: &Draft, now: Timestamp) {
    if draft.rate_per_hour.is_some_and(|rate| !(1..=MAX_RATE).contains(&rate)) {
        found.wrong("rate_per_hour", format!("use a number from 1 to {MAX_RATE}"));
    }
    let days = &draft.warmup;
    if days.len() > MAX_WARMUP || days.iter().any(|most| !(1..=MAX_RATE).contains(most)) {
        found.wrong("warmup", format!("use at most {MAX_WARMUP} numbers from 1 to {MAX_RATE}"));
    }
    found.0.extend(draft.schedule.and_then(|schedule| too_late(schedule, now)));
}

/// What is wrong with a time that is too far away.
pub(in crate::campaigns) fn too_late(schedule: Schedule, now: Timestamp) -> Option<Wrong> {
    let last = now.saturating_add((365 * 24).hours()).unwrap_or(Timestamp::MAX);
    let message = "use a time within a year from now".to_owned();
    (schedule.due() > last).then(|| Wrong { field: "scheduled_at".to_owned(), message })
}
