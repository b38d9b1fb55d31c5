//! Contacts as a file, a page at a time: CSV for spreadsheets, JSON lines for programs.
//!
//! Both have the same columns, and `import` reads the CSV back. Whoever is added while it runs may be missing.

use std::str::FromStr;

use serde::Serialize;
use tidings_access::{Cx, Limit};

use crate::contacts::{After, Contact, Filter, ListError, list};
use crate::import::{GUARD, is_like_a_formula};
use crate::keys;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Csv,
    /// One JSON object a line.
    Jsonl,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use csv or jsonl")]
pub struct FormatError;

/// An export under way.
pub struct Export {
    cx: Cx,
    filter: Filter,
    format: Format,
    state: State,
    /// How many contacts it has given.
    pub count: u64,
}

enum State {
    Begin,
    After(After),
    Over,
}

/// The columns, in their order.
#[derive(Serialize)]
struct Line<'a> {
    email: &'a str,
    first_name: Option<&'a str>,
    tags: serde_json::Value,
    attributes: serde_json::Value,
    unsubscribed: bool,
    suppressed: bool,
    timezone: Option<&'a str>,
    created_at: String,
    updated_at: String,
}

impl Export {
    pub fn new(cx: Cx, filter: Filter, format: Format) -> Self {
        Self { cx, filter, format, state: State::Begin, count: 0 }
    }

    /// The next piece of the file; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ListError> {
        let (after, first) = match std::mem::replace(&mut self.state, State::Over) {
            State::Begin => (None, true),
            State::After(after) => (Some(after), false),
            State::Over => return Ok(None),
        };
        let page = list(&self.cx, self.filter.clone(), after, Limit::MAX).await?;
        self.count += page.items.len() as u64;
        self.state = page.next.map_or(State::Over, State::After);
        Ok(Some(self.format.page(&page.items, first)))
    }
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Jsonl => "application/jsonl",
        }
    }

    fn page(self, contacts: &[Contact], first: bool) -> Vec<u8> {
        match self {
            Self::Jsonl => {
                let lines = contacts.iter().map(|contact| {
                    let line = serde_json::to_string(&line(contact)).expect("all of it is JSON");
                    line + "\n"
                });
                lines.collect::<String>().into_bytes()
            }
            Self::Csv => {
                let mut writer =
                    csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
                let written = "memory takes everything that is written to it";
                if first {
                    writer.write_record(COLUMNS).expect(written);
                }
                for contact in contacts {
                    writer.write_record(cells(contact)).expect(written);
                }
                writer.into_inner().expect(written)
            }
        }
    }
}

const COLUMNS: [&str; 9] = [
    "email",
    "first_name",
    "tags",
    "attributes",
    "unsubscribed",
    "suppressed",
    "timezone",
    "created_at",
    "updated_at",
];

fn line(contact: &Contact) -> Line<'_> {
    Line {
        email: contact.email.as_str(),
        first_name: contact.first_name.as_deref(),
        tags: contact.tags.iter().cloned().collect(),
        attributes: serde_json::to_value(&contact.attributes).expect("attributes are JSON"),
        unsubscribed: contact.unsubscribed,
        suppressed: contact.suppressed,
        timezone: contact.timezone.as_deref(),
        created_at: keys::time(contact.created_at),
        updated_at: keys::time(contact.updated_at),
    }
}

fn cells(contact: &Contact) -> [String; 9] {
    let line = line(contact);
    let word = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let attributes = match contact.attributes.is_empty() {
        true => String::new(),
        false => line.attributes.to_string(),
    };
    [
        guarded(line.email),
        guarded(line.first_name.unwrap_or_default()),
        contact.tags.iter().map(String::as_str).collect::<Vec<_>>().join(";"),
        attributes,
        word(line.unsubscribed),
        word(line.suppressed),
        line.timezone.unwrap_or_default().to_owned(),
        line.created_at,
        line.updated_at,
    ]
}

/// A cell of a file: whoever gave us his name must not give a formula to whoever opens it.
pub fn guarded(cell: &str) -> String {
    match is_like_a_formula(cell) {
        true => format!("{GUARD}{cell}"),
        false => cell.to_owned(),
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::Jsonl),
            _ => Err(FormatError),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use tidings_access::Cx;
    use tidings_testbed::{Bed, each_store};

    use super::{Export, Format};
    use crate::contacts::Filter;
    use crate::import::{Counts, Settings, run};

    each_store!(an_export_is_a_file_that_an_import_takes);

    async fn exported(cx: &Cx, format: Format) -> (String, u64) {
        let mut export = Export::new(cx.clone(), Filter::default(), format);
        let mut text = Vec::new();
        while let Some(mut piece) = export.next().await.unwrap() {
            text.append(&mut piece);
        }
        (String::from_utf8(text).unwrap(), export.count)
    }

    async fn an_export_is_a_file_that_an_import_takes(bed: &Bed) {
        let (acme, other) = (bed.cx().await, bed.make_workspace("other").await);
        let mut text = "email,first name,tags,attributes,unsubscribed,time zone\n\
            ada@example.org,\"Ada, \"\"the first\"\"\",b;a,\"{\"\"plan\"\":\"\"pro\"\",\"\"seats\"\":7}\",,asia/tokyo\n\
            +bob@example.org,=1+1,,,yes\n"
            .to_owned();
        for number in 0..300 {
            text += &format!("p{number:03}@example.org,,,,\n");
        }
        let settings = || Settings { source: "test".to_owned(), ..Settings::default() };
        run(&acme, Cursor::new(text), settings(), |_| ()).await.unwrap();
        let (csv, count) = exported(&acme, Format::Csv).await;
        assert_eq!((count, csv.lines().count()), (302, 303));
        assert!(csv.starts_with("email,first_name,tags,attributes,unsubscribed,"), "{csv:.200}");
        let counts = run(&other, Cursor::new(csv.clone()), settings(), |_| ()).await.unwrap();
        assert_eq!(counts, Counts { lines: 302, new: 302, unsubscribed: 1, ..Counts::default() });
        assert_eq!(exported(&other, Format::Csv).await.0, csv);
        let (jsonl, _) = exported(&acme, Format::Jsonl).await;
        let first: serde_json::Value = serde_json::from_str(jsonl.lines().next().unwrap()).unwrap();
        assert_eq!(first["attributes"]["seats"], 7);
        assert_eq!(first["timezone"], "Asia/Tokyo");
        assert_eq!(jsonl.lines().count(), 302);
    }
}
