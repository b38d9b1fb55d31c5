//! Which column of a file means what.
//!
//! A header is understood by its name where that is clear, and anything else becomes an attribute. Whoever knows better
//! says so for a column. Not here: what a cell may hold (`row`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::contacts::check_attribute_name;

/// So many columns a file can have.
const MAX_COLUMNS: usize = 100;

/// What a column is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Email,
    FirstName,
    /// The IANA name of a time zone.
    Timezone,
    /// Several, with `;` or `,` between.
    Tags,
    /// `yes` unsubscribes from everything. Nothing in this column subscribes anybody. Of several, one `yes` is enough.
    Unsubscribed,
    /// `yes` suppresses. Nothing in this column lifts a suppression. Of several, one `yes` is enough.
    Suppressed,
    Attribute(String),
    /// Several attributes as a JSON object, as an export has them.
    Attributes,
    Ignore,
}

/// What somebody said about a column: `E-Mail=email`, `Notes=ignore`, `Plan=attribute:plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub column: String,
    pub field: Field,
}

/// The columns of a file in their order, with the names they have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    columns: Vec<(String, Field)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    #[error("the file is empty: its first line must name the columns")]
    NoHeader,
    #[error("the file has {0} columns, and at most {MAX_COLUMNS} are taken")]
    TooManyColumns(usize),
    #[error(
        "no column is the e-mail address; there are {columns}; say which one it is, as in {example}=email"
    )]
    NoEmail { columns: String, example: String },
    #[error("two columns are both {0}; say which one to ignore, as in Column=ignore")]
    Twice(String),
    #[error("there is no column {column:?}; there are {columns}")]
    Unknown { column: String, columns: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "use Column=field, where the field is email, first_name, timezone, tags, unsubscribed, suppressed, attributes, ignore or attribute:name"
)]
pub struct AssignmentError;

impl Mapping {
    pub fn new<'a>(
        header: impl IntoIterator<Item = &'a str>,
        assignments: &[Assignment],
    ) -> Result<Self, MappingError> {
        let names: Vec<&str> = header.into_iter().map(str::trim).collect();
        if names.iter().all(|name| name.is_empty()) {
            return Err(MappingError::NoHeader);
        }
        if names.len() > MAX_COLUMNS {
            return Err(MappingError::TooManyColumns(names.len()));
        }
        let listed = || names.join(", ");
        let mut said: BTreeMap<&str, &Field> = BTreeMap::new();
        for Assignment { column, field } in assignments {
            if !names.contains(&column.as_str()) {
                let (column, columns) = (column.clone(), listed());
                return Err(MappingError::Unknown { column, columns });
            }
            said.insert(column, field);
        }
        let column = |name: &&str| {
            let field = said.get(name).map_or_else(|| guess(name), |field| (*field).clone());
            ((*name).to_owned(), field)
        };
        let columns: Vec<_> = names.iter().map(column).collect();
        check(&columns)?;
        if !columns.iter().any(|(_, field)| *field == Field::Email) {
            let example = names.first().copied().unwrap_or_default().to_owned();
            return Err(MappingError::NoEmail { columns: listed(), example });
        }
        Ok(Self { columns })
    }

    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.columns.iter().map(|(_, field)| field)
    }

    /// The name of a column as the file has it.
    pub fn name(&self, position: usize) -> &str {
        self.columns.get(position).map_or("", |(name, _)| name)
    }

    pub fn columns(&self) -> &[(String, Field)] {
        &self.columns
    }
}

/// Only what stands against writing to somebody can be in several columns: each of them is enough.
fn check(columns: &[(String, Field)]) -> Result<(), MappingError> {
    let mut seen = BTreeSet::new();
    let several = [Field::Ignore, Field::Unsubscribed, Field::Suppressed];
    let meant = columns.iter().map(|(_, field)| field).filter(|field| !several.contains(field));
    for field in meant {
        if !seen.insert(field) {
            return Err(MappingError::Twice(field.to_string()));
        }
    }
    Ok(())
}

/// By the name alone. A column without a name that could be an attribute's is left out.
fn guess(name: &str) -> Field {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    match plain.to_lowercase().as_str() {
        "email" | "mail" | "emailaddress" | "mailaddress" => Field::Email,
        "firstname" | "givenname" | "forename" => Field::FirstName,
        "timezone" | "tz" => Field::Timezone,
        "tags" | "tag" => Field::Tags,
        "attributes" => Field::Attributes,
        "unsubscribed" | "globalunsubscribed" | "optedout" => Field::Unsubscribed,
        "suppressed" | "hardbounced" | "complained" => Field::Suppressed,
        // They are ours to say: a file that we exported has them.
        "createdat" | "updatedat" | "id" | "contactid" => Field::Ignore,
        _ => attribute(name).map_or(Field::Ignore, Field::Attribute),
    }
}

/// `Country Code` becomes `country_code`.
fn attribute(name: &str) -> Option<String> {
    if check_attribute_name(name).is_ok() {
        return Some(name.to_owned());
    }
    let replaced: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let replaced = replaced.trim_matches('_').to_lowercase();
    check_attribute_name(&replaced).is_ok().then_some(replaced)
}

impl FromStr for Field {
    type Err = AssignmentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "email" => Ok(Self::Email),
            "first_name" => Ok(Self::FirstName),
            "timezone" => Ok(Self::Timezone),
            "tags" => Ok(Self::Tags),
            "unsubscribed" => Ok(Self::Unsubscribed),
            "suppressed" => Ok(Self::Suppressed),
            "attributes" => Ok(Self::Attributes),
            "ignore" => Ok(Self::Ignore),
            _ => {
                let name = text.strip_prefix("attribute:").ok_or(AssignmentError)?;
                check_attribute_name(name).map_err(|_| AssignmentError)?;
                Ok(Self::Attribute(name.to_owned()))
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Email => f.write_str("email"),
            Self::FirstName => f.write_str("first_name"),
            Self::Timezone => f.write_str("timezone"),
            Self::Tags => f.write_str("tags"),
            Self::Unsubscribed => f.write_str("unsubscribed"),
            Self::Suppressed => f.write_str("suppressed"),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
            Self::Attributes => f.write_str("attributes"),
            Self::Ignore => f.write_str("ignore"),
        }
    }
}

impl FromStr for Assignment {
    type Err = AssignmentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (column, field) = text.rsplit_once('=').ok_or(AssignmentError)?;
        Ok(Self { column: column.trim().to_owned(), field: field.trim().parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, Mapping};

    fn check(header: &str, said: &[&str], meant: &str) {
        let said: Vec<Assignment> = said.iter().map(|text| text.parse().unwrap()).collect();
        let mapping = Mapping::new(header.split(','), &said);
        let shown = match mapping {
            Ok(mapping) => mapping.fields().map(ToString::to_string).collect::<Vec<_>>().join(","),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, meant, "{header}");
    }

    #[test]
    fn names_that_are_clear_need_no_words() {
        check("E-Mail,First Name,Tags,plan", &[], "email,first_name,tags,attribute:plan");
        check("email,Country Code,createdAt,+", &[], "email,attribute:country_code,ignore,ignore");
        check("EMAIL,Unsubscribed,Time Zone", &[], "email,unsubscribed,timezone");
    }

    #[test]
    fn what_stands_against_somebody_can_be_in_several_columns() {
        check(
            "email,hard_bounced,complained,Opted out,global_unsubscribed",
            &[],
            "email,suppressed,suppressed,unsubscribed,unsubscribed",
        );
    }

    #[test]
    fn what_somebody_says_wins() {
        check("a,b", &["b=email", "a=ignore"], "ignore,email");
        check("email,plan", &["plan=attribute:tier"], "email,attribute:tier");
    }

    #[test]
    fn a_header_that_cannot_be_used_is_refused_with_a_way_out() {
        check("", &[], "the file is empty: its first line must name the columns");
        check(
            "name,plan",
            &[],
            "no column is the e-mail address; there are name, plan; say which one it is, as in name=email",
        );
        check(
            "email,mail",
            &[],
            "two columns are both email; say which one to ignore, as in Column=ignore",
        );
        check("email", &["mail=email"], "there is no column \"mail\"; there are email");
        assert!("plan".parse::<Assignment>().is_err());
        assert!("plan=attribute:PK!".parse::<Assignment>().is_err());
    }
}
