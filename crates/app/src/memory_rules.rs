//! Rules of memory as files: read, with the line of all that is wrong.

use std::fs;
use std::path::Path;

use tidings_access::Slug;
use tidings_leads::memory::RuleSet;
use tidings_leads::memory::rules::{MAX_BYTES, from_json};
use tidings_sequences::definition;

/// A set with its name, which is the file's.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) name: Slug,
    pub(crate) set: RuleSet,
}

impl Written {
    /// Reads a file, or tells all that is wrong with it, in the order of its lines.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<String>> {
        let told = |line: Option<usize>, place: &str, message: &str| {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            let place = if place.is_empty() { String::new() } else { format!(": {place}") };
            format!("{}{line}{place}: {message}", path.display())
        };
        let wrong = |message: String| vec![told(None, "", &message)];
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > MAX_BYTES as u64 {
            return Err(wrong(format!("it is longer than {} KB", MAX_BYTES / 1024)));
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = stem.parse().map_err(|error| wrong(format!("the file's name: {error}")))?;
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let marked = definition::parse_file(&text).map_err(|faults| {
            let faults = faults.iter();
            faults.map(|fault| told(fault.line, &fault.path(), &fault.message)).collect::<Vec<_>>()
        })?;
        let set = from_json(&marked.value).map_err(|faults| {
            let mut lined: Vec<_> =
                faults.iter().map(|fault| (marked.line(&fault.pointer), fault)).collect();
            lined.sort_by_key(|(line, _)| *line);
            let lined = lined.into_iter();
            lined.map(|(line, fault)| told(line, &fault.path(), &fault.message)).collect::<Vec<_>>()
        })?;
        Ok(Self { name, set })
    }
}
