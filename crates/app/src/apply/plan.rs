//! What a folder would change, and the change itself.
//!
//! Each thing is written by itself and can be written again, so an apply that was cut off goes on when it is repeated.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidings_access::{Cx, DisplayName, Limit, Slug};
use tidings_delivery::confirmation;
use tidings_delivery::templates::{self, Change, Put, PutError, TemplateKey, Then};
use tidings_leads::memory::rules;
use tidings_outreach::segments;
use tidings_people::consent::preferences::MAX_TOPICS;
use tidings_people::consent::{Line, audiences, topics};
use tidings_sequences::versions::{self, Coming};
use tidings_templates::partials_named;

use super::diff::Diff;
use super::folder::{Audience, Folder, Topic};
use super::steps::{audience_step, segment_step, sequence_step, template_step, topic_step};
use crate::failure::Failure;
use crate::memory_rules;
use crate::sequences::Written;

/// Things in the order in which they are written: those that others need come first.
pub(super) struct Plan {
    steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) thing: Thing,
    pub(super) change: Change,
    /// Of what was there before, if it is known.
    pub(super) diff: Diff,
    pub(super) warnings: Vec<String>,
}

pub(super) enum Thing {
    Topic(DisplayName, topics::Update),
    Audience(DisplayName, audiences::Update),
    Template(Box<Put>),
    Segment(Box<crate::segments::Written>),
    Sequence(Box<Written>),
    MemoryRules(Box<memory_rules::Written>),
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
        let (partials, mut coming) = (bodies(&folder.templates), coming(&steps, &folder.templates));
        faults.extend(not_confirming(cx, &steps, &coming.templates).await?);
        coming.segments = folder.segments.iter().map(|written| written.put.slug.clone()).collect();
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
        for written in folder.segments {
            match segments::compare(cx, &written.put, &coming.audiences).await {
                Ok(change) => steps.push(segment_step(cx, written, change).await?),
                Err(segments::PutError::Wrong(found)) => faults.extend(written.told(&found)),
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
        for written in folder.memory_rules {
            let change = match rules::change(cx, &written.name, &written.set).await? {
                rules::Change::Added => Change::Added,
                rules::Change::Changed => Change::Changed,
                rules::Change::Unchanged => Change::Unchanged,
            };
            let thing = Thing::MemoryRules(Box::new(written));
            steps.push(Step { thing, change, diff: Diff::default(), warnings: Vec::new() });
        }
        faults.extend(too_many(cx, &steps).await?);
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
                Thing::Segment(written) => ("segment", written.put.slug.as_str()),
                Thing::Sequence(written) => ("sequence", written.definition.id.as_str()),
                Thing::MemoryRules(written) => ("memory_rules", written.name.as_str()),
            };
            let change = match step.change {
                Change::Added => "added",
                Change::Changed => "changed",
                Change::Activated => "activated",
                Change::Unchanged => "unchanged",
            };
            let mut line = json!({"kind": kind, "key": key, "change": change});
            if step.change == Change::Changed && kind != "memory_rules" {
                line["lines_added"] = step.diff.added.into();
                line["lines_removed"] = step.diff.removed.into();
                line["diff"] = step.diff.lines().into();
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
        Thing::Segment(written) => {
            segments::put(cx, written.put).await?;
            Ok(())
        }
        Thing::Sequence(written) => match versions::put(cx, written.definition.clone()).await {
            Ok(_) => Ok(()),
            // As with templates.
            Err(versions::PutError::Faults(faults)) => {
                Err(Failure::failed(written.told(&faults).concat()).hint("apply it again"))
            }
            Err(error) => Err(error.into()),
        },
        Thing::MemoryRules(written) => {
            rules::put(cx, &written.name, written.set.clone()).await?;
            Ok(())
        }
    }
}

/// What is there when the sequences are written. A template that stays a draft cannot be sent.
fn coming(steps: &[Step], templates: &[Put]) -> Coming {
    let mut coming = Coming::default();
    for step in steps {
        match &step.thing {
            Thing::Topic(_, topic) => drop(coming.topics.insert(topic.slug.clone())),
            Thing::Audience(_, audience) => drop(coming.audiences.insert(audience.slug.clone())),
            Thing::Template(_) | Thing::Segment(_) | Thing::Sequence(_) | Thing::MemoryRules(_) => {
            }
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
    let mut seen = BTreeSet::new();
    for step in steps {
        let (file, slug) = match &step.thing {
            Thing::Topic(_, topic) => ("topics.toml", &topic.slug),
            Thing::Audience(_, audience) => ("audiences.toml", &audience.slug),
            Thing::Template(_) | Thing::Segment(_) | Thing::Sequence(_) | Thing::MemoryRules(_) => {
                continue;
            }
        };
        if !seen.insert((file, slug)) {
            faults.push(format!("{file}: {slug} is there twice"));
        }
    }
}

/// Of what a workspace has only so many: more than there is room for.
async fn too_many(cx: &Cx, steps: &[Step]) -> Result<Vec<String>, Failure> {
    let added = |is: fn(&Thing) -> bool| {
        steps.iter().filter(|step| step.change == Change::Added && is(&step.thing)).count()
    };
    let mut faults = Vec::new();
    let topics_added = added(|thing| matches!(thing, Thing::Topic(..)));
    // A page holds as many as there can be.
    if topics_added > 0
        && topics::list(cx, None, Limit::MAX).await?.items.len() + topics_added > MAX_TOPICS
    {
        faults.push(format!("topics.toml: {}", topics::CreateError::TooMany));
    }
    let segments_added = added(|thing| matches!(thing, Thing::Segment(_)));
    if segments_added > 0
        && segments::list(cx).await?.len() + segments_added > segments::MAX_SEGMENTS
    {
        faults.push(format!("segments: {}", segments::PutError::TooMany));
    }
    let sets_added = added(|thing| matches!(thing, Thing::MemoryRules(_)));
    if sets_added > 0 && rules::list(cx).await?.len() + sets_added > rules::MAX_SETS {
        faults.push(format!("memory_rules: {}", rules::PutError::TooMany));
    }
    Ok(faults)
}

/// Audiences whose template for confirmations will not be there.
async fn not_confirming(
    cx: &Cx,
    steps: &[Step],
    coming: &BTreeSet<TemplateKey>,
) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    for step in steps {
        let Thing::Audience(_, audience) = &step.thing else { continue };
        let Some(Some(key)) = &audience.confirm_template_key else { continue };
        let slug = &audience.slug;
        if let Some(wrong) = confirmation::wrong_template(cx, key.as_str(), coming).await? {
            faults.push(format!("audiences.toml: {slug}: confirm_template_key: {wrong}"));
        }
    }
    Ok(faults)
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
        let names: BTreeSet<String> = waiting
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
