//! One thing of a folder beside what the workspace has: whether it changes, and which lines.

use tidings_access::{Cx, DisplayName};
use tidings_delivery::templates::{Change, Compared, Content, Put};
use tidings_outreach::audience::Condition;
use tidings_outreach::segments;
use tidings_people::consent::{Line, audiences, topics};
use tidings_sequences::{definition, versions};

use super::diff::Diff;
use super::plan::{Step, Thing};
use crate::failure::Failure;
use crate::sequences::Written;

pub(super) async fn topic_step(
    cx: &Cx,
    (name, topic): (DisplayName, topics::Update),
) -> Result<Step, Failure> {
    let (mut diff, mut change) = (Diff::default(), Change::Added);
    match topics::find(cx, topic.slug.clone()).await {
        Ok(there) => {
            let after = topic.description.as_ref().unwrap_or(&there.description);
            diff.compare("name", there.name.as_str(), name.as_str());
            diff.compare("description", words(&there.description), words(after));
            change = changed(&diff);
        }
        Err(topics::FindError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Step { thing: Thing::Topic(name, topic), change, diff, warnings: Vec::new() })
}

pub(super) async fn audience_step(
    cx: &Cx,
    (name, audience): (DisplayName, audiences::Update),
) -> Result<Step, Failure> {
    let (mut diff, mut change) = (Diff::default(), Change::Added);
    match audiences::find(cx, audience.slug.clone()).await {
        Ok(there) => {
            let double = audience.double_opt_in.unwrap_or(there.double_opt_in);
            let key = audience.confirm_template_key.as_ref().unwrap_or(&there.confirm_template_key);
            diff.compare("name", there.name.as_str(), name.as_str());
            diff.compare("double_opt_in", yes_or_no(there.double_opt_in), yes_or_no(double));
            diff.compare("confirm_template_key", words(&there.confirm_template_key), words(key));
            change = changed(&diff);
        }
        Err(audiences::FindError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Step { thing: Thing::Audience(name, audience), change, diff, warnings: Vec::new() })
}

pub(super) fn template_step(put: Put, compared: Compared) -> Step {
    let before = compared.before.as_ref();
    let diff = before.map_or_else(Diff::default, |before| difference(before, &put.content));
    let warnings = compared.validated.warnings;
    Step { thing: Thing::Template(Box::new(put)), change: compared.change, diff, warnings }
}

pub(super) fn sequence_step(written: Written, compared: &versions::Compared) -> Step {
    let change = match compared.change {
        versions::Change::Created => Change::Added,
        versions::Change::Changed => Change::Changed,
        versions::Change::Unchanged => Change::Unchanged,
    };
    let mut diff = Diff::default();
    if let Some(before) = &compared.before {
        let after = definition::to_json(&written.definition);
        diff.compare("definition", &laid_out(before), &laid_out(&after));
    }
    Step { thing: Thing::Sequence(Box::new(written)), change, diff, warnings: Vec::new() }
}

pub(super) async fn segment_step(
    cx: &Cx,
    written: crate::segments::Written,
    change: segments::Change,
) -> Result<Step, Failure> {
    let change = match change {
        segments::Change::Created => Change::Added,
        segments::Change::Changed => Change::Changed,
        segments::Change::Unchanged => Change::Unchanged,
    };
    let mut diff = Diff::default();
    if change == Change::Changed {
        // Somebody may have deleted it meanwhile: then all of it is new.
        match segments::find(cx, written.put.slug.clone()).await {
            Ok(there) => compare_segment(&mut diff, &there, &written.put),
            Err(segments::FindError::Missing(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let thing = Thing::Segment(Box::new(written));
    Ok(Step { thing, change, diff, warnings: Vec::new() })
}

fn compare_segment(diff: &mut Diff, there: &segments::Segment, put: &segments::Put) {
    let name = put.name.as_ref().unwrap_or(&there.name);
    diff.compare("name", there.name.as_str(), name.as_str());
    let told = (yes_or_no(there.trigger_on_build), yes_or_no(put.trigger_on_build));
    diff.compare("trigger_on_build", told.0, told.1);
    // Both in the one form that conditions have; it was read a moment ago, so it can be read.
    if let Ok(condition) = Condition::parse(&put.condition, "condition") {
        let (before, after) = (there.condition.to_json(), condition.to_json());
        diff.compare("condition", &laid_out(&before), &laid_out(&after));
    }
}

fn changed(diff: &Diff) -> Change {
    if *diff == Diff::default() { Change::Unchanged } else { Change::Changed }
}

fn words(line: &Option<Line>) -> &str {
    line.as_ref().map_or("", Line::as_str)
}

fn yes_or_no(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

/// What comes and goes, part by part.
fn difference(before: &Content, after: &Content) -> Diff {
    let mut diff = Diff::default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let one = |part: fn(&Content) -> &Option<String>| (text(part(before)), text(part(after)));
    let parts: [(&str, (String, String)); 8] = [
        ("name", one(|content| &content.name)),
        ("type", one(|content| &content.kind)),
        ("description", one(|content| &content.description)),
        ("default_sender", one(|content| &content.default_sender)),
        ("preheader", one(|content| &content.source.preheader)),
        ("mjml", one(|content| &content.source.mjml)),
        ("html", one(|content| &content.source.html)),
        ("text", one(|content| &content.source.text)),
    ];
    diff.compare("subject", &before.source.subject, &after.source.subject);
    diff.compare("required", &before.required.join("\n"), &after.required.join("\n"));
    diff.compare("examples", &laid_out(&before.examples), &laid_out(&after.examples));
    for (part, (before, after)) in &parts {
        diff.compare(part, before, after);
    }
    diff
}

/// A value in each line. The last of several has no comma, whichever that is.
fn laid_out(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(|line| line.trim_end_matches(',')).collect::<Vec<_>>().join("\n")
}
