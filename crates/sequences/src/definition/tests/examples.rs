//! The examples that ship are right, and have the mails that they send.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::definition::{Action, Check, Definition, Mail, Step, WaitFor, mermaid, read};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sequences")
}

fn examples() -> Vec<(String, Definition)> {
    let mut files: Vec<_> = std::fs::read_dir(folder().join("sequences"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let definition = read(&text);
        let definition =
            definition.unwrap_or_else(|faults| panic!("{}: {faults:#?}", path.display()));
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), definition)
    };
    files.into_iter().map(read).collect()
}

/// The templates that the steps send or ask for.
fn templates<'d>(steps: &'d [Step], found: &mut BTreeSet<&'d str>) {
    for step in steps {
        match &step.action {
            Action::Send(mails) => {
                found.extend(mails.all().iter().map(|Mail { template, .. }| template.as_str()));
            }
            Action::WaitFor(WaitFor { then, otherwise, .. }) => {
                templates(then, found);
                templates(otherwise, found);
            }
            Action::Condition { check, then, otherwise } => {
                if let Check::HasBeenSent(key) | Check::HasOpened(key) | Check::HasClicked(key) =
                    check
                {
                    found.insert(key.as_str());
                }
                templates(then, found);
                templates(otherwise, found);
            }
            Action::Choice { branches, default, .. } => {
                branches.iter().for_each(|branch| templates(&branch.steps, found));
                templates(default, found);
            }
            Action::Wait(_)
            | Action::Tag { .. }
            | Action::Set(_)
            | Action::Webhook { .. }
            | Action::Exit { .. } => {}
        }
    }
}

#[test]
fn the_examples_are_read_and_have_their_mails() {
    let examples = examples();
    let names: Vec<_> = examples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["onboarding", "trial-ending", "win-back"]);
    for (name, definition) in &examples {
        assert_eq!(definition.id.as_str(), name);
        let mut named = BTreeSet::new();
        templates(&definition.steps, &mut named);
        named.extend(definition.events.iter().map(|one| one.mail.template.as_str()));
        for key in named {
            let file = |end: &str| folder().join("templates").join(format!("{key}.{end}"));
            assert!(
                file("mjml").exists() || file("html").exists(),
                "{name} sends {key}, which is not there"
            );
        }
    }
}

#[test]
fn the_examples_are_drawn() {
    for (name, definition) in examples() {
        insta::assert_snapshot!(name, mermaid(&definition));
    }
}
