//! What changes between two texts, line by line, as far as somebody wants to read it.

/// So many lines are shown; how many more there are is said.
const SHOWN: usize = 100;
/// So much is shown of a line.
const WIDTH: usize = 200;
/// Texts that differ in more than this (lines before times lines after) are shown as wholly replaced: looking for what
/// they share would take too long.
const MOST_COMPARED: usize = 1_000_000;

/// Lines that go and come, by the part that they are in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Diff {
    pub(super) added: usize,
    pub(super) removed: usize,
    shown: Vec<String>,
}

impl Diff {
    /// Compares a part and adds what differs.
    pub(super) fn compare(&mut self, part: &str, before: &str, after: &str) {
        let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
        let changes = changes(&before, &after);
        if changes.is_empty() {
            return;
        }
        self.shown.push(format!("@ {part}"));
        for (sign, line) in changes {
            match sign {
                Sign::Removed => self.removed += 1,
                Sign::Added => self.added += 1,
            }
            let shown: String = line.chars().take(WIDTH).collect();
            self.shown.push(format!("{}{shown}", sign.as_str()));
        }
    }

    /// `-` is a line that goes and `+` one that comes, after `@` and the part that they are in.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.shown.iter().take(SHOWN).cloned().collect();
        if self.shown.len() > SHOWN {
            lines.push(format!("… {} more", self.shown.len() - SHOWN));
        }
        lines
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Removed,
    Added,
}

impl Sign {
    fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "-",
            Self::Added => "+",
        }
    }
}

/// The fewest lines that go and come, in their order.
fn changes<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<(Sign, &'a str)> {
    let same_start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (before, after) = (&before[same_start..], &after[same_start..]);
    let ends = before.iter().rev().zip(after.iter().rev());
    let same_end = ends.take_while(|(one, other)| one == other).count();
    let (before, after) = (&before[..before.len() - same_end], &after[..after.len() - same_end]);
    if before.len().saturating_mul(after.len()) > MOST_COMPARED {
        let removed = before.iter().map(|line| (Sign::Removed, *line));
        return removed.chain(after.iter().map(|line| (Sign::Added, *line))).collect();
    }
    walk(before, after)
}

/// By the longest list of lines that both have in the same order.
fn walk<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<(Sign, &'a str)> {
    let width = after.len() + 1;
    // How many lines the rests have in common, from each pair of places on.
    let mut common = vec![0_u32; (before.len() + 1) * width];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i * width + j] = match before[i] == after[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == after.len()
            || (i < before.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            found.push((Sign::Removed, before[i]));
            i += 1;
        } else {
            found.push((Sign::Added, after[j]));
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Diff, SHOWN};

    fn check(before: &str, after: &str, lines: &[&str]) {
        let mut diff = Diff::default();
        diff.compare("html", &before.replace(' ', "\n"), &after.replace(' ', "\n"));
        assert_eq!(diff.lines(), lines, "{before} | {after}");
    }

    #[test]
    fn only_what_differs_is_shown_in_its_order() {
        check("a b c", "a b c", &[]);
        check("a b c", "a x c", &["@ html", "-b", "+x"]);
        check("a b c", "b a c", &["@ html", "-a", "+a"]);
        check("a b", "a b c d", &["@ html", "+c", "+d"]);
        check("a b c d e", "c e", &["@ html", "-a", "-b", "-d"]);
        check("", "a", &["@ html", "+a"]);
    }

    #[test]
    fn much_is_cut_and_counted() {
        let long: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
        let other: String = (0..3_000).map(|line| format!("other {line}\n")).collect();
        let mut diff = Diff::default();
        diff.compare("text", &long, &other);
        assert_eq!((diff.removed, diff.added), (3_000, 3_000));
        let lines = diff.lines();
        assert_eq!((lines.len(), lines[SHOWN].as_str()), (SHOWN + 1, "… 5901 more"));
    }
}
