//! What is wrong with a definition: where, and what to do about it.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, as a JSON pointer: `/steps/2/then/0/send`. Empty for the whole.
    pub pointer: String,
    /// The line of the file, if it came from one.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Fault {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), line: None, message: message.into() }
    }

    /// Where, as people write it: `steps[2].then[0].send`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for part in self.pointer.split('/').skip(1) {
            if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
                path.push_str(&format!("[{part}]"));
                continue;
            }
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
        path
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(&self.message)
    }
}

/// The pointer of what is called `name` within what is at `pointer`. Names come from outside, and may be long.
pub(super) fn within(pointer: &str, name: &str) -> String {
    let name: String = name.chars().take(100).collect();
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
