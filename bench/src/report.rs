//! What a benchmark found: a table for people and ratios for machines.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context;

pub(crate) struct Report {
    bench: &'static str,
    command: String,
    body: String,
    ratios: Vec<(String, f64, f64)>,
}

impl Report {
    pub(crate) fn new(bench: &'static str, command: &str) -> Self {
        Self { bench, command: command.to_owned(), body: String::new(), ratios: Vec::new() }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.body.push_str(line);
        self.body.push('\n');
    }

    pub(crate) fn ratio(&mut self, figure: &str, value: f64, wanted: f64) {
        self.ratios.push((figure.to_owned(), value, wanted));
    }

    pub(crate) fn text(&self) -> &str {
        &self.body
    }

    pub(crate) fn ratios(&self) -> impl Iterator<Item = String> {
        self.ratios.iter().map(|(figure, value, wanted)| {
            format!("ratio {}.{figure} {value:.2} wanted {wanted:.2}", self.bench)
        })
    }

    /// Replaces this benchmark's section of docs/performance.md.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let path = "docs/performance.md";
        let page = fs::read_to_string(path).context("run it from the root of the project")?;
        let (begin, end) =
            (format!("<!-- {} -->\n", self.bench), format!("<!-- /{} -->", self.bench));
        let start =
            page.find(&begin).context("the page has no place for this benchmark")? + begin.len();
        let stop = start + page[start..].find(&end).context("the place has no end")?;
        let mut section = format!("Made by `{}`.\n\n{}\n```text\n", self.command, self.body);
        for ratio in self.ratios() {
            writeln!(section, "{ratio}")?;
        }
        section.push_str("```\n");
        fs::write(path, format!("{}{section}{}", &page[..start], &page[stop..]))?;
        Ok(())
    }
}
