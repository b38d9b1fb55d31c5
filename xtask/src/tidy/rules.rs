//! The rules that look at one file.

use super::File;

const MAX_LINES: usize = 800;
const MAX_BYTES: usize = 500_000;

/// What people write by hand, and others have to read.
const SOURCE: [&str; 6] = ["css", "html", "js", "rs", "sh", "sql"];

/// Names that say nothing of what is inside, and so attract everything.
const EMPTY_NAMES: [&str; 6] = ["common", "helper", "helpers", "manager", "util", "utils"];

// In two parts, or these lines would break their own rules.
const MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const MACHINE_FOLDERS: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// What is wrong with a file.
pub(super) fn check(file: &File) -> Vec<String> {
    let rules =
        [says_what_lives_here, is_short, is_small, is_named, numbers_its_marks, is_of_no_machine];
    rules.iter().flat_map(|rule| rule(file)).collect()
}

/// A source file opens with what lives in it.
pub(super) fn says_what_lives_here(file: &File) -> Vec<String> {
    let in_src = file.path.starts_with("src/") || file.path.contains("/src/");
    let said = file.bytes.starts_with(b"//!");
    if in_src && extension(file) == "rs" && !said {
        return vec![format!(
            "{}:1: opens without a //! line that says what lives here",
            file.path
        )];
    }
    Vec::new()
}

/// A source file can be read in one sitting.
pub(super) fn is_short(file: &File) -> Vec<String> {
    let lines = file.lines().count();
    if SOURCE.contains(&extension(file)) && lines > MAX_LINES {
        return vec![format!("{}: has {lines} lines, and {MAX_LINES} are the most", file.path)];
    }
    Vec::new()
}

/// A clone stays quick.
pub(super) fn is_small(file: &File) -> Vec<String> {
    let bytes = file.bytes.len();
    if bytes > MAX_BYTES {
        return vec![format!("{}: has {bytes} bytes, and {MAX_BYTES} are the most", file.path)];
    }
    Vec::new()
}

/// Files, folders and modules are named after what they hold.
pub(super) fn is_named(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            findings.push(format!("{}: {stem:?} says nothing of what is inside", file.path));
        }
    }
    if extension(file) == "rs" {
        for (number, line) in file.lines() {
            let Some((before, after)) = line.split_once("mod ") else { continue };
            let declared = before.trim().is_empty() || before.trim_start().starts_with("pub");
            let name = after.split([' ', ';', '{']).next().unwrap_or(after);
            if declared && EMPTY_NAMES.contains(&name) {
                findings.push(format!(
                    "{}:{number}: {name:?} says nothing of what is inside",
                    file.path
                ));
            }
        }
    }
    findings
}

/// What is left to do has an issue, whose number follows the mark: `(#12)`.
pub(super) fn numbers_its_marks(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for mark in MARKS {
            for (at, _) in line.match_indices(mark) {
                let after = &line[at + mark.len()..];
                if is_a_word(line, at, after) && !begins_with_an_issue(after) {
                    findings.push(format!(
                        "{}:{number}: {mark} without an issue, as in {mark}(#12)",
                        file.path
                    ));
                }
            }
        }
    }
    findings
}

/// The project does not know on which machine it was written.
pub(super) fn is_of_no_machine(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for folder in MACHINE_FOLDERS {
            // Inside a longer path or an address, it is a folder like any other.
            let absolute =
                |(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
            if line.match_indices(folder).any(absolute) {
                findings.push(format!(
                    "{}:{number}: {folder} is a folder of somebody's machine",
                    file.path
                ));
            }
        }
    }
    findings
}

fn extension(file: &File) -> &str {
    file.path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_a_word(line: &str, at: usize, after: &str) -> bool {
    let part_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    !line[..at].ends_with(part_of_a_word) && !after.starts_with(part_of_a_word)
}

fn begins_with_an_issue(text: &str) -> bool {
    let number = text.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    number
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
