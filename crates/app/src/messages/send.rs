//! `tidings messages send` and `dry-run`: a message from what stands on the command line and in files.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_access::{Cx, Slug};
use tidings_delivery::eligibility::Verdict;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{
    self, AcceptError, Content, Disposition, Messages, Part, PartBody, Send, Tracking,
};
use tidings_kernel::EmailAddress;

use super::shown::AcceptedShown;
use super::the_client;
use crate::failure::Failure;
use crate::open::Open;

/// No file that is attached is larger; what a message may hold in all is checked with the message.
const MAX_FILE: u64 = 25 << 20;

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// To whom
    to: EmailAddress,
    /// The client that sends
    #[arg(long)]
    client: Slug,
    /// The key of a stored template
    #[arg(long, required_unless_present = "subject", conflicts_with_all = ["subject", "html", "text"])]
    template: Option<String>,
    /// The subject, as Liquid
    #[arg(long)]
    subject: Option<String>,
    /// The HTML body, as Liquid
    #[arg(long)]
    html: Option<String>,
    /// The text body, as Liquid
    #[arg(long)]
    text: Option<String>,
    /// Variables, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    context: Option<Map<String, Value>>,
    /// One of the client's senders [default: the template's, or the client's default]
    #[arg(long)]
    sender: Option<Slug>,
    /// Where answers go
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Option<EmailAddress>,
    /// Somebody who gets a copy; may be given more than once, like the next three
    #[arg(long, value_name = "ADDRESS")]
    cc: Vec<EmailAddress>,
    /// Somebody who gets a copy that the others do not see
    #[arg(long, value_name = "ADDRESS")]
    bcc: Vec<EmailAddress>,
    /// A header of your own
    #[arg(long, value_name = "NAME: TEXT", value_parser = header)]
    header: Vec<(String, String)>,
    /// A file that goes along
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Whoever has switched this topic off does not get it
    #[arg(long)]
    topic: Option<Slug>,
    /// Your own notes, as a JSON object: they come back with the message
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Map<String, Value>>,
    /// Sending again with the same key changes nothing
    #[arg(long)]
    key: Option<String>,
    /// When, within a year [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Leave links as they are, and add no pixel
    #[arg(long)]
    no_tracking: bool,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|_| "use a JSON object such as {\"name\":\"Ada\"}".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, said) = text.split_once(':').ok_or("use a name and a text such as 'X-Order: 17'")?;
    Ok((name.trim().to_owned(), said.trim().to_owned()))
}

pub(super) async fn send(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    let send = asked(cx, args).await?;
    let accepted = Messages::new(Templates::default()).accept(cx, send).await;
    open.print(&AcceptedShown::from(accepted.map_err(not_accepted)?))
}

pub(super) async fn dry_run(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    // Whether its key was used before says nothing of the mail.
    let send = Send { idempotency_key: None, ..asked(cx, args).await? };
    let made = Messages::new(Templates::default()).dry_run(cx, &send).await;
    let made = made.map_err(not_accepted)?;
    open.print(&json!({
        "would_deliver": made.would_deliver(),
        "reason": reason(&made.decision.verdict),
        "from_email": made.from_email,
        "from_name": made.from_name,
        "reply_to": made.reply_to,
        "template_version": made.template_version,
        "subject": made.rendered.subject,
        "html": made.rendered.html,
        "text": made.rendered.text,
    }))
}

/// Why it would not go out now.
fn reason(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Send => None,
        Verdict::Skip(reason) => Some(reason.as_str()),
        Verdict::Defer { reason, .. } => Some(reason.as_str()),
    }
}

async fn asked(cx: &Cx, args: SendArgs) -> Result<Send, Failure> {
    if let Some(key) = &args.key {
        transactional::check_key(key).map_err(|wrong| Failure::usage(wrong.message))?;
    }
    let parts = args.attach.iter().map(|path| attached(path)).collect::<Result<_, _>>()?;
    let client = the_client(cx, args.client).await?;
    let content = match args.template {
        Some(key) => Content::Template(key),
        None => Content::Inline {
            subject: args.subject.unwrap_or_default(),
            html: args.html,
            text: args.text,
        },
    };
    Ok(Send {
        context: args.context.unwrap_or_default(),
        sender: args.sender,
        reply_to: args.reply_to,
        cc: args.cc,
        bcc: args.bcc,
        headers: args.header.into_iter().collect(),
        parts,
        topic: args.topic,
        metadata: args.metadata.unwrap_or_default(),
        idempotency_key: args.key,
        scheduled_at: args.at,
        tracking: if args.no_tracking { Tracking::Off } else { Tracking::On },
        ..Send::of(client, args.to, content)
    })
}

fn attached(path: &Path) -> Result<Part, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .with_context(|| format!("{} could not be read", path.display()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::usage(format!("{} is too large to be attached", path.display())));
    }
    Ok(Part {
        content_type: content_type(path).to_owned(),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        disposition: Disposition::Attachment,
        body: PartBody::Base64(STANDARD.encode(bytes)),
    })
}

/// What mail programs open by a click; the rest is bytes.
fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "csv" => "text/csv",
        "gif" => "image/gif",
        "htm" | "html" => "text/html",
        "jpeg" | "jpg" => "image/jpeg",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

fn not_accepted(error: AcceptError) -> Failure {
    match error {
        AcceptError::Invalid(_)
        | AcceptError::NoTemplate(_)
        | AcceptError::NoVersion(..)
        | AcceptError::KeyReused(_)
        | AcceptError::InFlight
        | AcceptError::BatchSize => Failure::from(error)
            .hint("`tidings senders list` and `tidings templates list` show what there is"),
        AcceptError::Store(error) => error.into(),
    }
}
