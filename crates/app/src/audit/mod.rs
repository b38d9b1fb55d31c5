//! `tidings audit`: who changed what, from what to what.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::Limit;
use tidings_access::audit::{self, Filter, Listed};
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings audit
  tidings audit --workspace acme --action campaign --since 2026-07-01T00:00:00Z
  tidings audit --target client/shop --pretty
  tidings audit --actor key:3fQ9xK2mVb7T --limit 1000
  tidings audit --installation

The newest comes first. What is done to items is written down by a worker: while none runs, the
entry waits in the queue audit-entries.")]
pub(crate) struct AuditArgs {
    /// The workspace whose log is meant
    #[arg(long, default_value = "default", conflicts_with = "installation")]
    workspace: Workspace,
    /// What concerns no workspace: signing keys and queues
    #[arg(long)]
    installation: bool,
    /// Who did it: key:PUBLIC_ID, operator, worker or user
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// What was done: an action such as client.disable, or all of an area such as client
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// To what: a kind of thing, or one of them as KIND/ID
    #[arg(long, value_name = "KIND[/ID]")]
    target: Option<String>,
    /// At this time or after it
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Stop after so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Lay each entry out over several lines
    #[arg(long)]
    pretty: bool,
}

#[derive(Serialize)]
struct Shown {
    id: i64,
    happened_at: Timestamp,
    actor: String,
    action: String,
    target_type: String,
    target_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

pub(crate) async fn run(args: AuditArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = print(&open, args).await;
    open.close().await;
    done
}

async fn print(open: &Open, args: AuditArgs) -> Result<(), Failure> {
    let (target_type, target_id) = match args.target.as_deref().map(|text| text.split_once('/')) {
        Some(Some((kind, id))) => (Some(kind.to_owned()), Some(id.to_owned())),
        Some(None) => (args.target.clone(), None),
        None => (None, None),
    };
    let filter = Filter {
        actor: args.actor,
        action: args.action,
        target_type,
        target_id,
        since: args.since,
        until: args.until,
    };
    let cx = match args.installation {
        true => None,
        false => Some(open.inside(args.workspace).await?),
    };
    let (mut out, mut after, mut left) = (open.out(), None, args.limit);
    while left > 0 {
        let page = match &cx {
            Some(cx) => audit::list(cx, filter.clone(), after, Limit::MAX).await?,
            None => {
                let access = &open.access;
                audit::list_of_installation(access, filter.clone(), after, Limit::MAX).await?
            }
        };
        for entry in page.items.into_iter().take(left) {
            out.json(&Shown::from(entry))?;
            left -= 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

impl From<Listed> for Shown {
    fn from(entry: Listed) -> Self {
        let Listed { id, actor, action, target_type, target_id, before, after, happened_at } =
            entry;
        Self { id, happened_at, actor, action, target_type, target_id, before, after }
    }
}
