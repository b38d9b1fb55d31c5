//! How a mail would look. Nothing is written, and nobody gets anything.

use serde_json::{Map, Value};
use tidings_access::{Cx, StorageError};
use tidings_kernel::EmailAddress;
use tidings_templates::{RenderError, Rendered};

use super::key::TemplateKey;
use super::read::{Pick, find};
use super::variables::{Recipient, missing, variables_for};

/// Where links lead that only a real mail has.
const UNSUBSCRIBE: &str = "https://example.com/unsubscribe";
const PREFERENCES: &str = "https://example.com/preferences";

#[derive(Debug, Clone)]
pub struct Preview {
    pub template: Which,
    /// Whose profile is used; examples alone if nobody's.
    pub as_contact: Option<EmailAddress>,
    /// What a message would give.
    pub variables: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub struct Which {
    pub key: TemplateKey,
    pub pick: Pick,
}

#[derive(Debug, Clone)]
pub struct Previewed {
    pub version: i64,
    pub rendered: Rendered,
    /// Required variables that nobody gave: a message like this would be refused.
    pub missing: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error("there is no template {0}, or not this version of it")]
    Missing(TemplateKey),
    #[error("the template cannot be rendered with these variables: {0}")]
    Render(#[from] RenderError),
    #[error("the template could not be loaded")]
    Store(#[from] StorageError),
}

pub async fn preview(cx: &Cx, cmd: Preview) -> Result<Previewed, PreviewError> {
    let Preview { template: Which { key, pick }, as_contact, variables } = cmd;
    let found = find(cx, &key, pick).await?;
    let Some((_, _, stored)) = found else { return Err(PreviewError::Missing(key)) };
    let somebody = "ada@example.com".parse::<EmailAddress>();
    let email = as_contact.or(somebody.ok());
    let mut given = variables.clone();
    if let Some(email) = &email {
        let recipient = Recipient {
            email,
            context: &variables,
            unsubscribe_url: Some(UNSUBSCRIBE),
            preferences_url: Some(PREFERENCES),
        };
        given = variables_for(cx, &stored, &recipient).await?;
    }
    // Examples stand in for what is absent, but a real message would lack it.
    let missing = missing(&stored, &given);
    let mut all = stored.content.examples.clone();
    all.extend(given);
    let rendered = stored.render(&all)?;
    let warnings = rendered.warnings().iter().map(ToString::to_string).collect();
    Ok(Previewed { version: stored.version, rendered, missing, warnings })
}
