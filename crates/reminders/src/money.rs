//! Amounts of money: exact decimals with a currency. Nothing is ever rounded.

use std::fmt;
use std::str::FromStr;

use tidings_kernel::Number;

/// So large an amount can be, in digits before the point.
const MAX_WHOLE: usize = 15;

/// The currencies of ISO 4217 that are in use, and how many digits of each follow the point where it is not two.
const CODES: &str = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD \
    CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD \
    GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD \
    LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR \
    PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD \
    TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";
const WITHOUT: &str = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
const WITH_THREE: &str = "BHD IQD JOD KWD LYD OMR TND";
const WITH_FOUR: &str = "CLF UYW";

/// A currency by its ISO 4217 code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

/// An amount that is not below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    pub amount: Number,
    pub currency: Currency,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("use the ISO 4217 code of a currency in use, such as EUR")]
    Currency,
    #[error(
        "use a decimal above 0 with at most {MAX_WHOLE} digits before the point, such as 1500.00"
    )]
    Amount,
    #[error("{0} has at most {1} digits after the point")]
    Digits(Currency, usize),
}

impl Currency {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// How many digits follow the point.
    pub fn digits(self) -> usize {
        let is_of = |codes: &str| codes.split(' ').any(|code| code == self.as_str());
        if is_of(WITHOUT) {
            0
        } else if is_of(WITH_THREE) {
            3
        } else if is_of(WITH_FOUR) {
            4
        } else {
            2
        }
    }
}

impl Money {
    /// What somebody owes or has paid: above zero, and no finer than its currency.
    pub fn new(amount: &str, currency: &str) -> Result<Self, MoneyError> {
        let currency: Currency = currency.parse()?;
        let number: Number = amount.trim().parse().map_err(|_| MoneyError::Amount)?;
        let text = number.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        if number <= Number::ZERO || text.contains('E') || whole.len() > MAX_WHOLE {
            return Err(MoneyError::Amount);
        }
        if fraction.len() > currency.digits() {
            return Err(MoneyError::Digits(currency, currency.digits()));
        }
        Ok(Self { amount: number, currency })
    }

    /// The amount as people write it in this currency: `1500.00`.
    pub fn digits(&self) -> String {
        let text = self.amount.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        match self.currency.digits().max(fraction.len()) {
            0 => whole.to_owned(),
            width => format!("{whole}.{fraction:0<width$}"),
        }
    }

    /// `None` if the currencies differ.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let sum = self.amount.checked_add(other.amount).ok()?;
        (self.currency == other.currency).then_some(Self { amount: sum, currency: self.currency })
    }

    /// `None` if the currencies differ, or if what is left would be below zero.
    pub(crate) fn less(&self, other: &Self) -> Option<Self> {
        let negative: Number = format!("-{}", other.amount).parse().ok()?;
        let left = self.amount.checked_add(negative).ok()?;
        let fits = self.currency == other.currency && left >= Number::ZERO;
        fits.then_some(Self { amount: left, currency: self.currency })
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let known = CODES.split(' ').any(|code| !code.is_empty() && code == text);
        let code = text.as_bytes().try_into().ok().filter(|_| known);
        code.map(Self).ok_or(MoneyError::Currency)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.digits(), self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::{Currency, Money};

    #[test]
    fn amounts_are_exact_and_written_as_people_do() {
        for (amount, currency, written) in [
            ("1500.00", "EUR", "1500.00 EUR"),
            ("1500", "EUR", "1500.00 EUR"),
            ("0.1", "EUR", "0.10 EUR"),
            ("0.01", "EUR", "0.01 EUR"),
            ("150000", "JPY", "150000 JPY"),
            ("1.5", "KWD", "1.500 KWD"),
            ("999999999999999.99", "USD", "999999999999999.99 USD"),
            (" 7 ", "USD", "7.00 USD"),
        ] {
            assert_eq!(Money::new(amount, currency).unwrap().to_string(), written);
        }
        for (amount, currency) in [
            ("0", "EUR"),
            ("-1", "EUR"),
            ("1.001", "EUR"),
            ("1.5", "JPY"),
            ("1e30", "EUR"),
            ("1000000000000000", "EUR"),
            ("1,5", "EUR"),
            ("", "EUR"),
            ("1", "eur"),
            ("1", "XXX"),
            ("1", ""),
        ] {
            assert!(Money::new(amount, currency).is_err(), "{amount} {currency}");
        }
    }

    #[test]
    fn what_is_left_is_exact() {
        let money = |amount| Money::new(amount, "EUR").unwrap();
        assert_eq!(money("0.3").less(&money("0.1")), Some(money("0.2")));
        assert_eq!(money("0.1").less(&money("0.3")), None);
        assert_eq!(money("1").less(&Money::new("1", "USD").unwrap()), None);
        assert_eq!("CLF".parse::<Currency>().unwrap().digits(), 4);
    }
}
