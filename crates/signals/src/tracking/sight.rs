//! A sight: an open or a click is recorded with who did it, whether our own links or the provider tell of it.
//!
//! A scanner follows every link of a mail, and its first click looks like a person's. What was told to a sequence or a
//! timeline cannot be taken back, so a click that looks so leaves a trace and comes again some seconds later, when the
//! traces of the others are there.

use std::time::Duration;

use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::Message;
use tidings_jobs::contracts::Object;
use tidings_kernel::{Cancellation, Expect, Outgoing, StoreError, Txn, tables};

use super::verdict::{Action, Facts, Who, decide};
use super::{evidence, recompute};
use crate::events::{Event, RecordError, Recorded, record_of, times_seen};

/// Longer than two clicks of a machine lie apart.
const SECOND_LOOK: Duration = Duration::from_secs(3);
/// That a click has waited for that.
const WAITED: &str = "waited";
/// So many opens and so many clicks of one message are recorded. Nobody opens a mail more often, and a machine that asks for
/// the same picture all day must not fill the store.
const MOST_OF_MESSAGE: i64 = 1_000;

/// Records what happened to the addressee of a message, with a verdict from what was `said` and what is known. `again`
/// brings the same once more, if it has not waited for its second look.
pub(crate) async fn see(
    cx: &Cx,
    message: &Message,
    mut seen: Event,
    said: Facts,
    again: Option<Outgoing>,
) -> Result<(), RecordError> {
    let (at, source, action) = (seen.occurred_at, message.source, said.action);
    let (opens, clicks) = times_seen(cx, source).await?;
    let times = if action == Action::Open { opens } else { clicks };
    if times >= MOST_OF_MESSAGE {
        tracing::debug!(event.id = seen.id, "A message was seen too often to go on");
        return Ok(());
    }
    let way = evidence::way(cx, source).await?;
    let clicks = match action {
        Action::Click => {
            let near = recompute::near(at);
            let recorded = evidence::clicks(cx, message, &seen.email, near).await?;
            let mut clicks = evidence::clicked(&recorded);
            clicks.extend(evidence::traces(cx, source, near).await?);
            clicks
        }
        Action::Open => Vec::new(),
    };
    let facts = evidence::complete(said, at, way, (seen.url.as_deref(), &clicks));
    let verdict = decide(&facts);
    if action == Action::Click
        && verdict.who == Who::Human
        && let Some(again) = again
    {
        return Ok(look_again(cx, message, &seen, again).await?);
    }
    seen.user_agent.clone_from(&facts.user_agent);
    seen.verdict = Some(verdict.json(&facts));
    let email = seen.email.clone();
    let recorded = record_of(cx, seen, Some(message)).await?;
    // Also if it was recorded before: the one who did may have died here.
    if facts.other_links_2s > 0 && recorded != Recorded::Erased {
        recompute::recompute_around(cx, message, &email, at).await?;
    }
    Ok(())
}

/// Leaves a trace of a click for the others, and lets it come again when theirs are there.
async fn look_again(
    cx: &Cx,
    message: &Message,
    click: &Event,
    again: Outgoing,
) -> Result<(), StorageError> {
    let trace = evidence::trace(message.source, click, cx.now());
    let again = again.delayed(SECOND_LOOK);
    let txn = Txn::new().put(&tables::EVENTS, trace, Expect::Absent).enqueue(again);
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(()),
        // Somebody has done so before, and it will come.
        Err(StoreError::Cancelled(reasons))
            if matches!(reasons.first(), Some(Cancellation::ConditionFailed { .. })) =>
        {
            Ok(())
        }
        // Others were in the way.
        Err(StoreError::Cancelled(_)) => Err(StoreError::Conflict.into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether what came says of itself that it has waited for its second look.
pub(crate) fn has_waited(metadata: Option<&Object>) -> bool {
    metadata.and_then(|said| said.get(WAITED)) == Some(&true.into())
}

/// Lets it say so.
pub(crate) fn set_waited(metadata: &mut Option<Object>) {
    metadata.get_or_insert_default().insert(WAITED.to_owned(), true.into());
}
