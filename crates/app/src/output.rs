//! Stdout, which is for data, and stderr, which is for talk.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

use serde::Serialize;

use crate::failure::{Failure, written};

/// Data for whoever comes next: a person or a pipe.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    layout: Layout,
    is_terminal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One value a line, for programs.
    Lines,
    /// A value over several lines, for people.
    Pretty,
}

impl Output {
    pub(crate) fn new(layout: Layout) -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        Self { out: BufWriter::with_capacity(64 * 1024, out), layout, is_terminal }
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = match self.layout {
            Layout::Lines => serde_json::to_string(value)?,
            Layout::Pretty => serde_json::to_string_pretty(value)?,
        };
        self.text(&text)?;
        self.text("\n")
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        written(self.out.write_all(text.as_bytes()))?;
        // A person wants to see each line when it comes.
        if self.is_terminal { self.finish() } else { Ok(()) }
    }

    /// Nothing is known to have arrived before this.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        written(self.out.flush())
    }
}

/// A remark on stderr. If nobody reads it, nothing is lost.
pub(crate) fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}
