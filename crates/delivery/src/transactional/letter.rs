//! From a row to a mail: its variables, its text, its links, and how it is put on paper.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Mail};
use tidings_mail::{ComposeError, Kind, Letter, Mailbox, compose};
use tidings_templates::{
    Compiled, Fault, Part, RenderError, Rendered, Source as Written, compile_lines,
};

use super::accept::wrong;
use super::request::{Lines, Tracking, Wrong};
use super::store::Sendable;
use crate::letterhead;
use crate::links::{Addressee, Links, Source};
use crate::templates::{Recipient, Stored, Wanted, variables_wanted};

/// What is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) subject: String,
    pub(super) html: Option<String>,
    pub(super) text: String,
}

/// Makes what was sent along ready to be rendered, or says all that is wrong with it.
pub(super) fn compile(
    subject: &str,
    html: Option<&String>,
    text: Option<&String>,
    found: &mut Vec<Wrong>,
) -> Option<Compiled> {
    let source = Written {
        subject: subject.to_owned(),
        html: html.cloned(),
        text: text.cloned(),
        ..Written::default()
    };
    match tidings_templates::compile(&source, &BTreeMap::new()) {
        Ok(compiled) => Some(compiled),
        Err(faults) => tell(faults, found),
    }
}

/// The same for what stands in the place of the content's own.
pub(super) fn compile_other(
    lines: &Lines,
    found: &mut Vec<Wrong>,
) -> Option<tidings_templates::Lines> {
    match compile_lines(lines.subject.as_deref(), lines.preheader.as_deref()) {
        Ok(compiled) => Some(compiled),
        Err(faults) => tell(faults, found),
    }
}

fn tell<T>(faults: Vec<Fault>, found: &mut Vec<Wrong>) -> Option<T> {
    for fault in faults {
        let field = fault.part.to_string();
        // What `Send::check` has found already is not said twice.
        let is_told = |one: &Wrong| one.field == field || fault.part == Part::Template;
        if !found.iter().any(is_told) {
            found.push(wrong(&field, fault.message));
        }
    }
    None
}

/// Content that can be rendered, with the lines that stand in the place of its own.
pub(super) struct Ready {
    pub(super) body: Body,
    pub(super) lines: tidings_templates::Lines,
}

pub(super) enum Body {
    Stored(Arc<Stored>),
    Inline(Compiled),
}

impl Ready {
    pub(super) fn render(&self, variables: &Map<String, Value>) -> Result<Rendered, RenderError> {
        match &self.body {
            Body::Stored(stored) => stored.render_with(&self.lines, variables),
            Body::Inline(compiled) => compiled.render_with(&self.lines, variables),
        }
    }

    fn wanted(&self) -> Wanted {
        let mut wanted = match &self.body {
            Body::Stored(stored) => Wanted::of(stored.roots()),
            Body::Inline(compiled) => Wanted::of(compiled.roots()),
        };
        wanted.add(&Wanted::of(self.lines.roots()));
        wanted
    }

    /// With examples for what is absent.
    pub(super) fn with_examples(&self, variables: Map<String, Value>) -> Map<String, Value> {
        let mut all = match &self.body {
            Body::Stored(stored) => stored.content.examples.clone(),
            Body::Inline(_) => Map::new(),
        };
        all.extend(variables);
        all
    }

    /// What it can name: what is known of the person, what the caller says, and what we say, the later winning.
    pub(super) async fn variables(
        &self,
        cx: &Cx,
        (to, context): (&EmailAddress, &Map<String, Value>),
        (unsubscribe, preferences): (&str, &str),
    ) -> Result<Map<String, Value>, StorageError> {
        let recipient = Recipient {
            email: to,
            context,
            unsubscribe_url: Some(unsubscribe),
            preferences_url: Some(preferences),
        };
        variables_wanted(cx, self.wanted(), &recipient).await
    }
}

/// For the ways out of a mail that is only looked at.
pub(super) const NOWHERE: (&str, &str) =
    ("https://example.org/unsubscribe", "https://example.org/preferences");

/// Leads every link past us and adds a pixel, if that is wanted. The ways to unsubscribe stay as they are.
pub(super) fn tracked(html: &str, row: &Sendable, links: &Links) -> String {
    if row.envelope.tracking == Tracking::Off {
        return html.to_owned();
    }
    let to = addressee(row);
    let own = [links.unsubscribe(&to), links.preferences(&to)];
    let mut click = |target: &str| {
        if own.iter().any(|one| one == target) { None } else { links.click(&to, target) }
    };
    tidings_templates::track(html, &mut click, Some(&links.pixel(&to)))
}

pub(super) fn addressee(row: &Sendable) -> Addressee {
    Addressee {
        workspace: row.workspace,
        source: source(row),
        contact: row.contact,
        client: row.client.get(),
        audience: row.purpose.audience,
        topic: row.purpose.topic,
    }
}

pub(super) fn source(row: &Sendable) -> Source {
    Source::Transactional(row.id.get())
}

/// Why a row cannot become a mail. Trying again would not help.
#[derive(Debug, thiserror::Error)]
pub(super) enum LetterError {
    #[error("the sender's address cannot be read")]
    From,
    #[error(transparent)]
    Compose(#[from] ComposeError),
}

/// Puts a message on paper, under this id. `copies` are those who may get one.
pub(super) fn write(
    row: &Sendable,
    (to, copies): (&EmailAddress, Copies),
    content: &Text,
    (links, message_id): (&Links, &str),
    now: Timestamp,
) -> Result<Mail, LetterError> {
    let from = row.from_email.as_deref().and_then(|text| text.parse().ok());
    let from: EmailAddress = from.ok_or(LetterError::From)?;
    let kind = match row.purpose.kind.is_marketing() {
        true => letterhead::marketing(links, &addressee(row), &from),
        false => Kind::Transactional,
    };
    let letter = Letter {
        from: Mailbox { name: row.from_name.clone(), email: from },
        reply_to: row.reply_to.as_deref().and_then(|text| text.parse().ok()),
        to: Mailbox::plain(to.clone()),
        cc: copies.cc.into_iter().map(Mailbox::plain).collect(),
        bcc: copies.bcc,
        subject: content.subject.clone(),
        html: content.html.clone(),
        text: content.text.clone(),
        message_id: message_id.to_owned(),
        date: now,
        kind,
        feedback_id: Some(feedback_id(row)),
        headers: headers(row),
        attachments: row.envelope.parts.iter().map(super::Part::attachment).collect(),
        calendar: row.envelope.calendar.as_ref().map(super::Calendar::invitation),
    };
    let mut mail = compose(&letter)?;
    mail.tags =
        vec![("workspace", row.workspace.to_string()), ("message", source(row).reference())];
    if let Some(sequence) = &row.purpose.sequence {
        mail.tags.push(("sequenceId", sequence.clone()));
        // A tag has no slashes.
        let template = row.template.as_ref().map(|(key, _)| key.replace('/', "--"));
        mail.tags.extend(template.map(|key| ("templateKey", key.chars().take(256).collect())));
    }
    Ok(mail)
}

/// The caller's own, and of a mail of a sequence what seed 000 has in each.
fn headers(row: &Sendable) -> Vec<(String, String)> {
    let Some(sequence) = &row.purpose.sequence else {
        return row.envelope.headers.clone().into_iter().collect();
    };
    let template = row.template.as_ref().map(|(key, _)| ("X-Template-Key", key));
    let own: Vec<_> = [Some(("X-Sequence-Id", sequence)), template].into_iter().flatten().collect();
    let is_own = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let others = row.envelope.headers.iter().filter(|(name, _)| !is_own(name));
    let others = others.map(|(name, value)| (name.clone(), value.clone()));
    others.chain(own.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone()))).collect()
}

/// Who gets a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) cc: Vec<EmailAddress>,
    pub(super) bcc: Vec<EmailAddress>,
}

/// Mail that can be left is counted by its sequence, all other by its template.
fn feedback_id(row: &Sendable) -> String {
    let sender = row.envelope.sender.as_deref();
    let (what, kind) = match &row.purpose.sequence {
        Some(sequence) if row.purpose.kind.is_marketing() => (sequence.as_str(), "sequence"),
        _ => {
            let template = row.template.as_ref().map_or("inline", |(key, _)| key.as_str());
            (template, "transactional")
        }
    };
    letterhead::feedback_id(what, row.workspace, kind, sender)
}
