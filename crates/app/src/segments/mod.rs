//! `tidings segment`: saved conditions whose members are kept up as things happen.
//!
//! What is asked for is printed as JSON, one thing a line.

mod file;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_kernel::{EmailAddress, Workspace};
use tidings_outreach::segments::{self, FindError, Put, PutError, Segment};

pub(crate) use file::Written;

use crate::config::Config;
use crate::contact::{Whom, found, whom};
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings segment put vip --condition '{\"feature\": \"monetary_total\", \"at_least\": 100}'
  tidings segment put vip --file segments/vip.yaml
  tidings segment list
  tidings segment members vip
  tidings segment why vip ada@example.org --pretty
  tidings segment why vip user_id=42
  tidings segment verify vip

A condition is written as the filter of a campaign (see docs/campaigns.md), but names no segments.
A running server (`tidings serve`) looks at everybody for a new one and keeps it up from then on.")]
pub(crate) struct SegmentArgs {
    /// The workspace whose segments are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay what is printed out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: SegmentCommand,
}

#[derive(Debug, Subcommand)]
enum SegmentCommand {
    /// Print all segments, by slug
    List,
    /// Make a segment, or give one another name or condition
    Put {
        /// Its name in URLs and commands: up to 40 lower-case letters, digits and hyphens
        slug: Slug,
        /// Who is in it, as JSON
        #[arg(long, value_name = "JSON", value_parser = as_json, required_unless_present = "file")]
        condition: Option<Value>,
        /// A YAML or JSON file with `condition`, and if wanted `name` and `trigger_on_build`
        #[arg(long, conflicts_with_all = ["condition", "name", "trigger_on_build"])]
        file: Option<PathBuf>,
        /// Its name for people [default: the slug, or the name that it has]
        #[arg(long)]
        name: Option<DisplayName>,
        /// Those who are in it from the beginning count as entering
        #[arg(long)]
        trigger_on_build: bool,
    },
    /// Print one segment
    Show { slug: Slug },
    /// Print who is in a segment, one a line
    Members { slug: Slug },
    /// Say why somebody is in a segment, or is not
    Why {
        slug: Slug,
        /// Who: an address, the id of a contact, or channel=value such as user_id=42
        #[arg(value_name = "PERSON", value_parser = whom)]
        who: Whom,
    },
    /// Look at everybody again
    Rebuild { slug: Slug },
    /// Compare a segment with a walk over everybody; changes nothing
    Verify { slug: Slug },
    /// Delete a segment
    Delete { slug: Slug },
}

fn as_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))
}

pub(crate) async fn run(args: SegmentArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: SegmentCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match command {
        SegmentCommand::List => {
            let mut out = open.out();
            for segment in segments::list(cx).await? {
                out.json(&shown(&segment))?;
            }
            out.finish()
        }
        SegmentCommand::Put { slug, condition, file, name, trigger_on_build } => {
            let put = match (file, condition) {
                (Some(path), _) => from_file(&path, slug)?,
                (None, condition) => {
                    let condition = condition.unwrap_or_default();
                    Put { slug, name, condition, trigger_on_build }
                }
            };
            let (segment, _) = segments::put(cx, put).await.map_err(refused)?;
            open.print(&shown(&segment))
        }
        SegmentCommand::Show { slug } => {
            open.print(&shown(&segments::find(cx, slug).await.map_err(missing)?))
        }
        SegmentCommand::Members { slug } => members(open, cx, slug).await,
        SegmentCommand::Why { slug, who } => {
            let contact = found(cx, who).await?.lead_id;
            let why = segments::why(cx, slug, &contact.into()).await.map_err(missing)?;
            let why = why.ok_or_else(|| {
                Failure::failed("the contact has no address, and can be in no segment")
            })?;
            open.print(&json!({
                "contact_id": why.lead_id.get(),
                "in": why.entered_at.is_some(),
                "entered_at": why.entered_at,
                "meant": why.meant,
                "explanation": why.explanation,
            }))
        }
        SegmentCommand::Rebuild { slug } => {
            let begun = segments::rebuild(cx, slug).await.map_err(missing)?;
            say("Begun; a running server (`tidings serve`) does it.");
            open.print(&shown(&begun))
        }
        SegmentCommand::Verify { slug } => verify(open, cx, slug).await,
        SegmentCommand::Delete { slug } => {
            segments::delete(cx, slug.clone()).await.map_err(missing)?;
            say(&format!("The segment {slug} is gone."));
            Ok(())
        }
    }
}

fn from_file(path: &std::path::Path, slug: Slug) -> Result<Put, Failure> {
    let written = Written::read(path).map_err(|faults| {
        for fault in &faults {
            say(fault);
        }
        Failure::failed("the file cannot be read as a segment")
    })?;
    Ok(Put { slug, ..written.put })
}

async fn members(open: &Open, cx: &Cx, slug: Slug) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = segments::members(cx, slug.clone(), after, Limit::MAX).await.map_err(missing)?;
        for member in page.items {
            out.json(&json!({
                "contact_id": member.lead_id.get(),
                "email": member.email.as_ref().map(EmailAddress::typed),
                "entered_at": member.entered_at,
            }))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

async fn verify(open: &Open, cx: &Cx, slug: Slug) -> Result<(), Failure> {
    let found = segments::verify(cx, slug.clone()).await.map_err(missing)?;
    open.print(&json!({
        "right": found.is_right(),
        "members": found.members,
        "rows": found.rows,
        "meant": found.meant,
        "missing": found.missing,
        "surplus": found.surplus,
    }))?;
    if found.is_right() {
        return Ok(());
    }
    Err(Failure::failed(format!("the segment {slug} has others than it ought to have")).hint(
        format!(
            "changes may be on their way; if it stays so, `tidings segment rebuild {slug}` looks at everybody again"
        ),
    ))
}

fn shown(segment: &Segment) -> Value {
    json!({
        "id": segment.id.get(),
        "slug": segment.slug.as_str(),
        "name": segment.name.as_str(),
        "condition": segment.condition.to_json(),
        "state": segment.state.as_str(),
        "trigger_on_build": segment.trigger_on_build,
        "members": segment.members,
        "rev": segment.rev,
        "created_at": segment.created_at,
        "updated_at": segment.updated_at,
    })
}

fn missing(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::failed(error.to_string())
            .hint("`tidings segment list` shows those that there are"),
        FindError::Store(error) => error.into(),
    }
}

fn refused(error: PutError) -> Failure {
    match error {
        PutError::Wrong(violations) => {
            let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
            Failure::usage(told.join("; ")).hint("docs/campaigns.md lists the conditions")
        }
        PutError::TooMany => Failure::failed(error.to_string()),
        PutError::Store(error) => error.into(),
    }
}
