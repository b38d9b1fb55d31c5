//! Reading a CSV file line by line, whatever its size: a part of it at a time is in memory.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder};

use super::mapping::{Assignment, Mapping, MappingError};
use super::row::{Fault, Person, read};

/// The longest line, in bytes. A quote that is never closed makes a line of all the rest.
const MAX_LINE: usize = 256 * 1024;
/// What the reader takes at once, and so may have taken of the next lines.
const BUFFER: usize = 64 * 1024;
/// What Excel puts before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Header(#[from] MappingError),
    #[error("the file cannot be read at line {line}: {reason}")]
    Broken { line: u64, reason: String },
}

/// The lines of a file.
pub(super) struct File<R: Read> {
    reader: csv::Reader<Bounded<R>>,
    since_line: Rc<Cell<usize>>,
    mapping: Mapping,
    record: ByteRecord,
    /// After CR the reader is already in the next record but not yet in the next line.
    offset: u64,
}

impl<R: Read> File<R> {
    /// Reads the header. Columns are separated by what separates them there: comma, semicolon or tab.
    pub(super) fn open(mut file: R, assignments: &[Assignment]) -> Result<Self, FileError> {
        let mut begin = Vec::new();
        let broken = |error: io::Error| FileError::Broken { line: 1, reason: error.to_string() };
        file.by_ref().take(BUFFER as u64).read_to_end(&mut begin).map_err(broken)?;
        let text = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begin).to_vec();
        let (delimiter, offset) = (delimiter(&text), u64::from(ends_in_cr(&text)));
        let since_line = Rc::new(Cell::new(0));
        let bounded =
            Bounded { begin: io::Cursor::new(text), rest: file, since_line: since_line.clone() };
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .has_headers(false)
            .buffer_capacity(BUFFER)
            .from_reader(bounded);
        let mut record = ByteRecord::new();
        let header = match reader.read_byte_record(&mut record) {
            Ok(true) => {
                record.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect()
            }
            Ok(false) => Vec::new(),
            Err(error) => {
                return Err(FileError::Broken { line: 1, reason: error.to_string() });
            }
        };
        let mapping = Mapping::new(header.iter().map(String::as_str), assignments)?;
        Ok(Self { reader, since_line, mapping, record, offset })
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Up to so many lines, fewer if they are long; none at the end of the file.
    pub(super) fn next_lines(
        &mut self,
        count: usize,
        bytes: u64,
    ) -> Result<Vec<Result<Person, Fault>>, FileError> {
        let mut lines = Vec::new();
        let full = self.reader.position().byte().saturating_add(bytes);
        while lines.len() < count && self.reader.position().byte() < full {
            self.since_line.set(0);
            let line = self.reader.position().line();
            match self.reader.read_byte_record(&mut self.record) {
                Ok(false) => break,
                Ok(true) => {
                    let line =
                        self.record.position().map_or(line, csv::Position::line) + self.offset;
                    lines.push(self.person(line));
                }
                Err(error) => {
                    return Err(FileError::Broken { line, reason: error.to_string() });
                }
            }
        }
        Ok(lines)
    }

    fn person(&self, line: u64) -> Result<Person, Fault> {
        let cells: Result<Vec<&str>, _> = self.record.iter().map(std::str::from_utf8).collect();
        match cells {
            Ok(cells) => read(&self.mapping, line, cells.into_iter()),
            Err(_) => Err(Fault {
                line,
                column: String::new(),
                reason: "the line is not UTF-8: save the file as UTF-8".to_owned(),
            }),
        }
    }
}

fn ends_in_cr(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    text[..end].ends_with(b"\r")
}

/// The one that separates most names in the first line.
fn delimiter(text: &[u8]) -> u8 {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |delimiter: u8| line.iter().filter(|byte| **byte == delimiter).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',')
}

/// Refuses a line that never ends, before it is in memory.
struct Bounded<R> {
    begin: io::Cursor<Vec<u8>>,
    rest: R,
    /// How much was read since the last line began.
    since_line: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_line.get() > MAX_LINE + BUFFER {
            let reason = "a line has at most 256 KB; is a quote missing?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let mut count = self.begin.read(buffer)?;
        if count == 0 {
            count = self.rest.read(buffer)?;
        }
        self.since_line.set(self.since_line.get() + count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{File, FileError};

    fn lines(text: &[u8]) -> Result<Vec<String>, FileError> {
        let mut file = File::open(text, &[])?;
        let mut shown = Vec::new();
        loop {
            let lines = file.next_lines(2, 1_000)?;
            if lines.is_empty() {
                return Ok(shown);
            }
            shown.extend(lines.into_iter().map(|line| match line {
                Ok(person) => format!("{} {}", person.line, person.email),
                Err(fault) => format!("{} {}", fault.line, fault.reason),
            }));
        }
    }

    #[test]
    fn files_of_every_program_are_read() {
        let expected = ["2 ada@example.org", "3 bob@example.org"];
        for text in [
            "email,plan\nada@example.org,pro\nbob@example.org,\n",
            "email;plan\r\nada@example.org;pro\r\nbob@example.org;x",
            "email\tplan\nada@example.org\tpro\nbob@example.org\t\n",
            "\u{feff}email,plan\nada@example.org,pro\nbob@example.org\n",
            "email\nada@example.org\nbob@example.org\n",
        ] {
            assert_eq!(lines(text.as_bytes()).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_left_out_and_the_rest_is_not() {
        let text = b"email,name\nada@example.org,\"a\nb\"\n\xff@example.org,x\nbob@example.org,x\n";
        let expected = [
            "2 ada@example.org",
            "4 the line is not UTF-8: save the file as UTF-8",
            "5 bob@example.org",
        ];
        assert_eq!(lines(text).unwrap(), expected);
    }

    #[test]
    fn long_lines_come_fewer_at_once() {
        let line = format!("ada@example.org,{}\n", "x".repeat(600));
        let text = format!("email,name\n{}", line.repeat(5));
        let mut file = File::open(std::io::Cursor::new(text), &[]).unwrap();
        let mut next = || file.next_lines(100, 1_000).unwrap().len();
        assert_eq!([next(), next(), next(), next()], [2, 2, 1, 0]);
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
        let endless = format!("email,name\nada@example.org,\"{}", "x".repeat(2_000_000));
        let error = lines(endless.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("at most 256 KB"), "{error}");
    }
}
