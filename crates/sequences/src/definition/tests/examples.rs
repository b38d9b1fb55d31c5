//! The examples that ship are right, and have the mails that they send.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::definition::{Action, Check, Definition, mermaid, read};

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

#[test]
fn the_examples_are_read_and_have_their_mails() {
    let examples = examples();
    let names: Vec<_> = examples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["onboarding", "trial-ending", "win-back"]);
    for (name, definition) in &examples {
        assert_eq!(definition.id.as_str(), name);
        // Whoever is asked for must be sent, too: a slip in the key would never be so.
        let sent: BTreeSet<_> =
            definition.templates_sent().into_iter().map(|(_, key)| key).collect();
        for step in definition.all_steps() {
            if let Action::Condition { check, .. } = &step.action
                && let Check::HasBeenSent(key) | Check::HasOpened(key) | Check::HasClicked(key) =
                    check
            {
                assert!(sent.contains(key), "{name} asks for {key}, which it does not send");
            }
        }
        for key in sent {
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
