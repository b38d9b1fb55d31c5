//! What can be asked of `tidings sequence`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::Slug;
use tidings_kernel::{EmailAddress, Workspace};
use tidings_sequences::events::MAX_DATA_BYTES;
use tidings_sequences::executions::ExecutionId;
use tidings_sequences::versions::Status;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings sequence check mail/sequences/onboarding.yaml
  tidings sequence simulate onboarding --contact ada@example.org --event project.created
  tidings sequence enrol onboarding ada@example.org --data '{\"plan\":\"team\"}'
  tidings sequence funnel onboarding
  tidings sequence of ada@example.org
  tidings sequence failed onboarding

On a terminal the answers are tables, elsewhere JSON, one value a line; --json and --table say it.
A running server (`tidings serve`) does the work; these commands write down what is wanted and
look. See docs/sequences.md.")]
pub(crate) struct SequenceArgs {
    /// The workspace whose sequences are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    pub(super) workspace: Workspace,
    /// Print JSON, also on a terminal
    #[arg(long, global = true, help_heading = "Common options")]
    pub(super) json: bool,
    /// Print tables, also where nobody looks
    #[arg(long, global = true, conflicts_with = "json", help_heading = "Common options")]
    pub(super) table: bool,
    /// Print JSON, and lay each answer out over several lines
    #[arg(long, global = true, conflicts_with = "table", help_heading = "Common options")]
    pub(super) pretty: bool,
    #[command(subcommand)]
    pub(super) command: SequenceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SequenceCommand {
    /// Print the sequences, with how many people are in each of them
    List {
        /// Only those with this status: active, paused or archived
        #[arg(long)]
        status: Option<Status>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Print a sequence: what it is, as YAML or JSON, or as a drawing
    #[command(after_help = "\
Examples:
  tidings sequence show onboarding
  tidings sequence show onboarding --yaml > onboarding.yaml
  tidings sequence show onboarding --version 3 --mermaid")]
    Show {
        /// Its id
        sequence: Slug,
        /// This version [default: the active one]
        #[arg(long, value_name = "N")]
        version: Option<i64>,
        /// As a flowchart for Mermaid, which many tools draw
        #[arg(long, conflicts_with_all = ["yaml", "json", "pretty", "table"])]
        mermaid: bool,
        /// As a file that can be applied again
        #[arg(long, conflicts_with_all = ["json", "pretty", "table"])]
        yaml: bool,
    },
    /// Print the versions of a sequence, the newest first
    Versions {
        /// Its id
        sequence: Slug,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Read and check files, and write nothing
    #[command(after_help = "\
Examples:
  tidings sequence check mail/sequences/*.yaml
  tidings sequence check --offline onboarding.yaml

What a file names has to be there: its client, sender, audience, topic and templates. If those come
from the same folder, `tidings apply FOLDER --dry-run` checks them together.")]
    Check {
        /// The files, in YAML or JSON
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Only read them, without asking a store whether what they name is there
        #[arg(long)]
        offline: bool,
    },
    /// Make what a file says the active version
    Apply {
        /// The file, in YAML or JSON
        file: PathBuf,
    },
    /// Let nobody in, and let no event send a mail; whoever is in it goes on
    Pause {
        /// Its id
        sequence: Slug,
    },
    /// Let people in again
    Resume {
        /// Its id
        sequence: Slug,
    },
    /// Put a sequence away until it is applied again; whoever is in it goes on
    Archive {
        /// Its id
        sequence: Slug,
    },
    /// Walk through a sequence without doing anything: what somebody would get, and when
    #[command(after_help = "\
Examples:
  tidings sequence simulate onboarding --contact ada@example.org
  tidings sequence simulate onboarding --contact ada@example.org --event project.created
  tidings sequence simulate onboarding --contact ada@example.org --data '{\"plan\":\"team\"}'
  tidings sequence simulate win-back --contact ada@example.org --at 2030-03-20T09:00:00Z

Conditions are asked as they are now. What is waited for comes if it is named with --event.")]
    Simulate {
        /// Its id
        sequence: Slug,
        /// Who walks through it
        #[arg(long, value_name = "EMAIL")]
        contact: EmailAddress,
        /// When it begins [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<Timestamp>,
        /// The data of the event that lets him in
        #[arg(long, value_name = "JSON", value_parser = data)]
        data: Option<Value>,
        /// An event that comes while it is waited for; can be given several times
        #[arg(long = "event", value_name = "NAME")]
        events: Vec<String>,
    },
    #[command(flatten)]
    People(PeopleCommand),
    #[command(flatten)]
    Failed(FailedCommand),
    /// Print how many came to each step, and what became of them there
    Funnel {
        /// Its id
        sequence: Slug,
        /// This version [default: the active one]
        #[arg(long, value_name = "N")]
        version: Option<i64>,
    },
    /// Print the JSON Schema of a sequence, for editors
    #[command(after_help = "\
Examples:
  tidings sequence schema > sequence.schema.json

An editor uses it if a file begins with
  # yaml-language-server: $schema=../sequence.schema.json")]
    Schema,
}

/// Who is in a sequence, and who is to be.
#[derive(Debug, Subcommand)]
pub(super) enum PeopleCommand {
    /// Let somebody in by hand, or everybody whom a condition means
    #[command(
        group = ArgGroup::new("whom").required(true),
        after_help = "\
Examples:
  tidings sequence enrol onboarding ada@example.org --data '{\"plan\":\"team\"}'
  tidings sequence enrol win-back --tag dormant --yes
  tidings sequence enrol win-back --audience newsletter --yes
  tidings sequence enrol win-back --where '{\"attribute\":\"plan\",\"equals\":\"team\"}' --yes

Many are let in by a running server; this follows it. Ctrl-C leaves it: it goes on, and
`tidings sequence enrolment ID` follows it again. A sequence with an audience takes only those who
are subscribed to it."
    )]
    Enrol {
        /// Its id
        sequence: Slug,
        /// One person
        #[arg(group = "whom")]
        email: Option<EmailAddress>,
        /// Everybody who meets this condition, as campaigns have it; {} is everybody
        #[arg(long = "where", value_name = "JSON", group = "whom", value_parser = json)]
        condition: Option<Value>,
        /// Everybody who is subscribed to this audience
        #[arg(long, value_name = "SLUG", group = "whom")]
        audience: Option<Slug>,
        /// Everybody who has this tag
        #[arg(long, value_name = "TAG", group = "whom")]
        tag: Option<String>,
        /// What the steps are told, as if an event had said it
        #[arg(long, value_name = "JSON", value_parser = data)]
        data: Option<Value>,
        /// Do not ask
        #[arg(long, conflicts_with = "email")]
        yes: bool,
        /// Begin it and do not follow it
        #[arg(long, conflicts_with = "email")]
        no_follow: bool,
    },
    /// Follow an enrolment of many until it is done
    Enrolment {
        /// Its id
        #[arg(value_parser = execution)]
        id: ExecutionId,
    },
    /// Take somebody out of a sequence
    Stop {
        /// Its id
        sequence: Slug,
        /// The person
        email: EmailAddress,
    },
    /// Print who is in a sequence, those who came last first
    Who {
        /// Its id
        sequence: Slug,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Go on after those that were printed before
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Print the sequences that somebody is in, the step where he is, and when it goes on
    Of {
        /// The person
        email: EmailAddress,
    },
    /// Let somebody who waits go on now; what he waits for counts as not having come
    Skip {
        /// The execution, as `who` and `of` print it
        #[arg(value_parser = execution)]
        execution: ExecutionId,
    },
}

/// Executions that could not go on.
#[derive(Debug, Subcommand)]
pub(super) enum FailedCommand {
    /// Print the executions that could not go on, with the reason, the last first
    Failed {
        /// The id of the sequence
        sequence: Slug,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Let failed executions go on with the step that they failed at
    #[command(group = ArgGroup::new("which").required(true))]
    Retry {
        /// The id of the sequence
        sequence: Slug,
        /// The execution, as `failed` prints it
        #[arg(group = "which", value_parser = execution)]
        execution: Option<ExecutionId>,
        /// All of them
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Forget a failed execution
    Drop {
        /// The id of the sequence
        sequence: Slug,
        /// The execution, as `failed` prints it
        #[arg(value_parser = execution)]
        execution: ExecutionId,
    },
}

/// An id, or the whole name that the records have.
fn execution(text: &str) -> Result<ExecutionId, String> {
    let id = text.rsplit(':').next().unwrap_or(text);
    ExecutionId::parse(id).ok_or_else(|| "use an id of 32 digits and letters".to_owned())
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|_| "use JSON such as {\"tag\":\"beta\"}".to_owned())
}

/// An object within the bounds of an event's data.
fn data(text: &str) -> Result<Value, String> {
    if text.len() > MAX_DATA_BYTES {
        return Err(format!("use at most {} KB", MAX_DATA_BYTES / 1024));
    }
    let read = serde_json::from_str::<Map<String, Value>>(text);
    read.map(Value::Object).map_err(|_| "use a JSON object such as {\"plan\":\"team\"}".to_owned())
}
