//! What callers send to have a message sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::{ClientId, Slug};
use tidings_delivery::transactional::{
    Calendar, Content, Disposition, MAX_BATCH, Part, PartBody, Send, Settled, Tracking,
};
use tidings_kernel::EmailAddress;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::v1::input::{Fields, FromFields};

#[derive(ToSchema)]
pub(crate) struct NewMessage {
    #[schema(value_type = String, format = Email, example = "ada@example.org", max_length = 254)]
    to: EmailAddress,
    /// The key of a stored template; either this, or a subject and a body
    #[schema(example = "password-reset", max_length = 255)]
    template: Option<String>,
    /// Liquid, like the bodies: what is not your own text belongs into `context`
    #[schema(max_length = 998)]
    subject: Option<String>,
    html: Option<String>,
    /// Made from the HTML if left out
    text: Option<String>,
    /// Variables: up to 64 KB, and 8 deep
    #[schema(value_type = Option<Object>)]
    context: Map<String, Value>,
    /// One of the client's senders; the template's or the client's default if left out
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    sender: Option<Slug>,
    #[schema(value_type = Option<String>, format = Email)]
    reply_to: Option<EmailAddress>,
    #[schema(value_type = Option<Vec<String>>, max_items = 10)]
    cc: Vec<EmailAddress>,
    #[schema(value_type = Option<Vec<String>>, max_items = 10)]
    bcc: Vec<EmailAddress>,
    /// Up to 20 headers of your own
    #[schema(value_type = Option<Object>)]
    headers: BTreeMap<String, String>,
    /// Attachments
    #[schema(value_type = Option<Vec<NewPart>>, max_items = 10)]
    parts: Vec<NewPart>,
    /// An invitation, which mail programs show as such
    #[schema(value_type = Option<NewCalendar>)]
    calendar: Option<Calendar>,
    /// With a topic, whoever has switched it off does not get the message
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    topic: Option<Slug>,
    /// Your own notes, which come back with the message: up to 16 KB
    #[schema(value_type = Option<Object>)]
    metadata: Map<String, Value>,
    /// Within a year; now if left out or past
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    /// As the header Idempotency-Key
    #[schema(max_length = 255)]
    pub(crate) idempotency_key: Option<String>,
    /// `off`: links stay as they are, and there is no pixel
    #[schema(value_type = Option<String>, pattern = "^(on|off)$")]
    tracking: Tracking,
}

#[derive(ToSchema)]
#[schema(as = MessagePart)]
pub(crate) struct NewPart {
    #[schema(example = "text/calendar; method=REQUEST", max_length = 200)]
    content_type: String,
    #[schema(example = "invite.ics", max_length = 255)]
    filename: Option<String>,
    #[schema(value_type = Option<String>, pattern = "^(attachment|inline)$")]
    disposition: Disposition,
    /// The content of a text/… part; either this or `base64`
    #[schema(max_length = 200_000)]
    text: Option<String>,
    base64: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = MessageCalendar)]
#[expect(dead_code, reason = "it describes what `calendar` reads")]
pub(crate) struct NewCalendar {
    #[schema(pattern = "^(REQUEST|CANCEL|PUBLISH|REPLY)$")]
    method: String,
    /// iCalendar
    #[schema(max_length = 200_000, example = "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n")]
    ics: String,
}

#[derive(ToSchema)]
#[schema(as = MessageBatch)]
pub(crate) struct Batch {
    #[schema(value_type = Vec<NewMessage>, min_items = 1, max_items = 100)]
    pub(crate) messages: Vec<Result<NewMessage, Problem>>,
}

#[derive(ToSchema)]
pub(crate) struct NewSettlement {
    /// What became of it, or `resend` to have it sent once more
    #[schema(value_type = String, pattern = "^(sent|failed|resend)$")]
    outcome: String,
    /// How that is known
    #[schema(max_length = 500)]
    pub(crate) reason: Option<String>,
}

impl NewMessage {
    pub(crate) fn into_send(self, client: ClientId, idempotency_key: Option<String>) -> Send {
        let content = match self.template {
            Some(key) => Content::Template(key),
            None => Content::Inline {
                subject: self.subject.unwrap_or_default(),
                html: self.html,
                text: self.text,
            },
        };
        Send {
            context: self.context,
            sender: self.sender,
            reply_to: self.reply_to,
            cc: self.cc,
            bcc: self.bcc,
            headers: self.headers,
            parts: self.parts.into_iter().map(Part::from).collect(),
            calendar: self.calendar,
            topic: self.topic,
            metadata: self.metadata,
            scheduled_at: self.scheduled_at,
            idempotency_key,
            tracking: self.tracking,
            ..Send::of(client, self.to, content)
        }
    }
}

impl NewSettlement {
    pub(crate) fn outcome(&self) -> Settled {
        match self.outcome.as_str() {
            "sent" => Settled::Sent,
            "resend" => Settled::Resend,
            _ => Settled::Failed,
        }
    }
}

impl From<NewPart> for Part {
    fn from(new: NewPart) -> Self {
        Self {
            content_type: new.content_type,
            filename: new.filename,
            disposition: new.disposition,
            body: match (new.base64, new.text) {
                (Some(base64), _) => PartBody::Base64(base64),
                (None, text) => PartBody::Text(text.unwrap_or_default()),
            },
        }
    }
}

/// Any text; the feature says what is wrong with it.
struct Text(String);

impl FromStr for Text {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

fn text(fields: &mut Fields, name: &'static str) -> Option<Option<String>> {
    Some(fields.optional::<Text>(name)?.map(|text| text.0))
}

/// One of a few words.
fn word<T: Copy>(
    fields: &mut Fields,
    name: &'static str,
    words: &[(&str, T)],
) -> Option<Option<T>> {
    let Some(text) = text(fields, name)? else { return Some(None) };
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, value)) => Some(Some(*value)),
        None => {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let (last, rest) = words.split_last()?;
            fields.wrong(name, format_args!("use {} or {last}", rest.join(", ")))
        }
    }
}

impl FromFields for NewMessage {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (to, template) = (fields.required("to"), text(fields, "template"));
        let (subject, html, plain) =
            (text(fields, "subject"), text(fields, "html"), text(fields, "text"));
        let (context, metadata) =
            (fields.optional_object("context"), fields.optional_object("metadata"));
        let (sender, topic) = (fields.optional("sender"), fields.optional("topic"));
        let reply_to = fields.optional("reply_to");
        let (cc, bcc) = (fields.optional_list("cc"), fields.optional_list("bcc"));
        let (headers, parts) = (headers(fields), fields.optional_objects("parts"));
        let calendar = calendar(fields);
        let scheduled_at = fields.optional_time("scheduled_at");
        let idempotency_key = text(fields, "idempotency_key");
        let tracking = word(fields, "tracking", &[("on", Tracking::On), ("off", Tracking::Off)]);
        if let (Some(Some(_)), Some(subject), Some(html), Some(plain)) =
            (&template, &subject, &html, &plain)
            && (subject.is_some() || html.is_some() || plain.is_some())
        {
            fields.wrong::<()>("template", "use either a template, or a subject and a body");
        }
        Some(Self {
            to: to?,
            template: template?,
            subject: subject?,
            html: html?,
            text: plain?,
            context: context?.unwrap_or_default(),
            sender: sender?,
            reply_to: reply_to?,
            cc: cc?.unwrap_or_default(),
            bcc: bcc?.unwrap_or_default(),
            headers: headers?,
            parts: parts?.unwrap_or_default(),
            calendar: calendar?,
            topic: topic?,
            metadata: metadata?.unwrap_or_default(),
            scheduled_at: scheduled_at?,
            idempotency_key: idempotency_key?,
            tracking: tracking?.unwrap_or_default(),
        })
    }
}

fn headers(fields: &mut Fields) -> Option<BTreeMap<String, String>> {
    let object = fields.optional_object("headers")?.unwrap_or_default();
    let mut headers = BTreeMap::new();
    for (name, value) in object {
        match value {
            Value::String(value) => drop(headers.insert(name, value)),
            _ => fields.wrong(&format!("headers.{name}"), "use a text")?,
        }
    }
    Some(headers)
}

fn calendar(fields: &mut Fields) -> Option<Option<Calendar>> {
    let Some(mut object) = fields.optional_object("calendar")? else { return Some(None) };
    let mut texts = ["method", "ics"].map(|name| match object.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => fields.wrong(&format!("calendar.{name}"), "use a text"),
    });
    if let Some(other) = object.keys().next() {
        let field = format!("calendar.{other}");
        return fields.wrong(&field, "there is no such field; there are method, ics");
    }
    let [method, ics] = &mut texts;
    Some(Some(Calendar { method: method.take()?, ics: ics.take()? }))
}

impl FromFields for NewPart {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let content_type = fields.required::<Text>("content_type");
        let filename = text(fields, "filename");
        let kinds = [("attachment", Disposition::Attachment), ("inline", Disposition::Inline)];
        let disposition = word(fields, "disposition", &kinds);
        let (plain, base64) = (text(fields, "text")?, text(fields, "base64")?);
        if plain.is_some() == base64.is_some() {
            return fields.wrong("text", either("text", "base64"));
        }
        Some(Self {
            content_type: content_type?.0,
            filename: filename?,
            disposition: disposition?.unwrap_or_default(),
            text: plain,
            base64,
        })
    }
}

fn either(one: &str, other: &str) -> impl Display {
    format!("use either {one} or {other}")
}

impl FromFields for Batch {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let messages = match fields.value("messages") {
            Some(Value::Array(values)) if (1..=MAX_BATCH).contains(&values.len()) => values,
            _ => return fields.wrong("messages", format_args!("use 1 to {MAX_BATCH} messages")),
        };
        let read = |value| match value {
            Value::Object(fields) => Fields::read(fields),
            _ => Err(Problem::invalid(vec![crate::problem::Violation {
                field: String::new(),
                message: "use an object".to_owned(),
            }])),
        };
        Some(Self { messages: messages.into_iter().map(read).collect() })
    }
}

impl FromFields for NewSettlement {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let outcome = word(
            fields,
            "outcome",
            &[("sent", "sent"), ("failed", "failed"), ("resend", "resend")],
        )?;
        let reason = text(fields, "reason");
        match outcome {
            Some(outcome) => Some(Self { outcome: outcome.to_owned(), reason: reason? }),
            None => fields.wrong("outcome", "this is required"),
        }
    }
}
