//! What a setting can be: its kinds, how each is read from text, and how it is written again.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tidings_kernel::EmailAddress;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The type of a key, with its range.
#[derive(Debug)]
pub enum Kind {
    Choice(&'static [&'static str]),
    Integer {
        min: u64,
        max: u64,
    },
    Duration {
        min: Duration,
        max: Duration,
    },
    Size {
        min: u64,
        max: u64,
    },
    Path,
    /// Anything on one line.
    Text,
    /// The name of a machine or a domain.
    Host,
    Email,
    Address,
    Url {
        schemes: &'static [&'static str],
    },
    LogLevel,
    TablePrefix,
    QueuePrefix,
    /// Some of these words, with commas between them.
    Set(&'static [&'static str]),
    Cron,
    /// ARNs of topics of SNS, with commas between them.
    Topics,
}

/// A setting that was read and found right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Integer(u64),
    Duration(Duration),
    Size(u64),
    Address(SocketAddr),
}

impl Kind {
    /// Reads a value. The error says what is expected, and is a sentence that goes on after the key's name.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        match self {
            Kind::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Kind::Choice(words) => Err(format!("must be {}, not {text:?}", one_of(words))),
            Kind::Integer { min, max } => {
                let number = text.parse().map_err(|_| format!("must be a number, not {text:?}"))?;
                within(number, *min, *max).map(Value::Integer)
            }
            Kind::Duration { min, max } => {
                let duration = parse_duration(text).ok_or_else(|| {
                    format!("must be a time with its unit, such as \"30s\" or \"5m\", not {text:?}")
                })?;
                if (*min..=*max).contains(&duration) {
                    Ok(Value::Duration(duration))
                } else {
                    let (min, max) = (Value::Duration(*min), Value::Duration(*max));
                    Err(format!("must be between {min} and {max}, not {text}"))
                }
            }
            Kind::Size { min, max } => {
                let bytes = parse_size(text).ok_or_else(|| {
                    format!("must be a size with its unit, such as \"64MB\", not {text:?}")
                })?;
                if (*min..=*max).contains(&bytes) {
                    Ok(Value::Size(bytes))
                } else {
                    let (min, max) = (Value::Size(*min), Value::Size(*max));
                    Err(format!("must be between {min} and {max}, not {text}"))
                }
            }
            Kind::Path => Ok(Value::Text(text.to_owned())),
            // The value itself may be a secret, and stays out of the message.
            Kind::Text if text.chars().any(char::is_control) => Err("must be one line".to_owned()),
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::Host => {
                let allowed =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
                if (1..=253).contains(&text.len()) && text.chars().all(allowed) {
                    Ok(Value::Text(text.to_owned()))
                } else {
                    Err(format!("must be a name such as \"mail.example.org\", not {text:?}"))
                }
            }
            Kind::Email => match text.parse::<EmailAddress>() {
                Ok(address) => Ok(Value::Text(address.to_string())),
                Err(error) => Err(format!("is no address: {error}")),
            },
            Kind::Address => text.parse().map(Value::Address).map_err(|_| {
                format!("must be an address and a port, such as \"127.0.0.1:8080\", not {text:?}")
            }),
            Kind::Url { schemes } => parse_url(text, schemes),
            Kind::LogLevel if is_log_level(text) => Ok(Value::Text(text.to_owned())),
            Kind::LogLevel => Err(format!(
                "must be error, warn, info, debug or trace, alone or per module \
                 (\"info,tidings_sql=debug\"), not {text:?}"
            )),
            Kind::Set(words) => parse_set(text, words),
            Kind::Cron => match tidings_jobs::check_cron(text) {
                Ok(()) => Ok(Value::Text(text.to_owned())),
                Err(error) => Err(format!("cannot be read: {error}")),
            },
            Kind::Topics => parse_topics(text),
            Kind::QueuePrefix => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                if text.len() <= 40 && text.chars().all(allowed) {
                    Ok(Value::Text(text.to_owned()))
                } else {
                    Err("must be at most 40 letters, digits, '-' and '_'".to_owned())
                }
            }
            Kind::TablePrefix => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
                if text.len() <= 64 && text.chars().all(allowed) {
                    Ok(Value::Text(text.to_owned()))
                } else {
                    Err("must be at most 64 letters, digits, '-', '_' and '.'".to_owned())
                }
            }
        }
    }

    /// What the template says below the doc, where the doc does not say it already.
    pub(super) fn describe(&self) -> Option<String> {
        match self {
            Kind::Choice(words) => Some(format!("One of {}.", words.join(", "))),
            Kind::Integer { min, max } => Some(format!("From {min} to {max}.")),
            Kind::Duration { min, max } => {
                Some(format!("From {} to {}.", Value::Duration(*min), Value::Duration(*max)))
            }
            Kind::Size { min, max } => {
                Some(format!("From {} to {}.", Value::Size(*min), Value::Size(*max)))
            }
            Kind::Set(words) => Some(format!("Some of {}, with commas between.", words.join(", "))),
            Kind::Path
            | Kind::Text
            | Kind::Host
            | Kind::Email
            | Kind::Address
            | Kind::Url { .. }
            | Kind::LogLevel
            | Kind::TablePrefix
            | Kind::QueuePrefix
            | Kind::Cron
            | Kind::Topics => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Address(address) => write!(f, "{address}"),
            Value::Duration(duration) => {
                let (count, unit) = largest_unit(duration.as_millis() as u64, &DURATION_UNITS);
                write!(f, "{count}{unit}")
            }
            Value::Size(bytes) => {
                let (count, unit) = largest_unit(*bytes, &SIZE_UNITS);
                write!(f, "{count}{unit}")
            }
        }
    }
}

/// In milliseconds, the largest first.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// In bytes, the largest first. As databases do it, a MB is 1024 KB.
const SIZE_UNITS: [(&str, u64); 4] =
    [("GB", 1024 * 1024 * 1024), ("MB", 1024 * 1024), ("KB", 1024), ("B", 1)];

fn parse_topics(text: &str) -> Result<Value, String> {
    let is_topic = |topic: &str| {
        let parts: Vec<_> = topic.split(':').collect();
        let [arn, partition, service, region, account, name] = parts[..] else { return false };
        let plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part.chars().all(allowed)
        };
        arn == "arn"
            && service == "sns"
            && [partition, region, account, name].into_iter().all(plain)
    };
    let topics: Vec<_> = text.split(',').map(str::trim).collect();
    if topics.iter().all(|topic| is_topic(topic)) {
        Ok(Value::Text(topics.join(",")))
    } else {
        Err(format!(
            "must be ARNs such as \"arn:aws:sns:eu-west-1:123456789012:ses-events\", \
             with commas between, not {text:?}"
        ))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    parse_with_unit(text, &DURATION_UNITS).map(Duration::from_millis)
}

fn parse_size(text: &str) -> Option<u64> {
    parse_with_unit(text, &SIZE_UNITS)
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let (_, factor) =
        units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim_start()))?;
    count.parse::<u64>().ok()?.checked_mul(*factor)
}

fn largest_unit<'a>(amount: u64, units: &[(&'a str, u64)]) -> (u64, &'a str) {
    if amount == 0 {
        // "0s", not "0d" and not "0ms".
        return (0, units[units.len() - 2].0);
    }
    let (unit, factor) = units
        .iter()
        .find(|(_, factor)| amount.is_multiple_of(*factor))
        .expect("the last unit is 1");
    (amount / factor, unit)
}

fn parse_url(text: &str, schemes: &[&str]) -> Result<Value, String> {
    let expected = || {
        let forms: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}://…")).collect();
        // The value itself may be a secret, and stays out of the message.
        format!("must be a URL: {}", forms.join(" or "))
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
    let printable = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if schemes.contains(&scheme) && !rest.is_empty() && printable {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(expected())
    }
}

fn parse_set(text: &str, words: &[&str]) -> Result<Value, String> {
    let chosen: Vec<_> = text.split(',').map(str::trim).collect();
    match chosen.iter().find(|word| !words.contains(word)) {
        None => Ok(Value::Text(chosen.join(","))),
        Some(word) => Err(format!("must be some of {}, not {word:?}", words.join(", "))),
    }
}

/// The filter itself would take `loud` for the name of a module, and log nothing else.
fn is_log_level(text: &str) -> bool {
    let level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let parts_are_right = text.split(',').all(|part| match part.split_once('=') {
        Some((_, word)) => level(word),
        None => level(part),
    });
    parts_are_right && text.parse::<Targets>().is_ok()
}

fn within(number: u64, min: u64, max: u64) -> Result<u64, String> {
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!("must be between {min} and {max}, not {number}"))
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
