//! One line of a file: a person as the importer takes him, or what is wrong with the line.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use serde_json::{Map, Value};
use tidings_kernel::EmailAddress;

use super::mapping::{Field, Mapping};
use crate::contacts::{Attributes, Change, Edit, FirstName, Tag, TagChange, Zone};

/// The longest value of a cell, in bytes.
const MAX_CELL: usize = 8 * 1024;
/// The same for one that holds all attributes. The longest line bounds it further.
const MAX_ATTRIBUTES_CELL: usize = 128 * 1024;

/// A person in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    /// The line, where the header is the first.
    pub(super) line: u64,
    pub(super) email: EmailAddress,
    pub(super) edit: Edit,
    pub(super) unsubscribed: bool,
    pub(super) suppressed: bool,
}

/// Why a line is left out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    pub line: u64,
    /// The column as the file calls it; empty if it is about the line as a whole.
    pub column: String,
    pub reason: String,
}

/// Reads a line. An empty cell says nothing: it clears nothing that is known.
pub(super) fn read<'a>(
    mapping: &Mapping,
    line: u64,
    cells: impl Iterator<Item = &'a str>,
) -> Result<Person, Fault> {
    let mut email = None;
    let mut known = Known::default();
    for (position, (field, cell)) in mapping.fields().zip(cells).enumerate() {
        let cell = unguarded(cell.trim());
        let wrong =
            |reason: String| Fault { line, column: mapping.name(position).to_owned(), reason };
        let most = if *field == Field::Attributes { MAX_ATTRIBUTES_CELL } else { MAX_CELL };
        if cell.len() > most {
            return Err(wrong(format!("a value has at most {most} bytes")));
        }
        if *field == Field::Email {
            email = Some(cell.parse::<EmailAddress>().map_err(|error| wrong(error.to_string()))?);
        } else if !cell.is_empty() {
            known.take(field, cell).map_err(wrong)?;
        }
    }
    let whole = |reason: &str| Fault { line, column: String::new(), reason: reason.to_owned() };
    let email = email.ok_or_else(|| whole("the line has too few cells"))?;
    let attributes = Attributes::parse(known.attributes).map_err(|faults| {
        whole(&faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let edit = Edit {
        first_name: known.first_name.map_or(Change::Keep, Change::Set),
        timezone: known.timezone.map_or(Change::Keep, Change::Set),
        attributes,
        tags: (!known.tags.is_empty()).then_some(TagChange::Add(known.tags)),
    };
    let Known { unsubscribed, suppressed, .. } = known;
    Ok(Person { line, email, edit, unsubscribed, suppressed })
}

/// What an export puts before a text that a spreadsheet would take for a formula.
pub(crate) const GUARD: char = '\'';

/// Whether a spreadsheet would take it for a formula.
pub(crate) fn is_like_a_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

fn unguarded(cell: &str) -> &str {
    cell.strip_prefix(GUARD).filter(|rest| is_like_a_formula(rest)).unwrap_or(cell)
}

/// What a line says besides the address.
#[derive(Default)]
struct Known {
    first_name: Option<FirstName>,
    timezone: Option<Zone>,
    attributes: Map<String, Value>,
    tags: BTreeSet<Tag>,
    unsubscribed: bool,
    suppressed: bool,
}

impl Known {
    fn take(&mut self, field: &Field, cell: &str) -> Result<(), String> {
        match field {
            Field::FirstName => {
                self.first_name = Some(cell.parse().map_err(in_words)?);
            }
            Field::Timezone => self.timezone = Some(cell.parse().map_err(in_words)?),
            Field::Tags => {
                let tags = cell.split([';', ',']).map(str::trim).filter(|tag| !tag.is_empty());
                self.tags = tags.map(Tag::from_str).collect::<Result<_, _>>().map_err(in_words)?;
            }
            // A `no` in another column takes nothing back.
            Field::Unsubscribed => self.unsubscribed |= yes_or_no(cell)?,
            Field::Suppressed => self.suppressed |= yes_or_no(cell)?,
            Field::Attribute(name) => {
                self.attributes.insert(name.clone(), cell.into());
            }
            Field::Attributes => match serde_json::from_str(cell) {
                Ok(Value::Object(mut object)) => {
                    // What has a column of its own wins.
                    object.append(&mut self.attributes);
                    self.attributes = object;
                }
                _ => return Err("use a JSON object".to_owned()),
            },
            Field::Email | Field::Ignore => {}
        }
        Ok(())
    }
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn yes_or_no(cell: &str) -> Result<bool, String> {
    match cell.to_lowercase().as_str() {
        "yes" | "y" | "true" | "t" | "1" | "on" | "x" => Ok(true),
        "no" | "n" | "false" | "f" | "0" | "off" => Ok(false),
        _ => Err("use yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::contacts::Edit;
    use crate::import::Mapping;

    fn check(line: &str, meant: &str) {
        let header = "email,first name,tags,unsubscribed,plan";
        let mapping = Mapping::new(header.split(','), &[]).unwrap();
        let shown = match read(&mapping, 2, line.split(',')) {
            Ok(person) => {
                let Edit { first_name, attributes, tags, .. } = person.edit;
                let attributes: Vec<_> = attributes.iter().map(|(name, _)| name.as_str()).collect();
                format!(
                    "{} {first_name:?} {tags:?} {attributes:?} {}",
                    person.email, person.unsubscribed
                )
            }
            Err(fault) => format!("{}: {}", fault.column, fault.reason),
        };
        assert_eq!(shown, meant, "{line}");
    }

    #[test]
    fn a_line_says_what_it_says_and_nothing_more() {
        check(
            " Ada@Example.org ,Ada,VIP;beta;vip,yes,pro",
            r#"ada@example.org Set(FirstName("Ada")) Some(Add({Tag("beta"), Tag("vip")})) ["plan"] true"#,
        );
        check("bob@example.org,,,,", "bob@example.org Keep None [] false");
        check("bob@example.org", "bob@example.org Keep None [] false");
        check(
            "'+bob@example.org,'=1+1,,,",
            r#"+bob@example.org Set(FirstName("=1+1")) None [] false"#,
        );
    }

    #[test]
    fn a_line_that_is_wrong_says_where_and_why() {
        check("nobody,,,,", "email: use an e-mail address such as ada@example.org");
        check("bob@example.org,,,perhaps,", "unsubscribed: use yes or no");
        check(
            "bob@example.org,,a b,,",
            "tags: use 1 to 64 letters, digits, hyphens and underscores, beginning with a letter or a digit",
        );
    }
}
