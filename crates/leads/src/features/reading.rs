//! What the payload of an event says: money, moods and names, whatever the sender calls them.
//!
//! Here: reading, with bounds, and nothing that fails: what cannot be read is not there. Not here: what follows from it
//! (`state`, and `memory::derive`).

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use tidings_jobs::contracts::Object;
use tidings_kernel::{Number, hex};

/// More than anybody pays at once.
const MAX_AMOUNT: i64 = 1_000_000_000_000_000;
/// More than any currency has behind the point.
const MAX_DECIMALS: usize = 6;
/// Moods are counted in parts of this, so that their sums are whole numbers.
pub(crate) const MOOD: i64 = 10_000;

/// Stands for the currency where the sender names none.
pub(crate) const NO_CURRENCY: &str = "none";

/// An exact amount: `amount`, or what else senders call it.
pub(crate) fn amount(payload: &Object) -> Option<Number> {
    let named = [
        "amount",
        "total",
        "value",
        "revenue",
        "total_amount",
        "totalAmount",
        "total_price",
        "totalPrice",
        "price",
    ];
    named.into_iter().find_map(|name| number(payload.get(name)?))
}

fn number(json: &Json) -> Option<Number> {
    let text = match json {
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.trim().to_owned(),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
    };
    let number: Number = text.parse().ok()?;
    let plain = number.to_string();
    let decimals = plain.split_once('.').map_or(0, |(_, behind)| behind.len());
    let fits = number.floor().unsigned_abs() <= MAX_AMOUNT.unsigned_abs();
    (fits && decimals <= MAX_DECIMALS && !plain.contains('E')).then_some(number)
}

/// Three letters, in capitals.
pub(crate) fn currency(payload: &Object) -> String {
    named_currency(payload).unwrap_or_else(|| NO_CURRENCY.to_owned())
}

/// The same, if one is named.
pub(crate) fn named_currency(payload: &Object) -> Option<String> {
    let given = payload.get("currency").and_then(Json::as_str)?.trim();
    let is_code = given.len() == 3 && given.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_code.then(|| given.to_ascii_uppercase())
}

/// From -1 to 1, in ten-thousandths: a number, or a word for one.
pub(crate) fn mood(payload: &Object) -> Option<i64> {
    match payload.get("sentiment")? {
        Json::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "positive" => Some(MOOD),
            "neutral" => Some(0),
            "negative" => Some(-MOOD),
            _ => None,
        },
        Json::Number(number) => {
            let number = number.as_f64().filter(|number| (-1.0..=1.0).contains(number))?;
            Some((number * MOOD as f64).round() as i64)
        }
        Json::Object(inner) => mood_of_object(inner),
        Json::Null | Json::Bool(_) | Json::Array(_) => None,
    }
}

/// `{"label": "positive", "score": 0.8}`.
fn mood_of_object(inner: &Object) -> Option<i64> {
    let score = inner.get("score").or_else(|| inner.get("label"))?;
    let mut plain = Object::new();
    plain.insert("sentiment".to_owned(), score.clone());
    if score.is_object() { None } else { mood(&plain) }
}

/// The first of these that is a text or a number, short enough for a key.
pub(crate) fn name(payload: &Object, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| word(payload.get(*name)?))
}

/// A short text, on one line.
pub(crate) fn word(json: &Json) -> Option<String> {
    let text = match json {
        Json::String(text) => text.trim().to_owned(),
        Json::Number(number) => number.to_string(),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
    };
    let fits = (1..=150).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// A name as it is kept in a state: as it is, or its beginning and a hash of it. Others may call things what they like, hundreds of
/// names are kept, and an item has an end.
pub(super) fn short(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let beginning = (0..=40).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{beginning}~{}", &hex(&Sha256::digest(name))[..16])
}

/// A decimal with so many digits behind the point.
pub(crate) fn decimal(value: i64, digits: u32) -> Number {
    format!("{value}e-{digits}").parse().expect("19 digits and a small exponent are a number")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Object, amount, currency, mood, name, short};

    fn object(json: &serde_json::Value) -> Object {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn money_is_read_exactly_or_not_at_all() {
        for (payload, read) in [
            (json!({"amount": 12.5}), Some("12.5")),
            (json!({"amount": "0.10"}), Some("0.1")),
            (json!({"total": 7}), Some("7")),
            (json!({"amount": null, "value": "19.99"}), Some("19.99")),
            (json!({"amount": "1e30"}), None),
            (json!({"amount": "0.1234567"}), None),
            (json!({"amount": "twelve"}), None),
            (json!({"amount": {"value": 1}}), None),
            (json!({}), None),
        ] {
            let told = amount(&object(&payload)).map(|number| number.to_string());
            assert_eq!(told.as_deref(), read, "{payload}");
        }
        assert_eq!(currency(&object(&json!({"currency": " eur "}))), "EUR");
        assert_eq!(currency(&object(&json!({"currency": "Euro"}))), "none");
    }

    #[test]
    fn moods_are_numbers_or_words() {
        for (sentiment, read) in [
            (json!("positive"), Some(10_000)),
            (json!("Negative"), Some(-10_000)),
            (json!(0.25), Some(2_500)),
            (json!({"score": -0.5, "label": "negative"}), Some(-5_000)),
            (json!({"label": "neutral"}), Some(0)),
            (json!(7), None),
            (json!({"score": {"score": 1}}), None),
        ] {
            assert_eq!(mood(&object(&json!({"sentiment": sentiment}))), read, "{sentiment}");
        }
    }

    #[test]
    fn names_are_short_and_on_one_line() {
        let payload = object(&json!({"product": {"id": 1}, "sku": 77, "name": "a\nb"}));
        assert_eq!(name(&payload, &["product", "name", "sku"]).as_deref(), Some("77"));
        assert_eq!(name(&payload, &["name"]), None);
    }

    #[test]
    fn what_is_kept_of_a_name_is_bounded_and_tells_it_from_others() {
        let (one, other) = ("信".repeat(150), format!("{}箱", "信".repeat(149)));
        assert_eq!(short("invoice-7"), "invoice-7");
        assert_ne!(short(&one), short(&other));
        assert!(short(&one).len() <= 64 && short(&one).starts_with("信信"));
        assert!(
            short(&"a".repeat(65)) < short(&"b".repeat(65)),
            "ids keep their order as far as they are kept"
        );
    }
}
