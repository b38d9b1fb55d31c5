//! Making the mail of a row: everything that can go wrong before the claim.

use std::sync::Arc;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Mail};

use super::Worker;
use crate::eligibility::{self, Kind, Verdict};
use crate::templates::{Stored, TemplateKey};
use crate::transactional::letter::{self, Copies, Text};
use crate::transactional::purpose::Purpose;
use crate::transactional::store::Sendable;

/// A copy is sent because the caller wants it, and nothing but a suppression is in its way.
pub(super) const COPY: Purpose = Purpose {
    kind: Kind::Transactional,
    topic: None,
    audience: None,
    sequence: None,
    execution: None,
    step: None,
    reminder: None,
};

/// A message that is ready to go.
pub(super) struct Ready {
    pub(super) content: Text,
    pub(super) message_id: String,
    pub(super) mail: Mail,
}

impl Worker {
    /// The mail, or why there can be none.
    pub(super) async fn prepare(
        &self,
        cx: &Cx,
        row: &Sendable,
        to: &EmailAddress,
    ) -> Result<Result<Ready, String>, StorageError> {
        self.links.refresh(cx.now()).await?;
        let content = match self.content(cx, row, to).await? {
            Ok(content) => content,
            Err(why) => return Ok(Err(why)),
        };
        let copies = self.copies(cx, row).await?;
        let domain = row.from_email.as_deref().and_then(|from| from.rsplit_once('@'));
        let domain = domain.map_or("localhost", |(_, domain)| domain);
        let message_id = self.links.message_id(&letter::source(row), row.workspace, domain);
        let under = (&self.links, message_id.as_str());
        // A late copy has the date of the message that it is a copy of.
        let date = row.state.handed_at.unwrap_or(cx.now());
        let written = letter::write(row, (to, copies), &content, under, date);
        Ok(match written {
            Ok(mail) => Ok(Ready { content, message_id, mail }),
            Err(error) => Err(error.to_string()),
        })
    }

    /// What was rendered before, or what is rendered now.
    async fn content(
        &self,
        cx: &Cx,
        row: &Sendable,
        to: &EmailAddress,
    ) -> Result<Result<Text, String>, StorageError> {
        if let (true, Some(content)) = (row.rendered, &row.content) {
            return Ok(Ok(Text {
                subject: content.subject.clone(),
                html: content.html.clone(),
                text: content.text.clone().unwrap_or_default(),
            }));
        }
        let body = match (&row.template, &row.content) {
            (Some((key, version)), _) => match self.version(cx, key, *version).await? {
                Some(stored) => letter::Body::Stored(stored),
                None => return Ok(Err(format!("there is no version {version} of template {key}"))),
            },
            (None, Some(source)) => {
                let (html, text) = (source.html.as_ref(), source.text.as_ref());
                match letter::compile(&source.subject, html, text, &mut Vec::new()) {
                    Some(compiled) => letter::Body::Inline(compiled),
                    None => return Ok(Err("its content cannot be rendered".to_owned())),
                }
            }
            (None, None) => return Ok(Err("it has neither a template nor a content".to_owned())),
        };
        let Some(lines) = letter::compile_other(&row.envelope.lines, &mut Vec::new()) else {
            return Ok(Err("its content cannot be rendered".to_owned()));
        };
        let ready = letter::Ready { body, lines };
        let whom = letter::addressee(row);
        let urls = (self.links.unsubscribe(&whom), self.links.preferences(&whom));
        let variables = ready.variables(cx, (to, &row.context), (&urls.0, &urls.1)).await?;
        let test = row.envelope.test;
        let variables = if test { ready.with_examples(variables) } else { variables };
        let rendered = ready.render(&variables).map_err(|error| error.to_string());
        Ok(rendered.map(|rendered| Text {
            subject: if test { format!("[Test] {}", rendered.subject) } else { rendered.subject },
            html: rendered.html.map(|html| letter::tracked(&html, row, &self.links)),
            text: rendered.text,
        }))
    }

    async fn version(
        &self,
        cx: &Cx,
        key: &str,
        version: i64,
    ) -> Result<Option<Arc<Stored>>, StorageError> {
        match key.parse::<TemplateKey>() {
            Ok(key) => self.templates.version(cx, &key, version).await,
            Err(_) => Ok(None),
        }
    }

    /// Those who get a copy. Who is suppressed gets none: nothing goes past a suppression.
    async fn copies(&self, cx: &Cx, row: &Sendable) -> Result<Copies, StorageError> {
        let mut copies = Copies::default();
        let lists = [(&row.envelope.cc, &mut copies.cc), (&row.envelope.bcc, &mut copies.bcc)];
        for (addresses, list) in lists {
            for address in addresses.iter().filter_map(|text| text.parse::<EmailAddress>().ok()) {
                let asked = COPY.question(row.client, address.clone());
                if let Verdict::Send = eligibility::check(cx, &asked).await?.verdict {
                    list.push(address);
                }
            }
        }
        Ok(copies)
    }
}
