//! Settings from `tidings.toml`, each with the line it stands on.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Assignment, ConfigError, Fault, Origin};
use super::{SourceFile, keys, suggest};

const DEFAULT_FILE: &str = "tidings.toml";

/// The file that was asked for, which must be there, or the one in the working directory, which need not.
pub(super) fn read(asked: Option<&Path>) -> Result<Option<SourceFile>, ConfigError> {
    let path = asked.map_or_else(|| PathBuf::from(DEFAULT_FILE), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(SourceFile { path, text })),
        Err(error) if error.kind() == ErrorKind::NotFound && asked.is_none() => Ok(None),
        Err(error) => Err(ConfigError::one(
            Fault::new(format!(
                "the configuration file {} cannot be read: {error}",
                path.display()
            ))
            .hint("`tidings config --template` prints one to begin with"),
        )),
    }
}

/// What the file sets, in its order, and what is wrong with it.
pub(super) fn assignments(file: &SourceFile) -> (Vec<Assignment>, Vec<Fault>) {
    let mut reader = Reader { file, found: Vec::new(), faults: Vec::new() };
    match DeTable::parse(&file.text) {
        Ok(table) => reader.table("", table.get_ref()),
        Err(error) => {
            let line = line_of(&file.text, error.span().map_or(0, |span| span.start));
            let place = Origin::File { path: file.path.clone(), line };
            reader.faults.push(Fault::new(format!("{place}: {}", error.message())));
        }
    }
    // TOML gives the keys in the order of the alphabet; people read a file from its top.
    reader.found.sort_by_key(|assignment| assignment.origin.line());
    (reader.found, reader.faults)
}

struct Reader<'a> {
    file: &'a SourceFile,
    found: Vec<Assignment>,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let origin = Origin::File {
                path: self.file.path.clone(),
                line: line_of(&self.file.text, name.span().start),
            };
            self.value(key, value, origin);
        }
    }

    fn value(&mut self, key: String, value: &Spanned<DeValue<'_>>, origin: Origin) {
        let text = match value.get_ref() {
            DeValue::Table(table) if table.is_empty() => return self.empty_section(&key, &origin),
            DeValue::Table(table) => return self.table(&key, table),
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            other @ (DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_)) => {
                let kind = other.type_str();
                let message =
                    format!("{origin}: {key} must be a text or a number, not of type {kind}");
                return self.faults.push(Fault::new(message));
            }
        };
        self.found.push(Assignment { name: key, text, origin });
    }

    fn empty_section(&mut self, section: &str, origin: &Origin) {
        let mut sections: Vec<_> =
            keys::all_keys().iter().map(|key| key.section().to_owned()).collect();
        sections.dedup();
        if !sections.iter().any(|known| known == section) {
            let mut fault = Fault::new(format!("{origin}: unknown section [{section}]"));
            if let Some(nearest) = suggest::nearest(section, &sections) {
                fault = fault.hint(format!("did you mean [{nearest}]?"));
            }
            self.faults.push(fault);
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
