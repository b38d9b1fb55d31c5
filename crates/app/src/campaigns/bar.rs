//! A campaign's progress as a line: how far, how fast, how long still. Pure.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// The rate is that of the last so many milliseconds.
const WINDOW_MS: i64 = 15_000;
/// A rate of less than this much time says nothing.
const LEAST_MS: i64 = 900;
/// How wide the bar itself is.
const WIDTH: i64 = 24;

/// What was seen of a campaign at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) at: Timestamp,
    pub(super) ended: i64,
    pub(super) total: i64,
    pub(super) sent: i64,
    /// Whether more may come to the total.
    pub(super) counting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pace {
    seen: VecDeque<(Timestamp, i64)>,
}

impl Pace {
    pub(super) fn see(&mut self, at: Timestamp, ended: i64) {
        // Who fails and is tried again has no end any more.
        if self.seen.back().is_some_and(|(_, before)| *before > ended) {
            self.seen.clear();
        }
        self.seen.push_back((at, ended));
        while self.seen.len() > 2
            && self.seen.get(1).is_some_and(|(second, _)| millis(at, *second) >= WINDOW_MS)
        {
            self.seen.pop_front();
        }
    }

    /// How many in a second. `None` while that cannot be said.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let took = millis(last.0, first.0);
        (took >= LEAST_MS).then(|| (last.1 - first.1) as f64 * 1000.0 / took as f64)
    }

    pub(super) fn left(&self, seen: &Seen) -> Option<SignedDuration> {
        let rate = self.rate().filter(|rate| *rate > 0.0)?;
        let seconds = (seen.total - seen.ended).max(0) as f64 / rate;
        (seconds < 3_153_600_000.0).then(|| SignedDuration::from_secs(seconds.ceil() as i64))
    }
}

fn millis(later: Timestamp, earlier: Timestamp) -> i64 {
    later.as_millisecond() - earlier.as_millisecond()
}

/// `sending [######>       ] 1,200 of 5,000  24 %  310/s  12s left`
pub(super) fn line(status: &str, seen: &Seen, pace: &Pace) -> String {
    let percent = percent(seen);
    let full = percent * WIDTH / 100;
    let bar: String = (0..WIDTH)
        .map(|place| match place {
            place if place < full => '#',
            place if place == full && percent > 0 => '>',
            _ => ' ',
        })
        .collect();
    let more = if seen.counting { "+" } else { "" };
    let mut line = format!(
        "{status} [{bar}] {} of {}{more}  {percent} %",
        grouped(seen.ended),
        grouped(seen.total)
    );
    if let Some(rate) = pace.rate() {
        line.push_str(&format!("  {}/s", rate_text(rate)));
    }
    if let Some(left) = pace.left(seen).filter(|_| !seen.counting && seen.ended < seen.total) {
        line.push_str(&format!("  {} left", long(left)));
    }
    line
}

pub(super) fn percent(seen: &Seen) -> i64 {
    if seen.total <= 0 { 0 } else { (seen.ended * 100 / seen.total).clamp(0, 100) }
}

fn rate_text(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { grouped(rate.round() as i64) }
}

/// `1,234,567`
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// `2d 3h`, `4m 5s`, `6s`
pub(crate) fn long(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest}s"),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{Pace, Seen, grouped, line, long};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_900_000_000_000 + ms).unwrap()
    }

    fn seen(ms: i64, ended: i64, total: i64) -> Seen {
        Seen { at: at(ms), ended, total, sent: ended, counting: false }
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let mut pace = Pace::default();
        pace.see(at(0), 0);
        assert_eq!(
            line("sending", &seen(0, 0, 5_000), &pace),
            "sending [                        ] 0 of 5,000  0 %"
        );
        pace.see(at(2_000), 600);
        assert_eq!(
            line("sending", &seen(2_000, 600, 5_000), &pace),
            "sending [##>                     ] 600 of 5,000  12 %  300/s  15s left"
        );
        let counting = Seen { counting: true, ..seen(2_000, 600, 5_000) };
        assert_eq!(
            line("snapshotting", &counting, &pace),
            "snapshotting [##>                     ] 600 of 5,000+  12 %  300/s"
        );
        assert_eq!(
            line("sent", &seen(2_000, 5_000, 5_000), &pace),
            "sent [########################] 5,000 of 5,000  100 %  300/s"
        );
    }

    #[test]
    fn the_rate_is_that_of_the_last_moments() {
        let mut pace = Pace::default();
        for second in 0..60 {
            let ended = if second < 30 { second * 1_000 } else { 30_000 + (second - 30) * 10 };
            pace.see(at(second * 1_000), ended);
        }
        assert_eq!(pace.rate(), Some(10.0));
        // Some are tried again.
        pace.see(at(60_000), 5);
        assert_eq!(pace.rate(), None);
    }

    #[test]
    fn numbers_and_times_are_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        for (seconds, text) in
            [(6, "6s"), (245, "4m 5s"), (7_260, "2h 1m"), (2 * 86_400 + 3 * 3_600, "2d 3h")]
        {
            assert_eq!(long(SignedDuration::from_secs(seconds)), text);
        }
    }
}
