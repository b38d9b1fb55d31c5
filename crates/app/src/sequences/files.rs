//! Sequences as files: read, checked against what is there, and applied.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_sequences::definition::{self, Definition, Fault, MAX_BYTES, Program};
use tidings_sequences::versions::{self, Coming, PutError};

use super::form::{Form, Table};
use crate::failure::Failure;
use crate::output::say;

/// A definition with where it came from, so that what turns out to be wrong later has its line, too.
#[derive(Debug)]
pub(crate) struct Written {
    path: PathBuf,
    text: String,
    pub(crate) definition: Definition,
}

impl Written {
    /// Reads a file, or tells all that is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<String>> {
        let wrong = |message: String| vec![format!("{}: {message}", path.display())];
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > MAX_BYTES as u64 {
            return Err(wrong(format!("it is longer than {} KB", MAX_BYTES / 1024)));
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        match definition::read(&text) {
            Ok(definition) => Ok(Self { path: path.to_owned(), text, definition }),
            Err(faults) => Err(faults.iter().map(|fault| told(path, fault, fault.line)).collect()),
        }
    }

    /// `sequences/onboarding.yaml:12: steps[2].send: …`
    pub(crate) fn told(&self, faults: &[Fault]) -> Vec<String> {
        let mut lined: Vec<_> = faults
            .iter()
            .map(|fault| (definition::line_of(&self.text, &fault.pointer), fault))
            .collect();
        lined.sort_by_key(|(line, _)| *line);
        lined.into_iter().map(|(line, fault)| told(&self.path, fault, line)).collect()
    }
}

fn told(path: &Path, fault: &Fault, line: Option<usize>) -> String {
    let mut text = path.display().to_string();
    if let Some(line) = line {
        text.push_str(&format!(":{line}"));
    }
    if !fault.pointer.is_empty() {
        text.push_str(&format!(": {}", fault.path()));
    }
    format!("{text}: {}", fault.message)
}

/// How many lines of the written form come and go.
fn difference(before: &Value, after: &Definition) -> (usize, usize) {
    let mut counts = std::collections::BTreeMap::<String, i64>::new();
    for (value, step) in [(before, -1), (&definition::to_json(after), 1)] {
        // The last of several has no comma, whichever that is.
        for line in format!("{value:#}").lines() {
            *counts.entry(line.trim_end_matches(',').to_owned()).or_default() += step;
        }
    }
    let sum = |sign: i64| {
        let lines = counts.values().map(|count| (count * sign).max(0));
        usize::try_from(lines.sum::<i64>()).unwrap_or_default()
    };
    (sum(1), sum(-1))
}

/// All of them, or all that is wrong with them.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Written>, Failure> {
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        match Written::read(file) {
            Ok(written) => read.push(written),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(read) } else { Err(refused(&faults)) }
}

/// Without a store nothing is known of what a file names.
pub(super) fn check_offline(form: Form, files: &[PathBuf]) -> Result<(), Failure> {
    let read = read_all(files)?;
    let mut table = Table::new(&["file", "sequence", ">steps"]);
    let mut values = Vec::new();
    for written in &read {
        let (file, id, steps) = about(written);
        values.push(json!({ "file": file, "id": id, "steps": steps }));
        table.row(vec![file, id, steps.to_string()]);
    }
    form.list(&values, &table, "")
}

pub(super) async fn check(form: Form, cx: &Cx, files: &[PathBuf]) -> Result<(), Failure> {
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    let mut table = Table::new(&["file", "sequence", ">steps", "would be", ">version"]);
    for written in read_all(files)? {
        let (file, id, steps) = about(&written);
        match versions::compare_with(cx, &written.definition, &Coming::default()).await {
            Ok(compared) => {
                let (change, version) = (compared.change.as_str(), compared.version);
                let mut value = json!({
                    "file": file, "id": id, "steps": steps, "change": change, "version": version,
                });
                if let Some(before) = &compared.before {
                    let (added, removed) = difference(before, &written.definition);
                    value["lines_added"] = added.into();
                    value["lines_removed"] = removed.into();
                }
                values.push(value);
                let cells = [file, id, steps.to_string(), change.to_owned(), version.to_string()];
                table.row(cells.to_vec());
            }
            Err(PutError::Faults(found)) => faults.extend(written.told(&found)),
            Err(error) => return Err(error.into()),
        }
    }
    if !faults.is_empty() {
        let hint = "if it comes from the same folder, use `tidings apply FOLDER --dry-run`";
        return Err(refused(&faults).hint(hint));
    }
    form.list(&values, &table, "")
}

fn about(written: &Written) -> (String, String, usize) {
    let steps = Program::of(written.definition.clone()).places.len();
    (written.path.display().to_string(), written.definition.id.to_string(), steps)
}

pub(super) async fn apply(form: Form, cx: &Cx, file: &Path) -> Result<(), Failure> {
    let mut read = read_all(&[file.to_owned()])?;
    let Some(written) = read.pop() else { return Err(Failure::failed("there is no file")) };
    let id = written.definition.id.to_string();
    let put = match versions::put(cx, written.definition.clone()).await {
        Ok(put) => put,
        Err(PutError::Faults(found)) => {
            return Err(refused(&written.told(&found)).hint(
                "if it comes from the same folder, use `tidings apply FOLDER`: it writes all in order",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let (change, version, status) = (put.change.as_str(), put.version, put.status.as_str());
    let value = json!({ "id": id, "change": change, "version": version, "status": status });
    form.print(&value, &format!("{id} is {change}: version {version}, {status}"))
}

fn refused(faults: &[String]) -> Failure {
    for fault in faults.iter().take(100) {
        say(fault);
    }
    let more = faults.len().saturating_sub(100);
    if more > 0 {
        say(&format!("and {more} more"));
    }
    let one = if faults.len() == 1 { "fault" } else { "faults" };
    Failure::failed(format!("there are {} {one}; nothing was written", faults.len()))
}
