//! The records of the campaigns that have begun, with what came back of each.

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use tidings_access::{Cx, Slug};
use tidings_outreach::campaigns::broadcast::{self, Broadcast, List};
use tidings_outreach::campaigns::named::Name;

use super::the_campaign;
use crate::consent::the_client;
use crate::failure::Failure;
use crate::open::Open;

/// So many are read at once.
const PAGE: usize = 100;

#[derive(Debug, Args)]
pub(super) struct BroadcastsArgs {
    /// Of this campaign alone: its key or its id
    #[arg(conflicts_with_all = ["client", "from", "to"])]
    campaign: Option<Name>,
    /// Only those of this client
    #[arg(long, value_name = "SLUG")]
    client: Option<Slug>,
    /// Begun then or later
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Begun then or before
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

pub(super) async fn print(open: &Open, cx: &Cx, args: BroadcastsArgs) -> Result<(), Failure> {
    match args.campaign {
        Some(name) => one(open, cx, &name).await,
        None => list(open, cx, args).await,
    }
}

async fn one(open: &Open, cx: &Cx, name: &Name) -> Result<(), Failure> {
    let key = the_campaign(cx, name).await?.key();
    let Some(found) = broadcast::get(cx, &key, None).await? else {
        let failure = Failure::failed(format!("campaign {key} has no record: it has not begun"));
        return Err(failure.hint("`tidings campaign show` says where it is on its way"));
    };
    open.print(&shown(&found)?)
}

async fn list(open: &Open, cx: &Cx, args: BroadcastsArgs) -> Result<(), Failure> {
    let client = match args.client {
        Some(slug) => Some(the_client(cx, slug).await?),
        None => None,
    };
    let (mut out, mut after, mut left) = (open.out(), None, args.limit);
    while left > 0 {
        let list = List { client, from: args.from, to: args.to, limit: PAGE.min(left), after };
        let (broadcasts, next) = broadcast::list(cx, list).await?;
        for broadcast in broadcasts.iter().take(left) {
            left -= 1;
            out.json(&shown(broadcast)?)?;
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

/// What is not there is left out.
fn shown(broadcast: &Broadcast) -> Result<Value, Failure> {
    let mut shown = serde_json::to_value(broadcast.record())?;
    if let Some(fields) = shown.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(shown)
}
