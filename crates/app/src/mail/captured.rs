//! `tidings mail`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_access::{Cx, Limit};
use tidings_delivery::capture::{self, Captured, CapturedId, FindError};
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings mail list --workspace acme
  tidings mail list --limit 1 | jq -r .subject
  tidings mail show 17
  tidings mail show 17 --raw > message.eml
  tidings mail clear --workspace acme

Mail is captured while mail.provider is \"capture\". The newest 10,000 messages of a workspace are kept.")]
pub(crate) struct MailArgs {
    /// The workspace whose mail is meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each message out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: MailCommand,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    /// Print what was captured, the newest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Print a message with its text and HTML
    Show {
        /// Its id
        id: i64,
        /// Print it as it would have gone over the wire
        #[arg(long)]
        raw: bool,
    },
    /// Forget everything that was captured
    Clear,
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    from: String,
    to: Vec<String>,
    subject: Option<String>,
    tags: Map<String, Value>,
    bytes: i64,
    created_at: Timestamp,
}

#[derive(Serialize)]
struct Opened {
    #[serde(flatten)]
    mail: Shown,
    text: Option<String>,
    html: Option<String>,
}

pub(crate) async fn run(args: MailArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: MailCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match command {
        MailCommand::List { limit } => list(open, cx, limit).await,
        MailCommand::Show { id, raw: true } => {
            let mime = capture::raw(cx, id.into()).await.map_err(no_mail)?;
            let mut out = open.out();
            out.text(&String::from_utf8_lossy(&mime))?;
            out.finish()
        }
        MailCommand::Show { id, raw: false } => {
            let found = capture::find(cx, id.into()).await.map_err(no_mail)?;
            let (mail, text, html) = (found.captured.into(), found.text, found.html);
            open.print(&Opened { mail, text, html })
        }
        MailCommand::Clear => {
            let gone = capture::clear(cx).await?;
            say(&format!("{gone} captured messages are forgotten"));
            Ok(())
        }
    }
}

async fn list(open: &Open, cx: &Cx, limit: usize) -> Result<(), Failure> {
    let mut out = open.out();
    let mut before: Option<CapturedId> = None;
    let mut left = limit;
    while left > 0 {
        let page = capture::list(cx, before, Limit::MAX).await?;
        for captured in page.items.into_iter().take(left) {
            out.json(&Shown::from(captured))?;
            left -= 1;
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    out.finish()
}

fn no_mail(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => {
            Failure::from(error).hint("`tidings mail list --workspace …` shows what was captured")
        }
        FindError::Store(_) => error.into(),
    }
}

impl From<Captured> for Shown {
    fn from(captured: Captured) -> Self {
        Self {
            id: captured.id.get(),
            from: captured.from,
            to: captured.to,
            subject: captured.subject,
            tags: captured.tags,
            bytes: captured.bytes,
            created_at: captured.created_at,
        }
    }
}
