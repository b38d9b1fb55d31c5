//! What a draft says: in the words of whoever asks for it, or of a template.

use serde_json::Map;
use tidings_access::Cx;

use super::check;
use super::{DraftError, New, Text};
use crate::ids::Kind;
use crate::record::{ContentType, TemplateRef};
use crate::settings::Settings;
use crate::templates::{self, Template};
use crate::wrong::{Found, Wrong};

pub(super) struct Written {
    pub(super) subject: String,
    pub(super) content: String,
    pub(super) content_type: ContentType,
    pub(super) template: Option<TemplateRef>,
}

pub(super) async fn write(
    cx: &Cx,
    new: &New,
    kind: Kind,
    settings: &Settings,
) -> Result<Written, DraftError> {
    let nothing = Map::new();
    let (template, variables) = match &new.text {
        Text::Written { subject, content, content_type } => {
            return Ok(Written {
                // A subject is trimmed on its way out, and what was approved is what is sent.
                subject: subject.trim().to_owned(),
                content: check::lines(content),
                content_type: *content_type,
                template: None,
            });
        }
        Text::Template { id, variables } => (templates::find_active(cx, id).await?, variables),
        Text::DefaultTemplate => {
            let found = match settings.policy.template(kind) {
                Some(id) => templates::find_active(cx, id).await?,
                None => templates::find_for(cx, kind).await?,
            };
            (found, &nothing)
        }
    };
    let Some(template) = template else {
        return Err(invalid(
            "template",
            format!("there is no active template for this {kind} reminder"),
        ));
    };
    if template.kind.is_some_and(|of| of != kind) {
        let told = format!("template {} is not made for a {kind} reminder", template.id);
        return Err(invalid("template", told));
    }
    let mut known = templates::variables_of(&new.customer, &new.facts, kind, cx.now());
    // The facts are the facts: a caller's variables add to them and replace none.
    for (name, value) in variables {
        known.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    render(&template, &known)
}

fn render(
    template: &Template,
    known: &Map<String, serde_json::Value>,
) -> Result<Written, DraftError> {
    let said = template.render(known).map_err(|why| invalid("template", why))?;
    let mut found = Found::default();
    for name in &said.missing {
        found.tell(format!("variables.{name}"), "the template needs this");
    }
    check::content(&mut found, Some(&said.subject), Some(&said.content));
    found.into_result().map_err(DraftError::Invalid)?;
    Ok(Written {
        subject: said.subject,
        content: check::lines(&said.content),
        content_type: template.content_type,
        template: Some(TemplateRef { id: template.id.clone(), version: template.version }),
    })
}

fn invalid(field: &str, message: String) -> DraftError {
    DraftError::Invalid(vec![Wrong { field: field.to_owned(), message }])
}
