//! What was learned of a person, and his numbers.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_leads::features::{self, Features, Rebuilt};
use tidings_leads::memory::{self, CERTAIN, Listing, Memory, MemoryKey, MemoryType, Remember};

use super::{Whom, found, whom};
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    /// Whom: an address, the id of a contact, or channel=value
    #[arg(value_parser = whom)]
    whom: Whom,
    /// Only what is of this type, such as purchase or preference
    #[arg(long = "type", value_name = "TYPE")]
    memory_type: Option<MemoryType>,
}

#[derive(Debug, Args)]
pub(super) struct RememberArgs {
    /// Whom: an address, the id of a contact, or channel=value
    #[arg(value_parser = whom)]
    whom: Whom,
    /// What sort of thing it is: preference
    #[arg(value_name = "TYPE")]
    memory_type: MemoryType,
    /// What of that sort: colour
    key: MemoryKey,
    /// The value; what is JSON is taken as such (42), anything else is a text
    value: String,
    /// How sure it is, above 0 and at most 1
    #[arg(long, default_value_t = 1.0, value_parser = confidence)]
    confidence: f64,
    /// Who says so
    #[arg(long, default_value = "cli")]
    source: String,
    /// Forget it after this time, such as 90d or 12h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_after: Option<i64>,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// Whom: an address, the id of a contact, or channel=value
    #[arg(value_parser = whom)]
    whom: Whom,
    /// What sort of thing it is: preference
    #[arg(value_name = "TYPE")]
    memory_type: MemoryType,
    /// What of that sort: colour
    key: MemoryKey,
}

#[derive(Debug, Args)]
pub(super) struct FeaturesArgs {
    /// Whom: an address, the id of a contact, or channel=value
    #[arg(value_parser = whom)]
    whom: Whom,
    /// What they were at this moment, computed from the events until then
    #[arg(long, value_name = "TIME")]
    as_of: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct RebuildArgs {
    /// Whom: an address, the id of a contact, or channel=value
    #[arg(value_parser = whom)]
    whom: Option<Whom>,
    /// Everybody in the workspace
    #[arg(long)]
    all: bool,
}

fn confidence(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "use a number above 0 and at most 1".to_owned())
}

fn seconds(text: &str) -> Result<i64, String> {
    memory::rules::duration(text).ok_or_else(|| "use a time such as 90d, 12h or 30m".to_owned())
}

pub(super) async fn memory(args: MemoryArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let owner = found(cx, args.whom).await?;
    let (mut out, mut cursor) = (open.out(), None);
    loop {
        let listing = Listing { memory_type: args.memory_type.clone(), limit: 200, cursor };
        let page = memory::list(cx, &owner.lead_organization_id, listing).await?;
        let Some(page) = page else { break };
        for memory in &page.memories {
            out.json(&shown(memory))?;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    out.finish()
}

pub(super) async fn remember(args: RememberArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let owner = found(cx, args.whom).await?;
    let source = args.source.trim();
    if source.is_empty() || source.chars().count() > 100 {
        return Err(Failure::usage("a source has 1 to 100 characters"));
    }
    let expires_at = args.expires_after.and_then(|seconds| {
        Timestamp::from_second(cx.now().as_second().checked_add(seconds)?).ok()
    });
    let remember = Remember {
        memory_type: args.memory_type,
        key: args.key,
        value: serde_json::from_str(&args.value).unwrap_or(Value::String(args.value)),
        confidence: (args.confidence * CERTAIN as f64).round() as i64,
        source: source.to_owned(),
        expires_at,
    };
    let kept = memory::remember(cx, &owner.lead_organization_id, remember).await?;
    open.print(&shown(&kept))
}

pub(super) async fn forget(args: ForgetArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let id = found(cx, args.whom).await?.lead_organization_id;
    if !memory::forget(cx, &id, (&args.memory_type, &args.key)).await? {
        return Err(Failure::failed("nothing like this was stated").hint(
            "what events say is derived from them; `tidings contact memory` shows all of it",
        ));
    }
    let left = memory::get(cx, &id, &args.memory_type, &args.key).await?;
    open.print(&json!({ "forgotten": true, "left": left.as_ref().map(shown) }))
}

pub(super) async fn features(args: FeaturesArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let id = found(cx, args.whom).await?.lead_organization_id;
    let features = match args.as_of {
        Some(moment) if moment > cx.now() => {
            return Err(Failure::usage("nobody knows the features of a moment to come"));
        }
        Some(moment) => features::as_of(cx, &id, moment).await?,
        None => features::get(cx, &id).await?,
    };
    match features {
        Some(Features { values, score, computed_at }) => open.print(&json!({
            "features": values,
            "engagement_score_parts": score,
            "computed_at": computed_at,
        })),
        None => Err(Failure::failed("there is no such contact")),
    }
}

pub(super) async fn rebuild(args: RebuildArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let Some(whom) = args.whom else {
        let begun = features::rebuild_all(cx).await?;
        say("The workers derive everything again; `tidings queues list` shows how much is left.");
        return open.print(&json!({"begun": begun}));
    };
    let id = found(cx, whom).await?.lead_organization_id;
    let changes = memory::rebuild(cx, &id).await?;
    let rebuilt = features::rebuild(cx, &id).await?;
    if rebuilt == Rebuilt::Busy {
        return Err(Failure::failed("somebody else counts this person anew right now")
            .hint("try it again in a minute"));
    }
    open.print(&json!({"memories_changed": changes, "features": "computed"}))
}

fn shown(memory: &Memory) -> Value {
    json!({
        "type": memory.memory_type.as_str(),
        "key": memory.key.as_str(),
        "value": memory.value,
        "confidence": memory.confidence,
        "source": memory.source,
        "source_event_ids": memory.source_event_ids,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "expires_at": memory.expires_at,
    })
}
