//! What a folder would change, and the change itself.
//!
//! Each thing is written by itself and can be written again, so an apply that was cut off goes on when it is repeated.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidings_access::{Cx, DisplayName, Slug};
use tidings_delivery::templates::{self, Change, Compared, Content, Put, PutError, Then};
use tidings_people::consent::{Line, audiences, topics};
use tidings_sequences::versions::{self, Coming};
use tidings_templates::partials_named;

use super::folder::{Audience, Folder, Topic};
use crate::failure::Failure;
use crate::sequences::{self, Written};

/// Things in the order in which they are written: those that others need come first.
pub(super) struct Plan {
    steps: Vec<Step>,
}

struct Step {
    thing: Thing,
    change: Change,
    /// Lines that come and go, for templates and sequences.
    lines: (usize, usize),
    warnings: Vec<String>,
}

enum Thing {
    Topic(DisplayName, topics::Update),
    Audience(DisplayName, audiences::Update),
    Template(Box<Put>),
    Sequence(Box<Written>),
}

impl Plan {
    /// The outer error is the store's; the inner is everything that is wrong with the folder.
    pub(super) async fn make(
        cx: &Cx,
        folder: Folder,
    ) -> Result<Result<Self, Vec<String>>, Failure> {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for topic in folder.topics {
            match read_topic(topic) {
                Ok(topic) => steps.push(topic_step(cx, topic).await?),
                Err(fault) => faults.push(fault),
            }
        }
        for audience in folder.audiences {
            match read_audience(audience) {
                Ok(audience) => steps.push(audience_step(cx, audience).await?),
                Err(fault) => faults.push(fault),
            }
        }
        twice(&steps, &mut faults);
        let (partials, coming) = (bodies(&folder.templates), coming(&steps, &folder.templates));
        for put in ordered(folder.templates) {
            match templates::compare(cx, &put, &partials).await {
                Ok(compared) => steps.push(template_step(put, compared)),
                Err(PutError::Faults(found)) => {
                    faults.extend(
                        found.iter().map(|fault| format!("templates/{}: {fault}", put.key)),
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        for written in folder.sequences {
            match versions::compare_with(cx, &written.definition, &coming).await {
                Ok(compared) => steps.push(sequence_step(written, &compared)),
                Err(versions::PutError::Faults(found)) => faults.extend(written.told(&found)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(if faults.is_empty() { Ok(Self { steps }) } else { Err(faults) })
    }

    pub(super) fn changes(&self) -> usize {
        self.steps.iter().filter(|step| step.change != Change::Unchanged).count()
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// One line for each thing, changed or not.
    pub(super) fn lines(&self) -> impl Iterator<Item = Value> {
        self.steps.iter().map(|step| {
            let (kind, key) = match &step.thing {
                Thing::Topic(_, topic) => ("topic", topic.slug.as_str()),
                Thing::Audience(_, audience) => ("audience", audience.slug.as_str()),
                Thing::Template(put) => ("template", put.key.as_str()),
                Thing::Sequence(written) => ("sequence", written.definition.id.as_str()),
            };
            let change = match step.change {
                Change::Added => "added",
                Change::Changed => "changed",
                Change::Activated => "activated",
                Change::Unchanged => "unchanged",
            };
            let mut line = json!({"kind": kind, "key": key, "change": change});
            if step.change == Change::Changed && matches!(kind, "template" | "sequence") {
                line["lines_added"] = step.lines.0.into();
                line["lines_removed"] = step.lines.1.into();
            }
            if !step.warnings.is_empty() {
                line["warnings"] = json!(step.warnings);
            }
            line
        })
    }

    pub(super) async fn write(
        self,
        cx: &Cx,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), Failure> {
        for (position, step) in self.steps.into_iter().enumerate() {
            if step.change != Change::Unchanged {
                write(cx, step.thing).await?;
            }
            if (position + 1) % 100 == 0 {
                progress(position + 1);
            }
        }
        Ok(())
    }
}

async fn write(cx: &Cx, thing: Thing) -> Result<(), Failure> {
    match thing {
        Thing::Topic(name, topic) => {
            let create = topics::Create {
                slug: topic.slug.clone(),
                name,
                description: topic.description.clone().flatten(),
            };
            match topics::create(cx, create).await {
                Ok(_) => Ok(()),
                Err(topics::CreateError::Taken(_)) => {
                    topics::update(cx, topic).await?;
                    Ok(())
                }
                Err(error) => Err(error.into()),
            }
        }
        Thing::Audience(name, audience) => {
            let create = audiences::Create {
                slug: audience.slug.clone(),
                name,
                double_opt_in: audience.double_opt_in.unwrap_or_default(),
                confirm_template_key: audience.confirm_template_key.clone().flatten(),
            };
            match audiences::create(cx, create).await {
                Ok(_) => Ok(()),
                Err(audiences::CreateError::Taken(_)) => {
                    audiences::update(cx, audience).await?;
                    Ok(())
                }
                Err(error) => Err(error.into()),
            }
        }
        Thing::Template(put) => {
            let key = put.key.clone();
            match templates::put(cx, *put).await {
                Ok(_) => Ok(()),
                // It was checked a moment ago: somebody changed a partial meanwhile.
                Err(PutError::Faults(faults)) => {
                    let told = faults.first().map_or_else(String::new, ToString::to_string);
                    Err(Failure::failed(format!("templates/{key}: {told}")).hint("apply it again"))
                }
                Err(error) => Err(error.into()),
            }
        }
        Thing::Sequence(written) => match versions::put(cx, written.definition.clone()).await {
            Ok(_) => Ok(()),
            // As with templates.
            Err(versions::PutError::Faults(faults)) => {
                Err(Failure::failed(written.told(&faults).concat()).hint("apply it again"))
            }
            Err(error) => Err(error.into()),
        },
    }
}

async fn topic_step(
    cx: &Cx,
    (name, topic): (DisplayName, topics::Update),
) -> Result<Step, Failure> {
    let change = match topics::find(cx, topic.slug.clone()).await {
        Ok(there)
            if there.name == name
                && topic.description.as_ref().is_none_or(|wanted| *wanted == there.description) =>
        {
            Change::Unchanged
        }
        Ok(_) => Change::Changed,
        Err(topics::FindError::Missing(_)) => Change::Added,
        Err(error) => return Err(error.into()),
    };
    Ok(Step { thing: Thing::Topic(name, topic), change, lines: (0, 0), warnings: Vec::new() })
}

async fn audience_step(
    cx: &Cx,
    (name, audience): (DisplayName, audiences::Update),
) -> Result<Step, Failure> {
    let change = match audiences::find(cx, audience.slug.clone()).await {
        Ok(there)
            if there.name == name
                && audience.double_opt_in.is_none_or(|wanted| wanted == there.double_opt_in)
                && audience
                    .confirm_template_key
                    .as_ref()
                    .is_none_or(|wanted| *wanted == there.confirm_template_key) =>
        {
            Change::Unchanged
        }
        Ok(_) => Change::Changed,
        Err(audiences::FindError::Missing(_)) => Change::Added,
        Err(error) => return Err(error.into()),
    };
    Ok(Step { thing: Thing::Audience(name, audience), change, lines: (0, 0), warnings: Vec::new() })
}

fn template_step(put: Put, compared: Compared) -> Step {
    let lines = compared.before.map_or((0, 0), |before| difference(&before, &put.content));
    let warnings = compared.validated.warnings;
    Step { thing: Thing::Template(Box::new(put)), change: compared.change, lines, warnings }
}

fn sequence_step(written: Written, compared: &versions::Compared) -> Step {
    let change = match compared.change {
        versions::Change::Created => Change::Added,
        versions::Change::Changed => Change::Changed,
        versions::Change::Unchanged => Change::Unchanged,
    };
    let before = compared.before.as_ref();
    let lines = before.map_or((0, 0), |before| sequences::difference(before, &written.definition));
    Step { thing: Thing::Sequence(Box::new(written)), change, lines, warnings: Vec::new() }
}

/// What is there when the sequences are written. A template that stays a draft cannot be sent.
fn coming(steps: &[Step], templates: &[Put]) -> Coming {
    let mut coming = Coming::default();
    for step in steps {
        match &step.thing {
            Thing::Topic(_, topic) => drop(coming.topics.insert(topic.slug.clone())),
            Thing::Audience(_, audience) => drop(coming.audiences.insert(audience.slug.clone())),
            Thing::Template(_) | Thing::Sequence(_) => {}
        }
    }
    let active = templates.iter().filter(|put| put.then == Then::Activate);
    coming.templates.extend(active.map(|put| put.key.clone()));
    coming
}

fn read_topic(topic: Topic) -> Result<(DisplayName, topics::Update), String> {
    let place = format!("topics.toml: {}", topic.slug);
    let slug = topic.slug.parse::<Slug>().map_err(|error| format!("{place}: slug: {error}"))?;
    let name =
        topic.name.parse::<DisplayName>().map_err(|error| format!("{place}: name: {error}"))?;
    let description = line(topic.description, &format!("{place}: description"))?;
    Ok((name.clone(), topics::Update { slug, name: Some(name), description }))
}

fn read_audience(audience: Audience) -> Result<(DisplayName, audiences::Update), String> {
    let place = format!("audiences.toml: {}", audience.slug);
    let slug = audience.slug.parse::<Slug>().map_err(|error| format!("{place}: slug: {error}"))?;
    let name = audience.name.parse::<DisplayName>();
    let name = name.map_err(|error| format!("{place}: name: {error}"))?;
    let confirm = format!("{place}: confirm_template_key");
    let update = audiences::Update {
        slug,
        name: Some(name.clone()),
        double_opt_in: audience.double_opt_in,
        confirm_template_key: line(audience.confirm_template_key, &confirm)?,
    };
    Ok((name, update))
}

/// Nothing said changes nothing; an empty text takes away what is there.
fn line(text: Option<String>, place: &str) -> Result<Option<Option<Line>>, String> {
    let Some(text) = text else { return Ok(None) };
    if text.trim().is_empty() {
        return Ok(Some(None));
    }
    text.parse::<Line>().map(|line| Some(Some(line))).map_err(|error| format!("{place}: {error}"))
}

/// A topic or an audience that the folder says two things about.
fn twice(steps: &[Step], faults: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    for step in steps {
        let (file, slug) = match &step.thing {
            Thing::Topic(_, topic) => ("topics.toml", &topic.slug),
            Thing::Audience(_, audience) => ("audiences.toml", &audience.slug),
            Thing::Template(_) | Thing::Sequence(_) => continue,
        };
        if !seen.insert((file, slug)) {
            faults.push(format!("{file}: {slug} is there twice"));
        }
    }
}

/// The partials of the folder, by the names that others call them.
fn bodies(puts: &[Put]) -> BTreeMap<String, String> {
    let partials = puts.iter().filter_map(|put| {
        let name = put.key.as_str().strip_prefix("partials/")?;
        Some((name.to_owned(), put.content.partial_body()?.to_owned()))
    });
    partials.collect()
}

/// Partials before those that call them. A circle is left as it is: it is refused when it is checked.
fn ordered(puts: Vec<Put>) -> Vec<Put> {
    let (mut waiting, templates): (Vec<Put>, Vec<Put>) =
        puts.into_iter().partition(|put| put.key.is_partial());
    let mut ready = Vec::with_capacity(waiting.len() + templates.len());
    loop {
        let names: std::collections::BTreeSet<String> = waiting
            .iter()
            .filter_map(|put| Some(put.key.as_str().strip_prefix("partials/")?.to_owned()))
            .collect();
        let calls_waiting = |put: &Put| {
            let body = put.content.partial_body().unwrap_or_default();
            partials_named(body).iter().any(|name| names.contains(name))
        };
        let (later, now): (Vec<Put>, Vec<Put>) = waiting.into_iter().partition(calls_waiting);
        let stuck = now.is_empty();
        ready.extend(now);
        if stuck {
            ready.extend(later);
            break;
        }
        waiting = later;
    }
    ready.extend(templates);
    ready
}

/// How many lines come and go, over all parts.
fn difference(before: &Content, after: &Content) -> (usize, usize) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for (content, step) in [(before, -1), (after, 1)] {
        let source = &content.source;
        let parts = [&source.html, &source.mjml, &source.text, &source.preheader];
        for part in parts.into_iter().flatten().chain([&source.subject]) {
            for line in part.lines() {
                *counts.entry(line).or_default() += step;
            }
        }
    }
    let sum = |sign: i64| {
        let lines = counts.values().map(|count| (count * sign).max(0));
        usize::try_from(lines.sum::<i64>()).unwrap_or_default()
    };
    (sum(1), sum(-1))
}
