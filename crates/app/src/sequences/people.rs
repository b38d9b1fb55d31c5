//! Who is in a sequence: letting somebody in and out, and looking where people are.

use serde_json::{Value, json};
use tidings_access::{Cx, Slug};
use tidings_kernel::{Cursor, EmailAddress};
use tidings_sequences::executions::{
    self, Enrol, EnrolError, Entered, Execution, ExecutionId, Inside, Person, Refusal, SkipError,
};
use tidings_sequences::versions::Versions;

use super::form::{Form, Table, from_now, minute};
use super::words::{doing, shown};
use super::{explain, missing, the_sequence};
use crate::failure::Failure;
use crate::output::say;

/// So many are asked for at once.
const PAGE: usize = 100;

pub(super) async fn enrol(
    form: Form,
    cx: &Cx,
    (id, email): (&Slug, EmailAddress),
    data: Option<Value>,
) -> Result<(), Failure> {
    let cmd = Enrol {
        sequence: id.as_str().to_owned(),
        email: email.clone(),
        person: Person::default(),
        input: data.unwrap_or_else(|| json!({})),
        cause: None,
        told_at: None,
    };
    let versions = Versions::default();
    let entered = executions::enrol(cx, &versions, cmd).await;
    let entered = entered.map_err(|error| not_enrolled(id, error))?;
    let mut value = json!({ "sequence": id.as_str(), "email": email.as_str() });
    let (outcome, words) = match &entered {
        Entered::Began(execution) => {
            value["execution"] = execution.id.as_str().into();
            ("began", format!("{email} is in {id} now; a running server (`tidings serve`) goes on"))
        }
        Entered::Restarted(execution) => {
            value["execution"] = execution.id.as_str().into();
            ("restarted", format!("{email} was in {id}, and begins anew"))
        }
        Entered::AlreadyIn(execution) => {
            value["execution"] = execution.as_str().into();
            ("already_in", format!("{email} is in {id} already, and goes on where he is"))
        }
        Entered::TooSoon { again_at } => {
            value["again_at"] = again_at.to_string().into();
            let at = minute(*again_at);
            ("too_soon", format!("{email} was in {id} not long ago; he may again from {at} UTC on"))
        }
        Entered::Before | Entered::Over => {
            ("before", format!("{email} was let into {id} for this before"))
        }
        Entered::Refused(refusal) => {
            let reason = match refusal {
                Refusal::Person(reason) => reason.as_str(),
                Refusal::Paused => "paused",
            };
            value["reason"] = reason.into();
            ("refused", String::new())
        }
    };
    value["outcome"] = outcome.into();
    if let Entered::Refused(refusal) = entered {
        if let Form::Json(_) = form {
            form.print(&value, "")?;
        }
        let active = versions.active(cx, id.as_str()).await?.ok_or_else(|| missing(id))?;
        let why = explain(cx, &active.program.definition, &email);
        return Err(refused((id, &email), refusal, &why));
    }
    form.print(&value, &words)
}

fn refused((id, email): (&Slug, &EmailAddress), refusal: Refusal, why: &str) -> Failure {
    match refusal {
        Refusal::Person(reason) => {
            Failure::failed(format!("{email} may not come into {id}: {}", reason.as_str()))
                .hint(format!("`{why}` says why"))
        }
        Refusal::Paused => Failure::failed(format!("nobody comes into {id}: it is not active"))
            .hint(format!("`tidings sequence resume {id}` lets people in again")),
    }
}

fn not_enrolled(id: &Slug, error: EnrolError) -> Failure {
    match error {
        EnrolError::Missing(_) => missing(id),
        EnrolError::Person(_) | EnrolError::Store(_) => error.into(),
    }
}

pub(super) async fn stop(
    form: Form,
    cx: &Cx,
    id: &Slug,
    email: &EmailAddress,
) -> Result<(), Failure> {
    the_sequence(cx, id).await?;
    let stopped = executions::stop(cx, &Versions::default(), email, id.as_str()).await?;
    let value = json!({ "sequence": id.as_str(), "email": email.as_str(), "stopped": stopped });
    let words = match stopped {
        true => format!("{email} is out of {id}"),
        false => format!("{email} was not in {id}; nothing was changed"),
    };
    form.print(&value, &words)
}

pub(super) async fn who(
    form: Form,
    cx: &Cx,
    id: &Slug,
    (limit, after): (usize, Option<String>),
) -> Result<(), Failure> {
    the_sequence(cx, id).await?;
    let mut table =
        Table::new(&["person", "step", "", "goes on", "came (utc)", ">version", "execution"]);
    let (mut values, mut after) = (Vec::new(), after.map(Cursor::from));
    while values.len() < limit {
        let most = PAGE.min(limit - values.len());
        let page = executions::within(cx, id.as_str(), after, most).await?;
        for Inside { id, email, started_at, execution } in page.inside {
            // Whoever has just gone out is in it no more.
            let Some(execution) = execution else { continue };
            values.push(shown(&execution));
            table.row(vec![
                email.to_string(),
                execution.step.clone(),
                doing(&execution),
                goes_on(&execution, cx),
                minute(started_at),
                execution.version.to_string(),
                id.to_string(),
            ]);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    form.list(&values, &table, &format!("Nobody is in {id}"))?;
    if let Some(after) = after {
        say(&format!("There are more: --after {}", after.as_str()));
    }
    Ok(())
}

fn goes_on(execution: &Execution, cx: &Cx) -> String {
    from_now(execution.next_at(), cx.now())
}

pub(super) async fn of(form: Form, cx: &Cx, email: &EmailAddress) -> Result<(), Failure> {
    let mut table =
        Table::new(&["sequence", "step", "", "goes on", "(utc)", ">version", "execution"]);
    let mut values = Vec::new();
    for execution in executions::of_contact(cx, email).await? {
        values.push(shown(&execution));
        table.row(vec![
            execution.sequence.clone(),
            execution.step.clone(),
            doing(&execution),
            goes_on(&execution, cx),
            minute(execution.next_at()),
            execution.version.to_string(),
            execution.id.to_string(),
        ]);
    }
    form.list(&values, &table, &format!("{email} is in no sequence"))
}

pub(super) async fn skip(form: Form, cx: &Cx, id: &ExecutionId) -> Result<(), Failure> {
    let moved = executions::skip_wait(cx, &Versions::default(), id).await;
    let moved = moved.map_err(|error| match error {
        SkipError::Missing(_) | SkipError::NotWaiting(_) => {
            Failure::from(error).hint("`tidings sequence of EMAIL` shows where somebody is")
        }
        SkipError::Store(_) => error.into(),
    })?;
    let step = if moved.step.is_empty() { "its end" } else { &moved.step };
    form.print(&shown(&moved), &format!("{} goes on with {step}", moved.email))
}
