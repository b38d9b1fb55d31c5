//! `tidings contacts import` and `export`: many people at once, as files.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use tidings_access::{Cx, Slug};
use tidings_delivery::confirmation;
use tidings_people::contacts::{Filter, Tag};
use tidings_people::export::{Export, Format};
use tidings_people::import::{
    self, Assignment, Confirmation, Counts, Event, ImportError, Settings,
};

use crate::consent::{an_only_client, the_client};
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

/// Said about every so many lines.
const SAID: u64 = 50_000;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file: CSV in UTF-8 whose first line names the columns; `-` is stdin
    file: PathBuf,
    /// What a column is, if its name does not say it: email, first_name, timezone, tags, unsubscribed, suppressed,
    /// attributes, attribute:NAME or ignore
    #[arg(long = "map", value_name = "COLUMN=FIELD")]
    assignments: Vec<Assignment>,
    /// A tag for everybody in the file
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Tag>,
    /// Subscribe whoever has no subscription to this audience yet
    #[arg(long, value_name = "SLUG", requires = "source")]
    audience: Option<Slug>,
    /// Where the people come from and by what right they are written to; kept as proof
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// They have confirmed it elsewhere, as --source says: nobody is asked, even if the audience wants confirmations
    #[arg(long, requires = "audience")]
    confirmed: bool,
    /// The client that asks for the confirmations that an audience wants; without it the only one that there is
    #[arg(long, value_name = "CLIENT", requires = "audience", conflicts_with = "confirmed")]
    confirm_as: Option<Slug>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Write the lines that were left out here, with the reasons
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// csv or jsonl
    #[arg(long, default_value = "csv")]
    format: Format,
    #[command(flatten)]
    pub(super) who: super::contacts::ListArgs,
}

pub(super) async fn import(args: ImportArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let file = source_of(&args.file)?;
    let mut report = Report::new(args.errors.as_deref())?;
    let confirmation = match (args.confirmed, &args.audience) {
        (true, _) => Confirmation::Given,
        (false, Some(audience)) => asked_by(cx, audience, args.confirm_as).await?,
        (false, None) => Confirmation::default(),
    };
    let settings = Settings {
        assignments: args.assignments,
        tags: args.tags.into_iter().collect(),
        audience: args.audience,
        confirmation,
        source: args.source.unwrap_or_else(|| name_of(&args.file)),
    };
    let tell = |event: Event<'_>| report.take(&event);
    let done = match args.dry_run {
        true => import::preview(cx, file, settings, tell).await,
        false => import::run(cx, file, settings, tell).await,
    };
    let counts = done.map_err(refused)?;
    report.finish(args.errors.as_deref(), counts.invalid)?;
    let mut shown = serde_json::to_value(counts)?;
    shown["dry_run"] = json!(args.dry_run);
    open.print(&shown)
}

/// Who asks people to confirm, if the audience has them asked.
async fn asked_by(cx: &Cx, audience: &Slug, named: Option<Slug>) -> Result<Confirmation, Failure> {
    let named = match named {
        Some(slug) => Some(the_client(cx, slug).await?),
        None => None,
    };
    if !confirmation::asks(cx, audience.clone()).await?.map_err(Failure::usage)? {
        return Ok(Confirmation::Ask(None));
    }
    let client = an_only_client(cx, named).await?;
    let nobody = || Failure::usage("name the client that asks with --confirm-as");
    Ok(Confirmation::Ask(Some(client.ok_or_else(nobody)?)))
}

pub(super) async fn export(
    format: Format,
    filter: Filter,
    open: &Open,
    cx: &Cx,
) -> Result<(), Failure> {
    let mut export = Export::new(cx.clone(), filter, format);
    let mut out = open.out();
    while let Some(piece) = export.next().await? {
        let text = String::from_utf8(piece).context("an export is text")?;
        out.text(&text)?;
    }
    out.finish()
}

impl ExportArgs {
    pub(super) fn format(&self) -> Format {
        self.format
    }
}

fn source_of(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(file))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    format!("import of {}", name.as_deref().unwrap_or("a file"))
}

fn refused(error: ImportError) -> Failure {
    match error {
        ImportError::File(_) => Failure::usage(error.to_string()),
        ImportError::NoAudience(_) => {
            Failure::usage(error.to_string()).hint("`tidings audiences create` makes one")
        }
        ImportError::Store { .. } => error.into(),
    }
}

/// What is said on the way, and where the lines go that are left out.
struct Report {
    errors: Option<io::BufWriter<File>>,
    broken: Option<io::Error>,
    said: u64,
}

impl Report {
    fn new(errors: Option<&Path>) -> Result<Self, Failure> {
        let create = |path: &Path| {
            let file = File::create(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            let mut file = io::BufWriter::new(file);
            writeln!(file, "line,column,reason")?;
            anyhow::Ok(file)
        };
        Ok(Self { errors: errors.map(create).transpose()?, broken: None, said: 0 })
    }

    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Mapped(mapping) => {
                let columns =
                    mapping.columns().iter().map(|(name, field)| format!("{name} = {field}"));
                say(&format!("Columns: {}", columns.collect::<Vec<_>>().join(", ")));
            }
            Event::Left(fault) => {
                let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
                if let Some(file) = &mut self.errors
                    && let Err(error) = writeln!(
                        file,
                        "{},{},{}",
                        fault.line,
                        quoted(&fault.column),
                        quoted(&fault.reason)
                    )
                {
                    self.broken.get_or_insert(error);
                }
            }
            Event::Progress(counts) => self.progress(counts),
        }
    }

    fn progress(&mut self, counts: &Counts) {
        if counts.lines / SAID > self.said {
            self.said = counts.lines / SAID;
            say(&format!(
                "{} lines: {} new, {} updated, {} unchanged, {} left out",
                counts.lines, counts.new, counts.updated, counts.unchanged, counts.invalid
            ));
        }
    }

    fn finish(mut self, path: Option<&Path>, invalid: u64) -> Result<(), Failure> {
        if let Some(file) = &mut self.errors {
            let flushed = file.flush();
            let written = self.broken.map_or(flushed, Err);
            written.context("the lines that were left out could not be written")?;
        }
        match path {
            Some(path) if invalid > 0 => {
                say(&format!("{invalid} lines were left out; {} says why.", path.display()));
            }
            None if invalid > 0 => {
                say(&format!("{invalid} lines were left out; --errors FILE says which and why."));
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}
