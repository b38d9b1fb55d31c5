//! DynamoDB's number: an exact decimal of up to 38 significant digits, from 1E-130 to 9.99E+125.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const MAX_DIGITS: usize = 38;
const MAX_MAGNITUDE: i64 = 125;
const MIN_MAGNITUDE: i64 = -130;

/// `coefficient × 10^exponent`, without trailing zeros in the coefficient, so that equal numbers are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    coefficient: i128,
    exponent: i16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    #[error("{0:?} is not a number")]
    Malformed(String),
    #[error("a number can have at most 38 significant digits")]
    TooPrecise,
    #[error("a number must lie between 1E-130 and 9.99E+125, or be 0")]
    OutOfRange,
}

impl Number {
    pub const ZERO: Self = Self { coefficient: 0, exponent: 0 };

    fn normalised(mut coefficient: i128, mut exponent: i32) -> Result<Self, NumberError> {
        if coefficient == 0 {
            return Ok(Self::ZERO);
        }
        while coefficient % 10 == 0 {
            coefficient /= 10;
            exponent = exponent.saturating_add(1);
        }
        let digits = count_digits(coefficient);
        if digits > MAX_DIGITS {
            return Err(NumberError::TooPrecise);
        }
        let magnitude = i64::from(exponent) + digits as i64 - 1;
        if !(MIN_MAGNITUDE..=MAX_MAGNITUDE).contains(&magnitude) {
            return Err(NumberError::OutOfRange);
        }
        Ok(Self { coefficient, exponent: exponent as i16 })
    }

    /// The exact sum. An inexact one is refused, never rounded.
    pub fn checked_add(self, other: Self) -> Result<Self, NumberError> {
        if self.coefficient == 0 {
            return Ok(other);
        }
        if other.coefficient == 0 {
            return Ok(self);
        }
        let exponent = self.exponent.min(other.exponent);
        let scaled = |n: Self| {
            10i128
                .checked_pow((n.exponent - exponent) as u32)
                .and_then(|factor| n.coefficient.checked_mul(factor))
                .ok_or(NumberError::TooPrecise)
        };
        let sum = scaled(self)?.checked_add(scaled(other)?).ok_or(NumberError::TooPrecise)?;
        Self::normalised(sum, i32::from(exponent))
    }

    /// The value as an integer, if it is one and fits.
    pub fn to_i64(self) -> Option<i64> {
        let exponent = u32::try_from(self.exponent).ok()?;
        let value = 10i128.checked_pow(exponent)?.checked_mul(self.coefficient)?;
        i64::try_from(value).ok()
    }

    /// The greatest integer that is not above the value, clamped to the range of `i64`.
    pub fn floor(self) -> i64 {
        if self.exponent >= 0 {
            let clamped = if self.coefficient < 0 { i64::MIN } else { i64::MAX };
            return self.to_i64().unwrap_or(clamped);
        }
        let quotient = match 10i128.checked_pow(u32::from(self.exponent.unsigned_abs())) {
            Some(divisor) => self.coefficient.div_euclid(divisor),
            None if self.coefficient < 0 => -1,
            None => 0,
        };
        quotient.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    pub(super) fn significant_digits(self) -> usize {
        count_digits(self.coefficient)
    }

    pub(super) fn exponent(self) -> i16 {
        self.exponent
    }

    /// The size that DynamoDB charges: a byte for two digits, and one more (two for a negative number).
    pub(crate) fn size(self) -> usize {
        self.significant_digits().div_ceil(2) + 1 + usize::from(self.coefficient < 0)
    }
}

fn digits(coefficient: i128) -> String {
    coefficient.unsigned_abs().to_string()
}

/// Nearly all numbers are small, for which it takes far less time.
fn count_digits(coefficient: i128) -> usize {
    let coefficient = coefficient.unsigned_abs();
    let log = match u64::try_from(coefficient) {
        Ok(small) => small.checked_ilog10(),
        Err(_) => coefficient.checked_ilog10(),
    };
    log.map_or(1, |log| log as usize + 1)
}

impl From<i64> for Number {
    /// 19 digits are within the limits.
    fn from(value: i64) -> Self {
        let (mut coefficient, mut exponent) = (value, 0);
        while coefficient != 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        Self { coefficient: i128::from(coefficient), exponent }
    }
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let malformed = || NumberError::Malformed(text.chars().take(64).collect());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().map_err(|_| malformed())?),
            None => (text, 0i32),
        };
        let negative = mantissa.starts_with('-');
        let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return Err(malformed());
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0').trim_end_matches('0');
        if significant.len() > MAX_DIGITS {
            return Err(NumberError::TooPrecise);
        }
        if significant.is_empty() {
            return Ok(Self::ZERO);
        }
        let trailing_zeros = all.len() - all.trim_end_matches('0').len();
        let coefficient: i128 = significant.parse().expect("38 digits fit");
        let exponent = i64::from(exponent) + trailing_zeros as i64 - fraction.len() as i64;
        let exponent = i32::try_from(exponent).map_err(|_| NumberError::OutOfRange)?;
        Self::normalised(if negative { -coefficient } else { coefficient }, exponent)
    }
}

impl fmt::Display for Number {
    /// Plain digits where a person would write them, `15E98` where he would not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = digits(self.coefficient);
        let sign = if self.coefficient < 0 { "-" } else { "" };
        let exponent = i32::from(self.exponent);
        let plain_length = digits.len() as i32 + exponent.max(0);
        if exponent >= 0 && plain_length <= MAX_DIGITS as i32 {
            write!(f, "{sign}{digits}{}", "0".repeat(exponent as usize))
        } else if exponent < 0 && -exponent <= MAX_DIGITS as i32 {
            let point = -exponent as usize;
            let padded = format!("{digits:0>width$}", width = point + 1);
            let (whole, fraction) = padded.split_at(padded.len() - point);
            write!(f, "{sign}{whole}.{fraction}")
        } else {
            write!(f, "{sign}{digits}E{exponent}")
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.coefficient.signum().cmp(&other.coefficient.signum());
        if by_sign.is_ne() || self.coefficient == 0 {
            return by_sign;
        }
        let (a, b) = (digits(self.coefficient), digits(other.coefficient));
        let magnitude = |digits: &str, n: &Self| i32::from(n.exponent) + digits.len() as i32;
        // With the magnitudes equal and no trailing zeros, digits compare like text.
        let by_size = magnitude(&a, self).cmp(&magnitude(&b, other)).then_with(|| a.cmp(&b));
        if self.coefficient < 0 { by_size.reverse() } else { by_size }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, NumberError};

    fn n(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn equal_numbers_have_one_form() {
        for (text, form) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("0e999999", "0"),
            ("007", "7"),
            ("1500.00", "1500"),
            ("1.5e3", "1500"),
            ("-0.050", "-0.05"),
            (".5", "0.5"),
            ("1E+125", "1E125"),
            ("-15e-60", "-15E-60"),
            ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ] {
            assert_eq!(n(text).to_string(), form);
            assert_eq!(n(form), n(text));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for bad in ["", "-", ".", "1e", "1.2.3", "0x1", " 1", "NaN", "１"] {
            assert!(matches!(bad.parse::<Number>(), Err(NumberError::Malformed(_))), "{bad}");
        }
        assert_eq!("1".repeat(39).parse::<Number>(), Err(NumberError::TooPrecise));
        assert_eq!("1e126".parse::<Number>(), Err(NumberError::OutOfRange));
        assert_eq!("1e-131".parse::<Number>(), Err(NumberError::OutOfRange));
        assert_eq!("1e2147483647".parse::<Number>(), Err(NumberError::OutOfRange));
        assert_eq!("1e99999999999".parse::<Number>().ok(), None);
        assert_eq!(n("1e125").checked_add(n("1e-130")), Err(NumberError::TooPrecise));
        assert_eq!(n("9e125").checked_add(n("9e125")), Err(NumberError::OutOfRange));
    }

    #[test]
    fn sums_are_exact() {
        for (a, b, sum) in [
            ("0.1", "0.2", "0.3"),
            ("1", "-1", "0"),
            ("99999999999999999999999999999999999999", "1", "1e38"),
            ("1e30", "1e-7", "1000000000000000000000000000000.0000001"),
        ] {
            assert_eq!(n(a).checked_add(n(b)), Ok(n(sum)));
        }
    }

    #[test]
    fn numbers_sort_by_value() {
        let sorted =
            ["-1e100", "-20", "-3", "-0.5", "0", "1e-130", "0.5", "3", "20", "21", "1e100"];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(n(a).cmp(&n(b)), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn floors_and_integers() {
        for (text, floor) in
            [("1.9", 1), ("-1.1", -2), ("1e-130", 0), ("-1e-130", -1), ("3e2", 300)]
        {
            assert_eq!(n(text).floor(), floor, "{text}");
        }
        assert_eq!(n("1e100").floor(), i64::MAX);
        assert_eq!(n("9223372036854775807").to_i64(), Some(i64::MAX));
        assert_eq!(n("9223372036854775808").to_i64(), None);
        assert_eq!(n("1.5").to_i64(), None);
    }
}
