//! How often a key may be used.

/// So many requests a second in the long run, and so many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error("use a number from 1 to 100000")]
    PerSecond,
    #[error("use a number from 1 to 1000000")]
    Burst,
}

impl Rate {
    pub fn new(per_second: i64, burst: i64) -> Result<Self, RateError> {
        Ok(Self { per_second: per_second_of(per_second)?, burst: burst_of(burst)? })
    }

    /// What a key gets that asks for nothing: the usual, or less if whoever gives it has less.
    #[must_use]
    pub fn default_within(own: Self) -> Self {
        let usual = Self::default();
        Self { per_second: usual.per_second.min(own.per_second), burst: usual.burst.min(own.burst) }
    }

    pub fn per_second(self) -> u32 {
        self.per_second
    }

    pub fn burst(self) -> u32 {
        self.burst
    }
}

impl Default for Rate {
    fn default() -> Self {
        Self { per_second: 100, burst: 200 }
    }
}

fn per_second_of(number: i64) -> Result<u32, RateError> {
    let number = u32::try_from(number).map_err(|_| RateError::PerSecond)?;
    if (1..=100_000).contains(&number) { Ok(number) } else { Err(RateError::PerSecond) }
}

fn burst_of(number: i64) -> Result<u32, RateError> {
    let number = u32::try_from(number).map_err(|_| RateError::Burst)?;
    if (1..=1_000_000).contains(&number) { Ok(number) } else { Err(RateError::Burst) }
}

#[cfg(test)]
mod tests {
    use super::{Rate, RateError};

    #[test]
    fn a_rate_is_positive_and_bounded() {
        for (per_second, burst, expected) in [
            (1, 1, Ok(())),
            (100_000, 1_000_000, Ok(())),
            (0, 1, Err(RateError::PerSecond)),
            (-1, 1, Err(RateError::PerSecond)),
            (100_001, 1, Err(RateError::PerSecond)),
            (1, 0, Err(RateError::Burst)),
            (1, i64::MAX, Err(RateError::Burst)),
        ] {
            assert_eq!(Rate::new(per_second, burst).map(drop), expected, "{per_second} {burst}");
        }
    }
}
