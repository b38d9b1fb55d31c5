//! Trying a template: real mails to the few people who want to see it.
//!
//! They are messages like any other, so who must not be written to gets none. Their metadata and their subject say that
//! they are tests, and nothing in them is tracked.

use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx, Slug};
use tidings_kernel::EmailAddress;

use super::accept::wrong;
use super::{AcceptError, Accepted, Content, Messages, Send, Tracking};
use crate::templates::TemplateKey;

/// The most people who get a test at once.
pub const MAX_TEST: usize = 25;

#[derive(Debug, Clone)]
pub struct TestSend {
    pub client: ClientId,
    pub template: TemplateKey,
    /// Any that there is; the active one if left out.
    pub version: Option<i64>,
    /// Who comes twice gets one.
    pub to: Vec<EmailAddress>,
    /// Variables. The template's examples stand in for what neither this nor the person has.
    pub context: Map<String, Value>,
    pub sender: Option<Slug>,
    /// Makes it safe to ask again: each message gets this and its place.
    pub idempotency_key: Option<String>,
}

/// What became of the test to one person.
#[derive(Debug)]
pub struct Tested {
    pub to: EmailAddress,
    pub answer: Result<Accepted, AcceptError>,
}

impl Messages {
    /// Writes a message down for each address, in their order, each with an answer of its own.
    pub async fn test(&self, cx: &Cx, cmd: TestSend) -> Result<Vec<Tested>, AcceptError> {
        let mut to: Vec<EmailAddress> = Vec::new();
        for email in &cmd.to {
            if !to.contains(email) {
                to.push(email.clone());
            }
        }
        if !(1..=MAX_TEST).contains(&to.len()) {
            let message = format!("use 1 to {MAX_TEST} addresses");
            return Err(AcceptError::Invalid(vec![wrong("to", message)]));
        }
        let key = cmd.template.to_string();
        // What is not there is not there for anybody.
        self.stored(cx, &key, cmd.version).await?;
        let content = match cmd.version {
            None => Content::Template(key),
            Some(version) => Content::Version(key, version),
        };
        let sends = to.iter().enumerate().map(|(place, email)| Send {
            context: cmd.context.clone(),
            sender: cmd.sender.clone(),
            metadata: Map::from_iter([("test".to_owned(), true.into())]),
            idempotency_key: cmd.idempotency_key.as_ref().map(|key| format!("{key}:{place}")),
            tracking: Tracking::Off,
            test: true,
            ..Send::of(cmd.client, email.clone(), content.clone())
        });
        let answers = self.accept_all(cx, sends.collect()).await;
        Ok(to.into_iter().zip(answers).map(|(to, answer)| Tested { to, answer }).collect())
    }
}
