//! Answers off the wire: what a server says comes in pieces of any size, and is no longer than we put up with.

use memchr::memchr;

use super::answer::{Answer, Fault};

/// The standard allows 512 bytes for a line. Some servers need more, none needs this.
const MAX_LINE: usize = 2_000;
const MAX_LINES: usize = 100;
/// How much is read at once: more than a line, so that there is always room for the rest of one.
const ROOM: usize = 4_096;

/// What has come and was not asked for yet. It never holds more than its room.
pub(super) struct Heard {
    bytes: Vec<u8>,
    /// How many of them are understood.
    read: usize,
    /// An answer whose last line is still to come, and how many lines it has.
    open: Option<(Answer, usize)>,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(ROOM), read: 0, open: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.read == self.bytes.len() && self.open.is_none()
    }

    /// Where to put what comes next, after `next` has found nothing more.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.read);
        self.read = 0;
        &mut self.bytes
    }

    /// The next whole answer, if it has come.
    pub(super) fn next(&mut self) -> Result<Option<Answer>, Fault> {
        loop {
            let rest = self.bytes.get(self.read..).unwrap_or_default();
            let Some(length) = memchr(b'\n', rest) else {
                if rest.len() > MAX_LINE {
                    return Err(Fault::Wrong("the server's line has no end"));
                }
                return Ok(None);
            };
            let line = rest.get(..length).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > MAX_LINE {
                return Err(Fault::Wrong("the server's line has no end"));
            }
            let (code, is_last, text) =
                parse(line).ok_or(Fault::Wrong("the server does not speak SMTP"))?;
            let text = clean(text);
            self.read += length + 1;

            let (answer, lines) = match self.open.take() {
                None => (Answer { code, text }, 1),
                Some((answer, _)) if answer.code != code => {
                    return Err(Fault::Wrong("the server gave one answer with two codes"));
                }
                Some((_, MAX_LINES..)) => {
                    return Err(Fault::Wrong("the server's answer has no end"));
                }
                Some((mut answer, lines)) => {
                    answer.text.push('\n');
                    answer.text.push_str(&text);
                    (answer, lines + 1)
                }
            };
            if is_last {
                return Ok(Some(answer));
            }
            self.open = Some((answer, lines));
        }
    }
}

/// `250-first`, `250 last`, and `250` of servers that have nothing to add.
fn parse(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (digits, rest) = line.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) || !(b'2'..=b'5').contains(digits.first()?) {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match rest.split_first() {
        None => Some((code, true, rest)),
        Some((b' ', text)) => Some((code, true, text)),
        Some((b'-', text)) => Some((code, false, text)),
        Some(_) => None,
    }
}

/// It is kept and shown, so it must be text.
fn clean(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
