//! What a condition asks of what is known of the person now.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_access::{Cx, StorageError};
use tidings_delivery::past::{self, Did, Sent};
use tidings_kernel::{EmailAddress, Value, tables};
use tidings_outreach::audience::{self, Condition, Walk};
use tidings_people::contacts::{self, Profile};
use tidings_people::keys;

use super::super::Execution;
use crate::definition::Check;
use crate::definition::{Op, Program, is_same};
use crate::versions::Versions;

/// How long a walk waits at least, and at most, before it looks again whether a mail was sent that is on its way.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// As long as it has waited already: what is not sent within minutes may take hours.
pub(super) fn pause(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).unsigned_abs().clamp(PATIENCE, MOST_PATIENCE)
}

/// Where it goes on. `None` if that is not known yet.
pub(super) async fn ask(
    cx: &Cx,
    versions: &Versions,
    program: &Program,
    execution: &Execution,
) -> Result<Option<usize>, StorageError> {
    let Some(Op::Check { check, yes, no }) =
        program.places.get(execution.at).map(|place| &place.op)
    else {
        return Ok(Some(program.end()));
    };
    let holds = answer(cx, versions, (program, &execution.email), check).await?;
    Ok(holds.map(|holds| if holds { *yes } else { *no }))
}

/// Whether it holds. What is not there does not.
pub(crate) async fn answer(
    cx: &Cx,
    versions: &Versions,
    (program, email): (&Program, &EmailAddress),
    check: &Check,
) -> Result<Option<bool>, StorageError> {
    Ok(Some(match check {
        Check::HasBeenSent(template) => match past::was_sent(cx, email, template).await? {
            Sent::Yes => true,
            Sent::No => false,
            Sent::OnItsWay => return Ok(None),
        },
        Check::HasOpened(template) => past::has_event(cx, email, Did::Open, template).await?,
        Check::HasClicked(template) => past::has_event(cx, email, Did::Click, template).await?,
        Check::FieldExists(field) => {
            any_says(cx, (email, field), |found| exists(Some(found))).await?
        }
        Check::FieldEquals(field, wanted) => {
            any_says(cx, (email, field), |found| equals(found, wanted)).await?
        }
        Check::Matches(condition) => matches(cx, versions, (program, email), condition).await?,
    }))
}

/// Whether it is true of the field as one of the person's addresses has it. The others are asked only if the one that he walks
/// with does not say so.
async fn any_says(
    cx: &Cx,
    (email, field): (&EmailAddress, &str),
    is_true: impl Fn(&Value) -> bool,
) -> Result<bool, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &keys::profile(email)).await?;
    let profile = item.map(Profile::from).unwrap_or_default();
    if field_of(email, &profile, field).is_some_and(|found| is_true(&found)) {
        return Ok(true);
    }
    let others = contacts::others(cx, &[email]).await?;
    let mut found =
        others.values().flatten().filter_map(|one| field_of(&one.email, &one.profile, field));
    Ok(found.any(|found| is_true(&found)))
}

fn field_of(email: &EmailAddress, profile: &Profile, field: &str) -> Option<Value> {
    match field {
        "email" => Some(email.as_str().into()),
        "firstName" => profile.first_name().map(Into::into),
        _ => profile.attribute(field).cloned(),
    }
}

pub(crate) fn exists(found: Option<&Value>) -> bool {
    match found {
        None | Some(Value::Null) => false,
        Some(Value::S(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

pub(crate) fn equals(found: &Value, wanted: &Json) -> bool {
    serde_json::to_value(found).is_ok_and(|found| is_same(&found, wanted))
}

async fn matches(
    cx: &Cx,
    versions: &Versions,
    (program, email): (&Program, &EmailAddress),
    condition: &Condition,
) -> Result<bool, StorageError> {
    let client = versions.client(cx, program.definition.client.as_str()).await?;
    let Some(client) = client else { return Ok(false) };
    let walk = Walk { condition: condition.clone(), client, audience: None, profiles: false };
    Ok(audience::why(cx, &walk, email).await?.meant)
}
