//! The message as DATA wants it: a dot at the beginning of a line doubled, and a dot alone at the end.

use std::borrow::Cow;

use memchr::memmem;

/// What ends a message. The server has it only after the last of these bytes.
const END: &[u8] = b".\r\n";

pub(super) struct Body<'a> {
    /// The message's own bytes, unless a dot had to be doubled.
    text: Cow<'a, [u8]>,
    end: &'static [u8],
}

impl<'a> Body<'a> {
    pub(super) fn new(mime: &'a [u8]) -> Self {
        let end = if mime.ends_with(b"\r\n") { END } else { b"\r\n.\r\n" };
        Self { text: double_dots(mime), end }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len() + self.end.len()
    }

    /// Whether the server cannot take the message for complete if it has got so many bytes.
    pub(super) fn is_unfinished(&self, written: usize) -> bool {
        written + END.len() <= self.len()
    }

    /// What is still to be written after so many bytes, in two pieces.
    pub(super) fn after(&self, written: usize) -> (&[u8], &[u8]) {
        let text = self.text.get(written..).unwrap_or_default();
        let end = self.end.get(written.saturating_sub(self.text.len())..).unwrap_or_default();
        (text, end)
    }
}

/// Some servers take a line feed alone for the end of a line, so the dot after one is doubled as well: nothing inside a
/// message can pass for its end.
fn double_dots(mime: &[u8]) -> Cow<'_, [u8]> {
    let first = mime.first().filter(|byte| **byte == b'.').map(|_| 0);
    let others = memmem::find_iter(mime, b"\n.").map(|place| place + 1);
    let mut dots = first.into_iter().chain(others).peekable();
    if dots.peek().is_none() {
        return Cow::Borrowed(mime);
    }
    let mut doubled = Vec::with_capacity(mime.len() + mime.len() / 64 + 16);
    let mut from = 0;
    for dot in dots {
        doubled.extend_from_slice(mime.get(from..dot).unwrap_or_default());
        doubled.push(b'.');
        from = dot;
    }
    doubled.extend_from_slice(mime.get(from..).unwrap_or_default());
    Cow::Owned(doubled)
}
