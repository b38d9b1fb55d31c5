//! Executions that could not go on: looking at them, trying them again, forgetting them.

use serde_json::{Value, json};
use tidings_access::{Cx, Slug};
use tidings_sequences::executions::{self, ExecutionId, Failed, RetryError};
use tidings_sequences::versions::Versions;

use super::form::{Form, Table, minute};
use super::the_sequence;
use super::words::shown;
use crate::failure::Failure;
use crate::output::say;

/// So many are asked for at once.
const PAGE: usize = 100;

pub(super) async fn list(form: Form, cx: &Cx, id: &Slug, limit: usize) -> Result<(), Failure> {
    the_sequence(cx, id).await?;
    let mut table = Table::new(&["failed (utc)", "person", "step", "reason", "execution"]);
    let (mut values, mut after) = (Vec::new(), None);
    while values.len() < limit {
        let most = PAGE.min(limit - values.len());
        let page = executions::list_failed(cx, id.as_str(), after, most).await?;
        for Failed { execution, reason, failed_at } in page.failed {
            values.push(json!({
                "execution": execution.id.as_str(),
                "email": execution.email.as_str(),
                "sequence": execution.sequence,
                "version": execution.version,
                "step": execution.step,
                "reason": reason,
                "failed_at": failed_at,
                "started_at": execution.started_at,
            }));
            table.row(vec![
                minute(failed_at),
                execution.email.to_string(),
                execution.step.clone(),
                reason,
                execution.id.to_string(),
            ]);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    form.list(&values, &table, &format!("No execution of {id} has failed"))
}

pub(super) async fn retry(
    form: Form,
    cx: &Cx,
    id: &Slug,
    execution: Option<ExecutionId>,
) -> Result<(), Failure> {
    the_sequence(cx, id).await?;
    let versions = Versions::default();
    if let Some(execution) = execution {
        let again = executions::retry(cx, &versions, id.as_str(), &execution).await;
        let again = again.map_err(|error| not_there(id, error))?;
        let words = format!("{} goes on with {}", again.email, again.step);
        return form.print(&shown(&again), &words);
    }
    let (mut retried, mut in_again, mut refused) = (0_u64, 0_u64, 0_u64);
    let mut after = None;
    loop {
        // What fails again comes before those that are still to be looked at, so this comes to an end.
        let page = executions::list_failed(cx, id.as_str(), after, PAGE).await?;
        for one in &page.failed {
            match executions::retry(cx, &versions, id.as_str(), &one.execution.id).await {
                Ok(_) => retried += 1,
                Err(RetryError::InAgain) => in_again += 1,
                Err(RetryError::Refused(_) | RetryError::Left) => refused += 1,
                // Somebody else was faster.
                Err(RetryError::Missing(_)) => {}
                Err(error @ RetryError::Store(_)) => return Err(error.into()),
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
        say(&format!("{retried} retried"));
    }
    let value = json!({
        "sequence": id.as_str(),
        "retried": retried,
        "in_again": in_again,
        "refused": refused,
    });
    let mut words = format!("{retried} go on with the step that they failed at");
    if in_again > 0 {
        words.push_str(&format!(
            "; {in_again} are in {id} again by themselves, and stay as they are"
        ));
    }
    if refused > 0 {
        words.push_str(&format!("; {refused} may not come in again, and stay as they are"));
    }
    form.print(&value, &words)
}

pub(super) async fn drop_one(
    form: Form,
    cx: &Cx,
    id: &Slug,
    execution: &ExecutionId,
) -> Result<(), Failure> {
    let dropped = executions::drop_failed(cx, id.as_str(), execution).await;
    dropped.map_err(|error| not_there(id, error))?;
    let value: Value = json!({ "execution": execution.as_str(), "dropped": true });
    form.print(&value, &format!("{execution} is forgotten"))
}

fn not_there(id: &Slug, error: RetryError) -> Failure {
    match error {
        RetryError::Missing(_) => Failure::from(error)
            .hint(format!("`tidings sequence failed {id}` shows those that there are")),
        RetryError::InAgain | RetryError::Refused(_) | RetryError::Left => Failure::from(error)
            .hint(format!("`tidings sequence drop {id} EXECUTION` forgets the one that failed")),
        RetryError::Store(_) => error.into(),
    }
}
