//! Looking at sequences: which there are, what they are, how people go through them, and how somebody would.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Cx, Limit, Slug};
use tidings_sequences::definition::{from_json, mermaid};
use tidings_sequences::executions::{self, Simulate, SimulateError, StepNumbers};
use tidings_sequences::versions::{self, List, Sequence, Shown, Status, Versions};

use super::form::{Form, Table, minute};
use super::yaml::yaml;
use super::{explain, missing, missing_version, the_sequence};
use crate::campaigns::grouped;
use crate::failure::Failure;
use crate::output::say;

pub(super) async fn list(
    form: Form,
    cx: &Cx,
    status: Option<Status>,
    limit: usize,
) -> Result<(), Failure> {
    let mut table =
        Table::new(&["sequence", "status", ">version", ">active", "begins with", "name"]);
    let (mut values, mut after) = (Vec::new(), None);
    while values.len() < limit {
        let page =
            versions::list(cx, List { client: None, status, after, limit: Limit::MAX }).await?;
        for one in page.items.iter().take(limit - values.len()) {
            let active = executions::active(cx, &one.id).await?;
            values.push(about(one, active));
            table.row(vec![
                one.id.clone(),
                one.status.to_string(),
                one.version.to_string(),
                count(active),
                one.trigger.clone().unwrap_or_else(|| "(by hand)".to_owned()),
                one.name.clone().unwrap_or_default(),
            ]);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    form.list(&values, &table, "There are no sequences yet; `tidings apply FOLDER` brings some")
}

fn about(one: &Sequence, active: u64) -> serde_json::Value {
    json!({
        "id": one.id,
        "name": one.name,
        "client": one.client_slug,
        "transactional": one.transactional,
        "trigger": one.trigger,
        "status": one.status.as_str(),
        "version": one.version,
        "active": active,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
    })
}

/// How it is to be shown.
pub(super) enum Look {
    Whole,
    Mermaid,
    Yaml,
}

pub(super) async fn show(
    form: Form,
    cx: &Cx,
    (id, version): (&Slug, Option<i64>),
    look: Look,
) -> Result<(), Failure> {
    let Shown { sequence, definition, .. } = the_sequence(cx, id).await?;
    let definition = match version.filter(|wanted| *wanted != sequence.version) {
        Some(wanted) => {
            let found = versions::definition_of(cx, id.as_str(), wanted).await?;
            found.ok_or_else(|| missing_version(id, wanted))?
        }
        None => definition,
    };
    let mut out = form.out();
    match look {
        Look::Mermaid => {
            let read = from_json(&definition);
            let read = read.map_err(|_| Failure::failed("the definition cannot be read"))?;
            out.text(&mermaid(&read))?;
        }
        Look::Yaml => out.text(&yaml(&definition))?,
        Look::Whole => {
            let active = executions::active(cx, id.as_str()).await?;
            let mut value = about(&sequence, active);
            value["shown_version"] = version.unwrap_or(sequence.version).into();
            value["definition"] = definition.clone();
            if let Form::Json(_) = form {
                out.json(&value)?;
            } else {
                let shown = version.unwrap_or(sequence.version);
                let active_one = if shown == sequence.version { ", the active one" } else { "" };
                let head = format!(
                    "# {} is {}; {} in it now. Version {shown}{active_one}, changed {} UTC.\n\n",
                    sequence.id,
                    sequence.status,
                    count(active),
                    minute(sequence.updated_at)
                );
                out.text(&(head + &yaml(&definition)))?;
            }
        }
    }
    out.finish()
}

pub(super) async fn list_versions(
    form: Form,
    cx: &Cx,
    id: &Slug,
    limit: usize,
) -> Result<(), Failure> {
    let active = the_sequence(cx, id).await?.sequence.version;
    let mut table = Table::new(&[">version", "made (UTC)", "by", ""]);
    let (mut values, mut before) = (Vec::new(), None);
    while values.len() < limit {
        let page = versions::versions(cx, id.as_str(), before, Limit::MAX).await?;
        for one in page.items.iter().take(limit - values.len()) {
            let is_active = one.version == active;
            values.push(json!({
                "version": one.version, "active": is_active, "created_at": one.created_at,
                "created_by": one.created_by, "hash": one.hash,
            }));
            let mark = if is_active { "active" } else { "" };
            let made = minute(one.created_at);
            table.row(vec![one.version.to_string(), made, one.created_by.clone(), mark.to_owned()]);
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    form.list(&values, &table, "")
}

pub(super) async fn set_status(
    form: Form,
    cx: &Cx,
    id: &Slug,
    status: Status,
) -> Result<(), Failure> {
    let changed = versions::set_status(cx, id.as_str(), status).await;
    let changed = changed.map_err(|error| match error {
        versions::SetStatusError::Missing(_) => missing(id),
        versions::SetStatusError::Store(_) => error.into(),
    })?;
    let active = executions::active(cx, id.as_str()).await?;
    let inside = match status {
        Status::Active => "people come in".to_owned(),
        Status::Paused | Status::Archived => {
            format!("nobody comes in; {} who are in it go on", count(active))
        }
    };
    form.print(&about(&changed, active), &format!("{id} is {status}: {inside}"))
}

pub(super) async fn funnel(
    form: Form,
    cx: &Cx,
    id: &Slug,
    version: Option<i64>,
) -> Result<(), Failure> {
    let version = match version {
        Some(version) => version,
        None => the_sequence(cx, id).await?.sequence.version,
    };
    let program = Versions::default().program(cx, id.as_str(), version).await?;
    let program = program.ok_or_else(|| missing_version(id, version))?;
    let funnel = executions::funnel(cx, &program, version).await?;
    let mut table = Table::new(&[
        "step", "does", ">entered", ">waiting", ">passed", ">skipped", ">failed", ">left",
    ]);
    let mut steps = Vec::new();
    for (numbers, place) in funnel.steps.iter().zip(&program.places) {
        let StepNumbers { step, entered, waiting, passed, skipped, failed, left } = numbers;
        let does = super::words::does(&place.op);
        steps.push(json!({
            "step": step, "does": does, "entered": entered, "waiting": waiting, "passed": passed,
            "skipped": skipped, "failed": failed, "left": left,
        }));
        let branch = "  ".repeat(depth(step));
        let mut cells = vec![format!("{branch}{step}"), does];
        cells.extend([entered, waiting, passed, skipped, failed, left].map(|n| number(*n)));
        table.row(cells);
    }
    if let Form::Json(_) = form {
        let value = json!({
            "sequence": id.as_str(), "version": funnel.version, "entered": funnel.entered,
            "active": funnel.active, "completed": funnel.completed, "failed": funnel.failed,
            "left": funnel.left, "steps": steps,
        });
        return form.print(&value, "");
    }
    let head = format!(
        "{id}, version {}: {} entered; {} in it now, {} at the end, {} left, {} failed.\n\n",
        funnel.version,
        grouped(funnel.entered),
        grouped(funnel.active),
        grouped(funnel.completed),
        grouped(funnel.left),
        grouped(funnel.failed),
    );
    let mut out = form.out();
    out.text(&(head + &table.to_string()))?;
    out.finish()
}

/// `3.then.1` is in a branch. A step with a name of its author's tells nothing of it.
fn depth(step: &str) -> usize {
    if step.starts_with(|c: char| c.is_ascii_digit()) { step.matches('.').count() / 2 } else { 0 }
}

/// Nothing is easier to pass over than a zero.
fn number(count: i64) -> String {
    if count == 0 { "·".to_owned() } else { grouped(count) }
}

fn count(number: u64) -> String {
    grouped(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) async fn simulate(form: Form, cx: &Cx, cmd: Simulate) -> Result<(), Failure> {
    let versions = Versions::default();
    let simulated = executions::simulate(cx, &versions, &cmd).await;
    let simulated = simulated.map_err(|error| match error {
        SimulateError::Missing(_) => {
            Failure::from(error).hint("`tidings sequence list` shows those that there are")
        }
        SimulateError::Store(_) => error.into(),
    })?;
    if let Some(reason) = simulated.refused {
        let active = versions.active(cx, &cmd.sequence).await?;
        let why = active.map(|active| explain(cx, &active.program.definition, &cmd.email));
        let why = why.map(|why| format!("; `{why}` says why")).unwrap_or_default();
        say(&format!("{} would not come in: {reason}{why}", cmd.email));
    }
    let mut table = Table::new(&["time (utc)", "after", "step", "does", ""]);
    let mut values = Vec::new();
    for one in &simulated.walked {
        values.push(json!({
            "at": one.at, "step": one.step, "kind": one.kind, "told": one.told,
        }));
        let after = crate::campaigns::long(one.at.duration_since(cmd.at));
        let (step, kind) = (one.step.clone(), one.kind.to_owned());
        table.row(vec![day_and_minute(one.at), after, step, kind, readable(&one.told)]);
    }
    let end = simulated.ended_at;
    values.push(json!({ "at": end, "step": "", "kind": "end", "told": "" }));
    let after = crate::campaigns::long(end.duration_since(cmd.at));
    table.row(vec![day_and_minute(end), after, String::new(), "end".to_owned(), String::new()]);
    form.list(&values, &table, "")
}

/// Windows and weekdays decide much of it.
fn day_and_minute(at: Timestamp) -> String {
    at.strftime("%a %Y-%m-%d %H:%M").to_string()
}

/// With the times in it as the others have them.
fn readable(told: &str) -> String {
    let words = told.split(' ').map(|word| match word.parse::<Timestamp>() {
        Ok(at) => day_and_minute(at),
        Err(_) => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
