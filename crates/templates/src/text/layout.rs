//! Words become lines: as wide as mail in plain text is, with what lists and quotes have before them.

/// As wide as mail in plain text is.
const WIDTH: usize = 78;
/// However deep lists and quotes are, so much of a line is left for words.
const LEAST: usize = 38;
/// Deeper than anybody reads. What is inside is shown, and not moved in any further.
const MAX_DEPTH: usize = 16;

/// What is between two lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    #[default]
    Line,
    Blank,
}

/// What a line is inside of.
#[derive(Debug)]
enum Place {
    /// With the number of its next item, if they have numbers.
    List(Option<usize>),
    Item(Mark),
    Heading(Mark),
    Quote,
}

/// What stands before the first line, until that is written.
#[derive(Debug)]
struct Mark {
    text: String,
    is_written: bool,
}

#[derive(Default)]
pub(super) struct Layout {
    out: String,
    places: Vec<Place>,
    /// The line that is being filled, and how wide it is.
    line: String,
    width: usize,
    /// What may still grow: words go on over tags.
    word: String,
    gap: Gap,
    /// Of how many elements whose lines stay as they are.
    preserved: usize,
    /// How many words were written, or begun.
    words: usize,
}

impl Layout {
    pub(super) fn text(&mut self, text: &str) {
        if self.preserved > 0 {
            return self.preserve(text);
        }
        for (number, piece) in text.split(char::is_whitespace).enumerate() {
            if number > 0 {
                self.end_word();
            }
            if !piece.is_empty() {
                self.words += 1;
                self.word.extend(piece.chars().filter(|c| !is_filler(*c)));
            }
        }
    }

    /// Puts something to the word before or after it, and is no word itself.
    pub(super) fn glue(&mut self, text: &str) {
        self.word.push_str(text);
    }

    /// Takes back what was put last.
    pub(super) fn unglue(&mut self, text: &str) {
        if self.word.ends_with(text) {
            self.word.truncate(self.word.len() - text.len());
        }
    }

    /// Another number whenever words have come.
    pub(super) fn written(&self) -> usize {
        self.words
    }

    /// Whatever comes next begins a line of its own.
    pub(super) fn block(&mut self, gap: Gap) {
        self.end_word();
        if !self.line.is_empty() {
            self.write_line();
        }
        self.gap = self.gap.max(gap);
    }

    pub(super) fn line_break(&mut self) {
        self.end_word();
        if self.line.is_empty() {
            self.gap = Gap::Blank;
        } else {
            self.write_line();
        }
    }

    pub(super) fn rule(&mut self) {
        self.block(Gap::Blank);
        self.line.push_str(&"-".repeat(LEAST));
        self.block(Gap::Blank);
    }

    pub(super) fn begin_heading(&mut self, level: usize) {
        self.put(Place::Heading(Mark::new(format!("{} ", "#".repeat(level)))));
    }

    pub(super) fn end_heading(&mut self) {
        self.leave(|place| matches!(place, Place::Heading(_)));
    }

    pub(super) fn begin_list(&mut self, first: Option<usize>) {
        let is_inner = self.places.iter().any(|place| matches!(place, Place::List(_)));
        self.block(if is_inner { Gap::Line } else { Gap::Blank });
        self.put(Place::List(first));
    }

    pub(super) fn end_list(&mut self) {
        self.block(Gap::Line);
        self.leave(|place| matches!(place, Place::List(_)));
        let is_inner = self.places.iter().any(|place| matches!(place, Place::List(_)));
        self.block(if is_inner { Gap::Line } else { Gap::Blank });
    }

    /// An item ends where the next one begins.
    pub(super) fn begin_item(&mut self) {
        self.end_item();
        let list = self.places.iter_mut().rev().find_map(|place| match place {
            Place::List(next) => Some(next),
            Place::Item(_) | Place::Heading(_) | Place::Quote => None,
        });
        let mark = match list {
            Some(Some(next)) => {
                let number = *next;
                *next = number.saturating_add(1);
                format!("{number}. ")
            }
            Some(None) | None => "* ".to_owned(),
        };
        self.put(Place::Item(Mark::new(mark)));
    }

    /// Of this list, not of one around it.
    pub(super) fn end_item(&mut self) {
        let inner = self.places.iter().rposition(|place| matches!(place, Place::List(_)));
        let item = self.places.iter().rposition(|place| matches!(place, Place::Item(_)));
        if item > inner {
            self.leave(|place| matches!(place, Place::Item(_)));
        }
    }

    pub(super) fn begin_quote(&mut self) {
        self.put(Place::Quote);
    }

    pub(super) fn end_quote(&mut self) {
        self.leave(|place| matches!(place, Place::Quote));
    }

    pub(super) fn begin_preserved(&mut self) {
        self.preserved += 1;
    }

    pub(super) fn end_preserved(&mut self) {
        self.preserved = self.preserved.saturating_sub(1);
    }

    pub(super) fn finish(mut self) -> String {
        self.block(Gap::Line);
        self.out
    }

    fn put(&mut self, place: Place) {
        if self.places.len() < MAX_DEPTH {
            self.places.push(place);
        }
    }

    /// Whatever is inside of it ends with it.
    fn leave(&mut self, is_meant: impl Fn(&Place) -> bool) {
        if let Some(at) = self.places.iter().rposition(is_meant) {
            self.places.truncate(at);
        }
    }

    fn preserve(&mut self, text: &str) {
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.end_word();
                self.write_line();
            }
            self.words += usize::from(!line.trim().is_empty());
            self.word.push_str(line.trim_end_matches('\r'));
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let width = self.word.chars().count();
        let room = WIDTH - self.indent().min(WIDTH - LEAST);
        if !self.line.is_empty() && self.width + 1 + width > room && self.preserved == 0 {
            self.write_line();
        }
        if !self.line.is_empty() {
            self.line.push(' ');
            self.width += 1;
        }
        self.line.push_str(&self.word);
        self.width += width;
        self.word.clear();
    }

    fn indent(&self) -> usize {
        let width = |place: &Place| match place {
            Place::List(_) => 0,
            Place::Item(mark) => mark.text.len(),
            Place::Heading(mark) => {
                if mark.is_written {
                    0
                } else {
                    mark.text.len()
                }
            }
            Place::Quote => 2,
        };
        self.places.iter().map(width).sum()
    }

    fn write_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push_str(if self.gap == Gap::Blank { "\n\n" } else { "\n" });
        }
        self.gap = Gap::Line;
        for place in &mut self.places {
            match place {
                Place::List(_) => {}
                Place::Quote => self.out.push_str("> "),
                Place::Item(mark) if mark.is_written => {
                    self.out.extend(std::iter::repeat_n(' ', mark.text.len()));
                }
                Place::Heading(mark) if mark.is_written => {}
                Place::Item(mark) | Place::Heading(mark) => {
                    mark.is_written = true;
                    self.out.push_str(&mark.text);
                }
            }
        }
        self.out.push_str(&self.line);
        let length = self.out.trim_end_matches(' ').len();
        self.out.truncate(length);
        self.line.clear();
        self.width = 0;
    }
}

impl Mark {
    fn new(text: String) -> Self {
        Self { text, is_written: false }
    }
}

/// What has no width, and is put into HTML to fill a preview or to say where a word may break.
fn is_filler(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}
