//! Replies passed on to the people who read them: as a message of the ledger, so that each goes out once.
//!
//! Only what a person wrote as an answer to a message of ours is passed on. What comes back from those who got it, or is
//! one of ours, is not: two machines would write to each other for ever.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_delivery::transactional::{
    AcceptError, Content, Disposition, MAX_PARTS, Messages, Part, PartBody, Send, Tracking,
};
use tidings_kernel::{EmailAddress, hex};
use tidings_mail::Attachment;
use tidings_mail::inbound::{self, FORWARD_HEADER, Inbound, Pieces};
use tidings_people::contacts::{self, ContactId, FORWARD_KEY};
use tidings_sql::{DatabaseError, Param, Tx};

use super::ReceiveError;
use super::settings::{self, PassOn};
use crate::events::RecordError;

/// Of what was written. Even if each character needs two in JSON, it fits into the context of a message.
const MAX_TEXT_BYTES: usize = 28 * 1024;
/// Of its subject.
const MAX_SUBJECT_CHARS: usize = 200;
/// Of its HTML. A longer one is not passed on, and the text is.
const MAX_HTML_BYTES: usize = 256 * 1024;
/// Of all files together, as base64: with the bodies they fit into a message.
const MAX_FILES_BYTES: usize = 1_200_000;

const SUBJECT: &str = "Fwd: {{ reply.subject }}";
const TEXT: &str = "{{ reply.from }} wrote:\n\n{{ reply.text }}\n{% if reply.without %}
Not passed on, because it is too much: {{ reply.without }}\n{% endif %}";
const BEFORE_HTML: &str = "<p>{{ reply.from }} wrote:</p>\n";
const AFTER_HTML: &str = "\n{% if reply.without %}<p>Not passed on, because it is too much: {{ reply.without }}</p>{% endif %}";

/// How replies are passed on.
#[derive(Clone)]
pub(super) struct Forwarding {
    pub(super) messages: Messages,
    /// To whom, where a workspace does not say.
    pub(super) default: Option<EmailAddress>,
}

/// What is passed on of a reply.
pub(super) struct Forward {
    to: EmailAddress,
    from: EmailAddress,
    subject: String,
    text: String,
    html: Option<String>,
    files: Vec<Part>,
    /// The names of the files that it has no room for.
    without: Vec<String>,
    /// What makes its key.
    id: String,
    answers: Message,
    /// The one whom the message was for wrote it.
    by_addressee: bool,
}

/// What must be known of the message that was answered, and of who answered.
struct Origin {
    /// It was a reply that was passed on, itself.
    is_forward: bool,
    /// The one that it was sent as, if the client still has it.
    sender: Option<Slug>,
    contact: Option<ContactId>,
}

impl Forwarding {
    /// What is to be passed on of this mail, if it is. `id` is the same for the same mail.
    pub(super) async fn of(
        &self,
        cx: &Cx,
        (mime, mail): (&[u8], &Inbound),
        answers: Option<&Message>,
        id: &str,
    ) -> Result<Option<Forward>, ReceiveError> {
        let Some(answers) = answers.cloned().filter(|_| !mail.auto_reply && !mail.forwarded) else {
            return Ok(None);
        };
        let to = match settings::show(cx).await? {
            PassOn::To(address) => Some(address),
            PassOn::Default => self.default.clone(),
            PassOn::Off => None,
        };
        let Some(to) = to.filter(|to| *to != mail.from) else { return Ok(None) };
        let addressee = answers.email.as_ref().and_then(|email| email.parse().ok());
        let one_line = |c: char| if c.is_control() { ' ' } else { c };
        let subject: String = mail.subject.chars().map(one_line).take(MAX_SUBJECT_CHARS).collect();
        let subject = subject.trim();
        let Pieces { html, files } = inbound::pieces(mime)?;
        let (files, without) = bounded(files);
        Ok(Some(Forward {
            to,
            from: mail.from.clone(),
            subject: if subject.is_empty() { "(no subject)" } else { subject }.to_owned(),
            text: cut(&mail.text),
            html: html.filter(|html| html.len() <= MAX_HTML_BYTES),
            files,
            without,
            id: id.to_owned(),
            by_addressee: addressee.as_ref() == Some(&mail.from),
            answers,
        }))
    }

    /// Writes it down to be sent. The same reply again is the same message.
    pub(super) async fn pass_on(&self, cx: &Cx, forward: Forward) -> Result<(), ReceiveError> {
        let (within, source) = (cx.clone(), forward.answers.source);
        let own = forward.by_addressee.then(|| ContactId::from(forward.answers.contact));
        let from = forward.from.clone();
        let look = cx.database().read(move |tx| origin(tx, &within, source, (own, &from)));
        let origin: Option<Origin> = look.await?;
        let Some(Origin { is_forward: false, sender, contact: Some(contact) }) = origin else {
            return Ok(());
        };
        let from = forward.from.clone();
        match self.messages.accept(cx, letter(forward, sender, contact)).await {
            // It was passed on before, when it was sent to somebody else or as somebody else.
            Ok(_) | Err(AcceptError::KeyReused(_)) => {}
            Err(AcceptError::InFlight) => return Err(RecordError::Busy.into()),
            Err(AcceptError::Store(error)) => return Err(error.into()),
            Err(
                error @ (AcceptError::Invalid(_)
                | AcceptError::NoTemplate(_)
                | AcceptError::NoVersion(..)
                | AcceptError::BatchSize),
            ) => {
                // The reply is recorded; trying again would not help until somebody mends it.
                tracing::warn!(message.id = source.id(), %error, "A reply could not be passed on");
            }
        }
        // An erasure may have come between the event and this.
        if is_erased(cx, contact).await? {
            contacts::erase(cx, &from).await?;
        }
        Ok(())
    }
}

fn letter(forward: Forward, sender: Option<Slug>, contact: ContactId) -> Send {
    let Forward { to, from, subject, text, html, files, without, id, answers, .. } = forward;
    let (client, source) = (ClientId::from(answers.client), answers.source.reference());
    let content = Content::Inline {
        subject: SUBJECT.to_owned(),
        html: html.as_deref().map(as_it_is),
        text: Some(TEXT.to_owned()),
    };
    let mut send = Send::of(client, to, content);
    send.parts = files;
    // What others wrote is never a template.
    let without = Some(without.join(", ")).filter(|names| !names.is_empty());
    let reply =
        json!({ "from": from.as_str(), "subject": subject, "text": text, "without": without });
    send.context.insert("reply".to_owned(), reply);
    send.metadata.insert("reply_to_message".to_owned(), source.into());
    send.metadata.insert("contact_id".to_owned(), contact.get().into());
    send.headers.insert(FORWARD_HEADER.to_owned(), "reply".to_owned());
    let hash = hex(&Sha256::digest(id.as_bytes()));
    send.idempotency_key = Some(format!("{FORWARD_KEY}{contact}:{hash}"));
    send.tracking = Tracking::Off;
    send.sender = sender;
    // By it an erasure finds the message.
    send.reply_to = Some(from);
    send
}

fn origin(
    tx: &mut Tx<'_>,
    cx: &Cx,
    source: Source,
    (own, from): (Option<ContactId>, &EmailAddress),
) -> Result<Option<Origin>, DatabaseError> {
    let sql = match source {
        Source::Transactional(_) => {
            "SELECT m.idempotency_key, (SELECT min(s.slug) FROM senders s
                 WHERE s.workspace_id = m.workspace_id AND s.client_id = m.client_id AND s.from_email = m.from_email)
             FROM transactional_messages m WHERE m.workspace_id = $1 AND m.id = $2"
        }
        Source::Recipient(_) => {
            "SELECT '', (SELECT min(s.slug) FROM senders s
                 WHERE s.workspace_id = c.workspace_id AND s.client_id = c.client_id
                   AND (s.slug = c.sender_slug OR (c.sender_slug IS NULL AND s.from_email = c.from_email)))
             FROM campaign_recipients m
             JOIN campaigns c ON c.workspace_id = m.workspace_id AND c.id = m.campaign_id
             WHERE m.workspace_id = $1 AND m.id = $2"
        }
    };
    let workspace = Param::Int(cx.workspace_id().get());
    let rows = tx.query(sql, &[workspace, Param::Int(source.id())])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let sender = match row.optional_text(1)? {
        Some(_) => Some(row.parsed(1, "a slug")?),
        None => None,
    };
    let contact = match own {
        Some(own) => Some(own),
        None => {
            let sql = "SELECT lead_id FROM channel_identities
                       WHERE workspace_id = $1 AND channel = 'email' AND value = $2";
            let rows = tx.query(sql, &[workspace, Param::Text(from.as_str())])?;
            rows.first().map(|row| row.int(0).map(ContactId::from)).transpose()?
        }
    };
    Ok(Some(Origin { is_forward: row.text(0)?.starts_with(FORWARD_KEY), sender, contact }))
}

async fn is_erased(cx: &Cx, contact: ContactId) -> Result<bool, StorageError> {
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| {
        let sql =
            "SELECT id FROM leads WHERE workspace_id = $1 AND id = $2 AND erased_at IS NOT NULL";
        let params = [Param::Int(workspace), Param::Int(contact.get())];
        tx.query(sql, &params).map(|rows| !rows.is_empty())
    });
    let erased: Result<bool, DatabaseError> = read.await;
    Ok(erased?)
}

/// HTML is too much for the context, so it stands in the template, where nothing in it is read as one: the word that would end
/// that is written otherwise.
fn as_it_is(html: &str) -> String {
    let html = html.replace("endraw", "end&#114;aw");
    format!("{BEFORE_HTML}{{% raw %}}{html}{{% endraw %}}{AFTER_HTML}")
}

/// As many files as a message can carry, in their order, and the names of the others.
fn bounded(files: Vec<Attachment>) -> (Vec<Part>, Vec<String>) {
    let (mut taken, mut without, mut bytes) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let tidings_mail::Content::Bytes(content) = &file.content else { continue };
        let needs = content.len().div_ceil(3) * 4;
        if taken.len() >= MAX_PARTS || bytes + needs > MAX_FILES_BYTES {
            // A few names say enough.
            if without.len() < MAX_PARTS {
                without.extend(file.filename);
            }
            continue;
        }
        bytes += needs;
        taken.push(Part {
            content_type: file.content_type,
            filename: file.filename,
            disposition: Disposition::Attachment,
            body: PartBody::Base64(BASE64_STANDARD.encode(content)),
        });
    }
    (taken, without)
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    format!("{}\n\n[…]", &text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
}
