//! What every message of an installation gets before it leaves: the address that bounces go to, and the signature.

use std::sync::Arc;

use async_trait::async_trait;
use tidings_kernel::{Accepted, EmailAddress, Mail, SendError, Sender};

use crate::dkim::DkimKeys;

/// A sender that adds them and hands the message on.
pub struct Franked {
    pub sender: Arc<dyn Sender>,
    /// Where bounces go instead of to the letter's sender.
    pub return_path: Option<EmailAddress>,
    pub dkim: DkimKeys,
}

#[async_trait]
impl Sender for Franked {
    fn name(&self) -> &'static str {
        self.sender.name()
    }

    fn at_once(&self) -> Option<usize> {
        self.sender.at_once()
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        // Until now the envelope's sender is the letter's own.
        let key = self.dkim.of(&mail.from);
        if key.is_none() && self.return_path.is_none() {
            return self.sender.send(mail).await;
        }
        let mime = match key {
            Some(dkim) => {
                // Nothing is wrong with the message: the same would happen to every other one.
                dkim.sign(&mail.mime).map_err(|error| SendError::Closed(error.to_string()))?
            }
            None => mail.mime.clone(),
        };
        let from = self.return_path.clone().unwrap_or_else(|| mail.from.clone());
        let (to, tags) = (mail.to.clone(), mail.tags.clone());
        self.sender.send(&Mail { from, mime, to, tags, lane: mail.lane }).await
    }
}
