//! What a step is called that its author has given no name: its place.
//!
//! `1`, `2`, `3.then.1`, `3.else.2`, `4.pro.1`, `4.default.1`. An author's own name begins with a letter, and so it is never
//! the place of another.

use std::collections::BTreeSet;

use super::{Action, Branch, Step, WaitFor};

/// Says to each step where it stands, and gives it its place as a name if it has none.
pub(super) fn assign(steps: &mut [Step]) {
    assign_within(steps, "", "/steps");
}

/// Whether this is an author's name for a step, and not a place.
pub(super) fn is_given(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn assign_within(steps: &mut [Step], prefix: &str, pointer: &str) {
    for (number, step) in steps.iter_mut().enumerate() {
        let place = format!("{prefix}{}", number + 1);
        let pointer = format!("{pointer}/{number}");
        match &mut step.action {
            Action::Condition { then, otherwise, .. }
            | Action::WaitFor(WaitFor { then, otherwise, .. }) => {
                assign_within(then, &format!("{place}.then."), &format!("{pointer}/then"));
                assign_within(otherwise, &format!("{place}.else."), &format!("{pointer}/else"));
            }
            Action::Choice { branches, default, .. } => {
                for (number, name) in names(branches).into_iter().enumerate() {
                    assign_within(
                        &mut branches[number].steps,
                        &format!("{place}.{name}."),
                        &format!("{pointer}/branches/{number}/steps"),
                    );
                }
                assign_within(default, &format!("{place}.default."), &format!("{pointer}/default"));
            }
            Action::Send(_)
            | Action::Wait(_)
            | Action::Tag { .. }
            | Action::Set(_)
            | Action::Inbox(_)
            | Action::Webhook { .. }
            | Action::Exit { .. } => {}
        }
        if !is_given(&step.id) {
            step.id = place;
        }
        step.pointer = pointer;
    }
}

/// A branch by its value, if that is a plain word and no other branch's; else by its number: `~2`.
fn names(branches: &[Branch]) -> Vec<String> {
    let mut taken = BTreeSet::from(["default".to_owned()]);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = |(number, branch): (usize, &Branch)| {
        let text = match &branch.value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let is_word = (1..=40).contains(&text.len()) && text.chars().all(plain);
        if is_word && taken.insert(text.clone()) { text } else { format!("~{}", number + 1) }
    };
    branches.iter().enumerate().map(name).collect()
}
