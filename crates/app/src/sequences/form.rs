//! The form of an answer: JSON for programs, a table for a person who looks.

use std::io::{self, IsTerminal as _};

use jiff::Timestamp;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Layout, Output};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json(Layout),
    Table,
}

impl Form {
    /// What is not said follows from who reads.
    pub(super) fn of(args: &super::SequenceArgs) -> Self {
        match (args.pretty, args.json, args.table) {
            (true, ..) => Self::Json(Layout::Pretty),
            (false, true, _) => Self::Json(Layout::Lines),
            (false, false, true) => Self::Table,
            (false, false, false) if io::stdout().is_terminal() => Self::Table,
            (false, false, false) => Self::Json(Layout::Lines),
        }
    }

    pub(super) fn out(self) -> Output {
        match self {
            Self::Json(layout) => Output::new(layout),
            Self::Table => Output::new(Layout::Lines),
        }
    }

    /// Prints one value, or what it is in words.
    pub(super) fn print(self, value: &Value, words: &str) -> Result<(), Failure> {
        let mut out = self.out();
        match self {
            Self::Json(_) => out.json(value)?,
            Self::Table => out.text(&format!("{words}\n"))?,
        }
        out.finish()
    }

    /// Prints a list. In a table, nothing is told by a remark.
    pub(super) fn list(self, values: &[Value], table: &Table, empty: &str) -> Result<(), Failure> {
        let mut out = self.out();
        match self {
            Self::Json(_) => values.iter().try_for_each(|value| out.json(value))?,
            Self::Table if values.is_empty() => crate::output::say(empty),
            Self::Table => out.text(&table.to_string())?,
        }
        out.finish()
    }
}

/// Columns one under the other. A name that begins with `>` is of a column of numbers, which end alike.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let heads: Vec<&str> = self.head.iter().map(|name| name.trim_start_matches('>')).collect();
        let wide = |text: &str| text.chars().count();
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(column, head)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| wide(cell)).chain([wide(head)]).max().unwrap_or(0)
            })
            .collect();
        let heads: Vec<String> = heads.into_iter().map(str::to_uppercase).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), name) in row.iter().zip(&widths).zip(&self.head) {
                let room = " ".repeat(width.saturating_sub(wide(cell)));
                match name.starts_with('>') {
                    true => line.push_str(&format!("{room}{cell}  ")),
                    false => line.push_str(&format!("{cell}{room}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `2030-01-31 09:00`, in UTC.
pub(super) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// How long from now, for people: `in 2d 3h`, `now`.
pub(super) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let left = at.duration_since(now);
    if left.is_positive() { format!("in {}", crate::campaigns::long(left)) } else { "now".into() }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn texts_begin_and_numbers_end_alike() {
        let mut table = Table::new(&["step", ">entered", "what"]);
        table.row(vec!["welcome".into(), "12".into(), "sends".into()]);
        table.row(vec!["é".into(), "1,200".into(), String::new()]);
        assert_eq!(
            table.to_string(),
            "STEP     ENTERED  WHAT\nwelcome       12  sends\né          1,200\n"
        );
    }
}
