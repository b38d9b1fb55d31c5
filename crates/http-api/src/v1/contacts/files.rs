//! `/v1/contacts/import` and `/export`: many people at once, streamed.

use std::io::{self, Read};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tidings_access::Slug;
use tidings_delivery::confirmation;
use tidings_people::contacts::Tag;
use tidings_people::export::{Export, Format};
use tidings_people::import::{
    self, Assignment, Confirmation, Counts, Event, Fault, ImportError, Settings,
};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::bodies::Wanted;
use super::progress;
use crate::InTime;
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Manage, Needs, Read as ReadScope, Refusals};
use crate::v1::input::{Fields, FromFields, Params};
use crate::v1::subscriptions::wrong;

/// So many lines that were left out are told.
const TOLD: usize = 1_000;
/// So many tags, or columns that are said to be something.
const MAX_SEVERAL: usize = 100;
/// So many pieces of the body wait to be read.
const AHEAD: usize = 16;

pub(in crate::v1) struct Imported {
    settings: Settings,
    confirmed: bool,
    dry_run: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Import)]
pub(in crate::v1) struct ImportBody {
    /// Whether nothing was written
    dry_run: bool,
    lines: u64,
    new: u64,
    updated: u64,
    unchanged: u64,
    /// Left out
    invalid: u64,
    /// Of the lines: must not be written to
    suppressed: u64,
    /// Of the lines: unsubscribed from everything
    unsubscribed: u64,
    /// Of the lines: newly subscribed to the audience
    subscribed: u64,
    /// Of those: a mail asks to confirm it
    asked: u64,
    columns: Vec<ColumnBody>,
    /// The first 1,000 lines that were left out
    errors: Vec<LineBody>,
    /// How many more were left out than are told
    errors_left_out: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportColumn)]
pub(super) struct ColumnBody {
    #[schema(example = "E-Mail")]
    column: String,
    #[schema(example = "email")]
    field: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportError)]
pub(super) struct LineBody {
    line: u64,
    column: String,
    reason: String,
}

/// Take in a CSV file
///
/// UTF-8, with the names of the columns in the first line; comma, semicolon or tab between. What the file says is added to
/// what is known: an empty cell clears nothing, and nothing in it takes back an unsubscription or a suppression. Sending it
/// again changes nothing, so an import that was interrupted is sent again. With `Accept: application/x-ndjson` it is told
/// while it goes on, a line of JSON at a time: every line of the file that is left out, how far it is, and the end; read
/// while you send. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contacts/import",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("dry_run" = Option<bool>, Query, description = "Only say what would be done"),
        ("map" = Option<String>, Query, description = "What columns are, if their names do not say it: `Column=field`, with `;` between. A field is email, first_name, timezone, tags, unsubscribed, suppressed, attributes, attribute:name or ignore", max_length = 10_000),
        ("tags" = Option<String>, Query, description = "Tags for everybody, with `,` between", max_length = 3_000),
        ("audience" = Option<String>, Query, description = "Subscribe whoever has no subscription to this audience (its slug) yet; needs `source`", max_length = 40),
        ("confirmed" = Option<bool>, Query, description = "They have confirmed it elsewhere, as `source` says: nobody is asked, even if the audience wants confirmations"),
        ("source" = Option<String>, Query, description = "Where the people come from and by what right they are written to; kept as proof", min_length = 1, max_length = 200)
    ),
    request_body(content = String, content_type = "text/csv", example = "email,first name,plan\nada@example.org,Ada,pro\n"),
    responses(
        (status = 200, description = "How the lines ended", content(
            (ImportBody = "application/json"),
            (progress::Told = "application/x-ndjson")
        )),
        (status = 415, description = "It is not CSV", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query or the file is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn take(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Params(Imported { mut settings, confirmed, dry_run }): Params<Imported>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    check_kind(&head.headers)?;
    let cx = v1.cx(&who);
    settings.confirmation = match confirmed {
        true => Confirmation::Given,
        false => Confirmation::Ask(Some(who.caller().client_id)),
    };
    if let (false, Some(audience)) = (confirmed, settings.audience.clone()) {
        // Else many would wait for a mail that never comes.
        confirmation::asks(&cx, audience).await?.map_err(|reason| wrong("audience", &reason))?;
    }
    if progress::is_wanted(&head.headers) {
        let limit = head.extensions.get::<InTime>().map_or(Duration::MAX, |limit| limit.0);
        return progress::answer(cx, (settings, dry_run), body, limit).await;
    }
    let (mut columns, mut errors) = (Vec::new(), Vec::new());
    let tell = |event: Event<'_>| match event {
        Event::Mapped(mapping) => columns = mapping.columns().iter().map(shown).collect(),
        Event::Left(fault) if errors.len() < TOLD => errors.push(LineBody::from(fault)),
        Event::Left(_) | Event::Progress(_) => {}
    };
    let (file, feed) = as_file(body);
    let counts = match dry_run {
        true => tokio::join!(import::preview(&cx, file, settings, tell), feed).0?,
        false => tokio::join!(import::run(&cx, file, settings, tell), feed).0?,
    };
    Ok(Json(ImportBody::new(dry_run, counts, columns, errors)).into_response())
}

/// How a column is understood.
pub(super) fn shown((column, field): &(String, import::Field)) -> ColumnBody {
    ColumnBody { column: column.clone(), field: field.to_string() }
}

/// Give out contacts as a file
///
/// The CSV can be imported again. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/export",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("format" = Option<String>, Query, description = "`csv` (default) or `jsonl`", pattern = "^(csv|jsonl)$"),
        ("status" = Option<String>, Query, description = "`all` (default), `active`, `unsubscribed` or `suppressed`", pattern = "^(all|active|unsubscribed|suppressed)$"),
        ("tag" = Option<String>, Query, description = "Who has this tag", pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"),
        ("attribute" = Option<String>, Query, description = "The name of an attribute, together with `value`", max_length = 64),
        ("value" = Option<String>, Query, description = "What the attribute is", max_length = 1000),
        ("audience" = Option<String>, Query, description = "Who is subscribed to this audience (its slug)", max_length = 40)
    ),
    responses(
        (status = 200, description = "The file, piece by piece", content((String = "text/csv"), (String = "application/jsonl"))),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn give(
    State(v1): State<V1>,
    who: Needs<ReadScope>,
    Params(Exported { wanted, format }): Params<Exported>,
) -> Result<impl IntoResponse, Problem> {
    let mut export = Export::new(v1.cx(&who), wanted.filter, format);
    // The first piece tells whether there is such a file at all; later it is too late to say no.
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::unfold(export, |mut export| async move {
        let next = export.next().await.transpose()?;
        Some((next.map(Bytes::from), export))
    });
    let pieces = stream::once(async { Ok(Bytes::from(first)) }).chain(rest);
    Ok(([(header::CONTENT_TYPE, format.content_type())], Body::from_stream(pieces)))
}

pub(in crate::v1) struct Exported {
    wanted: Wanted,
    format: Format,
}

impl FromFields for Exported {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let format = fields.optional("format");
        let wanted = Wanted::from_fields(fields);
        Some(Self { format: format?.unwrap_or_default(), wanted: wanted? })
    }
}

impl FromFields for Imported {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let dry_run = fields.optional::<bool>("dry_run");
        let confirmed = fields.optional::<bool>("confirmed");
        let assignments = fields.optional::<Several<Assignment, ';'>>("map");
        let tags = fields.optional::<Several<Tag, ','>>("tags");
        let audience = fields.optional::<Slug>("audience");
        let source = fields.optional::<String>("source");
        let (audience, source) = (audience?, source?);
        if audience.is_some() && source.is_none() {
            return fields.wrong("source", "this is required with audience");
        }
        if source.as_ref().is_some_and(|text| !(1..=200).contains(&text.chars().count())) {
            return fields.wrong("source", "use 1 to 200 characters");
        }
        let settings = Settings {
            assignments: assignments?.map_or_else(Vec::new, |several| several.0),
            tags: tags?.map_or_else(Vec::new, |several| several.0).into_iter().collect(),
            audience,
            source: source.unwrap_or_else(|| "import".to_owned()),
            confirmation: Confirmation::default(),
        };
        let (confirmed, dry_run) = (confirmed?.unwrap_or(false), dry_run?.unwrap_or(false));
        Some(Self { settings, confirmed, dry_run })
    }
}

/// Several things in one text.
struct Several<T, const BETWEEN: char>(Vec<T>);

impl<T: std::str::FromStr, const BETWEEN: char> std::str::FromStr for Several<T, BETWEEN>
where
    T::Err: std::fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split(BETWEEN).map(str::trim).filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.take(MAX_SEVERAL + 1).collect();
        if parts.len() > MAX_SEVERAL {
            return Err(format!("use at most {MAX_SEVERAL}"));
        }
        let read = |part: &&str| part.parse().map_err(|error: T::Err| error.to_string());
        parts.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("text/csv") {
        return Ok(());
    }
    let detail = "send CSV, with Content-Type: text/csv";
    Err(Problem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The body for a thread that reads, and what feeds it: both must run at the same time.
pub(super) fn as_file(body: Body) -> (Pieces, impl Future<Output = ()>) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let mut body = body.into_data_stream();
    let feed = async move {
        while let Some(piece) = body.next().await {
            // Whoever reads no more has seen enough.
            if sender.send(piece.map_err(io::Error::other)).await.is_err() {
                return;
            }
        }
    };
    (Pieces { receiver, current: Bytes::new() }, feed)
}

pub(super) struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.current = piece?,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len());
        buffer[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

impl ImportBody {
    fn new(dry_run: bool, counts: Counts, columns: Vec<ColumnBody>, errors: Vec<LineBody>) -> Self {
        let Counts {
            lines,
            new,
            updated,
            unchanged,
            invalid,
            suppressed,
            unsubscribed,
            subscribed,
            asked,
        } = counts;
        Self {
            dry_run,
            lines,
            new,
            updated,
            unchanged,
            invalid,
            suppressed,
            unsubscribed,
            subscribed,
            asked,
            errors_left_out: invalid.saturating_sub(errors.len() as u64),
            columns,
            errors,
        }
    }
}

impl From<&Fault> for LineBody {
    fn from(fault: &Fault) -> Self {
        let Fault { line, column, reason } = fault.clone();
        Self { line, column, reason }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::File(_) | ImportError::NoAudience(_) => {
                Self::from_status(StatusCode::UNPROCESSABLE_ENTITY, error)
            }
            ImportError::Store { source, .. } => source.into(),
        }
    }
}
