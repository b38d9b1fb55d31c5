//! How long to wait before a message is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// After so many tries: twice as long as before, up to a quarter of an hour. A random part of it, at least half,
/// so that what failed together is not tried together. `chance` lies between 0 and 1.
pub fn retry_delay(tries: u32, chance: f64) -> Duration {
    let longest = FIRST.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(LONGEST);
    longest.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::retry_delay;

    #[test]
    fn the_wait_doubles_and_has_an_end() {
        let check = |tries, chance, millis| {
            assert_eq!(
                retry_delay(tries, chance),
                Duration::from_millis(millis),
                "{tries} {chance}"
            );
        };
        check(1, 0.0, 500);
        check(1, 1.0, 1_000);
        check(2, 1.0, 2_000);
        check(5, 0.5, 12_000);
        check(11, 1.0, 900_000);
        check(u32::MAX, 1.0, 900_000);
        check(0, 1.0, 1_000);
    }
}
